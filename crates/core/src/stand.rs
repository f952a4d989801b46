//! What a message is by now, whoever has let time act so far: its delay over, its lock run out, its
//! time to live ended, its copy in its place.

use crate::copies::WaitingCopy;
use crate::message::{Cause, State};
use crate::queue::Queue;
use crate::types::{Priority, Status, Timestamp};

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
    /// As dead letters, the message's own first.
    pub deaths: [Option<Death>; 2],
}

/// The death of a message that time has moved on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Death {
    /// When its life ended.
    pub ended: Timestamp,
    /// When it became a letter: later if it is a copy that had expired before its turn came.
    pub at: Timestamp,
}

/// What there is in a slot by now. Both are of one id.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stands<'a> {
    /// The live message.
    pub live: Option<Stand<'a>>,
    /// The dead letter.
    pub letter: Option<Stand<'a>>,
}

/// When a message that became ready at some instant came, among those of that instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arrival {
    /// In the order of the schedule.
    Own,
    /// Behind them: the delay began only when the copy's run or window had ended, which was then.
    OfDelayedCopy(Timestamp),
    /// Behind those: it took the place of a message that expired.
    OfExpiry,
}

/// Where a message that time has moved on comes among those; all of them come behind the others.
pub(crate) type Rank = (Priority, Timestamp, Arrival);

impl<'a> Stands<'a> {
    /// The one of both that may have this status.
    pub fn of(self, status: Status) -> Option<Stand<'a>> {
        if status == Status::Dead {
            self.letter
        } else {
            self.live
        }
    }
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
            State::Dead { .. } | State::Waiting => None,
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
                (State::Dead { died, .. }, _) if self.is_let_go(died, now) => Stand::Gone,
                (State::Dead { cause, .. }, _) => Stand::Dead { cause },
                (State::Waiting, _) => itself(Status::Waiting, never),
                _ => itself(Status::Queued, never),
            };
        };
        if let Some(copy) = copy {
            let due = copy.start.due(at);
            match copy.expiry_by(now) {
                None => return Stand::Replaced { copy, due },
                Some(expiry) if expiry.bury => {
                    if self
                        .end_of_new_letter(slot, now)
                        .is_some_and(|end| end <= now)
                    {
                        return Stand::Gone;
                    }
                    return Stand::BuriedCopy { copy, due };
                }
                Some(_) => {}
            }
        }
        match how {
            How::LastLock | How::Expiry { bury: true } if self.is_let_go(self.death(at), now) => {
                Stand::Gone
            }
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

    /// What there is in a slot at `now`: a live message that has died by then leaves a letter, and its
    /// copy lives on. A dead letter goes when a newer one of its id comes.
    pub(crate) fn stands(&self, slot: u32, now: Timestamp) -> Stands<'_> {
        let message = self.messages.get(slot);
        if let State::Dead { cause, .. } = message.state() {
            let live = self.find_live(&message.key());
            let is_replaced = live.is_some_and(|live| self.has_died(live, now));
            let is_there = !is_replaced && !self.is_over(slot, now);
            let letter = is_there.then_some(Stand::Dead { cause });
            return Stands { live: None, letter };
        }
        let stand = self.stand(slot, now);
        let (live, letter) = match stand {
            Stand::Dead { .. } | Stand::BuriedCopy { .. } => (None, Some(stand)),
            Stand::Gone => (None, None),
            Stand::Itself { .. } => (Some(stand), None),
            Stand::Replaced { .. } => {
                let end = self.end_of_run(slot, now);
                let end = end.filter(|end| !self.is_let_go(self.death(end.at), now));
                let cause = match end.map(|end| end.how) {
                    Some(How::LastLock) => Some(Cause::LastLockExpired),
                    Some(How::Expiry { bury: true }) => Some(Cause::Expired),
                    _ => None,
                };
                (Some(stand), cause.map(|cause| Stand::Dead { cause }))
            }
        };
        Stands { live, letter }
    }

    /// The status that the counts of the last step have a message under.
    pub(crate) fn counted_as(&self, slot: u32) -> Status {
        let has_copy = self.has_copy(slot);
        match self.messages.get(slot).state() {
            State::Ready { .. } => Status::Queued,
            State::Delayed { .. } => Status::QueuedWithBackoff,
            State::Locked { .. } if has_copy => Status::LockedWithRequeue,
            State::Locked { .. } => Status::Locked,
            State::Done { .. } if has_copy => Status::DoneWithRequeue,
            State::Done { .. } => Status::DoneWithBackoff,
            State::Dead { .. } => Status::Dead,
            State::Waiting => Status::Waiting,
        }
    }

    /// Whether time has moved a message on by `now`, and nobody has let it act.
    pub(crate) fn is_moved_on(&self, slot: u32, now: Timestamp) -> bool {
        let message = self.messages.get(slot);
        (message.is_scheduled() && message.due() <= now)
            || (message.waits() && self.expiry_by(slot, now).is_some())
    }

    /// What a scheduled message becomes at its time, if that follows from the message alone: it has no
    /// copy, does not expire, and does not die. Nearly all are so where very many are due and nobody
    /// lets time act, and to ask this is ten times faster than [`Queue::stands`].
    pub(crate) fn simply_becomes(&self, slot: u32) -> Option<Status> {
        let message = self.messages.get(slot);
        if message.rare().is_some() || message.timer().is_some() {
            return None;
        }
        match message.state() {
            State::Delayed { .. } => Some(Status::Queued),
            State::Locked { .. } if self.is_out_of_attempts(slot) => None,
            State::Locked { .. } => Some(Status::Queued),
            State::Done { .. } => Some(Status::DoneAwaitingGc),
            State::Ready { .. } | State::Dead { .. } | State::Waiting => None,
        }
    }

    /// The messages that time has moved on by `now`, though nobody has let it act; those of the
    /// schedule in their order.
    pub(crate) fn moved_on(&self, now: Timestamp) -> impl Iterator<Item = u32> + '_ {
        let lists = self.wheel.lists().filter(move |(start, _)| *start <= now);
        let due = lists.flat_map(|(_, list)| list.iter(&self.messages));
        let due = due.filter(move |slot| self.messages.get(*slot).due() <= now);
        // What the schedule has moved on by now is among those.
        let expired = self.expired(now).filter(move |slot| {
            let message = self.messages.get(*slot);
            !message.is_scheduled() || message.due() > now
        });
        due.chain(expired)
    }

    /// Where a message that time has made ready by `now` comes among those.
    pub(crate) fn rank(&self, slot: u32, now: Timestamp) -> Option<Rank> {
        let message = self.messages.get(slot);
        let end = self.end_of_run(slot, now).map(|end| end.at);
        let ended = end.unwrap_or(message.due());
        match self.stand(slot, now) {
            Stand::Replaced { due, .. } if due > now => None,
            Stand::Replaced { copy, due: later } if later > ended => {
                Some((copy.priority, later, Arrival::OfDelayedCopy(ended)))
            }
            Stand::Replaced { copy, .. } => {
                Some((copy.priority, ended, self.arrival_of_end(slot, now)))
            }
            Stand::Itself {
                status: Status::Queued,
                ..
            } => Some((message.priority(), ended, Arrival::Own)),
            _ => None,
        }
    }

    /// Of equal instants, what ended by the schedule comes first.
    fn arrival_of_end(&self, slot: u32, now: Timestamp) -> Arrival {
        let Some(end) = self.end_of_run(slot, now) else {
            return Arrival::Own;
        };
        let by_lock = match self.messages.get(slot).state() {
            State::Locked { until, .. } => until == end.at,
            _ => false,
        };
        match end.how {
            How::Expiry { .. } if !by_lock => Arrival::OfExpiry,
            _ => Arrival::Own,
        }
    }

    /// The messages that time has given this status by `now`, though nobody has let it act, in the
    /// order that they come in behind the others.
    pub(crate) fn moved_to(&self, status: Status, now: Timestamp) -> Vec<(Rank, u32)> {
        let place = |slot: u32| {
            let message = self.messages.get(slot);
            if let Some(becomes) = self.simply_becomes(slot) {
                let priority = match becomes {
                    Status::Queued => message.priority(),
                    _ => Priority::default(),
                };
                return (becomes == status).then_some((priority, message.due(), Arrival::Own));
            }
            let stands = self.stands(slot, now);
            let stand = stands
                .of(status)
                .filter(|stand| stand.status(now) == Some(status))?;
            if status == Status::Queued {
                return self.rank(slot, now);
            }
            let ended = self.end_of_run(slot, now).map(|end| end.at);
            let ended = ended.unwrap_or(message.due());
            let mut arrival = self.arrival_of_end(slot, now);
            let at = match stand {
                Stand::BuriedCopy { copy, .. } => {
                    let expiry = copy.expiry_by(now).map(|expiry| expiry.at);
                    if expiry >= Some(ended) {
                        arrival = Arrival::OfExpiry;
                    }
                    expiry.map_or(ended, |expiry| expiry.max(ended))
                }
                Stand::Replaced { due, .. } if status != Status::Dead => due,
                _ => ended,
            };
            Some((Priority::default(), at, arrival))
        };
        let moved = self.moved_on(now);
        let mut moved: Vec<_> = moved
            .filter_map(|slot| Some((place(slot)?, slot)))
            .collect();
        moved.sort_by_key(|(rank, _)| *rank);
        moved
    }

    /// How many ends time alone has brought about by `now`.
    pub(crate) fn ends(&self, slot: u32, now: Timestamp) -> Ends {
        let mut ends = Ends::default();
        let Some(end) = self.end_of_run(slot, now) else {
            return ends;
        };
        let own = Death {
            ended: end.at,
            at: end.at,
        };
        match end.how {
            How::LastLock => ends.deaths[0] = Some(own),
            How::Expiry { bury } => {
                ends.expired += 1;
                ends.deaths[0] = bury.then_some(own);
            }
            How::Window => {}
        }
        if let Some(expiry) = self.copy(slot).and_then(|copy| copy.expiry_by(now)) {
            ends.expired += 1;
            ends.deaths[1] = expiry.bury.then_some(Death {
                ended: expiry.at,
                at: expiry.at.max(end.at),
            });
        }
        ends
    }

    /// When what is in the slot became the dead letter that it is by `now`.
    pub(crate) fn died_at(&self, slot: u32, now: Timestamp) -> Timestamp {
        if let State::Dead { died, .. } = self.messages.get(slot).state() {
            return died;
        }
        let deaths = self.ends(slot, now).deaths.into_iter().flatten();
        let died = deaths.map(|death| self.death(death.ended));
        died.max().unwrap_or_default()
    }

    /// Whether time alone has made it a dead letter by `now`, or its copy.
    pub(crate) fn has_died(&self, slot: u32, now: Timestamp) -> bool {
        self.ends(slot, now).deaths != [None, None]
    }

    /// When the dead letter goes that time alone has made of the message by `now`, if any.
    fn end_of_new_letter(&self, slot: u32, now: Timestamp) -> Option<Timestamp> {
        let deaths = self.ends(slot, now).deaths.into_iter().flatten();
        let died = deaths.map(|death| death.ended).max()?;
        self.end_of_letter(self.death(died))
    }

    /// When time next moves on what the message is by `now`.
    pub(crate) fn next_move(&self, slot: u32, now: Timestamp) -> Option<Timestamp> {
        let (due, expiry) = match self.stand(slot, now) {
            Stand::Itself { status, due } => {
                let waits = matches!(status, Status::Queued | Status::QueuedWithBackoff);
                (due, self.expiry(slot).filter(|_| waits))
            }
            Stand::Replaced { copy, due } => (due, copy.extras().expiry),
            Stand::Dead { .. } | Stand::BuriedCopy { .. } | Stand::Gone => (Timestamp::ZERO, None),
        };
        let letter = self.end_of_new_letter(slot, now);
        let moves = [Some(due), expiry.map(|expiry| expiry.at), letter];
        moves.into_iter().flatten().filter(|at| *at > now).min()
    }
}
