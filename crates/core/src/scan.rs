//! MQ.SCAN: every message, some places of the slab at a time.
//!
//! A message keeps its place for as long as it is there, whatever becomes of it, so who looks at all
//! places has seen all that were there from start to end. Places are dealt anew when a queue is
//! loaded; a cursor names the queue that it is of, so that it is refused then.

use crate::id::{hash_bytes, IdText};
use crate::queue::Queue;
use crate::types::{Now, Status};

/// One message, or one dead letter, as it stands when its place is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// Its id, which a live message and a dead letter may share.
    pub id: IdText<'a>,
    /// Where it stands.
    pub status: Status,
}

/// The cursor is none that this queue has given since it was made or loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignCursor;

/// A cursor's lower bits are the place to go on at, never the first; above are bits of the queue.
const PLACE_BITS: u32 = 32;
const MARK_BITS: u32 = 20;

impl Queue {
    /// Shows what is at the places from `cursor` on, at most `count` places; 0 is the first. Returns
    /// where to go on, 0 when all have been looked at.
    ///
    /// # Errors
    /// If the cursor is not of this queue.
    pub fn scan<'a>(
        &'a self,
        now: Now,
        cursor: u64,
        count: usize,
        mut show: impl FnMut(Scanned<'a>),
    ) -> Result<u64, ForeignCursor> {
        let mark = self.cursor_mark();
        let start = cursor as u32;
        if cursor != 0 && (start == 0 || cursor >> PLACE_BITS != mark) {
            return Err(ForeignCursor);
        }
        let now = now.instant();
        let end = self.messages.end();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let next = start.saturating_add(count).min(end);
        for slot in start..next {
            let held = self.messages.find(slot).filter(|held| held.is_held());
            let Some(message) = held else { continue };
            let stands = self.stands(slot, now);
            for stand in [stands.live, stands.letter].into_iter().flatten() {
                if let Some(status) = stand.status(now) {
                    let id = message.id();
                    show(Scanned { id, status });
                }
            }
        }
        Ok(if next == end {
            0
        } else {
            mark << PLACE_BITS | u64::from(next)
        })
    }

    /// What tells the cursors of this queue from those of others. The hash has a seed of its own each
    /// time that a queue is made or loaded.
    fn cursor_mark(&self) -> u64 {
        u64::from(hash_bytes(&self.hasher, b"cursor") >> (u32::BITS - MARK_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enqueue, Log, Settings, Turn};

    #[test]
    fn a_cursor_is_refused_by_every_other_queue() {
        let (settings, mut log) = (Settings::default(), Log::default());
        let mut queues = [Queue::new(1), Queue::new(2)];
        let now = Now::from_micros(1_700_000_000_000_000);
        for queue in &mut queues {
            for _ in 0..10 {
                let mut turn = Turn::new(now, 1, &settings, &mut log);
                queue.enqueue(&mut turn, &Enqueue::new(b""));
            }
        }
        let [queue, other] = &queues;
        let cursor = queue.scan(now, 0, 3, |_| {}).unwrap();
        assert!(cursor != 0 && cursor < 1 << 53, "exact in every client");
        assert_eq!(other.scan(now, cursor, 3, |_| {}), Err(ForeignCursor));
        for wrong in [
            1,
            cursor ^ 1 << PLACE_BITS,
            cursor >> PLACE_BITS << PLACE_BITS,
        ] {
            assert_eq!(
                queue.scan(now, wrong, 3, |_| {}),
                Err(ForeignCursor),
                "{wrong}"
            );
        }
        let mut seen = 0;
        assert_eq!(queue.scan(now, cursor, usize::MAX, |_| seen += 1), Ok(0));
        assert_eq!(seen, 7);
    }
}
