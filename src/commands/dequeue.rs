//! MQ.DEQUEUE

use std::iter;

use redis_mq_core::{BatchResult, Delivery, EoqWaits, Span, Timestamp};

use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority::{self, Right};
use crate::clock::{self, QueueTime};
use crate::error::Error;
use crate::info::BLOCKED_CONSUMERS;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{wait_on_keys, Args, Command, Ctx, KeyName, Served, Waiting};
use crate::scratch;
use crate::turn::{self, Missing, ReplicateAs};
use crate::wake::{self, PAUSED_RETRY_MS};

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

    /// Replies with what is ready, each delivery with the queue's name in front if `named`. Where nothing
    /// is, there is no reply yet.
    #[inline]
    fn serve(
        &self,
        ctx: &Ctx,
        name: KeyName<'_>,
        named: bool,
        form: ReplicateAs,
    ) -> Result<Got, Error> {
        let now = clock::now(ctx);
        let got = turn::take(ctx, name, Missing::Leave, now, form, |queue, turn| {
            let time = now.of(queue);
            let ready = queue.deliverable(turn, self.at_most());
            if ready != 0 {
                let mut first = self.count.is_some();
                queue.dequeue(turn, ready, self.lock, |delivery| {
                    if std::mem::take(&mut first) {
                        ctx.reply_array(1 + delivery.left);
                    }
                    reply(ctx, named.then_some(name), time, delivery);
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

/// Replies a delivery, with the name of its queue in front if that is given.
#[inline]
pub fn reply(ctx: &Ctx, queue: Option<KeyName<'_>>, time: QueueTime, delivery: &Delivery<'_>) {
    let is_rare = delivery.batch.is_some() || delivery.scheduled_at != Timestamp::ZERO;
    let has_more = is_rare || !(delivery.headers.is_empty() && delivery.group.is_empty());
    ctx.reply_array(6 + usize::from(has_more) + usize::from(queue.is_some()));
    if let Some(queue) = queue {
        ctx.reply_bulk(queue.bytes());
    }
    ctx.reply_bulk(delivery.id.bytes());
    ctx.reply_bulk(delivery.payload);
    ctx.reply_integer(delivery.attempt.into());
    ctx.reply_integer(delivery.token.value());
    ctx.reply_integer(delivery.lock.millis());
    ctx.reply_integer(time.shown(delivery.enqueued_at));
    if has_more {
        reply_more(ctx, delivery);
    }
}

/// What only some deliveries have to tell. An element costs every dequeue, so plain ones have none.
#[cold]
fn reply_more(ctx: &Ctx, delivery: &Delivery<'_>) {
    let more = [("headers", delivery.headers), ("group", delivery.group)];
    let told = more.iter().filter(|(_, value)| !value.is_empty());
    let is_run = delivery.scheduled_at != Timestamp::ZERO;
    let rare = usize::from(is_run) + usize::from(delivery.batch.is_some());
    ctx.reply_map(told.clone().count() + rare);
    for (name, value) in told {
        ctx.reply_bulk(name.as_bytes());
        ctx.reply_bulk(value);
    }
    if is_run {
        ctx.reply_bulk(b"scheduled-at");
        ctx.reply_integer(delivery.scheduled_at.millis());
    }
    if let Some(batch) = delivery.batch {
        ctx.reply_bulk(b"batch");
        reply_batch(ctx, batch);
    }
}

/// How a batch has ended: how many messages, and how many of them are dead.
pub fn reply_batch(ctx: &Ctx, batch: BatchResult) {
    ctx.reply_array(2);
    ctx.reply_integer(batch.ended);
    ctx.reply_integer(batch.dead);
}

/// A consumer that waits. Nothing is locked for it before the moment it is served.
struct Consumer {
    request: Dequeue,
    /// Whether it may get something from several queues.
    named: bool,
    _waits: Box<[wake::Wait]>,
}

/// Lets the client wait at these queues, there or not, for a message of any of them. Deliveries get the name
/// of their queue if `named`.
pub fn wait<'a>(
    ctx: &Ctx,
    names: impl Iterator<Item = KeyName<'a>> + Clone,
    timeout_ms: u64,
    request: Dequeue,
    named: bool,
) -> Result<(), Error> {
    BLOCKED_CONSUMERS.add(1);
    let consumer = Consumer {
        request,
        named,
        _waits: names
            .clone()
            .map(|name| wake::Wait::at(ctx, name))
            .collect(),
    };
    wait_on_keys(ctx, names.clone(), timeout_ms, consumer)?;
    for name in names {
        wake::wait_begins(ctx, name);
    }
    Ok(())
}

impl Waiting for Consumer {
    fn ready(&self, ctx: &Ctx, name: KeyName<'_>, args: Args<'_>) -> Served {
        // Whoever gets nothing must change nothing: the server takes no effects from this callback
        // unless it replies. So time is let act here only if there is something to hand over.
        let now = clock::read(ctx);
        let queue = turn::peek(ctx, name, |queue| {
            let settled = !queue.is_unsettled(now.steady());
            let due = queue.next_due_by_server(now.steady());
            let run = queue.next_run().map(|run| now.when_clock_shows(run));
            let due = [due, run].into_iter().flatten().min();
            // The timer's look settles the time.
            let due = if settled {
                due
            } else {
                Some(due.unwrap_or_default())
            };
            (settled && queue.ready_len() != 0, due)
        });
        match queue {
            Ok(Some((true, _))) => {}
            Ok(Some((false, Some(due)))) => {
                wake::look_again(ctx, name, due.millis());
                return Served::No;
            }
            _ => return Served::No,
        }
        match authority::of_waiter(ctx, args) {
            Right::Decide => {}
            Right::Later => {
                wake::look_again(ctx, name, now.steady_ms() + PAUSED_RETRY_MS);
                return Served::No;
            }
            Right::Refuse(why) => {
                ctx.reply_error(&why);
                return Served::Yes;
            }
            Right::Obey => return Served::No, // nobody waits where another server decides
        }
        // A key of another type is no reason to stop waiting: the queue may come back.
        match self
            .request
            .serve(ctx, name, self.named, ReplicateAs::Effects)
        {
            Ok(Got::Deliveries) => Served::Yes,
            _ => Served::No,
        }
    }

    fn timed_out(&self, ctx: &Ctx, _args: Args<'_>) {
        ctx.reply_null_array();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        BLOCKED_CONSUMERS.down();
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
        details: include_str!("dequeue.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let request = Dequeue::parse(args)?;
        if authority::of_command(ctx) == Right::Obey {
            let (count, lock) = (request.at_most(), request.lock);
            return turn::obey(ctx, name, |queue| queue.replay_dequeue(count, lock));
        }
        match request.serve(ctx, name, false, ReplicateAs::CommandOrEffects)? {
            Got::Deliveries => {}
            Got::Nothing => match request.wait {
                Wait::Block(timeout_ms) if !ctx.flags().denies_blocking() => {
                    wait(ctx, iter::once(name), timeout_ms, request, false)?;
                }
                _ => ctx.reply_null_array(),
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
