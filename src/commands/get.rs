//! MQ.GET

use redis_mq_core::View;

use super::record::{Access, Argument, Group, Kind, Record};
use super::status::parse_id;
use crate::authority;
use crate::clock::QueueTime;
use crate::delivery::reply_batch;
use crate::error::Error;
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqGet;

/// Shows a message as a map; `time` is that of its queue.
pub fn reply(ctx: &Ctx, time: QueueTime, message: &View<'_>) {
    let bulk = |name: &str, value: &[u8]| {
        ctx.reply_bulk(name.as_bytes());
        ctx.reply_bulk(value);
    };
    let number = |name: &str, value: u64| {
        ctx.reply_bulk(name.as_bytes());
        ctx.reply_integer(value);
    };
    let optional = |name: &str, value: Option<&[u8]>| {
        ctx.reply_bulk(name.as_bytes());
        match value {
            Some(value) => ctx.reply_bulk(value),
            None => ctx.reply_null(),
        }
    };
    ctx.reply_map(16 + usize::from(message.batch.is_some()));
    bulk("id", message.id.bytes());
    bulk("status", message.status.name().as_bytes());
    bulk("payload", message.payload);
    number("attempts", message.attempts.into());
    number("max-attempts", message.max_attempts.into());
    number("priority", message.priority.level().into());
    number("enqueued-at", time.shown(message.enqueued_at));
    number("due-at", time.shown(message.due_at));
    number("lock-ms", message.lock.millis());
    optional("requeue", message.requeue);
    optional("reason", message.reason);
    let headers = (!message.headers.is_empty()).then_some(message.headers);
    optional("headers", headers);
    let group = (!message.group.is_empty()).then_some(message.group);
    optional("group", group);
    number("expires-at", time.shown(message.expires_at));
    ctx.reply_bulk(b"retain-ms");
    match message.retain {
        Some(span) => ctx.reply_integer(span.millis()),
        None => ctx.reply_null(),
    }
    number("scheduled-at", message.scheduled_at.millis());
    if let Some(batch) = message.batch {
        ctx.reply_bulk(b"batch");
        reply_batch(ctx, batch);
    }
}

impl Command for MqGet {
    const RECORD: &'static Record = &Record {
        name: "mq.get",
        syntax: "MQ.GET queue id",
        summary: "Shows a message with its payload.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Inspection,
        arity: 3,
        flags: "readonly fast",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE, Argument::new("id", Kind::Text)],
        details: include_str!("get.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let id = parse_id(args)?;
        let now = authority::moment(ctx);
        let found = turn::look(ctx, name, |queue| {
            let time = now.of(queue);
            queue
                .get(time.now(), id)
                .map(|message| reply(ctx, time, &message))
                .is_some()
        })?;
        if found != Some(true) {
            ctx.reply_null_array();
        }
        Ok(())
    }
}
