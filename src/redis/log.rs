//! The server's log. Messages are never used as a format string and never hold a payload or an id.

use std::ffi::{c_char, CStr, CString};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

/// A context of the module that outlives every callback, used for nothing but the module's name in
/// front of log lines. Null until the module has loaded, and on servers that cannot make one.
static LOG_CONTEXT: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());

/// Something an operator should look at.
pub fn warning(message: fmt::Arguments<'_>) {
    write(c"warning", message);
}

/// Something worth knowing in normal operation.
pub fn notice(message: fmt::Arguments<'_>) {
    write(c"notice", message);
}

/// Makes the context that names the module in the log.
pub(in crate::redis) fn keep_context(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: reading a function pointer that is written only at initialisation.
    if let Some(detach) = unsafe { raw::RedisModule_GetDetachedThreadSafeContext } {
        // SAFETY: `ctx` is the context of `OnLoad`. The result is kept for the life of the process:
        // a module with a data type is never unloaded.
        LOG_CONTEXT.store(unsafe { detach(ctx) }, Ordering::Release);
    }
}

fn write(level: &CStr, message: fmt::Arguments<'_>) {
    // SAFETY: reading a function pointer that is written only at initialisation.
    let Some(log) = (unsafe { raw::RedisModule_Log }) else {
        return; // a unit test
    };
    let text = printable(&message.to_string());
    // SAFETY: all three are NUL-terminated strings that live through the call; the message is an
    // argument of "%s", never the format. A null context is allowed.
    unsafe {
        log(
            LOG_CONTEXT.load(Ordering::Acquire),
            level.as_ptr(),
            c"%s".as_ptr(),
            text.as_ptr().cast::<c_char>(),
        );
    }
}

/// One line without control characters, which could forge log lines or cut this one short.
pub(in crate::redis) fn printable(message: &str) -> CString {
    let line: Vec<u8> = message
        .bytes()
        .map(|b| if b < b' ' { b' ' } else { b })
        .collect();
    // No byte below a space is left, so there is no NUL.
    CString::new(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_no_line_break_and_no_end_inside() {
        assert_eq!(printable("a\nb\0c%n").as_bytes(), b"a b c%n");
    }
}
