//! `redis-mq check`.

use std::{fmt::Write as _, str::FromStr};

use redis_mq_client::redis::Cmd;
use serde_json::json;

use super::ls;
use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, Out},
    reply::Fields,
};

/// Tell a monitoring system whether queues are well.
///
/// Prints one line, and exits with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN: it could not be
/// found out), as Nagios plugins do; for a probe of Kubernetes everything but 0 is a failure. A queue
/// that does not exist is empty. Without queues: whether the server answers and has the module.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queues
    queues: Vec<String>,
    /// How long the oldest ready message may wait: WARNING or WARNING:CRITICAL
    #[arg(long, value_name = "TIME:TIME", default_value = "5m:15m", value_parser = times)]
    oldest: Bounds,
    /// How many dead letters there may be: WARNING or WARNING:CRITICAL
    #[arg(long, value_name = "N:N", value_parser = counts)]
    dead: Option<Bounds>,
    /// How many ready messages there may be: WARNING or WARNING:CRITICAL
    #[arg(long, value_name = "N:N", value_parser = counts)]
    ready: Option<Bounds>,
    /// A paused queue is no reason to warn
    #[arg(long)]
    may_be_paused: bool,
}

/// From which value on there is a warning, and from which on it is critical.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    warning: u64,
    critical: Option<u64>,
}

impl Bounds {
    fn level(self, value: u64) -> Level {
        match self.critical {
            Some(critical) if value >= critical => Level::Critical,
            _ if value >= self.warning => Level::Warning,
            _ => Level::Ok,
        }
    }

    fn perf(self) -> String {
        let critical = self.critical.map(|n| n.to_string()).unwrap_or_default();
        format!("{};{critical}", self.warning)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    Warning,
    Critical,
}

fn times(text: &str) -> Result<Bounds, String> {
    // In seconds, as monitoring systems count.
    bounds(text, |text| {
        duration::parse(text).map(|time| time.as_secs())
    })
}

fn counts(text: &str) -> Result<Bounds, String> {
    bounds(text, |text| {
        u64::from_str(text).map_err(|_| format!("{text} is no number"))
    })
}

fn bounds(text: &str, one: impl Fn(&str) -> Result<u64, String>) -> Result<Bounds, String> {
    let (warning, critical) = match text.split_once(':') {
        Some((warning, critical)) => (one(warning)?, Some(one(critical)?)),
        None => (one(text)?, None),
    };
    if critical.is_some_and(|critical| critical < warning) {
        return Err("the second bound is lower than the first".into());
    }
    Ok(Bounds { warning, critical })
}

/// Checks the queues.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    if args.queues.is_empty() {
        server.call(&redis_mq_client::redis::cmd("MQ.HELP")).await?;
    }
    let asked: Vec<Cmd> = args
        .queues
        .iter()
        .map(|name| ls::ask(name.as_bytes()))
        .collect();
    for (queue, answer) in args.queues.iter().zip(server.call_all(&asked).await?) {
        let info = Fields::read(&answer?).unwrap_or_default();
        let queue = output::name(queue.as_bytes());
        let oldest = match info.count("queued") {
            0 => 0,
            _ => info.count("oldest-queued-ms") / 1_000,
        };
        let shown = format!("{queue}: oldest waits {}", duration::show(oldest * 1_000));
        findings.look(&queue, "oldest", "s", oldest, Some(args.oldest), shown);
        for (name, field, bounds) in [("dead", "dead", args.dead), ("ready", "queued", args.ready)]
        {
            let count = info.count(field);
            let shown = format!("{queue}: {count} {name}");
            findings.look(&queue, name, "", count, bounds, shown);
        }
        if info.count("paused") == 1 && !args.may_be_paused {
            findings.add(Level::Warning, format!("{queue}: paused"));
        }
    }
    let (word, exit) = match findings.level {
        Some(Level::Critical) => ("CRITICAL", Exit::CRITICAL),
        Some(Level::Warning) => ("WARNING", Exit::WARNING),
        _ => ("OK", Exit::OK),
    };
    let mut text = findings.lines.join(", ");
    if text.is_empty() {
        text = match args.queues.len() {
            0 => "the server answers and has queues".into(),
            1 => format!("{} is well", output::name(args.queues[0].as_bytes())),
            n => format!("{n} queues are well"),
        };
    }
    let mut out = Out::new();
    if json {
        out.line(json!({"level": word, "text": text}))?;
    } else if findings.perf.is_empty() {
        out.line(format_args!("MQ {word} - {text}"))?;
    } else {
        out.line(format_args!("MQ {word} - {text} |{}", findings.perf))?;
    }
    Ok(exit)
}

#[derive(Default)]
struct Findings {
    level: Option<Level>,
    /// What is not well.
    lines: Vec<String>,
    /// The values, as monitoring systems draw them.
    perf: String,
}

impl Findings {
    fn look(
        &mut self,
        queue: &str,
        name: &str,
        unit: &str,
        value: u64,
        bounds: Option<Bounds>,
        shown: String,
    ) {
        let label = queue.replace(['\'', '=', ' '], "_");
        let ends = bounds.map(Bounds::perf).unwrap_or_else(|| ";".into());
        // Writing to a string cannot fail.
        let _ = write!(self.perf, " '{label}_{name}'={value}{unit};{ends}");
        match bounds.map_or(Level::Ok, |bounds| bounds.level(value)) {
            Level::Ok => {}
            level => self.add(level, shown),
        }
    }

    fn add(&mut self, level: Level, line: String) {
        self.level = self.level.max(Some(level));
        self.lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_reached_at_their_value() {
        let bounds = counts("5:10").unwrap();
        let levels = [4, 5, 9, 10].map(|value| bounds.level(value));
        use Level::{Critical, Ok, Warning};
        assert_eq!(levels, [Ok, Warning, Warning, Critical]);
        assert_eq!(times("5m").unwrap().perf(), "300;");
        assert!(counts("10:5").is_err() && counts("x").is_err());
    }
}
