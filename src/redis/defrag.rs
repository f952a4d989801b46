//! Active defragmentation: moving a value's blocks to where the server's allocator wants them.

use std::ffi::{c_int, c_ulong, c_void};
use std::mem;
use std::ptr;

use redis_module::raw;

use super::guard::guard;
use super::native::NativeType;

/// Moves blocks during one call of the server.
pub struct Mover {
    ctx: *mut raw::RedisModuleDefragCtx,
}

/// Alignment up to which a box's pointer is the start of a block of the server's allocator.
const DIRECT: usize = 8;

impl Mover {
    /// May move the memory of a value.
    pub fn value<T>(&mut self, block: &mut Box<T>) {
        if size_of::<T>() != 0 && align_of::<T>() <= DIRECT {
            let start: *mut T = &mut **block;
            if let Some(moved) = self.moved(start.cast()) {
                // SAFETY: `moved` is a block of the same size with the same content, and the old one is
                // freed: the box that owned it is overwritten without being dropped.
                unsafe { ptr::write(block, Box::from_raw(moved.cast())) };
            }
        }
    }

    /// May move the memory of a slice.
    pub fn slice<T>(&mut self, block: &mut Box<[T]>) {
        let bytes = mem::size_of_val::<[T]>(block);
        if bytes != 0 && align_of::<T>() <= DIRECT {
            let len = block.len();
            if let Some(moved) = self.moved(block.as_mut_ptr().cast()) {
                let moved = ptr::slice_from_raw_parts_mut(moved.cast::<T>(), len);
                // SAFETY: as in `value`.
                unsafe { ptr::write(block, Box::from_raw(moved)) };
            }
        }
    }

    /// Where the server has moved a block, if it has.
    fn moved(&mut self, block: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: reading a function pointer that is written only at initialisation.
        let alloc = unsafe { raw::RedisModule_DefragAlloc }?;
        // SAFETY: the context of the running callback; a block that is a box's own, so nobody else
        // knows where it lies.
        let moved = unsafe { alloc(self.ctx, block) };
        (!moved.is_null()).then_some(moved)
    }

    /// Whether the server wants its time back.
    fn should_stop(&self) -> bool {
        // SAFETY: a function pointer that is written only at initialisation, and the context of the
        // running callback.
        unsafe { raw::RedisModule_DefragShouldStop.is_some_and(|stop| stop(self.ctx) != 0) }
    }

    /// Where an earlier call has stopped; none if the whole value is to be moved in this call.
    fn cursor(&self) -> Option<u64> {
        let mut cursor: c_ulong = 0;
        // SAFETY: as above; the function writes the cursor where there is one.
        let found = unsafe { raw::RedisModule_DefragCursorGet?(self.ctx, &mut cursor) };
        (found == raw::REDISMODULE_OK as c_int).then_some(cursor as u64)
    }

    fn set_cursor(&mut self, cursor: u64) {
        // SAFETY: as above.
        unsafe {
            if let Some(set) = raw::RedisModule_DefragCursorSet {
                set(self.ctx, cursor as c_ulong);
            }
        }
    }
}

/// Moves what a value holds, step by step, for as long as the server has time. Not zero if there is more.
pub(in crate::redis) unsafe extern "C" fn defrag<T: NativeType>(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let mut mover = Mover { ctx };
        let start = mover.cursor();
        if start.unwrap_or(0) == 0 && align_of::<T>() <= DIRECT {
            // SAFETY: the server's pointer to a boxed value, which it follows from here on.
            unsafe {
                if let Some(moved) = mover.moved(*value) {
                    *value = moved;
                }
            }
        }
        // SAFETY: a value of this type, which nobody else uses during the callback.
        let value = unsafe { &mut *(*value).cast::<T>() };
        let mut at = start.unwrap_or(0);
        while let Some(next) = value.defrag(at, &mut mover) {
            at = next;
            if start.is_some() && mover.should_stop() {
                mover.set_cursor(at);
                return 1;
            }
        }
        0
    })
    .unwrap_or(0)
}
