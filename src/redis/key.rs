//! Keys that hold a value of the module's type.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw;

use super::api::call;
use super::args::KeyName;
use super::borrow;
use super::context::Ctx;
use super::native::{NativeType, TypeHandle};
use crate::error::Error;

/// A key opened for reading that holds a value.
pub struct ReadKey<'c, T> {
    value: NonNull<T>,
    _open: OpenKey<'c>,
    _borrow: borrow::Shared,
}

/// A key opened for writing, with or without a value.
pub struct WriteKey<'c, T: NativeType> {
    value: Option<NonNull<T>>,
    open: OpenKey<'c>,
    handle: &'static TypeHandle<T>,
    _borrow: borrow::Exclusive,
}

/// The server's handle, closed when dropped.
struct OpenKey<'c> {
    raw: *mut raw::RedisModuleKey,
    context: PhantomData<&'c Ctx>,
}

impl<'c, T: NativeType> ReadKey<'c, T> {
    /// Opens the key as a command that a user sent would: it counts as a hit or a miss, and refreshes
    /// the key's idle time. `None` where there is no key.
    #[inline]
    pub fn open(
        ctx: &'c Ctx,
        handle: &'static TypeHandle<T>,
        name: KeyName<'_>,
    ) -> Result<Option<ReadKey<'c, T>>, Error> {
        ReadKey::open_with(ctx, handle, name, raw::REDISMODULE_READ)
    }

    /// Opens the key without leaving a trace in the statistics, and from 7.2 on none at all: for the
    /// module's own looks.
    pub fn peek(
        ctx: &'c Ctx,
        handle: &'static TypeHandle<T>,
        name: KeyName<'_>,
    ) -> Result<Option<ReadKey<'c, T>>, Error> {
        let quiet = raw::REDISMODULE_OPEN_KEY_NOTOUCH
            | raw::REDISMODULE_OPEN_KEY_NONOTIFY
            | raw::REDISMODULE_OPEN_KEY_NOSTATS
            | raw::REDISMODULE_OPEN_KEY_NOEXPIRE
            | raw::REDISMODULE_OPEN_KEY_NOEFFECTS;
        // SAFETY: the pointer is written only at initialisation; the function takes nothing.
        let known = unsafe { raw::RedisModule_GetOpenKeyModesAll.map_or(0, |all| all()) };
        let mode = match quiet & known as u32 {
            // Older servers count no hit and no miss where a key is opened for writing.
            0 => raw::REDISMODULE_WRITE,
            quiet => quiet,
        };
        ReadKey::open_with(ctx, handle, name, raw::REDISMODULE_READ | mode)
    }

    #[inline]
    fn open_with(
        ctx: &'c Ctx,
        handle: &'static TypeHandle<T>,
        name: KeyName<'_>,
        mode: u32,
    ) -> Result<Option<ReadKey<'c, T>>, Error> {
        let shared = borrow::Shared::acquire().ok_or(Error::Internal)?;
        let open = OpenKey::new(ctx, name, mode);
        let value = open.value(handle)?;
        Ok(value.map(|value| ReadKey {
            value,
            _open: open,
            _borrow: shared,
        }))
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &T {
        // SAFETY: the type was checked, the key is open, and no mutable borrow exists while the shared
        // one is held.
        unsafe { self.value.as_ref() }
    }
}

impl<'c, T: NativeType> WriteKey<'c, T> {
    /// Opens the key for writing. Nothing is signalled: see [`Ctx::signal_modified`].
    #[inline]
    pub fn open(
        ctx: &'c Ctx,
        handle: &'static TypeHandle<T>,
        name: KeyName<'_>,
    ) -> Result<WriteKey<'c, T>, Error> {
        let exclusive = borrow::Exclusive::acquire().ok_or(Error::Internal)?;
        let open = OpenKey::new(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);
        let value = open.value(handle)?;
        Ok(WriteKey {
            value,
            open,
            handle,
            _borrow: exclusive,
        })
    }

    /// The value, where the key has one.
    #[inline]
    pub fn value(&self) -> Option<&T> {
        // SAFETY: the type was checked, the key is open, and this handle has the only borrow.
        self.value.map(|value| unsafe { value.as_ref() })
    }

    /// The value to change, where the key has one.
    #[inline]
    pub fn value_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `value`; the mutable borrow of the handle makes this one unique.
        self.value.map(|mut value| unsafe { value.as_mut() })
    }

    /// The value to change; a key that has none gets `make()`. Clients that wait on the key are
    /// woken by the server when it appears.
    #[inline]
    pub fn value_or_create(&mut self, make: impl FnOnce() -> T) -> Result<&mut T, Error> {
        let mut value = match self.value {
            Some(value) => value,
            None => self.create(make())?,
        };
        // SAFETY: as in `value_mut`; a value just set belongs to the open key.
        Ok(unsafe { value.as_mut() })
    }

    /// Deletes the key and its value. The caller signals the change.
    pub fn delete(mut self) {
        self.value = None;
        // SAFETY: a key open for writing; nothing borrows its value, since the handle is owned here.
        unsafe { call!(RedisModule_DeleteKey(self.open.raw)) };
    }

    #[cold]
    fn create(&mut self, value: T) -> Result<NonNull<T>, Error> {
        let pointer = NonNull::from(Box::leak(Box::new(value)));
        // SAFETY: an empty key open for writing; the type's `free` callback undoes the box.
        let set = unsafe {
            call!(RedisModule_ModuleTypeSetValue(
                self.open.raw,
                self.handle.raw(),
                pointer.as_ptr().cast()
            ))
        };
        if set != raw::REDISMODULE_OK as c_int {
            // SAFETY: the server refused the value, so it is still ours alone.
            drop(unsafe { Box::from_raw(pointer.as_ptr()) });
            return Err(Error::Internal);
        }
        self.value = Some(pointer);
        Ok(pointer)
    }
}

impl<'c> OpenKey<'c> {
    #[inline]
    fn new(ctx: &'c Ctx, name: KeyName<'_>, mode: u32) -> OpenKey<'c> {
        // SAFETY: a live context and a live string; known mode bits only.
        let raw = unsafe { call!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode as c_int)) };
        OpenKey {
            raw,
            context: PhantomData,
        }
    }

    /// The pointer to the value, once it is known to be one of this type.
    #[inline]
    fn value<T: NativeType>(&self, handle: &TypeHandle<T>) -> Result<Option<NonNull<T>>, Error> {
        if self.raw.is_null() {
            return Ok(None); // no key, opened for reading
        }
        // SAFETY: an open key. The type is null for keys that hold another kind of value.
        let found = unsafe { call!(RedisModule_ModuleTypeGetType(self.raw)) };
        if found.is_null() || found != handle.raw() {
            // SAFETY: an open key.
            let kind = unsafe { call!(RedisModule_KeyType(self.raw)) };
            return if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
                Ok(None) // no key, opened for writing
            } else {
                Err(Error::WrongType)
            };
        }
        // SAFETY: the key holds a value of this type, made by `create` or the type's load callback.
        Ok(NonNull::new(
            unsafe { call!(RedisModule_ModuleTypeGetValue(self.raw)) }.cast(),
        ))
    }
}

impl Drop for OpenKey<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: opened here, closed once.
            unsafe { call!(RedisModule_CloseKey(self.raw)) };
        }
    }
}
