//! MQ.RESULT

use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::waiting::{self, Asked};

/// The command.
pub struct MqResult;

/// What somebody wants to know.
#[derive(Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The message.
    pub id: &'a [u8],
    /// For how many milliseconds to wait for its end, 0 = for ever.
    pub block: Option<u64>,
}

impl<'a> Ask<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Ask<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        let id = args.id()?;
        let mut block = None;
        while let Some(option) = args.word() {
            if is(option, "BLOCK") {
                once(&mut block, args.duration("BLOCK", 0)?)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(Ask { id, block })
    }
}

impl Command for MqResult {
    const RECORD: &'static Record = &Record {
        name: "mq.result",
        syntax: "MQ.RESULT queue id [BLOCK ms]",
        summary: "Tells what became of a message, with its result, or waits for that.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Producers,
        arity: -3,
        flags: "readonly",
        newer_flags: &["blocking"],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("id", Kind::Text),
            Argument::new("ms", Kind::Integer).after("BLOCK").optional(),
        ],
        details: include_str!("result.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Ask { id, block } = Ask::parse(args)?;
        // On a replica other messages end than those that it tells of.
        let may_wait = |_: &u64| authority::decides() && !ctx.flags().denies_blocking();
        let block = block.filter(may_wait);
        let asked = waiting::ask(ctx, name, id, block.is_some())?;
        if let (Asked::MayWait, Some(timeout_ms)) = (asked, block) {
            waiting::begin(ctx, name, id, timeout_ms, authority::moment(ctx))?;
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
    fn an_id_is_followed_by_at_most_one_wait() {
        let parse = |line: &'static str| Ask::parse(&*words(line).leak());
        let ask = |id, block| Ok(Ask { id, block });
        assert_eq!(parse("MQ.RESULT q BLOCK"), ask(b"BLOCK", None));
        assert_eq!(parse("MQ.RESULT q a block 0"), ask(b"a", Some(0)));
        for line in [
            "MQ.RESULT q a BLOCK",
            "MQ.RESULT q a BLOCK 1 BLOCK 1",
            "MQ.RESULT q a EOQ",
        ] {
            assert_eq!(parse(line), Err(Error::Syntax), "{line}");
        }
        let (what, min, max) = ("BLOCK", 0, MAX_DURATION_MS);
        let error = Err(Error::OutOfRange { what, min, max });
        assert_eq!(parse("MQ.RESULT q a BLOCK -1"), error);
        let (what, min, max) = ("id", 1, 512);
        let error = Err(Error::Length { what, min, max });
        assert_eq!(parse("MQ.RESULT q "), error);
    }
}
