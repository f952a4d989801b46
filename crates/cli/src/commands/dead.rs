//! `redis-mq dead`.

use clap::Subcommand;
use redis_mq_client::redis;
use serde_json::json;

use super::{get, peek, purge};
use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, ask, Out},
    reply,
};

/// Look at dead letters, send them again, or remove them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List them with their reasons, the newest first
    List {
        /// The queue
        queue: String,
        #[command(flatten)]
        page: peek::Page,
        /// The oldest first
        #[arg(long)]
        oldest: bool,
    },
    /// Show some with payload, headers and reason
    Show(get::Args),
    /// Send them again, with attempts from 0: those named, or the oldest
    Redrive {
        /// The queue
        queue: String,
        /// Their ids
        ids: Vec<String>,
        /// All that are there now
        #[arg(long, conflicts_with_all = ["ids", "count"])]
        all: bool,
        /// So many, the oldest first
        #[arg(long, short = 'n', value_name = "N", conflicts_with = "ids")]
        count: Option<u64>,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove all that are there now
    Purge {
        /// The queue
        queue: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// Does it.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    match args.what {
        What::List {
            queue,
            page,
            oldest,
        } => peek::show(&mut server, &queue, Some("dead"), !oldest, &page, json).await,
        What::Show(args) => get::run(args, server, json).await,
        What::Purge { queue, yes } => purge::purge(&mut server, &queue, "dead", yes, json).await,
        What::Redrive {
            queue,
            ids,
            all,
            count,
            yes,
        } => {
            if ids.is_empty() && !all && count.is_none() {
                return Err(Failure::usage("name ids, or say --all or --count"));
            }
            let most = count.unwrap_or(u64::MAX);
            redrive(&mut server, &queue, &ids, most, yes, json).await
        }
    }
}

async fn redrive(
    server: &mut Server,
    queue: &str,
    ids: &[String],
    most: u64,
    yes: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let there = purge::how_many(server, queue, "dead").await?;
    let count = match ids.len() {
        0 => there.min(most),
        named => named as u64,
    };
    let shown = output::name(queue.as_bytes());
    let letters = ask::count(count, "dead letter");
    if count > 0 && !ask::confirm(&format!("send {letters} of {shown} again?"), yes)? {
        return Ok(Exit::NO);
    }
    let sent = if ids.is_empty() {
        purge::steps(server, count, |step| {
            let mut command = redis::cmd("MQ.REDRIVE");
            command.arg(queue).arg("COUNT").arg(step);
            command
        })
        .await?
    } else {
        let mut command = redis::cmd("MQ.REDRIVE");
        command.arg(queue).arg(ids);
        let answer = server.call(&command).await?;
        reply::unsigned(&answer).ok_or_else(|| Failure::unexpected("MQ.REDRIVE"))?
    };
    let mut out = Out::new();
    match json {
        true => out.line(json!({"queue": queue, "asked": count, "redriven": sent}))?,
        false => out.line(format_args!("{sent} of {count} sent again"))?,
    }
    Ok(if sent == 0 { Exit::NO } else { Exit::OK })
}
