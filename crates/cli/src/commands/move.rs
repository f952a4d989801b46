//! `redis-mq move`.

use redis_mq_client::redis::{self, Value};
use serde_json::json;

use super::{find::Walk, purge};
use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, ask, Out},
    reply::{self, Fields},
};

/// How many are moved in one step of the server.
const STEP: usize = 100;

/// Move messages to another queue, with their ids.
///
/// Each is moved as a whole or not at all, by a script on the server; in a cluster both queues have to
/// be of one slot, as `{mails}:a` and `{mails}:b` are. Payload, priority, group, headers, time and own
/// limits go along, attempts begin at 0, and a TTL goes on. What is being worked on stays, and so does
/// a message whose id the other queue has already. To repeat it is harmless.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue that has them
    from: String,
    /// The queue that gets them
    to: String,
    /// Only these
    ids: Vec<String>,
    /// All of this status: `queued`, `queued-with-backoff` or `dead`
    #[arg(long, default_value = "queued", conflicts_with = "ids", value_parser = [
        "queued", "queued-with-backoff", "dead",
    ])]
    status: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Default)]
struct Done {
    moved: u64,
    stayed: u64,
}

/// Moves them.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    if args.from == args.to {
        return Err(Failure::usage("it is the same queue"));
    }
    let there = purge::how_many(&mut server, &args.from, &args.status).await?;
    let count = match args.ids.len() {
        0 => there,
        named => named as u64,
    };
    let (from, to) = (
        output::name(args.from.as_bytes()),
        output::name(args.to.as_bytes()),
    );
    let messages = ask::count(count, "message");
    if count > 0 && !ask::confirm(&format!("move {messages} of {from} to {to}?"), args.yes)? {
        return Ok(Exit::NO);
    }
    let mut done = Done::default();
    if args.ids.is_empty() {
        in_order(&mut server, &args, count, &mut done).await?;
        // What stayed in front has hidden what is behind it.
        if done.stayed > 0 {
            done.stayed = 0;
            the_rest(&mut server, &args, &mut done).await?;
        }
    } else {
        let ids: Vec<_> = args.ids.iter().map(|id| id.as_bytes().to_vec()).collect();
        for some in ids.chunks(STEP) {
            step(&mut server, &args, some, &mut done).await?;
        }
    }
    let Done { moved, stayed } = done;
    let mut out = Out::new();
    match json {
        true => {
            out.line(json!({"from": args.from, "to": args.to, "moved": moved, "stayed": stayed}))?
        }
        false => out.line(format_args!("{moved} moved, {stayed} stayed"))?,
    }
    Ok(if moved == 0 { Exit::NO } else { Exit::OK })
}

/// From the front on, as many as there were at the start.
async fn in_order(
    server: &mut Server,
    args: &Args,
    count: u64,
    done: &mut Done,
) -> Result<(), Failure> {
    while done.moved < count {
        let mut command = redis::cmd("MQ.PEEK");
        command.arg(&args.from).arg("STATUS").arg(&args.status);
        command.arg("COUNT").arg(STEP);
        let page = server.call(&command).await?;
        let messages = reply::items(&page).unwrap_or_default();
        let id = |message: &Value| Some(Fields::read(message)?.bytes("id")?.to_vec());
        let ids: Vec<_> = messages.iter().filter_map(id).collect();
        let before = done.moved;
        step(server, args, &ids, done).await?;
        if done.moved == before {
            break;
        }
    }
    Ok(())
}

async fn the_rest(server: &mut Server, args: &Args, done: &mut Done) -> Result<(), Failure> {
    let mut walk = Walk::new(&args.from, Some(&args.status), None);
    while let Some(page) = walk.next(server).await? {
        let ids: Vec<_> = page.into_iter().map(|(id, _)| id).collect();
        for some in ids.chunks(STEP) {
            step(server, args, some, done).await?;
        }
    }
    Ok(())
}

async fn step(
    server: &mut Server,
    args: &Args,
    ids: &[Vec<u8>],
    done: &mut Done,
) -> Result<(), Failure> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut command = redis::cmd("EVAL");
    command
        .arg(include_str!("move.lua"))
        .arg(2)
        .arg(&args.from)
        .arg(&args.to)
        .arg(ids);
    let answer = server.call(&command).await?;
    let counts = reply::items(&answer).unwrap_or_default();
    let count = |at: usize| counts.get(at).and_then(reply::unsigned);
    let (Some(moved), Some(stayed)) = (count(0), count(1)) else {
        return Err(Failure::unexpected("the script"));
    };
    done.moved += moved;
    done.stayed += stayed;
    match counts.get(2).and_then(reply::text) {
        None => Ok(()),
        Some(error) => Err(Failure::refused(format!(
            "{error} ({} were moved)",
            done.moved
        ))),
    }
}
