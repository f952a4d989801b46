//! A panic must not cross into the server: there it would end the process.

use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};

use super::log;

/// Runs the body of a callback. After a panic, which the hook has logged, the result is `None`.
///
/// Callers mutate last, so that a panic cannot leave half a change behind.
#[inline]
pub(in crate::redis) fn guard<R>(body: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(body)).ok()
}

/// Sends the place of every panic to the server's log. The panic's message stays out of it: it may
/// hold bytes of a user's payload.
pub(in crate::redis) fn install_panic_hook() {
    set_hook(Box::new(|panic| match panic.location() {
        Some(place) => log::warning(format_args!(
            "internal error at {}:{}, the command was given up",
            place.file(),
            place.line()
        )),
        None => log::warning(format_args!("internal error, the command was given up")),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_in_none_and_a_result_passes_through() {
        assert_eq!(guard(|| 7), Some(7));
        assert_eq!(guard(|| -> i32 { panic!("expected by the test") }), None);
    }
}
