//! How every command works on a queue: open the key, take one turn, send the effects, wake who waits.

use std::ffi::CStr;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use redis_mq_core::{
    ApplyError, Changes, Kinds, Mark, Queue, Replication, Settings, Span, Token, Turn,
};

use crate::authority;
use crate::clock::{self, Moment};
use crate::config;
use crate::cron::Cron;
use crate::datatype::QUEUE_TYPE;
use crate::error::Error;
use crate::info::{self, Gauge};
use crate::record::APPLY;
use crate::redis::{Ctx, KeyName, ReadKey, WriteKey};
use crate::rest;
use crate::scratch;
use crate::stored::StoredQueue;
use crate::wake;

/// The largest token that a queue of this server has given, as far as clocks and deliveries account for
/// it. A queue that comes to a place where another was just now, made anew, copied or restored, must not
/// give its tokens again: the clock may not have moved on meanwhile. What a loaded queue claims to have
/// given does not count: see [`Queue::justified_token`].
static LARGEST_TOKEN: AtomicU64 = AtomicU64::new(0);

/// Lets no queue of this server give a token up to this one any more.
pub fn account_for(token: Token) {
    LARGEST_TOKEN.fetch_max(token.value(), Ordering::Relaxed);
}

/// The settings as they stand.
#[inline]
pub fn settings() -> Settings {
    Settings {
        lock: Span::from_millis(config::lock_ms()),
        backoff_factor: Span::from_millis(config::backoff_factor_ms()),
        backoff_max: Span::from_millis(config::backoff_max_ms()),
        max_dead: config::max_dead(),
        retain: Span::from_millis(config::retain_ms()),
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
    now: Moment,
    form: ReplicateAs,
    step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> R,
) -> Result<Option<R>, Error> {
    if let Some(why) = authority::refusal(ctx) {
        return Err(why);
    }
    let mut key = WriteKey::open(ctx, &QUEUE_TYPE, name)?;
    let was_missing = key.value().is_none();
    let stored = match missing {
        Missing::Create => key.value_or_create(StoredQueue::new)?,
        Missing::Leave => match key.value_mut() {
            Some(stored) => stored,
            None => return Ok(None),
        },
    };
    let is_new_here = mem::take(&mut stored.is_new_here);
    let queue = stored.begin_step()?;
    let mark = queue.mark();
    let clock = now.server().instant();
    let runs_wait =
        queue.next_run().is_some_and(|run| run <= clock) && ctx.flags().is_out_of_memory();
    let (settings, mut log) = (settings(), scratch::log());
    let mut turn = Turn::new(now.of(queue).now(), scratch::random(), &settings, &mut log);
    turn.set_clock(clock, &Cron);
    if runs_wait {
        turn.let_runs_wait();
    }
    if form == ReplicateAs::Effects {
        turn.spell_out();
    }
    queue.settle_time(&mut turn, now.steady());
    if is_new_here {
        queue.continue_tokens(&mut turn, Token::new(LARGEST_TOKEN.load(Ordering::Relaxed)));
    }
    let before = turn.effects_len();
    let result = step(queue, &mut turn);
    let has_effects = turn.effects_len() != before;
    stored.end_step();
    if runs_wait {
        stored.let_runs_wait(now);
    }
    stored.answer_waiters(ctx, now);
    match log.replication() {
        // That its tokens go on behind others is for a queue that stays.
        Replication::Nothing | Replication::Effects(_) if was_missing && !has_effects => {
            // Nobody else has learned of it.
            key.delete();
            scratch::keep(log);
            return Ok(Some(result));
        }
        Replication::Nothing => {
            scratch::keep(log);
            wake::after(ctx, name, now, stored);
            rest::after(ctx, name, stored);
            return Ok(Some(result));
        }
        Replication::Verbatim => ctx.replicate_verbatim(),
        Replication::Effects(effects) => ctx.replicate(APPLY, name, effects),
    }
    scratch::keep(log);
    end_of_change(ctx, name, now, key, &mark);
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
    let queue = stored.begin_step()?;
    let mark = queue.mark();
    let obeyed = step(queue);
    stored.end_step();
    let now = clock::now(ctx);
    stored.answer_waiters(ctx, now);
    obeyed?;
    ctx.replicate_verbatim();
    end_of_change(ctx, name, now, key, &mark);
    ctx.reply_null();
    Ok(())
}

/// What everybody learns of a changed queue: `INFO`, consumers that wait, clients that watch or cache
/// the key, and listeners to keyspace notifications.
#[inline]
fn end_of_change(
    ctx: &Ctx,
    name: KeyName<'_>,
    now: Moment,
    mut key: WriteKey<'_, StoredQueue>,
    mark: &Mark,
) {
    let Some(stored) = key.value_mut() else {
        return;
    };
    let Some(queue) = stored.working() else {
        return;
    };
    let Changes { totals, kinds, .. } = queue.changes_since(mark);
    if totals.delivered != 0 {
        let floor = Token::new(LARGEST_TOKEN.load(Ordering::Relaxed));
        let token = queue.justified_token(floor, totals.delivered);
        LARGEST_TOKEN.store(token.max(floor).value(), Ordering::Relaxed);
    }
    stored.follow();
    wake::after(ctx, name, now, stored);
    rest::after(ctx, name, stored);
    drop(key);
    ctx.signal_modified(name);
    // What a server reads again when it starts was counted by the one that wrote it.
    let counts = !authority::is_loading();
    let tell = |number: u64, event: &CStr, total: &Gauge| {
        if number == 0 {
            return;
        }
        // A death is taken back when a late verdict meets it.
        let by = number as i64;
        if counts {
            total.change(by);
        }
        if by > 0 {
            ctx.notify(event, name);
        }
    };
    tell(totals.expired_locks, c"mq.expire", &info::EXPIRED_LOCKS);
    tell(totals.enqueued, c"mq.enqueue", &info::ENQUEUED);
    tell(totals.delivered, c"mq.dequeue", &info::DELIVERED);
    tell(totals.done, c"mq.done", &info::DONE);
    tell(totals.retried, c"mq.retry", &info::RETRIED);
    tell(totals.dead, c"mq.dead", &info::DEAD);
    tell(totals.expired, c"mq.ttl", &info::EXPIRED);
    tell(totals.redriven, c"mq.redrive", &info::REDRIVEN);
    tell(totals.dropped, c"mq.dead-dropped", &info::DEAD_DROPPED);
    if kinds != Kinds::default() {
        if counts {
            info::RUNS.add(kinds.runs);
        }
        tell_kinds(ctx, name, kinds);
    }
}

/// What happens in few steps.
#[inline(never)]
fn tell_kinds(ctx: &Ctx, name: KeyName<'_>, kinds: Kinds) {
    for (happened, event) in [
        (kinds.updated, c"mq.update"),
        (kinds.extended, c"mq.extend"),
        (kinds.released, c"mq.release"),
        (kinds.cancelled, c"mq.cancel"),
        (kinds.limits_set, c"mq.limit"),
        (kinds.paused, c"mq.pause"),
        (kinds.resumed, c"mq.resume"),
        (kinds.scheduled, c"mq.schedule"),
    ] {
        if happened {
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
    key.map(|key| key.value().show(step)).transpose()
}

/// The same for the module's own looks, which no statistics count.
pub fn peek<R>(
    ctx: &Ctx,
    name: KeyName<'_>,
    step: impl FnOnce(&Queue) -> R,
) -> Result<Option<R>, Error> {
    let key = ReadKey::peek(ctx, &QUEUE_TYPE, name)?;
    key.map(|key| key.value().show(step)).transpose()
}
