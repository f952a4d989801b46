//! One-shot timers of the server.

use std::ffi::{c_int, c_void};
use std::ptr;

use redis_module::raw;

use super::api::call;
use super::context::Ctx;
use super::guard::guard;

/// What a timer does. A type without data: what a tick needs lives in the module's own state, so a
/// stopped timer leaves nothing behind.
pub trait Tick {
    /// Runs once when the time has come, on the database that was selected when the timer was made.
    /// It must ask [`Ctx::must_not_replicate`] before it changes anything.
    fn tick(ctx: &Ctx);
}

/// A timer that has not fired yet.
#[derive(Debug, PartialEq, Eq)]
pub struct TimerId(raw::RedisModuleTimerID);

impl Ctx {
    /// Lets `T` tick once in `delay_ms` milliseconds, at the earliest.
    pub fn start_timer<T: Tick>(&self, delay_ms: u64) -> TimerId {
        let delay = i64::try_from(delay_ms).unwrap_or(i64::MAX / 2000);
        // SAFETY: a live context; the callback takes no data.
        TimerId(unsafe {
            call!(RedisModule_CreateTimer(
                self.raw(),
                delay,
                Some(fire::<T>),
                ptr::null_mut()
            ))
        })
    }

    /// Stops a timer; false when it has fired already.
    pub fn stop_timer(&self, timer: TimerId) -> bool {
        // SAFETY: a live context; the server looks the id up. The data is null and not asked for.
        let stopped = unsafe { call!(RedisModule_StopTimer(self.raw(), timer.0, ptr::null_mut())) };
        stopped == raw::REDISMODULE_OK as c_int
    }
}

/// The one timer of a part of the module that has something to do at an instant, in milliseconds of its
/// own clock, which does not go back.
#[derive(Debug)]
pub struct Alarm {
    /// The running timer, and the instant it fires at.
    set: Option<(TimerId, u64)>,
}

impl Alarm {
    /// No timer runs longer. The event loop of Redis 6.2 and 7.0 spins on a module's timer of over
    /// 2,147,483 ms.
    const LONGEST_MS: u64 = 60_000;
    /// A timer that is so late was missed by the server.
    const LATE_MS: u64 = 50;

    /// No timer runs.
    pub const fn new() -> Alarm {
        Alarm { set: None }
    }

    /// Whether a timer runs.
    pub fn is_set(&self) -> bool {
        self.set.is_some()
    }

    /// Lets `T` tick at this instant, or sooner: unless the timer fires before. It is always the same `T`.
    pub fn fire_at<T: Tick>(&mut self, ctx: &Ctx, now_ms: u64, at: u64) {
        let at = at.clamp(now_ms, now_ms + Self::LONGEST_MS);
        if let Some((later, _)) = self.set.take_if(|(_, set)| *set > at) {
            ctx.stop_timer(later);
        }
        self.set
            .get_or_insert_with(|| (ctx.start_timer::<T>(at - now_ms), at));
    }

    /// The timer has fired.
    pub fn fired(&mut self) {
        self.set = None;
    }

    /// Lets go of a timer that the server has missed, and says whether it has: it counts timers by the
    /// system's clock, so that happens when that is set back, or the machine was asleep.
    pub fn give_up_missed(&mut self, ctx: &Ctx, now_ms: u64) -> bool {
        let missed = self.set.take_if(|(_, set)| *set + Self::LATE_MS <= now_ms);
        let Some((timer, _)) = missed else {
            return false;
        };
        ctx.stop_timer(timer);
        true
    }
}

unsafe extern "C" fn fire<T: Tick>(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guard(|| {
        // SAFETY: the context of the running callback, used only within it.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        T::tick(&ctx);
    });
}
