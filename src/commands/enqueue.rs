//! MQ.ENQUEUE

use redis_mq_core::{
    Enqueue, Enqueued, Now, Outcome, Priority, Span, Start, Timestamp, Ttl, MAX_HEADER_BYTES,
};

use super::record::{Access, Argument, Group, Kind, Record};
use crate::authority::{self, Right};
use crate::clock;
use crate::error::Error;
use crate::parse::{flag, is, once, ArgList, Cursor, MAX_ID_LEN, MAX_INSTANT_MS};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqEnqueue;

const LOWEST_PRIORITY: u64 = Priority::LEVELS as u64 - 1;

/// Reads the arguments after the queue.
pub fn parse<'a>(args: impl ArgList<'a>) -> Result<Enqueue<'a>, Error> {
    let mut args = Cursor::new(args, 2);
    let mut request = Enqueue::new(args.value()?);
    let mut options = Options::default();
    while let Some(option) = args.word() {
        if is(option, "ID") {
            once(&mut request.id, args.id()?)?;
        } else {
            options.read(option, &mut args)?;
        }
    }
    options.give_to(&mut request)?;
    Ok(request)
}

/// What a producer says of messages beside their ids and payloads.
#[derive(Default)]
pub struct Options<'a> {
    start: Option<Start>,
    lock: Option<Span>,
    attempts: Option<u32>,
    priority: Option<u64>,
    ttl: Option<Span>,
    bury: bool,
    group: Option<&'a [u8]>,
    headers: Option<&'a [u8]>,
    retain: Option<Span>,
    join: Option<&'a [u8]>,
    requeue: bool,
    update: bool,
}

impl<'a> Options<'a> {
    /// Reads what follows the word `option`, which must be one of these.
    #[inline]
    pub fn read<L: ArgList<'a>>(
        &mut self,
        option: &[u8],
        args: &mut Cursor<L>,
    ) -> Result<(), Error> {
        if is(option, "DELAY") {
            let delay = Span::from_millis(args.duration("DELAY", 0)?);
            once(&mut self.start, Start::After(delay))
        } else if is(option, "AT") {
            let at = args.integer("AT", 0, MAX_INSTANT_MS)?;
            once(&mut self.start, Start::At(Timestamp::from_millis(at)))
        } else if is(option, "JOIN") {
            once(&mut self.join, args.bytes("JOIN", 1, MAX_ID_LEN)?)
        } else if is(option, "REQUEUE") {
            flag(&mut self.requeue)
        } else if is(option, "UPDATE") {
            flag(&mut self.update)
        } else {
            self.read_of_message(option, args)
        }
    }

    /// The same for what does not depend on when a message is accepted, or on what has its id already.
    #[inline]
    pub fn read_of_message<L: ArgList<'a>>(
        &mut self,
        option: &[u8],
        args: &mut Cursor<L>,
    ) -> Result<(), Error> {
        if is(option, "LOCK") {
            let lock = Span::from_millis(args.duration("LOCK", 1)?);
            once(&mut self.lock, lock)
        } else if is(option, "ATTEMPTS") {
            once(&mut self.attempts, args.count("ATTEMPTS", 0)?)
        } else if is(option, "PRIORITY") {
            let level = args.integer("PRIORITY", 0, LOWEST_PRIORITY)?;
            once(&mut self.priority, level)
        } else if is(option, "TTL") {
            once(&mut self.ttl, Span::from_millis(args.duration("TTL", 1)?))
        } else if is(option, "BURY") {
            flag(&mut self.bury)
        } else if is(option, "GROUP") {
            once(&mut self.group, args.group()?)
        } else if is(option, "HEADERS") {
            let headers = args.bytes("HEADERS", 1, MAX_HEADER_BYTES)?;
            once(&mut self.headers, headers)
        } else if is(option, "RETAIN") {
            let retain = Span::from_millis(args.duration("RETAIN", 0)?);
            once(&mut self.retain, retain)
        } else {
            Err(Error::Syntax)
        }
    }

    /// Gives the request these options.
    #[inline]
    pub fn give_to(self, request: &mut Enqueue<'a>) -> Result<(), Error> {
        let bury = self.bury;
        if bury && self.ttl.is_none() {
            return Err(Error::Syntax);
        }
        request.ttl = self.ttl.map(|span| Ttl { span, bury });
        request.start = self.start.unwrap_or_default();
        request.lock = self.lock;
        request.attempts = self.attempts.unwrap_or_default();
        request.headers = self.headers.unwrap_or_default();
        request.group = self.group;
        request.retain = self.retain;
        request.join = self.join;
        (request.requeue, request.update) = (self.requeue, self.update);
        if let Some(level) = self.priority {
            request.priority = Priority::new(level as u8).ok_or(Error::Syntax)?;
            // 0 to 9
        }
        Ok(())
    }
}

/// Replies what became of a message.
#[inline]
pub fn reply(ctx: &Ctx, enqueued: &Enqueued<'_>) {
    ctx.reply_array(2);
    ctx.reply_bulk(enqueued.outcome.name().as_bytes());
    ctx.reply_bulk(enqueued.id.bytes());
}

/// Refuses a start that no message may have: too far away, or after its time to live.
pub fn check(request: &Enqueue<'_>, now: Now) -> Result<(), Error> {
    check_start(request.start, now)?;
    if request.expires_before_start(now.instant()) {
        return Err(Error::ExpiresBeforeStart);
    }
    Ok(())
}

/// Refuses an instant that is more than ten years away, as a delay of that length is.
fn check_start(start: Start, now: Now) -> Result<(), Error> {
    let latest = now.instant().after(Span::MAX);
    match start {
        Start::At(at) if at > latest => Err(Error::OutOfRange {
            what: "AT",
            min: 0,
            max: latest.millis(),
        }),
        _ => Ok(()),
    }
}

/// The options of messages, as `COMMAND DOCS` shows them.
pub mod argument {
    use super::{Argument, Kind};

    /// When it becomes ready.
    pub const START: Argument = Argument::new(
        "start",
        Kind::OneOf(&[
            Argument::new("ms", Kind::Integer).after("DELAY"),
            Argument::new("unix-ms", Kind::UnixTime).after("AT"),
        ]),
    )
    .optional();
    /// Its lock time.
    pub const LOCK: Argument = Argument::new("ms", Kind::Integer).after("LOCK").optional();
    /// Its limit of deliveries.
    pub const ATTEMPTS: Argument = Argument::new("n", Kind::Integer)
        .after("ATTEMPTS")
        .optional();
    /// Its priority.
    pub const PRIORITY: Argument = Argument::new("p", Kind::Integer)
        .after("PRIORITY")
        .optional();
    /// Its time to live.
    pub const TTL: Argument = Argument::new(
        "ttl",
        Kind::Block(&[
            Argument::new("ms", Kind::Integer).after("TTL"),
            Argument::word("bury", "BURY").optional(),
        ]),
    )
    .optional();
    /// Its group.
    pub const GROUP: Argument = Argument::new("g", Kind::Text).after("GROUP").optional();
    /// Its headers.
    pub const HEADERS: Argument = Argument::new("bytes", Kind::Text)
        .after("HEADERS")
        .optional();
    /// How long its result is kept.
    pub const RETAIN: Argument = Argument::new("ms", Kind::Integer)
        .after("RETAIN")
        .optional();
    /// The follow-up that waits for it too.
    pub const JOIN: Argument = Argument::new("id", Kind::Text).after("JOIN").optional();
    /// Whether a copy may wait.
    pub const REQUEUE: Argument = Argument::word("requeue", "REQUEUE").optional();
    /// Whether it may replace what waits.
    pub const UPDATE: Argument = Argument::word("update", "UPDATE").optional();
}

impl Command for MqEnqueue {
    const RECORD: &'static Record = &Record {
        name: "mq.enqueue",
        syntax: "MQ.ENQUEUE queue payload [ID id] [DELAY ms | AT unix-ms] [LOCK ms] [ATTEMPTS n] \
                 [PRIORITY p] [TTL ms [BURY]] [GROUP g] [HEADERS bytes] [RETAIN ms] [JOIN id] \
                 [REQUEUE] [UPDATE]",
        summary: "Adds a message to a queue, or says why its id is taken.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Producers,
        arity: -3,
        flags: "write deny-oom fast",
        newer_flags: &[],
        key: Some(Access::Insert),
        tips: "nondeterministic_output",
        arguments: &[
            Argument::QUEUE,
            Argument::new("payload", Kind::Text),
            Argument::new("id", Kind::Text).after("ID").optional(),
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
        ],
        details: include_str!("enqueue.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let request = parse(args)?;
        if authority::of_command(ctx) == Right::Obey {
            return turn::obey(ctx, name, |queue| queue.replay_enqueue(&request));
        }
        let now = clock::now(ctx);
        check(&request, now.server())?;
        let enqueued = turn::take(
            ctx,
            name,
            Missing::Create,
            now,
            ReplicateAs::CommandOrEffects,
            |queue, turn| {
                let mut request = request;
                if let Start::At(at) = &mut request.start {
                    let meant = now.of(queue).meant(*at);
                    if meant != *at {
                        // A replica would take the client's words for an instant of the queue.
                        turn.spell_out();
                        *at = meant;
                    }
                }
                queue.enqueue(turn, &request)
            },
        )?;
        let enqueued = enqueued.ok_or(Error::Internal)?;
        match enqueued.outcome {
            Outcome::Full(full) => return Err(Error::Full(full)),
            Outcome::NothingWaits => return Err(Error::NothingWaits),
            _ => {}
        }
        reply(ctx, &enqueued);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;
    use crate::parse::MAX_DURATION_MS;

    fn start(options: &str) -> Result<Start, Error> {
        let line = format!("MQ.ENQUEUE q p DELAY 7 {options}");
        parse(&words(line.trim())[..]).map(|request| request.start)
    }

    fn range(what: &'static str, min: u64, max: u64) -> Result<Start, Error> {
        Err(Error::OutOfRange { what, min, max })
    }

    #[test]
    fn a_payload_alone_is_ready_now_with_the_defaults() {
        let args: [&[u8]; 3] = [b"MQ.ENQUEUE", b"q", b""];
        assert_eq!(parse(&args[..]), Ok(Enqueue::new(b"")));
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let line = "MQ.ENQUEUE q p update PRIORITY 0 Requeue ATTEMPTS 4294967295 lock 1 \
                    at 281474976710655 id ID headers h group g ttl 9 BURY retain 0";
        let mut expected = Enqueue::new(b"p").id(b"ID");
        expected.start = Start::At(Timestamp::from_millis(MAX_INSTANT_MS));
        expected.lock = Some(Span::from_millis(1));
        expected.attempts = u32::MAX;
        expected.headers = b"h";
        expected.retain = Some(Span::ZERO);
        expected.group = Some(b"g");
        expected.ttl = Some(Ttl {
            span: Span::from_millis(9),
            bury: true,
        });
        expected.priority = Priority::new(0).unwrap();
        (expected.requeue, expected.update) = (true, true);
        assert_eq!(parse(&words(line)[..]), Ok(expected));
    }

    #[test]
    fn a_payload_may_look_like_an_option() {
        let args = words("MQ.ENQUEUE q ID ID ID");
        let request = parse(&args[..]).unwrap();
        assert_eq!(
            (request.payload, request.id),
            (&b"ID"[..], Some(&b"ID"[..]))
        );
    }

    #[test]
    fn an_unknown_repeated_or_incomplete_option_is_a_syntax_error() {
        for options in [
            "DELAY 7",
            "AT 7",
            "ID a ID b",
            "ID",
            "LOCK 1 LOCK 1",
            "ATTEMPTS 1 ATTEMPTS 1",
            "PRIORITY 1 PRIORITY 1",
            "REQUEUE REQUEUE",
            "UPDATE UPDATE",
            "HEADERS a HEADERS b",
            "RETAIN 1 RETAIN 1",
            "RETAIN",
            "GROUP a GROUP b",
            "TTL 8 TTL 8",
            "TTL 8 BURY BURY",
            "BURY",
            "TTL",
            "GROUP",
            "HEADERS",
            "NOW",
            "LOCK",
        ] {
            assert_eq!(start(options), Err(Error::Syntax), "{options}");
        }
    }

    #[test]
    fn a_number_out_of_range_names_its_option() {
        assert_eq!(start("LOCK 0"), range("LOCK", 1, MAX_DURATION_MS));
        assert_eq!(
            start("LOCK 315360000001"),
            range("LOCK", 1, MAX_DURATION_MS)
        );
        assert_eq!(start("ATTEMPTS -1"), range("ATTEMPTS", 0, u32::MAX.into()));
        assert_eq!(
            start("ATTEMPTS 4294967296"),
            range("ATTEMPTS", 0, u32::MAX.into())
        );
        assert_eq!(start("PRIORITY 10"), range("PRIORITY", 0, 9));
        assert_eq!(start("RETAIN x"), range("RETAIN", 0, MAX_DURATION_MS));
        assert_eq!(start("DELAY x"), range("DELAY", 0, MAX_DURATION_MS));
        assert_eq!(start("AT 281474976710656"), range("AT", 0, MAX_INSTANT_MS));
        let too_long = "x".repeat(513);
        let id_error = Err(Error::Length {
            what: "id",
            min: 1,
            max: 512,
        });
        assert_eq!(start(&format!("ID {too_long}")), id_error);
        assert_eq!(start("REQUEUE ID  UPDATE"), id_error, "an empty id");
    }
}
