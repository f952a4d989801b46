//! MQ.INFO

use redis_mq_core::{IdText, Info, Latency, Limited, Queue, Status};

use super::latency::PERCENTILES;
use super::record::{Access, Argument, Group, Record};
use crate::authority;
use crate::clock::QueueTime;
use crate::error::Error;
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqInfo;

fn reply(ctx: &Ctx, time: QueueTime, queue: &Queue) {
    let info: Info<'_> = queue.info(time.now());
    let number = |name: &str, value: u64| {
        ctx.reply_bulk(name.as_bytes());
        ctx.reply_integer(value);
    };
    let id = |name: &str, id: Option<IdText<'_>>| {
        ctx.reply_bulk(name.as_bytes());
        match id {
            Some(id) => ctx.reply_bulk(id.bytes()),
            None => ctx.reply_null(),
        }
    };
    ctx.reply_map(Status::ALL.len() + 31);
    for (status, count) in Status::ALL.iter().zip(info.counts) {
        number(status.name(), count);
    }
    number("messages", info.counts.iter().sum());
    id("next-mid", info.next);
    id("last-mid", info.last);
    ctx.reply_bulk(b"next-due-ms");
    match info.next_due {
        Some(span) => ctx.reply_integer(span.millis()),
        None => ctx.reply_signed(-1),
    }
    number(
        "oldest-queued-ms",
        info.oldest_queued.unwrap_or_default().millis(),
    );
    number("eoq-backoff-ms", info.eoq_backoff.millis());
    number("ndry-runs", info.dry_runs.into());
    number("paused", info.paused.into());
    number("total-enqueued", info.totals.enqueued);
    number("total-delivered", info.totals.delivered);
    number("total-done", info.totals.done);
    number("total-retried", info.totals.retried);
    number("total-dead", info.totals.dead);
    number("total-expired-locks", info.totals.expired_locks);
    number("held", info.held as u64);
    number("groups", info.groups as u64);
    let (limited, free_ms) = match info.limited {
        None => ("", Some(0)),
        Some(Limited::Inflight) => ("inflight", None),
        Some(Limited::Rate(free_at)) => {
            ("rate", Some(time.now().instant().until(free_at).millis()))
        }
    };
    ctx.reply_bulk(b"limited");
    ctx.reply_bulk(limited.as_bytes());
    ctx.reply_bulk(b"limit-free-ms");
    match free_ms {
        Some(ms) => ctx.reply_integer(ms),
        None => ctx.reply_signed(-1),
    }
    number("paused-until", time.shown(info.paused_until));
    number("total-full", info.refused);
    number("total-expired", info.totals.expired);
    number("total-redriven", info.totals.redriven);
    number("total-dead-dropped", info.totals.dropped);
    let none = Latency::default();
    let Latency { wait, work } = queue.latency().unwrap_or(&none);
    for (histogram, names) in [
        (wait, ["wait-p50-ms", "wait-p95-ms", "wait-p99-ms"]),
        (work, ["work-p50-ms", "work-p95-ms", "work-p99-ms"]),
    ] {
        for (name, of_hundred) in names.iter().zip(PERCENTILES) {
            number(name, histogram.percentile(of_hundred));
        }
    }
    number("results", info.results as u64);
    number("schedules", info.schedules as u64);
}

impl Command for MqInfo {
    const RECORD: &'static Record = &Record {
        name: "mq.info",
        syntax: "MQ.INFO queue",
        summary: "Counts a queue's messages by status and tells what it has done.",
        complexity: "O(1), and O(n) with n the number of messages that time has moved on since the last write",
        since: "0.1.0",
        group: Group::Inspection,
        arity: 2,
        flags: "readonly",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE],
        details: include_str!("info.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let now = authority::moment(ctx);
        let shown = turn::look(ctx, name, |queue| reply(ctx, now.of(queue), queue))?;
        if shown.is_none() {
            ctx.reply_null_array();
        }
        Ok(())
    }
}
