//! MQ.MENQUEUE

use std::mem;

use redis_mq_core::{Enqueue, FollowUp, Start, MAX_HEADER_BYTES};

use super::enqueue::{argument, check, reply, Options};
use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor, MAX_BATCH, MAX_ID_LEN};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqMenqueue;

const FIRST_PAYLOAD: usize = 3;

/// Messages with the same options.
#[derive(Debug, PartialEq, Eq)]
pub struct EnqueueMany<'a, L> {
    args: L,
    /// How many messages.
    pub count: usize,
    /// Where their ids begin, if they are given.
    first_id: Option<usize>,
    /// What all of them have alike; no id and no payload.
    pub template: Enqueue<'a>,
    /// What comes when all of them have ended.
    pub follow_up: Option<FollowUp<'a>>,
}

impl<'a, L: ArgList<'a>> EnqueueMany<'a, L> {
    /// Reads the arguments after the queue; all are checked before the first message is added.
    pub fn parse(args: L) -> Result<EnqueueMany<'a, L>, Error> {
        let mut cursor = Cursor::new(args, FIRST_PAYLOAD - 1);
        let count = cursor.integer("count", 1, MAX_BATCH)? as usize; // at most MAX_BATCH
        cursor.pass_over(count)?;
        let (mut template, mut options) = (Enqueue::new(b""), Options::default());
        let mut first_id = None;
        let (mut then, mut then_id, mut then_headers) = (None, None, None);
        while let Some(option) = cursor.word() {
            if is(option, "IDS") {
                once(&mut first_id, cursor.position())?;
                for _ in 0..count {
                    cursor.id()?;
                }
            } else if is(option, "THEN") {
                once(&mut then, cursor.value()?)?;
            } else if is(option, "THENID") {
                once(&mut then_id, cursor.bytes("THENID", 1, MAX_ID_LEN)?)?;
            } else if is(option, "THENHEADERS") {
                let headers = cursor.bytes("THENHEADERS", 1, MAX_HEADER_BYTES)?;
                once(&mut then_headers, headers)?;
            } else {
                options.read(option, &mut cursor)?;
            }
        }
        options.give_to(&mut template)?;
        let has_parts = then_id.is_some() || then_headers.is_some();
        let is_whole = then.is_some() || !has_parts;
        // A message is a member of one batch.
        if !is_whole || (then.is_some() && template.join.is_some()) {
            return Err(Error::Syntax);
        }
        let follow_up = then.map(|payload| FollowUp {
            id: then_id,
            payload,
            headers: then_headers.unwrap_or_default(),
        });
        Ok(EnqueueMany {
            args,
            count,
            first_id,
            template,
            follow_up,
        })
    }

    /// Ids and payloads, as they were given.
    pub fn messages(&self) -> impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone + '_ {
        let (args, first_id) = (self.args, self.first_id);
        (0..self.count).map_while(move |n| {
            let id = first_id.and_then(|first| args.at(first + n));
            Some((id, args.at(FIRST_PAYLOAD + n)?))
        })
    }
}

impl Command for MqMenqueue {
    const RECORD: &'static Record = &Record {
        name: "mq.menqueue",
        syntax: "MQ.MENQUEUE queue count payload [payload ...] [IDS id [id ...]] \
                 [DELAY ms | AT unix-ms] [LOCK ms] [ATTEMPTS n] [PRIORITY p] [TTL ms [BURY]] \
                 [GROUP g] [HEADERS bytes] [RETAIN ms] [JOIN id] [REQUEUE] [UPDATE] \
                 [THEN payload [THENID id] [THENHEADERS bytes]]",
        summary: "Adds many messages with the same options.",
        complexity: "O(n) with n the number of messages",
        since: "0.1.0",
        group: Group::Producers,
        arity: -4,
        flags: "write deny-oom",
        newer_flags: &[],
        key: Some(Access::Insert),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("count", Kind::Integer),
            Argument::new("payload", Kind::Text).multiple(),
            Argument::new("id", Kind::Text)
                .after("IDS")
                .optional()
                .multiple(),
            argument::START,
            argument::LOCK,
            argument::ATTEMPTS,
            argument::PRIORITY,
            argument::TTL,
            argument::GROUP,
            argument::HEADERS,
            argument::RETAIN,
            argument::JOIN,
            argument::REQUEUE,
            argument::UPDATE,
            Argument::new(
                "then",
                Kind::Block(&[
                    Argument::new("payload", Kind::Text).after("THEN"),
                    Argument::new("id", Kind::Text).after("THENID").optional(),
                    Argument::new("bytes", Kind::Text)
                        .after("THENHEADERS")
                        .optional(),
                ]),
            )
            .optional(),
        ],
        details: include_str!("menqueue.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let request = EnqueueMany::parse(args)?;
        let now = clock::now(ctx);
        check(&request.template, now.server())?;
        let added = turn::take(
            ctx,
            name,
            Missing::Create,
            now,
            ReplicateAs::Effects,
            |queue, turn| {
                let mut template = request.template;
                if let Start::At(at) = &mut template.start {
                    *at = now.of(queue).meant(*at);
                }
                let mut is_first = true;
                let follow_up = request.follow_up.as_ref();
                let replies = request.count + usize::from(follow_up.is_some());
                queue.enqueue_many(turn, &template, request.messages(), follow_up, |one| {
                    if mem::take(&mut is_first) {
                        ctx.reply_array(replies);
                    }
                    reply(ctx, &one);
                })
            },
        )?;
        Ok(added.ok_or(Error::Internal)??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    fn parse(line: &'static str) -> Result<EnqueueMany<'static, &'static [&'static [u8]]>, Error> {
        EnqueueMany::parse(&*words(line).leak())
    }

    #[test]
    fn payloads_and_ids_may_look_like_options_since_they_are_counted() {
        let request = parse("MQ.MENQUEUE q 2 IDS UPDATE ids REQUEUE IDS UPDATE LOCK 5").unwrap();
        let messages: Vec<_> = request.messages().collect();
        let expected = [
            (Some(&b"REQUEUE"[..]), &b"IDS"[..]),
            (Some(b"IDS"), b"UPDATE"),
        ];
        assert_eq!(messages, expected);
        assert!(request.template.update && !request.template.requeue);
        assert!(request.template.lock.is_some());
        let plain = parse("MQ.MENQUEUE q 1 p").unwrap();
        assert_eq!(plain.messages().collect::<Vec<_>>(), [(None, &b"p"[..])]);
    }

    #[test]
    fn what_is_wrong_anywhere_refuses_all() {
        for line in [
            "MQ.MENQUEUE q 2 p",
            "MQ.MENQUEUE q 1 p p",
            "MQ.MENQUEUE q 1 p ID a",
            "MQ.MENQUEUE q 2 p p IDS a",
            "MQ.MENQUEUE q 1 p IDS a b",
            "MQ.MENQUEUE q 1 p IDS a IDS a",
            "MQ.MENQUEUE q 1 p BURY",
            "MQ.MENQUEUE q 1 p THEN",
            "MQ.MENQUEUE q 1 p THENID a",
            "MQ.MENQUEUE q 1 p THENHEADERS h",
            "MQ.MENQUEUE q 1 p THEN p THEN p",
            "MQ.MENQUEUE q 1 p THEN p JOIN a",
        ] {
            assert_eq!(parse(line), Err(Error::Syntax), "{line}");
        }
        let (what, min, max) = ("count", 1, MAX_BATCH);
        for line in [
            "MQ.MENQUEUE q 0 p",
            "MQ.MENQUEUE q 10001 p",
            "MQ.MENQUEUE q p",
        ] {
            let error = Err(Error::OutOfRange { what, min, max });
            assert_eq!(parse(line), error, "{line}");
        }
        let (what, min, max) = ("id", 1, 512);
        let error = Err(Error::Length { what, min, max });
        assert_eq!(parse("MQ.MENQUEUE q 2 p p IDS a "), error);
    }
}
