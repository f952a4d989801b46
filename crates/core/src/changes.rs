//! What a step has changed, for all who want to know: notifications, counters, consumers that wait.
//!
//! A step is whatever happens to a queue between [`Queue::mark`] and [`Queue::changes_since`]: a
//! command, what time did, or effects that were applied. The same step gives the same changes on a
//! primary and on its replicas.

use crate::queue::{Queue, Totals};
use crate::types::{Now, Token};

/// A queue as a step finds it.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    totals: Totals,
    counts: [usize; Queue::COUNTS],
}

/// The difference that a step has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What was counted in the step.
    pub totals: Totals,
    /// By how much the messages of each status of [`Queue::counts`] are more or fewer.
    pub counts: [isize; Queue::COUNTS],
    /// What happened that no total counts.
    pub kinds: Kinds,
}

/// What can happen in a step and is counted nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// A message or a waiting copy got new content.
    pub updated: bool,
    /// A lock was set anew.
    pub extended: bool,
    /// A delivery was given back.
    pub released: bool,
    /// A message was removed on demand.
    pub cancelled: bool,
    /// Limits were set.
    pub limits_set: bool,
    /// A pause began, or became longer.
    pub paused: bool,
    /// A pause ended.
    pub resumed: bool,
    /// A schedule was set, or is no more.
    pub scheduled: bool,
    /// Runs of schedules that were enqueued.
    pub runs: u64,
    /// A part of a snapshot was read: its totals are of the past.
    pub(crate) loaded: bool,
}

impl Queue {
    /// How many numbers [`Queue::counts`] gives.
    pub const COUNTS: usize = 8;

    /// Begins a step.
    #[inline]
    pub fn mark(&mut self) -> Mark {
        self.kinds = Kinds::default();
        Mark {
            totals: self.totals(),
            counts: self.counts(),
        }
    }

    /// What the step that began with `mark` has changed.
    #[inline]
    pub fn changes_since(&self, mark: &Mark) -> Changes {
        let mut counts = [0; Self::COUNTS];
        let pairs = self.counts().into_iter().zip(mark.counts);
        for (change, (after, before)) in counts.iter_mut().zip(pairs) {
            // Both are far below the largest isize, since each message takes memory.
            *change = after as isize - before as isize;
        }
        let totals = if self.kinds.loaded {
            Totals::default()
        } else {
            self.totals().since(&mark.totals)
        };
        Changes {
            totals,
            counts,
            kinds: self.kinds,
        }
    }

    /// The newest token that the server's time in the last step accounts for, once a step has
    /// given `deliveries` of them, if tokens up to `floor` were accounted for before.
    ///
    /// A loaded queue may claim to have given any token, and goes on behind it. That is nobody else's
    /// concern.
    pub fn justified_token(&self, floor: Token, deliveries: u64) -> Token {
        let clock = self.server_time(self.frame_clock());
        let clock = clock.micros().max(floor.value());
        let justified = clock.saturating_add(deliveries);
        self.last_token().min(Token::new(justified))
    }

    /// The queue's own time in the last step.
    fn frame_clock(&self) -> Now {
        Now::from_micros(self.frame.now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enqueue, Log, Settings, Turn, Verdict};

    const NOW: u64 = 1_700_000_000_000_000;

    /// One step of a primary, with its changes; a replica that gets its effects must show the same.
    fn step(
        primary: &mut Queue,
        replica: &mut Queue,
        run: impl FnOnce(&mut Queue, &mut Turn<'_>),
    ) -> Changes {
        let (settings, mut log) = (Settings::default(), Log::default());
        let mut turn = Turn::new(Now::from_micros(NOW), 1, &settings, &mut log);
        turn.spell_out();
        let marks = (primary.mark(), replica.mark());
        run(primary, &mut turn);
        if let crate::Replication::Effects(effects) = log.replication() {
            replica.apply(effects).unwrap();
        }
        let changes = primary.changes_since(&marks.0);
        assert_eq!(replica.changes_since(&marks.1), changes);
        changes
    }

    #[test]
    fn each_step_changes_the_same_on_a_primary_and_its_replica() {
        let (mut primary, mut replica) = (Queue::new(1), Queue::new(2));
        let (primary, replica) = (&mut primary, &mut replica);
        let enqueue = |request: Enqueue<'static>| {
            move |queue: &mut Queue, turn: &mut Turn<'_>| {
                queue.enqueue(turn, &request);
            }
        };
        let first = Enqueue::new(b"p").id(b"a");
        let mut update = first;
        update.update = true;
        let changes = step(primary, replica, enqueue(first));
        assert_eq!((changes.totals.enqueued, changes.counts[0]), (1, 1));
        assert_eq!(changes.kinds, Kinds::default());
        let changes = step(primary, replica, enqueue(update));
        assert_eq!((changes.totals, changes.counts), Default::default());
        assert!(changes.kinds.updated && !changes.kinds.extended);

        let mut token = Token::new(0);
        let changes = step(primary, replica, |queue, turn| {
            queue.dequeue(turn, 1, None, |delivery| token = delivery.token);
        });
        assert_eq!(changes.counts, [-1, 0, 1, 0, 0, 0, 0, 0]);
        let changes = step(primary, replica, |queue, turn| {
            queue
                .extend(turn, b"a", token, crate::Span::from_millis(5))
                .unwrap();
        });
        assert!(changes.kinds.extended && !changes.kinds.updated);
        let mut requeue = update;
        requeue.requeue = true;
        assert!(!step(primary, replica, enqueue(requeue)).kinds.updated);
        assert!(step(primary, replica, enqueue(requeue)).kinds.updated);
        let changes = step(primary, replica, |queue, turn| {
            queue.done(turn, b"a", token, Verdict::Release).unwrap();
        });
        assert!(changes.kinds.released && changes.counts[0] == 1);
        let changes = step(primary, replica, |queue, turn| {
            assert!(queue.cancel(turn, b"a"));
        });
        assert!(changes.kinds.cancelled && changes.counts[0] == -1);
    }

    #[test]
    fn what_a_snapshot_tells_has_not_happened_now() {
        let (mut queue, mut copy) = (Queue::new(1), Queue::new(2));
        step(&mut queue, &mut copy, |queue, turn| {
            queue.enqueue(turn, &Enqueue::new(b"p"));
        });
        let mut loaded = Queue::new(3);
        let mark = loaded.mark();
        queue.snapshot(|chunk| loaded.apply(chunk).unwrap());
        let changes = loaded.changes_since(&mark);
        assert_eq!((changes.totals, changes.counts[0]), (Totals::default(), 1));
    }

    #[test]
    fn a_token_far_beyond_the_clock_is_not_justified() {
        let mut queue = Queue::new(1);
        queue.frame.now_us = NOW;
        queue.last_token = NOW + 2;
        let none = Token::new(0);
        assert_eq!(queue.justified_token(none, 3), Token::new(NOW + 2));
        queue.last_token = 1 << 55;
        assert_eq!(queue.justified_token(none, 3), Token::new(NOW + 3));
        // The clock was set back after a floor was reached.
        let floor = Token::new(NOW + 1_000_000);
        queue.last_token = NOW + 1_000_002;
        assert_eq!(queue.justified_token(floor, 2), Token::new(NOW + 1_000_002));
    }
}
