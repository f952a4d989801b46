//! MQ.MDONE

use redis_mq_core::{Token, Verdict};

use super::done::{parse_verdict, BACKOFF, RESULT, RETAIN, VERDICT};
use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{ArgList, Cursor, MAX_BATCH};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqMdone;

const FIRST_ID: usize = 3;

/// How a consumer ends several deliveries.
#[derive(Debug, PartialEq, Eq)]
pub struct DoneMany<'a, L> {
    args: L,
    /// How many deliveries.
    pub count: usize,
    /// What became of each.
    pub verdict: Verdict<'a>,
}

impl<'a, L: ArgList<'a>> DoneMany<'a, L> {
    /// Reads the arguments after the queue; all are checked before the first delivery is ended.
    pub fn parse(args: L) -> Result<DoneMany<'a, L>, Error> {
        let mut cursor = Cursor::new(args, FIRST_ID - 1);
        let count = cursor.integer("count", 1, MAX_BATCH)? as usize; // at most MAX_BATCH
        for _ in 0..count {
            cursor.id()?;
            cursor.token()?;
        }
        let verdict = parse_verdict(&mut cursor)?;
        Ok(DoneMany {
            args,
            count,
            verdict,
        })
    }

    /// Ids and tokens, as they were given.
    pub fn deliveries(&self) -> impl Iterator<Item = (&'a [u8], Token)> + '_ {
        let mut cursor = Cursor::new(self.args, FIRST_ID);
        (0..self.count).map_while(move |_| {
            let id = cursor.id().ok()?;
            Some((id, Token::new(cursor.token().ok()?)))
        })
    }
}

impl Command for MqMdone {
    const RECORD: &'static Record = &Record {
        name: "mq.mdone",
        syntax: "MQ.MDONE queue count id token [id token ...] \
                 [SUCCESS | RETRY [REASON text] | ERROR [REASON text] | RELEASE] \
                 [BACKOFF ms | BACKOFF EXP] [RESULT bytes] [RETAIN ms]",
        summary: "Ends many deliveries with the same verdict.",
        complexity: "O(n) with n the number of deliveries",
        since: "0.1.0",
        group: Group::Consumers,
        arity: -5,
        flags: "write",
        newer_flags: &[],
        key: Some(Access::Delete),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("count", Kind::Integer),
            Argument::new(
                "delivery",
                Kind::Block(&[
                    Argument::new("id", Kind::Text),
                    Argument::new("token", Kind::Integer),
                ]),
            )
            .multiple(),
            VERDICT,
            BACKOFF,
            RESULT,
            RETAIN,
        ],
        details: include_str!("mdone.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let request = DoneMany::parse(args)?;
        let now = clock::now(ctx);
        let mut all_ended = Vec::with_capacity(request.count);
        turn::take(
            ctx,
            name,
            Missing::Leave,
            now,
            ReplicateAs::Effects,
            |queue, turn| {
                queue.done_many(turn, request.deliveries(), request.verdict, |ended| {
                    all_ended.push(ended);
                });
            },
        )?;
        // Where there is no queue there is no message either.
        all_ended.resize(request.count, Ok(None));
        ctx.reply_array(request.count);
        for ended in all_ended {
            match ended {
                Ok(Some(ended)) => ctx.reply_bulk(ended.name().as_bytes()),
                Ok(None) => ctx.reply_null(),
                Err(_) => ctx.reply_bulk(b"stale"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    fn parse(line: &'static str) -> Result<DoneMany<'static, &'static [&'static [u8]]>, Error> {
        DoneMany::parse(&*words(line).leak())
    }

    #[test]
    fn ids_may_look_like_options_since_they_are_counted() {
        let request = parse("MQ.MDONE q 2 RETRY 5 SUCCESS 6 ERROR REASON why").unwrap();
        let deliveries: Vec<_> = request.deliveries().collect();
        let expected = [
            (&b"RETRY"[..], Token::new(5)),
            (&b"SUCCESS"[..], Token::new(6)),
        ];
        assert_eq!(deliveries, expected);
        let reason = Some(&b"why"[..]);
        assert_eq!(request.verdict, Verdict::Error { reason });
        let plain = parse("MQ.MDONE q 1 id 5").unwrap();
        assert_eq!(plain.verdict, Verdict::SUCCESS);
    }

    #[test]
    fn what_is_wrong_anywhere_refuses_all() {
        for line in [
            "MQ.MDONE q 2 a 5",
            "MQ.MDONE q 2 a 5 b",
            "MQ.MDONE q 1 a 5 b 6",
            "MQ.MDONE q 1 a 5 RETRY RETRY",
            "MQ.MDONE q 1 a 5 ERROR BACKOFF 5",
        ] {
            assert_eq!(parse(line), Err(Error::Syntax), "{line}");
        }
        let out_of = |what, min, max| Err(Error::OutOfRange { what, min, max });
        for line in ["MQ.MDONE q 0 a 5", "MQ.MDONE q 10001 a 5", "MQ.MDONE q a 5"] {
            assert_eq!(parse(line), out_of("count", 1, MAX_BATCH), "{line}");
        }
        for line in ["MQ.MDONE q 2 a 5 b x", "MQ.MDONE q 2 a 5 b RETRY"] {
            assert_eq!(parse(line), out_of("token", 0, i64::MAX as u64), "{line}");
        }
        let (what, min, max) = ("id", 1, 512);
        let error = Err(Error::Length { what, min, max });
        assert_eq!(parse("MQ.MDONE q 2 a 5  6"), error);
    }
}
