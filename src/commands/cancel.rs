//! MQ.CANCEL

use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqCancel;

const FIRST_ID: usize = 2;

/// The ids after the queue.
pub struct Cancel<L> {
    args: L,
}

impl<'a, L: ArgList<'a>> Cancel<L> {
    /// Checks all ids before the first is used, so that a wrong one changes nothing.
    pub fn parse(args: L) -> Result<Cancel<L>, Error> {
        let mut cursor = Cursor::new(args, FIRST_ID);
        cursor.id()?;
        while !cursor.is_at_end() {
            cursor.id()?;
        }
        Ok(Cancel { args })
    }

    /// The ids, as they were given.
    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (FIRST_ID..).map_while(|at| self.args.at(at))
    }
}

impl Command for MqCancel {
    const RECORD: &'static Record = &Record {
        name: "mq.cancel",
        syntax: "MQ.CANCEL queue id [id ...]",
        summary: "Removes messages, whatever their status.",
        complexity: "O(n) with n the number of ids",
        since: "0.1.0",
        group: Group::Producers,
        arity: -3,
        flags: "write",
        newer_flags: &[],
        key: Some(Access::Delete),
        tips: "",
        arguments: &[Argument::QUEUE, Argument::new("id", Kind::Text).multiple()],
        details: include_str!("cancel.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let cancel = Cancel::parse(args)?;
        let now = clock::now(ctx);
        let removed = turn::take(
            ctx,
            name,
            Missing::Leave,
            now,
            ReplicateAs::Effects,
            |queue, turn| cancel.ids().filter(|id| queue.cancel(turn, id)).count(),
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
    fn all_ids_are_taken_in_their_order() {
        let args = words("MQ.CANCEL q b a b");
        let cancel = Cancel::parse(&args[..]).ok().unwrap();
        assert_eq!(cancel.ids().collect::<Vec<_>>(), [b"b", b"a", b"b"]);
    }

    #[test]
    fn one_wrong_id_refuses_them_all() {
        let error = Error::Length {
            what: "id",
            min: 1,
            max: 512,
        };
        let too_long = format!("MQ.CANCEL q a {}", "x".repeat(513));
        for line in ["MQ.CANCEL q a ", "MQ.CANCEL q  a", &too_long] {
            assert_eq!(Cancel::parse(&words(line)[..]).err(), Some(error), "{line}");
        }
        assert_eq!(
            Cancel::parse(&words("MQ.CANCEL q")[..]).err(),
            Some(Error::Syntax)
        );
    }
}
