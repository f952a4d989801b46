//! Guards around the user's code, which may panic anywhere.

use std::{any::Any, fmt, panic::AssertUnwindSafe};

/// What went wrong, in words, whatever the error's own code does.
pub(crate) fn text_of(shown: &impl fmt::Display) -> String {
    std::panic::catch_unwind(AssertUnwindSafe(|| shown.to_string())).unwrap_or_else(|panic| {
        forget(panic);
        "an error whose text cannot be had, since its Display panics".to_owned()
    })
}

/// Lets go of what a panic carried, which may panic when it is dropped.
pub(crate) fn forget(panic: Box<dyn Any + Send>) {
    if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// The text of a panic, if it has one.
pub(crate) fn message_of(panic: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    };
    forget(panic);
    text
}
