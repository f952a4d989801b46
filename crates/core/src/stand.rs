//! What a message is by now, whoever has let time act so far: its delay over, its lock run out, its
//! time to live ended, its copy in its place.

use crate::copies::WaitingCopy;
use crate::message::{Cause, State};
use crate::queue::Queue;
use crate::types::{Status, Timestamp};

/// What a message in the index of live ones, or a dead letter, is by now.
#[derive(Clone, Copy)]
pub(crate) enum Stand<'a> {
    /// What the last step made it; time moves it on at `due`.
    Itself { status: Status, due: Timestamp },
    /// A dead letter.
    Dead { cause: Cause },
    /// Its copy has taken its place, and is due at `due` if that is still to come.
    Replaced {
        copy: &'a WaitingCopy,
        due: Timestamp,
    },
    /// Its copy had taken its place and has expired: a dead letter.
    BuriedCopy {
        copy: &'a WaitingCopy,
        due: Timestamp,
    },
    /// It has expired.
    Gone,
}

/// The end of what a copy waits for, or of the message if there is no copy.
#[derive(Clone, Copy)]
pub(crate) struct EndOfRun {
    pub at: Timestamp,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    LastLock,
    Expiry { bury: bool },
    Window,
}

/// How many messages ended, the message and its copy together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ends {
    /// By their time to live.
    pub expired: u64,
    /// As dead letters.
    pub deaths: u64,
}

impl Stand<'_> {
    /// The status at the moment that this was asked for; none if there is no message any more.
    pub fn status(&self, now: Timestamp) -> Option<Status> {
        match *self {
            Self::Itself { status, .. } => Some(status),
            Self::Dead { .. } | Self::BuriedCopy { .. } => Some(Status::Dead),
            Self::Replaced { due, .. } if due > now => Some(Status::QueuedWithBackoff),
            Self::Replaced { .. } => Some(Status::Queued),
            Self::Gone => None,
        }
    }
}

impl Queue {
    /// The status of a message at `now`; none if it has expired.
    pub(crate) fn status_of(&self, slot: u32, now: Timestamp) -> Option<Status> {
        self.stand(slot, now).status(now)
    }

    /// Whether and how a live message has come to its end by `now`, by time alone.
    pub(crate) fn end_of_run(&self, slot: u32, now: Timestamp) -> Option<EndOfRun> {
        let message = self.messages.get(slot);
        let expiry = |by| {
            self.expiry_by(slot, by).map(|expiry| EndOfRun {
                at: expiry.at,
                how: How::Expiry { bury: expiry.bury },
            })
        };
        match message.state() {
            State::Ready { .. } | State::Delayed { .. } => expiry(now),
            State::Locked { until, .. } if until > now => None,
            State::Locked { until, .. } if self.is_out_of_attempts(slot) => Some(EndOfRun {
                at: until,
                how: How::LastLock,
            }),
            // It gave the consumer its time, and then waited until it expired.
            State::Locked { until, .. } => expiry(now).map(|end| EndOfRun {
                at: end.at.max(until),
                ..end
            }),
            State::Done { until } => (until <= now).then_some(EndOfRun {
                at: until,
                how: How::Window,
            }),
            State::Dead { .. } => None,
        }
    }

    pub(crate) fn stand(&self, slot: u32, now: Timestamp) -> Stand<'_> {
        let message = self.messages.get(slot);
        let copy = self.copy(slot);
        let itself = |status, due| Stand::Itself { status, due };
        let Some(EndOfRun { at, how }) = self.end_of_run(slot, now) else {
            let never = Timestamp::ZERO;
            return match (message.state(), copy) {
                (State::Delayed { due }, _) if due > now => itself(Status::QueuedWithBackoff, due),
                (State::Locked { until, .. }, None) if until > now => itself(Status::Locked, until),
                (State::Locked { until, .. }, Some(_)) if until > now => {
                    itself(Status::LockedWithRequeue, until)
                }
                (State::Done { until }, None) => itself(Status::DoneWithBackoff, until),
                (State::Done { until }, Some(_)) => itself(Status::DoneWithRequeue, until),
                (State::Dead { cause, .. }, _) => Stand::Dead { cause },
                _ => itself(Status::Queued, never),
            };
        };
        if let Some(copy) = copy {
            let due = copy.start.due(at);
            match copy.expiry_by(now) {
                None => return Stand::Replaced { copy, due },
                Some(expiry) if expiry.bury => return Stand::BuriedCopy { copy, due },
                Some(_) => {}
            }
        }
        match how {
            How::LastLock => Stand::Dead {
                cause: Cause::LastLockExpired,
            },
            How::Expiry { bury: true } => Stand::Dead {
                cause: Cause::Expired,
            },
            How::Expiry { bury: false } => Stand::Gone,
            How::Window if copy.is_some() => Stand::Gone,
            How::Window => itself(Status::DoneAwaitingGc, Timestamp::ZERO),
        }
    }

    /// How many ends time alone has brought about by `now`.
    pub(crate) fn ends(&self, slot: u32, now: Timestamp) -> Ends {
        let mut ends = Ends::default();
        let Some(end) = self.end_of_run(slot, now) else {
            return ends;
        };
        match end.how {
            How::LastLock => ends.deaths += 1,
            How::Expiry { bury } => {
                ends.expired += 1;
                ends.deaths += u64::from(bury);
            }
            How::Window => {}
        }
        if let Some(expiry) = self.copy(slot).and_then(|copy| copy.expiry_by(now)) {
            ends.expired += 1;
            ends.deaths += u64::from(expiry.bury);
        }
        ends
    }

    /// When time next moves on what the message is by `now`.
    pub(crate) fn next_move(&self, slot: u32, now: Timestamp) -> Option<Timestamp> {
        let (due, expiry) = match self.stand(slot, now) {
            Stand::Itself { status, due } => {
                let waits = matches!(status, Status::Queued | Status::QueuedWithBackoff);
                (due, self.expiry(slot).filter(|_| waits))
            }
            Stand::Replaced { copy, due } => (due, copy.extras().expiry),
            Stand::Dead { .. } | Stand::BuriedCopy { .. } | Stand::Gone => return None,
        };
        let moves = [Some(due), expiry.map(|expiry| expiry.at)];
        moves.into_iter().flatten().filter(|at| *at > now).min()
    }
}
