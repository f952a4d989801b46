//! What has been taken and waits for a slot, and whether more may be taken.

use std::{collections::VecDeque, sync::Arc};

use tokio::time::Instant;

use crate::message::delivery::Delivery;

/// The deliveries that no handler has begun.
#[derive(Debug, Default)]
pub(super) struct Admission {
    pub(super) ready: VecDeque<Arc<Delivery>>,
    /// The number of free slots at which to wake whoever takes messages; 0 is not at all.
    pub(super) room_at: usize,
    /// A slot has been woken and has not looked yet.
    pub(super) waking: bool,
    /// Nothing is begun any more.
    pub(super) closed: bool,
    /// Messages had to be given back since no slot began them; none has looked for one since.
    pub(super) stalled: bool,
}

impl Admission {
    /// Whether somebody should have begun one of them long ago.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.ready.iter().any(|delivery| delivery.begin_by() <= now)
    }

    /// When one of them has to be begun.
    pub(super) fn begin_by(&self) -> Option<Instant> {
        self.ready.iter().map(|delivery| delivery.begin_by()).min()
    }

    /// Whether what is ready is given back at once: nobody would begin it.
    pub(super) fn is_refused(&self) -> bool {
        self.closed || self.stalled
    }

    /// Whether to wake a slot, which is then on its way.
    pub(super) fn wakes(&mut self) -> bool {
        let wakes = !self.waking && !self.ready.is_empty();
        self.waking |= wakes;
        wakes
    }
}
