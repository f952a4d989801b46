//! Making time prompt: the looks at queues in which something falls due, and the signal to consumers
//! that wait.
//!
//! Nothing here decides anything. Each command lets due time act by itself first, so a missed look
//! costs promptness only. Looks are noted only where time acts: on a primary that has its data.

mod events;
mod handle;
mod round;
mod timer;

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::authority;
use crate::clock::{self, Moment};
use crate::config;
use crate::consumers;
use crate::datatype::QUEUE_TYPE;
use crate::looks::{Class, Databases, Look, Place, Plan};
use crate::redis::{tells_of_renames, Alarm, Ctx, KeyName, WriteKey};
use crate::stored::StoredQueue;

pub use events::register;
pub use handle::Handle;
use round::Rounds;

/// How late a queue without waiting consumers may be swept: one look for many messages.
const SWEEP_DELAY_MS: u64 = 100;
/// When to ask again whether the server takes writes.
pub const PAUSED_RETRY_MS: u64 = 20;
/// The pauses between looks that do not find their queue, from the first to the longest.
const MISSED_RETRY_MS: (u64, u64) = (100, 10_000);

/// What is to be looked at, and the timer for it.
struct State {
    plan: Plan,
    databases: Databases,
    rounds: Rounds,
    /// What consumers asked for last: all that wait for a queue ask the same one after the other.
    last_asked: Option<(u64, Arc<Look>)>,
    /// How many dead letters a queue keeps, as it was last.
    max_dead: u32,
    /// How long a queue stays that nobody uses, as it was last.
    idle_ms: u64,
    /// The steady time less the server's clock, as it was last.
    shift_ms: i64,
    timer: Alarm,
}

static STATE: Mutex<State> = Mutex::new(State {
    plan: Plan::new(),
    databases: Databases::new(),
    rounds: Rounds::new(),
    last_asked: None,
    max_dead: 0,
    idle_ms: 0,
    shift_ms: 0,
    timer: Alarm::new(),
});

/// Values may be freed on another thread, so each use is short. No key may be opened or closed
/// meanwhile: a queue that goes takes its look with it.
fn state() -> MutexGuard<'static, State> {
    // A panic elsewhere leaves at worst a missing look.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After a step at a queue: lets consumers that wait have what is ready, and sees to it that the
/// module looks at the queue when its next message falls due.
#[inline]
pub fn after(ctx: &Ctx, name: KeyName<'_>, now: Moment, stored: &mut StoredQueue) {
    if consumers::count() != 0 && stored.ready_len() != 0 {
        consumers::ready(ctx, name);
    }
    if let Some(due) = stored.next_due(now) {
        if due.millis() < stored.look.covers() {
            let now_ms = now.steady_ms();
            note(ctx, name, now_ms, due.millis(), stored);
        }
    }
}

/// A queue has come to this place, by whatever way, or is met there.
fn met(ctx: &Ctx, name: KeyName<'_>) {
    if let Ok(mut key) = WriteKey::open(ctx, &QUEUE_TYPE, name) {
        if let Some(stored) = key.value_mut() {
            let now = clock::read(ctx);
            if let Some(due) = stored.next_due(now) {
                let now_ms = now.steady_ms();
                // What is due longer is no backlog: it has not been looked at.
                note(ctx, name, now_ms, due.millis().max(now_ms + 1), stored);
            }
        }
    }
}

#[cold]
fn note(ctx: &Ctx, name: KeyName<'_>, now_ms: u64, due: u64, stored: &mut StoredQueue) {
    if authority::decides() {
        let mut state = state();
        let (db, name) = (ctx.selected_db(), name.bytes());
        let class = if due <= now_ms {
            Class::Backlog
        } else {
            state.class(db, name)
        };
        state.note(&mut stored.look, db, name, class, due.max(now_ms), due);
        state.set_timer(ctx, now_ms, 0);
    }
}

/// A queue was read from a dump or copied for this place, where the server tells the place. While a
/// data set is loaded nothing is noted: its end starts a round.
pub fn placed(db: i32, name: &[u8], stored: &mut StoredQueue) {
    let due = stored.next_due(Moment::recent());
    if let Some(due) = due.filter(|_| authority::decides()) {
        let mut state = state();
        let (class, due) = (state.class(db, name), due.millis());
        // There is no context to set the timer with; the server's next periodic event does.
        state.note(&mut stored.look, db, name, class, due, due);
    }
}

/// A consumer has begun to wait on the key: what falls due there must not be late.
pub fn wait_begins(ctx: &Ctx, name: KeyName<'_>) {
    let Ok(mut key) = WriteKey::open(ctx, &QUEUE_TYPE, name) else {
        return;
    };
    let Some(stored) = key.value_mut() else {
        return;
    };
    if stored.ready_len() != 0 {
        consumers::ready(ctx, name);
    }
    if let Some(due) = stored.next_due(clock::read(ctx)) {
        look_for_waiters(ctx, name, due.millis(), stored);
    }
}

/// Lets the timer look at the queue at `at_ms`, for a consumer that waits.
pub fn look_again(ctx: &Ctx, name: KeyName<'_>, at_ms: u64) {
    if state().is_asked(ctx.selected_db(), name.bytes(), at_ms) {
        return;
    }
    if let Ok(mut key) = WriteKey::open(ctx, &QUEUE_TYPE, name) {
        if let Some(stored) = key.value_mut() {
            look_for_waiters(ctx, name, at_ms, stored);
        }
    }
}

fn look_for_waiters(ctx: &Ctx, name: KeyName<'_>, at_ms: u64, stored: &mut StoredQueue) {
    if authority::decides() {
        let mut state = state();
        let (db, name) = (ctx.selected_db(), name.bytes());
        state.note(&mut stored.look, db, name, Class::Waited, at_ms, at_ms);
        state.last_asked = stored.look.look().map(|look| (at_ms, Arc::clone(look)));
        state.set_timer(ctx, clock::read(ctx).steady_ms(), 0);
    }
}

impl State {
    /// Whether consumers wait there.
    fn class(&self, db: i32, name: &[u8]) -> Class {
        if consumers::any(db, name) {
            Class::Waited
        } else {
            Class::Plain
        }
    }

    /// Notes a look at the queue that was found at this place. If its look names another one, it has been
    /// renamed or moved, and is looked after here from now on.
    fn note(
        &mut self,
        handle: &mut Handle,
        db: i32,
        name: &[u8],
        class: Class,
        due: u64,
        covers: u64,
    ) {
        let db = self.databases.slot(db);
        if let Some(elsewhere) = handle.leave_unless(|place| place.is(db, name)) {
            self.plan.forget(&elsewhere);
        }
        let look = handle.look_or_insert(|| {
            let name = name.into();
            Look::new(Place { db, name })
        });
        look.found();
        let at = match class {
            Class::Plain => due.saturating_add(SWEEP_DELAY_MS),
            Class::Waited | Class::Backlog => due,
        };
        self.plan.note(look, class, at, covers);
    }

    /// Where queues are to keep fewer dead letters than before, or to go sooner by themselves, those at
    /// rest have to learn of it. Runs of schedules are due sooner when the clock was set forward.
    fn check_settings(&mut self) {
        let (max_dead, idle_ms) = (config::max_dead(), config::idle_ms());
        let fewer = max_dead < mem::replace(&mut self.max_dead, max_dead);
        let before = mem::replace(&mut self.idle_ms, idle_ms);
        let sooner = idle_ms != 0 && (before == 0 || idle_ms < before);
        let shift_ms = clock::shift_ms();
        let forward = shift_ms < mem::replace(&mut self.shift_ms, shift_ms);
        if fewer || sooner || forward {
            self.rounds.begin_anew();
        }
    }

    fn is_asked(&self, db: i32, name: &[u8], at_ms: u64) -> bool {
        self.last_asked.as_ref().is_some_and(|(at, look)| {
            *at == at_ms && look.covers() <= at_ms && look.place().is(self.databases.slot(db), name)
        })
    }

    /// The queue of the look is not where it was: it is being freed, was renamed where the server does not
    /// tell, or lies in a slot that has not moved in yet.
    fn missed(&mut self, look: &Arc<Look>, now_ms: u64) {
        if look.is_gone() {
            return;
        }
        let misses = look.miss();
        let (first, longest) = MISSED_RETRY_MS;
        let pause = (first << (misses - 1).min(16)).min(longest);
        // It covers nothing: a step at the queue, wherever it is, notes it there.
        self.plan.note(look, Class::Plain, now_ms + pause, u64::MAX);
        if misses > 1 && !tells_of_renames() {
            self.rounds.want();
        }
    }
}
