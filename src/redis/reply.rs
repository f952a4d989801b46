//! Replies, right in RESP2 and RESP3.

use std::ffi::{c_long, CStr, CString};
use std::fmt::Display;

use redis_module::raw;

use super::api::call;
use super::context::Ctx;

impl Ctx {
    /// An integer. What the module counts and times stays below 2^63.
    #[inline]
    pub fn reply_integer(&self, value: u64) {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_ReplyWithLongLong(self.raw(), value as i64)) };
    }

    /// An integer that may be negative.
    #[inline]
    pub fn reply_signed(&self, value: i64) {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_ReplyWithLongLong(self.raw(), value)) };
    }

    /// A bulk string of any bytes.
    #[inline]
    pub fn reply_bulk(&self, bytes: &[u8]) {
        // SAFETY: the server copies the bytes during the call.
        unsafe {
            call!(RedisModule_ReplyWithStringBuffer(
                self.raw(),
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }

    /// A simple string: a status word, without line breaks.
    #[inline]
    pub fn reply_status(&self, text: &CStr) {
        // SAFETY: a live context and a NUL-terminated string.
        unsafe { call!(RedisModule_ReplyWithSimpleString(self.raw(), text.as_ptr())) };
    }

    /// Nothing where a single value would be (RESP2: null bulk string).
    #[inline]
    pub fn reply_null(&self) {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_ReplyWithNull(self.raw())) };
    }

    /// Nothing where an array or a map would be (RESP2: null array).
    #[inline]
    pub fn reply_null_array(&self) {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_ReplyWithNullArray(self.raw())) };
    }

    /// The head of an array; its `len` elements follow.
    #[inline]
    pub fn reply_array(&self, len: usize) {
        // SAFETY: a live context; an array never has more elements than memory.
        unsafe { call!(RedisModule_ReplyWithArray(self.raw(), len as c_long)) };
    }

    /// The head of an array whose length is not known yet; [`Ctx::end_array`] tells it.
    pub fn begin_array(&self) {
        // SAFETY: a live context.
        unsafe {
            call!(RedisModule_ReplyWithArray(
                self.raw(),
                raw::REDISMODULE_POSTPONED_LEN as c_long
            ))
        };
    }

    /// Ends the innermost array that [`Ctx::begin_array`] has begun.
    pub fn end_array(&self, len: usize) {
        // SAFETY: a live context; the server ignores, with a log line, an end without a beginning.
        unsafe { call!(RedisModule_ReplySetArrayLength(self.raw(), len as c_long)) };
    }

    /// The head of a map; `pairs` times a key and its value follow. A flat array in RESP2, and on
    /// servers before 7.0 in RESP3 too.
    pub fn reply_map(&self, pairs: usize) {
        // SAFETY: a live context; pointers are written only at initialisation.
        unsafe {
            match raw::RedisModule_ReplyWithMap {
                Some(map) => map(self.raw(), pairs as c_long),
                None => call!(RedisModule_ReplyWithArray(self.raw(), 2 * pairs as c_long)),
            }
        };
    }

    /// An error reply.
    #[cold]
    pub fn reply_error(&self, error: &impl Display) {
        // The texts hold no user bytes, so no NUL either.
        let text = CString::new(error.to_string()).unwrap_or_default();
        // SAFETY: a live context and a NUL-terminated string.
        unsafe { call!(RedisModule_ReplyWithError(self.raw(), text.as_ptr())) };
    }

    /// The server's own words for a wrong number of arguments.
    #[cold]
    pub(in crate::redis) fn reply_wrong_arity(&self) {
        // SAFETY: the context of a command.
        unsafe { call!(RedisModule_WrongArity(self.raw())) };
    }
}
