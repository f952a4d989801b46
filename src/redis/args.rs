//! The arguments of a command, borrowed from the server without a copy.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::slice;

use redis_module::raw;

use super::api::call;
use crate::parse::ArgList;

/// The arguments of the running command, its name included.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    argv: &'a [*mut raw::RedisModuleString],
    /// The index that was asked for last, for errors that tell where the reading stood.
    asked: &'a Cell<usize>,
}

/// The name of a key, as the server passed it.
#[derive(Clone, Copy)]
pub struct KeyName<'a> {
    raw: *mut raw::RedisModuleString,
    lifetime: PhantomData<&'a [u8]>,
}

impl<'a> Args<'a> {
    /// # Safety
    ///
    /// `argv` must point to `argc` strings that outlive `'a`, as in a command's callback.
    pub(in crate::redis) unsafe fn new(
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
        asked: &'a Cell<usize>,
    ) -> Args<'a> {
        let argv = if argc <= 0 {
            &[][..]
        } else {
            // SAFETY: the caller's contract.
            unsafe { slice::from_raw_parts(argv, argc as usize) }
        };
        Args { argv, asked }
    }

    #[inline]
    pub(in crate::redis) fn raw(&self) -> &'a [*mut raw::RedisModuleString] {
        self.argv
    }

    /// The index of the argument that was read last; none if the reading has come to the end.
    pub(in crate::redis) fn last_read(&self) -> Option<usize> {
        Some(self.asked.get()).filter(|index| *index < self.argv.len())
    }

    /// How many there are, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.argv.len()
    }

    /// The argument at `index` as the name of a key.
    #[inline]
    pub fn key(&self, index: usize) -> Option<KeyName<'a>> {
        // SAFETY: the strings of `argv` live for `'a`.
        self.argv
            .get(index)
            .map(|&raw| unsafe { KeyName::from_raw(raw) })
    }
}

impl<'a> ArgList<'a> for Args<'a> {
    #[inline]
    fn at(&self, index: usize) -> Option<&'a [u8]> {
        self.asked.set(index);
        // SAFETY: the strings of `argv` live for `'a`, and the server does not change them meanwhile.
        self.argv.get(index).map(|&raw| unsafe { bytes(raw) })
    }
}

impl<'a> KeyName<'a> {
    /// # Safety
    ///
    /// `raw` must be a string of the server that outlives `'a`.
    #[inline]
    pub(in crate::redis) unsafe fn from_raw(raw: *mut raw::RedisModuleString) -> KeyName<'a> {
        KeyName {
            raw,
            lifetime: PhantomData,
        }
    }

    #[inline]
    pub(in crate::redis) fn raw(&self) -> *mut raw::RedisModuleString {
        self.raw
    }

    /// The bytes of the name.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        // SAFETY: the string lives for `'a`.
        unsafe { bytes(self.raw) }
    }
}

/// The bytes of a server's string.
///
/// # Safety
///
/// `string` must be a string of the server that outlives `'a` and is not changed meanwhile.
#[inline]
pub(in crate::redis) unsafe fn bytes<'a>(string: *const raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the caller passes a live string; the function only writes the length.
    let start = unsafe { call!(RedisModule_StringPtrLen(string, &mut len)) };
    if len == 0 {
        return &[];
    }
    // SAFETY: the server returned the start of `len` bytes that live as long as the string.
    unsafe { slice::from_raw_parts(start.cast(), len) }
}
