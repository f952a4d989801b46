//! MQ.GROUPS

use redis_mq_core::GroupView;

use super::paging::{begin_page, DEFAULT_COUNT, MAX_COUNT};
use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority;
use crate::clock::QueueTime;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqGroups;

/// What a reader asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Groups<'a> {
    /// Where to go on; 0 to begin.
    pub cursor: u32,
    /// How many places to look at.
    pub count: u32,
    /// The only one to show.
    pub group: Option<&'a [u8]>,
}

impl<'a> Groups<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Groups<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        let cursor = args.count("cursor", 0)?;
        let (mut count, mut group) = (None, None);
        while let Some(option) = args.word() {
            if is(option, "COUNT") {
                once(&mut count, args.integer("COUNT", 1, MAX_COUNT)?)?;
            } else if is(option, "GROUP") {
                once(&mut group, args.group()?)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        let count = count.unwrap_or(DEFAULT_COUNT) as u32; // at most MAX_COUNT
        Ok(Groups {
            cursor,
            count,
            group,
        })
    }
}

fn reply(ctx: &Ctx, time: QueueTime, group: &GroupView<'_>) {
    ctx.reply_array(7);
    ctx.reply_bulk(group.name);
    ctx.reply_integer(group.waiting.into());
    ctx.reply_integer(group.in_flight.into());
    ctx.reply_integer(group.oldest.millis());
    ctx.reply_bulk(group.state.name().as_bytes());
    ctx.reply_integer(time.shown(group.until));
    ctx.reply_integer(group.open.into());
}

impl Command for MqGroups {
    const RECORD: &'static Record = &Record {
        name: "mq.groups",
        syntax: "MQ.GROUPS queue cursor [COUNT n] [GROUP g]",
        summary: "Lists the groups of a queue and what they do.",
        complexity: "O(n) with n the number of places looked at; O(1) with GROUP",
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
            Argument::new("g", Kind::Text).after("GROUP").optional(),
        ],
        details: include_str!("groups.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let Groups {
            cursor,
            count,
            group,
        } = Groups::parse(args)?;
        let now = authority::moment(ctx);
        let shown = turn::look(ctx, name, |queue| {
            let time = now.of(queue);
            if let Some(group) = group {
                let group = queue.group_named(time.now(), group);
                begin_page(ctx, 0, usize::from(group.is_some()));
                group.iter().for_each(|group| reply(ctx, time, group));
                return;
            }
            // The next cursor stands in front, so it is looked for first.
            let mut groups = 0;
            let next = queue.group_views(time.now(), cursor, count, |_| groups += 1);
            begin_page(ctx, next, groups);
            queue.group_views(time.now(), cursor, count, |group| reply(ctx, time, group));
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
        let parse = |line: &'static str| {
            let words = words(line);
            Groups::parse(&words[..]).map(|it| (it.cursor, it.count, it.group.map(<[u8]>::to_vec)))
        };
        assert_eq!(parse("MQ.GROUPS q 7"), Ok((7, 100, None)));
        assert_eq!(
            parse("MQ.GROUPS q 0 count 5 group g"),
            Ok((0, 5, Some(b"g".to_vec())))
        );
        assert_eq!(parse("MQ.GROUPS q 0 GROUP a GROUP b"), Err(Error::Syntax));
        assert!(parse("MQ.GROUPS q x").is_err());
        assert!(parse("MQ.GROUPS q 0 COUNT 10001").is_err());
        assert_eq!(parse("MQ.GROUPS q 0 5"), Err(Error::Syntax));
    }
}
