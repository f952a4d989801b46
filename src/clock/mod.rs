//! The time that queues go by. It passes as real time does, whatever is done to the system's clock.
//!
//! The server's clock may be set forward or back at any time. No lock, delay or pause may become longer
//! or shorter by that, so queues go by the *steady time*: the server's clock and a shift, from which
//! each step of the clock is taken away again. A step is seen by comparison with a clock that nobody
//! sets. What is less than a second is no step: so a clock that is adjusted slowly is followed.
//!
//! A replica goes by the steady time of its primary ([`primary_said`]), and goes on with it when it is
//! promoted. An instant that a client reads or writes is one of the server's clock: [`QueueTime`].

mod follow;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis_mq_core::{Now, Queue, Timestamp};

use crate::redis::{log, since_boot_us, Ctx};
use follow::Followed;

/// Less than this is no step of the clock, and no difference between two servers.
const STEP_MS: u64 = 1_000;

/// For how long a reading of the clock vouches for those that follow it, in microseconds.
const VOUCHES_US: u64 = 200_000;

/// Two readings that are meant to be of one instant are taken within this time.
const AT_ONCE_US: u64 = 5_000;
/// How often that is tried: only a process that is stopped in between needs a second time.
const TRIES: usize = 5;

/// The steady time less the server's clock, in milliseconds.
static SHIFT_MS: AtomicI64 = AtomicI64::new(0);

/// The server's clock, in microseconds, when it was last looked at for steps.
static LOOKED_AT_US: AtomicU64 = AtomicU64::new(0);

/// What the next look for steps compares with.
struct Seen {
    /// The server's clock, and the one that nobody sets, in microseconds; none before the first look.
    clocks: Option<(u64, u64)>,
    followed: Followed,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    clocks: None,
    followed: Followed::new(),
});

fn seen() -> MutexGuard<'static, Seen> {
    // Each use leaves it whole.
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A moment of steady time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    steady: Now,
    shift_ms: i64,
}

/// The steady time less the server's clock, in milliseconds: it falls when the clock is set forward.
pub fn shift_ms() -> i64 {
    SHIFT_MS.load(Ordering::Relaxed)
}

/// The moment of the running command: the same for all of it where the server keeps one.
#[inline]
pub fn now(ctx: &Ctx) -> Moment {
    moment(ctx, ctx.command_time_us())
}

/// The moment at which this is called.
#[inline]
pub fn read(ctx: &Ctx) -> Moment {
    moment(ctx, ctx.system_time_us())
}

#[inline]
fn moment(ctx: &Ctx, clock_us: u64) -> Moment {
    let passed = clock_us.wrapping_sub(LOOKED_AT_US.load(Ordering::Relaxed));
    let clock_us = if passed < VOUCHES_US {
        clock_us
    } else {
        look_for_step(ctx, clock_us)
    };
    let shift_ms = SHIFT_MS.load(Ordering::Relaxed);
    Moment {
        steady: Now::from_micros(clock_us.saturating_add_signed(shift_ms * 1000)),
        shift_ms,
    }
}

/// Takes a step of the clock out of the steady time. Returns what the clock shows: `clock_us`, if that
/// was read just now.
#[cold]
fn look_for_step(ctx: &Ctx, clock_us: u64) -> u64 {
    let clocks = read_both(ctx);
    let mut seen = seen();
    let step = step_ms(seen.clocks.replace(clocks), clocks);
    if step != 0 {
        SHIFT_MS.fetch_sub(step, Ordering::Relaxed);
        seen.followed.clock_was_set(step);
        let way = if step < 0 { "back" } else { "forward" };
        log::notice(format_args!(
            "the system's clock was set {way} by {} ms: locks and delays go on as before",
            step.unsigned_abs()
        ));
    }
    // The server may keep its reading for the whole of a long script.
    let clock_us = if clocks.0.abs_diff(clock_us) < VOUCHES_US {
        clock_us
    } else {
        clocks.0
    };
    LOOKED_AT_US.store(clock_us, Ordering::Relaxed);
    clock_us
}

/// The server's clock and the one that nobody sets, of one instant.
fn read_both(ctx: &Ctx) -> (u64, u64) {
    let mut clocks = (0, 0);
    for _ in 0..TRIES {
        let before = since_boot_us();
        clocks = (ctx.system_time_us(), before);
        if since_boot_us() - before < AT_ONCE_US {
            break;
        }
    }
    clocks
}

/// By how many milliseconds the server's clock was set between two looks; 0 for not at all.
fn step_ms(before: Option<(u64, u64)>, now: (u64, u64)) -> i64 {
    let Some((clock, steady)) = before else {
        return 0;
    };
    // All four are far below the largest i64.
    let by_us = now.0.wrapping_sub(clock) as i64 - now.1.wrapping_sub(steady) as i64;
    let by_ms = (by_us + 500).div_euclid(1000);
    if by_ms.unsigned_abs() < STEP_MS {
        0
    } else {
        by_ms
    }
}

/// The primary, at a moment of its steady time, has sent a change that came in now.
pub fn primary_said(ctx: &Ctx, moment: Now) {
    let here = now(ctx);
    let lead_us = moment.micros() as i64 - here.server().micros() as i64; // both below 2^56
    let lead_ms = lead_us.div_euclid(1000);
    let shift_ms = seen()
        .followed
        .hear(lead_ms, since_boot_us() / 1000, here.shift_ms);
    if shift_ms != here.shift_ms {
        SHIFT_MS.store(shift_ms, Ordering::Relaxed);
        if shift_ms.abs_diff(here.shift_ms) >= STEP_MS {
            log::notice(format_args!(
                "the primary's time is {shift_ms} ms ahead of this server's clock, and is gone by"
            ));
        }
    }
}

/// The link to a primary has come up, or there is none any more: what was heard so far does not count.
pub fn forget_primary() {
    seen().followed = Followed::new();
}

impl Moment {
    /// The moment that was `us` Unix microseconds of steady time.
    pub fn of_steady_us(us: u64) -> Moment {
        Moment {
            steady: Now::from_micros(us),
            shift_ms: SHIFT_MS.load(Ordering::Relaxed),
        }
    }

    /// The steady time in Unix microseconds.
    #[inline]
    pub fn steady_us(self) -> u64 {
        self.steady.micros()
    }

    /// The steady time in Unix milliseconds.
    #[inline]
    pub fn steady_ms(self) -> u64 {
        self.steady.instant().millis()
    }

    /// What the server's clock shows.
    #[inline]
    pub fn server(self) -> Now {
        let us = self.steady.micros();
        Now::from_micros(us.saturating_add_signed(-self.shift_ms * 1000))
    }

    /// When the server's clock shows `instant`, in steady time, unless it is set before.
    #[inline]
    pub fn when_clock_shows(self, instant: Timestamp) -> Timestamp {
        moved(instant, self.shift_ms)
    }

    /// The moment in the time of a queue.
    #[inline]
    pub fn of(self, queue: &Queue) -> QueueTime {
        QueueTime {
            now: queue.own_time(self.steady),
            // At most 2^56 microseconds: far below the largest i64.
            ahead_ms: self.shift_ms + queue.ahead_ms(self.steady) as i64,
        }
    }

    /// The steady time, as [`Queue::own_time`] takes it.
    #[inline]
    pub fn steady(self) -> Now {
        self.steady
    }

    /// A moment about this one, where no context is at hand to read the clock.
    pub fn recent() -> Moment {
        let clock_us = LOOKED_AT_US.load(Ordering::Relaxed);
        let shift_ms = SHIFT_MS.load(Ordering::Relaxed);
        Moment::of_steady_us(clock_us.saturating_add_signed(shift_ms * 1000))
    }
}

/// A moment in the time of one queue, and how instants of the queue are shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTime {
    now: Now,
    /// The queue's time less the server's clock.
    ahead_ms: i64,
}

impl QueueTime {
    /// The moment, as the queue's own methods take it.
    #[inline]
    pub fn now(self) -> Now {
        self.now
    }

    /// An instant of the queue in Unix milliseconds of the server's clock, as replies tell it; 0 for the
    /// epoch, which stands for none.
    #[inline]
    pub fn shown(self, instant: Timestamp) -> u64 {
        moved(instant, -self.ahead_ms).millis()
    }

    /// The instant of the queue that a client means with one of the server's clock.
    #[inline]
    pub fn meant(self, instant: Timestamp) -> Timestamp {
        moved(instant, self.ahead_ms)
    }
}

#[inline]
fn moved(instant: Timestamp, by_ms: i64) -> Timestamp {
    if instant == Timestamp::ZERO {
        return instant;
    }
    Timestamp::from_millis(instant.millis().saturating_add_signed(by_ms).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000_000_000;

    /// What a look sees that finds the server's clock moved by `clock_us` while `steady_us` passed.
    fn step(clock_us: i64, steady_us: u64) -> i64 {
        let now = (START.saturating_add_signed(clock_us), 7 + steady_us);
        step_ms(Some((START, 7)), now)
    }

    #[test]
    fn a_step_is_what_the_clock_went_on_without_time_passing() {
        const HOUR_US: i64 = 3_600_000_000;
        assert_eq!(step(HOUR_US, 0), 3_600_000);
        assert_eq!(step(-HOUR_US, 0), -3_600_000);
        assert_eq!(step(HOUR_US + 300_000, 300_000), 3_600_000);
        assert_eq!(step(300_000 - HOUR_US, 300_000), -3_600_000);
        assert_eq!(step(HOUR_US, HOUR_US as u64), 0, "an hour has passed");
        assert_eq!(
            step(0, HOUR_US as u64),
            -3_600_000,
            "it was set to where it had been"
        );
    }

    #[test]
    fn less_than_a_second_is_no_step_and_neither_is_the_first_reading() {
        for by_us in [999_000, -999_000, 1, -1] {
            assert_eq!(step(by_us, 0), 0, "{by_us}");
        }
        assert_eq!(step(1_000_000, 0), 1_000);
        assert_eq!(step(-1_000_000, 0), -1_000);
        assert_eq!(step_ms(None, (START, 7)), 0);
    }

    #[test]
    fn instants_are_shown_by_the_clock_and_come_back_as_they_were_meant() {
        let instant = Timestamp::from_millis(START / 1000);
        for ahead_ms in [0, 3_600_000, -3_600_000] {
            let time = QueueTime {
                now: Now::from_micros(START),
                ahead_ms,
            };
            let shown = time.shown(instant);
            assert_eq!(shown, (START / 1000).saturating_add_signed(-ahead_ms));
            assert_eq!(time.meant(Timestamp::from_millis(shown)), instant);
            assert_eq!(time.shown(Timestamp::ZERO), 0);
            assert_eq!(time.meant(Timestamp::ZERO), Timestamp::ZERO);
        }
    }

    #[test]
    fn an_instant_that_would_be_before_the_epoch_is_not_taken_for_none() {
        let time = QueueTime {
            now: Now::from_micros(0),
            ahead_ms: 10,
        };
        assert_eq!(time.shown(Timestamp::from_millis(7)), 1);
    }
}
