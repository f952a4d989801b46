//! When time moves something on: a hierarchical timing wheel over the messages' own links.
//!
//! Eight levels of 64 slots: level 0 counts milliseconds, each further level 64 times as much, so
//! the wheel spans the 48 bits of an [`Timestamp`]. An entry lies at the level of the highest bit in which its due time
//! differs from the wheel's own time (Varghese and Lauck 1987), so where it lies follows from the
//! two and need not be stored. Entries whose time has come wait in `overdue`, in the order they
//! became due, until the queue moves them on.
//!
//! No step is longer than the budget it is given. A slot of a higher level is dealt out to the lower
//! ones before its time begins, bit by bit, by every step that has budget left: what is dealt out
//! ahead lies in levels of its own, which take their place when the time comes. A wheel with few
//! entries does without. Where that was not to be done in time (nobody let time act before), and when
//! the clock was set back, entries are dealt out afterwards, again in bounded steps.
//!
//! Entries with the same due time keep the order they were put in.

use crate::link::{Links, List};
use crate::relocate::Relocate;
use crate::types::Timestamp;

mod grid;

use grid::{shift_of, First, Grid};

/// A wheel is dealt out ahead of time if there are more entries: fewer are dealt out by one step.
pub(crate) const FEW: usize = if cfg!(test) { 4 } else { 4096 };
/// How long before it begins a slot is dealt out. Ten times what four million entries take if the
/// timer alone does it.
const LEAD_MS: u64 = 4096;

/// Entries that are being dealt out to the levels though their time has begun, in bounded steps.
#[derive(Debug)]
struct Draining {
    list: List,
    /// The due times that belong here until all are dealt out: those equal to `start` above the
    /// `shift` lowest bits.
    start: u64,
    shift: u32,
}

impl Draining {
    #[inline]
    fn covers(&self, due: u64) -> bool {
        due >> self.shift == self.start >> self.shift
    }
}

#[derive(Debug)]
pub(crate) struct Wheel {
    /// Its time is the wheel's own.
    grid: Grid,
    draining: Option<Draining>,
    /// There is nothing to do before this, overdue entries aside; beyond all instants when there is
    /// nothing at all. No slot begins earlier, and none whose entries are not dealt out begins within `lead` of it.
    next: u64,
    /// How long before it begins a slot is dealt out; zero for a wheel with few entries.
    lead: u64,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            grid: Grid::default(),
            draining: None,
            next: u64::MAX,
            lead: 0,
        }
    }
}

impl Wheel {
    /// The earliest instant at which the wheel has something to do, overdue entries and dealing out
    /// ahead included.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        if !self.grid.overdue.is_empty() {
            Some(Timestamp::ZERO)
        } else if self.next > Timestamp::MAX.millis() {
            None
        } else {
            Some(Timestamp::from_millis(self.next))
        }
    }

    /// Whether something is due at `now`, or may be as soon as more is dealt out.
    pub fn is_due_at(&self, now: Timestamp) -> bool {
        let begins = |first: First| first.start <= now.millis();
        !self.grid.overdue.is_empty()
            || self.draining.is_some()
            || self.grid.first().is_some_and(begins)
    }

    /// Whether slots are dealt out ahead of their time.
    #[inline]
    pub fn deals_ahead(&self) -> bool {
        self.lead != 0
    }

    /// Deals slots out ahead of their time from now on, until there are few entries again.
    #[cold]
    pub fn deal_ahead_from_now_on(&mut self) {
        self.lead = LEAD_MS;
        self.next = self.next.min(self.grid.time);
    }

    /// Whether the wheel has nothing to do at `now`; then its time becomes `now`.
    #[inline]
    pub fn is_quiet_at(&mut self, now: Timestamp) -> bool {
        let now = now.millis();
        let quiet = now >= self.grid.time && now < self.next && self.grid.overdue.is_empty();
        if quiet {
            // Nothing lies between the two, so no entry's place changes.
            self.grid.time = now;
        }
        quiet
    }

    /// Whether entries of one due time may lie in more than one list.
    pub fn is_draining(&self) -> bool {
        self.draining.is_some() || self.grid.is_dealing()
    }

    /// Entries whose time has come, first due first.
    pub fn overdue(&self) -> &List {
        &self.grid.overdue
    }

    /// Puts `entry` in, due at `due`.
    #[inline]
    pub fn insert(&mut self, links: &mut impl Links, entry: u32, due: Timestamp) {
        let due = due.millis();
        if let Some(draining) = &mut self.draining {
            // Behind those of the same time that are not dealt out yet.
            if draining.covers(due) {
                draining.list.push_back(links, entry);
                return;
            }
        }
        self.put(links, entry, due);
    }

    #[inline]
    fn put(&mut self, links: &mut impl Links, entry: u32, due: u64) {
        let start = self.grid.insert(links, entry, due);
        self.next = self.next.min(start.saturating_sub(self.lead));
    }

    /// Takes `entry` out, which was put in with `due`.
    #[inline]
    pub fn remove(&mut self, links: &mut impl Links, entry: u32, due: Timestamp) {
        if let Some(draining) = &mut self.draining {
            if draining.list.holds_at_end(entry) {
                draining.list.unlink(links, entry);
                return;
            }
        }
        self.grid.remove(links, entry, due.millis());
    }

    /// Moves the wheel's time towards `now`, but not beyond the first instant at which something
    /// is due, which is then in [`Wheel::overdue`]. Deals at most `budget` entries to lower
    /// levels, those that are due first, then those of slots that begin soon; returns what is left
    /// of the budget.
    pub fn advance(&mut self, links: &mut impl Links, now: Timestamp, mut budget: usize) -> usize {
        let now = now.millis();
        if now < self.grid.time {
            self.rewind(links, now);
        }
        while self.grid.overdue.is_empty() {
            if let Some(mut draining) = self.draining.take() {
                while budget > 0 {
                    let Some(entry) = draining.list.pop_front(links) else {
                        break;
                    };
                    budget -= 1;
                    self.put(links, entry, links.due(entry).millis());
                }
                if !draining.list.is_empty() {
                    self.next = self.grid.time;
                    self.draining = Some(draining);
                    return 0;
                }
                // Those due at the very start of what was dealt out come first.
                continue;
            }
            let first = self.grid.first();
            let Some(first) = first.filter(|first| first.start <= now) else {
                self.grid.time = self.grid.time.max(now);
                self.next = first.map_or(u64::MAX, |first| first.start);
                return self.deal_ahead(links, budget);
            };
            let First { start, level, .. } = first;
            let list = self.grid.enter(links, first);
            if !list.is_empty() {
                let shift = shift_of(level);
                self.draining = Some(Draining { list, start, shift });
            }
        }
        budget
    }

    /// Deals out what begins soon. All that is due is overdue already.
    fn deal_ahead(&mut self, links: &mut impl Links, mut budget: usize) -> usize {
        if links.len() <= FEW {
            self.lead = 0;
        }
        if self.lead != 0 {
            let until = self.grid.time + self.lead;
            let later = self.grid.deal_ahead(links, until, &mut budget);
            self.next = self.next.min(later.saturating_sub(self.lead));
        }
        budget
    }

    /// The clock was set back: starts anew from `now`, all entries to be dealt out again.
    #[cold]
    fn rewind(&mut self, links: &mut impl Links, now: u64) {
        let mut all = List::default();
        self.grid.collect(links, &mut all);
        if let Some(mut draining) = self.draining.take() {
            all.append(links, &mut draining.list);
        }
        self.grid.time = now;
        self.next = now;
        self.draining = Some(Draining {
            list: all,
            start: 0,
            shift: Timestamp::BITS,
        });
    }

    /// Every list with the earliest instant its entries can be due. Overdue entries come first,
    /// then the levels in the order of time, last what is being dealt out; so entries of one due
    /// time come in the order they were put in, over all lists.
    pub fn lists(&self) -> impl Iterator<Item = (Timestamp, &List)> {
        let overdue = std::iter::once((Timestamp::ZERO, &self.grid.overdue));
        let draining = self
            .draining
            .iter()
            .map(|at| (Timestamp::from_millis(at.start), &at.list));
        overdue.chain(self.grid.lists()).chain(draining)
    }

    /// Every entry, if each is where its due time belongs; `most` is how many there can be.
    pub fn check(&self, links: &impl Links, most: usize) -> Result<Vec<u32>, String> {
        let mut entries = Vec::new();
        self.grid.check(links, most, &mut entries)?;
        if let Some(draining) = &self.draining {
            for entry in draining.list.check(links, most)? {
                if !draining.covers(links.due(entry).millis()) {
                    return Err(format!("{entry} is not of the slot that is dealt out"));
                }
                entries.push(entry);
            }
        }
        let early = entries.iter().find(|entry| {
            let due = links.due(**entry).millis();
            due < self.next && due > self.grid.time
        });
        if let Some(early) = early {
            return Err(format!("{early} is due before {}", self.next));
        }
        Ok(entries)
    }

    /// Lets `mover` move the levels.
    pub fn relocate(&mut self, mover: &mut impl Relocate) {
        self.grid.relocate(mover);
    }

    /// Bytes the levels hold.
    pub fn bytes(&self) -> usize {
        self.grid.bytes()
    }
}

#[cfg(test)]
mod tests;
