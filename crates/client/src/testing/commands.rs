//! The commands, by the rules of the queue.

use redis::Value;
use redis_mq_core::{
    Backoff, EoqWaits, ForeignCursor, Keep, LimitChanges, LimitError, Peek, PeekError, Queue,
    Scope, Stale, Status, Token, Verdict, MAX_ID_BYTES,
};

use super::{
    add, schedules,
    shown::{self, bulk, instant, int},
    state::State,
    words::{syntax, Refusal, Words},
};

/// Runs one command; the error is the server's.
pub(super) fn run(state: &mut State, words: &[Vec<u8>]) -> Result<Value, Refusal> {
    let mut words = Words::new(words);
    let command = words.option().unwrap_or_default();
    let words = &mut words;
    match command.as_str() {
        // What connections say of themselves.
        "CLIENT" | "INFO" | "PING" => Ok(Value::Okay),
        "MQ.ENQUEUE" => add::enqueue(state, words),
        "MQ.MENQUEUE" => add::enqueue_many(state, words),
        "MQ.DEQUEUE" => dequeue(state, words),
        "MQ.DONE" => done(state, words),
        "MQ.MDONE" => done_many(state, words),
        "MQ.EXTEND" => extend(state, words),
        "MQ.CANCEL" => cancel(state, words),
        "MQ.REDRIVE" => redrive(state, words),
        "MQ.PURGE" => purge(state, words),
        "MQ.LIMIT" | "MQ.LIMITS" => limit(state, words),
        "MQ.PAUSE" => pause(state, words),
        "MQ.RESUME" => resume(state, words),
        "MQ.PEEK" => peek(state, words),
        "MQ.SCAN" => scan(state, words),
        "MQ.SCHEDULE" => schedules::schedule(state, words),
        "MQ.UNSCHEDULE" => schedules::unschedule(state, words),
        "MQ.FIRE" => schedules::fire(state, words),
        "MQ.SCHEDULES" => schedules::list(state, words),
        "MQ.STATUS" | "MQ.GET" | "MQ.INFO" | "MQ.GROUPS" => inspect(state, &command, words),
        _ => Err(format!("ERR unknown command '{command}'")),
    }
}

pub(super) fn id<'a>(words: &mut Words<'a>) -> Result<&'a [u8], Refusal> {
    let id = words.bytes()?;
    let fits = (1..=MAX_ID_BYTES).contains(&id.len());
    fits.then_some(id)
        .ok_or_else(|| format!("ERR ID must be 1 to {MAX_ID_BYTES} bytes"))
}

/// Nothing waits here: time stands still.
fn dequeue(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    let (mut count, mut lock, mut polls) = (None, None, false);
    while let Some(option) = words.option() {
        match option.as_str() {
            "COUNT" => count = Some(words.number::<u32>()?),
            "LOCK" => lock = Some(words.span()?),
            "BLOCK" => drop(words.span()?),
            "EOQ" => {
                polls = true;
                words.skip_numbers();
            }
            _ => return Err(syntax()),
        }
    }
    let most = count.unwrap_or(1) as usize;
    let taken = state.change(name, |queue, turn| {
        let mut taken = Vec::new();
        queue.dequeue(turn, most, lock, |delivery| {
            taken.push(shown::delivery(delivery));
        });
        if taken.is_empty() && polls {
            let wait = queue.eoq_wait(turn, EoqWaits::Exponential);
            return Err(int(wait.millis()));
        }
        Ok(taken)
    });
    Ok(match taken {
        None => Value::Nil,
        Some(Err(wait)) => wait,
        Some(Ok(taken)) if taken.is_empty() => Value::Nil,
        Some(Ok(mut taken)) if count.is_none() => taken.remove(0),
        Some(Ok(taken)) => Value::Array(taken),
    })
}

fn done(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (name, id) = (words.bytes()?, id(words)?);
    let token = Token::new(words.number()?);
    let verdict = verdict(words)?;
    match state.change(name, |queue, turn| queue.done(turn, id, token, verdict)) {
        Some(Ok(Some(ended))) => Ok(bulk(ended.name())),
        Some(Err(Stale)) => Err(stale()),
        Some(Ok(None)) | None => Ok(Value::Nil),
    }
}

fn done_many(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (name, count) = (words.bytes()?, words.number::<usize>()?);
    let named = |_| Ok((id(words)?, Token::new(words.number()?)));
    let all: Vec<_> = (0..count).map(named).collect::<Result<_, Refusal>>()?;
    let verdict = verdict(words)?;
    let ended = state.change(name, |queue, turn| {
        let ended = all
            .iter()
            .map(|(id, token)| queue.done(turn, id, *token, verdict));
        let shown = ended.map(|ended| match ended {
            Ok(Some(ended)) => bulk(ended.name()),
            Ok(None) => Value::Nil,
            Err(Stale) => bulk("stale"),
        });
        shown.collect()
    });
    Ok(Value::Array(
        ended.unwrap_or_else(|| vec![Value::Nil; count]),
    ))
}

/// The rest of the words of a verdict.
fn verdict<'a>(words: &mut Words<'a>) -> Result<Verdict<'a>, Refusal> {
    let (mut backoff, mut reason) = (Backoff::None, None);
    let mut keep = Keep::NOTHING;
    let mut verdict = "SUCCESS".to_owned();
    while let Some(option) = words.option() {
        match option.as_str() {
            "SUCCESS" | "RETRY" | "ERROR" | "RELEASE" => verdict = option,
            "REASON" => reason = Some(words.bytes()?),
            "RESULT" => keep.result = Some(words.bytes()?),
            "RETAIN" => keep.retain = Some(words.span()?),
            "BACKOFF" if words.is_next("EXP") => backoff = Backoff::Exponential,
            "BACKOFF" => backoff = Backoff::For(words.span()?),
            _ => return Err(syntax()),
        }
    }
    Ok(match verdict.as_str() {
        "SUCCESS" => Verdict::Success { backoff, keep },
        "RETRY" => Verdict::Retry { backoff, reason },
        "ERROR" => Verdict::Error { reason },
        _ => Verdict::Release,
    })
}

fn stale() -> Refusal {
    "STALE this delivery is over: it has its verdict, or there is a newer one".to_owned()
}

fn extend(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (name, id) = (words.bytes()?, id(words)?);
    let (token, span) = (Token::new(words.number()?), words.span()?);
    match state.change(name, |queue, turn| queue.extend(turn, id, token, span)) {
        Some(Ok(Some(until))) => Ok(instant(until)),
        Some(Err(Stale)) => Err(stale()),
        Some(Ok(None)) | None => Ok(Value::Nil),
    }
}

fn cancel(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    let mut ids = vec![id(words)?];
    while let Ok(next) = words.bytes() {
        ids.push(next);
    }
    let cancelled = state.change(name, |queue, turn| {
        ids.iter().filter(|id| queue.cancel(turn, id)).count()
    });
    Ok(int(cancelled.unwrap_or(0) as u64))
}

fn redrive(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    if words.is_next("COUNT") {
        let count = words.number()?;
        let redriven = state.change(name, |queue, turn| queue.redrive_oldest(turn, count));
        return Ok(int(redriven.unwrap_or(0) as u64));
    }
    let mut ids = vec![id(words)?];
    while let Ok(next) = words.bytes() {
        ids.push(next);
    }
    let redriven = state.change(name, |queue, turn| {
        ids.iter().filter(|id| queue.redrive(turn, id)).count()
    });
    Ok(int(redriven.unwrap_or(0) as u64))
}

fn purge(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    let which = match words.is_next("ALL") {
        true => None,
        false => Some(status(words)?),
    };
    let count = match words.is_next("COUNT") {
        true => words.number()?,
        false => 1_000,
    };
    let removed = state.change(name, |queue, turn| queue.purge(turn, which, count));
    Ok(int(removed.unwrap_or(0) as u64))
}

fn limit(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    let (mut scope, mut changes) = (Scope::Queue, LimitChanges::default());
    while let Some(option) = words.option() {
        match option.as_str() {
            "GROUPS" => scope = Scope::Groups,
            "GROUP" => scope = Scope::Group(words.bytes()?),
            "LENGTH" => changes.length = Some(words.or_off(Words::number)?),
            "BYTES" => changes.bytes = Some(words.or_off(Words::number)?),
            "INFLIGHT" => changes.inflight = Some(words.or_off(Words::number)?),
            "BURST" => changes.burst = Some(words.or_off(Words::number)?),
            "DEAD" => changes.dead = Some(words.or_off(Words::number)?),
            "ATTEMPTS" => changes.attempts = Some(words.or_off(Words::number)?),
            "RATE" => {
                let rate = words.or_off(|words| Ok((words.number()?, words.span()?)))?;
                changes.rate = Some(rate);
            }
            _ => return Err(syntax()),
        }
    }
    if changes == LimitChanges::default() {
        let shown = state.look(name, |queue| match scope {
            Scope::Queue => shown::queue_limits(&queue.limits()),
            Scope::Groups => shown::group_limits(&queue.group_limits(None)),
            Scope::Group(group) => shown::group_limits(&queue.group_limits(Some(group))),
        });
        return Ok(shown.unwrap_or(Value::Nil));
    }
    let set = state.change_or_create(name, |queue, turn| queue.set_limits(turn, scope, &changes));
    set.map_err(|error| match error {
        LimitError::BurstWithoutRate => "ERR BURST needs a RATE".to_owned(),
        LimitError::NotOfGroups | LimitError::Zero | LimitError::Name => syntax(),
    })?;
    Ok(Value::Okay)
}

fn pause(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    let (mut group, mut span) = (None, None);
    while let Some(option) = words.option() {
        match option.as_str() {
            "GROUP" => group = Some(words.bytes()?),
            "FOR" => span = Some(words.span()?),
            _ => return Err(syntax()),
        }
    }
    let until = state.change_or_create(name, |queue, turn| queue.pause(turn, group, span));
    until.map(instant).map_err(|_| syntax())
}

fn resume(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    let mut group = None;
    while let Some(option) = words.option() {
        match option.as_str() {
            "GROUP" => group = Some(words.bytes()?),
            _ => return Err(syntax()),
        }
    }
    let resumed = state.change(name, |queue, turn| queue.resume(turn, group));
    Ok(int(u8::from(resumed.unwrap_or(false))))
}

fn status(words: &mut Words<'_>) -> Result<Status, Refusal> {
    let name = words.bytes()?;
    let named = |status: &Status| status.name().as_bytes().eq_ignore_ascii_case(name);
    Status::ALL.into_iter().find(named).ok_or_else(syntax)
}

fn peek(state: &State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (name, now) = (words.bytes()?, state.now());
    let mut peek = Peek {
        status: None,
        count: 10,
        after: None,
        reverse: false,
    };
    while let Some(option) = words.option() {
        match option.as_str() {
            "STATUS" => peek.status = Some(status(words)?),
            "COUNT" => peek.count = words.number()?,
            "AFTER" => peek.after = Some(id(words)?),
            "REV" => peek.reverse = true,
            _ => return Err(syntax()),
        }
    }
    let shown = state.look(name, |queue| {
        let page = queue.peek(now, &peek)?;
        Ok(Value::Array(page.iter().map(shown::message).collect()))
    });
    shown
        .unwrap_or(Ok(Value::Nil))
        .map_err(|error| match error {
            PeekError::NoSuchMessage => "ERR no such message to go on after".to_owned(),
            PeekError::Turns => syntax(),
            PeekError::TooFar => {
                "ERR too many messages of another status come before the next one, use MQ.SCAN"
                    .to_owned()
            }
        })
}

/// Patterns are the module's own, and are not known here.
fn scan(state: &State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (name, now) = (words.bytes()?, state.now());
    let (cursor, mut count, mut wanted) = (words.number()?, 100, None);
    while let Some(option) = words.option() {
        match option.as_str() {
            "STATUS" => wanted = Some(status(words)?),
            "COUNT" => count = words.number()?,
            "MATCH" => return Err("ERR no patterns in a server for tests".to_owned()),
            _ => return Err(syntax()),
        }
    }
    let shown = state.look(name, |queue| {
        let mut found = Vec::new();
        let next = queue.scan(now, cursor, count, |message| {
            if wanted.is_none_or(|wanted| wanted == message.status) {
                let fields = vec![bulk(message.id.bytes()), bulk(message.status.name())];
                found.push(Value::Array(fields));
            }
        })?;
        Ok(Value::Array(vec![
            bulk(next.to_string()),
            Value::Array(found),
        ]))
    });
    let foreign = |ForeignCursor| "ERR the cursor is not of this queue".to_owned();
    shown.unwrap_or(Ok(Value::Nil)).map_err(foreign)
}

fn inspect(state: &State, command: &str, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (name, now) = (words.bytes()?, state.now());
    let shown = match command {
        "MQ.STATUS" => {
            let id = id(words)?;
            let status = state.look(name, |queue| queue.status(now, id)).flatten();
            status.map(|status| bulk(status.name()))
        }
        "MQ.GET" => {
            let id = id(words)?;
            let show = |queue: &Queue| Some(shown::message(&queue.get(now, id)?));
            state.look(name, show).flatten()
        }
        "MQ.GROUPS" => {
            let cursor = words.number()?;
            let count = match words.is_next("COUNT") {
                true => words.number()?,
                false => 100,
            };
            let only = match words.is_next("GROUP") {
                true => Some(words.bytes()?),
                false => None,
            };
            state.look(name, |queue| {
                if let Some(only) = only {
                    let group = queue.group_named(now, only);
                    let group = group.iter().map(shown::group).collect();
                    return Value::Array(vec![bulk("0"), Value::Array(group)]);
                }
                let mut groups = Vec::new();
                let next = queue.group_views(now, cursor, count, |view| {
                    groups.push(shown::group(view));
                });
                Value::Array(vec![bulk(next.to_string()), Value::Array(groups)])
            })
        }
        _ => state.look(name, |queue| shown::info(now, &queue.info(now))),
    };
    Ok(shown.unwrap_or(Value::Nil))
}
