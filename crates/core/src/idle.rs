//! When a queue that nobody uses may go.

use crate::limits::QueueLimits;
use crate::queue::Queue;
use crate::types::{Span, Timestamp};

/// Since when a queue has held nothing and had no settings but [`QueueLimits::idle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idleness {
    since: Timestamp,
    /// The queue's own [`QueueLimits::idle`].
    own: Option<Span>,
}

impl Idleness {
    /// See [`Queue::idle_at`].
    #[inline]
    pub fn ends_at(&self, idle: Span) -> Option<Timestamp> {
        let idle = self.own.unwrap_or(idle);
        (idle != Span::ZERO).then(|| self.since.after(idle))
    }
}

impl Queue {
    /// Whether there is nothing in the queue: messages, or anything of groups.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.is_empty() && self.groups.is_none() && self.schedules.is_none()
    }

    /// From when on the queue may go, if nothing happens until then: it has held nothing and had no
    /// settings for as long as [`QueueLimits::idle`] says, or `idle` if it has none. None if it stays.
    ///
    /// It is by the server's time, not the queue's own: then the clock is past every token that the
    /// queue has given, and no later queue of the same name gives one of them again.
    #[inline]
    pub fn idle_at(&self, idle: Span) -> Option<Timestamp> {
        if idle == Span::ZERO && self.bounds.is_none() {
            return None;
        }
        self.idleness()?.ends_at(idle)
    }

    /// None while it holds something or has settings. A pause that ends by itself counts until its end.
    pub(crate) fn idleness(&self) -> Option<Idleness> {
        if !self.holds_nothing() {
            return None;
        }
        let mut since = self.frame.instant().max(self.end_of_tokens());
        let mut own = None;
        if let Some(bounds) = &self.bounds {
            own = bounds.limits.idle;
            let only_idle = QueueLimits {
                idle: own,
                ..QueueLimits::default()
            };
            if bounds.limits != only_idle || bounds.pause == Some(Timestamp::ZERO) {
                return None;
            }
            since = since.max(bounds.pause.unwrap_or_default());
        }
        Some(Idleness { since, own })
    }

    /// From when on the clock is past all tokens that the queue has given.
    fn end_of_tokens(&self) -> Timestamp {
        Timestamp::from_millis(self.last_token / 1000 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enqueue, LimitChanges, Log, Now, Scope, Settings, Token, Turn, Verdict};

    const START_MS: u64 = 1_700_000_000_000;

    const fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    /// A step of a server whose clock shows `at` milliseconds after the start.
    fn step<R>(queue: &mut Queue, at: u64, run: impl FnOnce(&mut Queue, &mut Turn<'_>) -> R) -> R {
        let (settings, mut log) = (Settings::default(), Log::default());
        let now = Now::from_micros((START_MS + at) * 1000);
        run(queue, &mut Turn::new(now, 1, &settings, &mut log))
    }

    fn limit(queue: &mut Queue, at: u64, scope: Scope<'_>, changes: LimitChanges) {
        step(queue, at, |queue, turn| {
            queue.set_limits(turn, scope, &changes).unwrap();
        });
    }

    /// When it may go, in milliseconds after the start, if the server lets queues go after `idle`.
    fn ends(queue: &Queue, idle: u64) -> Option<u64> {
        let at = queue.idle_at(ms(idle))?;
        Some(at.millis() - START_MS)
    }

    fn emptied_at(at: u64) -> Queue {
        let mut queue = Queue::new(1);
        let token = step(&mut queue, 0, |queue, turn| {
            let mut token = None;
            queue.enqueue(turn, &Enqueue::new(b"p").id(b"a"));
            queue.dequeue(turn, 1, None, |delivery| token = Some(delivery.token));
            token
        });
        assert_eq!(queue.idleness(), None, "a message is locked");
        step(&mut queue, at, |queue, turn| {
            queue
                .done(turn, b"a", token.unwrap(), Verdict::SUCCESS)
                .unwrap();
        });
        queue
    }

    #[test]
    fn it_counts_from_the_last_change_and_reading_changes_nothing() {
        let mut queue = emptied_at(70);
        assert_eq!(ends(&queue, 500), Some(570));
        assert_eq!(ends(&queue, 0), None, "never");
        let got = step(&mut queue, 300, |queue, turn| {
            queue.dequeue(turn, 1, None, |_| {})
        });
        assert_eq!((got, ends(&queue, 500)), (0, Some(570)));
    }

    #[test]
    fn a_queue_s_own_time_wins_and_is_no_setting_that_keeps_it() {
        let mut queue = emptied_at(70);
        let own = |idle: Option<u64>| LimitChanges {
            idle: Some(idle.map(ms)),
            ..LimitChanges::default()
        };
        limit(&mut queue, 80, Scope::Queue, own(Some(30)));
        assert_eq!((ends(&queue, 500), ends(&queue, 0)), (Some(110), Some(110)));
        limit(&mut queue, 90, Scope::Queue, own(None));
        assert_eq!((ends(&queue, 500), ends(&queue, 0)), (Some(590), None));
    }

    #[test]
    fn other_settings_keep_it_until_they_are_taken_away() {
        let length = |length| LimitChanges {
            length: Some(length),
            ..LimitChanges::default()
        };
        for scope in [Scope::Queue, Scope::Groups, Scope::Group(b"g")] {
            let mut queue = emptied_at(70);
            limit(&mut queue, 80, scope, length(Some(5)));
            assert_eq!(ends(&queue, 500), None, "{scope:?}");
            limit(&mut queue, 90, scope, length(None));
            assert_eq!(ends(&queue, 500), Some(590), "{scope:?}");
        }
    }

    #[test]
    fn a_pause_counts_until_it_ends() {
        for group in [None, Some(b"g".as_slice())] {
            let mut queue = emptied_at(70);
            step(&mut queue, 80, |queue, turn| {
                queue.pause(turn, group, None).unwrap();
            });
            assert_eq!(ends(&queue, 500), None, "somebody must end it");
            step(&mut queue, 90, |queue, turn| queue.resume(turn, group));
            assert_eq!(ends(&queue, 500), Some(590));
            step(&mut queue, 100, |queue, turn| {
                queue.pause(turn, group, Some(ms(900))).unwrap();
            });
            if group.is_none() {
                assert_eq!(ends(&queue, 500), Some(1500));
            }
            step(&mut queue, 1010, Queue::let_time_act);
            assert_eq!(ends(&queue, 500), Some(1510));
        }
    }

    #[test]
    fn it_stays_until_the_clock_is_past_its_tokens() {
        let mut queue = emptied_at(70);
        step(&mut queue, 80, |queue, turn| {
            let ahead = Token::new((START_MS + 60_000) * 1000 + 1);
            queue.continue_tokens(turn, ahead);
        });
        assert_eq!(ends(&queue, 500), Some(60_501));
    }
}
