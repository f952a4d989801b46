//! MQ.PURGE

use redis_mq_core::Status;

use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqPurge;

const DEFAULT_COUNT: u64 = 1000;
const MAX_COUNT: u64 = 100_000;

/// What is to be removed.
#[derive(Debug, PartialEq, Eq)]
pub struct Purge {
    /// The messages of one status; `None` for all but locked ones.
    pub status: Option<Status>,
    /// At most so many.
    pub count: usize,
}

impl Purge {
    /// Reads the arguments after the queue.
    pub fn parse<'a>(args: impl ArgList<'a>) -> Result<Purge, Error> {
        let mut args = Cursor::new(args, 2);
        let status = if args.keyword("ALL") {
            None
        } else {
            Some(args.status()?)
        };
        let mut count = None;
        while let Some(option) = args.word() {
            if !is(option, "COUNT") {
                return Err(Error::Syntax);
            }
            once(&mut count, args.integer("COUNT", 1, MAX_COUNT)?)?;
        }
        let count = count.unwrap_or(DEFAULT_COUNT) as usize; // at most MAX_COUNT
        Ok(Purge { status, count })
    }
}

impl Command for MqPurge {
    const RECORD: &'static Record = &Record {
        name: "mq.purge",
        syntax: "MQ.PURGE queue status | ALL [COUNT n]",
        summary: "Removes the messages of a status, some at a time.",
        complexity:
            "O(n) with n the number of messages removed; O(all) where very many of another \
                     status lie between them in the schedule",
        since: "0.1.0",
        group: Group::Operators,
        arity: -3,
        flags: "write",
        newer_flags: &[],
        key: Some(Access::Delete),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new(
                "which",
                Kind::OneOf(&[
                    Argument::new("status", Kind::Text),
                    Argument::word("all", "ALL"),
                ]),
            ),
            Argument::new("n", Kind::Integer).after("COUNT").optional(),
        ],
        details: include_str!("purge.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Purge { status, count } = Purge::parse(args)?;
        let now = clock::now(ctx);
        let removed = turn::take(
            ctx,
            name,
            Missing::Leave,
            now,
            ReplicateAs::Effects,
            |queue, turn| queue.purge(turn, status, count),
        )?
        .unwrap_or(0);
        ctx.reply_integer(removed as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    #[test]
    fn a_status_or_all_must_be_named() {
        let parse = |line: &str| Purge::parse(&words(line)[..]);
        let all = Purge {
            status: None,
            count: 1000,
        };
        assert_eq!(parse("MQ.PURGE q all"), Ok(all));
        let some = Purge {
            status: Some(Status::LockedWithRequeue),
            count: 100_000,
        };
        assert_eq!(
            parse("MQ.PURGE q LOCKED-with-requeue COUNT 100000"),
            Ok(some)
        );
        for wrong in [
            "MQ.PURGE q",
            "MQ.PURGE q gone",
            "MQ.PURGE q dead dead",
            "MQ.PURGE q ALL dead",
            "MQ.PURGE q COUNT 5",
            "MQ.PURGE q dead COUNT",
            "MQ.PURGE q dead COUNT 5 COUNT 5",
        ] {
            assert_eq!(parse(wrong), Err(Error::Syntax), "{wrong}");
        }
        assert!(parse("MQ.PURGE q dead COUNT 0").is_err());
        assert!(parse("MQ.PURGE q dead COUNT 100001").is_err());
    }
}
