//! How a connection does.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a connection works, for those who ask the worker.
#[derive(Debug, Default)]
pub(crate) struct Health {
    up: AtomicBool,
    down: AtomicBool,
}

impl Health {
    pub(crate) fn set(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
        self.down.store(!up, Ordering::Relaxed);
    }

    /// A command has been answered over it, and nothing has failed since.
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// It has failed, or could not be opened, and does not work again yet.
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }
}
