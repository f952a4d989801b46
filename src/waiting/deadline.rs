//! The deadlines of those who wait, for results and for messages. They are the module's own: a server up to 7.0 loses the reply of a
//! client whose deadline comes between its answer and the moment at which the server passes that on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{outbox, with_table, Answer};
use crate::clock;
use crate::consumers;
use crate::redis::{Ctx, Tick, TimerId};

/// No timer is set for longer: the event loop of Redis 6.2 and 7.0 spins on very long ones.
const LONGEST_MS: u64 = 60_000;
/// A timer that is so late was missed by the server: its clock was set back, or the machine slept.
const LATE_MS: u64 = 50;

/// The running timer, and the instant that it fires at.
static TIMER: Mutex<Option<(TimerId, u64)>> = Mutex::new(None);

fn timer() -> MutexGuard<'static, Option<(TimerId, u64)>> {
    TIMER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the timer fire at the first deadline, unless it fires before.
pub fn set_timer(ctx: &Ctx) {
    let firsts = [with_table(|table| table.deadline()), consumers::deadline()];
    let Some(first) = firsts.into_iter().flatten().min() else {
        return;
    };
    let now_ms = clock::read(ctx).steady_ms();
    let at = first.clamp(now_ms, now_ms + LONGEST_MS);
    let mut timer = timer();
    if let Some((running, _)) = timer.take_if(|(_, set)| *set > at) {
        ctx.stop_timer(running);
    }
    timer.get_or_insert_with(|| (ctx.start_timer::<Deadline>(at - now_ms), at));
}

/// Sets the timer anew if the server has missed it.
pub(super) fn check_timer(ctx: &Ctx) {
    let now_ms = clock::read(ctx).steady_ms();
    let missed = timer().take_if(|(_, set)| *set + LATE_MS <= now_ms);
    if let Some((running, _)) = missed {
        ctx.stop_timer(running);
    }
    set_timer(ctx);
}

struct Deadline;

impl Tick for Deadline {
    fn tick(ctx: &Ctx) {
        *timer() = None;
        let now_ms = clock::read(ctx).steady_ms();
        while let Some(client) = with_table(|table| table.take_due(now_ms)) {
            outbox::send(client, Answer::Deadline);
        }
        outbox::soon(ctx);
        consumers::end_due(ctx, now_ms);
        set_timer(ctx);
    }
}
