//! The wait that all pollers of an empty queue share ("end of queue").

use crate::backoff::exp_backoff;
use crate::message::State;
use crate::queue::Queue;
use crate::turn::Turn;
use crate::types::{Settings, Span, Timestamp};

/// The state of the shared wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eoq {
    /// When the wait was drawn; it is void if the clock was set back before that.
    since: Timestamp,
    until: Timestamp,
    pub dry_runs: u32,
}

/// How long pollers wait, by the number of dry runs so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EoqWaits<'a> {
    /// [`exp_backoff`] of the dry runs, at most of 4.
    Exponential,
    /// The listed waits, the last for all further runs. Must not be empty.
    Listed(&'a [Span]),
}

/// Dry runs beyond this wait no longer.
const LAST_STEP: u32 = 4;

/// Entries of the schedule looked at for the time of the next ready message.
const LOOK: usize = 1024;

impl EoqWaits<'_> {
    /// The wait after so many dry runs.
    pub fn draw(&self, dry_runs: u32, random: u64, settings: &Settings) -> Span {
        match self {
            Self::Exponential => exp_backoff(
                dry_runs.min(LAST_STEP),
                random,
                settings.backoff_factor,
                settings.backoff_max,
            ),
            Self::Listed(spans) => {
                let at = (dry_runs as usize).min(spans.len().saturating_sub(1));
                spans.get(at).copied().unwrap_or_default()
            }
        }
    }
}

impl Queue {
    /// How long a poller that got nothing waits: what is left of the shared wait, or a new one.
    /// Never beyond the time when a message becomes ready, or a schedule's is to be enqueued.
    pub fn eoq_wait(&mut self, turn: &mut Turn<'_>, waits: EoqWaits<'_>) -> Span {
        let now = turn.now.instant();
        let mut longest = self.until_ready(now);
        if let Some(run) = self.next_run() {
            longest = longest.min(turn.clock().until(run));
        }
        let left = self.eoq_left(now);
        if left != Span::ZERO {
            return left.min(longest);
        }
        let wait = waits
            .draw(self.eoq.dry_runs, turn.random, turn.settings)
            .min(longest);
        let dry_runs = self.eoq.dry_runs.saturating_add(1);
        self.eoq = Eoq {
            since: now,
            until: now.after(wait),
            dry_runs,
        };
        wait
    }

    /// What is left of the shared wait.
    pub(crate) fn eoq_left(&self, now: Timestamp) -> Span {
        if now < self.eoq.since {
            Span::ZERO
        } else {
            now.until(self.eoq.until)
        }
    }

    /// Time until a message becomes ready, or less if too many would have to be looked at.
    fn until_ready(&self, now: Timestamp) -> Span {
        let mut best = Timestamp::MAX;
        let mut left = LOOK;
        for (start, list) in self.wheel.lists() {
            if start >= best {
                continue;
            }
            for slot in list.iter(&self.messages) {
                if left == 0 {
                    return now.until(start.min(best));
                }
                left -= 1;
                best = best.min(self.ready_at(slot).unwrap_or(Timestamp::MAX));
            }
        }
        if !self.is_plain() {
            best = best.min(self.bounded_due().unwrap_or(Timestamp::MAX));
        }
        // One that expires before its time may have a copy that is ready then.
        for (start, slot) in self.expiring() {
            if start >= best {
                continue;
            }
            if left == 0 {
                return now.until(start.min(best));
            }
            left -= 1;
            best = best.min(self.ready_at(slot).unwrap_or(Timestamp::MAX));
        }
        now.until(best)
    }

    /// When a message of the schedule gives consumers something, if ever.
    fn ready_at(&self, slot: u32) -> Option<Timestamp> {
        let message = self.messages.get(slot);
        // A follow-up may be ready when a message ends that it waits for.
        let waited_for = self.batches.is_some() && self.is_waited_for(slot);
        let copy_at = |ended| {
            if waited_for {
                return Some(ended);
            }
            let copy = self.copy(slot)?;
            let at = copy.start.due(ended).max(ended);
            copy.expiry_by(at).is_none().then_some(at)
        };
        match message.state() {
            State::Delayed { due } => match self.expiry_by(slot, due) {
                Some(expiry) => copy_at(expiry.at),
                None => Some(due),
            },
            State::Locked { until, .. } if self.is_out_of_attempts(slot) => copy_at(until),
            State::Locked { until, .. } if self.expiry_by(slot, until).is_some() => copy_at(until),
            State::Locked { until, .. } => Some(until),
            State::Done { until } => copy_at(until),
            State::Ready { .. } if waited_for => self.expiry(slot).map(|expiry| expiry.at),
            State::Ready { .. } | State::Dead { .. } | State::Waiting => None,
        }
    }
}
