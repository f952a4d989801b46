//! TTL: an instant after which a message is not handed over any more.
//!
//! It ends waiting, not work. While the message waits its timer is armed; with a consumer it is only
//! remembered, and what gives the message back looks at it. Whoever let time act so far, what holds
//! at a moment is told by [`Queue::expiry_by`].

use crate::codec::{Damaged, Reader};
use crate::effects::{read_instant, Content, Effect};
use crate::message::Cause;
use crate::queue::{count, Queue};
use crate::timers::{Owner, Timers};
use crate::turn::Turn;
use crate::types::Timestamp;

/// The reason of a dead letter that expired.
pub(crate) const EXPIRED: &[u8] = b"expired";

/// When a message stops waiting, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub at: Timestamp,
    /// A dead letter then; else it goes.
    pub bury: bool,
}

impl Expiry {
    /// The numbers it is written as.
    pub fn numbers(self) -> [u64; 2] {
        [self.at.millis(), u64::from(self.bury)]
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let at = read_instant(reader)?;
        let bury = reader.number_to(1)? == 1;
        Ok(Self { at, bury })
    }
}

impl Queue {
    /// When the message expires.
    #[inline]
    pub(crate) fn expiry(&self, slot: u32) -> Option<Expiry> {
        let timer = self.messages.get(slot).timer()?;
        let timers = self.timers.as_ref()?;
        Some(Expiry {
            at: timers.due(timer),
            bury: matches!(timers.owner(timer), Owner::Buried(_)),
        })
    }

    /// The same, if it has come by `at`.
    #[inline]
    pub(crate) fn expiry_by(&self, slot: u32, at: Timestamp) -> Option<Expiry> {
        self.expiry(slot).filter(|expiry| expiry.at <= at)
    }

    /// Whether an armed timer may have something to do.
    #[inline]
    pub(crate) fn has_due_timers(&self, now: Timestamp) -> bool {
        self.timers
            .as_ref()
            .is_some_and(|timers| timers.is_due_at(now))
    }

    /// Makes a timer for a message of this content, which [`Queue::start_timer`] must be told of when the
    /// message has its place.
    #[inline]
    pub(crate) fn make_timer(&mut self, content: &Content<'_>) -> Option<u32> {
        let Expiry { at, bury } = content.extras.expiry?;
        let now = self.frame.instant();
        let timers = self.timers.get_or_insert_with(|| {
            let mut timers = Box::new(Timers::default());
            timers.is_quiet_at(now);
            timers
        });
        Some(timers.insert(owner(u32::MAX, bury), at))
    }

    /// Gives the timer of a message its owner, and arms it if the message waits.
    #[inline]
    pub(crate) fn start_timer(&mut self, slot: u32) {
        let message = self.messages.get(slot);
        let Some(timer) = message.timer() else { return };
        let waits = message.waits();
        if let Some(timers) = &mut self.timers {
            let bury = matches!(timers.owner(timer), Owner::Buried(_));
            timers.set_owner(timer, owner(slot, bury));
            if waits {
                timers.arm(timer);
            }
        }
    }

    /// Lets the timer of a message that a consumer gets or has only be remembered.
    #[inline]
    pub(crate) fn pause_timer(&mut self, slot: u32) {
        if let (Some(timer), Some(timers)) = (self.messages.get(slot).timer(), &mut self.timers) {
            timers.disarm(timer);
        }
    }

    /// Forgets the timer of a message that gets other content, or goes; nothing but the message's
    /// allocation names it any more.
    #[inline]
    pub(crate) fn drop_timer(&mut self, slot: u32) {
        let Some(timer) = self.messages.get(slot).timer() else {
            return;
        };
        if let Some(timers) = &mut self.timers {
            timers.remove(timer);
            if timers.is_empty() {
                self.timers = None;
            }
        }
    }

    /// Forgets when the message expires: it has ended.
    pub(crate) fn forget_expiry(&mut self, slot: u32) {
        if self.messages.get(slot).timer().is_some() {
            self.drop_timer(slot);
            self.change_body(slot, |message| message.set_timer(None));
        }
    }

    /// Ends an unlinked message that has expired, at `at` of the time it waited. A waiting copy takes
    /// its place.
    pub(crate) fn end_by_expiry(&mut self, slot: u32, expiry: Expiry, at: Timestamp) {
        count(&mut self.totals.expired);
        self.forget_place(slot);
        if expiry.bury {
            self.bury(slot, Cause::Expired, None, None, at);
        } else if let Some(copy) = self.take_copy(slot) {
            self.promote(slot, &copy, at);
        } else {
            self.leave_batch(slot, false, at);
            self.remove(slot);
        }
    }

    /// Ends a message that waits and whose expiry has come; false if it has none.
    pub(crate) fn expire(&mut self, slot: u32) -> bool {
        let Some(expiry) = self
            .expiry(slot)
            .filter(|_| self.messages.get(slot).waits())
        else {
            return false;
        };
        self.unlink(slot);
        self.end_by_expiry(slot, expiry, expiry.at);
        true
    }

    /// The same as a step of this turn, if it has come.
    pub(crate) fn expire_now(&mut self, turn: &mut Turn<'_>, slot: u32) -> bool {
        let now = turn.now.instant();
        let has_come = self.messages.get(slot).waits() && self.expiry_by(slot, now).is_some();
        if has_come {
            self.enter_frame(turn);
            let key = self.messages.get(slot).key();
            self.emit(turn, &Effect::Expire { key });
            self.expire(slot);
        }
        has_come
    }

    /// Lets nobody get what has expired, however much time was left undone: the next delivery is one
    /// that has not.
    #[cold]
    pub(crate) fn expire_next(&mut self, turn: &mut Turn<'_>) {
        while let Some(slot) = self.next_ready() {
            if !self.expire_now(turn, slot) {
                break;
            }
        }
    }

    /// The message whose expiry is first of those that have come, and that instant.
    pub(crate) fn first_expired(&self) -> Option<(Timestamp, u32)> {
        let timers = self.timers.as_ref()?;
        let timer = timers.overdue()?;
        let (Owner::Message(slot) | Owner::Buried(slot)) = timers.owner(timer);
        Some((timers.due(timer), slot))
    }

    /// The messages whose expiry is still watched, with the earliest instant that each can have; in no
    /// order.
    pub(crate) fn expiring(&self) -> impl Iterator<Item = (Timestamp, u32)> + '_ {
        self.timers.iter().flat_map(|timers| {
            timers.armed().map(|(start, timer)| {
                let (Owner::Message(slot) | Owner::Buried(slot)) = timers.owner(timer);
                (start, slot)
            })
        })
    }

    /// The messages that wait, or did so at the last step, and have expired by `now`; in no order.
    pub(crate) fn expired(&self, now: Timestamp) -> impl Iterator<Item = u32> + '_ {
        self.timers.iter().flat_map(move |timers| {
            timers.due_by(now).map(|timer| {
                let (Owner::Message(slot) | Owner::Buried(slot)) = timers.owner(timer);
                slot
            })
        })
    }
}

fn owner(slot: u32, bury: bool) -> Owner {
    if bury {
        Owner::Buried(slot)
    } else {
        Owner::Message(slot)
    }
}
