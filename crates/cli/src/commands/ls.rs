//! `redis-mq ls`.

use redis_mq_client::redis::{self, Cmd};
use serde_json::{Map, Value as Json};

use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, table::Table, Out},
    reply::Fields,
};

/// List the queues with what is in them.
///
/// READY waits for a consumer, DELAYED for its time, LOCKED is being worked on, DEAD gave up, OLDEST
/// is how long the oldest ready message waits. Keys are looked for with SCAN in small steps, never
/// with KEYS.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only queues whose name matches: `*` and `?` as in the shell
    pattern: Option<String>,
}

/// Lists the queues.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let names = server.queues(args.pattern.as_deref()).await?;
    let asked: Vec<Cmd> = names.iter().map(|name| ask(name)).collect();
    let answers = server.call_all(&asked).await?;
    let mut out = Out::new();
    let mut table = Table::new(&["QUEUE", "READY", "DELAYED", "LOCKED", "DEAD", "OLDEST"]);
    for (queue, answer) in names.iter().zip(answers) {
        // A queue may have gone since it was found; that is no fault.
        let Some(info) = Fields::read(&answer?) else {
            continue;
        };
        if json {
            out.line(as_json(queue, &info))?;
            continue;
        }
        let count = |name| info.count(name).to_string();
        let locked = info.count("locked") + info.count("locked-with-requeue");
        let oldest = match info.count("queued") {
            0 => "-".into(),
            _ => duration::show(info.count("oldest-queued-ms")),
        };
        let mark = match info.count("paused") {
            1 => " (paused)",
            _ => "",
        };
        table.row(vec![
            output::name(queue) + mark,
            count("queued"),
            count("queued-with-backoff"),
            locked.to_string(),
            count("dead"),
            oldest,
        ]);
    }
    if !json {
        table.print(&mut out)?;
    }
    Ok(Exit::OK)
}

/// The question for the counts of one queue.
pub fn ask(queue: &[u8]) -> Cmd {
    let mut command = redis::cmd("MQ.INFO");
    command.arg(queue);
    command
}

/// All that the server tells of a queue, with its name.
pub fn as_json(queue: &[u8], info: &Fields) -> Json {
    let mut object = Map::new();
    output::put_bytes(&mut object, "queue", queue);
    for (name, value) in info.iter() {
        output::put_value(&mut object, name, value);
    }
    Json::Object(object)
}
