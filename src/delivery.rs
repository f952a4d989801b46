//! What a consumer is told of a delivery, at once or later.

use redis_mq_core::{BatchResult, Delivery, Timestamp, Token};

use crate::clock::QueueTime;
use crate::redis::Ctx;

/// A delivery as replies show it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The message's id.
    pub id: &'a [u8],
    payload: &'a [u8],
    /// What names the delivery in the verdict.
    pub token: Token,
    numbers: Numbers,
    headers: &'a [u8],
    group: &'a [u8],
}

/// What of a delivery needs no memory of its own.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    attempt: u32,
    /// In milliseconds.
    lock: u64,
    /// Unix milliseconds of the server's clock.
    enqueued_at: u64,
    batch: Option<BatchResult>,
    scheduled_at: Timestamp,
}

/// A delivery in memory of its own, for a consumer that gets its reply later.
#[derive(Debug)]
pub struct Owned {
    id: Box<[u8]>,
    payload: Box<[u8]>,
    token: Token,
    numbers: Numbers,
    headers: Box<[u8]>,
    group: Box<[u8]>,
}

impl<'a> Shown<'a> {
    /// The delivery of a queue whose time is `time`.
    #[inline]
    pub fn of(time: QueueTime, delivery: &'a Delivery<'a>) -> Shown<'a> {
        Shown {
            id: delivery.id.bytes(),
            payload: delivery.payload,
            token: delivery.token,
            numbers: Numbers {
                attempt: delivery.attempt,
                lock: delivery.lock.millis(),
                enqueued_at: time.shown(delivery.enqueued_at),
                batch: delivery.batch,
                scheduled_at: delivery.scheduled_at,
            },
            headers: delivery.headers,
            group: delivery.group,
        }
    }

    /// The same in memory of its own.
    pub fn to_owned(self) -> Owned {
        Owned {
            id: self.id.into(),
            payload: self.payload.into(),
            token: self.token,
            numbers: self.numbers,
            headers: self.headers.into(),
            group: self.group.into(),
        }
    }
}

impl Owned {
    /// How replies show it.
    pub fn show(&self) -> Shown<'_> {
        Shown {
            id: &self.id,
            payload: &self.payload,
            token: self.token,
            numbers: self.numbers,
            headers: &self.headers,
            group: &self.group,
        }
    }
}

/// Replies a delivery, with the name of its queue in front if that is given.
#[inline]
pub fn reply(ctx: &Ctx, queue: Option<&[u8]>, delivery: &Shown<'_>) {
    let numbers = delivery.numbers;
    let is_rare = numbers.batch.is_some() || numbers.scheduled_at != Timestamp::ZERO;
    let has_more = is_rare || !(delivery.headers.is_empty() && delivery.group.is_empty());
    ctx.reply_array(6 + usize::from(has_more) + usize::from(queue.is_some()));
    if let Some(queue) = queue {
        ctx.reply_bulk(queue);
    }
    ctx.reply_bulk(delivery.id);
    ctx.reply_bulk(delivery.payload);
    ctx.reply_integer(numbers.attempt.into());
    ctx.reply_integer(delivery.token.value());
    ctx.reply_integer(numbers.lock);
    ctx.reply_integer(numbers.enqueued_at);
    if has_more {
        reply_more(ctx, delivery);
    }
}

/// What only some deliveries have to tell. An element costs every dequeue, so plain ones have none.
#[cold]
fn reply_more(ctx: &Ctx, delivery: &Shown<'_>) {
    let more = [("headers", delivery.headers), ("group", delivery.group)];
    let told = more.iter().filter(|(_, value)| !value.is_empty());
    let is_run = delivery.numbers.scheduled_at != Timestamp::ZERO;
    let rare = usize::from(is_run) + usize::from(delivery.numbers.batch.is_some());
    ctx.reply_map(told.clone().count() + rare);
    for (name, value) in told {
        ctx.reply_bulk(name.as_bytes());
        ctx.reply_bulk(value);
    }
    if is_run {
        ctx.reply_bulk(b"scheduled-at");
        ctx.reply_integer(delivery.numbers.scheduled_at.millis());
    }
    if let Some(batch) = delivery.numbers.batch {
        ctx.reply_bulk(b"batch");
        reply_batch(ctx, batch);
    }
}

/// How a batch has ended: how many messages, and how many of them are dead.
pub fn reply_batch(ctx: &Ctx, batch: BatchResult) {
    ctx.reply_array(2);
    ctx.reply_integer(batch.ended);
    ctx.reply_integer(batch.dead);
}
