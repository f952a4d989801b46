//! MQ.EXTEND

use redis_mq_core::{Span, Stale, Token};

use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqExtend;

/// How a consumer holds on to a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Extend<'a> {
    /// The message.
    pub id: &'a [u8],
    /// The delivery.
    pub token: Token,
    /// The lock ends so long from now.
    pub lock: Span,
}

impl<'a> Extend<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Extend<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        Ok(Extend {
            id: args.id()?,
            token: Token::new(args.token()?),
            lock: Span::from_millis(args.duration("ms", 1)?),
        })
    }
}

impl Command for MqExtend {
    const RECORD: &'static Record = &Record {
        name: "mq.extend",
        syntax: "MQ.EXTEND queue id token ms",
        summary: "Sets the end of a delivery's lock anew.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Consumers,
        arity: 5,
        flags: "write fast",
        newer_flags: &[],
        key: Some(Access::Update),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("id", Kind::Text),
            Argument::new("token", Kind::Integer),
            Argument::new("ms", Kind::Integer),
        ],
        details: include_str!("extend.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Extend { id, token, lock } = Extend::parse(args)?;
        let now = clock::now(ctx);
        let until = turn::take(
            ctx,
            name,
            Missing::Leave,
            now,
            ReplicateAs::Effects,
            |queue, turn| {
                let until = queue.extend(turn, id, token, lock);
                until.map(|until| until.map(|until| now.of(queue).shown(until)))
            },
        )?;
        match until {
            Some(Ok(Some(until))) => ctx.reply_integer(until),
            Some(Err(Stale)) => return Err(Error::Stale),
            Some(Ok(None)) | None => ctx.reply_null(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;
    use crate::parse::MAX_DURATION_MS;

    #[test]
    fn a_lock_lasts_at_least_a_millisecond_and_at_most_ten_years() {
        let parse = |line| Extend::parse(&words(line)[..]).map(|extend| extend.lock.millis());
        let error = Err(Error::OutOfRange {
            what: "ms",
            min: 1,
            max: MAX_DURATION_MS,
        });
        assert_eq!(parse("MQ.EXTEND q id 7 1"), Ok(1));
        assert_eq!(parse("MQ.EXTEND q id 7 315360000000"), Ok(MAX_DURATION_MS));
        assert_eq!(parse("MQ.EXTEND q id 7 0"), error);
        assert_eq!(parse("MQ.EXTEND q id 7 315360000001"), error);
    }

    #[test]
    fn id_and_token_are_read_in_this_order() {
        let args = words("MQ.EXTEND q 7 8 9");
        assert_eq!(
            Extend::parse(&args[..]),
            Ok(Extend {
                id: b"7",
                token: Token::new(8),
                lock: Span::from_millis(9)
            })
        );
        assert!(Extend::parse(&words("MQ.EXTEND q 7 id 9")[..]).is_err());
    }
}
