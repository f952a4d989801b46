//! MQ.LATENCY

use redis_mq_core::{Histogram, Latency};

use super::record::{Access, Argument, Group, Record};
use crate::error::Error;
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqLatency;

/// The percentiles that are told.
pub const PERCENTILES: [u64; 3] = [50, 95, 99];

impl Command for MqLatency {
    const RECORD: &'static Record = &Record {
        name: "mq.latency",
        syntax: "MQ.LATENCY queue",
        summary: "Tells how long a queue's messages wait, and how long the work on them takes.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Inspection,
        arity: 2,
        flags: "readonly fast",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE],
        details: include_str!("latency.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let shown = turn::look(ctx, name, |queue| {
            let none = Latency::default();
            let Latency { wait, work } = queue.latency().unwrap_or(&none);
            ctx.reply_map(2);
            for (name, histogram) in [("wait", wait), ("work", work)] {
                ctx.reply_bulk(name.as_bytes());
                reply(ctx, histogram);
            }
        })?;
        if shown.is_none() {
            ctx.reply_null();
        }
        Ok(())
    }
}

fn reply(ctx: &Ctx, histogram: &Histogram) {
    let number = |name: &str, value: u64| {
        ctx.reply_bulk(name.as_bytes());
        ctx.reply_integer(value);
    };
    ctx.reply_map(2 + PERCENTILES.len() + 1);
    number("count", histogram.count());
    number("sum-ms", histogram.sum_ms());
    for of_hundred in PERCENTILES {
        number(
            &format!("p{of_hundred}-ms"),
            histogram.percentile(of_hundred),
        );
    }
    ctx.reply_bulk(b"buckets");
    ctx.reply_array(histogram.buckets().count());
    for (longest_ms, count) in histogram.buckets() {
        ctx.reply_array(2);
        ctx.reply_integer(longest_ms);
        ctx.reply_integer(count);
    }
}
