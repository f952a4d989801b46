//! MQ.PAUSE and MQ.RESUME

use redis_mq_core::Span;

use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command that stops deliveries.
pub struct MqPause;
/// The command that lets them go on.
pub struct MqResume;

/// What is to be paused.
#[derive(Debug, PartialEq, Eq)]
pub struct Pause<'a> {
    /// One group of the queue; `None` for all of it.
    pub group: Option<&'a [u8]>,
    /// For how long; `None` until it is resumed.
    pub span: Option<Span>,
}

impl<'a> Pause<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Pause<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        let (mut group, mut span) = (None, None);
        while let Some(option) = args.word() {
            if is(option, "GROUP") {
                once(&mut group, args.group()?)?;
            } else if is(option, "FOR") {
                once(&mut span, Span::from_millis(args.duration("FOR", 1)?))?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(Pause { group, span })
    }
}

/// Reads the arguments of MQ.RESUME after the queue: the group, if one is named.
pub fn parse_resume<'a>(args: impl ArgList<'a>) -> Result<Option<&'a [u8]>, Error> {
    let mut args = Cursor::new(args, 2);
    let mut group = None;
    while let Some(option) = args.word() {
        if !is(option, "GROUP") {
            return Err(Error::Syntax);
        }
        once(&mut group, args.group()?)?;
    }
    Ok(group)
}

impl Command for MqPause {
    const RECORD: &'static Record = &Record {
        name: "mq.pause",
        syntax: "MQ.PAUSE queue [GROUP g] [FOR ms]",
        summary:
            "Stops the deliveries of a queue or of one group, for a time or until they are resumed.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Operators,
        arity: -2,
        flags: "write fast",
        newer_flags: &[],
        key: Some(Access::Update),
        tips: "",
        arguments: &[
            Argument::QUEUE,
            Argument::new("g", Kind::Text).after("GROUP").optional(),
            Argument::new("ms", Kind::Integer).after("FOR").optional(),
        ],
        details: include_str!("pause.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Pause { group, span } = Pause::parse(args)?;
        let now = clock::now(ctx);
        let until = turn::take(
            ctx,
            name,
            Missing::Create,
            now,
            ReplicateAs::Effects,
            |queue, turn| {
                let until = queue.pause(turn, group, span);
                until.map(|until| now.of(queue).shown(until))
            },
        )?;
        ctx.reply_integer(until.ok_or(Error::Internal)??);
        Ok(())
    }
}

impl Command for MqResume {
    const RECORD: &'static Record = &Record {
        name: "mq.resume",
        syntax: "MQ.RESUME queue [GROUP g]",
        summary: "Lets the deliveries of a queue or of one group go on.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Operators,
        arity: -2,
        flags: "write fast",
        newer_flags: &[],
        key: Some(Access::Update),
        tips: "",
        arguments: &[
            Argument::QUEUE,
            Argument::new("g", Kind::Text).after("GROUP").optional(),
        ],
        details: include_str!("resume.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let group = parse_resume(args)?;
        let resumed = turn::take(
            ctx,
            name,
            Missing::Leave,
            clock::now(ctx),
            ReplicateAs::Effects,
            |queue, turn| queue.resume(turn, group),
        )?;
        ctx.reply_integer(resumed.unwrap_or(false).into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    #[test]
    fn a_pause_names_a_group_and_a_time_or_neither() {
        let parse = |line: &'static str| {
            let args = words(line);
            Pause::parse(&args[..]).map(|pause| (pause.group.map(<[u8]>::to_vec), pause.span))
        };
        assert_eq!(parse("MQ.PAUSE q"), Ok((None, None)));
        let both = (Some(b"g".to_vec()), Some(Span::from_millis(5)));
        assert_eq!(parse("MQ.PAUSE q for 5 Group g"), Ok(both));
        for line in [
            "MQ.PAUSE q FOR",
            "MQ.PAUSE q FOR 5 FOR 5",
            "MQ.PAUSE q 5",
            "MQ.PAUSE q GROUP",
        ] {
            assert_eq!(parse(line), Err(Error::Syntax), "{line}");
        }
        assert!(parse("MQ.PAUSE q FOR 0").is_err());
    }

    #[test]
    fn resuming_takes_no_time() {
        let args = words("MQ.RESUME q GROUP g");
        assert_eq!(parse_resume(&args[..]), Ok(Some(&b"g"[..])));
        assert_eq!(
            parse_resume(&words("MQ.RESUME q FOR 5")[..]),
            Err(Error::Syntax)
        );
    }
}
