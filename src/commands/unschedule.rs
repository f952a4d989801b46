//! MQ.UNSCHEDULE

use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqUnschedule;

const FIRST_NAME: usize = 2;

/// Reads the arguments after the queue. All names are checked before the first is used.
pub fn parse<'a, L: ArgList<'a> + 'a>(args: L) -> Result<impl Iterator<Item = &'a [u8]>, Error> {
    let mut cursor = Cursor::new(args, FIRST_NAME);
    cursor.name()?;
    while !cursor.is_at_end() {
        cursor.name()?;
    }
    Ok((FIRST_NAME..).map_while(move |at| args.at(at)))
}

impl Command for MqUnschedule {
    const RECORD: &'static Record = &Record {
        name: "mq.unschedule",
        syntax: "MQ.UNSCHEDULE queue name [name ...]",
        summary: "Removes schedules; what they have enqueued stays.",
        complexity: "O(n log m) with n the number of names and m that of schedules",
        since: "0.1.0",
        group: Group::Operators,
        arity: -3,
        flags: "write",
        newer_flags: &[],
        key: Some(Access::Delete),
        tips: "",
        arguments: &[
            Argument::QUEUE,
            Argument::new("name", Kind::Text).multiple(),
        ],
        details: include_str!("unschedule.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let names = parse(args)?;
        let removed = turn::take(
            ctx,
            name,
            Missing::Leave,
            clock::now(ctx),
            ReplicateAs::Effects,
            |queue, turn| {
                let removed = names.filter(|name| queue.unschedule(turn, name));
                removed.count() as u64
            },
        )?;
        ctx.reply_integer(removed.unwrap_or(0));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    #[test]
    fn names_are_all_that_follows() {
        let args = words("MQ.UNSCHEDULE q a EVERY a");
        let names: Vec<_> = parse(&args[..]).unwrap().collect();
        assert_eq!(names, [&b"a"[..], b"EVERY", b"a"]);
        for line in ["MQ.UNSCHEDULE q", "MQ.UNSCHEDULE q a "] {
            assert!(parse(&words(line)[..]).is_err(), "{line}");
        }
    }
}
