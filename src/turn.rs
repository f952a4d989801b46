//! How every command works on a queue: open the key, take one turn, send the effects, wake who waits.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::RngCore;
use redis_mq_core::{ApplyError, Now, Queue, Replication, Settings, Span, Token, Totals, Turn};

use crate::authority;
use crate::commands::apply;
use crate::config;
use crate::datatype::{StoredQueue, QUEUE_TYPE};
use crate::error::Error;
use crate::info;
use crate::redis::{Ctx, KeyName, ReadKey, WriteKey};
use crate::wake;

/// The largest token that any queue of this server has given. A queue that is made where another was
/// just deleted must not give its tokens again: the clock may not have moved on meanwhile.
static LARGEST_TOKEN: AtomicU64 = AtomicU64::new(0);

/// The settings as they stand.
#[inline]
pub fn settings() -> Settings {
    Settings {
        lock: Span::from_millis(config::lock_ms()),
        backoff_factor: Span::from_millis(config::backoff_factor_ms()),
        backoff_max: Span::from_millis(config::backoff_max_ms()),
        max_dead: config::max_dead(),
    }
}

/// What to do where the key has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Make an empty queue.
    Create,
    /// Nothing.
    Leave,
}

/// How the effects of a turn may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicateAs {
    /// Also as the client's own command.
    CommandOrEffects,
    /// As effects only: no client's command is running.
    Effects,
}

/// Runs `step` as one turn at the queue. `None` where there is no queue and none was made.
#[inline]
pub fn take<R>(
    ctx: &Ctx,
    name: KeyName<'_>,
    missing: Missing,
    now: Now,
    form: ReplicateAs,
    step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> R,
) -> Result<Option<R>, Error> {
    if let Some(why) = authority::refusal(ctx) {
        return Err(why);
    }
    let mut key = WriteKey::open(ctx, &QUEUE_TYPE, name)?;
    let is_new = key.value().is_none();
    let stored = match missing {
        Missing::Create => key.value_or_create(StoredQueue::new)?,
        Missing::Leave => match key.value_mut() {
            Some(stored) => stored,
            None => return Ok(None),
        },
    };
    let StoredQueue {
        queue, log, random, ..
    } = stored;
    let before = queue.totals();
    let settings = settings();
    let mut turn = Turn::new(now, random.next_u64(), &settings, log);
    if form == ReplicateAs::Effects {
        turn.spell_out();
    }
    if is_new {
        queue.continue_tokens(&mut turn, Token::new(LARGEST_TOKEN.load(Ordering::Relaxed)));
    }
    let result = step(queue, &mut turn);
    match stored.log.replication() {
        Replication::Nothing => {
            wake::after(ctx, name, now, stored);
            return Ok(Some(result));
        }
        Replication::Verbatim => ctx.replicate_verbatim(),
        Replication::Effects(effects) => ctx.replicate(apply::NAME, name, effects),
    }
    stored.log.trim();
    end_of_change(ctx, name, now, key, before);
    Ok(Some(result))
}

/// Runs `step` on a queue as another server decided it, and passes the command on as it came.
pub fn obey(
    ctx: &Ctx,
    name: KeyName<'_>,
    step: impl FnOnce(&mut Queue) -> Result<(), ApplyError>,
) -> Result<(), Error> {
    let mut key = WriteKey::open(ctx, &QUEUE_TYPE, name)?;
    let stored = key.value_or_create(StoredQueue::new)?;
    let before = stored.queue.totals();
    step(&mut stored.queue)?;
    ctx.replicate_verbatim();
    end_of_change(ctx, name, Now::from_micros(ctx.now_us()), key, before);
    ctx.reply_null();
    Ok(())
}

/// What everybody learns of a changed queue: `INFO`, consumers that wait, clients that watch or cache
/// the key, and listeners to keyspace notifications.
#[inline]
fn end_of_change(
    ctx: &Ctx,
    name: KeyName<'_>,
    now: Now,
    mut key: WriteKey<'_, StoredQueue>,
    before: Totals,
) {
    let Some(stored) = key.value_mut() else {
        return;
    };
    let added = stored.queue.totals().since(&before);
    if added.delivered != 0 {
        let token = stored
            .queue
            .last_token()
            .value()
            .max(LARGEST_TOKEN.load(Ordering::Relaxed));
        LARGEST_TOKEN.store(token, Ordering::Relaxed);
    }
    stored.published.publish(&stored.queue);
    wake::after(ctx, name, now, stored);
    drop(key);
    ctx.signal_modified(name);
    let Totals {
        enqueued,
        delivered,
        done,
        retried,
        dead,
        expired_locks,
    } = added;
    for (number, event, total) in [
        (expired_locks, c"mq.expire", &info::EXPIRED_LOCKS),
        (enqueued, c"mq.enqueue", &info::ENQUEUED),
        (delivered, c"mq.dequeue", &info::DELIVERED),
        (done, c"mq.done", &info::DONE),
        (retried, c"mq.retry", &info::RETRIED),
        (dead, c"mq.dead", &info::DEAD),
    ] {
        if number != 0 {
            total.add(number);
            ctx.notify(event, name);
        }
    }
}

/// Runs `step` on a queue without changing it; `None` where there is none.
#[inline]
pub fn look<R>(
    ctx: &Ctx,
    name: KeyName<'_>,
    step: impl FnOnce(&Queue) -> R,
) -> Result<Option<R>, Error> {
    let key = ReadKey::open(ctx, &QUEUE_TYPE, name)?;
    Ok(key.map(|key| step(&key.value().queue)))
}

/// The same for the module's own looks, which no statistics count.
pub fn peek<R>(
    ctx: &Ctx,
    name: KeyName<'_>,
    step: impl FnOnce(&Queue) -> R,
) -> Result<Option<R>, Error> {
    let key = ReadKey::peek(ctx, &QUEUE_TYPE, name)?;
    Ok(key.map(|key| step(&key.value().queue)))
}
