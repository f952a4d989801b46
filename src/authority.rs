//! The one answer to "may I act here, now?", for commands, for time, and for consumers that wait.
//!
//! The server asks it of every command before the command runs. Nobody asks it of a timer or of a
//! client that is served later, so the module does: what a command would be refused must not happen
//! by itself either. Where a consumer may neither finish nor extend, no lock may end and no message
//! may die.
//!
//! Asking the server costs as much as a hash look-up or more, too much for the hot commands. It says
//! when its role changes, so that is kept; the rest is asked for at most every few milliseconds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{self, Moment};
use crate::error::Error;
use crate::redis::{Ctx, Role};

/// What somebody who wants to change a queue is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Decide by the clock and the queue.
    Decide,
    /// Repeat to the letter what another server has decided.
    Obey,
    /// Nothing, for this reason.
    Refuse(Error),
    /// Nothing yet, and ask again: writes are not possible for a while.
    Later,
}

/// Whether the server is a primary that has its data.
static DECIDES: AtomicBool = AtomicBool::new(false);
/// Whether commands may come that have been decided elsewhere: to a replica, while loading, and in a
/// cluster, where slots move in.
static MAY_OBEY: AtomicBool = AtomicBool::new(true);

/// Whether a data set is being read from a file or from the primary.
static LOADING: AtomicBool = AtomicBool::new(false);

/// When the server was last asked whether it takes writes, in microseconds of steady time.
static ASKED_AT: AtomicU64 = AtomicU64::new(0);
/// Since when the server is known to refuse every write, in microseconds of steady time; 0 when it takes them.
static REFUSES_SINCE: AtomicU64 = AtomicU64::new(0);

/// How long the server's answer is believed, in microseconds.
const ANSWER_HOLDS_US: u64 = 5_000;

/// Asks the server, at load and whenever it says that something changed. The event of a new role may
/// come before the flags tell it.
pub(crate) fn changed(ctx: &Ctx, new: Option<Role>) {
    let flags = ctx.flags();
    let decides = new.unwrap_or(flags.role()) == Role::Primary && !flags.is_loading();
    DECIDES.store(decides, Ordering::Relaxed);
    LOADING.store(flags.is_loading(), Ordering::Relaxed);
    MAY_OBEY.store(!decides || flags.is_cluster(), Ordering::Relaxed);
    forget();
}

/// Lets the next question go to the server: its settings have changed.
pub(crate) fn forget() {
    ASKED_AT.store(0, Ordering::Relaxed);
}

/// Whether a data set is being read.
#[inline]
pub(crate) fn is_loading() -> bool {
    LOADING.load(Ordering::Relaxed)
}

/// Whether the server is a primary that has its data: only there time acts.
pub(crate) fn decides() -> bool {
    DECIDES.load(Ordering::Relaxed)
}

/// What the running command may do. The server has asked everything else before it ran it.
#[inline]
pub(crate) fn of_command(ctx: &Ctx) -> Right {
    if MAY_OBEY.load(Ordering::Relaxed) && ctx.must_obey() {
        Right::Obey
    } else {
        refusal(ctx).map_or(Right::Decide, Right::Refuse)
    }
}

/// Why nobody may decide anything here, whoever asks.
///
/// A replica that the server lets clients write to is no exception: what it would decide its primary
/// knows nothing of.
#[inline]
pub(crate) fn refusal(ctx: &Ctx) -> Option<Error> {
    let obeys = !decides() && ctx.flags().role() == Role::Replica;
    obeys.then_some(Error::ReadOnly)
}

/// What the timer may do. After [`Right::Refuse`] the server says when that changes.
pub(crate) fn of_time(ctx: &Ctx) -> Right {
    if !decides() {
        Right::Refuse(Error::ReadOnly)
    } else if ctx.must_not_replicate() || refuses_writes(ctx) {
        Right::Later
    } else {
        Right::Decide
    }
}

/// The moment that a reading command shows. While a primary refuses all writes nothing moves on by
/// itself, so the moment stays the one at which that was noticed.
pub(crate) fn moment(ctx: &Ctx) -> Moment {
    let since = REFUSES_SINCE.load(Ordering::Relaxed);
    if since != 0 && decides() {
        Moment::of_steady_us(since)
    } else {
        clock::now(ctx)
    }
}

fn refuses_writes(ctx: &Ctx) -> bool {
    let now_us = clock::read(ctx).steady_us();
    let since = REFUSES_SINCE.load(Ordering::Relaxed);
    let age_us = now_us.wrapping_sub(ASKED_AT.load(Ordering::Relaxed));
    if age_us < ANSWER_HOLDS_US {
        return since != 0;
    }
    ASKED_AT.store(now_us, Ordering::Relaxed);
    let refuses = ctx.refuses_writes();
    let since = match (refuses, since) {
        (false, _) => 0,
        (true, 0) => now_us,
        (true, since) => since,
    };
    REFUSES_SINCE.store(since, Ordering::Relaxed);
    refuses
}
