//! MQ.DEQUEUE

use super::record::{Access, Argument, Group, Kind, Record};
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};

/// The command.
pub struct MqDequeue;

/// What a consumer asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Dequeue {
    /// At most so many deliveries, as an array of them; `None` for a single one.
    pub count: Option<u32>,
    /// The lock time in milliseconds for messages without their own, or `None` for the configured one.
    pub lock_ms: Option<u64>,
    /// What to do when nothing is ready.
    pub wait: Wait,
}

/// What a consumer does when nothing is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It gets null.
    No,
    /// It waits for so many milliseconds; 0 = for ever.
    Block(u64),
    /// It gets told when to poll again.
    EndOfQueue(Pauses),
}

/// The pauses of a polling consumer in milliseconds: by dry run, the last for all further ones. None:
/// the exponential backoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    ms: [u64; Pauses::MAX],
    len: usize,
}

impl Pauses {
    /// How many pauses can be given.
    pub const MAX: usize = 5;

    /// The pauses that were given.
    pub fn as_slice(&self) -> &[u64] {
        &self.ms[..self.len]
    }

    fn parse<'a, L: ArgList<'a>>(args: &mut Cursor<L>) -> Result<Pauses, Error> {
        let mut pauses = Pauses::default();
        while args.at_number() {
            let free = pauses.ms.get_mut(pauses.len).ok_or(Error::Syntax)?;
            *free = args.duration("EOQ", 0)?;
            pauses.len += 1;
        }
        Ok(pauses)
    }
}

impl Dequeue {
    /// Reads the arguments after the queue.
    pub fn parse<'a>(args: impl ArgList<'a>) -> Result<Dequeue, Error> {
        let mut args = Cursor::new(args, 2);
        let (mut count, mut lock_ms, mut wait) = (None, None, None);
        while let Some(option) = args.word() {
            if is(option, "COUNT") {
                once(&mut count, args.count("COUNT", 1)?)?;
            } else if is(option, "LOCK") {
                once(&mut lock_ms, args.duration("LOCK", 1)?)?;
            } else if is(option, "BLOCK") {
                once(&mut wait, Wait::Block(args.duration("BLOCK", 0)?))?;
            } else if is(option, "EOQ") {
                once(&mut wait, Wait::EndOfQueue(Pauses::parse(&mut args)?))?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(Dequeue {
            count,
            lock_ms,
            wait: wait.unwrap_or(Wait::No),
        })
    }
}

impl Command for MqDequeue {
    const RECORD: &'static Record = &Record {
        name: "mq.dequeue",
        syntax: "MQ.DEQUEUE queue [COUNT n] [LOCK ms] [BLOCK ms | EOQ [ms ...]]",
        summary: "Hands over the next ready message and locks it.",
        complexity: "O(n) with n the number of messages handed over",
        since: "0.1.0",
        group: Group::Consumers,
        arity: -2,
        flags: "write",
        newer_flags: &["blocking"],
        key: Some(Access::Take),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("n", Kind::Integer).after("COUNT").optional(),
            Argument::new("ms", Kind::Integer).after("LOCK").optional(),
            Argument::new(
                "wait",
                Kind::OneOf(&[
                    Argument::new("ms", Kind::Integer).after("BLOCK"),
                    Argument::new(
                        "eoq",
                        Kind::Block(&[
                            Argument::word("eoq", "EOQ"),
                            Argument::new("ms", Kind::Integer).optional().multiple(),
                        ]),
                    ),
                ]),
            )
            .optional(),
        ],
        details: "\
Reply: one delivery, an array of

| field | meaning |
|---|---|
| id | of the message, as text if the server made it |
| payload | any bytes |
| attempt | how often this message was handed over, this time included |
| token | names this delivery in `MQ.DONE` and `MQ.EXTEND`; no other delivery of the queue ever gets it |
| lock-ms | how long the lock holds, from now |
| enqueued-at | when the message was accepted, in Unix milliseconds |

More fields may be appended in time. With `COUNT` the reply is an array of one to n deliveries. If nothing
is ready it is null (in RESP2 a null array), with or without `COUNT`.

Messages come by priority, then in the order in which they became ready. Until its lock ends nobody
else gets the message. A lock that expires gives it back with the next attempt, or makes it dead if that
was its last.

| option | meaning |
|---|---|
| `COUNT n` | up to n deliveries, 1 to 4294967295 |
| `LOCK ms` | the lock time, 1 to 315360000000; if not given, `mq.lock-ms`. A message's own `LOCK` wins |
| `BLOCK ms` | waits until a message is ready for whatever reason, at most that long; 0 is for ever |
| `EOQ [ms ...]` | for workers that poll: if nothing is ready the reply says when to poll again |

Waiting consumers are served first come, first served. Inside `MULTI` and scripts `BLOCK` does not wait.

The reply of `EOQ` to a queue with nothing ready is an integer, the milliseconds until the next poll. All
pollers of the queue share that wait. It is drawn once per dry run: `exp-backoff(min(dry runs, 4))`, or
from one to five numbers after `EOQ`, by dry run, the last for all further ones. It never exceeds the
time until the next message becomes ready. While it runs, further polls get what is left of it; as soon as
something is ready it is served, and the dry runs start anew. Polling creates no queue.

`exp-backoff(n) = (2^(n-1) + random * 2^(n-1)) * 0.5 * factor` milliseconds with `random` from 0 to 1 and the
factor `mq.backoff-factor-ms`, at most `mq.backoff-max-ms`.",
    };

    fn run(_ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        Dequeue::parse(args)?;
        Err(Error::Internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;
    use crate::parse::MAX_DURATION_MS;

    fn parse(options: &str) -> Result<Dequeue, Error> {
        Dequeue::parse(&words(format!("MQ.DEQUEUE q {options}").trim())[..])
    }

    fn pauses(options: &str) -> Vec<u64> {
        match parse(options).unwrap().wait {
            Wait::EndOfQueue(pauses) => pauses.as_slice().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_options_it_is_one_message_at_once() {
        assert_eq!(
            parse(""),
            Ok(Dequeue {
                count: None,
                lock_ms: None,
                wait: Wait::No
            })
        );
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let all = Dequeue {
            count: Some(1),
            lock_ms: Some(2),
            wait: Wait::Block(0),
        };
        assert_eq!(parse("block 0 LOCK 2 Count 1"), Ok(all));
    }

    #[test]
    fn eoq_takes_up_to_five_pauses_wherever_it_stands() {
        assert_eq!(pauses("EOQ"), []);
        assert_eq!(pauses("EOQ 0"), [0]);
        assert_eq!(pauses("EOQ 1 2 3 4 5 COUNT 9"), [1, 2, 3, 4, 5]);
        assert_eq!(pauses("COUNT 9 EOQ LOCK 1"), []);
        assert_eq!(parse("EOQ 1 2 3 4 5 6"), Err(Error::Syntax));
    }

    #[test]
    fn an_unknown_repeated_or_incomplete_option_is_a_syntax_error() {
        for options in [
            "COUNT 1 COUNT 1",
            "LOCK 1 LOCK 1",
            "BLOCK 1 BLOCK 1",
            "EOQ EOQ",
            "EOQ BLOCK 1",
            "BLOCK 1 EOQ",
            "BLOCK",
            "COUNT",
            "EOQ soon",
            "NOW",
            "5",
        ] {
            assert_eq!(parse(options), Err(Error::Syntax), "{options}");
        }
    }

    #[test]
    fn a_number_out_of_range_names_its_option() {
        let range = |what, min, max| Err(Error::OutOfRange { what, min, max });
        assert_eq!(parse("COUNT 0"), range("COUNT", 1, u32::MAX.into()));
        assert_eq!(
            parse("COUNT 4294967296"),
            range("COUNT", 1, u32::MAX.into())
        );
        assert_eq!(parse("LOCK 0"), range("LOCK", 1, MAX_DURATION_MS));
        assert_eq!(parse("BLOCK -1"), range("BLOCK", 0, MAX_DURATION_MS));
        assert_eq!(parse("BLOCK 0.5"), range("BLOCK", 0, MAX_DURATION_MS));
        for eoq in ["EOQ -1", "EOQ 1 +2", "EOQ 01", "EOQ 1s", "EOQ 315360000001"] {
            assert_eq!(parse(eoq), range("EOQ", 0, MAX_DURATION_MS), "{eoq}");
        }
    }
}
