//! Moving a queue's memory about, for an allocator that wants to give back pages with little in them.

use crate::message::Message;
use crate::queue::Queue;

/// Who moves memory. Each block is a block of the global allocator's that is the box's own; where it
/// lies after the call is the mover's choice, what it holds must be the same.
pub trait Relocate {
    /// May move a slice.
    fn slice<T>(&mut self, block: &mut Box<[T]>);
    /// May move a value.
    fn value<T>(&mut self, block: &mut Box<T>);
}

/// Where a walk over a queue's memory stands: what kind of blocks in the upper half, which of them in
/// the lower.
#[derive(Clone, Copy)]
struct Cursor {
    part: u32,
    at: u32,
}

impl Cursor {
    fn of(number: u64) -> Self {
        Self {
            part: (number >> 32) as u32,
            at: number as u32,
        }
    }

    fn number(self) -> u64 {
        u64::from(self.part) << 32 | u64::from(self.at)
    }
}

impl Queue {
    /// Lets `mover` move the blocks at `cursor`, which is 0 at first: about a hundred. Returns the
    /// cursor of those that come next; none if these were the last. The queue may change between two
    /// calls: what comes or goes meanwhile may be missed.
    pub fn relocate(&mut self, cursor: u64, mover: &mut impl Relocate) -> Option<u64> {
        let Cursor { part, at } = Cursor::of(cursor);
        let more = match part {
            0 => self
                .messages
                .relocate(at as usize, mover, Message::relocate),
            1 => self.relocate_rares(at as usize, mover),
            2 => self.live.relocate(at as usize, mover),
            3 => self.letters.relocate(at as usize, mover),
            4 => {
                self.wheel.relocate(mover);
                if let Some(latency) = &mut self.latency {
                    latency.relocate(mover);
                    mover.value(latency);
                }
                if let Some(batches) = &mut self.batches {
                    mover.value(batches);
                }
                false
            }
            5 => self
                .results
                .as_mut()
                .is_some_and(|results| results.relocate(at as usize, mover)),
            6 => {
                let schedules = self.schedules.as_mut();
                schedules.is_some_and(|schedules| schedules.relocate(at as usize, mover))
            }
            _ => return None,
        };
        let next = if more {
            Cursor { part, at: at + 1 }
        } else {
            Cursor {
                part: part + 1,
                at: 0,
            }
        };
        Some(next.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enqueue, Log, Now, Settings, Span, Turn};

    /// Moves every block, and counts them.
    #[derive(Default)]
    struct All(usize);

    impl Relocate for All {
        fn slice<T>(&mut self, block: &mut Box<[T]>) {
            let mut moved = Vec::with_capacity(block.len());
            moved.extend(std::mem::take(block));
            *block = moved.into_boxed_slice();
            self.0 += 1;
        }

        fn value<T>(&mut self, _block: &mut Box<T>) {
            self.0 += 1;
        }
    }

    #[test]
    fn all_blocks_of_a_queue_are_met_and_it_stays_as_it_was() {
        const MANY: usize = 5000;
        let (settings, mut log) = (Settings::default(), Log::default());
        let mut queue = Queue::new(1);
        let now = Now::from_micros(1_700_000_000_000_000);
        for number in 0..MANY {
            let id = number.to_string();
            let mut request = Enqueue::new(b"payload");
            if number % 2 == 0 {
                request = request.id(id.as_bytes());
            }
            let mut turn = Turn::new(now, 1, &settings, &mut log);
            queue.enqueue(&mut turn, &request);
        }
        let mut turn = Turn::new(now, 2, &settings, &mut log);
        queue.dequeue(&mut turn, MANY, Some(Span::from_millis(5000)), |_| {});
        for number in (0..MANY).step_by(10) {
            let id = number.to_string();
            let mut request = Enqueue::new(b"copy").id(id.as_bytes());
            request.requeue = true;
            let mut turn = Turn::new(now, 3, &settings, &mut log);
            queue.enqueue(&mut turn, &request);
        }
        let digest = |queue: &Queue| {
            let mut chunks = Vec::new();
            queue.digest(|chunk| chunks.push(chunk.to_vec()));
            chunks
        };
        let before = digest(&queue);
        let mut all = All::default();
        let (mut cursor, mut most) = (0, 0);
        while let Some(next) = queue.relocate(cursor, &mut all) {
            cursor = next;
            most = most.max(std::mem::take(&mut all.0));
            queue.check().expect("sound after each step");
        }
        assert!((65..=300).contains(&most), "{most} blocks in one step");
        let mut all = All::default();
        let mut cursor = 0;
        while let Some(next) = queue.relocate(cursor, &mut all) {
            cursor = next;
        }
        // A body for each message and three blocks for each copy, pages beside.
        assert!(all.0 >= MANY + MANY / 10 * 2 + MANY / 64, "{}", all.0);
        assert_eq!(digest(&queue), before);
    }
}
