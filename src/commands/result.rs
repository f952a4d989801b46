//! MQ.RESULT

use redis_mq_core::Known;

use super::record::{Access, Argument, Group, Kind, Record};
use super::status::parse_id;
use crate::authority;
use crate::clock::QueueTime;
use crate::error::Error;
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqResult;

/// Replies what is known of an id; `time` is that of its queue.
fn reply(ctx: &Ctx, time: QueueTime, known: Known<'_>) {
    let (word, value, at) = match known {
        Known::Done { result } => {
            let at = result.map_or(0, |(_, at)| time.shown(at));
            ("done", result.map(|(value, _)| value), at)
        }
        Known::Dead { reason, at } => ("dead", reason, time.shown(at)),
        Known::Live(status) => (status.name(), None, 0),
    };
    ctx.reply_array(3);
    ctx.reply_bulk(word.as_bytes());
    match value {
        Some(value) => ctx.reply_bulk(value),
        None => ctx.reply_null(),
    }
    ctx.reply_integer(at);
}

impl Command for MqResult {
    const RECORD: &'static Record = &Record {
        name: "mq.result",
        syntax: "MQ.RESULT queue id",
        summary: "Tells what became of a message, with its result.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Producers,
        arity: 3,
        flags: "readonly fast",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE, Argument::new("id", Kind::Text)],
        details: include_str!("result.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let id = parse_id(args)?;
        let now = authority::moment(ctx);
        let found = turn::look(ctx, name, |queue| {
            let time = now.of(queue);
            let known = queue.result(time.now(), id);
            known.map(|known| reply(ctx, time, known)).is_some()
        })?;
        if found != Some(true) {
            ctx.reply_null_array();
        }
        Ok(())
    }
}
