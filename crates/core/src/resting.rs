//! An empty queue at rest: what is to be kept of it, in as little memory as that takes.

use foldhash::fast::FixedState;

use crate::eoq::Eoq;
use crate::idle::Idleness;
use crate::queue::Queue;
use crate::relocate::Relocate;
use crate::snapshot::Loader;
use crate::types::{Span, Timestamp};

/// A queue without messages. A pause that ends or a rate that is free again concerns nobody meanwhile.
/// Its form is that of a snapshot, so that there is one list of what a queue keeps; beside it stands
/// what snapshots leave out.
#[derive(Clone, Debug)]
pub struct Resting {
    snapshot: Box<[u8]>,
    hasher: FixedState,
    eoq: Eoq,
    refused: u64,
    idleness: Option<Idleness>,
}

impl Queue {
    /// The queue at rest; none if it holds messages, groups or schedules.
    pub fn rest(&self) -> Option<Resting> {
        if !self.holds_nothing() {
            return None;
        }
        let mut chunks = Vec::new();
        self.snapshot(|chunk| chunks.push(chunk.into()));
        // Without these there is the header only.
        let snapshot = chunks.pop().filter(|_| chunks.is_empty())?;
        Some(Resting {
            snapshot,
            hasher: self.hasher.clone(),
            eoq: self.eoq,
            refused: self.refused,
            idleness: self.idleness(),
        })
    }
}

impl Resting {
    /// The queue, ready for work.
    pub fn wake(&self) -> Queue {
        let mut loader = Loader::new(0);
        let fed = loader.feed(&self.snapshot).is_ok();
        debug_assert!(fed, "what was written can be read");
        let mut queue = loader.finish().unwrap_or_else(|_| Queue::new(0));
        // Nothing was hashed yet.
        queue.hasher = self.hasher.clone();
        queue.eoq = self.eoq;
        queue.refused = self.refused;
        queue
    }

    /// [`Queue::idle_at`] of the queue.
    #[inline]
    pub fn idle_at(&self, idle: Span) -> Option<Timestamp> {
        self.idleness?.ends_at(idle)
    }

    /// [`Queue::snapshot`] of the queue.
    pub fn snapshot(&self, mut sink: impl FnMut(&[u8])) {
        sink(&self.snapshot);
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.snapshot.len()
    }

    /// Lets `mover` move the memory.
    pub fn relocate(&mut self, mover: &mut impl Relocate) {
        mover.slice(&mut self.snapshot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Key;
    use crate::{Enqueue, Log, Now, Settings, Turn, Verdict};

    fn chunks(queue: &Queue) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        queue.snapshot(|chunk| chunks.push(chunk.to_vec()));
        chunks
    }

    #[test]
    fn a_queue_rests_when_it_is_empty_and_wakes_as_it_was() {
        let (settings, mut log) = (Settings::default(), Log::default());
        let mut queue = Queue::new(9);
        let now = Now::from_micros(1_700_000_000_000_000);
        let mut turn = Turn::new(now, 1, &settings, &mut log);
        queue.enqueue(&mut turn, &Enqueue::new(b"payload").id(b"order"));
        assert!(queue.rest().is_none(), "a message waits");
        let mut token = None;
        queue.dequeue(&mut turn, 1, None, |delivery| token = Some(delivery.token));
        assert!(queue.rest().is_none(), "a message is locked");
        queue
            .done(&mut turn, b"order", token.unwrap(), Verdict::SUCCESS)
            .unwrap();
        let resting = queue.rest().expect("nothing is left");
        assert!(resting.bytes() < 200, "{}", resting.bytes());
        let woken = resting.wake();
        assert_eq!(chunks(&woken), chunks(&queue));
        assert_eq!(woken.totals(), queue.totals());
        let idle = Span::from_millis(9);
        assert!(queue.idle_at(idle).is_some());
        assert_eq!(resting.idle_at(idle), queue.idle_at(idle));
        let hash = |queue: &Queue| queue.hash(&Key::of(b"order"));
        assert_eq!(hash(&woken), hash(&queue), "what was numbered by it stays");
    }
}
