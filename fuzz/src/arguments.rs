//! The arguments of every command: a command line as text, its words split at single blanks.

use redis_mq_core::{
    Backoff, Calendar, Enqueue, Keep, Overlap, Schedule, Start, Times, Timestamp, Verdict,
    MAX_GROUP_BYTES, MAX_HEADER_BYTES, MAX_ID_BYTES, MAX_NAME_BYTES, MAX_NAME_BYTES_ALLOW,
    MAX_RESULT_BYTES, MAX_SPAN_MS,
};

use crate::commands::{
    apply, cancel, dequeue, done, enqueue, extend, fire, groups, mdequeue, mdone, menqueue, peek,
    purge, redrive, result, scan, schedule, schedules, status, unschedule,
};
use crate::cron::Cron;
use crate::error::Error;
use crate::glob;
use crate::parse::is;

type Words = Vec<Vec<u8>>;

/// Reads `data` as the arguments of the command that it begins with. What is accepted is within the
/// bounds of the contract, and means the same when it is written in the plainest way.
pub fn run(data: &[u8]) {
    let words: Vec<&[u8]> = data.split(|byte| *byte == b' ').collect();
    let words = &words[..];
    let known = |name| is(words[0], name);
    if known("MQ.ENQUEUE") {
        let parsed = enqueue::parse(words);
        if let Some(request) = checked(parsed) {
            check_enqueue(&request);
            let plain = plain_enqueue(&request);
            assert_eq!(enqueue::parse(&refs(&plain)[..]), Ok(request));
        }
    } else if known("MQ.DEQUEUE") {
        if let Some(request) = checked(dequeue::Dequeue::parse(words)) {
            check_dequeue(&request);
            let plain = plain_dequeue(&request);
            assert_eq!(dequeue::Dequeue::parse(&refs(&plain)[..]), Ok(request));
        }
    } else if known("MQ.MDEQUEUE") {
        if let Some(all) = checked(mdequeue::DequeueMany::parse(words)) {
            assert!((1..=1000).contains(&all.queues) && words.len() >= 2 + all.queues);
            assert!(!matches!(all.request.wait, dequeue::Wait::EndOfQueue(_)));
            check_dequeue(&all.request);
        }
    } else if known("MQ.DONE") {
        if let Some(request) = checked(done::Done::parse(words)) {
            check_done(&request);
            let plain = plain_done(&request);
            assert_eq!(done::Done::parse(&refs(&plain)[..]), Ok(request));
        }
    } else if known("MQ.MDONE") {
        if let Some(request) = checked(mdone::DoneMany::parse(words)) {
            assert!((1..=10_000).contains(&request.count));
            assert_eq!(request.deliveries().count(), request.count);
            for (id, token) in request.deliveries() {
                let verdict = request.verdict;
                check_done(&done::Done { id, token, verdict });
            }
        }
    } else if known("MQ.MENQUEUE") {
        if let Some(request) = checked(menqueue::EnqueueMany::parse(words)) {
            assert!((1..=10_000).contains(&request.count));
            assert_eq!(request.messages().count(), request.count);
            for (id, payload) in request.messages() {
                let mut one = request.template;
                (one.id, one.payload) = (id, payload);
                check_enqueue(&one);
            }
        }
    } else if known("MQ.EXTEND") {
        if let Some(request) = checked(extend::Extend::parse(words)) {
            check_id(request.id);
            check_span(request.lock.millis(), 1);
        }
    } else if known("MQ.CANCEL") {
        if let Some(request) = checked(cancel::Cancel::parse(words)) {
            assert_eq!(request.ids().count(), words.len() - 2);
            request.ids().for_each(check_id);
        }
    } else if known("MQ.STATUS") {
        if let Some(id) = checked(status::parse_id(words)) {
            check_id(id);
        }
    } else if known("MQ.RESULT") {
        if let Some(request) = checked(result::Ask::parse(words)) {
            check_id(request.id);
            request.block.into_iter().for_each(|ms| check_span(ms, 0));
        }
    } else if known("MQ.PEEK") {
        if let Some(request) = checked(peek::parse(words)) {
            assert!((1..=1000).contains(&request.count));
            request.after.into_iter().for_each(check_id);
        }
    } else if known("MQ.SCAN") {
        if let Some(request) = checked(scan::Scan::parse(words)) {
            assert!((1..=10_000).contains(&request.count));
            let pattern = request.pattern.unwrap_or(b"*");
            assert!((1..=512).contains(&pattern.len()));
            // Whatever the pattern, it is compared to the end.
            glob::matches(pattern, data);
        }
    } else if known("MQ.REDRIVE") {
        match checked(redrive::Redrive::parse(words)) {
            Some(redrive::Redrive::Oldest(count)) => assert!((1..=10_000).contains(&count)),
            Some(ids) => {
                assert_eq!(ids.ids().count(), words.len() - 2);
                ids.ids().for_each(check_id);
            }
            None => {}
        }
    } else if known("MQ.PURGE") {
        if let Some(request) = checked(purge::Purge::parse(words)) {
            assert!((1..=100_000).contains(&request.count));
        }
    } else if known("MQ.GROUPS") {
        if let Some(request) = checked(groups::Groups::parse(words)) {
            assert!((1..=10_000).contains(&request.count));
            let names = request.group.into_iter();
            names.for_each(|name| assert!((1..=MAX_GROUP_BYTES).contains(&name.len())));
        }
    } else if known("MQ.SCHEDULE") {
        if let Some(request) = checked(schedule::parse(words)) {
            check_schedule(&request);
        }
    } else if known("MQ.UNSCHEDULE") {
        if let Some(names) = checked(unschedule::parse(words)) {
            assert_eq!(
                names.inspect(|name| check_id(name)).count(),
                words.len() - 2
            );
        }
    } else if known("MQ.SCHEDULES") {
        if let Some(request) = checked(schedules::Schedules::parse(words)) {
            assert!((1..=10_000).contains(&request.count));
        }
    } else if known("MQ.FIRE") {
        if let Some(name) = checked(fire::parse(words)) {
            check_id(name);
        }
    } else if known("MQ.APPLY") {
        checked(apply::parse(words));
    }
}

/// What was accepted. An error is one line of printable text that begins with its code.
fn checked<T>(parsed: Result<T, Error>) -> Option<T> {
    match parsed {
        Ok(request) => Some(request),
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("ERR "), "{text}");
            assert!(
                text.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
                "{text}"
            );
            None
        }
    }
}

fn check_id(id: &[u8]) {
    assert!((1..=MAX_ID_BYTES).contains(&id.len()));
}

fn check_span(ms: u64, min: u64) {
    assert!((min..=MAX_SPAN_MS).contains(&ms), "{ms}");
}

fn check_enqueue(request: &Enqueue<'_>) {
    if let Some(id) = request.id {
        check_id(id);
    }
    if let Some(lock) = request.lock {
        check_span(lock.millis(), 1);
    }
    if let Some(retain) = request.retain {
        check_span(retain.millis(), 0);
    }
    match request.start {
        Start::Default => {}
        Start::After(span) => check_span(span.millis(), 0),
        Start::At(at) => assert!(at <= Timestamp::MAX),
    }
    assert!(request.priority.level() <= 9);
    assert!(request.headers.len() <= MAX_HEADER_BYTES);
}

fn check_schedule(request: &Schedule<'_>) {
    check_enqueue(&request.message);
    assert_eq!(request.message.start, Start::Default);
    assert!(request.message.id.is_none());
    let longest = match request.overlap {
        Overlap::Allow => MAX_NAME_BYTES_ALLOW,
        Overlap::Skip | Overlap::After => MAX_NAME_BYTES,
    };
    assert!((1..=longest).contains(&request.name.len()));
    match request.times {
        Times::Every(every) => check_span(every.millis(), 1000),
        Times::Cron { expression, zone } => {
            // Whatever it says, the search for a match ends.
            Cron.next(expression, zone, Timestamp::ZERO);
        }
    }
    assert_ne!(request.most, Some(0));
    for instant in [request.from, request.until].into_iter().flatten() {
        assert!(instant <= Timestamp::MAX);
    }
}

fn check_dequeue(request: &dequeue::Dequeue) {
    assert_ne!(request.count, Some(0));
    if let Some(lock) = request.lock {
        check_span(lock.millis(), 1);
    }
    match request.wait {
        dequeue::Wait::No => {}
        dequeue::Wait::Block(ms) => check_span(ms, 0),
        dequeue::Wait::EndOfQueue(pauses) => {
            assert!(pauses.as_slice().len() <= dequeue::Pauses::MAX);
            for pause in pauses.as_slice() {
                check_span(pause.millis(), 0);
            }
        }
    }
}

fn check_done(request: &done::Done<'_>) {
    check_id(request.id);
    assert!(i64::try_from(request.token.value()).is_ok());
    if let Verdict::Success { keep, .. } = request.verdict {
        assert!(keep.result.unwrap_or_default().len() <= MAX_RESULT_BYTES);
        check_span(keep.retain.unwrap_or_default().millis(), 0);
    }
    match request.verdict {
        Verdict::Success { backoff, .. } | Verdict::Retry { backoff, .. } => {
            if let Backoff::For(span) = backoff {
                check_span(span.millis(), 1);
            }
        }
        Verdict::Error { reason } => {
            assert!(reason.unwrap_or_default().len() <= done::MAX_REASON_LEN);
        }
        Verdict::Release => {}
    }
}

fn plain_enqueue(request: &Enqueue<'_>) -> Words {
    let mut words = words(&[b"mq.enqueue", b"q", request.payload]);
    if let Some(id) = request.id {
        option(&mut words, "id", id);
    }
    match request.start {
        Start::Default => {}
        Start::After(span) => number(&mut words, "delay", span.millis()),
        Start::At(at) => number(&mut words, "at", at.millis()),
    }
    if let Some(lock) = request.lock {
        number(&mut words, "lock", lock.millis());
    }
    number(&mut words, "attempts", request.attempts.into());
    number(&mut words, "priority", request.priority.level().into());
    if let Some(ttl) = request.ttl {
        number(&mut words, "ttl", ttl.span.millis());
        if ttl.bury {
            words.push(b"bury".to_vec());
        }
    }
    if let Some(group) = request.group {
        option(&mut words, "group", group);
    }
    if !request.headers.is_empty() {
        option(&mut words, "headers", request.headers);
    }
    if let Some(retain) = request.retain {
        number(&mut words, "retain", retain.millis());
    }
    if let Some(join) = request.join {
        option(&mut words, "join", join);
    }
    if request.requeue {
        words.push(b"requeue".to_vec());
    }
    if request.update {
        words.push(b"update".to_vec());
    }
    words
}

fn plain_dequeue(request: &dequeue::Dequeue) -> Words {
    let mut words = words(&[b"mq.dequeue", b"q"]);
    match request.wait {
        dequeue::Wait::No => {}
        dequeue::Wait::Block(ms) => number(&mut words, "block", ms),
        dequeue::Wait::EndOfQueue(pauses) => {
            words.push(b"eoq".to_vec());
            for pause in pauses.as_slice() {
                words.push(pause.millis().to_string().into_bytes());
            }
        }
    }
    if let Some(count) = request.count {
        number(&mut words, "count", count.into());
    }
    if let Some(lock) = request.lock {
        number(&mut words, "lock", lock.millis());
    }
    words
}

fn plain_done(request: &done::Done<'_>) -> Words {
    let token = request.token.value().to_string();
    let mut words = words(&[b"mq.done", b"q", request.id, token.as_bytes()]);
    let (verdict, backoff) = match request.verdict {
        Verdict::Success { backoff, .. } => ("success", backoff),
        Verdict::Retry { backoff, .. } => ("retry", backoff),
        Verdict::Error { .. } => ("error", Backoff::None),
        Verdict::Release => ("release", Backoff::None),
    };
    words.push(verdict.as_bytes().to_vec());
    match backoff {
        Backoff::None => {}
        Backoff::For(span) => number(&mut words, "backoff", span.millis()),
        Backoff::Exponential => option(&mut words, "backoff", b"exp"),
    }
    if let Verdict::Error {
        reason: Some(reason),
    }
    | Verdict::Retry {
        reason: Some(reason),
        ..
    } = request.verdict
    {
        option(&mut words, "reason", reason);
    }
    if let Verdict::Success {
        keep: Keep { result, retain },
        ..
    } = request.verdict
    {
        if let Some(result) = result {
            option(&mut words, "result", result);
        }
        if let Some(retain) = retain {
            number(&mut words, "retain", retain.millis());
        }
    }
    words
}

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

fn option(words: &mut Words, name: &str, value: &[u8]) {
    words.push(name.as_bytes().to_vec());
    words.push(value.to_vec());
}

fn number(words: &mut Words, name: &str, value: u64) {
    option(words, name, value.to_string().as_bytes());
}

fn refs(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}
