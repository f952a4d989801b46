//! Adding messages, one or many.

use redis::Value;
use redis_mq_core::{
    BatchRefused, Enqueue, FollowUp, Full, Outcome, Priority, Start, Timestamp, Ttl,
    MAX_HEADER_BYTES,
};

use super::{
    commands::id,
    shown::bulk,
    state::State,
    words::{syntax, Refusal, Words},
};

/// One option of an enqueue; false if it is none.
fn enqueue_option<'a>(
    request: &mut Enqueue<'a>,
    option: &str,
    words: &mut Words<'a>,
) -> Result<bool, Refusal> {
    match option {
        "DELAY" => request.start = Start::After(words.span()?),
        "AT" => request.start = Start::At(Timestamp::from_millis(words.number()?)),
        "LOCK" => request.lock = Some(words.span()?),
        "ATTEMPTS" => request.attempts = words.number()?,
        "PRIORITY" => {
            request.priority = Priority::new(words.number()?).ok_or_else(syntax)?;
        }
        "TTL" => {
            let span = words.span()?;
            let bury = words.is_next("BURY");
            request.ttl = Some(Ttl { span, bury });
        }
        "GROUP" => request.group = Some(words.bytes()?),
        "HEADERS" => request.headers = words.bytes()?,
        "RETAIN" => request.retain = Some(words.span()?),
        "JOIN" => request.join = Some(id(words)?),
        "REQUEUE" => request.requeue = true,
        "UPDATE" => request.update = true,
        _ => return Ok(false),
    }
    Ok(true)
}

/// What no message may be.
fn checked(state: &State, request: &Enqueue<'_>) -> Result<(), Refusal> {
    if request.headers.len() > MAX_HEADER_BYTES {
        return Err(format!("ERR HEADERS must be 1 to {MAX_HEADER_BYTES} bytes"));
    }
    if request.expires_before_start(state.now().instant()) {
        return Err("ERR TTL must be longer than the delay".to_owned());
    }
    Ok(())
}

pub(super) fn full(full: Full) -> Refusal {
    match full {
        Full::Length => "FULL the queue has as many messages as its LENGTH allows",
        Full::Bytes => "FULL the queue takes as much memory as its BYTES allow",
        Full::GroupLength => "FULL the group has as many messages as its LENGTH allows",
    }
    .to_owned()
}

fn nothing_waits() -> Refusal {
    "ERR no follow-up waits under the id to JOIN".to_owned()
}

pub(super) fn enqueue(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let name = words.bytes()?;
    let mut request = Enqueue::new(words.bytes()?);
    while let Some(option) = words.option() {
        if option == "ID" {
            request.id = Some(id(words)?);
        } else if !enqueue_option(&mut request, &option, words)? {
            return Err(syntax());
        }
    }
    checked(state, &request)?;
    let enqueued = state.change_or_create(name, |queue, turn| {
        let enqueued = queue.enqueue(turn, &request);
        (enqueued.outcome, enqueued.id.bytes().to_vec())
    });
    let (outcome, id) = enqueued;
    match outcome {
        Outcome::Full(limit) => Err(full(limit)),
        Outcome::NothingWaits => Err(nothing_waits()),
        outcome => Ok(Value::Array(vec![bulk(outcome.name()), bulk(id)])),
    }
}

pub(super) fn enqueue_many(state: &mut State, words: &mut Words<'_>) -> Result<Value, Refusal> {
    let (name, count) = (words.bytes()?, words.number::<usize>()?);
    let payloads: Vec<_> = (0..count)
        .map(|_| words.bytes())
        .collect::<Result<_, _>>()?;
    let mut template = Enqueue::new(b"");
    let mut ids: Vec<Option<&[u8]>> = vec![None; count];
    let mut follow_up: Option<FollowUp<'_>> = None;
    while let Some(option) = words.option() {
        match (option.as_str(), &mut follow_up) {
            ("IDS", _) => {
                for given in &mut ids {
                    *given = Some(id(words)?);
                }
            }
            ("THEN", None) => {
                let (payload, headers) = (words.bytes()?, &b""[..]);
                let id = None;
                follow_up = Some(FollowUp {
                    id,
                    payload,
                    headers,
                });
            }
            ("THENID", Some(follow_up)) => follow_up.id = Some(id(words)?),
            ("THENHEADERS", Some(follow_up)) => follow_up.headers = words.bytes()?,
            (option, _) if enqueue_option(&mut template, option, words)? => {}
            _ => return Err(syntax()),
        }
    }
    checked(state, &template)?;
    let added = state.change_or_create(name, |queue, turn| {
        let (mut all, messages) = (
            Vec::new(),
            ids.iter().copied().zip(payloads.iter().copied()),
        );
        let added = queue.enqueue_many(turn, &template, messages, follow_up.as_ref(), |one| {
            let fields = vec![bulk(one.outcome.name()), bulk(one.id.bytes())];
            all.push(Value::Array(fields));
        });
        added.map(|()| Value::Array(all))
    });
    added.map_err(|refused| match refused {
        BatchRefused::Full(limit) => full(limit),
        BatchRefused::NothingWaits => nothing_waits(),
    })
}
