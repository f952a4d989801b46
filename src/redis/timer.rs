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

unsafe extern "C" fn fire<T: Tick>(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guard(|| {
        // SAFETY: the context of the running callback, used only within it.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        T::tick(&ctx);
    });
}
