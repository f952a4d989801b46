//! How every command works on a queue: open the key, take one turn, send the effects, wake who waits.

use rand::RngCore;
use redis_mq_core::{Now, Queue, Replication, Settings, Span, Turn};

use crate::commands::apply;
use crate::config;
use crate::datatype::{StoredQueue, QUEUE_TYPE};
use crate::error::Error;
use crate::redis::{Ctx, KeyName, ReadKey, WriteKey};
use crate::wake;

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
pub enum Send {
    /// Also as the client's own command.
    AsItComes,
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
    send: Send,
    step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> R,
) -> Result<Option<R>, Error> {
    let mut key = WriteKey::open(ctx, &QUEUE_TYPE, name)?;
    let stored = match missing {
        Missing::Create => key.value_or_create(StoredQueue::new)?,
        Missing::Leave => match key.value_mut() {
            Some(stored) => stored,
            None => return Ok(None),
        },
    };
    let StoredQueue { queue, log, random, .. } = stored;
    let settings = settings();
    let mut turn = Turn::new(now, random.next_u64(), &settings, log);
    if send == Send::Effects {
        turn.explain();
    }
    let result = step(queue, &mut turn);
    let changed = match stored.log.replication() {
        Replication::Nothing => false,
        Replication::Verbatim => {
            ctx.replicate_verbatim();
            true
        }
        Replication::Effects(effects) => {
            ctx.replicate(apply::NAME, name, effects);
            true
        }
    };
    if changed {
        stored.published.publish(&stored.queue);
        ctx.signal_modified(name);
    }
    wake::after(ctx, name, now, stored);
    Ok(Some(result))
}

/// Runs `step` on a queue as another server decided it, and passes the command on as it came.
pub fn obey<R>(
    ctx: &Ctx,
    name: KeyName<'_>,
    step: impl FnOnce(&mut Queue) -> R,
) -> Result<R, Error> {
    let mut key = WriteKey::open(ctx, &QUEUE_TYPE, name)?;
    let stored = key.value_or_create(StoredQueue::new)?;
    let result = step(&mut stored.queue);
    ctx.replicate_verbatim();
    stored.published.publish(&stored.queue);
    ctx.signal_modified(name);
    wake::after(ctx, name, Now::from_micros(ctx.now_us()), stored);
    Ok(result)
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
