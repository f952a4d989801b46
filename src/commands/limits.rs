//! MQ.LIMITS

use redis_mq_core::{GroupLimits, QueueLimits, Rate, Scope, Span, UNLIMITED};

use super::limit::Limit;
use super::record::{Access, Argument, Group, Kind, Record};
use crate::error::Error;
use crate::redis::{Args, Command, Ctx, KeyName};
use crate::turn;

/// The command.
pub struct MqLimits;

/// Whose limits.
pub const SCOPE: Argument = Argument::new(
    "scope",
    Kind::OneOf(&[
        Argument::word("groups", "GROUPS"),
        Argument::new("g", Kind::Text).after("GROUP"),
    ]),
)
.optional();

/// Replies with the limits that hold, null where there is no queue.
pub fn reply(ctx: &Ctx, name: KeyName<'_>, scope: Scope<'_>) -> Result<(), Error> {
    let shown = turn::look(ctx, name, |queue| match scope {
        Scope::Queue => show_queue(ctx, &queue.limits()),
        Scope::Groups => show_group(ctx, &queue.group_limits(None)),
        Scope::Group(group) => show_group(ctx, &queue.group_limits(Some(group))),
    })?;
    if shown.is_none() {
        ctx.reply_null_array();
    }
    Ok(())
}

/// A limit as it is shown.
enum Shown {
    Number(u64),
    Rate(Rate),
    Off,
}

fn show(ctx: &Ctx, limits: &[(&str, Option<Shown>)]) {
    let held = limits
        .iter()
        .filter_map(|(name, limit)| Some((name, limit.as_ref()?)));
    ctx.reply_map(held.clone().count());
    for (name, limit) in held {
        ctx.reply_bulk(name.as_bytes());
        match limit {
            Shown::Number(number) => ctx.reply_integer(*number),
            Shown::Off => ctx.reply_bulk(b"off"),
            Shown::Rate(rate) => {
                ctx.reply_array(2);
                ctx.reply_integer(rate.deliveries().into());
                ctx.reply_integer(rate.span().millis());
            }
        }
    }
}

fn number<T: Into<u64>>(limit: Option<T>) -> Option<Shown> {
    limit.map(|number| Shown::Number(number.into()))
}

fn show_queue(ctx: &Ctx, limits: &QueueLimits) {
    show(
        ctx,
        &[
            ("length", number(limits.length)),
            ("bytes", number(limits.bytes)),
            ("inflight", number(limits.inflight)),
            ("rate", limits.rate.map(Shown::Rate)),
            ("burst", number(limits.rate.map(Rate::burst))),
            ("dead", number(limits.dead)),
            ("dead-age", number(limits.dead_age.map(Span::millis))),
            ("attempts", number(limits.attempts)),
            ("idle", number(limits.idle.map(Span::millis))),
        ],
    );
}

fn show_group(ctx: &Ctx, limits: &GroupLimits) {
    let inflight = limits.inflight.map(|inflight| match inflight {
        UNLIMITED => Shown::Off,
        inflight => Shown::Number(inflight.into()),
    });
    show(
        ctx,
        &[
            ("length", number(limits.length)),
            ("inflight", inflight),
            ("rate", limits.rate.map(Shown::Rate)),
            ("burst", number(limits.rate.map(Rate::burst))),
        ],
    );
}

impl Command for MqLimits {
    const RECORD: &'static Record = &Record {
        name: "mq.limits",
        syntax: "MQ.LIMITS queue [GROUPS | GROUP g]",
        summary: "Shows the limits of a queue or of its groups.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Inspection,
        arity: -2,
        flags: "readonly fast",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "",
        arguments: &[Argument::QUEUE, SCOPE],
        details: include_str!("limits.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        match Limit::parse(args)? {
            Limit {
                scope,
                changes: None,
            } => reply(ctx, name, scope),
            Limit { .. } => Err(Error::Syntax),
        }
    }
}
