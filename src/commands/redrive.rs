//! MQ.REDRIVE

use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqRedrive;

const FIRST_ID: usize = 2;
const MAX_COUNT: u64 = 10_000;

/// Which dead letters are to be sent again.
pub enum Redrive<L> {
    /// The oldest, so many of them.
    Oldest(usize),
    /// Those with the ids after the queue.
    Ids(L),
}

impl<'a, L: ArgList<'a>> Redrive<L> {
    /// Reads the arguments after the queue; all ids are checked before the first is used. `COUNT` in
    /// front is the option: who has a letter of that id names another one before it.
    pub fn parse(args: L) -> Result<Redrive<L>, Error> {
        let mut cursor = Cursor::new(args, FIRST_ID);
        if cursor.keyword("COUNT") {
            let count = cursor.integer("COUNT", 1, MAX_COUNT)?;
            return if cursor.is_at_end() {
                Ok(Redrive::Oldest(count as usize)) // at most MAX_COUNT
            } else {
                Err(Error::Syntax)
            };
        }
        let mut cursor = Cursor::new(args, FIRST_ID);
        cursor.id()?;
        while !cursor.is_at_end() {
            cursor.id()?;
        }
        Ok(Redrive::Ids(args))
    }

    /// The ids that were given.
    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let args = match self {
            Redrive::Oldest(_) => None,
            Redrive::Ids(args) => Some(args),
        };
        (FIRST_ID..).map_while(move |at| args?.at(at))
    }
}

impl Command for MqRedrive {
    const RECORD: &'static Record = &Record {
        name: "mq.redrive",
        syntax: "MQ.REDRIVE queue id [id ...] | COUNT n",
        summary: "Sends dead letters again.",
        complexity: "O(n) with n the number of dead letters looked at",
        since: "0.1.0",
        group: Group::Operators,
        arity: -3,
        flags: "write",
        newer_flags: &[],
        key: Some(Access::Update),
        tips: "",
        arguments: &[
            Argument::QUEUE,
            Argument::new(
                "letters",
                Kind::OneOf(&[
                    Argument::new("id", Kind::Text).multiple(),
                    Argument::new("n", Kind::Integer).after("COUNT"),
                ]),
            ),
        ],
        details: include_str!("redrive.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let redrive = Redrive::parse(args)?;
        let now = clock::now(ctx);
        let redriven = turn::take(
            ctx,
            name,
            Missing::Leave,
            now,
            ReplicateAs::Effects,
            |queue, turn| match &redrive {
                Redrive::Oldest(count) => queue.redrive_oldest(turn, *count),
                ids => ids.ids().filter(|id| queue.redrive(turn, id)).count(),
            },
        )?
        .unwrap_or(0);
        ctx.reply_integer(redriven as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    fn parse(line: &'static str) -> Result<Redrive<&'static [&'static [u8]]>, Error> {
        Redrive::parse(&*words(line).leak())
    }

    #[test]
    fn ids_or_a_count_are_taken() {
        let ids = parse("MQ.REDRIVE q b a").ok().unwrap();
        assert_eq!(ids.ids().collect::<Vec<_>>(), [b"b", b"a"]);
        assert!(matches!(
            parse("MQ.REDRIVE q count 5"),
            Ok(Redrive::Oldest(5))
        ));
        for line in [
            "MQ.REDRIVE q a COUNT",
            "MQ.REDRIVE q a COUNT 5",
            "MQ.REDRIVE q 5",
        ] {
            assert!(matches!(parse(line), Ok(Redrive::Ids(_))), "{line}: ids");
        }
    }

    #[test]
    fn what_is_wrong_refuses_all() {
        assert_eq!(parse("MQ.REDRIVE q").err(), Some(Error::Syntax));
        assert_eq!(parse("MQ.REDRIVE q COUNT").err(), Some(Error::Syntax));
        assert_eq!(parse("MQ.REDRIVE q COUNT 5 a").err(), Some(Error::Syntax));
        for line in [
            "MQ.REDRIVE q a ",
            "MQ.REDRIVE q COUNT 0",
            "MQ.REDRIVE q COUNT 10001",
            "MQ.REDRIVE q COUNT x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
