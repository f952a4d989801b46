//! Saving and loading values, rewriting the append-only file, and digests.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ops::Deref;
use std::slice;

use redis_module::raw;

use super::api::call;
use super::args::{bytes, KeyName};
use super::log::printable;

/// The longest string that a server considers to save as a number: `-2147483648`.
const LONGEST_NUMBER: usize = 11;

/// Writes a value into a dump. A failure is the server's to notice: it ends the save.
pub struct RdbWriter<'a> {
    io: *mut raw::RedisModuleIO,
    lifetime: PhantomData<&'a ()>,
}

/// Reads a value from a dump, which may be cut short or forged.
pub struct RdbReader<'a> {
    io: *mut raw::RedisModuleIO,
    lifetime: PhantomData<&'a ()>,
}

/// The dump ended early or holds something else than asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoError;

/// A string read from a dump.
pub struct LoadedBytes {
    start: *mut u8,
    len: usize,
}

/// Writes the commands that rebuild a value into a new append-only file.
pub struct AofWriter<'a> {
    io: *mut raw::RedisModuleIO,
    key: KeyName<'a>,
}

/// Takes in what makes two values equal, for `DEBUG DIGEST-VALUE`.
pub struct DigestWriter<'a> {
    digest: *mut raw::RedisModuleDigest,
    lifetime: PhantomData<&'a ()>,
}

impl RdbWriter<'_> {
    /// # Safety
    ///
    /// `io` must be the stream of the running save callback.
    pub(in crate::redis) unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
        RdbWriter {
            io,
            lifetime: PhantomData,
        }
    }

    /// Appends a string of any bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        // Redis 6.2 tries whether so short a string is a number, and reads up to a NUL to find out.
        let mut terminated = [0; LONGEST_NUMBER + 1];
        let bytes = if bytes.len() <= LONGEST_NUMBER {
            terminated[..bytes.len()].copy_from_slice(bytes);
            &terminated[..bytes.len()]
        } else {
            bytes
        };
        // SAFETY: the stream of the running callback; the bytes are copied.
        unsafe {
            call!(RedisModule_SaveStringBuffer(
                self.io,
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }
}

impl RdbReader<'_> {
    /// # Safety
    ///
    /// `io` must be the stream of the running load callback.
    pub(in crate::redis) unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
        RdbReader {
            io,
            lifetime: PhantomData,
        }
    }

    /// Database and name of the key that is loaded, where the server tells both (7.0 and later).
    pub fn place(&self) -> Option<(i32, &[u8])> {
        // SAFETY: function pointers that are written only at initialisation, the stream of the
        // running callback, and a string that lives as long as that.
        unsafe {
            let db = raw::RedisModule_GetDbIdFromIO?(self.io);
            let name = raw::RedisModule_GetKeyNameFromIO?(self.io);
            (db >= 0 && !name.is_null()).then(|| (db, bytes(name)))
        }
    }

    /// The next string. The server has allocated it already, within what the dump really holds.
    pub fn bytes(&mut self) -> Result<LoadedBytes, IoError> {
        let mut len = 0;
        // SAFETY: the stream of the running callback; the function writes the length.
        let start = unsafe { call!(RedisModule_LoadStringBuffer(self.io, &mut len)) };
        if start.is_null() {
            return Err(IoError);
        }
        let loaded = LoadedBytes {
            start: start.cast(),
            len,
        };
        self.check().map(|()| loaded)
    }

    /// Says in the server's log, beside the name of the file or key, why the value was refused.
    pub fn refuse(&mut self, why: &str) {
        let why = printable(why);
        // SAFETY: the stream of the running callback; NUL-terminated strings, the text is an argument
        // of "%s" and never the format.
        unsafe {
            call!(RedisModule_LogIOError(
                self.io,
                c"warning".as_ptr(),
                c"%s".as_ptr(),
                why.as_ptr()
            ))
        };
    }

    fn check(&self) -> Result<(), IoError> {
        // SAFETY: the stream of the running callback.
        match unsafe { call!(RedisModule_IsIOError(self.io)) } {
            0 => Ok(()),
            _ => Err(IoError),
        }
    }
}

impl Deref for LoadedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server returned `len` bytes, owned by this value until it is dropped.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for LoadedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated by the server for this value, freed once.
        unsafe { call!(RedisModule_Free(self.start.cast())) };
    }
}

impl<'a> AofWriter<'a> {
    /// # Safety
    ///
    /// `io` must be the stream of the running rewrite callback.
    pub(in crate::redis) unsafe fn new(io: *mut raw::RedisModuleIO, key: KeyName<'a>) -> Self {
        AofWriter { io, key }
    }

    /// Appends `command key effect`.
    pub fn emit(&mut self, command: &CStr, effect: &[u8]) {
        // SAFETY: the stream of the running callback; the format "sb" takes a string of the server,
        // then a buffer and its length as size_t.
        unsafe {
            call!(RedisModule_EmitAOF(
                self.io,
                command.as_ptr(),
                c"sb".as_ptr(),
                self.key.raw(),
                effect.as_ptr(),
                effect.len(),
            ))
        };
    }
}

impl DigestWriter<'_> {
    /// # Safety
    ///
    /// `digest` must be the digest of the running callback.
    pub(in crate::redis) unsafe fn new(digest: *mut raw::RedisModuleDigest) -> Self {
        DigestWriter {
            digest,
            lifetime: PhantomData,
        }
    }

    /// Takes in a string.
    pub fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the digest of the running callback; the bytes are only read.
        unsafe {
            call!(RedisModule_DigestAddStringBuffer(
                self.digest,
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }

    /// Ends an ordered group of elements. What is grouped is mixed regardless of the groups' order.
    pub fn end_group(&mut self) {
        // SAFETY: the digest of the running callback.
        unsafe { call!(RedisModule_DigestEndSequence(self.digest)) };
    }
}
