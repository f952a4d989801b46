//! MQ.FIRE

use redis_mq_core::{Enqueued, Full, Outcome};

use super::enqueue;
use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqFire;

/// Reads the arguments after the queue: the name of the schedule.
pub fn parse<'a>(args: impl ArgList<'a>) -> Result<&'a [u8], Error> {
    let mut args = Cursor::new(args, 2);
    let name = args.name()?;
    if args.is_at_end() {
        Ok(name)
    } else {
        Err(Error::Syntax)
    }
}

impl Command for MqFire {
    const RECORD: &'static Record = &Record {
        name: "mq.fire",
        syntax: "MQ.FIRE queue name",
        summary: "Enqueues what a schedule enqueues, now; its times stay.",
        complexity: "O(log n) with n the number of schedules",
        since: "0.1.0",
        group: Group::Operators,
        arity: 3,
        flags: "write deny-oom",
        newer_flags: &[],
        key: Some(Access::Insert),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE, Argument::new("name", Kind::Text)],
        details: include_str!("fire.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let queue = args.key(1).ok_or(Error::Internal)?;
        let name = parse(args)?;
        let fired = turn::take(
            ctx,
            queue,
            Missing::Leave,
            clock::now(ctx),
            ReplicateAs::Effects,
            |queue, turn| queue.fire(turn, name, |fired| replied(ctx, fired)),
        )?;
        match fired.flatten() {
            None => ctx.reply_null_array(),
            Some(Some(full)) => return Err(Error::Full(full)),
            Some(None) => {}
        }
        Ok(())
    }
}

/// Replies what became of the run, unless that is an error.
fn replied(ctx: &Ctx, fired: &Enqueued<'_>) -> Option<Full> {
    match fired.outcome {
        Outcome::Full(full) => Some(full),
        _ => {
            enqueue::reply(ctx, fired);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    #[test]
    fn a_name_is_all_that_follows() {
        assert_eq!(parse(&words("MQ.FIRE q n")[..]), Ok(&b"n"[..]));
        assert_eq!(parse(&words("MQ.FIRE q n n")[..]), Err(Error::Syntax));
        assert!(parse(&words("MQ.FIRE q ")[..]).is_err());
    }
}
