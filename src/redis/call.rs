//! Calling the server's own commands, for what no function of the API tells.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw;

use super::context::Ctx;

/// What a command has replied.
pub(in crate::redis) struct CallReply {
    raw: NonNull<raw::RedisModuleCallReply>,
}

/// A part of a reply.
pub(in crate::redis) struct Element<'a> {
    raw: NonNull<raw::RedisModuleCallReply>,
    whole: PhantomData<&'a CallReply>,
}

impl Ctx {
    /// Runs `command` with one or two arguments. `None` where the server has no such command, as one
    /// that an operator renamed.
    pub(in crate::redis) fn call(
        &self,
        command: &CStr,
        first: &CStr,
        second: Option<&CStr>,
    ) -> Option<CallReply> {
        // SAFETY: function pointers that are written only at initialisation, a live context and
        // NUL-terminated strings, as many as the format says.
        let raw = unsafe {
            let call = raw::RedisModule_Call?;
            raw::RedisModule_FreeCallReply?; // what `drop` needs
            match second {
                None => call(self.raw(), command.as_ptr(), c"c".as_ptr(), first.as_ptr()),
                Some(second) => call(
                    self.raw(),
                    command.as_ptr(),
                    c"cc".as_ptr(),
                    first.as_ptr(),
                    second.as_ptr(),
                ),
            }
        };
        NonNull::new(raw).map(|raw| CallReply { raw })
    }
}

impl CallReply {
    fn whole(&self) -> Element<'_> {
        Element {
            raw: self.raw,
            whole: PhantomData,
        }
    }

    /// The number of elements of an array.
    pub(in crate::redis) fn len(&self) -> Option<usize> {
        // SAFETY: a function pointer that is written only at initialisation, and a live reply.
        Some(unsafe { raw::RedisModule_CallReplyLength?(self.raw.as_ptr()) })
    }

    /// An element of an array.
    pub(in crate::redis) fn element(&self, index: usize) -> Option<Element<'_>> {
        // SAFETY: as above; the element lives as long as the reply. Null for what is no array or has
        // no such element.
        let raw = unsafe { raw::RedisModule_CallReplyArrayElement?(self.raw.as_ptr(), index) };
        NonNull::new(raw).map(|raw| Element {
            raw,
            whole: PhantomData,
        })
    }

    /// The text of a string.
    pub(in crate::redis) fn text(&self) -> Option<String> {
        self.whole().text()
    }
}

impl Element<'_> {
    /// The text of a string.
    pub(in crate::redis) fn text(&self) -> Option<String> {
        let mut len = 0;
        // SAFETY: a function pointer that is written only at initialisation, and a live reply; null
        // for what is no string, else `len` bytes that live as long as the reply.
        let bytes = unsafe {
            let start = raw::RedisModule_CallReplyStringPtr?(self.raw.as_ptr(), &mut len);
            if start.is_null() {
                return None;
            }
            slice::from_raw_parts(start.cast::<u8>(), len)
        };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        // SAFETY: a reply of `call`, freed once.
        unsafe {
            if let Some(free) = raw::RedisModule_FreeCallReply {
                free(self.raw.as_ptr());
            }
        }
    }
}
