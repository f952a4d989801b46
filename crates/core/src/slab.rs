//! A slab in pages: growing never moves or copies what is there, and empty pages go back.
//!
//! The first pages are small (4 slots, doubling), so that a queue of one message costs little; from
//! slot 64 on every page has 64. So the few messages that stay behind a long backlog hold 3 KB each
//! at worst. Smaller pages would hold less, but their share of the directory (24 bytes a page) would
//! be felt by every message; larger ones stay for the sake of one entry.

use crate::relocate::Relocate;

/// What a slab can hold: a vacant entry carries the number of the next vacant one of its page.
pub(crate) trait Entry {
    /// A vacant entry.
    fn vacant(next: u32) -> Self;
    /// The next vacant entry's number, as given to [`Entry::vacant`].
    fn next_vacant(&self) -> u32;
}

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

const FIRST_BITS: u32 = 2;
const PAGE_BITS: u32 = 6;
const PAGE: usize = 1 << PAGE_BITS;
/// Pages before slot 64: 4, 4, 8, 16, 32.
const SMALL_PAGES: usize = (PAGE_BITS - FIRST_BITS + 1) as usize;
/// Pages that keep their memory while they are empty, 16 slots together: a queue that swings between
/// none and a few messages must not pay for pages each time.
const KEPT_PAGES: usize = 3;
/// No entry of a page.
const NONE: u8 = u8::MAX;

const _: () = assert!(PAGE < NONE as usize);

#[derive(Debug)]
struct Page<T> {
    /// All the page may hold, or none while it has no memory.
    entries: Box<[T]>,
    /// The page below this one in the stack of those with room.
    next_open: u32,
    /// The first vacant entry; each names the next.
    vacant: u8,
    used: u8,
    /// Whether the stack of pages with room holds this one.
    listed: bool,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Vec<Page<T>>,
    /// Top of the stack of pages that may have room; those without are dropped when met. New entries
    /// go into the page on top.
    open: u32,
    len: u32,
    /// Slots that have memory, used or not.
    allocated: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            open: NIL,
            len: 0,
            allocated: 0,
        }
    }
}

/// Page and offset of a slot.
#[inline]
fn locate(slot: u32) -> (usize, usize) {
    let slot = slot as usize;
    if slot >= PAGE {
        (SMALL_PAGES - 1 + (slot >> PAGE_BITS), slot & (PAGE - 1))
    } else if slot < 1 << FIRST_BITS {
        (0, slot)
    } else {
        let bits = slot.ilog2();
        ((bits - FIRST_BITS + 1) as usize, slot - (1 << bits))
    }
}

/// First slot and size of a page.
#[inline]
fn extent(page: usize) -> (u32, usize) {
    match page {
        0 => (0, 1 << FIRST_BITS),
        _ if page < SMALL_PAGES => {
            let size = 1 << (FIRST_BITS as usize + page - 1);
            (size as u32, size)
        }
        _ => (((page - SMALL_PAGES + 1) << PAGE_BITS) as u32, PAGE),
    }
}

impl<T: Entry> Page<T> {
    /// Gives the page memory, all of it vacant.
    fn fill(&mut self, size: usize) {
        let next = |at: usize| match at + 1 {
            next if next < size => next as u32,
            _ => NONE.into(),
        };
        self.entries = (0..size).map(|at| T::vacant(next(at))).collect();
        self.vacant = 0;
    }
}

impl<T: Entry> Slab<T> {
    #[inline]
    pub fn get(&self, slot: u32) -> &T {
        let (page, at) = locate(slot);
        &self.pages[page].entries[at]
    }

    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut T {
        let (page, at) = locate(slot);
        &mut self.pages[page].entries[at]
    }

    /// The entry of a slot that may never have been used; a vacant one is an entry as well.
    pub fn find(&self, slot: u32) -> Option<&T> {
        let (page, at) = locate(slot);
        self.pages.get(page)?.entries.get(at)
    }

    /// One more than the last slot that has memory, or had.
    pub fn end(&self) -> u32 {
        extent(self.pages.len()).0
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes that the slab itself holds.
    pub fn bytes(&self) -> usize {
        self.allocated as usize * size_of::<T>() + self.pages.capacity() * size_of::<Page<T>>()
    }

    /// Puts `entry` into a vacant slot and names that slot.
    ///
    /// # Panics
    /// At 2^32 - 1 entries, which need over 200 GB.
    #[inline]
    pub fn insert(&mut self, entry: T) -> u32 {
        let number = self.page_with_room();
        let page = &mut self.pages[number];
        let at = page.vacant;
        let place = &mut page.entries[usize::from(at)];
        page.vacant = place.next_vacant() as u8;
        *place = entry;
        page.used += 1;
        self.len += 1;
        extent(number).0 + u32::from(at)
    }

    /// Takes the entry out of `slot`, which must be in use.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> T {
        let (number, at) = locate(slot);
        let page = &mut self.pages[number];
        let vacant = T::vacant(page.vacant.into());
        let entry = std::mem::replace(&mut page.entries[at], vacant);
        page.vacant = at as u8;
        page.used -= 1;
        self.len -= 1;
        let is_empty = page.used == 0;
        if !page.listed {
            page.listed = true;
            page.next_open = self.open;
            let covered = std::mem::replace(&mut self.open, number as u32);
            if covered != NIL {
                self.release(covered as usize);
            }
        }
        if is_empty {
            self.release(number);
        }
        entry
    }

    #[inline]
    fn page_with_room(&mut self) -> usize {
        let number = self.open as usize;
        match self.pages.get(number) {
            Some(page) if page.vacant != NONE => number,
            _ => self.open_page(),
        }
    }

    #[cold]
    fn open_page(&mut self) -> usize {
        while self.open != NIL {
            let number = self.open as usize;
            let page = &mut self.pages[number];
            if page.entries.is_empty() {
                let size = extent(number).1;
                page.fill(size);
                self.allocated += size as u32;
            }
            if page.vacant != NONE {
                return number;
            }
            page.listed = false;
            self.open = page.next_open;
        }
        let number = self.pages.len();
        let (first, size) = extent(number);
        assert!(
            u64::from(first) + (size as u64) < u64::from(NIL),
            "the slab is full"
        );
        if number == self.pages.capacity() {
            self.pages.reserve_exact(number / 2 + 1);
        }
        let mut page = Page {
            entries: Box::default(),
            next_open: NIL,
            vacant: NONE,
            used: 0,
            listed: true,
        };
        page.fill(size);
        self.pages.push(page);
        self.open = number as u32;
        self.allocated += size as u32;
        number
    }

    /// Gives a page's memory back if it is empty, unless it is the one being filled or one of the
    /// first few.
    fn release(&mut self, number: usize) {
        let being_filled = self.open == number as u32;
        if self.len == 0 && self.pages.len() > KEPT_PAGES {
            *self = Self::default();
        } else if self.pages[number].used == 0 && !being_filled && number >= KEPT_PAGES {
            let page = &mut self.pages[number];
            self.allocated -= page.entries.len() as u32;
            page.entries = Box::default();
            page.vacant = NONE;
        }
    }

    /// Lets `mover` move a page, and `inner` what its entries hold. Returns whether there are more.
    pub fn relocate<M: Relocate>(
        &mut self,
        number: usize,
        mover: &mut M,
        mut inner: impl FnMut(&mut T, &mut M),
    ) -> bool {
        if let Some(page) = self.pages.get_mut(number) {
            mover.slice(&mut page.entries);
            for entry in &mut page.entries {
                inner(entry, mover);
            }
        }
        number + 1 < self.pages.len()
    }

    /// The slots in use, if what the pages say of themselves is true.
    pub fn check(&self) -> Result<Vec<u32>, String> {
        let mut open = Vec::new();
        let mut at = self.open;
        while let Some(page) = self.pages.get(at as usize) {
            if open.len() == self.pages.len() {
                return Err("the pages with room run in a circle".into());
            }
            open.push(at);
            at = page.next_open;
        }
        let mut held = Vec::new();
        for (number, page) in self.pages.iter().enumerate() {
            let (first, size) = extent(number);
            let mut used = vec![true; page.entries.len()];
            let mut vacant = u32::from(page.vacant);
            while vacant != u32::from(NONE) {
                match used.get_mut(vacant as usize) {
                    Some(entry) if *entry => *entry = false,
                    _ => return Err(format!("page {number} links {vacant} as vacant")),
                }
                vacant = page.entries[vacant as usize].next_vacant();
            }
            let before = held.len();
            held.extend(
                (first..)
                    .zip(&used)
                    .filter(|(_, used)| **used)
                    .map(|(slot, _)| slot),
            );
            let in_use = held.len() - before;
            if in_use != usize::from(page.used) {
                return Err(format!("page {number} does not have {} in use", page.used));
            }
            if !used.is_empty() && used.len() != size {
                return Err(format!("page {number} has {} entries", used.len()));
            }
            let listed = open.iter().filter(|open| **open as usize == number).count();
            if listed != usize::from(page.listed) || (in_use < size && listed == 0) {
                return Err(format!(
                    "page {number} is named {listed} times as having room"
                ));
            }
            let being_filled = self.open == number as u32;
            if in_use == 0 && !used.is_empty() && !being_filled && number >= KEPT_PAGES {
                return Err(format!("page {number} is empty and keeps its memory"));
            }
        }
        let allocated: usize = self.pages.iter().map(|page| page.entries.len()).sum();
        if (held.len(), allocated) != (self.len as usize, self.allocated as usize) {
            return Err(format!(
                "a slab does not hold {} in {}",
                self.len, self.allocated
            ));
        }
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Cell {
        Vacant(u32),
        Held(u32),
    }

    impl Entry for Cell {
        fn vacant(next: u32) -> Self {
            Self::Vacant(next)
        }
        fn next_vacant(&self) -> u32 {
            match self {
                Self::Vacant(next) => *next,
                Self::Held(_) => unreachable!("asked only of vacant cells"),
            }
        }
    }

    #[test]
    fn slots_and_pages_agree() {
        let mut expected = 0;
        for page in 0..20 {
            let (first, size) = extent(page);
            assert_eq!(first, expected);
            for at in 0..size {
                assert_eq!(locate(first + at as u32), (page, at));
            }
            expected += size as u32;
        }
    }

    #[test]
    fn entries_stay_where_they_are_and_memory_goes_back() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..5000).map(|n| slab.insert(Cell::Held(n))).collect();
        for (n, slot) in slots.iter().enumerate() {
            assert_eq!(*slab.get(*slot), Cell::Held(n as u32));
        }
        for slot in slots.iter().filter(|slot| *slot % 2 == 0) {
            slab.remove(*slot);
        }
        let again: Vec<u32> = (0..2500).map(|n| slab.insert(Cell::Held(n))).collect();
        assert!(
            again.iter().all(|slot| *slot < 5120),
            "vacant slots are used first"
        );
        for slot in slots.iter().filter(|slot| *slot % 2 == 1).chain(&again) {
            slab.remove(*slot);
        }
        assert_eq!((slab.len(), slab.bytes()), (0, 0));
    }

    #[test]
    fn memory_goes_back_while_the_oldest_entries_leave() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..50 * PAGE as u32)
            .map(|n| slab.insert(Cell::Held(n)))
            .collect();
        for slot in &slots[..49 * PAGE] {
            slab.remove(*slot);
        }
        assert_eq!(slab.check().as_deref(), Ok(&slots[49 * PAGE..]));
        assert!(slab.allocated as usize <= 3 * PAGE, "{}", slab.allocated);
    }

    #[test]
    fn a_first_in_first_out_stream_stays_within_a_few_pages() {
        let mut slab = Slab::default();
        let mut held = std::collections::VecDeque::new();
        for n in 0..200_000 {
            held.push_back(slab.insert(Cell::Held(n)));
            if held.len() > 3000 {
                slab.remove(held.pop_front().expect("just pushed"));
            }
        }
        assert!(
            slab.allocated as usize <= 3000 + 4 * PAGE,
            "{}",
            slab.allocated
        );
    }

    #[test]
    fn one_entry_of_a_thousand_that_stays_holds_a_small_page_only() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..100_000).map(|n| slab.insert(Cell::Held(n))).collect();
        for slot in slots.iter().filter(|slot| *slot % 1000 != 0) {
            slab.remove(*slot);
        }
        assert_eq!(slab.check().map(|held| held.len()), Ok(100));
        assert!(slab.allocated <= 102 * PAGE as u32, "{}", slab.allocated);
    }

    #[test]
    fn a_slab_that_swings_between_none_and_a_few_keeps_its_memory() {
        let mut slab = Slab::default();
        for round in 0..100 {
            let slots: Vec<u32> = (0..12).map(|n| slab.insert(Cell::Held(n))).collect();
            assert_eq!(slab.allocated, 16, "round {round}");
            for slot in slots {
                slab.remove(slot);
            }
            assert_eq!(slab.check(), Ok(Vec::new()));
            assert_eq!(slab.allocated, 16, "round {round}");
        }
    }
}
