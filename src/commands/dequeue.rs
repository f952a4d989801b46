//! MQ.DEQUEUE

use std::iter;

use redis_mq_core::{EoqWaits, Span};

use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority::{self, Right};
use crate::clock;
use crate::consumers::{self, Request};
use crate::delivery::{reply, Shown};
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx, KeyName};
use crate::scratch;
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqDequeue;

/// What a consumer asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Dequeue {
    /// At most so many deliveries, as an array of them; `None` for a single one.
    pub count: Option<u32>,
    /// The lock time for messages without their own, or `None` for the configured one.
    pub lock: Option<Span>,
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

/// The pauses of a polling consumer: by dry run, the last for all further ones. None:
/// the exponential backoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    spans: [Span; Pauses::MAX],
    len: usize,
}

impl Pauses {
    /// How many pauses can be given.
    pub const MAX: usize = 5;

    /// The pauses that were given.
    pub fn as_slice(&self) -> &[Span] {
        &self.spans[..self.len]
    }

    fn waits(&self) -> EoqWaits<'_> {
        match self.as_slice() {
            [] => EoqWaits::Exponential,
            spans => EoqWaits::Listed(spans),
        }
    }

    fn parse<'a, L: ArgList<'a>>(args: &mut Cursor<L>) -> Result<Pauses, Error> {
        let mut pauses = Pauses::default();
        while args.at_number() {
            let free = pauses.spans.get_mut(pauses.len).ok_or(Error::Syntax)?;
            *free = Span::from_millis(args.duration("EOQ", 0)?);
            pauses.len += 1;
        }
        Ok(pauses)
    }
}

impl Dequeue {
    /// Reads the arguments after the queue.
    pub fn parse<'a>(args: impl ArgList<'a>) -> Result<Dequeue, Error> {
        let mut args = Cursor::new(args, 2);
        let (mut count, mut lock, mut wait) = (None, None, None);
        while let Some(option) = args.word() {
            if is(option, "COUNT") {
                once(&mut count, args.count("COUNT", 1)?)?;
            } else if is(option, "LOCK") {
                once(&mut lock, Span::from_millis(args.duration("LOCK", 1)?))?;
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
            lock,
            wait: wait.unwrap_or(Wait::No),
        })
    }

    /// How many deliveries it gets at most.
    #[inline]
    pub fn at_most(&self) -> usize {
        self.count.unwrap_or(1) as usize
    }

    /// For how long it waits if it does, in milliseconds; 0 = for ever.
    pub fn block(&self, ctx: &Ctx) -> Option<u64> {
        match self.wait {
            Wait::Block(timeout_ms) if !ctx.flags().denies_blocking() => Some(timeout_ms),
            _ => None,
        }
    }

    /// What it asks of a queue at which it waits.
    pub fn while_waiting(&self) -> Request {
        let Dequeue { count, lock, .. } = *self;
        Request { count, lock }
    }

    /// Replies with what is ready. Where nothing is, there is no reply yet.
    #[inline]
    fn serve(&self, ctx: &Ctx, name: KeyName<'_>) -> Result<Got, Error> {
        let (now, form) = (clock::now(ctx), ReplicateAs::CommandOrEffects);
        let got = turn::take(ctx, name, Missing::Leave, now, form, |queue, turn| {
            let time = now.of(queue);
            let ready = queue.deliverable(turn, self.at_most());
            if ready != 0 {
                let mut first = self.count.is_some();
                queue.dequeue(turn, ready, self.lock, |delivery| {
                    if std::mem::take(&mut first) {
                        ctx.reply_array(1 + delivery.left);
                    }
                    reply(ctx, None, &Shown::of(time, delivery));
                });
                return Got::Deliveries;
            }
            match &self.wait {
                Wait::EndOfQueue(pauses) => Got::Pause(queue.eoq_wait(turn, pauses.waits())),
                _ => Got::Nothing,
            }
        })?;
        Ok(match (got, &self.wait) {
            (Some(got), _) => got,
            // Polling creates no queue; each such poll is a first dry run.
            (None, Wait::EndOfQueue(pauses)) => {
                let random = scratch::random();
                Got::Pause(pauses.waits().draw(0, random, &turn::settings()))
            }
            (None, _) => Got::Nothing,
        })
    }
}

/// What a consumer got.
enum Got {
    /// Its reply.
    Deliveries,
    /// Nothing.
    Nothing,
    /// Nothing, and this long to wait before it polls again.
    Pause(Span),
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
        details: include_str!("dequeue.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let request = Dequeue::parse(args)?;
        if authority::of_command(ctx) == Right::Obey {
            let (count, lock) = (request.at_most(), request.lock);
            return turn::obey(ctx, name, |queue| queue.replay_dequeue(count, lock));
        }
        let wait = |timeout_ms| {
            let asked = request.while_waiting();
            consumers::wait(ctx, args, iter::once(name), timeout_ms, asked, false)
        };
        if consumers::come_first(ctx, name)? {
            if let Some(timeout_ms) = request.block(ctx) {
                return wait(timeout_ms);
            }
        }
        match request.serve(ctx, name)? {
            Got::Deliveries => {}
            Got::Nothing => match request.block(ctx) {
                Some(timeout_ms) => wait(timeout_ms)?,
                None => ctx.reply_null_array(),
            },
            Got::Pause(pause) => ctx.reply_integer(pause.millis()),
        }
        Ok(())
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
            Wait::EndOfQueue(pauses) => {
                pauses.as_slice().iter().map(|span| span.millis()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_options_it_is_one_message_at_once() {
        assert_eq!(
            parse(""),
            Ok(Dequeue {
                count: None,
                lock: None,
                wait: Wait::No
            })
        );
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let all = Dequeue {
            count: Some(1),
            lock: Some(Span::from_millis(2)),
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
