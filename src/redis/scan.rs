//! Going through all keys of a database in small steps.

use std::ffi::c_void;
use std::ptr::NonNull;

use redis_module::raw;

use super::api::call;
use super::args::KeyName;
use super::context::Ctx;
use super::guard::guard;
use super::native::{NativeType, TypeHandle};

/// Where a walk through the keys of a database stands. As with `SCAN`, what is there from the beginning
/// to the end is met at least once.
#[derive(Debug)]
pub struct KeyScan(NonNull<raw::RedisModuleScanCursor>);

// SAFETY: the cursor is memory of the server that belongs to no thread; it is used only by `&mut`.
unsafe impl Send for KeyScan {}

impl KeyScan {
    /// Before the first key; `None` if the server gives no cursor.
    pub fn new() -> Option<KeyScan> {
        // SAFETY: the function takes nothing.
        NonNull::new(unsafe { call!(RedisModule_ScanCursorCreate()) }).map(KeyScan)
    }

    /// Back to the first key.
    pub fn restart(&mut self) {
        // SAFETY: a live cursor.
        unsafe { call!(RedisModule_ScanCursorRestart(self.0.as_ptr())) };
    }

    /// Meets a few keys of the selected database, and adds the names of those that hold a value of this
    /// type to `names`. False when all have been met.
    pub fn step<T: NativeType>(
        &mut self,
        ctx: &Ctx,
        handle: &'static TypeHandle<T>,
        names: &mut Vec<Box<[u8]>>,
    ) -> bool {
        let mut found = Found { handle, names };
        // SAFETY: a live context and cursor; `found` outlives the call, and the callback is for it.
        unsafe {
            call!(RedisModule_Scan(
                ctx.raw(),
                self.0.as_ptr(),
                Some(on_key::<T>),
                std::ptr::from_mut(&mut found).cast()
            )) != 0
        }
    }
}

impl Drop for KeyScan {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { call!(RedisModule_ScanCursorDestroy(self.0.as_ptr())) };
    }
}

struct Found<'a, T: 'static> {
    handle: &'static TypeHandle<T>,
    names: &'a mut Vec<Box<[u8]>>,
}

unsafe extern "C" fn on_key<T: NativeType>(
    _ctx: *mut raw::RedisModuleCtx,
    name: *mut raw::RedisModuleString,
    key: *mut raw::RedisModuleKey,
    found: *mut c_void,
) {
    guard(|| {
        // SAFETY: the `Found` that `step` passes, borrowed by nothing else during the scan.
        let found = unsafe { &mut *found.cast::<Found<'_, T>>() };
        // SAFETY: a key that is open for the running callback, if it is not null.
        let is_other = !key.is_null()
            && unsafe { call!(RedisModule_ModuleTypeGetType(key)) } != found.handle.raw();
        // A key that the server does not open may be one of this type.
        if !is_other {
            // SAFETY: the name of the running callback, copied here.
            found
                .names
                .push(unsafe { KeyName::from_raw(name) }.bytes().into());
        }
    });
}
