//! Clients that wait on keys, with the server's own blocking.

use std::cell::Cell;
use std::ffi::{c_int, c_longlong, c_void};

use redis_module::raw;

use super::api::call;
use super::args::{Args, KeyName};
use super::context::Ctx;
use super::guard::guard;
use crate::error::Error;
use crate::redis::log;

/// A waiting client. The value is dropped when the wait ends, however it ends: served, timed out,
/// unblocked by an operator, or disconnected.
pub trait Waiting: Sized {
    /// One of the keys, `key`, may be ready: serves the client, or lets it wait on with its original
    /// deadline. Called for any value at the key, also of other types. Replies only when it serves.
    fn ready(&self, ctx: &Ctx, key: KeyName<'_>, args: Args<'_>) -> Served;

    /// The time is over: replies and changes nothing.
    fn timed_out(&self, ctx: &Ctx, args: Args<'_>);
}

/// What became of a waiting client whose key was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It got its reply.
    Yes,
    /// It got no reply and waits on.
    No,
}

/// Lets the calling client wait on `keys` for `timeout_ms` milliseconds, 0 being for ever. From here on
/// `waiting` gives the command's reply, so the command itself must not.
///
/// Must not be called where [`super::Flags::denies_blocking`]: some servers lose the reply then.
/// An error says that the server did not let the client wait.
pub fn wait_on_keys<'a, W: Waiting>(
    ctx: &Ctx,
    keys: impl Iterator<Item = KeyName<'a>>,
    timeout_ms: u64,
    waiting: W,
) -> Result<(), Error> {
    let timeout = c_longlong::try_from(timeout_ms).map_err(|_| Error::Internal)?;
    let state = Box::into_raw(Box::new(waiting));
    let mut keys: Vec<_> = keys.map(|key| key.raw()).collect();
    // SAFETY: a live context; the server takes its own references to the keys' names. `state` goes
    // back to a box exactly once, in `free`.
    let blocked = unsafe {
        call!(RedisModule_BlockClientOnKeys(
            ctx.raw(),
            Some(on_ready::<W>),
            Some(on_timeout::<W>),
            Some(free::<W>),
            timeout,
            keys.as_mut_ptr(),
            keys.len() as c_int,
            state.cast(),
        ))
    };
    if blocked.is_null() {
        // SAFETY: the server refused before it took the state.
        drop(unsafe { Box::from_raw(state) });
        log::warning(format_args!("the server did not let a client wait"));
        return Err(Error::Internal);
    }
    Ok(())
}

unsafe extern "C" fn on_ready<W: Waiting>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let asked = Cell::new(0);
    // SAFETY: the server passes the context and the arguments of the blocked command, alive for the
    // callback.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::new(argv, argc, &asked)) };
    let served = guard(|| {
        // SAFETY: the data of a client blocked by `wait_on_keys::<W>`, freed only afterwards.
        let waiting = unsafe { waiting::<W>(&ctx) };
        // SAFETY: in this callback the server names the key that it calls for; alive for the callback.
        let key =
            unsafe { KeyName::from_raw(call!(RedisModule_GetBlockedClientReadyKey(ctx.raw()))) };
        waiting.ready(&ctx, key, args)
    });
    match served {
        Some(Served::Yes) => raw::REDISMODULE_OK as c_int,
        Some(Served::No) => raw::REDISMODULE_ERR as c_int,
        None => {
            ctx.reply_error(&Error::Internal);
            raw::REDISMODULE_OK as c_int
        }
    }
}

unsafe extern "C" fn on_timeout<W: Waiting>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let asked = Cell::new(0);
    // SAFETY: as in `on_ready`.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::new(argv, argc, &asked)) };
    // SAFETY: as in `on_ready`.
    let replied = guard(|| unsafe { waiting::<W>(&ctx) }.timed_out(&ctx, args));
    if replied.is_none() {
        ctx.reply_error(&Error::Internal);
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn free<W: Waiting>(_ctx: *mut raw::RedisModuleCtx, state: *mut c_void) {
    // SAFETY: `state` is the box of `wait_on_keys::<W>`, passed here once when the wait has ended.
    guard(|| drop(unsafe { Box::from_raw(state.cast::<W>()) }));
}

/// # Safety
///
/// `ctx` must be the context of a callback of a client that `wait_on_keys::<W>` has blocked.
unsafe fn waiting<W: Waiting>(ctx: &Ctx) -> &W {
    // SAFETY: the caller's contract; the box lives until `free`.
    unsafe { &*call!(RedisModule_GetBlockedClientPrivateData(ctx.raw())).cast::<W>() }
}
