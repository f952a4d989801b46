//! The module's part of the `INFO` command.

use std::ffi::{c_int, CStr};

use redis_module::raw;

use super::api::call;
use super::context::Ctx;
use super::guard::guard;
use super::load::LoadError;

/// Has something to say in `INFO`.
pub trait InfoSource {
    /// Writes sections and fields. For a crash report too, so it must not rely on much.
    fn write(info: &mut InfoWriter);
}

/// Writes sections and fields. The server puts the module's name in front of both.
pub struct InfoWriter {
    raw: *mut raw::RedisModuleInfoCtx,
}

impl InfoWriter {
    /// Begins a section; an empty name stands for the module's own. False when nobody asked for it:
    /// its fields are then not worth computing.
    pub fn section(&mut self, name: &CStr) -> bool {
        // SAFETY: the context of the running callback and a NUL-terminated name.
        unsafe {
            raw::RedisModule_InfoAddSection
                .is_some_and(|add| add(self.raw, name.as_ptr()) == raw::REDISMODULE_OK as c_int)
        }
    }

    /// Adds a field to the section.
    pub fn number(&mut self, name: &CStr, value: u64) {
        // SAFETY: the context of the running callback and a NUL-terminated name.
        unsafe {
            if let Some(add) = raw::RedisModule_InfoAddFieldULongLong {
                add(self.raw, name.as_ptr(), value);
            }
        }
    }
}

impl Ctx {
    /// A field of the server's own `INFO`, for what no other function tells.
    pub fn server_field(&self, section: &CStr, field: &CStr) -> Option<String> {
        // SAFETY: function pointers that are written only at initialisation, a live context and
        // NUL-terminated names; the field's text lives until the data is freed, after it is copied.
        unsafe {
            let get = raw::RedisModule_GetServerInfo?;
            let field_of = raw::RedisModule_ServerInfoGetFieldC?;
            let free = raw::RedisModule_FreeServerInfo?;
            let data = get(self.raw(), section.as_ptr());
            let text = field_of(data, field.as_ptr());
            let text =
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
            free(self.raw(), data);
            text
        }
    }
}

/// Makes `S` part of `INFO`.
pub fn register_info<S: InfoSource>(ctx: &Ctx) -> Result<(), LoadError> {
    // SAFETY: the context of `OnLoad`.
    let registered = unsafe { call!(RedisModule_RegisterInfoFunc(ctx.raw(), Some(write::<S>))) };
    if registered == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(LoadError::new("the server refused the INFO section"))
    }
}

unsafe extern "C" fn write<S: InfoSource>(info: *mut raw::RedisModuleInfoCtx, _for_crash: c_int) {
    guard(|| S::write(&mut InfoWriter { raw: info }));
}
