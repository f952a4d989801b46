//! MQ.STATUS

use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority;
use crate::error::Error;
use crate::parse::{ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqStatus;

/// Reads the one argument after the queue, the id, for the commands that have no other.
pub fn parse_id<'a>(args: impl ArgList<'a>) -> Result<&'a [u8], Error> {
    Cursor::new(args, 2).id()
}

impl Command for MqStatus {
    const RECORD: &'static Record = &Record {
        name: "mq.status",
        syntax: "MQ.STATUS queue id",
        summary: "Tells the status of a message.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Inspection,
        arity: 3,
        flags: "readonly fast",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE, Argument::new("id", Kind::Text)],
        details: include_str!("status.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let id = parse_id(args)?;
        let now = authority::moment(ctx);
        match turn::look(ctx, name, |queue| queue.status(now.of(queue).now(), id))?.flatten() {
            Some(status) => ctx.reply_bulk(status.name().as_bytes()),
            None => ctx.reply_null(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    #[test]
    fn the_id_follows_the_queue() {
        assert_eq!(parse_id(&words("MQ.STATUS q id")[..]), Ok(&b"id"[..]));
        let error = Err(Error::Length {
            what: "id",
            min: 1,
            max: 512,
        });
        assert_eq!(parse_id(&words("MQ.STATUS q ")[..]), error);
    }
}
