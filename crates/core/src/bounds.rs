//! What bounds a whole queue: its limits and its pause.

use crate::limits::QueueLimits;
use crate::queue::Queue;
use crate::rate::Meter;
use crate::types::{Now, Timestamp, Token};

/// What few queues have; none is the same as [`Default`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub limits: QueueLimits,
    pub meter: Meter,
    /// When the pause ends; the epoch for one that somebody must end.
    pub pause: Option<Timestamp>,
    /// The newest token when the limit of attempts was set: it binds later deliveries.
    pub attempts_from: u64,
    /// The clock as time was last let act. Neither replicated nor kept.
    pub clock: Option<Now>,
}

impl Bounds {
    /// Whether there is nothing to remember.
    pub fn is_idle(&self) -> bool {
        self.limits == QueueLimits::default() && self.pause.is_none()
    }

    /// Counts a delivery.
    pub fn count_delivery(&mut self, now: Now) {
        if let Some(rate) = self.limits.rate {
            self.meter.count(rate, now.micros());
        }
    }

    /// How many deliveries the rate allows at `now`.
    fn rate_room(&self, now: Now) -> usize {
        match self.limits.rate {
            Some(rate) => self.meter.room(rate, now.micros()),
            None => usize::MAX,
        }
    }
}

/// What keeps ready messages from consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// As many deliveries have a running lock as may be.
    Inflight,
    /// The rate; it frees the next delivery at this instant.
    Rate(Timestamp),
}

impl Queue {
    /// Ready messages that a consumer would get, where groups or limits are to be asked.
    #[cold]
    pub(crate) fn bounded_ready(&self) -> usize {
        let clock = self.clock();
        match &self.bounds {
            Some(bounds) if bounds.pause.is_some() => 0,
            Some(bounds) => {
                let room = self.inflight_room().min(bounds.rate_room(clock));
                self.servable().min(room)
            }
            None => self.servable(),
        }
    }

    /// Ready messages that no group holds back.
    pub(crate) fn servable(&self) -> usize {
        self.counts.ready - self.held()
    }

    /// Ready messages whose group may not be served now.
    pub(crate) fn held(&self) -> usize {
        self.groups.as_ref().map_or(0, |groups| groups.held())
    }

    /// Deliveries that may still begin before as many run as may.
    pub(crate) fn inflight_room(&self) -> usize {
        match self
            .bounds
            .as_ref()
            .and_then(|bounds| bounds.limits.inflight)
        {
            Some(most) => {
                let locked = self.counts.locked + self.counts.locked_with_copy;
                (most as usize).saturating_sub(locked)
            }
            None => usize::MAX,
        }
    }

    /// The clock as time was last let act.
    fn clock(&self) -> Now {
        let clock = self.bounds.as_ref().and_then(|bounds| bounds.clock);
        clock.unwrap_or(self.frame_now())
    }

    /// Whether deliveries are paused.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.bounds
            .as_ref()
            .is_some_and(|bounds| bounds.pause.is_some())
    }

    /// Whether deliveries are paused at `now`, though time may not have been let act.
    pub(crate) fn is_paused_at(&self, now: Timestamp) -> bool {
        let until = self.bounds.as_ref().and_then(|bounds| bounds.pause);
        until.is_some_and(|until| until == Timestamp::ZERO || until > now)
    }

    /// When the pause at `now` ends; the epoch if there is none, or somebody must end it.
    pub(crate) fn paused_until(&self, now: Timestamp) -> Timestamp {
        let until = self.bounds.as_ref().and_then(|bounds| bounds.pause);
        until.filter(|until| *until > now).unwrap_or_default()
    }

    /// What keeps the messages that could be served from consumers at `now`, a pause aside.
    pub(crate) fn limited(&self, now: Now) -> Option<Limited> {
        let bounds = self.bounds.as_ref()?;
        if self.servable() == 0 {
            None
        } else if self.inflight_room() == 0 {
            Some(Limited::Inflight)
        } else {
            let rate = bounds.limits.rate?;
            bounds.meter.free_at(rate, now.micros()).map(Limited::Rate)
        }
    }

    /// When groups, a pause or the rate next ask for the clock; the epoch when they should already
    /// have been.
    #[cold]
    pub(crate) fn bounded_due(&self) -> Option<Timestamp> {
        let groups = self.groups.as_ref().and_then(|groups| groups.next_due());
        let of_pause = self.bounds.as_ref().and_then(|bounds| bounds.pause);
        let pause = of_pause.filter(|until| *until != Timestamp::ZERO);
        let rate = match self.limited(self.clock()) {
            Some(Limited::Rate(free)) if of_pause.is_none() => Some(free),
            _ => None,
        };
        [groups, pause, rate].into_iter().flatten().min()
    }

    /// How many dead letters are kept.
    #[inline]
    pub(crate) fn most_letters(&self, max_dead: u32) -> usize {
        let own = self.bounds.as_ref().and_then(|bounds| bounds.limits.dead);
        own.unwrap_or(max_dead) as usize
    }

    /// Whether a message has had all deliveries it may have.
    #[inline]
    pub(crate) fn is_out_of_attempts(&self, slot: u32) -> bool {
        let message = self.messages.get(slot);
        match &self.bounds {
            Some(bounds) if message.limits().attempts == 0 => {
                let newest = message.open_token().map_or(0, Token::value);
                let most = bounds.limits.attempts;
                most.is_some_and(|most| message.attempts >= most) && newest > bounds.attempts_from
            }
            _ => message.is_out_of_attempts(),
        }
    }

    /// Forgets about bounds if there are none.
    pub(crate) fn drop_idle_bounds(&mut self) {
        if self.bounds.as_ref().is_some_and(|bounds| bounds.is_idle()) {
            self.bounds = None;
        }
    }
}
