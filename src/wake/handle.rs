//! What a queue holds of the looks; it lets go of it when it ends.

use std::sync::Arc;

use super::state;
use crate::looks::{Look, Place};

/// A queue's own look, once there was something to note. Dropped with the queue, possibly by the thread
/// that frees in the background.
#[derive(Debug, Default)]
pub struct Handle(Option<Arc<Look>>);

impl Handle {
    /// What falls due at this instant (milliseconds of steady time) or later needs no note.
    #[inline]
    pub fn covers(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |look| look.covers())
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let look = self.0.as_ref();
        look.map_or(0, |look| size_of::<Look>() + look.place().name.len())
    }

    pub(super) fn look(&self) -> Option<&Arc<Look>> {
        self.0.as_ref()
    }

    /// Lets go of the look unless its place is the right one; the caller takes it out of the plan.
    pub(super) fn leave_unless(&mut self, right: impl FnOnce(&Place) -> bool) -> Option<Arc<Look>> {
        self.0.take_if(|look| !right(look.place()))
    }

    pub(super) fn look_or_insert(&mut self, make: impl FnOnce() -> Arc<Look>) -> &Arc<Look> {
        self.0.get_or_insert_with(make)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(look) = self.0.take() {
            state().plan.forget(&look);
        }
    }
}
