//! The module's part of the `INFO` command.

use std::ffi::{c_int, CStr, CString};

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

    /// Adds a field of a word or two without line breaks.
    pub fn text(&mut self, name: &CStr, value: &str) {
        let value = CString::new(value).unwrap_or_default();
        // SAFETY: the context of the running callback and NUL-terminated strings, which the server copies.
        unsafe {
            if let Some(add) = raw::RedisModule_InfoAddFieldCString {
                add(self.raw, name.as_ptr(), value.as_ptr());
            }
        }
    }
}

/// One section of the server's own `INFO`.
pub struct ServerInfo<'c> {
    ctx: &'c Ctx,
    raw: *mut raw::RedisModuleServerInfoData,
}

impl<'c> ServerInfo<'c> {
    /// Reads the section; `None` where the server does not tell.
    pub fn read(ctx: &'c Ctx, section: &CStr) -> Option<ServerInfo<'c>> {
        // SAFETY: function pointers that are written only at initialisation, a live context and a
        // NUL-terminated name.
        unsafe {
            raw::RedisModule_ServerInfoGetFieldC?;
            raw::RedisModule_FreeServerInfo?;
            let raw = raw::RedisModule_GetServerInfo?(ctx.raw(), section.as_ptr());
            Some(ServerInfo { ctx, raw })
        }
    }

    /// The text of a field.
    pub fn text(&self, field: &CStr) -> Option<&str> {
        // SAFETY: as in `read`; the text lives as long as the section.
        unsafe {
            let text = raw::RedisModule_ServerInfoGetFieldC?(self.raw, field.as_ptr());
            (!text.is_null()).then(|| CStr::from_ptr(text).to_str().ok())?
        }
    }

    /// The number in a field.
    pub fn number(&self, field: &CStr) -> Option<u64> {
        self.text(field)?.parse().ok()
    }
}

impl Drop for ServerInfo<'_> {
    fn drop(&mut self) {
        // SAFETY: read with the same context, freed once.
        unsafe {
            if let Some(free) = raw::RedisModule_FreeServerInfo {
                free(self.ctx.raw(), self.raw);
            }
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
