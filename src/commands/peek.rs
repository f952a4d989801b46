//! MQ.PEEK

use redis_mq_core::{Peek, PeekError};

use super::get;
use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority;
use crate::error::Error;
use crate::parse::{flag, is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqPeek;

const DEFAULT_COUNT: u64 = 10;
const MAX_COUNT: u64 = 1000;

/// Reads the arguments after the queue.
pub fn parse<'a>(args: impl ArgList<'a>) -> Result<Peek<'a>, Error> {
    let mut args = Cursor::new(args, 2);
    let (mut status, mut count, mut after, mut reverse) = (None, None, None, false);
    while let Some(option) = args.word() {
        if is(option, "STATUS") {
            once(&mut status, args.status()?)?;
        } else if is(option, "COUNT") {
            once(&mut count, args.integer("COUNT", 1, MAX_COUNT)?)?;
        } else if is(option, "AFTER") {
            once(&mut after, args.id()?)?;
        } else if is(option, "REV") {
            flag(&mut reverse)?;
        } else {
            return Err(Error::Syntax);
        }
    }
    Ok(Peek {
        status,
        count: count.unwrap_or(DEFAULT_COUNT) as usize, // at most MAX_COUNT
        after,
        reverse,
    })
}

impl Command for MqPeek {
    const RECORD: &'static Record = &Record {
        name: "mq.peek",
        syntax: "MQ.PEEK queue [STATUS status] [COUNT n] [AFTER id] [REV]",
        summary: "Shows the next deliveries, or the messages of a status, without taking them.",
        complexity: "O(n) with n the number of messages shown, of those of another status between \
                     them in the schedule, and of those that time has not been let move on yet",
        since: "0.1.0",
        group: Group::Inspection,
        arity: -2,
        flags: "readonly",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("status", Kind::Text)
                .after("STATUS")
                .optional(),
            Argument::new("n", Kind::Integer).after("COUNT").optional(),
            Argument::new("id", Kind::Text).after("AFTER").optional(),
            Argument::word("reverse", "REV").optional(),
        ],
        details: include_str!("peek.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let peek = parse(args)?;
        let now = authority::moment(ctx);
        let shown = turn::look(ctx, name, |queue| {
            let time = now.of(queue);
            let messages = queue.peek(time.now(), &peek).map_err(Error::from)?;
            ctx.reply_array(messages.len());
            messages
                .iter()
                .for_each(|message| get::reply(ctx, time, message));
            Ok::<(), Error>(())
        })?;
        if shown.transpose()?.is_none() {
            ctx.reply_null_array();
        }
        Ok(())
    }
}

impl From<PeekError> for Error {
    fn from(error: PeekError) -> Error {
        match error {
            PeekError::NoSuchMessage => Error::NothingToGoOnAfter,
            PeekError::Turns => Error::Syntax,
            PeekError::TooFar => Error::TooFar,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;
    use redis_mq_core::Status;

    #[test]
    fn options_are_given_once_and_in_any_order() {
        let parse = |line: &'static str| parse(&*words(line).leak());
        let next = Peek {
            status: None,
            count: 10,
            after: None,
            reverse: false,
        };
        assert_eq!(parse("MQ.PEEK q"), Ok(next));
        let page = Peek {
            status: Some(Status::QueuedWithBackoff),
            count: 1000,
            after: Some(b"rev"),
            reverse: true,
        };
        let line = "MQ.PEEK q rev AFTER rev count 1000 status Queued-With-Backoff";
        assert_eq!(parse(line), Ok(page));
        for wrong in [
            "MQ.PEEK q 5",
            "MQ.PEEK q STATUS",
            "MQ.PEEK q STATUS gone",
            "MQ.PEEK q STATUS dead STATUS dead",
            "MQ.PEEK q COUNT 5 COUNT 5",
            "MQ.PEEK q AFTER a AFTER a",
            "MQ.PEEK q REV REV",
            "MQ.PEEK q AFTER",
        ] {
            assert_eq!(parse(wrong), Err(Error::Syntax), "{wrong}");
        }
        assert!(parse("MQ.PEEK q COUNT 0").is_err() && parse("MQ.PEEK q COUNT 1001").is_err());
        assert!(parse("MQ.PEEK q AFTER ").is_err(), "an empty id");
    }
}
