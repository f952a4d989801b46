//! `redis-mq cancel`.

use std::future::Future;

use redis_mq_client::redis::{self, Cmd};
use serde_json::json;

use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, ask, Out},
    reply,
};

/// Remove messages by id, whatever their status, with their copies and dead letters.
///
/// Exit code 1 if none of the ids had anything to remove.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// The messages' ids
    #[arg(required = true)]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Removes the messages.
pub async fn run(
    args: Args,
    server: impl Future<Output = Result<Server, Failure>>,
    json: bool,
) -> Result<Exit, Failure> {
    let queue = output::name(args.queue.as_bytes());
    let question = format!(
        "remove {} of {queue}?",
        ask::count(args.ids.len() as u64, "message")
    );
    if !ask::confirm(&question, args.yes)? {
        return Ok(Exit::NO);
    }
    let mut server = server.await?;
    let mut command: Cmd = redis::cmd("MQ.CANCEL");
    command.arg(&args.queue).arg(&args.ids);
    let removed = server.call(&command).await?;
    let removed = reply::unsigned(&removed).ok_or_else(|| Failure::unexpected("MQ.CANCEL"))?;
    let asked = args.ids.len();
    let mut out = Out::new();
    if json {
        out.line(json!({"queue": args.queue, "ids": asked, "removed": removed}))?;
    } else {
        out.line(format_args!("{removed} of {asked} removed"))?;
    }
    Ok(if removed == 0 { Exit::NO } else { Exit::OK })
}
