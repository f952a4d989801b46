//! MQ.ENQUEUE

use super::record::{Access, Argument, Group, Kind, Record};
use crate::error::Error;
use crate::parse::{flag, is, once, ArgList, Cursor, MAX_INSTANT_MS};
use crate::redis::{Args, Command, Ctx};

/// The command.
pub struct MqEnqueue;

/// What a producer asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Enqueue<'a> {
    /// The message's content.
    pub payload: &'a [u8],
    /// The producer's id, or `None` for one that the server makes.
    pub id: Option<&'a [u8]>,
    /// When the message is ready. `None` is now; an update then keeps the time it has.
    pub start: Option<Start>,
    /// The lock time of this message in milliseconds, or `None` for the consumer's.
    pub lock_ms: Option<u64>,
    /// How many deliveries it gets before it is dead; 0 = no limit.
    pub attempts: u32,
    /// 0 is delivered first, 9 last.
    pub priority: u8,
    /// Runs again after the delivery or the window that holds its id now.
    pub requeue: bool,
    /// Replaces a message with its id that still waits.
    pub update: bool,
}

/// When a message is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// After so many milliseconds.
    Delay(u64),
    /// At this instant in Unix milliseconds; one in the past is now.
    At(u64),
}

/// The priority of a message that names none.
pub const DEFAULT_PRIORITY: u8 = 5;
const LOWEST_PRIORITY: u64 = 9;

impl<'a> Enqueue<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Enqueue<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        let payload = args.value()?;
        let (mut id, mut start, mut lock_ms) = (None, None, None);
        let (mut attempts, mut priority) = (None, None);
        let (mut requeue, mut update) = (false, false);
        while let Some(option) = args.word() {
            if is(option, "ID") {
                once(&mut id, args.id()?)?;
            } else if is(option, "DELAY") {
                once(&mut start, Start::Delay(args.duration("DELAY", 0)?))?;
            } else if is(option, "AT") {
                once(
                    &mut start,
                    Start::At(args.integer("AT", 0, MAX_INSTANT_MS)?),
                )?;
            } else if is(option, "LOCK") {
                once(&mut lock_ms, args.duration("LOCK", 1)?)?;
            } else if is(option, "ATTEMPTS") {
                once(&mut attempts, args.count("ATTEMPTS", 0)?)?;
            } else if is(option, "PRIORITY") {
                once(&mut priority, args.integer("PRIORITY", 0, LOWEST_PRIORITY)?)?;
            } else if is(option, "REQUEUE") {
                flag(&mut requeue)?;
            } else if is(option, "UPDATE") {
                flag(&mut update)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(Enqueue {
            payload,
            id,
            start,
            lock_ms,
            attempts: attempts.unwrap_or(0),
            priority: priority.map_or(DEFAULT_PRIORITY, |p| p as u8), // 0 to 9
            requeue,
            update,
        })
    }
}

impl Command for MqEnqueue {
    const RECORD: &'static Record = &Record {
        name: "mq.enqueue",
        syntax: "MQ.ENQUEUE queue payload [ID id] [DELAY ms | AT unix-ms] [LOCK ms] [ATTEMPTS n] \
                 [PRIORITY p] [REQUEUE] [UPDATE]",
        summary: "Adds a message to a queue, or says why its id is taken.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Producers,
        arity: -3,
        flags: "write deny-oom fast",
        newer_flags: &[],
        key: Some(Access::Insert),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("payload", Kind::Text),
            Argument::new("id", Kind::Text).after("ID").optional(),
            Argument::new(
                "start",
                Kind::OneOf(&[
                    Argument::new("ms", Kind::Integer).after("DELAY"),
                    Argument::new("unix-ms", Kind::UnixTime).after("AT"),
                ]),
            )
            .optional(),
            Argument::new("ms", Kind::Integer).after("LOCK").optional(),
            Argument::new("n", Kind::Integer).after("ATTEMPTS").optional(),
            Argument::new("p", Kind::Integer).after("PRIORITY").optional(),
            Argument::word("requeue", "REQUEUE").optional(),
            Argument::word("update", "UPDATE").optional(),
        ],
        details: "\
Reply: an array of the outcome and the message's id. The queue appears with its first message.

| option | meaning |
|---|---|
| `ID id` | 1 to 512 bytes of any value. Without it the server makes a UUIDv7 |
| `DELAY ms` | ready after that time, 0 to 315360000000 (ten years) |
| `AT unix-ms` | ready at that instant, at most ten years ahead; an instant in the past is now |
| `LOCK ms` | the lock time of this message, 1 to 315360000000, whatever the consumer asks for |
| `ATTEMPTS n` | how many deliveries it gets before it is dead, 0 to 4294967295; 0, the default, is no limit |
| `PRIORITY p` | 0 (first) to 9 (last); 5 if not given |
| `UPDATE` | replaces a message of that id that still waits |
| `REQUEUE` | if the id is being worked on, or finished but still taken, a copy runs afterwards |

What happens depends on the status of the id:

| status of that id | plain | with `UPDATE` | with `REQUEUE` (also with both) |
|---|---|---|---|
| none, `done-awaiting-gc`, `dead` | `added` | `added` | `added` |
| `queued` | refused | `updated` | refused; with both `updated` |
| `queued-with-backoff` | refused | `updated`; a `DELAY` or `AT` given resets the time, else it is kept | refused; with both `updated` |
| `locked` | refused | refused | `requeued`, now `locked-with-requeue` |
| `locked-with-requeue` | refused | refused | refused; with both `updated` (the waiting copy) |
| `done-with-backoff` | refused | refused | `requeued`, now `done-with-requeue` |
| `done-with-requeue` | refused | refused | refused; with both `updated` (the waiting copy) |

A refusal changes nothing and is no error: the outcome is then the status that refused, as in
`[\"locked\", \"order:42\"]`. Whatever is accepted delivers the new payload and the new options. A copy starts
with attempt 1; its `DELAY` counts from the end of the current delivery or window. A message added to the
id of a dead letter stands beside it.

At `maxmemory` the reply is an `OOM` error.",
    };

    fn run(_ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        Enqueue::parse(args)?;
        Err(Error::Internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;
    use crate::parse::MAX_DURATION_MS;

    fn parse(options: &str) -> Result<Start, Error> {
        let line = format!("MQ.ENQUEUE q p DELAY 7 {options}");
        Enqueue::parse(&words(line.trim())[..]).map(|request| request.start.unwrap())
    }

    fn range(what: &'static str, min: u64, max: u64) -> Result<Start, Error> {
        Err(Error::OutOfRange { what, min, max })
    }

    #[test]
    fn a_payload_alone_is_ready_now_with_the_defaults() {
        let args: [&[u8]; 3] = [b"MQ.ENQUEUE", b"q", b""];
        assert_eq!(
            Enqueue::parse(&args[..]),
            Ok(Enqueue {
                payload: b"",
                id: None,
                start: None,
                lock_ms: None,
                attempts: 0,
                priority: 5,
                requeue: false,
                update: false
            })
        );
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let line = "MQ.ENQUEUE q p update PRIORITY 0 Requeue ATTEMPTS 4294967295 lock 1 \
                    at 281474976710655 id ID";
        assert_eq!(
            Enqueue::parse(&words(line)[..]),
            Ok(Enqueue {
                payload: b"p",
                id: Some(b"ID"),
                start: Some(Start::At(MAX_INSTANT_MS)),
                lock_ms: Some(1),
                attempts: u32::MAX,
                priority: 0,
                requeue: true,
                update: true
            })
        );
    }

    #[test]
    fn a_payload_may_look_like_an_option() {
        let args = words("MQ.ENQUEUE q ID ID ID");
        let request = Enqueue::parse(&args[..]).unwrap();
        assert_eq!(
            (request.payload, request.id),
            (&b"ID"[..], Some(&b"ID"[..]))
        );
    }

    #[test]
    fn an_unknown_repeated_or_incomplete_option_is_a_syntax_error() {
        for options in [
            "DELAY 7",
            "AT 7",
            "ID a ID b",
            "ID",
            "LOCK 1 LOCK 1",
            "ATTEMPTS 1 ATTEMPTS 1",
            "PRIORITY 1 PRIORITY 1",
            "REQUEUE REQUEUE",
            "UPDATE UPDATE",
            "NOW",
            "LOCK",
        ] {
            assert_eq!(parse(options), Err(Error::Syntax), "{options}");
        }
    }

    #[test]
    fn a_number_out_of_range_names_its_option() {
        assert_eq!(parse("LOCK 0"), range("LOCK", 1, MAX_DURATION_MS));
        assert_eq!(
            parse("LOCK 315360000001"),
            range("LOCK", 1, MAX_DURATION_MS)
        );
        assert_eq!(parse("ATTEMPTS -1"), range("ATTEMPTS", 0, u32::MAX.into()));
        assert_eq!(
            parse("ATTEMPTS 4294967296"),
            range("ATTEMPTS", 0, u32::MAX.into())
        );
        assert_eq!(parse("PRIORITY 10"), range("PRIORITY", 0, 9));
        assert_eq!(parse("DELAY x"), range("DELAY", 0, MAX_DURATION_MS));
        assert_eq!(parse("AT 281474976710656"), range("AT", 0, MAX_INSTANT_MS));
        let too_long = "x".repeat(513);
        let id_error = Err(Error::Length {
            what: "id",
            min: 1,
            max: 512,
        });
        assert_eq!(parse(&format!("ID {too_long}")), id_error);
        assert_eq!(parse("REQUEUE ID  UPDATE"), id_error, "an empty id");
    }
}
