//! Second instants: what must happen beside what the schedule does, to who has such a thing only.
//!
//! A message is in exactly one list, so an instant at which it expires while it waits needs an entry
//! of its own: 24 bytes, in a second wheel. A queue without any has none of it.

use crate::link::Links;
use crate::slab::{Entry, Slab, NIL};
use crate::types::Timestamp;
use crate::wheel::{self, Wheel};

/// Whose instant it is, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The message in that slot expires and goes.
    Message(u32),
    /// The message in that slot expires and becomes a dead letter.
    Buried(u32),
}

/// One instant.
#[derive(Clone, Copy, Debug)]
struct Timer {
    previous: u32,
    next: u32,
    slot: u32,
    kind: Kind,
    /// An armed timer is in the wheel; another is only remembered.
    armed: bool,
    due: Timestamp,
}

/// What an [`Owner`] is, beside the slot.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Message,
    Buried,
}

const _: () = assert!(size_of::<Timer>() == 24);

impl Entry for Timer {
    fn vacant(next: u32) -> Self {
        Self {
            previous: NIL,
            next,
            slot: NIL,
            kind: Kind::Message,
            armed: false,
            due: Timestamp::ZERO,
        }
    }

    fn next_vacant(&self) -> u32 {
        self.next
    }
}

impl Links for Slab<Timer> {
    fn previous(&self, entry: u32) -> u32 {
        self.get(entry).previous
    }
    fn next(&self, entry: u32) -> u32 {
        self.get(entry).next
    }
    fn set_previous(&mut self, entry: u32, to: u32) {
        self.get_mut(entry).previous = to;
    }
    fn set_next(&mut self, entry: u32, to: u32) {
        self.get_mut(entry).next = to;
    }
    fn due(&self, entry: u32) -> Timestamp {
        self.get(entry).due
    }
    fn len(&self) -> usize {
        Slab::len(self)
    }
}

/// The timers of a queue.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    slab: Slab<Timer>,
    wheel: Wheel,
}

impl Timers {
    /// A timer that is not armed yet.
    pub fn insert(&mut self, owner: Owner, due: Timestamp) -> u32 {
        let timer = self.slab.insert(Timer {
            due,
            ..Timer::vacant(NIL)
        });
        self.set_owner(timer, owner);
        if timer as usize >= wheel::FEW && !self.wheel.deals_ahead() {
            self.wheel.deal_ahead_from_now_on();
        }
        timer
    }

    /// Lets a timer act at its instant.
    pub fn arm(&mut self, timer: u32) {
        let entry = self.slab.get_mut(timer);
        if !entry.armed {
            entry.armed = true;
            let due = entry.due;
            self.wheel.insert(&mut self.slab, timer, due);
        }
    }

    /// Lets a timer only be remembered.
    pub fn disarm(&mut self, timer: u32) {
        let entry = self.slab.get_mut(timer);
        if entry.armed {
            entry.armed = false;
            let due = entry.due;
            self.wheel.remove(&mut self.slab, timer, due);
        }
    }

    /// Forgets a timer.
    pub fn remove(&mut self, timer: u32) {
        self.disarm(timer);
        self.slab.remove(timer);
    }

    pub fn due(&self, timer: u32) -> Timestamp {
        self.slab.get(timer).due
    }

    pub fn owner(&self, timer: u32) -> Owner {
        let entry = self.slab.get(timer);
        match entry.kind {
            Kind::Message => Owner::Message(entry.slot),
            Kind::Buried => Owner::Buried(entry.slot),
        }
    }

    pub fn set_owner(&mut self, timer: u32, owner: Owner) {
        let entry = self.slab.get_mut(timer);
        (entry.slot, entry.kind) = match owner {
            Owner::Message(slot) => (slot, Kind::Message),
            Owner::Buried(slot) => (slot, Kind::Buried),
        };
    }

    pub fn is_empty(&self) -> bool {
        self.slab.len() == 0
    }

    /// Whether no armed timer is due at `now`, or dealt out; see [`Wheel::is_quiet_at`].
    #[inline]
    pub fn is_quiet_at(&mut self, now: Timestamp) -> bool {
        self.wheel.is_quiet_at(now)
    }

    /// The earliest instant at which there is something to do.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        self.wheel.next()
    }

    /// Whether some are due at `now`, or may be.
    pub fn is_due_at(&self, now: Timestamp) -> bool {
        self.wheel.is_due_at(now)
    }

    /// Moves the wheel's time towards `now`; see [`Wheel::advance`].
    pub fn advance(&mut self, now: Timestamp, budget: usize) -> usize {
        self.wheel.advance(&mut self.slab, now, budget)
    }

    /// The first armed timer whose instant has come, once the wheel has been advanced.
    pub fn overdue(&self) -> Option<u32> {
        self.wheel.overdue().head()
    }

    /// The armed timers that are due by `now`, in no order.
    pub fn due_by(&self, now: Timestamp) -> impl Iterator<Item = u32> + '_ {
        let lists = self.wheel.lists().filter(move |(start, _)| *start <= now);
        let timers = lists.flat_map(|(_, list)| list.iter(&self.slab));
        timers.filter(move |timer| self.due(*timer) <= now)
    }

    /// The armed timers, with the earliest instant that each can be due at, in no order.
    pub fn armed(&self) -> impl Iterator<Item = (Timestamp, u32)> + '_ {
        let lists = self.wheel.lists();
        lists.flat_map(|(start, list)| list.iter(&self.slab).map(move |timer| (start, timer)))
    }

    /// All timers and those that are armed, if the parts agree.
    pub fn check(&self) -> Result<(Vec<u32>, Vec<u32>), String> {
        let all = self.slab.check()?;
        let mut armed = self.wheel.check(&self.slab, all.len())?;
        armed.sort_unstable();
        Ok((all, armed))
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.slab.bytes() + self.wheel.bytes()
    }
}
