//! A queue's name.

use std::fmt;

use super::id::show_bytes;

/// A queue's key, and how it is shown in logs and metrics.
#[derive(Debug)]
pub(crate) struct QueueName {
    pub(crate) key: Vec<u8>,
    pub(crate) shown: String,
}

impl QueueName {
    pub(crate) fn new(key: Vec<u8>) -> Self {
        struct Shown<'a>(&'a [u8]);
        impl fmt::Display for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show_bytes(self.0, f)
            }
        }
        let shown = Shown(&key).to_string();
        Self { key, shown }
    }
}
