//! What the queue's rules tell, as replies.

use redis::Value;
use redis_mq_core::{
    BatchResult, Delivery, GroupLimits, GroupView, Info, Limited, Now, QueueLimits, Rate, Status,
    Timestamp, View, UNLIMITED,
};

pub(super) fn bulk(bytes: impl AsRef<[u8]>) -> Value {
    Value::BulkString(bytes.as_ref().to_vec())
}

pub(super) fn int(number: impl TryInto<i64>) -> Value {
    Value::Int(number.try_into().unwrap_or(i64::MAX))
}

pub(super) fn instant(at: Timestamp) -> Value {
    int(at.millis())
}

/// A map as the older protocol has it.
pub(super) fn map(fields: Vec<(&str, Value)>) -> Value {
    let fields = fields.into_iter();
    Value::Array(
        fields
            .flat_map(|(name, value)| [bulk(name), value])
            .collect(),
    )
}

fn or_nil(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Nil, bulk)
}

/// Bytes that stand for nothing where there are none.
fn some(bytes: &[u8]) -> Option<&[u8]> {
    (!bytes.is_empty()).then_some(bytes)
}

pub(super) fn delivery(delivery: &Delivery<'_>) -> Value {
    let mut fields = vec![
        bulk(delivery.id.bytes()),
        bulk(delivery.payload),
        int(delivery.attempt),
        int(delivery.token.value()),
        int(delivery.lock.millis()),
        instant(delivery.enqueued_at),
    ];
    let headers = some(delivery.headers).map(|headers| ("headers", bulk(headers)));
    let group = some(delivery.group).map(|group| ("group", bulk(group)));
    let at = delivery.scheduled_at;
    let scheduled = (at != Timestamp::ZERO).then(|| ("scheduled-at", instant(at)));
    let batch = delivery.batch.map(|batch| ("batch", batch_result(batch)));
    let more: Vec<_> = [headers, group, scheduled, batch]
        .into_iter()
        .flatten()
        .collect();
    if !more.is_empty() {
        fields.push(map(more));
    }
    Value::Array(fields)
}

fn batch_result(batch: BatchResult) -> Value {
    Value::Array(vec![int(batch.ended), int(batch.dead)])
}

pub(super) fn message(view: &View<'_>) -> Value {
    let mut fields = vec![
        ("id", bulk(view.id.bytes())),
        ("status", bulk(view.status.name())),
        ("payload", bulk(view.payload)),
        ("attempts", int(view.attempts)),
        ("max-attempts", int(view.max_attempts)),
        ("priority", int(view.priority.level())),
        ("enqueued-at", instant(view.enqueued_at)),
        ("due-at", instant(view.due_at)),
        ("lock-ms", int(view.lock.millis())),
        ("requeue", or_nil(view.requeue)),
        ("reason", or_nil(view.reason)),
        ("headers", or_nil(some(view.headers))),
        ("group", or_nil(some(view.group))),
        ("expires-at", instant(view.expires_at)),
        (
            "retain-ms",
            view.retain.map_or(Value::Nil, |span| int(span.millis())),
        ),
        ("scheduled-at", instant(view.scheduled_at)),
    ];
    fields.extend(view.batch.map(|batch| ("batch", batch_result(batch))));
    map(fields)
}

pub(super) fn info(now: Now, info: &Info<'_>) -> Value {
    let counts = Status::ALL.iter().zip(info.counts);
    let mut fields: Vec<_> = counts
        .map(|(status, count)| (status.name(), int(count)))
        .collect();
    let (limited, free_ms) = match info.limited {
        None => ("", int(0)),
        Some(Limited::Inflight) => ("inflight", int(-1)),
        Some(Limited::Rate(free_at)) => ("rate", int(now.instant().until(free_at).millis())),
    };
    let oldest = info.oldest_queued.unwrap_or_default();
    let id = |id: &Option<_>| {
        id.as_ref()
            .map_or(Value::Nil, |id: &redis_mq_core::IdText<'_>| {
                bulk(id.bytes())
            })
    };
    let totals = &info.totals;
    fields.extend([
        ("messages", int(info.counts.iter().sum::<u64>())),
        ("next-mid", id(&info.next)),
        ("last-mid", id(&info.last)),
        (
            "next-due-ms",
            info.next_due.map_or(int(-1), |span| int(span.millis())),
        ),
        ("oldest-queued-ms", int(oldest.millis())),
        ("eoq-backoff-ms", int(info.eoq_backoff.millis())),
        ("ndry-runs", int(info.dry_runs)),
        ("paused", int(u8::from(info.paused))),
        ("paused-until", instant(info.paused_until)),
        ("held", int(info.held as u64)),
        ("groups", int(info.groups as u64)),
        ("limited", bulk(limited)),
        ("limit-free-ms", free_ms),
        ("total-enqueued", int(totals.enqueued)),
        ("total-delivered", int(totals.delivered)),
        ("total-done", int(totals.done)),
        ("total-retried", int(totals.retried)),
        ("total-dead", int(totals.dead)),
        ("total-expired-locks", int(totals.expired_locks)),
        ("total-expired", int(totals.expired)),
        ("total-full", int(info.refused)),
        ("results", int(info.results as u64)),
        ("schedules", int(info.schedules as u64)),
    ]);
    map(fields)
}

fn rate_and_burst(rate: Option<Rate>) -> [Option<(&'static str, Value)>; 2] {
    let numbers =
        |rate: Rate| Value::Array(vec![int(rate.deliveries()), int(rate.span().millis())]);
    [
        rate.map(|rate| ("rate", numbers(rate))),
        rate.map(|rate| ("burst", int(rate.burst()))),
    ]
}

pub(super) fn queue_limits(limits: &QueueLimits) -> Value {
    let [rate, burst] = rate_and_burst(limits.rate);
    let fields = [
        limits.length.map(|n| ("length", int(n))),
        limits.bytes.map(|n| ("bytes", int(n))),
        limits.inflight.map(|n| ("inflight", int(n))),
        rate,
        burst,
        limits.dead.map(|n| ("dead", int(n))),
        limits.attempts.map(|n| ("attempts", int(n))),
    ];
    map(fields.into_iter().flatten().collect())
}

pub(super) fn group_limits(limits: &GroupLimits) -> Value {
    let [rate, burst] = rate_and_burst(limits.rate);
    let inflight = |n| if n == UNLIMITED { bulk("off") } else { int(n) };
    let fields = [
        limits.length.map(|n| ("length", int(n))),
        limits.inflight.map(|n| ("inflight", inflight(n))),
        rate,
        burst,
    ];
    map(fields.into_iter().flatten().collect())
}

pub(super) fn group(view: &GroupView<'_>) -> Value {
    Value::Array(vec![
        bulk(view.name),
        int(view.waiting),
        int(view.in_flight),
        int(view.oldest.millis()),
        bulk(view.state.name()),
        instant(view.until),
        int(view.open),
    ])
}
