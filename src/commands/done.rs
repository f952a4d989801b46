//! MQ.DONE

use redis_mq_core::{Backoff, Keep, Span, Stale, Token, Verdict, MAX_RESULT_BYTES};

use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority::{self, Right};
use crate::clock;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqDone;

/// How a consumer ends a delivery.
#[derive(Debug, PartialEq, Eq)]
pub struct Done<'a> {
    /// The message.
    pub id: &'a [u8],
    /// The delivery.
    pub token: Token,
    /// What became of it.
    pub verdict: Verdict<'a>,
}

/// The longest reason of a dead letter, in bytes.
pub const MAX_REASON_LEN: usize = 1024;

impl<'a> Done<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Done<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        let (id, token) = (args.id()?, Token::new(args.token()?));
        let verdict = parse_verdict(&mut args)?;
        Ok(Done { id, token, verdict })
    }
}

/// What became of a message, up to the end of the arguments.
#[inline]
pub fn parse_verdict<'a, L: ArgList<'a>>(args: &mut Cursor<L>) -> Result<Verdict<'a>, Error> {
    #[derive(Clone, Copy)]
    enum Word {
        Success,
        Retry,
        Error,
        Release,
    }

    let (mut verdict, mut backoff, mut reason) = (None, None, None);
    let mut keep = Keep::NOTHING;
    while let Some(option) = args.word() {
        if is(option, "SUCCESS") {
            once(&mut verdict, Word::Success)?;
        } else if is(option, "RETRY") {
            once(&mut verdict, Word::Retry)?;
        } else if is(option, "ERROR") {
            once(&mut verdict, Word::Error)?;
        } else if is(option, "RELEASE") {
            once(&mut verdict, Word::Release)?;
        } else if is(option, "BACKOFF") {
            once(&mut backoff, parse_backoff(args)?)?;
        } else if is(option, "REASON") {
            once(&mut reason, args.bytes("REASON", 0, MAX_REASON_LEN)?)?;
        } else if is(option, "RESULT") {
            let result = args.bytes("RESULT", 0, MAX_RESULT_BYTES)?;
            once(&mut keep.result, result)?;
        } else if is(option, "RETAIN") {
            let retain = Span::from_millis(args.duration("RETAIN", 0)?);
            once(&mut keep.retain, retain)?;
        } else {
            return Err(Error::Syntax);
        }
    }
    let verdict = verdict.unwrap_or(Word::Success);
    if !matches!(verdict, Word::Success) && keep != Keep::NOTHING {
        return Err(Error::Syntax);
    }
    Ok(match (verdict, backoff, reason) {
        (Word::Success, backoff, None) => Verdict::Success {
            backoff: backoff.unwrap_or(Backoff::None),
            keep,
        },
        (Word::Retry, backoff, reason) => Verdict::Retry {
            backoff: backoff.unwrap_or(Backoff::None),
            reason,
        },
        (Word::Error, None, reason) => Verdict::Error { reason },
        (Word::Release, None, None) => Verdict::Release,
        _ => return Err(Error::Syntax),
    })
}

/// `EXP` or a duration, of which 0 is none.
fn parse_backoff<'a, L: ArgList<'a>>(args: &mut Cursor<L>) -> Result<Backoff, Error> {
    if args.keyword("EXP") {
        return Ok(Backoff::Exponential);
    }
    Ok(match args.duration("BACKOFF", 0)? {
        0 => Backoff::None,
        ms => Backoff::For(Span::from_millis(ms)),
    })
}

/// The verdict, as `COMMAND DOCS` shows it.
pub const VERDICT: Argument = Argument::new(
    "verdict",
    Kind::OneOf(&[
        Argument::word("success", "SUCCESS"),
        Argument::new(
            "retry",
            Kind::Block(&[
                Argument::word("retry", "RETRY"),
                Argument::new("text", Kind::Text).after("REASON").optional(),
            ]),
        ),
        Argument::new(
            "error",
            Kind::Block(&[
                Argument::word("error", "ERROR"),
                Argument::new("text", Kind::Text).after("REASON").optional(),
            ]),
        ),
        Argument::word("release", "RELEASE"),
    ]),
)
.optional();

/// What is kept of a success, as `COMMAND DOCS` shows it.
pub const RESULT: Argument = Argument::new("bytes", Kind::Text)
    .after("RESULT")
    .optional();

/// How long it is kept, as `COMMAND DOCS` shows it.
pub const RETAIN: Argument = Argument::new("ms", Kind::Integer)
    .after("RETAIN")
    .optional();

/// The pause after a verdict, as `COMMAND DOCS` shows it.
pub const BACKOFF: Argument = Argument::new(
    "backoff",
    Kind::OneOf(&[
        Argument::new("ms", Kind::Integer),
        Argument::word("exp", "EXP"),
    ]),
)
.after("BACKOFF")
.optional();

impl Command for MqDone {
    const RECORD: &'static Record = &Record {
        name: "mq.done",
        syntax: "MQ.DONE queue id token [SUCCESS | RETRY [REASON text] | ERROR [REASON text] | RELEASE] \
                 [BACKOFF ms | BACKOFF EXP] [RESULT bytes] [RETAIN ms]",
        summary: "Ends a delivery and says what becomes of its message.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Consumers,
        arity: -4,
        flags: "write fast",
        newer_flags: &[],
        key: Some(Access::Delete),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("id", Kind::Text),
            Argument::new("token", Kind::Integer),
            VERDICT,
            BACKOFF,
            RESULT,
            RETAIN,
        ],
        details: include_str!("done.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Done { id, token, verdict } = Done::parse(args)?;
        if authority::of_command(ctx) == Right::Obey {
            return turn::obey(ctx, name, |queue| queue.replay_done(id, token));
        }
        let now = clock::now(ctx);
        let ended = turn::take(
            ctx,
            name,
            Missing::Leave,
            now,
            ReplicateAs::CommandOrEffects,
            |queue, turn| queue.done(turn, id, token, verdict),
        )?;
        match ended {
            Some(Ok(Some(ended))) => ctx.reply_bulk(ended.name().as_bytes()),
            Some(Err(Stale)) => return Err(Error::Stale),
            Some(Ok(None)) | None => ctx.reply_null(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;
    use crate::parse::MAX_DURATION_MS;

    /// The verdict of these options, in words that outlive the line.
    fn verdict(options: &str) -> Result<String, Error> {
        let line = format!("MQ.DONE q id 7 {options}");
        Done::parse(&words(line.trim())[..]).map(|done| format!("{:?}", done.verdict))
    }

    fn success(backoff: Backoff) -> Verdict<'static> {
        Verdict::success(backoff)
    }

    fn kept(result: Option<&'static [u8]>, retain: Option<u64>) -> Verdict<'static> {
        let (backoff, retain) = (Backoff::None, retain.map(Span::from_millis));
        let keep = Keep { result, retain };
        Verdict::Success { backoff, keep }
    }

    fn retry(backoff: Backoff) -> Verdict<'static> {
        Verdict::Retry {
            backoff,
            reason: None,
        }
    }

    fn error(reason: Option<&[u8]>) -> Verdict<'_> {
        Verdict::Error { reason }
    }

    fn ms(ms: u64) -> Backoff {
        Backoff::For(Span::from_millis(ms))
    }

    #[test]
    fn success_without_backoff_is_the_default() {
        let args = words("MQ.DONE q SUCCESS 7");
        assert_eq!(
            Done::parse(&args[..]),
            Ok(Done {
                id: b"SUCCESS",
                token: Token::new(7),
                verdict: Verdict::SUCCESS
            })
        );
    }

    #[test]
    fn each_verdict_is_understood_in_any_case_and_order() {
        let exp = Backoff::Exponential;
        for (options, expected) in [
            ("success", Verdict::SUCCESS),
            ("BACKOFF 5", success(ms(5))),
            ("SUCCESS BACKOFF 0", Verdict::SUCCESS),
            ("BACKOFF EXP", success(exp)),
            ("backoff exp Retry", retry(exp)),
            ("RETRY BACKOFF 315360000000", retry(ms(MAX_DURATION_MS))),
            ("RETRY", retry(Backoff::None)),
            ("ERROR", error(None)),
            ("ERROR REASON BACKOFF", error(Some(b"BACKOFF"))),
            ("REASON why ERROR", error(Some(b"why"))),
            ("RELEASE", Verdict::Release),
            ("RESULT RETAIN", kept(Some(b"RETAIN"), None)),
            ("retain 0", kept(None, Some(0))),
            ("RETAIN 5 SUCCESS RESULT x", kept(Some(b"x"), Some(5))),
        ] {
            assert_eq!(verdict(options), Ok(format!("{expected:?}")), "{options}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_a_syntax_error() {
        for options in [
            "SUCCESS SUCCESS",
            "SUCCESS RETRY",
            "ERROR RELEASE",
            "BACKOFF 1 BACKOFF 1",
            "BACKOFF EXP BACKOFF 1",
            "BACKOFF 0 BACKOFF 0",
            "ERROR BACKOFF 1",
            "ERROR BACKOFF 0",
            "RELEASE BACKOFF EXP",
            "REASON why",
            "SUCCESS REASON why",
            "RELEASE REASON why",
            "ERROR REASON a REASON b",
            "ERROR REASON",
            "BACKOFF",
            "FAILED",
            "RESULT a RESULT b",
            "RETAIN 1 RETAIN 1",
            "RESULT",
            "RETAIN",
            "RETRY RESULT a",
            "RETRY RETAIN 1",
            "ERROR RESULT a",
            "RELEASE RETAIN 0",
        ] {
            assert_eq!(verdict(options), Err(Error::Syntax), "{options}");
        }
    }

    #[test]
    fn numbers_and_lengths_out_of_range_name_their_argument() {
        let backoff = Err(Error::OutOfRange {
            what: "BACKOFF",
            min: 0,
            max: MAX_DURATION_MS,
        });
        assert_eq!(verdict("BACKOFF -1"), backoff);
        assert_eq!(verdict("BACKOFF EXPO"), backoff);
        let too_long = "x".repeat(MAX_REASON_LEN + 1);
        assert!(verdict(&format!("ERROR REASON {}", &too_long[1..])).is_ok());
        assert_eq!(
            verdict(&format!("ERROR REASON {too_long}")),
            Err(Error::Length {
                what: "REASON",
                min: 0,
                max: 1024
            })
        );
        let token = Error::OutOfRange {
            what: "token",
            min: 0,
            max: i64::MAX as u64,
        };
        assert_eq!(Done::parse(&words("MQ.DONE q id -7")[..]), Err(token));
        assert_eq!(Done::parse(&words("MQ.DONE q id RETRY")[..]), Err(token));
    }
}
