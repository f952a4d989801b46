//! `redis-mq limit`.

use std::{str::FromStr, time::Duration};

use redis_mq_client::redis;
use serde_json::Map;

use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, Out, DIM},
    reply::Fields,
};

/// Show or set the limits of a queue or of its groups.
///
/// Without limits it shows those that hold; exit code 1 if there is no such queue. `off` in place of a
/// value takes a limit away; those not named stay. docs/commands.md says what each means.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue; it appears with its first limit
    queue: String,
    /// For each group alike
    #[arg(long, conflicts_with = "group")]
    groups: bool,
    /// For this group, whatever holds for each
    #[arg(long)]
    group: Option<String>,
    /// How many messages may be unfinished; one more is refused
    #[arg(long, value_name = "N|off")]
    length: Option<Limit>,
    /// How many bytes of memory the queue may take; beyond, messages are refused
    #[arg(long, value_name = "N|off")]
    bytes: Option<Limit>,
    /// How many may be worked on at once
    #[arg(long, value_name = "N|off")]
    inflight: Option<Limit>,
    /// How many may be handed over in a time, as in 50/1m
    #[arg(long, value_name = "N/TIME|off")]
    rate: Option<Rate>,
    /// With a rate: how many may be handed over at once after a pause
    #[arg(long, value_name = "N|off")]
    burst: Option<Limit>,
    /// How many dead letters are kept
    #[arg(long, value_name = "N|off")]
    dead: Option<Limit>,
    /// How many deliveries a message gets that does not say so itself
    #[arg(long, value_name = "N|off")]
    attempts: Option<Limit>,
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(Option<u64>);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self(None)),
            text => match text.parse() {
                Ok(0) | Err(_) => Err("has to be a number of 1 and more, or off".into()),
                Ok(number) => Ok(Self(Some(number))),
            },
        }
    }
}

/// So many in a time, or as many as there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Option<(u64, Duration)>);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let (number, time) = text
            .split_once('/')
            .ok_or("a rate is a number and a time, as in 50/1m, or off")?;
        let number = match number.parse() {
            Ok(0) | Err(_) => return Err("the number has to be 1 and more".into()),
            Ok(number) => number,
        };
        // As in 50/s: one of that unit.
        let time = match time.bytes().next() {
            None | Some(b'0'..=b'9') => duration::parse_above_zero(time)?,
            _ => duration::parse_above_zero(&format!("1{time}"))?,
        };
        Ok(Self(Some((number, time))))
    }
}

/// Shows or sets them.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let mut command = redis::cmd("MQ.LIMIT");
    command.arg(&args.queue);
    if args.groups {
        command.arg("GROUPS");
    }
    if let Some(group) = &args.group {
        command.arg("GROUP").arg(group);
    }
    let mut sets = false;
    if let Some(Rate(rate)) = args.rate {
        sets = true;
        command.arg("RATE");
        match rate {
            Some((number, time)) => command.arg(number).arg(duration::millis(time)),
            None => command.arg("OFF"),
        };
    }
    for (name, limit) in [
        ("LENGTH", args.length),
        ("BYTES", args.bytes),
        ("INFLIGHT", args.inflight),
        ("BURST", args.burst),
        ("DEAD", args.dead),
        ("ATTEMPTS", args.attempts),
    ] {
        let Some(Limit(limit)) = limit else {
            continue;
        };
        sets = true;
        command.arg(name);
        match limit {
            Some(number) => command.arg(number),
            None => command.arg("OFF"),
        };
    }
    let answer = server.call(&command).await?;
    let mut out = Out::new();
    if sets {
        let mut object = Map::new();
        output::put_bytes(&mut object, "queue", args.queue.as_bytes());
        object.insert("set".into(), true.into());
        match json {
            true => out.line(serde_json::Value::Object(object))?,
            false => out.line("OK")?,
        }
        return Ok(Exit::OK);
    }
    let queue = output::name(args.queue.as_bytes());
    let Some(limits) = Fields::read(&answer) else {
        return Err(Failure::no(format!("no such queue: {queue}")));
    };
    if json {
        let mut object = Map::new();
        output::put_bytes(&mut object, "queue", args.queue.as_bytes());
        for (name, value) in limits.iter() {
            output::put_value(&mut object, name, value);
        }
        out.line(serde_json::Value::Object(object))?;
        return Ok(Exit::OK);
    }
    if limits.iter().next().is_none() {
        out.line("no limits")?;
    }
    for (name, value) in limits.iter() {
        let shown = match (name, rate(value)) {
            ("rate", Some((number, ms))) => format!("{number} in {}", duration::show(ms)),
            _ => output::one_line(value),
        };
        out.line(format_args!("{DIM}{name:8}{DIM:#}  {shown}"))?;
    }
    Ok(Exit::OK)
}

/// The rate of a reply to MQ.LIMIT or MQ.LIMITS: so many in so many milliseconds.
pub fn rate(value: &redis::Value) -> Option<(u64, u64)> {
    let [number, ms] = crate::reply::items(value)? else {
        return None;
    };
    Some((crate::reply::unsigned(number)?, crate::reply::unsigned(ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_off() {
        assert_eq!("7".parse(), Ok(Limit(Some(7))));
        assert_eq!("off".parse(), Ok(Limit(None)));
        for wrong in ["0", "-1", "x", ""] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_a_number_in_a_time() {
        let rate = |number, seconds| Ok(Rate(Some((number, Duration::from_secs(seconds)))));
        assert_eq!("50/1m".parse(), rate(50, 60));
        assert_eq!("50/s".parse(), rate(50, 1));
        assert_eq!("1/10000".parse(), rate(1, 10));
        assert_eq!("off".parse(), Ok(Rate(None)));
        for wrong in ["50", "0/1s", "5/", "5/0s", "x/1s"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
