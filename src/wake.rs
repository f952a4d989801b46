//! Making time prompt: one timer of the server that looks after the queues in which something falls
//! due, and the signal to consumers that wait.
//!
//! Nothing here decides anything. Each command lets due time act by itself first, so a missed look
//! costs promptness only. Keys are renamed, flushed, swapped and loaded behind a module's back: what
//! is noted here of a queue is a hint, checked by opening the key.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis_mq_core::Now;

use crate::authority::{self, Right};
use crate::datatype::{StoredQueue, QUEUE_TYPE};
use crate::info::BLOCKED_CONSUMERS;
use crate::redis::{
    loading_tells_the_place, subscribe, subscribe_keys, Ctx, Event, EventHandler, EventKind,
    KeyEventHandler, KeyEvents, KeyName, LoadError, ReadKey, Tick, TimerId, WriteKey,
};
use crate::turn::{self, Missing, ReplicateAs};

/// How late a queue without waiting consumers may be swept: one look for many messages.
const SWEEP_DELAY_MS: u64 = 100;
/// When to ask again whether the server takes writes.
pub const PAUSED_RETRY_MS: u64 = 20;
/// A look that is so late was missed by the timer.
const LATE_MS: u64 = 50;
/// How long one tick works before other clients get their turn.
const TICK_BUDGET: Duration = Duration::from_micros(500);

type Place = (i32, Box<[u8]>);

/// Which queue is to be looked after when.
#[derive(Default)]
struct Watch {
    by_time: BTreeSet<(u64, Place)>,
    times: Option<HashMap<Place, u64>>,
    /// The look that was asked for last and has not been taken yet.
    last: Option<(u64, Place)>,
    /// The running timer, and the instant it fires at.
    timer: Option<(TimerId, u64)>,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch {
    by_time: BTreeSet::new(),
    times: None,
    last: None,
    timer: None,
});

fn watch() -> MutexGuard<'static, Watch> {
    // A panic elsewhere leaves at worst a missing hint.
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Notes a look at `at`, unless an earlier one is noted.
    fn note(&mut self, place: Place, at: u64) {
        let times = self.times.get_or_insert_default();
        match times.get_mut(&place) {
            Some(noted) if *noted <= at => return,
            Some(noted) => {
                self.by_time.remove(&(*noted, place.clone()));
                *noted = at;
            }
            None => {
                times.insert(place.clone(), at);
            }
        }
        self.by_time.insert((at, place));
    }

    /// The first look that is due.
    fn take_due(&mut self, now_ms: u64) -> Option<Place> {
        if self.by_time.first()?.0 > now_ms {
            return None;
        }
        let (_, place) = self.by_time.pop_first()?;
        self.last = None;
        if let Some(times) = &mut self.times {
            times.remove(&place);
        }
        Some(place)
    }

    /// Lets the timer fire at the first look, at `now_ms` at the earliest.
    fn set_timer(&mut self, ctx: &Ctx, now_ms: u64, earliest: u64) {
        let Some((first, _)) = self.by_time.first() else {
            return;
        };
        let at = (*first).max(earliest);
        if let Some((timer, set)) = self.timer.take() {
            if set <= at {
                self.timer = Some((timer, set));
                return;
            }
            ctx.stop_timer(timer);
        }
        self.timer = Some((ctx.start_timer::<Look>(at.saturating_sub(now_ms)), at));
    }

    /// The server's timers count real time. A clock that was set forward, or a machine that was asleep,
    /// makes them late.
    fn catch_up(&mut self, ctx: &Ctx, now_ms: u64) {
        if self
            .by_time
            .first()
            .is_some_and(|(first, _)| first + LATE_MS <= now_ms)
        {
            if let Some((timer, _)) = self.timer.take() {
                ctx.stop_timer(timer);
            }
            self.set_timer(ctx, now_ms, 0);
        }
    }

    /// Two databases have changed places, and so have the queues in them.
    fn swap(&mut self, first: i32, second: i32) {
        let old = std::mem::take(&mut self.by_time);
        self.times = None;
        self.last = None;
        for (at, (db, name)) in old {
            let db = match db {
                db if db == first => second,
                db if db == second => first,
                db => db,
            };
            self.note((db, name), at);
        }
    }
}

/// After a step at a queue: lets consumers that wait have what is ready, and sees to it that the
/// module looks at the queue when its next message falls due.
#[inline]
pub fn after(ctx: &Ctx, name: KeyName<'_>, now: Now, stored: &mut StoredQueue) {
    let anyone_waits = BLOCKED_CONSUMERS.value() != 0;
    if anyone_waits && stored.queue.ready_len() != 0 {
        ctx.signal_ready(name);
    }
    if let Some(due) = stored.queue.next_due() {
        if due.millis() < stored.watched_from {
            look_at(
                ctx,
                name,
                now.instant().millis(),
                stored,
                due.millis(),
                anyone_waits,
            );
        }
    }
}

#[cold]
fn look_at(
    ctx: &Ctx,
    name: KeyName<'_>,
    now_ms: u64,
    stored: &mut StoredQueue,
    due: u64,
    anyone_waits: bool,
) {
    let at = if anyone_waits || due <= now_ms {
        due
    } else {
        due + SWEEP_DELAY_MS
    };
    if at >= stored.watched_from {
        return;
    }
    stored.watched_from = at;
    let mut watch = watch();
    watch.note((ctx.selected_db(), name.bytes().into()), at);
    watch.set_timer(ctx, now_ms, 0);
}

/// A consumer has begun to wait on the key: what falls due there must not be late.
pub fn wait_begins(ctx: &Ctx, name: KeyName<'_>) {
    if let Ok(mut key) = WriteKey::open(ctx, &QUEUE_TYPE, name) {
        if let Some(stored) = key.value_mut() {
            after(ctx, name, Now::from_micros(ctx.now_us()), stored);
        }
    }
}

/// Lets the timer look at the queue at `at_ms`, whatever it has noted under another name.
pub fn look_again(ctx: &Ctx, name: KeyName<'_>, at_ms: u64) {
    let (db, name) = (ctx.selected_db(), name.bytes());
    let mut watch = watch();
    // All consumers of a queue ask this one after the other.
    let is_last = |last: &(u64, Place)| last.0 == at_ms && last.1 .0 == db && *last.1 .1 == *name;
    if !watch.last.as_ref().is_some_and(is_last) {
        watch.note((db, name.into()), at_ms);
        watch.last = Some((at_ms, (db, name.into())));
        watch.set_timer(ctx, ctx.clock_us() / 1000, 0);
    }
}

/// A queue was loaded from a dump; the end of the loading starts the timer.
pub fn loaded(db: i32, name: &[u8]) {
    watch().note((db, name.into()), 0);
}

/// The timer.
struct Look;

impl Tick for Look {
    fn tick(ctx: &Ctx) {
        watch().timer = None;
        let right = authority::of_time(ctx);
        if let Right::Refuse(_) = right {
            return; // the change of role, or the end of loading, starts it again
        }
        let begin = Instant::now();
        let mut now_ms = ctx.clock_us() / 1000;
        let mut earliest = 0;
        if right == Right::Later {
            earliest = now_ms + PAUSED_RETRY_MS;
        } else {
            while begin.elapsed() < TICK_BUDGET {
                let Some((db, name)) = watch().take_due(now_ms) else {
                    break;
                };
                if ctx.select_db(db) {
                    ctx.with_key_name(&name, |name| look_after(ctx, name));
                }
            }
            now_ms = ctx.clock_us() / 1000;
        }
        watch().set_timer(ctx, now_ms, earliest);
    }
}

/// Lets time act on one queue. A key that is gone, or of another type, is no queue to look after.
fn look_after(ctx: &Ctx, name: KeyName<'_>) {
    match WriteKey::open(ctx, &QUEUE_TYPE, name) {
        Ok(mut key) => match key.value_mut() {
            Some(stored) => stored.watched_from = u64::MAX,
            None => return,
        },
        Err(_) => return,
    }
    let now = Now::from_micros(ctx.clock_us());
    // It fails only where the key is no queue, which was just seen not to be so.
    let _ = turn::take(
        ctx,
        name,
        Missing::Leave,
        now,
        ReplicateAs::Effects,
        |queue, turn| {
            queue.let_time_act(turn);
        },
    );
}

/// What happens to the server and to keys behind the commands' backs.
struct Behind;

impl EventHandler for Behind {
    fn on_event(ctx: &Ctx, event: Event) {
        match event {
            Event::RoleChanged(new) => authority::changed(ctx, Some(new)),
            Event::Loading(_) | Event::AsyncLoading(_) => authority::changed(ctx, None),
            Event::SwapDb(first, second) => watch().swap(first, second),
            Event::Cron => {
                if authority::of_time(ctx) == Right::Decide {
                    watch().catch_up(ctx, ctx.clock_us() / 1000);
                }
                return;
            }
            _ => return,
        }
        if authority::decides() {
            let now_ms = ctx.clock_us() / 1000;
            watch().set_timer(ctx, now_ms, 0);
        }
    }
}

impl KeyEventHandler for Behind {
    fn on_key_event(ctx: &Ctx, event: &CStr, key: KeyName<'_>) {
        let appears = [c"restore", c"copy_to", c"rename_to", c"move_to", c"loaded"];
        if !appears.contains(&event) {
            return;
        }
        // The server's own string may lie on its stack, where it cannot be kept.
        ctx.with_key_name(key.bytes(), |name| {
            if matches!(ReadKey::peek(ctx, &QUEUE_TYPE, name), Ok(Some(_))) {
                let mut watch = watch();
                watch.note((ctx.selected_db(), name.bytes().into()), 0);
                if authority::decides() {
                    watch.set_timer(ctx, ctx.clock_us() / 1000, 0);
                }
            }
        });
    }
}

/// Subscribes to what the timer must know of.
pub fn register(ctx: &Ctx) -> Result<(), LoadError> {
    authority::changed(ctx, None);
    subscribe::<Behind>(
        ctx,
        &[
            EventKind::RoleChanged,
            EventKind::Loading,
            EventKind::AsyncLoading,
            EventKind::SwapDb,
            EventKind::Cron,
        ],
    );
    let mut events = KeyEvents::GENERIC;
    if !loading_tells_the_place() {
        events = events.and(KeyEvents::LOADED);
    }
    subscribe_keys::<Behind>(ctx, events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(db: i32, name: &str) -> Place {
        (db, name.as_bytes().into())
    }

    #[test]
    fn the_earliest_look_at_a_queue_is_the_one_that_counts() {
        let mut watch = Watch::default();
        watch.note(place(0, "a"), 50);
        watch.note(place(0, "a"), 70);
        watch.note(place(0, "b"), 40);
        watch.note(place(0, "b"), 30);
        assert_eq!(watch.take_due(29), None);
        assert_eq!(watch.take_due(30), Some(place(0, "b")));
        assert_eq!(watch.take_due(60), Some(place(0, "a")));
        assert_eq!(watch.take_due(u64::MAX), None);
    }

    #[test]
    fn swapped_databases_swap_their_queues() {
        let mut watch = Watch::default();
        watch.note(place(0, "a"), 1);
        watch.note(place(1, "b"), 2);
        watch.note(place(2, "c"), 3);
        watch.swap(0, 1);
        let places: Vec<_> = std::iter::from_fn(|| watch.take_due(9)).collect();
        assert_eq!(places, [place(1, "a"), place(0, "b"), place(2, "c")]);
    }
}
