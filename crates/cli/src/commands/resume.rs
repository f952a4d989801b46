//! `redis-mq resume`.

use redis_mq_client::redis;
use serde_json::json;

use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, Out},
    reply,
};

/// Let the deliveries of a queue, or of one of its groups, go on.
///
/// Exit code 1 if nothing was paused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// Only this group
    #[arg(long)]
    group: Option<String>,
}

/// Resumes it.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let mut command = redis::cmd("MQ.RESUME");
    command.arg(&args.queue);
    if let Some(group) = &args.group {
        command.arg("GROUP").arg(group);
    }
    let resumed = server.call(&command).await?;
    let resumed = reply::int(&resumed).ok_or_else(|| Failure::unexpected("MQ.RESUME"))? == 1;
    let mut out = Out::new();
    if json {
        out.line(json!({"queue": args.queue, "group": args.group, "resumed": resumed}))?;
    } else {
        let what = output::name(args.group.as_ref().unwrap_or(&args.queue).as_bytes());
        let how = if resumed { "goes on" } else { "was not paused" };
        out.line(format_args!("{what} {how}"))?;
    }
    Ok(if resumed { Exit::OK } else { Exit::NO })
}
