//! MQ.MDEQUEUE

use redis_mq_core::Span;

use super::dequeue::{Dequeue, Wait};
use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::consumers;
use crate::delivery::{reply, Shown};
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor, MAX_QUEUES};
use crate::redis::{Args, Command, Ctx, KeyName};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqMdequeue;

/// What a consumer of several queues asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct DequeueMany {
    /// How many queues; their names follow the number.
    pub queues: usize,
    /// What it asks of all of them together.
    pub request: Dequeue,
}

const FIRST_QUEUE: usize = Record::COUNT_OF_KEYS + 1;

impl DequeueMany {
    /// Reads the arguments after the command's name.
    pub fn parse<'a>(args: impl ArgList<'a>) -> Result<DequeueMany, Error> {
        let mut args = Cursor::new(args, Record::COUNT_OF_KEYS);
        let queues = args.integer("numqueues", 1, MAX_QUEUES)? as usize; // at most MAX_QUEUES
        args.pass_over(queues)?;
        let (mut count, mut lock, mut wait) = (None, None, None);
        while let Some(option) = args.word() {
            if is(option, "COUNT") {
                once(&mut count, args.count("COUNT", 1)?)?;
            } else if is(option, "LOCK") {
                once(&mut lock, Span::from_millis(args.duration("LOCK", 1)?))?;
            } else if is(option, "BLOCK") {
                once(&mut wait, Wait::Block(args.duration("BLOCK", 0)?))?;
            } else {
                return Err(Error::Syntax);
            }
        }
        let request = Dequeue {
            count,
            lock,
            wait: wait.unwrap_or(Wait::No),
        };
        Ok(DequeueMany { queues, request })
    }

    fn names<'a>(&self, args: Args<'a>) -> impl Iterator<Item = KeyName<'a>> + Clone {
        let behind = FIRST_QUEUE + self.queues;
        (FIRST_QUEUE..behind).filter_map(move |at| args.key(at))
    }

    /// Replies with what is ready, of the first named queues first. Where nothing is, there is no reply
    /// yet; returns whether there was one.
    fn serve(&self, ctx: &Ctx, args: Args<'_>) -> Result<bool, Error> {
        // Once the reply has begun it cannot become an error any more.
        for name in self.names(args) {
            turn::peek(ctx, name, |_| ())?;
        }
        let Dequeue { count, lock, .. } = self.request;
        let most = self.request.at_most();
        let mut given = 0;
        for name in self.names(args) {
            let now = clock::now(ctx);
            let (form, mut new) = (ReplicateAs::Effects, 0);
            let got = turn::take(ctx, name, Missing::Leave, now, form, |queue, turn| {
                let time = now.of(queue);
                queue.dequeue(turn, most - given, lock, |delivery| {
                    if count.is_some() && given + new == 0 {
                        ctx.begin_array();
                    }
                    new += 1;
                    reply(ctx, Some(name.bytes()), &Shown::of(time, delivery));
                });
            });
            given += new;
            match got {
                Err(error) if given == 0 => return Err(error),
                Err(_) => break,
                Ok(_) if given == most => break,
                Ok(_) => {}
            }
        }
        if count.is_some() && given != 0 {
            ctx.end_array(given);
        }
        Ok(given != 0)
    }
}

impl Command for MqMdequeue {
    const RECORD: &'static Record = &Record {
        name: "mq.mdequeue",
        syntax: "MQ.MDEQUEUE numqueues queue [queue ...] [COUNT n] [LOCK ms] [BLOCK ms]",
        summary: "Hands over the next ready message of several queues and locks it.",
        complexity: "O(q + n) with q the number of queues and n that of the messages handed over",
        since: "0.1.0",
        group: Group::Consumers,
        arity: -3,
        flags: "write",
        newer_flags: &["blocking"],
        key: Some(Access::Take),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::new("numqueues", Kind::Integer),
            Argument::QUEUE.multiple(),
            Argument::new("n", Kind::Integer).after("COUNT").optional(),
            Argument::new("ms", Kind::Integer).after("LOCK").optional(),
            Argument::new("ms", Kind::Integer).after("BLOCK").optional(),
        ],
        details: include_str!("mdequeue.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let all = DequeueMany::parse(args)?;
        let block = || all.request.block(ctx);
        let wait = |timeout_ms| {
            let asked = all.request.while_waiting();
            consumers::wait(ctx, args, all.names(args), timeout_ms, asked, true)
        };
        let mut others_come_first = false;
        for name in all.names(args) {
            others_come_first |= consumers::come_first(ctx, name)?;
        }
        if others_come_first {
            if let Some(timeout_ms) = block() {
                for name in all.names(args) {
                    turn::peek(ctx, name, |_| ())?;
                }
                return wait(timeout_ms);
            }
        }
        if all.serve(ctx, args)? {
            return Ok(());
        }
        match block() {
            Some(timeout_ms) => wait(timeout_ms),
            None => {
                ctx.reply_null_array();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    fn parse(line: &str) -> Result<DequeueMany, Error> {
        DequeueMany::parse(&words(&format!("MQ.MDEQUEUE {line}"))[..])
    }

    #[test]
    fn queues_may_look_like_options_since_they_are_counted() {
        let all = parse("3 COUNT 5 BLOCK block 0 COUNT 2 LOCK 7").unwrap();
        let request = Dequeue {
            count: Some(2),
            lock: Some(Span::from_millis(7)),
            wait: Wait::Block(0),
        };
        assert_eq!(all, DequeueMany { queues: 3, request });
        let plain = parse("1 q").unwrap().request;
        assert_eq!((plain.count, plain.wait), (None, Wait::No));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for line in [
            "2 q",
            "1 q q",
            "1 q EOQ",
            "1 q EOQ 5",
            "1 q COUNT",
            "1 q COUNT 1 COUNT 1",
            "1 q BLOCK 1 BLOCK 1",
            "1 q LOCK 1 LOCK 1",
        ] {
            assert_eq!(parse(line), Err(Error::Syntax), "{line}");
        }
        let (what, min, max) = ("numqueues", 1, MAX_QUEUES);
        for line in ["0 q", "-1 q", "1001 q", "q", "01 q"] {
            let error = Err(Error::OutOfRange { what, min, max });
            assert_eq!(parse(line), error, "{line}");
        }
    }
}
