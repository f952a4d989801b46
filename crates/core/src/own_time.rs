//! The queue's own time. A server may be behind the one that worked on the queue before: it was
//! started anew with its clock set back, or the queue came in a dump. Then the queue's time goes on
//! from its last step, so that no lock and no delay lasts longer than it has left.
//!
//! By how much it is ahead of the server's time is kept and replicated. The server that decides
//! settles it with the queue's next step; until then whoever reads works it out.

use crate::effects::Effect;
use crate::queue::Queue;
use crate::turn::Turn;
use crate::types::{Now, Timestamp};

/// A server that is behind by less counts as right, in microseconds.
const SAME_US: u64 = 1_000_000;

impl Queue {
    /// By how many milliseconds the queue's own time is ahead of the server's, `now`.
    #[inline]
    pub fn ahead_ms(&self, now: Now) -> u64 {
        // Each is below 2^56 microseconds.
        let own_us = now.micros() + self.ahead_ms * 1000;
        if own_us + SAME_US >= self.frame.now_us {
            self.ahead_ms
        } else {
            self.ahead_ms + (self.frame.now_us - own_us).div_ceil(1000)
        }
    }

    /// The queue's own time at the server's `now`: what all other methods and a [`Turn`] take.
    #[inline]
    pub fn own_time(&self, now: Now) -> Now {
        Now::from_micros(now.micros() + self.ahead_ms(now) * 1000)
    }

    /// The server's time at a moment of the queue's own.
    pub fn server_time(&self, own: Now) -> Now {
        Now::from_micros(own.micros().saturating_sub(self.ahead_ms * 1000))
    }

    /// Whether the queue's time is still to be settled: it stands still until then.
    #[inline]
    pub fn is_unsettled(&self, now: Now) -> bool {
        self.ahead_ms(now) != self.ahead_ms
    }

    /// [`Queue::next_due`] by the server's time; the epoch also where the queue's time is to be settled.
    #[inline]
    pub fn next_due_by_server(&self, now: Now) -> Option<Timestamp> {
        let due = self.next_due()?;
        Some(if self.is_unsettled(now) {
            Timestamp::ZERO
        } else {
            Timestamp::from_millis(due.millis().saturating_sub(self.ahead_ms))
        })
    }

    /// Lets the queue's time go on from its last step if the server is behind, at `now`; the turn must be
    /// at [`Queue::own_time`] of that.
    #[inline]
    pub fn settle_time(&mut self, turn: &mut Turn<'_>, now: Now) {
        let ahead_ms = self.ahead_ms(now);
        if ahead_ms != self.ahead_ms {
            self.enter_frame(turn);
            self.emit(turn, &Effect::Ahead { ms: ahead_ms });
            self.ahead_ms = ahead_ms;
        }
    }

    /// Whether the queue's time can be so far ahead at its frame: the server's was after 1970.
    pub(crate) fn can_be_ahead(&self, ms: u64) -> bool {
        ms <= self.frame.now_us.div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enqueue, Loader, Log, Replication, Settings, Span, Status, Token};

    const NOW: u64 = 1_700_000_000_123_456;
    const HOUR: u64 = 3_600_000_000;

    /// A step as a server takes it whose clock shows `now`; gives its effects.
    fn step(queue: &mut Queue, now: u64, run: impl FnOnce(&mut Queue, &mut Turn<'_>)) -> Vec<u8> {
        let (settings, mut log) = (Settings::default(), Log::default());
        let now = Now::from_micros(now);
        let mut turn = Turn::new(queue.own_time(now), 1, &settings, &mut log);
        turn.spell_out();
        queue.settle_time(&mut turn, now);
        run(queue, &mut turn);
        queue.check().unwrap();
        match log.replication() {
            Replication::Effects(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn locked_at(now: u64) -> Queue {
        let mut queue = Queue::new(1);
        step(&mut queue, now, |queue, turn| {
            queue.enqueue(turn, &Enqueue::new(b"p").id(b"a"));
            let lock = Some(Span::from_millis(60_000));
            assert_eq!(queue.dequeue(turn, 1, lock, |_| {}), 1);
        });
        queue
    }

    fn reloaded(queue: &Queue) -> Queue {
        let mut loader = Loader::new(2);
        queue.snapshot(|chunk| loader.feed(chunk).unwrap());
        loader.finish().unwrap()
    }

    fn status(queue: &Queue, now: u64) -> Option<Status> {
        queue.status(queue.own_time(Now::from_micros(now)), b"a")
    }

    #[test]
    fn on_a_server_that_is_behind_a_lock_has_left_what_it_had() {
        let mut replica = locked_at(NOW);
        let mut queue = reloaded(&replica);
        let then = NOW - HOUR;
        assert_eq!(status(&queue, then), Some(Status::Locked));
        assert!(queue.is_unsettled(Now::from_micros(then)));
        let effects = step(&mut queue, then, |_, _| {});
        replica.apply(&effects).unwrap();
        for queue in [&queue, &replica, &reloaded(&queue)] {
            assert_eq!(queue.ahead_ms(Now::from_micros(then)), HOUR / 1000);
            assert_eq!(status(queue, then + 59_000_000), Some(Status::Locked));
            assert_eq!(status(queue, then + 60_000_000), Some(Status::Queued));
        }
        let mut digests = [Vec::new(), Vec::new()];
        queue.digest(|chunk| digests[0].extend_from_slice(chunk));
        replica.digest(|chunk| digests[1].extend_from_slice(chunk));
        assert_eq!(digests[0], digests[1]);
    }

    #[test]
    fn it_adds_up_when_the_clock_is_set_back_again() {
        let mut queue = locked_at(NOW);
        step(&mut queue, NOW - HOUR, |_, _| {});
        step(&mut queue, NOW - 3 * HOUR, |_, _| {});
        let now = Now::from_micros(NOW - 3 * HOUR);
        assert_eq!(queue.ahead_ms(now), 3 * HOUR / 1000);
        assert_eq!(queue.server_time(queue.own_time(now)), now);
    }

    #[test]
    fn less_than_a_second_changes_nothing() {
        let mut queue = locked_at(NOW);
        let then = Now::from_micros(NOW - 1_000_000);
        assert_eq!(queue.own_time(then), then);
        assert!(!queue.is_unsettled(then));
        let before = queue.ahead_ms;
        step(&mut queue, then.micros(), |queue, turn| {
            queue.enqueue(turn, &Enqueue::new(b"p"));
        });
        assert_eq!(queue.ahead_ms, before);
    }

    #[test]
    fn a_queue_from_any_time_goes_on_at_any_time() {
        for frame in [0, 1, NOW, Token::MAX.value() - 1, Token::MAX.value()] {
            for now in [0, 1, NOW, Token::MAX.value()] {
                let mut queue = locked_at(frame);
                step(&mut queue, now, |queue, turn| {
                    queue.enqueue(turn, &Enqueue::new(b"p"));
                });
                let own = queue.own_time(Now::from_micros(now)).micros();
                assert!(own + SAME_US >= queue.frame.now_us, "{frame} at {now}");
                reloaded(&queue).check().unwrap();
            }
        }
    }

    #[test]
    fn a_time_before_1970_is_refused() {
        let mut queue = locked_at(NOW);
        let mut effects = step(&mut queue, NOW - HOUR, |_, _| {});
        let mut replica = locked_at(NOW);
        // The last byte of the number, which is below 2^28.
        let last = effects.len() - 1;
        effects[last] |= 0x80;
        effects.extend([0xFF, 0xFF, 0x7F]);
        assert!(replica.apply(&effects).is_err());
        queue.ahead_ms = queue.frame.now_us / 1000 + 2;
        let mut loader = Loader::new(2);
        let mut fed = Ok(());
        queue.snapshot(|chunk| fed = fed.and_then(|()| loader.feed(chunk)));
        assert!(fed.is_err());
    }
}
