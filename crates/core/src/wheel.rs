//! When time moves something on: a hierarchical timing wheel over the messages' own links.
//!
//! Eight levels of 64 slots: level 0 counts milliseconds, each further level 64 times as much, so
//! the wheel spans the 48 bits of an [`Timestamp`]. An entry lies at the level of the highest bit in which its due time
//! differs from the wheel's own time (Varghese and Lauck 1987), so where it lies follows from the
//! two and need not be stored. Entries whose time has come wait in `overdue`, in the order they
//! became due, until the queue moves them on.
//!
//! No step is longer than the budget it is given: a slot with a million entries is dealt out to the
//! lower levels bit by bit, and so is the whole wheel when the clock was set back.
//!
//! Entries with the same due time keep the order they were put in.

use crate::link::{Links, List};
use crate::types::Timestamp;

const LEVELS: usize = 8;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;

#[derive(Debug)]
struct Level {
    occupied: u64,
    slots: Box<[List; SLOTS]>,
}

/// Entries that are being dealt out to the levels, in bounded steps.
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
    /// The wheel's own time: entries due by then are overdue, later ones lie in the levels.
    time: u64,
    levels: [Option<Level>; LEVELS],
    draining: Option<Draining>,
    overdue: List,
    /// No entry is due before this, overdue ones aside; `u64::MAX` when there is none.
    next: u64,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            time: 0,
            levels: Default::default(),
            draining: None,
            overdue: List::default(),
            next: u64::MAX,
        }
    }
}

/// The list of a level's slot, or `overdue`.
enum Position {
    Overdue,
    Slot { level: usize, slot: usize },
}

#[inline]
fn position(time: u64, due: u64) -> Position {
    if due <= time {
        return Position::Overdue;
    }
    let level = ((u64::BITS - 1 - (time ^ due).leading_zeros()) / BITS) as usize;
    Position::Slot {
        level,
        slot: (due >> (level as u32 * BITS)) as usize % SLOTS,
    }
}

impl Wheel {
    /// The earliest instant at which the wheel has something to do, overdue entries included.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        if !self.overdue.is_empty() {
            Some(Timestamp::ZERO)
        } else if self.next == u64::MAX {
            None
        } else {
            Some(Timestamp::from_millis(self.next))
        }
    }

    /// Whether the wheel has nothing to do at `now`; then its time becomes `now`.
    #[inline]
    pub fn is_quiet_at(&mut self, now: Timestamp) -> bool {
        let now = now.millis();
        let quiet = now >= self.time && now < self.next && self.overdue.is_empty();
        if quiet {
            // Nothing lies between the two, so no entry's place changes.
            self.time = now;
        }
        quiet
    }

    /// Whether entries of one due time may lie in more than one list.
    pub fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Entries whose time has come, first due first.
    pub fn overdue(&self) -> &List {
        &self.overdue
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
        match position(self.time, due) {
            Position::Overdue => self.overdue.push_back(links, entry),
            Position::Slot { level, slot } => {
                let at = self.levels[level].get_or_insert_with(|| Level {
                    occupied: 0,
                    slots: Box::new([List::default(); SLOTS]),
                });
                at.occupied |= 1 << slot;
                at.slots[slot].push_back(links, entry);
                let shift = level as u32 * BITS;
                self.next = self.next.min(due >> shift << shift);
            }
        }
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
        match position(self.time, due.millis()) {
            Position::Overdue => self.overdue.unlink(links, entry),
            Position::Slot { level, slot } => match &mut self.levels[level] {
                Some(at) => {
                    at.slots[slot].unlink(links, entry);
                    if at.slots[slot].is_empty() {
                        at.occupied &= !(1 << slot);
                    }
                }
                // Between two entries of the slot being dealt out: no list's end changes.
                None => List::default().unlink(links, entry),
            },
        }
    }

    /// Moves the wheel's time towards `now`, but not beyond the first instant at which something
    /// is due, which is then in [`Wheel::overdue`]. Deals at most `budget` entries to lower
    /// levels; returns what is left of the budget.
    pub fn advance(&mut self, links: &mut impl Links, now: Timestamp, mut budget: usize) -> usize {
        let now = now.millis();
        if now < self.time {
            self.rewind(links, now);
        }
        while self.overdue.is_empty() {
            if let Some(mut draining) = self.draining.take() {
                while budget > 0 {
                    let Some(entry) = draining.list.pop_front(links) else {
                        break;
                    };
                    budget -= 1;
                    self.insert(links, entry, links.due(entry));
                }
                if !draining.list.is_empty() {
                    self.next = self.time;
                    self.draining = Some(draining);
                    return 0;
                }
                // Those due at the very start of what was dealt out come first.
                continue;
            }
            self.next = self.earliest().map_or(u64::MAX, |(time, ..)| time);
            if self.next > now {
                self.time = self.time.max(now);
                return budget;
            }
            let Some((time, level, slot)) = self.earliest() else {
                return budget;
            };
            self.time = time;
            let Some(at) = &mut self.levels[level] else {
                return budget;
            };
            at.occupied &= !(1 << slot);
            let mut list = std::mem::take(&mut at.slots[slot]);
            if level == 0 {
                self.overdue.append(links, &mut list);
            } else {
                self.draining = Some(Draining {
                    list,
                    start: time,
                    shift: level as u32 * BITS,
                });
            }
        }
        budget
    }

    /// The clock was set back: starts anew from `now`, all entries to be dealt out again.
    #[cold]
    fn rewind(&mut self, links: &mut impl Links, now: u64) {
        let mut all = std::mem::take(&mut self.overdue);
        for mut level in std::mem::take(&mut self.levels).into_iter().flatten() {
            for slot in level.slots.iter_mut() {
                all.append(links, slot);
            }
        }
        if let Some(mut draining) = self.draining.take() {
            all.append(links, &mut draining.list);
        }
        self.time = now;
        self.next = now;
        self.draining = Some(Draining {
            list: all,
            start: 0,
            shift: Timestamp::BITS,
        });
    }

    /// The first occupied slot: its time, level and number.
    fn earliest(&self) -> Option<(u64, usize, usize)> {
        self.levels.iter().enumerate().find_map(|(level, at)| {
            let occupied = at.as_ref().map_or(0, |at| at.occupied);
            (occupied != 0).then(|| {
                let slot = occupied.trailing_zeros() as u64;
                let shift = level as u32 * BITS;
                let above = self.time >> shift >> BITS << BITS;
                ((above | slot) << shift, level, slot as usize)
            })
        })
    }

    /// Every list with the earliest instant its entries can be due. Overdue entries come first,
    /// then the levels in the order of time, last what is being dealt out; so entries of one due
    /// time come in the order they were put in, over all lists.
    pub fn lists(&self) -> impl Iterator<Item = (Timestamp, &List)> {
        let overdue = std::iter::once((Timestamp::ZERO, &self.overdue));
        let levels = self.levels.iter().enumerate().flat_map(move |(level, at)| {
            let shift = level as u32 * BITS;
            let above = self.time >> shift >> BITS << BITS;
            at.iter().flat_map(move |at| {
                at.slots
                    .iter()
                    .enumerate()
                    .filter(|(_, list)| !list.is_empty())
                    .map(move |(slot, list)| {
                        (Timestamp::from_millis((above | slot as u64) << shift), list)
                    })
            })
        });
        let draining = self
            .draining
            .iter()
            .map(|at| (Timestamp::from_millis(at.start), &at.list));
        overdue.chain(levels).chain(draining)
    }

    /// Every entry, if each is where its due time belongs; `most` is how many there can be.
    pub fn check(&self, links: &impl Links, most: usize) -> Result<Vec<u32>, String> {
        let mut entries = self.overdue.check(links, most)?;
        if let Some(early) = entries
            .iter()
            .find(|entry| links.due(**entry).millis() > self.time)
        {
            return Err(format!("{early} is not overdue yet"));
        }
        let mut waiting = Vec::new();
        for (number, at) in self.levels.iter().enumerate() {
            let Some(at) = at else { continue };
            for (slot, list) in at.slots.iter().enumerate() {
                if (at.occupied >> slot & 1 == 0) != list.is_empty() {
                    return Err(format!("slot {slot} of level {number} is wrongly marked"));
                }
                for entry in list.check(links, most)? {
                    match position(self.time, links.due(entry).millis()) {
                        Position::Slot { level, slot: own } if (level, own) == (number, slot) => {}
                        _ => return Err(format!("{entry} is in slot {slot} of level {number}")),
                    }
                    waiting.push(entry);
                }
            }
        }
        if let Some(draining) = &self.draining {
            for entry in draining.list.check(links, most)? {
                if !draining.covers(links.due(entry).millis()) {
                    return Err(format!("{entry} is not of the slot that is dealt out"));
                }
                waiting.push(entry);
            }
        }
        if waiting
            .iter()
            .any(|entry| links.due(*entry).millis() < self.next)
        {
            return Err(format!("something is due before {}", self.next));
        }
        entries.append(&mut waiting);
        Ok(entries)
    }

    /// Bytes the levels hold.
    pub fn bytes(&self) -> usize {
        self.levels.iter().flatten().count() * size_of::<[List; SLOTS]>()
    }
}

#[cfg(test)]
mod tests;
