//! Clients that wait on keys. The server blocks them on the keys, so it tells of a key that comes to
//! its place by whatever way, and sends the client elsewhere when its slot moves or the server's role
//! changes; but who is served, and when, is the module's choice.

use std::ffi::{c_int, c_longlong, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use redis_module::raw;

use super::api::call;
use super::args::KeyName;
use super::context::Ctx;
use super::guard::guard;
use crate::error::Error;
use crate::redis::log;

/// A waiting client, as its state. It is shared by the server and by whoever keeps its handle.
pub trait Waiting: Send + Sync + Sized + 'static {
    /// Something has come to `key`, or there was a signal. Called once for each client that waits there;
    /// nobody is served here.
    fn ready(&self, ctx: &Ctx, key: KeyName<'_>);

    /// The wait has ended or is ending: lets go of its handle, wherever that is kept. Called for every
    /// end, more than once for some.
    fn leave(&self);

    /// Replies, after [`Blocked::end`] or where an operator has ended the wait.
    fn reply(&self, ctx: &Ctx);

    /// The client has its reply, unless `lost`: then it may not have got it.
    fn ended(&self, lost: bool);
}

/// The handle of a waiting client: the right to end its wait.
#[derive(Debug)]
pub struct Blocked<W> {
    raw: NonNull<raw::RedisModuleBlockedClient>,
    state: Arc<W>,
}

// SAFETY: the handle's own data is not touched; it is only passed to the server, in callbacks of the
// server's own thread.
unsafe impl<W: Waiting> Send for Blocked<W> {}

impl<W: Waiting> Blocked<W> {
    /// The client's state.
    pub fn state(&self) -> &Arc<W> {
        &self.state
    }

    /// Ends the wait: `W` replies, now or once the server comes to it.
    pub fn end(self, _ctx: &Ctx) {
        // SAFETY: the server frees the handle after `free`, where `W::leave` has let go of this value
        // before; and a context shows that this is the server's own thread.
        unsafe {
            call!(RedisModule_UnblockClient(
                self.raw.as_ptr(),
                std::ptr::null_mut()
            ))
        };
    }
}

const NO_DEADLINE: c_longlong = 0;

/// Lets the calling client wait on `keys`. From here on `waiting` gives the command's reply, so the
/// command itself must not.
///
/// The server is given no deadline. Up to 7.0 it takes a client whose time is over between the end of
/// its wait and the next turn of the event loop for one that has gone.
///
/// Must not be called where [`super::Flags::denies_blocking`]: some servers lose the reply then.
/// An error says that the server did not let the client wait.
pub fn wait_on_keys<'a, W: Waiting>(
    ctx: &Ctx,
    keys: impl Iterator<Item = KeyName<'a>>,
    waiting: W,
) -> Result<Blocked<W>, Error> {
    let state = Arc::new(waiting);
    let shared = Arc::into_raw(Arc::clone(&state)).cast_mut();
    let mut keys: Vec<_> = keys.map(|key| key.raw()).collect();
    // SAFETY: a live context; the server takes its own references to the keys' names. `shared` goes
    // back to an `Arc` exactly once, in `free`.
    let blocked = unsafe {
        call!(RedisModule_BlockClientOnKeys(
            ctx.raw(),
            Some(on_ready::<W>),
            Some(on_end::<W>),
            Some(free::<W>),
            NO_DEADLINE,
            keys.as_mut_ptr(),
            keys.len() as c_int,
            shared.cast(),
        ))
    };
    let Some(raw) = NonNull::new(blocked) else {
        // SAFETY: the server refused before it took the state.
        drop(unsafe { Arc::from_raw(shared) });
        log::warning(format_args!("the server did not let a client wait"));
        return Err(Error::Internal);
    };
    // SAFETY: a handle that was just made.
    unsafe {
        call!(RedisModule_SetDisconnectCallback(
            blocked,
            Some(on_disconnect::<W>)
        ));
    }
    Ok(Blocked { raw, state })
}

unsafe extern "C" fn on_ready<W: Waiting>(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the context of the running callback, and the key that the server calls for.
        let (ctx, key) = unsafe {
            let key = KeyName::from_raw(call!(RedisModule_GetBlockedClientReadyKey(ctx)));
            (Ctx::from_raw(ctx), key)
        };
        // SAFETY: the data of a client blocked by `wait_on_keys::<W>`, freed only afterwards.
        let waiting = unsafe { waiting::<W>(&ctx) };
        waiting.ready(&ctx, key);
    });
    raw::REDISMODULE_ERR as c_int // it waits on
}

unsafe extern "C" fn on_end<W: Waiting>(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the context of the running callback.
    let ctx = unsafe { Ctx::from_raw(ctx) };
    let replied = guard(|| {
        // SAFETY: as in `on_ready`.
        let waiting = unsafe { waiting::<W>(&ctx) };
        waiting.leave();
        waiting.reply(&ctx);
    });
    if replied.is_none() {
        ctx.reply_error(&Error::Internal);
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_disconnect<W: Waiting>(
    ctx: *mut raw::RedisModuleCtx,
    _blocked: *mut raw::RedisModuleBlockedClient,
) {
    guard(|| {
        // SAFETY: as in `on_ready`.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        // SAFETY: as in `on_ready`.
        unsafe { waiting::<W>(&ctx) }.leave();
    });
}

unsafe extern "C" fn free<W: Waiting>(ctx: *mut raw::RedisModuleCtx, state: *mut c_void) {
    // SAFETY: the context of the running callback; `state` is what `wait_on_keys::<W>` passed, passed
    // here once when the wait has ended.
    guard(|| unsafe {
        let state = Arc::from_raw(state.cast::<W>().cast_const());
        state.leave();
        state.ended(call!(RedisModule_BlockedClientDisconnected(ctx)) != 0);
    });
}

/// # Safety
///
/// `ctx` must be the context of a callback of a client that `wait_on_keys::<W>` has blocked.
unsafe fn waiting<W: Waiting>(ctx: &Ctx) -> &W {
    // SAFETY: the caller's contract; the state lives until `free`.
    unsafe { &*call!(RedisModule_GetBlockedClientPrivateData(ctx.raw())).cast::<W>() }
}
