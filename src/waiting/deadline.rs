//! The deadlines of those who wait, for results and for messages. They are the module's own: a server
//! before 7.4 loses the reply of a client whose deadline comes between its answer and the moment at which
//! the server passes that on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{outbox, with_table, Answer};
use crate::clock;
use crate::consumers;
use crate::redis::{Alarm, Ctx, Tick};

static TIMER: Mutex<Alarm> = Mutex::new(Alarm::new());

fn timer() -> MutexGuard<'static, Alarm> {
    TIMER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the timer fire at the first deadline, unless it fires before.
pub fn set_timer(ctx: &Ctx) {
    let firsts = [with_table(|table| table.deadline()), consumers::deadline()];
    let Some(first) = firsts.into_iter().flatten().min() else {
        return;
    };
    let now_ms = clock::read(ctx).steady_ms();
    timer().fire_at::<Deadline>(ctx, now_ms, first);
}

/// Sets the timer anew if the server has missed it.
pub(super) fn check_timer(ctx: &Ctx) {
    timer().give_up_missed(ctx, clock::read(ctx).steady_ms());
    set_timer(ctx);
}

struct Deadline;

impl Tick for Deadline {
    fn tick(ctx: &Ctx) {
        timer().fired();
        let now_ms = clock::read(ctx).steady_ms();
        while let Some(client) = with_table(|table| table.take_due(now_ms)) {
            outbox::send(client, Answer::Deadline);
        }
        outbox::soon(ctx);
        consumers::end_due(ctx, now_ms);
        set_timer(ctx);
    }
}
