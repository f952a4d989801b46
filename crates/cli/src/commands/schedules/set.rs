//! `redis-mq schedules set`.

use std::time::Duration;

use redis_mq_client::redis;
use serde_json::json;

use crate::{
    commands::enqueue::header,
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, Out},
    reply,
};

/// Make a schedule, or change the one of that name.
///
/// What is said again changes nothing: as long as the times are the same the next run stays where it
/// is. Prints `created`, `updated` or `same`, and when the next run is.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("when").required(true).args(["every", "cron"])))]
pub struct Args {
    /// The queue
    queue: String,
    /// Its name, 1 to 512 bytes; runs have it as their id
    name: String,
    /// What each run carries
    #[arg(default_value = "")]
    payload: String,
    /// In such steps, a second at least
    #[arg(long, value_name = "TIME", value_parser = duration::parse_above_zero)]
    every: Option<Duration>,
    /// When that matches: minute, hour, day, month, day of the week, or @daily and the like
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// The time zone of --cron, as in Europe/Zurich; UTC if not given
    #[arg(long, value_name = "ZONE", requires = "cron", conflicts_with = "every")]
    tz: Option<String>,
    /// The first run, at the earliest: Unix milliseconds, or as in 2030-01-31T08:00:00Z
    #[arg(long, value_name = "INSTANT", value_parser = duration::parse_instant)]
    from: Option<u64>,
    /// The last run, at the latest
    #[arg(long, value_name = "INSTANT", value_parser = duration::parse_instant)]
    until: Option<u64>,
    /// So many runs, then none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    times: Option<u32>,
    /// If the run before is not finished: leave the new one out, run it after, or beside
    #[arg(long, value_enum)]
    overlap: Option<Overlap>,
    /// How long a delivery is locked, whatever the consumer asks for
    #[arg(long, value_name = "TIME", value_parser = duration::parse_above_zero)]
    lock: Option<Duration>,
    /// How many deliveries before a run is dead; 0 is no limit
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// 0 (first) to 9 (last); 5 if not given
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// The group that runs belong to, 1 to 128 bytes
    #[arg(long)]
    group: Option<String>,
    /// A run is not handed over after that time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_above_zero)]
    ttl: Option<Duration>,
    /// With --ttl: it becomes a dead letter then
    #[arg(long, requires = "ttl")]
    bury: bool,
    /// How long it is kept that a run was done, with the result that its worker gave
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    retain: Option<Duration>,
    /// A header, as in 'traceparent: 00-…'; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Overlap {
    Skip,
    After,
    Allow,
}

/// Sets it.
pub async fn run(args: Args, server: &mut Server, json: bool) -> Result<Exit, Failure> {
    let mut command = redis::cmd("MQ.SCHEDULE");
    command.arg(&args.queue).arg(&args.name).arg(&args.payload);
    let mut number = |word: &str, number: Option<u64>| {
        if let Some(number) = number {
            command.arg(word).arg(number);
        }
    };
    number("EVERY", args.every.map(duration::millis));
    number("FROM", args.from);
    number("UNTIL", args.until);
    number("TIMES", args.times.map(u64::from));
    number("LOCK", args.lock.map(duration::millis));
    number("ATTEMPTS", args.attempts.map(u64::from));
    number("PRIORITY", args.priority.map(u64::from));
    number("RETAIN", args.retain.map(duration::millis));
    number("TTL", args.ttl.map(duration::millis));
    if args.bury {
        command.arg("BURY");
    }
    let headers = (!args.header.is_empty()).then(|| args.header.join("\n"));
    for (word, text) in [
        ("CRON", &args.cron),
        ("TZ", &args.tz),
        ("GROUP", &args.group),
        ("HEADERS", &headers),
    ] {
        if let Some(text) = text {
            command.arg(word).arg(text);
        }
    }
    if let Some(overlap) = args.overlap {
        command.arg("OVERLAP").arg(match overlap {
            Overlap::Skip => "SKIP",
            Overlap::After => "AFTER",
            Overlap::Allow => "ALLOW",
        });
    }
    let answer = server.call(&command).await?;
    let unexpected = || Failure::unexpected("MQ.SCHEDULE");
    let [change, next] = reply::items(&answer).ok_or_else(unexpected)? else {
        return Err(unexpected());
    };
    let change = reply::text(change).ok_or_else(unexpected)?;
    let next = reply::unsigned(next).ok_or_else(unexpected)?;
    let mut out = Out::new();
    if json {
        let line =
            json!({"queue": args.queue, "schedule": args.name, "change": change, "next-at": next});
        out.line(line)?;
        return Ok(Exit::OK);
    }
    let name = output::name(args.name.as_bytes());
    match next {
        0 => out.line(format_args!("{name} {change}, there is no run any more"))?,
        ms => out.line(format_args!(
            "{name} {change}, next run {}",
            duration::show_instant(ms)
        ))?,
    }
    Ok(Exit::OK)
}
