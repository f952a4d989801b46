//! The one timer: when it fires, and what it does then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::round::{self, SLICE_PAUSE_MS};
use super::{state, State, PAUSED_RETRY_MS};
use crate::authority::{self, Right};
use crate::clock;
use crate::datatype::QUEUE_TYPE;
use crate::idle;
use crate::looks::{Class, Look};
use crate::redis::{Ctx, KeyName, Tick, WriteKey};
use crate::stored::StoredQueue;
use crate::turn::{self, Missing, ReplicateAs};

/// How long one tick looks at queues before other clients get their turn.
const LOOKS: Duration = Duration::from_millis(1);
/// From one tick to the next while there is more to do: half the processor for the clients. The server
/// runs a timer that is due again at once before it serves anyone.
const PAUSE_MS: u64 = 1;
/// Looks that a server that no longer decides forgets in one tick.
const FORGOTTEN: usize = 1_000;

impl State {
    /// Lets the timer fire when there is something to do, at `earliest` at the earliest.
    pub(super) fn set_timer(&mut self, ctx: &Ctx, now_ms: u64, earliest: u64) {
        let next = [self.plan.first(), self.rounds.next(now_ms)];
        if let Some(next) = next.into_iter().flatten().min() {
            let at = next.max(earliest);
            self.timer.fire_at::<Timer>(ctx, now_ms, at);
        }
    }

    /// Sets the timer anew if the server has missed it, or something was noted that could not set it.
    pub(super) fn check_timer(&mut self, ctx: &Ctx, now_ms: u64) {
        self.timer.give_up_missed(ctx, now_ms);
        self.set_timer(ctx, now_ms, 0);
    }

    /// The server no longer decides: what was noted goes, in portions.
    pub(super) fn forget_all(&mut self, ctx: &Ctx, pause_ms: u64) {
        self.rounds.stop();
        self.last_asked = None;
        if !self.plan.is_empty() {
            let now_ms = clock::read(ctx).steady_ms();
            self.timer.fire_at::<Timer>(ctx, now_ms, now_ms + pause_ms);
        }
    }
}

/// The timer's ticks.
struct Timer;

impl Tick for Timer {
    fn tick(ctx: &Ctx) {
        state().timer.fired();
        let pause_ms = match authority::of_time(ctx) {
            Right::Decide if look_at_what_is_due(ctx) => PAUSE_MS,
            Right::Decide => SLICE_PAUSE_MS,
            Right::Later => PAUSED_RETRY_MS,
            Right::Refuse(_) | Right::Obey => {
                let mut state = state();
                state.plan.clear(FORGOTTEN);
                state.forget_all(ctx, PAUSE_MS);
                return;
            }
        };
        round::slice(ctx);
        let now_ms = clock::read(ctx).steady_ms();
        state().set_timer(ctx, now_ms, now_ms + pause_ms);
    }
}

/// Looks at queues for the time that a tick has; true if something is left.
fn look_at_what_is_due(ctx: &Ctx) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < LOOKS {
        let now_ms = clock::read(ctx).steady_ms();
        let (look, db) = {
            let mut state = state();
            let Some(look) = state.plan.take_due(now_ms) else {
                return false;
            };
            let db = state.databases.number(look.place().db);
            (look, db)
        };
        if ctx.select_db(db) {
            ctx.with_key_name(&look.place().name, |name| look_after(ctx, name, &look));
        }
    }
    true
}

/// Lets time act on one queue. Whatever queue is found at the place, it is looked after; the one that was
/// meant may be elsewhere. In a slot that is still moving in time is the old owner's.
fn look_after(ctx: &Ctx, name: KeyName<'_>, look: &Arc<Look>) {
    let now = clock::read(ctx);
    let found = match WriteKey::open(ctx, &QUEUE_TYPE, name) {
        Ok(key) => key
            .value()
            .map(|stored| (is_own(stored, look), idle::is_over(stored, now))),
        Err(_) => None, // a key of another type
    };
    let found = found.filter(|_| ctx.serves(name));
    if found.is_none_or(|(is_own, _)| !is_own) {
        state().missed(look, now.steady_ms());
    }
    let Some((_, is_over)) = found else {
        return;
    };
    if is_over {
        idle::let_go(ctx, name, now);
        return;
    }
    let acted = turn::take(
        ctx,
        name,
        Missing::Leave,
        now,
        ReplicateAs::Effects,
        |queue, turn| queue.let_time_act(turn),
    );
    if acted.is_err() && !look.is_gone() {
        // Not now, whatever the reason.
        let again = now.steady_ms() + super::SWEEP_DELAY_MS;
        state().plan.note(look, Class::Plain, again, u64::MAX);
    }
}

fn is_own(stored: &StoredQueue, look: &Arc<Look>) -> bool {
    stored.look.look().is_some_and(|own| Arc::ptr_eq(own, look))
}
