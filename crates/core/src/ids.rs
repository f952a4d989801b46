//! Messages by their ids: the numbered ids that the queue made in an array, all others in a hash index.

use crate::id::{uuid_number, Key};
use crate::index::Index;
use crate::message::Message;
use crate::relocate::Relocate;
use crate::sequence::Sequence;
use crate::slab::Slab;

/// A queue that holds no more messages than this needs no pages for numbered ids.
const FEW: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Ids {
    numbered: Sequence,
    hashed: Index,
}

impl Ids {
    /// The slot of the message with this id; `hash` is asked only if it is needed.
    #[inline]
    pub fn find(
        &self,
        messages: &Slab<Message>,
        key: &Key<'_>,
        hash: impl FnOnce() -> u32,
    ) -> Option<u32> {
        if let Key::Uuid(bytes) = key {
            if let Some(slot) = self.numbered.get(uuid_number(*bytes)) {
                if messages.get(slot).has_key(key) {
                    return Some(slot);
                }
            }
        }
        if self.hashed.is_empty() {
            return None;
        }
        self.hashed
            .find(hash(), |slot| messages.get(slot).has_key(key))
    }

    /// Names a message whose id is not named yet. `next` is the number of the next id made.
    #[inline]
    pub fn insert(&mut self, messages: &Slab<Message>, slot: u32, next: u32) {
        let message = messages.get(slot);
        if let Key::Uuid(bytes) = message.key() {
            // A new page must soon be full: the queue's own ids come one after the other, those that
            // others made may lie anywhere.
            let number = uuid_number(bytes);
            let is_newest = number == next.wrapping_sub(1);
            let may_grow = messages.len() > FEW && (is_newest || self.numbered.is_dense());
            if self.numbered.insert(number, slot, may_grow) {
                return;
            }
        }
        self.hashed.insert(message.hash, slot);
    }

    /// Forgets a message that is named.
    #[inline]
    pub fn remove(&mut self, messages: &Slab<Message>, slot: u32, next: u32) {
        let message = messages.get(slot);
        if let Key::Uuid(bytes) = message.key() {
            let hashed = &mut self.hashed;
            let dissolve = |slot| hashed.insert(messages.get(slot).hash, slot);
            if self
                .numbered
                .remove(uuid_number(bytes), slot, next, dissolve)
            {
                return;
            }
        }
        self.hashed.remove(message.hash, slot);
    }

    /// Lets `mover` move some pages; false if they were the last.
    pub fn relocate(&mut self, step: usize, mover: &mut impl Relocate) -> bool {
        self.numbered.relocate(step, mover)
    }

    /// Bytes the indexes hold.
    pub fn bytes(&self) -> usize {
        self.numbered.bytes() + self.hashed.bytes()
    }

    /// The slots that are named, for [`Queue::check`](crate::Queue::check).
    ///
    /// # Errors
    /// If an index contradicts itself or the messages.
    pub fn check(&self, messages: &Slab<Message>) -> Result<Vec<u32>, String> {
        let mut slots = self.hashed.check(|slot| messages.get(slot).hash)?;
        slots.extend(self.numbered.check()?);
        Ok(slots)
    }
}
