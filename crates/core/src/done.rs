//! MQ.DONE and MQ.EXTEND: what the consumer of a delivery says of it.

use crate::apply::ApplyError;
use crate::backoff::exp_backoff;
use crate::effects::Effect;
use crate::id::Key;
use crate::message::{Cause, State};
use crate::queue::{count, Queue};
use crate::released::Return;
use crate::turn::Turn;
use crate::types::{Span, Timestamp, Token};

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The work is done.
    Success {
        /// How long the id stays taken.
        backoff: Backoff,
        /// What is kept of it.
        keep: Keep<'a>,
    },
    /// Again, later; dead if all attempts were used.
    Retry {
        /// The pause before it is ready.
        backoff: Backoff,
        /// What went wrong: kept with the message, and in the reason of its dead letter.
        reason: Option<&'a [u8]>,
    },
    /// Never again: the message becomes a dead letter.
    Error {
        /// Why, for whoever looks at it.
        reason: Option<&'a [u8]>,
    },
    /// Give it to another consumer at once, as if it had not been handed over.
    Release,
}

impl Verdict<'_> {
    /// Success with no dedupe window and no result.
    pub const SUCCESS: Self = Self::Success {
        backoff: Backoff::None,
        keep: Keep::NOTHING,
    };

    /// Success without a result that takes the id for a while.
    pub const fn success(backoff: Backoff) -> Self {
        let keep = Keep::NOTHING;
        Self::Success { backoff, keep }
    }
}

/// What a consumer wants to be kept of a success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep<'a> {
    /// The result. One that is kept without is empty.
    pub result: Option<&'a [u8]>,
    /// How long it is kept, zero for not at all; as the message says if not given, and for
    /// [`Settings::retain`](crate::Settings::retain) if that does not say either.
    pub retain: Option<Span>,
}

impl Keep<'_> {
    /// No result, unless the message asks for one to be kept.
    pub const NOTHING: Self = Self {
        result: None,
        retain: None,
    };
}

/// A pause after a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// No pause.
    None,
    /// This long.
    For(Span),
    /// [`exp_backoff`] of the attempt.
    Exponential,
}

/// What the message became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Removed.
    Done,
    /// Finished, the id taken for a while.
    DoneWithBackoff,
    /// The same, and a copy waits.
    DoneWithRequeue,
    /// Ready for a consumer.
    Queued,
    /// Waits for its time.
    QueuedWithBackoff,
    /// Its time to live has ended, and it is removed.
    Expired,
    /// A dead letter.
    Dead,
}

impl Ended {
    /// The word that replies use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::DoneWithBackoff => "done-with-backoff",
            Self::DoneWithRequeue => "done-with-requeue",
            Self::Queued => "queued",
            Self::QueuedWithBackoff => "queued-with-backoff",
            Self::Expired => "expired",
            Self::Dead => "dead",
        }
    }
}

/// The token is not that of the newest delivery, or a verdict has ended that delivery already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale;

/// A verdict with all that was chosen by clock, chance or settings made plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish<'a> {
    Success {
        until: Option<Timestamp>,
    },
    Retry {
        until: Option<Timestamp>,
        reason: Option<&'a [u8]>,
    },
    Error {
        reason: Option<&'a [u8]>,
    },
    Release {
        way: Return,
    },
}

/// The reason of a dead letter whose retry was not granted, before what its consumer said.
pub(crate) const NO_ATTEMPTS_LEFT: &[u8] = b"no attempts left";

impl Queue {
    /// Ends the delivery named `token` of the message `id`. None if no message has that id.
    ///
    /// # Errors
    /// [`Stale`]; nothing changed.
    pub fn done(
        &mut self,
        turn: &mut Turn<'_>,
        id: &[u8],
        token: Token,
        verdict: Verdict<'_>,
    ) -> Result<Option<Ended>, Stale> {
        self.let_time_act(turn);
        let Some(slot) = self.find_delivery(turn, id, token)? else {
            return Ok(None);
        };
        self.enter_frame(turn);
        let kept = match verdict {
            Verdict::Success { keep, .. } => self.to_be_kept(turn, slot, keep),
            _ => None,
        };
        let finish = match verdict {
            Verdict::Success { backoff, .. } => Finish::Success {
                until: self.end_of_backoff(turn, slot, backoff),
            },
            Verdict::Retry { backoff, reason } => Finish::Retry {
                until: self.end_of_backoff(turn, slot, backoff),
                reason,
            },
            Verdict::Error { reason } => Finish::Error { reason },
            Verdict::Release => Finish::Release {
                way: self.way_back(slot, token),
            },
        };
        let simple =
            finish == Finish::Success { until: None } && kept.is_none() && !self.has_copy(slot);
        if !(simple && self.emit_verbatim(turn)) {
            let key = self.messages.get(slot).key();
            self.emit(turn, &Effect::End { key, finish });
        }
        let ended = self.finish(slot, finish);
        if ended == Ended::Dead {
            self.forget_a_letter(turn);
        }
        if let Some((value, span)) = kept {
            self.keep(turn, Key::of(id), value, span);
        }
        Ok(Some(ended))
    }

    /// Lets the lock of the delivery named `token` end `span` from now; returns that instant.
    /// None if no message has that id.
    ///
    /// # Errors
    /// [`Stale`]; nothing changed.
    pub fn extend(
        &mut self,
        turn: &mut Turn<'_>,
        id: &[u8],
        token: Token,
        span: Span,
    ) -> Result<Option<Timestamp>, Stale> {
        self.let_time_act(turn);
        if !self.is_plain() && !self.may_extend(turn, id) {
            return Err(Stale);
        }
        let Some(slot) = self.find_delivery(turn, id, token)? else {
            return Ok(None);
        };
        self.enter_frame(turn);
        let until = self.frame.instant().after(span);
        self.emit(
            turn,
            &Effect::Extend {
                key: self.messages.get(slot).key(),
                until,
            },
        );
        self.lock_until(slot, until, token);
        Ok(Some(until))
    }

    /// The live message whose newest delivery is `token` and has no verdict yet. One that died
    /// because that delivery's lock ran out lives again: nobody else took it.
    #[inline]
    fn find_delivery(
        &mut self,
        turn: &mut Turn<'_>,
        id: &[u8],
        token: Token,
    ) -> Result<Option<u32>, Stale> {
        let key = Key::of(id);
        let live = self.find_by_now(turn, &key);
        let Some(slot) = live.or_else(|| self.find_letter_by_now(turn, &key)) else {
            return Ok(None);
        };
        if self.messages.get(slot).open_token() != Some(token) {
            return Err(Stale);
        }
        if live.is_none() {
            self.enter_frame(turn);
            self.emit(turn, &Effect::Revive { key });
            self.revive(slot, token);
        }
        Ok(Some(slot))
    }

    fn end_of_backoff(&self, turn: &Turn<'_>, slot: u32, backoff: Backoff) -> Option<Timestamp> {
        let span = match backoff {
            Backoff::None => Span::ZERO,
            Backoff::For(span) => span,
            Backoff::Exponential => {
                let settings = turn.settings;
                let attempt = self.messages.get(slot).attempts;
                exp_backoff(
                    attempt,
                    turn.random,
                    settings.backoff_factor,
                    settings.backoff_max,
                )
            }
        };
        (span != Span::ZERO).then(|| self.frame.instant().after(span))
    }

    /// Ends the newest delivery of a live message.
    #[inline]
    pub(crate) fn finish(&mut self, slot: u32, finish: Finish<'_>) -> Ended {
        let state = self.unlink(slot);
        if !matches!(finish, Finish::Release { .. }) {
            self.measure_work(state.open_token());
            self.forget_place(slot);
        }
        let now = self.frame.instant();
        match finish {
            Finish::Success { until: None } => {
                count(&mut self.totals.done);
                match self.take_copy(slot) {
                    Some(copy) => {
                        self.promote(slot, &copy, now);
                        self.queued_as(slot)
                    }
                    None => {
                        self.remove(slot);
                        Ended::Done
                    }
                }
            }
            Finish::Success { until: Some(until) } => {
                count(&mut self.totals.done);
                self.leave_batch(slot, false, now);
                self.set_reason(slot, None);
                self.forget_expiry(slot);
                self.note_end(slot, false);
                self.link(slot, State::Done { until });
                if self.has_copy(slot) {
                    Ended::DoneWithRequeue
                } else {
                    Ended::DoneWithBackoff
                }
            }
            Finish::Retry { reason, .. } if self.is_out_of_attempts(slot) => {
                let reason = reason.map(|reason| [NO_ATTEMPTS_LEFT, b": ", reason].concat());
                self.bury(slot, Cause::NoAttemptsLeft, None, reason.as_deref(), now);
                Ended::Dead
            }
            Finish::Retry { .. } | Finish::Release { .. }
                if self.expiry_by(slot, now).is_some() =>
            {
                self.finish_expired(slot, now)
            }
            Finish::Retry { until, reason } => {
                count(&mut self.totals.retried);
                self.set_reason(slot, reason);
                self.link(slot, State::waiting(until.unwrap_or_default(), now));
                self.start_timer(slot);
                self.queued_as(slot)
            }
            Finish::Error { reason } => {
                self.bury(slot, Cause::Failed, None, reason, now);
                Ended::Dead
            }
            Finish::Release { way } => {
                self.kinds.released = true;
                let message = self.messages.get_mut(slot);
                message.attempts = message.attempts.saturating_sub(1);
                // Without a token there is no delivery to end, and nobody comes here.
                let token = state.open_token().unwrap_or(self.last_token());
                self.link_released(slot, token, way);
                self.start_timer(slot);
                Ended::Queued
            }
        }
    }

    /// Ends an unlinked message that is given back after its time to live.
    fn finish_expired(&mut self, slot: u32, now: Timestamp) -> Ended {
        let Some(expiry) = self.expiry_by(slot, now) else {
            return self.queued_as(slot);
        };
        let lives_on = self.has_copy(slot) && !expiry.bury;
        self.end_by_expiry(slot, expiry, now);
        match expiry.bury {
            true => Ended::Dead,
            false if lives_on => self.queued_as(slot),
            false => Ended::Expired,
        }
    }

    fn queued_as(&self, slot: u32) -> Ended {
        match self.messages.get(slot).state() {
            State::Delayed { .. } => Ended::QueuedWithBackoff,
            _ => Ended::Queued,
        }
    }

    /// Locks a live message anew for its newest delivery.
    pub(crate) fn lock_until(&mut self, slot: u32, until: Timestamp, token: Token) {
        self.kinds.extended = true;
        self.unlink(slot);
        self.pause_timer(slot);
        self.link(slot, State::Locked { until, token });
    }

    /// Runs a consumer's plain success that the primary sent as it came.
    ///
    /// # Errors
    /// If the delivery is not the newest here: this queue is no longer that of the primary.
    pub fn replay_done(&mut self, id: &[u8], token: Token) -> Result<(), ApplyError> {
        let key = Key::of(id);
        match self.find_live(&key) {
            Some(slot) if self.messages.get(slot).open_token() == Some(token) => {
                self.keep_up();
                self.finish(slot, Finish::Success { until: None });
                Ok(())
            }
            _ => Err(ApplyError::Diverged(
                "a finished delivery is not the newest",
            )),
        }
    }
}
