//! MQ.APPLY

use redis_mq_core::moment_of;

use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqApply;

/// Reads the effects after the queue.
pub fn parse<'a>(args: impl ArgList<'a>) -> Result<&'a [u8], Error> {
    Cursor::new(args, 2).value()
}

impl Command for MqApply {
    const RECORD: &'static Record = &Record {
        name: "mq.apply",
        syntax: "MQ.APPLY queue effects",
        summary:
            "Repeats on a replica, or from the append-only file, what the primary did to a queue.",
        complexity: "O(n) with n the number of effects",
        since: "0.1.0",
        group: Group::Internal,
        arity: 3,
        flags: "write admin deny-script",
        newer_flags: &["internal"],
        key: Some(Access::Update),
        tips: "",
        arguments: &[Argument::QUEUE, Argument::new("effects", Kind::Text)],
        details: include_str!("apply.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let flags = ctx.flags();
        if !ctx.must_obey_by(flags) {
            return Err(Error::ReplicationOnly);
        }
        let name = args.key(1).ok_or(Error::Internal)?;
        let effects = parse(args)?;
        turn::obey(ctx, name, |queue| {
            queue.apply(effects)?;
            // Nobody but the primary tells what its time is: a file is old, a dump may say anything.
            if let Some(made) = moment_of(effects).filter(|_| flags.is_of_primary()) {
                clock::primary_said(ctx, queue.server_time(made));
            }
            Ok(())
        })
    }
}
