//! MQ.SCHEDULES

use redis_mq_core::{ScheduleView, Times, Timestamp};

use super::paging::{begin_page, DEFAULT_COUNT, MAX_COUNT};
use super::record::{Access, Argument, Group, Kind, Record};
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqSchedules;

/// What a reader asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Schedules {
    /// Where to go on; 0 to begin.
    pub cursor: u32,
    /// How many places to look at.
    pub count: u32,
}

impl Schedules {
    /// Reads the arguments after the queue.
    pub fn parse<'a>(args: impl ArgList<'a>) -> Result<Schedules, Error> {
        let mut args = Cursor::new(args, 2);
        let cursor = args.count("cursor", 0)?;
        let mut count = None;
        while let Some(option) = args.word() {
            if !is(option, "COUNT") {
                return Err(Error::Syntax);
            }
            once(&mut count, args.integer("COUNT", 1, MAX_COUNT)?)?;
        }
        let count = count.unwrap_or(DEFAULT_COUNT) as u32; // at most MAX_COUNT
        Ok(Schedules { cursor, count })
    }
}

fn reply(ctx: &Ctx, schedule: &ScheduleView<'_>) {
    let number = |name: &str, number: u64| {
        ctx.reply_bulk(name.as_bytes());
        ctx.reply_integer(number);
    };
    let text = |name: &str, value: Option<&[u8]>| {
        ctx.reply_bulk(name.as_bytes());
        match value {
            Some(value) => ctx.reply_bulk(value),
            None => ctx.reply_null(),
        }
    };
    let instant = |name: &str, instant: Option<Timestamp>| {
        number(name, instant.unwrap_or_default().millis());
    };
    ctx.reply_map(13);
    text("name", Some(schedule.name));
    match schedule.times {
        Times::Every(every) => {
            let spec = format!("EVERY {}", every.millis());
            text("spec", Some(spec.as_bytes()));
            text("tz", None);
        }
        Times::Cron { expression, zone } => {
            text("spec", Some(&[b"CRON ", expression].concat()));
            text("tz", Some(zone));
        }
    }
    instant("from", schedule.from);
    instant("until", schedule.until);
    number("times", schedule.most.unwrap_or(0).into());
    text("overlap", Some(schedule.overlap.name().as_bytes()));
    instant("next-at", schedule.next);
    instant("last-at", schedule.last.map(|(at, _)| at));
    let outcome = schedule.last.map(|(_, outcome)| outcome.name().as_bytes());
    text("last-outcome", outcome);
    number("runs", schedule.runs);
    number("skipped", schedule.skipped);
    text("payload", Some(schedule.payload));
}

impl Command for MqSchedules {
    const RECORD: &'static Record = &Record {
        name: "mq.schedules",
        syntax: "MQ.SCHEDULES queue cursor [COUNT n]",
        summary:
            "Lists the schedules of a queue, when they run next and what became of the last run.",
        complexity: "O(n) with n the number of places looked at",
        since: "0.1.0",
        group: Group::Inspection,
        arity: -3,
        flags: "readonly",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("cursor", Kind::Integer),
            Argument::new("n", Kind::Integer).after("COUNT").optional(),
        ],
        details: include_str!("schedules.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Schedules { cursor, count } = Schedules::parse(args)?;
        let shown = turn::look(ctx, name, |queue| {
            // The next cursor stands in front, so it is looked for first.
            let mut schedules = 0;
            let next = queue.schedule_views(cursor, count, |_| schedules += 1);
            begin_page(ctx, next, schedules);
            queue.schedule_views(cursor, count, |schedule| reply(ctx, schedule));
        })?;
        if shown.is_none() {
            ctx.reply_null_array();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    #[test]
    fn a_cursor_is_needed_and_a_count_is_not() {
        let parse = |line: &'static str| Schedules::parse(&words(line)[..]);
        let (cursor, count) = (7, 100);
        assert_eq!(parse("MQ.SCHEDULES q 7"), Ok(Schedules { cursor, count }));
        let (cursor, count) = (0, 5);
        let counted = parse("MQ.SCHEDULES q 0 count 5");
        assert_eq!(counted, Ok(Schedules { cursor, count }));
        assert!(parse("MQ.SCHEDULES q x").is_err());
        assert!(parse("MQ.SCHEDULES q 0 COUNT 10001").is_err());
        assert_eq!(parse("MQ.SCHEDULES q 0 5"), Err(Error::Syntax));
    }
}
