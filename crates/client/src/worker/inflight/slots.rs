//! What handlers have begun, and what became of those that had no end.

use std::sync::{atomic::Ordering, Arc};

use slab::Slab;

use crate::message::{delivery::Delivery, id::MessageId};

#[derive(Debug, Default)]
pub(super) struct Slots {
    /// With a handler.
    pub(super) running: Slab<Arc<Delivery>>,
    /// With nobody, but perhaps still being worked on; kept for the report.
    pub(super) unfinished: Vec<Arc<Delivery>>,
    /// Those whose handlers were dropped, and that were given back; kept for the report.
    pub(super) given_back: Vec<MessageId>,
}

impl Slots {
    /// Takes the delivery of `key` out of its handler's hands: its lock is not extended any more.
    pub(super) fn end(&mut self, key: usize) -> Option<Arc<Delivery>> {
        let delivery = self.running.try_remove(key)?;
        delivery.ended.store(true, Ordering::Release);
        Some(delivery)
    }

    /// Asks all handlers to end.
    pub(super) fn cancel(&self) {
        for (_, delivery) in &self.running {
            delivery.stop();
        }
    }

    /// Gives up on everything that is still being handled.
    pub(super) fn abandon(&mut self) {
        let abandoned: Vec<_> = self.running.drain().collect();
        for delivery in &abandoned {
            delivery.ended.store(true, Ordering::Release);
        }
        self.unfinished.extend(abandoned);
    }
}
