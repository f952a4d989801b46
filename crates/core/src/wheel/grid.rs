//! The levels of a wheel at one time of theirs, and the slots that are dealt out ahead of their time.

use crate::link::{Links, List};
use crate::relocate::Relocate;
use crate::types::Timestamp;

pub(super) const LEVELS: usize = 8;
const BITS: u32 = 6;
pub(super) const SLOTS: usize = 1 << BITS;

#[derive(Debug)]
struct Level {
    /// The slots whose list has entries.
    occupied: u64,
    /// The slots that an [`Ahead`] has taken the place of; their lists are empty.
    opened: u64,
    slots: Box<[List; SLOTS]>,
}

impl Default for Level {
    fn default() -> Self {
        Self {
            occupied: 0,
            opened: 0,
            slots: Box::new([List::default(); SLOTS]),
        }
    }
}

/// A slot that is dealt out ahead of its time.
#[derive(Debug)]
struct Ahead {
    level: usize,
    slot: usize,
    /// Entries that are still to be dealt out; while there are any, new ones go behind them.
    undealt: List,
    /// The levels below, as they will be when the slot's time begins.
    grid: Box<Grid>,
}

/// Entries by due time: those due by `time` in `overdue`, later ones in the levels.
#[derive(Debug, Default)]
pub(super) struct Grid {
    pub time: u64,
    pub overdue: List,
    levels: [Option<Level>; LEVELS],
    /// By level and slot, which is by time.
    ahead: Vec<Ahead>,
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

/// The lowest bits of a due time that do not matter on a level.
#[inline]
pub(super) fn shift_of(level: usize) -> u32 {
    level as u32 * BITS
}

/// The first slot that has anything.
#[derive(Clone, Copy)]
pub(super) struct First {
    pub start: u64,
    pub level: usize,
    slot: usize,
}

impl Grid {
    fn at(time: u64) -> Self {
        Self {
            time,
            ..Self::default()
        }
    }

    /// Puts `entry` in. Returns when its slot begins, before which no entry of the slot is due and
    /// which is to be dealt out by then; `u64::MAX` if there is nothing of that kind to do.
    #[inline]
    pub fn insert(&mut self, links: &mut impl Links, entry: u32, due: u64) -> u64 {
        match position(self.time, due) {
            Position::Overdue => {
                self.overdue.push_back(links, entry);
                u64::MAX
            }
            Position::Slot { level, slot } => {
                let at = self.levels[level].get_or_insert_with(Level::default);
                if at.opened >> slot & 1 != 0 {
                    return self.insert_ahead(links, entry, due, (level, slot));
                }
                at.occupied |= 1 << slot;
                at.slots[slot].push_back(links, entry);
                due >> shift_of(level) << shift_of(level)
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_ahead(
        &mut self,
        links: &mut impl Links,
        entry: u32,
        due: u64,
        place: (usize, usize),
    ) -> u64 {
        let ahead = self.ahead_of(place);
        if ahead.undealt.is_empty() {
            let start = ahead.grid.insert(links, entry, due);
            // What lies on the lowest level is dealt out, and something begins before it.
            let is_lowest = start < ahead.grid.time + SLOTS as u64;
            return if is_lowest { u64::MAX } else { start };
        }
        // Behind those of the same time that are not dealt out yet.
        ahead.undealt.push_back(links, entry);
        ahead.grid.time
    }

    fn ahead_of(&mut self, place: (usize, usize)) -> &mut Ahead {
        let at = self
            .ahead
            .partition_point(|ahead| (ahead.level, ahead.slot) < place);
        &mut self.ahead[at]
    }

    #[inline]
    pub fn remove(&mut self, links: &mut impl Links, entry: u32, due: u64) {
        match position(self.time, due) {
            Position::Overdue => self.overdue.unlink(links, entry),
            Position::Slot { level, slot } => match &mut self.levels[level] {
                Some(at) if at.opened >> slot & 1 != 0 => {
                    self.remove_ahead(links, entry, due, (level, slot));
                }
                Some(at) => {
                    at.slots[slot].unlink(links, entry);
                    if at.slots[slot].is_empty() {
                        at.occupied &= !(1 << slot);
                    }
                }
                // Between two entries of a slot that is dealt out: no list's end changes.
                None => List::default().unlink(links, entry),
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_ahead(
        &mut self,
        links: &mut impl Links,
        entry: u32,
        due: u64,
        place: (usize, usize),
    ) {
        let ahead = self.ahead_of(place);
        if ahead.undealt.holds_at_end(entry) {
            ahead.undealt.unlink(links, entry);
        } else {
            ahead.grid.remove(links, entry, due);
        }
    }

    /// When a slot begins.
    #[inline]
    fn start_of(&self, level: usize, slot: usize) -> u64 {
        let above = self.time >> shift_of(level) >> BITS << BITS;
        (above | slot as u64) << shift_of(level)
    }

    pub fn first(&self) -> Option<First> {
        self.levels.iter().enumerate().find_map(|(level, at)| {
            let taken = at.as_ref().map_or(0, |at| at.occupied | at.opened);
            (taken != 0).then(|| {
                let slot = taken.trailing_zeros() as usize;
                let start = self.start_of(level, slot);
                First { start, level, slot }
            })
        })
    }

    /// Lets time pass to the beginning of the first slot. Returns its entries that are still to be
    /// dealt out to the levels; those of the lowest level are overdue now.
    pub fn enter(&mut self, links: &mut impl Links, first: First) -> List {
        let First { start, level, slot } = first;
        self.time = start;
        let Some(at) = &mut self.levels[level] else {
            return List::default();
        };
        if at.opened >> slot & 1 == 0 {
            at.occupied &= !(1 << slot);
            let mut list = std::mem::take(&mut at.slots[slot]);
            if level == 0 {
                self.overdue.append(links, &mut list);
            }
            return list;
        }
        at.opened &= !(1 << slot);
        // All that lies before has gone: the lower levels are empty, and no other slot that was
        // opened is earlier.
        let Ahead {
            undealt, mut grid, ..
        } = self.ahead.remove(0);
        for (own, ready) in self.levels.iter_mut().zip(&mut grid.levels) {
            if ready.is_some() {
                *own = ready.take();
            }
        }
        self.overdue.append(links, &mut grid.overdue);
        self.ahead.splice(0..0, grid.ahead);
        undealt
    }

    /// Deals out the slots that begin by `until`, as far as the budget allows. Returns when the first
    /// slot begins that is still to be dealt out: zero if the budget was too small.
    pub fn deal_ahead(&mut self, links: &mut impl Links, until: u64, budget: &mut usize) -> u64 {
        let mut later = u64::MAX;
        for level in 1..LEVELS {
            while let Some(start) = self.first_closed(level) {
                if start > until {
                    later = later.min(start);
                    break;
                }
                if *budget == 0 {
                    return 0;
                }
                *budget -= 1;
                self.open(level, start);
            }
        }
        for ahead in &mut self.ahead {
            while let Some(entry) = ahead.undealt.head() {
                if *budget == 0 {
                    return 0;
                }
                *budget -= 1;
                ahead.undealt.unlink(links, entry);
                let due = links.due(entry).millis();
                ahead.grid.insert(links, entry, due);
            }
            later = later.min(ahead.grid.deal_ahead(links, until, budget));
            if later == 0 {
                break;
            }
        }
        later
    }

    /// When the first slot of a level begins whose entries lie in its own list.
    fn first_closed(&self, level: usize) -> Option<u64> {
        let occupied = self.levels[level].as_ref()?.occupied;
        (occupied != 0).then(|| self.start_of(level, occupied.trailing_zeros() as usize))
    }

    fn open(&mut self, level: usize, start: u64) {
        let slot = (start >> shift_of(level)) as usize % SLOTS;
        let Some(at) = &mut self.levels[level] else {
            return;
        };
        at.occupied &= !(1 << slot);
        at.opened |= 1 << slot;
        let opened = Ahead {
            level,
            slot,
            undealt: std::mem::take(&mut at.slots[slot]),
            grid: Box::new(Self::at(start)),
        };
        let behind = self
            .ahead
            .partition_point(|ahead| (ahead.level, ahead.slot) < (level, slot));
        self.ahead.insert(behind, opened);
    }

    /// Moves all entries into one list; those of one due time stay in the order they were put in.
    pub fn collect(&mut self, links: &mut impl Links, all: &mut List) {
        all.append(links, &mut self.overdue);
        let mut ahead = std::mem::take(&mut self.ahead).into_iter();
        for mut at in std::mem::take(&mut self.levels).into_iter().flatten() {
            for slot in 0..SLOTS {
                all.append(links, &mut at.slots[slot]);
                if at.opened >> slot & 1 != 0 {
                    if let Some(mut opened) = ahead.next() {
                        opened.grid.collect(links, all);
                        all.append(links, &mut opened.undealt);
                    }
                }
            }
        }
    }

    /// Whether a slot that was opened is not dealt out yet.
    pub fn is_dealing(&self) -> bool {
        self.ahead
            .iter()
            .any(|ahead| !ahead.undealt.is_empty() || ahead.grid.is_dealing())
    }

    /// Every list of the levels with the earliest instant its entries can be due, in the order of
    /// time; of a slot that is dealt out ahead, what is not dealt out yet comes last.
    pub fn lists(&self) -> impl Iterator<Item = (Timestamp, &List)> {
        self.levels.iter().enumerate().flat_map(move |(level, at)| {
            at.iter().flat_map(move |at| {
                at.slots.iter().enumerate().flat_map(move |(slot, list)| {
                    let start = Timestamp::from_millis(self.start_of(level, slot));
                    let own = (!list.is_empty()).then_some((start, list));
                    let opened = (at.opened >> slot & 1 != 0)
                        .then(|| self.opened_lists((level, slot), start));
                    own.into_iter().chain(opened.into_iter().flatten())
                })
            })
        })
    }

    fn opened_lists<'a>(
        &'a self,
        place: (usize, usize),
        start: Timestamp,
    ) -> Box<dyn Iterator<Item = (Timestamp, &'a List)> + 'a> {
        let opened = self
            .ahead
            .iter()
            .filter(move |ahead| (ahead.level, ahead.slot) == place);
        Box::new(opened.flat_map(move |ahead| {
            let first = std::iter::once((start, &ahead.grid.overdue));
            let last = std::iter::once((start, &ahead.undealt));
            first.chain(ahead.grid.lists()).chain(last)
        }))
    }

    /// Adds every entry of the levels to `found`, if each is where its due time belongs.
    pub fn check(
        &self,
        links: &impl Links,
        most: usize,
        found: &mut Vec<u32>,
    ) -> Result<(), String> {
        for entry in self.overdue.check(links, most)? {
            if links.due(entry).millis() > self.time {
                return Err(format!("{entry} is not overdue yet"));
            }
            found.push(entry);
        }
        let mut opened = Vec::new();
        for (number, at) in self.levels.iter().enumerate() {
            let Some(at) = at else { continue };
            for (slot, list) in at.slots.iter().enumerate() {
                if (at.occupied >> slot & 1 == 0) != list.is_empty() {
                    return Err(format!("slot {slot} of level {number} is wrongly marked"));
                }
                if at.opened >> slot & 1 != 0 {
                    opened.push((number, slot));
                }
                for entry in list.check(links, most)? {
                    match position(self.time, links.due(entry).millis()) {
                        Position::Slot { level, slot: own } if (level, own) == (number, slot) => {}
                        _ => return Err(format!("{entry} is in slot {slot} of level {number}")),
                    }
                    found.push(entry);
                }
            }
        }
        let ahead: Vec<_> = self.ahead.iter().map(|at| (at.level, at.slot)).collect();
        if ahead != opened {
            return Err(format!("{ahead:?} are opened, not {opened:?}"));
        }
        for ahead in &self.ahead {
            let shift = shift_of(ahead.level);
            if ahead.grid.time != self.start_of(ahead.level, ahead.slot) {
                return Err(format!("a slot is opened for {}", ahead.grid.time));
            }
            let before = found.len();
            found.extend(ahead.undealt.check(links, most)?);
            ahead.grid.check(links, most, found)?;
            for entry in &found[before..] {
                if links.due(*entry).millis() >> shift != ahead.grid.time >> shift {
                    return Err(format!("{entry} is not of the slot that is dealt out"));
                }
            }
        }
        Ok(())
    }

    /// Lets `mover` move the levels; those of slots that are dealt out ahead go soon.
    pub fn relocate(&mut self, mover: &mut impl Relocate) {
        for at in self.levels.iter_mut().flatten() {
            mover.value(&mut at.slots);
        }
    }

    /// Bytes beside the grid itself.
    pub fn bytes(&self) -> usize {
        let levels = self.levels.iter().flatten().count() * size_of::<[List; SLOTS]>();
        let ahead = self.ahead.iter();
        levels
            + self.ahead.capacity() * size_of::<Ahead>()
            + ahead
                .map(|ahead| size_of::<Self>() + ahead.grid.bytes())
                .sum::<usize>()
    }
}
