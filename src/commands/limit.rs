//! MQ.LIMIT

use redis_mq_core::{LimitChanges, LimitError, Scope, Span};

use super::limits;
use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor, MAX_DURATION_MS};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqLimit;

/// The arguments after the queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Limit<'a> {
    /// Whose limits.
    pub scope: Scope<'a>,
    /// None: they are to be shown.
    pub changes: Option<LimitChanges>,
}

/// A value, or `OFF`.
fn value<'a, L: ArgList<'a>, T>(
    args: &mut Cursor<L>,
    read: impl FnOnce(&mut Cursor<L>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    if args.keyword("OFF") {
        Ok(None)
    } else {
        read(args).map(Some)
    }
}

fn parse_rate<'a, L: ArgList<'a>>(args: &mut Cursor<L>) -> Result<(u32, Span), Error> {
    let deliveries = args.count("RATE", 1)?;
    let span = args.integer("RATE", 1, MAX_DURATION_MS)?;
    Ok((deliveries, Span::from_millis(span)))
}

impl<'a> Limit<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Limit<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        let (mut scope, mut changes) = (None, LimitChanges::default());
        while let Some(option) = args.word() {
            let args = &mut args;
            if is(option, "GROUPS") {
                once(&mut scope, Scope::Groups)?;
            } else if is(option, "GROUP") {
                once(&mut scope, Scope::Group(args.group()?))?;
            } else if is(option, "LENGTH") {
                let length = value(args, |args| args.integer("LENGTH", 1, u32::MAX.into()))?;
                once(&mut changes.length, length)?;
            } else if is(option, "BYTES") {
                let bytes = value(args, |args| args.integer("BYTES", 1, i64::MAX as u64))?;
                once(&mut changes.bytes, bytes)?;
            } else if is(option, "INFLIGHT") {
                let inflight = value(args, |args| args.count("INFLIGHT", 1))?;
                once(&mut changes.inflight, inflight)?;
            } else if is(option, "RATE") {
                let rate = value(args, parse_rate)?;
                once(&mut changes.rate, rate)?;
            } else if is(option, "BURST") {
                let burst = value(args, |args| args.count("BURST", 1))?;
                once(&mut changes.burst, burst)?;
            } else if is(option, "DEAD") {
                let dead = value(args, |args| args.count("DEAD", 1))?;
                once(&mut changes.dead, dead)?;
            } else if is(option, "DEAD-AGE") {
                let age = value(args, |args| args.integer("DEAD-AGE", 1, MAX_DURATION_MS))?;
                once(&mut changes.dead_age, age.map(Span::from_millis))?;
            } else if is(option, "ATTEMPTS") {
                let attempts = value(args, |args| args.count("ATTEMPTS", 1))?;
                once(&mut changes.attempts, attempts)?;
            } else if is(option, "IDLE") {
                let idle = value(args, |args| args.integer("IDLE", 1, MAX_DURATION_MS))?;
                once(&mut changes.idle, idle.map(Span::from_millis))?;
            } else {
                return Err(Error::Syntax);
            }
        }
        let of_queue = changes.bytes.is_some()
            || changes.dead.is_some()
            || changes.dead_age.is_some()
            || changes.attempts.is_some()
            || changes.idle.is_some();
        let scope = scope.unwrap_or(Scope::Queue);
        if scope != Scope::Queue && of_queue {
            return Err(Error::Syntax);
        }
        let changes = (changes != LimitChanges::default()).then_some(changes);
        Ok(Limit { scope, changes })
    }
}

impl From<LimitError> for Error {
    fn from(error: LimitError) -> Error {
        match error {
            LimitError::BurstWithoutRate => Error::BurstWithoutRate,
            // The arguments were read so that there are none of these.
            LimitError::NotOfGroups | LimitError::Zero | LimitError::Name => Error::Syntax,
        }
    }
}

const OFF: Argument = Argument::word("off", "OFF");

/// A limit by name: a number, or `OFF`.
macro_rules! limit_argument {
    ($name:literal, $word:literal) => {
        Argument::new(
            $name,
            Kind::OneOf(&[Argument::new("n", Kind::Integer), OFF]),
        )
        .after($word)
        .optional()
    };
}

impl Command for MqLimit {
    const RECORD: &'static Record = &Record {
        name: "mq.limit",
        syntax: "MQ.LIMIT queue [GROUPS | GROUP g] [LENGTH n] [BYTES n] [INFLIGHT n] [RATE n ms] [BURST b] \
                 [DEAD n] [DEAD-AGE ms] [ATTEMPTS n] [IDLE ms]",
        summary: "Sets or shows the limits of a queue or of its groups.",
        complexity: "O(1); O(g) with g the number of groups for GROUPS",
        since: "0.1.0",
        group: Group::Operators,
        arity: -2,
        flags: "write",
        newer_flags: &[],
        key: Some(Access::Update),
        tips: "",
        arguments: &[
            Argument::QUEUE,
            limits::SCOPE,
            limit_argument!("length", "LENGTH"),
            limit_argument!("bytes", "BYTES"),
            limit_argument!("inflight", "INFLIGHT"),
            Argument::new(
                "rate",
                Kind::OneOf(&[
                    Argument::new(
                        "deliveries",
                        Kind::Block(&[
                            Argument::new("n", Kind::Integer),
                            Argument::new("ms", Kind::Integer),
                        ]),
                    ),
                    OFF,
                ]),
            )
            .after("RATE")
            .optional(),
            limit_argument!("burst", "BURST"),
            limit_argument!("dead", "DEAD"),
            limit_argument!("dead-age", "DEAD-AGE"),
            limit_argument!("attempts", "ATTEMPTS"),
            limit_argument!("idle", "IDLE"),
        ],
        details: include_str!("limit.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Limit { scope, changes } = Limit::parse(args)?;
        let Some(changes) = changes else {
            return limits::reply(ctx, name, scope);
        };
        let set = turn::take(
            ctx,
            name,
            Missing::Create,
            clock::now(ctx),
            ReplicateAs::Effects,
            |queue, turn| queue.set_limits(turn, scope, &changes),
        )?;
        set.ok_or(Error::Internal)??;
        ctx.reply_status(c"OK");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redis_mq_core::Change;

    use super::*;
    use crate::parse::tests::words;

    fn parse(options: &str) -> Result<(bool, LimitChanges), Error> {
        let line = format!("MQ.LIMIT q {options}");
        let args = words(line.trim());
        Limit::parse(&args[..]).map(|limit| {
            let of_queue = limit.scope == Scope::Queue;
            (of_queue, limit.changes.unwrap_or_default())
        })
    }

    fn off<T>() -> Change<T> {
        Some(None)
    }

    #[test]
    fn without_options_they_are_shown() {
        for options in ["", "GROUPS", "GROUP g"] {
            let line = format!("MQ.LIMIT q {options}");
            let args = words(line.trim());
            assert_eq!(Limit::parse(&args[..]).unwrap().changes, None, "{options}");
        }
    }

    #[test]
    fn each_limit_is_set_taken_away_or_left_alone() {
        let (of_queue, changes) = parse("rate 5 1000 LENGTH OFF burst 2 DEAD 1").unwrap();
        assert!(of_queue);
        let expected = LimitChanges {
            length: off(),
            rate: Some(Some((5, Span::from_millis(1000)))),
            burst: Some(Some(2)),
            dead: Some(Some(1)),
            ..LimitChanges::default()
        };
        assert_eq!(changes, expected);
    }

    #[test]
    fn what_is_of_the_queue_alone_is_none_of_groups() {
        for options in ["BYTES 1", "DEAD OFF", "DEAD-AGE 1", "ATTEMPTS 1", "IDLE 1"] {
            assert!(parse(options).is_ok(), "{options}");
            for scope in ["GROUPS", "GROUP g"] {
                let error = parse(&format!("{scope} {options}"));
                assert_eq!(error, Err(Error::Syntax), "{scope} {options}");
            }
        }
        assert!(parse("GROUPS INFLIGHT 2 LENGTH 5 RATE OFF").is_ok());
    }

    #[test]
    fn an_unknown_repeated_or_incomplete_option_is_a_syntax_error() {
        for options in [
            "LENGTH",
            "LENGTH 1 LENGTH 1",
            "RATE 1",
            "RATE",
            "DEAD-AGE",
            "NOW 1",
            "GROUPS GROUPS",
        ] {
            assert_eq!(parse(options), Err(Error::Syntax), "{options}");
        }
    }
}
