//! `redis-mq peek`.

use redis_mq_client::redis::{self, Value};

use super::get;
use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, summary, Out},
    reply::{self, Fields},
};

/// Show the next deliveries, or the messages of a status, without taking them.
///
/// Exit code 1 if there is no such queue, or nothing to show.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// Messages of this status, as in `queued-with-backoff`, `locked` or `dead`
    #[arg(long)]
    status: Option<String>,
    #[command(flatten)]
    page: Page,
    /// From the other end
    #[arg(long)]
    reverse: bool,
}

/// What part is shown, and how.
#[derive(Debug, clap::Args)]
pub struct Page {
    /// At most that many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub count: u32,
    /// Go on behind that message
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
    /// Show all of each message, as `get` does
    #[arg(long)]
    pub full: bool,
}

/// Shows them.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let status = args.status.as_deref();
    show(
        &mut server,
        &args.queue,
        status,
        args.reverse,
        &args.page,
        json,
    )
    .await
}

/// Shows a page of messages.
pub async fn show(
    server: &mut Server,
    queue: &str,
    status: Option<&str>,
    reverse: bool,
    page: &Page,
    json: bool,
) -> Result<Exit, Failure> {
    let mut command = redis::cmd("MQ.PEEK");
    command.arg(queue);
    if let Some(status) = status {
        command.arg("STATUS").arg(status);
    }
    command.arg("COUNT").arg(page.count);
    if let Some(id) = &page.after {
        command.arg("AFTER").arg(id);
    }
    if reverse {
        command.arg("REV");
    }
    let answer = server.call(&command).await?;
    if answer == Value::Nil {
        let queue = output::name(queue.as_bytes());
        return Err(Failure::no(format!("no such queue: {queue}")));
    }
    let messages: Option<Vec<_>> =
        reply::items(&answer).and_then(|all| all.iter().map(Fields::read).collect());
    let messages = messages.ok_or_else(|| Failure::unexpected("MQ.PEEK"))?;
    if messages.is_empty() {
        return Ok(Exit::NO);
    }
    let mut out = Out::new();
    if json || page.full {
        for message in &messages {
            match json {
                true => out.line(get::as_json(message))?,
                false => get::print(message, &mut out)?,
            }
        }
    } else {
        summary::print(&messages, &mut out)?;
    }
    Ok(Exit::OK)
}
