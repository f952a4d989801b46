//! `redis-mq purge`.

use redis_mq_client::redis;
use serde_json::json;

use super::ls;
use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, ask, Out},
    reply::{self, Fields},
};

/// How many the server is asked to do in one step.
const STEP: u64 = 1_000;

/// Remove all messages of a status.
///
/// As many as there are at the start, in small steps; how many they are is told before. Exit code 1 if
/// there is no such queue.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// The status, as in `queued`, `queued-with-backoff` or `dead`
    #[arg(long, required_unless_present = "all")]
    status: Option<String>,
    /// All but what is being worked on
    #[arg(long, conflicts_with = "status")]
    all: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Removes them.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let what = args.status.as_deref().unwrap_or("ALL");
    purge(&mut server, &args.queue, what, args.yes, json).await
}

/// Removes what has that status, or `ALL`.
pub async fn purge(
    server: &mut Server,
    queue: &str,
    what: &str,
    yes: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let count = how_many(server, queue, what).await?;
    let shown = output::name(queue.as_bytes());
    let kind = if what == "ALL" {
        ""
    } else {
        &format!("{what} ")
    };
    let question = format!(
        "remove {} of {shown}?",
        ask::count(count, &format!("{kind}message"))
    );
    if count > 0 && !ask::confirm(&question, yes)? {
        return Ok(Exit::NO);
    }
    let removed = steps(server, count, |step| {
        let mut command = redis::cmd("MQ.PURGE");
        command.arg(queue).arg(what).arg("COUNT").arg(step);
        command
    })
    .await?;
    let mut out = Out::new();
    match json {
        true => out.line(json!({"queue": queue, "status": what, "removed": removed}))?,
        false => out.line(format_args!("{removed} removed"))?,
    }
    Ok(Exit::OK)
}

/// How many messages have that status now; an unknown one is an error.
pub async fn how_many(server: &mut Server, queue: &str, what: &str) -> Result<u64, Failure> {
    let answer = server.call(&ls::ask(queue.as_bytes())).await?;
    let Some(info) = Fields::read(&answer) else {
        let queue = output::name(queue.as_bytes());
        return Err(Failure::no(format!("no such queue: {queue}")));
    };
    if what == "ALL" {
        let locked = info.count("locked") + info.count("locked-with-requeue");
        return Ok(info.count("messages").saturating_sub(locked));
    }
    // What is no status may be a field of another meaning: the server knows.
    let mut command = redis::cmd("MQ.SCAN");
    command
        .arg(queue)
        .arg(0)
        .arg("STATUS")
        .arg(what)
        .arg("COUNT")
        .arg(1);
    server.call(&command).await?;
    Ok(info.count(&what.to_ascii_lowercase()))
}

/// Has the server do a bounded step again and again, until so many are done or nothing is left.
pub async fn steps(
    server: &mut Server,
    count: u64,
    command: impl Fn(u64) -> redis::Cmd,
) -> Result<u64, Failure> {
    let mut done = 0;
    while done < count {
        let answer = server.call(&command(STEP.min(count - done))).await?;
        match reply::unsigned(&answer) {
            None => return Err(Failure::unexpected("a step")),
            Some(0) => break,
            Some(some) => done += some,
        }
    }
    Ok(done)
}
