//! Clients that wait for what no key tells: the module keeps a handle and answers when it will.

use std::cell::Cell;
use std::ffi::{c_int, c_longlong, c_void};
use std::marker::PhantomData;
use std::mem;
use std::ptr::{self, NonNull};

use redis_module::raw;

use super::api::call;
use super::args::Args;
use super::context::Ctx;
use super::guard::guard;
use crate::error::Error;
use crate::redis::log;

/// A kind of wait. What is known of each client that waits is kept elsewhere, with its handle.
pub trait Parking: Sized + 'static {
    /// What a client is told. Dropped once it was, or the client has gone.
    type Answer: Send + 'static;

    /// The wait of the client with this number is ending, since its time is over or it has gone:
    /// gives its handle back if that is still kept, with its answer if there is one already.
    fn leave(number: usize) -> Option<(Parked<Self>, Option<Self::Answer>)>;

    /// Replies with the answer.
    fn reply(ctx: &Ctx, args: Args<'_>, answer: &Self::Answer);

    /// An operator has ended the wait: replies and changes nothing.
    fn timed_out(ctx: &Ctx, args: Args<'_>);
}

const NO_DEADLINE: c_longlong = 0;

/// The handle of a client that waits: the right to answer it, once. A client whose handle is dropped
/// gets an internal error, unless its wait has ended already.
#[derive(Debug)]
pub struct Parked<W: Parking> {
    raw: NonNull<raw::RedisModuleBlockedClient>,
    kind: PhantomData<fn() -> W>,
}

// SAFETY: the server lets any thread unblock a client, under a lock of its own.
unsafe impl<W: Parking> Send for Parked<W> {}

impl<W: Parking> Parked<W> {
    /// Tells the handle from all others that are there.
    pub fn number(&self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// Ends the wait: the client gets this answer once the server comes to it. From any thread.
    pub fn answer(self, answer: W::Answer) {
        let answer = Box::into_raw(Box::new(answer));
        self.unblock(answer.cast());
        mem::forget(self);
    }

    fn unblock(&self, answer: *mut c_void) {
        // SAFETY: the server frees a handle only after it was unblocked, which is done once: by
        // `answer`, which forgets the handle, or by dropping it. The answer goes back to a box in `free`.
        unsafe { call!(RedisModule_UnblockClient(self.raw.as_ptr(), answer)) };
    }
}

impl<W: Parking> Drop for Parked<W> {
    fn drop(&mut self) {
        self.unblock(ptr::null_mut());
    }
}

/// Lets the calling client wait until its handle is used. From here on the reply comes from `W`, so the
/// command itself must give none, and must keep the handle where [`Parking::leave`] finds it.
///
/// The server is given no deadline. Before 7.4 it loses the reply of a client whose time is over between
/// its answer and the next turn of the event loop.
///
/// Must not be called where [`super::Flags::denies_blocking`].
pub fn park<W: Parking>(ctx: &Ctx) -> Result<Parked<W>, Error> {
    // SAFETY: the context of a command; the callbacks are functions of this library, which stays
    // loaded, and the answers that they get are boxes of `W::Answer`.
    let blocked = unsafe {
        call!(RedisModule_BlockClient(
            ctx.raw(),
            Some(on_answer::<W>),
            Some(on_timeout::<W>),
            Some(free::<W>),
            NO_DEADLINE,
        ))
    };
    let Some(raw) = NonNull::new(blocked) else {
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
    Ok(Parked {
        raw,
        kind: PhantomData,
    })
}

/// Whether a client that was answered gets its answer, whatever ends its wait before the server passes
/// that on. Redis before 7.4 lets it go without any reply, by `CLIENT UNBLOCK`.
pub fn keeps_answers() -> bool {
    /// Redis 7.4 as the server writes it; every Valkey that has a version of its own is behind it.
    const REPAIRED: c_int = 0x07_04_00;

    // SAFETY: reading a function pointer that is written only at initialisation; it takes nothing.
    let version = unsafe { raw::RedisModule_GetServerVersion.map(|version| version()) };
    version.is_some_and(|version| version >= REPAIRED)
}

unsafe extern "C" fn on_answer<W: Parking>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let asked = Cell::new(0);
    // SAFETY: the server passes the context and the arguments of the blocked command, alive for the
    // callback.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::new(argv, argc, &asked)) };
    // SAFETY: a client blocked by `park::<W>`.
    let replied = guard(|| match unsafe { answer::<W>(&ctx) } {
        Some(answer) => W::reply(&ctx, args, answer),
        None => ctx.reply_error(&Error::Internal),
    });
    if replied.is_none() {
        ctx.reply_error(&Error::Internal);
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_timeout<W: Parking>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let asked = Cell::new(0);
    // SAFETY: as in `on_answer`.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::new(argv, argc, &asked)) };
    // SAFETY: the context of a blocked client.
    let handle = unsafe { call!(RedisModule_GetBlockedClientHandle(ctx.raw())) };
    let replied = guard(|| {
        // First of all nobody else may use the handle any more. Before that is so there may be an answer.
        let kept = W::leave(handle as usize).and_then(|(_, kept)| kept);
        // SAFETY: a client blocked by `park::<W>`.
        match kept.as_ref().or(unsafe { answer::<W>(&ctx) }) {
            Some(answer) => W::reply(&ctx, args, answer),
            None => W::timed_out(&ctx, args),
        }
    });
    if replied.is_none() {
        ctx.reply_error(&Error::Internal);
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_disconnect<W: Parking>(
    _ctx: *mut raw::RedisModuleCtx,
    blocked: *mut raw::RedisModuleBlockedClient,
) {
    guard(|| drop(W::leave(blocked as usize)));
}

unsafe extern "C" fn free<W: Parking>(_ctx: *mut raw::RedisModuleCtx, answer: *mut c_void) {
    // SAFETY: the box of `Parked::<W>::answer`, passed here once.
    guard(|| drop(unsafe { Box::from_raw(answer.cast::<W::Answer>()) }));
}

/// The answer that the client was given, if it was given one.
///
/// # Safety
///
/// `ctx` must be the context of a callback of a client that `park::<W>` has blocked.
unsafe fn answer<W: Parking>(ctx: &Ctx) -> Option<&W::Answer> {
    // SAFETY: the caller's contract; the box lives until `free`, which comes after the callback.
    unsafe {
        call!(RedisModule_GetBlockedClientPrivateData(ctx.raw()))
            .cast::<W::Answer>()
            .as_ref()
    }
}
