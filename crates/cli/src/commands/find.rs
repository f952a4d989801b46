//! `redis-mq find`.

use redis_mq_client::redis::{self, Cmd, Value};
use serde_json::{Map, Value as Json};

use super::get;
use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, Out},
    reply::{self, Fields},
};

/// Find messages by their ids, or by what is in their payloads.
///
/// It walks through the queue in small steps: a message that is there from the start to the end is
/// found at least once. With --text the payloads are fetched and searched here. Exit code 1 if nothing
/// is found.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// Ids that match: `*`, `?` and `[…]` as in the shell
    #[arg(required_unless_present_any = ["text", "status"])]
    pattern: Option<String>,
    /// Payloads that contain this
    #[arg(long)]
    text: Option<String>,
    /// Messages of this status
    #[arg(long)]
    status: Option<String>,
    /// Stop after that many
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
}

/// Finds them.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let mut found = 0;
    let mut walk = Walk::new(&args.queue, args.status.as_deref(), args.pattern.as_deref());
    while let Some(page) = walk.next(&mut server).await? {
        let with_payload = args.text.is_some() || json;
        let messages = match with_payload {
            true => fetch(&mut server, &args.queue, &page).await?,
            false => Vec::new(),
        };
        for (at, (id, status)) in page.iter().enumerate() {
            // It may have gone meanwhile.
            let message = messages.get(at).and_then(Option::as_ref);
            if let Some(text) = &args.text {
                let payload = message.and_then(|message| message.bytes("payload"));
                if !payload.is_some_and(|payload| contains(payload, text.as_bytes())) {
                    continue;
                }
            }
            match (json, message) {
                (true, Some(message)) => out.line(get::as_json(message))?,
                (true, None) => out.line(bare(id, status))?,
                (false, _) => out.line(format_args!("{}  {status}", output::name(id)))?,
            }
            found += 1;
            if args.count == Some(found) {
                return Ok(Exit::OK);
            }
        }
    }
    Ok(if found == 0 { Exit::NO } else { Exit::OK })
}

fn bare(id: &[u8], status: &str) -> Json {
    let mut object = Map::new();
    output::put_bytes(&mut object, "id", id);
    object.insert("status".into(), status.into());
    Json::Object(object)
}

/// An empty text is in everything.
fn contains(payload: &[u8], text: &[u8]) -> bool {
    text.is_empty() || payload.windows(text.len()).any(|part| part == text)
}

async fn fetch(
    server: &mut Server,
    queue: &str,
    page: &[(Vec<u8>, String)],
) -> Result<Vec<Option<Fields>>, Failure> {
    let ask = |(id, _): &(Vec<u8>, String)| -> Cmd {
        let mut command = redis::cmd("MQ.GET");
        command.arg(queue).arg(id);
        command
    };
    let asked: Vec<_> = page.iter().map(ask).collect();
    let answers = server.call_all(&asked).await?;
    answers
        .into_iter()
        .map(|answer| Ok(Fields::read(&answer?)))
        .collect()
}

/// A walk through all messages of a queue.
pub struct Walk {
    command: Cmd,
    queue: String,
    status: Option<String>,
    pattern: Option<String>,
    /// None at the end.
    cursor: Option<String>,
}

impl Walk {
    /// From the beginning; only messages of that status and with ids of that pattern.
    pub fn new(queue: &str, status: Option<&str>, pattern: Option<&str>) -> Self {
        Self {
            command: redis::cmd("MQ.SCAN"),
            queue: queue.into(),
            status: status.map(Into::into),
            pattern: pattern.map(Into::into),
            cursor: Some("0".into()),
        }
    }

    /// The next ids with their statuses, maybe none; `None` at the end.
    pub async fn next(
        &mut self,
        server: &mut Server,
    ) -> Result<Option<Vec<(Vec<u8>, String)>>, Failure> {
        let Some(cursor) = &self.cursor else {
            return Ok(None);
        };
        let mut command = self.command.clone();
        command.arg(&self.queue).arg(cursor);
        if let Some(status) = &self.status {
            command.arg("STATUS").arg(status);
        }
        if let Some(pattern) = &self.pattern {
            command.arg("MATCH").arg(pattern);
        }
        command.arg("COUNT").arg(1_000);
        let answer = server.call(&command).await?;
        if answer == Value::Nil {
            let queue = output::name(self.queue.as_bytes());
            return Err(Failure::no(format!("no such queue: {queue}")));
        }
        let (cursor, page) = read(&answer).ok_or_else(|| Failure::unexpected("MQ.SCAN"))?;
        self.cursor = (cursor != "0").then_some(cursor);
        Ok(Some(page))
    }
}

/// Ids with their statuses.
pub type Page = Vec<(Vec<u8>, String)>;

/// The next cursor and the messages of a reply to MQ.SCAN.
pub fn read(answer: &Value) -> Option<(String, Page)> {
    let [cursor, messages] = reply::items(answer)? else {
        return None;
    };
    let cursor = match cursor {
        Value::Int(number) => number.to_string(),
        other => reply::text(other)?,
    };
    let message = |message: &Value| {
        let [id, status] = reply::items(message)? else {
            return None;
        };
        Some((reply::bytes(id)?.to_vec(), reply::text(status)?))
    };
    let messages = reply::items(messages)?.iter().map(message);
    Some((cursor, messages.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_wherever_it_stands() {
        assert!(contains(b"abc", b"c") && contains(b"abc", b"abc") && contains(b"", b""));
        assert!(!contains(b"ab", b"abc") && !contains(b"", b"a"));
    }
}
