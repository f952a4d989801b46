//! MQ.SCHEDULE

use redis_mq_core::{
    Enqueue, Overlap, Schedule, ScheduleError, Scheduled, Span, Times, Timestamp, LEAST_EVERY,
    MAX_CRON_BYTES, MAX_NAME_BYTES_ALLOW, MAX_ZONE_BYTES,
};

use super::enqueue::{argument, Options};
use super::record::{Access, Argument, Group, Kind, Record};
use crate::clock;
use crate::config;
use crate::cron;
use crate::error::Error;
use crate::parse::{is, once, ArgList, Cursor, MAX_INSTANT_MS};
use crate::redis::{Args, Command, Ctx};
use crate::turn::{self, Missing, ReplicateAs};

/// The command.
pub struct MqSchedule;

/// The zone of expressions that name none.
const UTC: &[u8] = b"UTC";

/// Reads the arguments after the queue.
pub fn parse<'a>(args: impl ArgList<'a>) -> Result<Schedule<'a>, Error> {
    let mut args = Cursor::new(args, 2);
    let name = args.name()?;
    let mut message = Enqueue::new(args.value()?);
    let mut options = Options::default();
    let (mut every, mut expression, mut zone) = (None, None, None);
    let (mut from, mut until, mut most, mut overlap) = (None, None, None, None);
    while let Some(option) = args.word() {
        if is(option, "EVERY") {
            let ms = args.duration("EVERY", LEAST_EVERY.millis())?;
            once(&mut every, Span::from_millis(ms))?;
        } else if is(option, "CRON") {
            once(&mut expression, args.bytes("CRON", 1, MAX_CRON_BYTES)?)?;
        } else if is(option, "TZ") {
            once(&mut zone, args.bytes("TZ", 1, MAX_ZONE_BYTES)?)?;
        } else if is(option, "FROM") {
            once(&mut from, instant(&mut args, "FROM")?)?;
        } else if is(option, "UNTIL") {
            once(&mut until, instant(&mut args, "UNTIL")?)?;
        } else if is(option, "TIMES") {
            once(&mut most, args.count("TIMES", 1)?)?;
        } else if is(option, "OVERLAP") {
            once(&mut overlap, read_overlap(&mut args)?)?;
        } else {
            options.read_of_message(option, &mut args)?;
        }
    }
    options.give_to(&mut message)?;
    let times = match (every, expression, zone) {
        (Some(every), None, None) => Times::Every(every),
        (None, Some(expression), zone) => {
            let zone = zone.unwrap_or(UTC);
            cron::check(expression, zone)?;
            Times::Cron { expression, zone }
        }
        _ => return Err(Error::Syntax),
    };
    let overlap = overlap.unwrap_or_default();
    if overlap == Overlap::Allow && name.len() > MAX_NAME_BYTES_ALLOW {
        let (what, min, max) = ("name", 1, MAX_NAME_BYTES_ALLOW);
        return Err(Error::Length { what, min, max });
    }
    let mut schedule = Schedule::new(name, times, b"");
    (schedule.from, schedule.until, schedule.most) = (from, until, most);
    (schedule.overlap, schedule.message) = (overlap, message);
    Ok(schedule)
}

fn instant<'a, L: ArgList<'a>>(
    args: &mut Cursor<L>,
    what: &'static str,
) -> Result<Timestamp, Error> {
    let ms = args.integer(what, 0, MAX_INSTANT_MS)?;
    Ok(Timestamp::from_millis(ms))
}

fn read_overlap<'a, L: ArgList<'a>>(args: &mut Cursor<L>) -> Result<Overlap, Error> {
    let word = args.value()?;
    let mut all = [Overlap::Skip, Overlap::After, Overlap::Allow].into_iter();
    all.find(|overlap| is(word, overlap.name()))
        .ok_or(Error::Syntax)
}

/// Refuses a first run that is more than ten years away, as a delay of that length is.
fn check_from(schedule: &Schedule<'_>, clock: Timestamp) -> Result<(), Error> {
    let latest = clock.after(Span::MAX);
    match schedule.from {
        Some(from) if from > latest => Err(Error::OutOfRange {
            what: "FROM",
            min: 0,
            max: latest.millis(),
        }),
        _ => Ok(()),
    }
}

impl From<ScheduleError> for Error {
    fn from(error: ScheduleError) -> Error {
        match error {
            ScheduleError::OutOfRange => Error::Internal, // the words were checked
            ScheduleError::NoMatch => Error::NoMatch,
            ScheduleError::TooMany => Error::TooManySchedules,
        }
    }
}

impl Command for MqSchedule {
    const RECORD: &'static Record = &Record {
        name: "mq.schedule",
        syntax:
            "MQ.SCHEDULE queue name payload EVERY ms | CRON expression [TZ zone] [FROM unix-ms] \
                 [UNTIL unix-ms] [TIMES n] [OVERLAP SKIP | AFTER | ALLOW] [LOCK ms] [ATTEMPTS n] \
                 [PRIORITY p] [TTL ms [BURY]] [GROUP g] [HEADERS bytes] [RETAIN ms]",
        summary: "Lets the queue enqueue a message by itself again and again, or changes how.",
        complexity: "O(log n) with n the number of schedules, and one search for the next match",
        since: "0.1.0",
        group: Group::Operators,
        arity: -6,
        flags: "write deny-oom",
        newer_flags: &[],
        key: Some(Access::Update),
        tips: "",
        arguments: &[
            Argument::QUEUE,
            Argument::new("name", Kind::Text),
            Argument::new("payload", Kind::Text),
            Argument::new(
                "times",
                Kind::OneOf(&[
                    Argument::new("ms", Kind::Integer).after("EVERY"),
                    Argument::new(
                        "cron",
                        Kind::Block(&[
                            Argument::new("expression", Kind::Text).after("CRON"),
                            Argument::new("zone", Kind::Text).after("TZ").optional(),
                        ]),
                    ),
                ]),
            ),
            Argument::new("unix-ms", Kind::UnixTime)
                .after("FROM")
                .optional(),
            Argument::new("unix-ms", Kind::UnixTime)
                .after("UNTIL")
                .optional(),
            Argument::new("n", Kind::Integer).after("TIMES").optional(),
            Argument::new(
                "overlap",
                Kind::OneOf(&[
                    Argument::word("skip", "SKIP"),
                    Argument::word("after", "AFTER"),
                    Argument::word("allow", "ALLOW"),
                ]),
            )
            .after("OVERLAP")
            .optional(),
            argument::LOCK,
            argument::ATTEMPTS,
            argument::PRIORITY,
            argument::TTL,
            argument::GROUP,
            argument::HEADERS,
            argument::RETAIN,
        ],
        details: include_str!("schedule.md"),
    };

    fn run(ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        let name = args.key(1).ok_or(Error::Internal)?;
        let schedule = parse(args)?;
        let now = clock::now(ctx);
        check_from(&schedule, now.server().instant())?;
        let most = config::max_schedules();
        let set = turn::take(
            ctx,
            name,
            Missing::Create,
            now,
            ReplicateAs::Effects,
            |queue, turn| queue.schedule(turn, &schedule, most),
        )?;
        let Scheduled { change, next } = set.ok_or(Error::Internal)??;
        ctx.reply_array(2);
        ctx.reply_bulk(change.name().as_bytes());
        ctx.reply_integer(next.unwrap_or_default().millis());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redis_mq_core::Priority;

    use super::*;
    use crate::parse::tests::words;

    fn parsed(options: &str) -> Result<(), Error> {
        let line = format!("MQ.SCHEDULE q n p {options}");
        parse(&words(&line)[..]).map(drop)
    }

    #[test]
    fn times_are_needed_and_the_rest_is_not() {
        let every = Times::Every(Span::from_millis(1000));
        let expected = Schedule::new(b"n", every, b"p");
        let args = words("MQ.SCHEDULE q n p every 1000");
        assert_eq!(parse(&args[..]), Ok(expected));
        let times = Times::Cron {
            expression: b"@daily",
            zone: b"UTC",
        };
        let args = words("MQ.SCHEDULE q n p CRON @daily");
        assert_eq!(parse(&args[..]), Ok(Schedule::new(b"n", times, b"p")));
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let args = words(
            "MQ.SCHEDULE q CRON EVERY ttl 5 BURY overlap after times 3 UNTIL 9 from 7 tz utc \
             priority 0 lock 1 ATTEMPTS 2 GROUP g headers h RETAIN 0 cron @hourly",
        );
        let times = Times::Cron {
            expression: b"@hourly",
            zone: b"utc",
        };
        let schedule = parse(&args[..]).unwrap();
        let mut expected = Schedule::new(b"CRON", times, b"EVERY");
        expected.from = Some(Timestamp::from_millis(7));
        expected.until = Some(Timestamp::from_millis(9));
        (expected.most, expected.overlap) = (Some(3), Overlap::After);
        expected.message.priority = Priority::new(0).unwrap();
        expected.message.lock = Some(Span::from_millis(1));
        expected.message.attempts = 2;
        expected.message.group = Some(b"g");
        expected.message.headers = b"h";
        expected.message.retain = Some(Span::ZERO);
        expected.message.ttl = schedule.message.ttl;
        assert!(schedule.message.ttl.is_some_and(|ttl| ttl.bury));
        assert_eq!(schedule, expected);
    }

    #[test]
    fn what_contradicts_itself_or_is_of_single_messages_is_a_syntax_error() {
        for options in [
            "",
            "TIMES 1",
            "EVERY",
            "EVERY 1000 CRON @daily",
            "EVERY 1000 EVERY 1000",
            "EVERY 1000 TZ UTC",
            "CRON @daily CRON @daily",
            "CRON @daily TZ UTC TZ UTC",
            "EVERY 1000 FROM 1 FROM 1",
            "EVERY 1000 UNTIL 1 UNTIL 1",
            "EVERY 1000 TIMES 1 TIMES 1",
            "EVERY 1000 OVERLAP SKIP OVERLAP SKIP",
            "EVERY 1000 OVERLAP",
            "EVERY 1000 OVERLAP NEVER",
            "EVERY 1000 ID a",
            "EVERY 1000 DELAY 1",
            "EVERY 1000 AT 1",
            "EVERY 1000 UPDATE",
            "EVERY 1000 REQUEUE",
            "EVERY 1000 BURY",
        ] {
            assert_eq!(parsed(options), Err(Error::Syntax), "{options}");
        }
    }

    #[test]
    fn what_is_out_of_range_names_the_option() {
        let range = |what, min, max| Err(Error::OutOfRange { what, min, max });
        let ten_years = 315_360_000_000;
        assert_eq!(parsed("EVERY 999"), range("EVERY", 1000, ten_years));
        let instants = MAX_INSTANT_MS;
        assert_eq!(parsed("EVERY 1000 FROM -1"), range("FROM", 0, instants));
        assert_eq!(parsed("EVERY 1000 UNTIL x"), range("UNTIL", 0, instants));
        let counts = u64::from(u32::MAX);
        assert_eq!(parsed("EVERY 1000 TIMES 0"), range("TIMES", 1, counts));
        assert_eq!(parsed("CRON @reboot"), Err(Error::BadCron));
        assert!(parsed("CRON @daily TZ Mars/Base").is_err());
    }

    #[test]
    fn a_name_leaves_room_for_the_instant_where_each_run_has_an_id_of_its_own() {
        let longest = "n".repeat(MAX_NAME_BYTES_ALLOW);
        let parsed = |name: &str, options: &str| {
            let line = format!("MQ.SCHEDULE q {name} p EVERY 1000 {options}");
            parse(&words(line.trim())[..]).map(drop)
        };
        assert_eq!(parsed(&longest, "OVERLAP ALLOW"), Ok(()));
        let longer = format!("{longest}n");
        let (what, min, max) = ("name", 1, MAX_NAME_BYTES_ALLOW);
        let error = Err(Error::Length { what, min, max });
        assert_eq!(parsed(&longer, "OVERLAP ALLOW"), error);
        assert_eq!(parsed(&longer, "OVERLAP SKIP"), Ok(()));
    }

    #[test]
    fn a_first_run_is_at_most_ten_years_away() {
        let clock = Timestamp::from_millis(1000);
        let mut schedule = Schedule::new(b"n", Times::Every(LEAST_EVERY), b"p");
        schedule.from = Some(clock.after(Span::MAX));
        assert_eq!(check_from(&schedule, clock), Ok(()));
        schedule.from = Some(clock.after(Span::MAX).after(Span::from_millis(1)));
        assert!(check_from(&schedule, clock).is_err());
    }
}
