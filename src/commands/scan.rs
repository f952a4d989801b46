//! MQ.SCAN

use redis_mq_core::{ForeignCursor, Scanned, Status};

use super::paging::{begin_page, DEFAULT_COUNT, MAX_COUNT};
use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority;
use crate::error::Error;
use crate::glob;
use crate::parse::{is, once, ArgList, Cursor};
use crate::redis::{Args, Command, Ctx};
use crate::turn;

/// The command.
pub struct MqScan;

/// The longest pattern, in bytes: as long as an id.
const MAX_PATTERN_LEN: usize = 512;

/// What a reader asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Where to go on; 0 to begin.
    pub cursor: u64,
    /// Only messages of this status.
    pub status: Option<Status>,
    /// Only ids of this pattern.
    pub pattern: Option<&'a [u8]>,
    /// How many places to look at.
    pub count: usize,
}

impl<'a> Scan<'a> {
    /// Reads the arguments after the queue.
    pub fn parse(args: impl ArgList<'a>) -> Result<Scan<'a>, Error> {
        let mut args = Cursor::new(args, 2);
        let cursor = args.integer("cursor", 0, i64::MAX as u64)?;
        let (mut status, mut pattern, mut count) = (None, None, None);
        while let Some(option) = args.word() {
            if is(option, "STATUS") {
                once(&mut status, args.status()?)?;
            } else if is(option, "MATCH") {
                once(&mut pattern, args.bytes("MATCH", 1, MAX_PATTERN_LEN)?)?;
            } else if is(option, "COUNT") {
                once(&mut count, args.integer("COUNT", 1, MAX_COUNT)?)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        let count = count.unwrap_or(DEFAULT_COUNT) as usize; // at most MAX_COUNT
        Ok(Scan {
            cursor,
            status,
            pattern,
            count,
        })
    }

    fn wants(&self, message: &Scanned<'_>) -> bool {
        self.status.is_none_or(|status| status == message.status)
            && (self.pattern).is_none_or(|pattern| glob::matches(pattern, message.id.bytes()))
    }
}

impl Command for MqScan {
    const RECORD: &'static Record = &Record {
        name: "mq.scan",
        syntax: "MQ.SCAN queue cursor [STATUS status] [MATCH pattern] [COUNT n]",
        summary: "Walks through all messages of a queue, some at a time.",
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
            Argument::new("status", Kind::Text)
                .after("STATUS")
                .optional(),
            Argument::new("pattern", Kind::Text)
                .after("MATCH")
                .optional(),
            Argument::new("n", Kind::Integer).after("COUNT").optional(),
        ],
        details: include_str!("scan.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let scan = Scan::parse(args)?;
        let now = authority::moment(ctx);
        let shown = turn::look(ctx, name, |queue| {
            let mut found = Vec::new();
            let next = queue.scan(now.of(queue).now(), scan.cursor, scan.count, |message| {
                if scan.wants(&message) {
                    found.push(message);
                }
            });
            let next = next.map_err(|ForeignCursor| Error::ForeignCursor)?;
            begin_page(ctx, next, found.len());
            for message in &found {
                ctx.reply_array(2);
                ctx.reply_bulk(message.id.bytes());
                ctx.reply_bulk(message.status.name().as_bytes());
            }
            Ok::<(), Error>(())
        })?;
        if shown.transpose()?.is_none() {
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
    fn a_cursor_is_needed_and_the_rest_is_not() {
        let parse = |line: &'static str| Scan::parse(&*words(line).leak());
        let all = Scan {
            cursor: 0,
            status: None,
            pattern: None,
            count: 100,
        };
        assert_eq!(parse("MQ.SCAN q 0"), Ok(all));
        let some = Scan {
            cursor: 7,
            status: Some(Status::Dead),
            pattern: Some(b"count"),
            count: 10_000,
        };
        let line = "MQ.SCAN q 7 match count COUNT 10000 STATUS DEAD";
        assert_eq!(parse(line), Ok(some));
        for wrong in [
            "MQ.SCAN q",
            "MQ.SCAN q 0 5",
            "MQ.SCAN q 0 STATUS nonsense",
            "MQ.SCAN q 0 MATCH a MATCH a",
            "MQ.SCAN q 0 COUNT 5 COUNT 5",
            "MQ.SCAN q 0 COUNT",
        ] {
            assert_eq!(parse(wrong), Err(Error::Syntax), "{wrong}");
        }
        for wrong in [
            "MQ.SCAN q x",
            "MQ.SCAN q -1",
            "MQ.SCAN q 0 COUNT 0",
            "MQ.SCAN q 0 MATCH ",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
