//! `redis-mq pause`.

use std::time::Duration;

use redis_mq_client::redis;
use serde_json::json;

use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, Out},
    reply,
};

/// Stop the deliveries of a queue, or of one of its groups.
///
/// What is being worked on goes on, and so do enqueues and time. A queue that is not there yet appears,
/// paused. A pause is never shortened by another one; `resume` ends it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// Only this group
    #[arg(long)]
    group: Option<String>,
    /// Go on by itself after that time
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_above_zero)]
    time: Option<Duration>,
}

/// Pauses it.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let mut command = redis::cmd("MQ.PAUSE");
    command.arg(&args.queue);
    if let Some(group) = &args.group {
        command.arg("GROUP").arg(group);
    }
    if let Some(time) = args.time {
        command.arg("FOR").arg(duration::millis(time));
    }
    let until = server.call(&command).await?;
    let until = reply::unsigned(&until).ok_or_else(|| Failure::unexpected("MQ.PAUSE"))?;
    let mut out = Out::new();
    if json {
        let line = json!({"queue": args.queue, "group": args.group, "paused-until": until});
        out.line(line)?;
        return Ok(Exit::OK);
    }
    let what = output::name(args.group.as_ref().unwrap_or(&args.queue).as_bytes());
    match until {
        0 => out.line(format_args!("{what} is paused until it is resumed"))?,
        ms => out.line(format_args!(
            "{what} is paused until {}",
            duration::show_instant(ms)
        ))?,
    }
    Ok(Exit::OK)
}
