//! Schedules: set, removed, fired and listed.

use redis::Value;
use redis_mq_core::{
    Calendar, Outcome, Overlap, Priority, Schedule, ScheduleError, ScheduleView, Span, Times,
    Timestamp, Ttl,
};

use super::{
    add::full,
    shown::{bulk, instant, int, map},
    state::State,
    words::{syntax, Refusal, Words},
};

/// Cron expressions need the module: here they are kept and listed, and never due by themselves.
#[derive(Debug)]
pub(super) struct Never;

impl Calendar for Never {
    fn next(&self, _: &[u8], _: &[u8], after: Timestamp) -> Option<Timestamp> {
        Some(after.after(Span::MAX))
    }
}

/// As many as a server allows by default.
const MOST: usize = 10_000;

pub(super) fn schedule(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (queue, name, payload) = (words.bytes()?, words.bytes()?, words.bytes()?);
    let (mut times, mut zone) = (None, &b"UTC"[..]);
    let mut schedule = Schedule::new(name, Times::Every(Span::ZERO), payload);
    while let Some(option) = words.option() {
        let message = &mut schedule.message;
        match option.as_str() {
            "EVERY" => times = Some(Times::Every(words.span()?)),
            "CRON" => {
                let expression = words.bytes()?;
                times = Some(Times::Cron { expression, zone });
            }
            "TZ" => zone = words.bytes()?,
            "FROM" => schedule.from = Some(Timestamp::from_millis(words.number()?)),
            "UNTIL" => schedule.until = Some(Timestamp::from_millis(words.number()?)),
            "TIMES" => schedule.most = Some(words.number()?),
            "OVERLAP" => {
                let word = words.option().ok_or_else(syntax)?;
                let mut all = [Overlap::Skip, Overlap::After, Overlap::Allow].into_iter();
                let named = all.find(|overlap| overlap.name() == word);
                schedule.overlap = named.ok_or_else(syntax)?;
            }
            "LOCK" => message.lock = Some(words.span()?),
            "ATTEMPTS" => message.attempts = words.number()?,
            "PRIORITY" => {
                message.priority = Priority::new(words.number()?).ok_or_else(syntax)?;
            }
            "TTL" => {
                let span = words.span()?;
                let bury = words.is_next("BURY");
                message.ttl = Some(Ttl { span, bury });
            }
            "GROUP" => message.group = Some(words.bytes()?),
            "HEADERS" => message.headers = words.bytes()?,
            "RETAIN" => message.retain = Some(words.span()?),
            _ => return Err(syntax()),
        }
    }
    schedule.times = match times.ok_or_else(syntax)? {
        Times::Cron { expression, .. } => Times::Cron { expression, zone },
        every => every,
    };
    let set = state.change_or_create(queue, |queue, turn| queue.schedule(turn, &schedule, MOST));
    let set = set.map_err(|error| match error {
        ScheduleError::OutOfRange => "ERR EVERY must be an integer from 1000 to 315360000000",
        ScheduleError::NoMatch => "ERR CRON matches no time in the next ten years",
        ScheduleError::TooMany => "ERR the queue has as many schedules as mq.max-schedules allows",
    })?;
    let next = instant(set.next.unwrap_or_default());
    Ok(Value::Array(vec![bulk(set.change.name()), next]))
}

pub(super) fn unschedule(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let queue = words.bytes()?;
    let mut names = vec![words.bytes()?];
    while let Ok(next) = words.bytes() {
        names.push(next);
    }
    let removed = state.change(queue, |queue, turn| {
        let removed = names.iter().filter(|name| queue.unschedule(turn, name));
        removed.count()
    });
    Ok(int(removed.unwrap_or(0) as u64))
}

pub(super) fn fire(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (queue, name) = (words.bytes()?, words.bytes()?);
    let fired = state.change(queue, |queue, turn| {
        queue.fire(turn, name, |fired| {
            (fired.outcome, fired.id.bytes().to_vec())
        })
    });
    match fired.flatten() {
        None => Ok(Value::Nil),
        Some((Outcome::Full(limit), _)) => Err(full(limit)),
        Some((outcome, id)) => Ok(Value::Array(vec![bulk(outcome.name()), bulk(id)])),
    }
}

pub(super) fn list(state: &State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (queue, cursor) = (words.bytes()?, words.number()?);
    let count = match words.is_next("COUNT") {
        true => words.number()?,
        false => 100,
    };
    let shown = state.look(queue, |queue| {
        let mut schedules = Vec::new();
        let next = queue.schedule_views(cursor, count, |view| schedules.push(show(view)));
        Value::Array(vec![bulk(next.to_string()), Value::Array(schedules)])
    });
    Ok(shown.unwrap_or(Value::Nil))
}

fn show(view: &ScheduleView<'_>) -> Value {
    let (spec, zone) = match view.times {
        Times::Every(every) => (bulk(format!("EVERY {}", every.millis())), Value::Nil),
        Times::Cron { expression, zone } => (bulk([b"CRON ", expression].concat()), bulk(zone)),
    };
    let at = |at: Option<Timestamp>| instant(at.unwrap_or_default());
    let outcome = view.last.map(|(_, outcome)| bulk(outcome.name()));
    map(vec![
        ("name", bulk(view.name)),
        ("spec", spec),
        ("tz", zone),
        ("from", at(view.from)),
        ("until", at(view.until)),
        ("times", int(view.most.unwrap_or(0))),
        ("overlap", bulk(view.overlap.name())),
        ("next-at", at(view.next)),
        ("last-at", at(view.last.map(|(at, _)| at))),
        ("last-outcome", outcome.unwrap_or(Value::Nil)),
        ("runs", int(view.runs)),
        ("skipped", int(view.skipped)),
        ("payload", bulk(view.payload)),
    ])
}
