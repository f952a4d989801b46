//! A slab in pages: growing never moves or copies what is there, and empty pages go back.
//!
//! The first pages are small (16 slots, doubling), so that a queue of one message costs little;
//! from slot 1024 on every page has 1024.

/// What a slab can hold: a vacant entry carries the number of the next vacant one of its page.
pub(crate) trait Entry {
    /// A vacant entry.
    fn vacant(next: u32) -> Self;
    /// The next vacant entry's number, as given to [`Entry::vacant`].
    fn next_vacant(&self) -> u32;
}

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

const FIRST_BITS: u32 = 4;
const PAGE_BITS: u32 = 10;
const PAGE: usize = 1 << PAGE_BITS;
/// Pages before slot 1024: 16, 16, 32, 64, … 512.
const SMALL_PAGES: usize = (PAGE_BITS - FIRST_BITS + 1) as usize;

#[derive(Debug)]
struct Page<T> {
    entries: Vec<T>,
    /// How many entries the page may hold; 0 while it has no memory.
    limit: u32,
    vacant: u32,
    used: u32,
    /// Whether `open` names this page.
    listed: bool,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Vec<Page<T>>,
    /// Pages that may have room; those without are dropped when met.
    open: Vec<u32>,
    len: usize,
    allocated: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            open: Vec::new(),
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

    pub fn len(&self) -> usize {
        self.len
    }

    /// Slots that have memory, used or not.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Puts `entry` into a vacant slot and names that slot.
    ///
    /// # Panics
    /// At 2^32 - 1 entries, which need over 200 GB.
    #[inline]
    pub fn insert(&mut self, entry: T) -> u32 {
        let number = self.page_with_room();
        let first = extent(number).0;
        let page = &mut self.pages[number];
        page.used += 1;
        self.len += 1;
        if page.vacant != NIL {
            let slot = page.vacant;
            let place = &mut page.entries[(slot - first) as usize];
            page.vacant = place.next_vacant();
            *place = entry;
            slot
        } else {
            debug_assert!(page.entries.len() < page.limit as usize);
            let slot = first + page.entries.len() as u32;
            page.entries.push(entry);
            slot
        }
    }

    /// Takes the entry out of `slot`, which must be in use.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> T {
        let (number, at) = locate(slot);
        let page = &mut self.pages[number];
        let entry = std::mem::replace(&mut page.entries[at], T::vacant(page.vacant));
        page.vacant = slot;
        page.used -= 1;
        self.len -= 1;
        let (is_empty, is_new) = (page.used == 0, !page.listed);
        page.listed = true;
        if is_new {
            let covered = self.open.last().copied();
            self.open.push(number as u32);
            if let Some(covered) = covered {
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
        if let Some(&number) = self.open.last() {
            let page = &self.pages[number as usize];
            if page.vacant != NIL || page.entries.len() < page.limit as usize {
                return number as usize;
            }
        }
        self.open_page()
    }

    #[cold]
    fn open_page(&mut self) -> usize {
        while let Some(&number) = self.open.last() {
            let page = &mut self.pages[number as usize];
            let size = extent(number as usize).1;
            if page.vacant != NIL || page.entries.len() < size {
                if page.limit == 0 {
                    page.entries.reserve_exact(size);
                    page.limit = size as u32;
                    self.allocated += size;
                }
                return number as usize;
            }
            page.listed = false;
            self.open.pop();
        }
        let number = self.pages.len();
        let (first, size) = extent(number);
        assert!(
            u64::from(first) + (size as u64) < u64::from(NIL),
            "the slab is full"
        );
        let (entries, limit) = (Vec::with_capacity(size), size as u32);
        self.pages.push(Page {
            entries,
            limit,
            vacant: NIL,
            used: 0,
            listed: true,
        });
        self.open.push(number as u32);
        self.allocated += size;
        number
    }

    /// Gives a page's memory back if it is empty, unless it is the one being filled: a queue that
    /// swings between none and a few messages must not pay for a page each time.
    fn release(&mut self, number: usize) {
        let being_filled = self.open.last() == Some(&(number as u32));
        if self.len == 0 && self.pages.len() > 1 {
            *self = Self::default();
        } else if self.pages[number].used == 0 && !being_filled {
            let page = &mut self.pages[number];
            page.entries = Vec::new();
            page.vacant = NIL;
            self.allocated -= page.limit as usize;
            page.limit = 0;
        }
    }

    /// The slots in use, if what the pages say of themselves is true.
    pub fn check(&self) -> Result<Vec<u32>, String> {
        let mut held = Vec::new();
        for (number, page) in self.pages.iter().enumerate() {
            let (first, size) = extent(number);
            let mut used = vec![true; page.entries.len()];
            let mut vacant = page.vacant;
            while vacant != NIL {
                match used.get_mut(vacant.wrapping_sub(first) as usize) {
                    Some(entry) if *entry => *entry = false,
                    _ => return Err(format!("page {number} links {vacant} as vacant")),
                }
                vacant = self.get(vacant).next_vacant();
            }
            let before = held.len();
            held.extend(
                (first..)
                    .zip(&used)
                    .filter(|(_, used)| **used)
                    .map(|(slot, _)| slot),
            );
            let limit = page.limit as usize;
            let listed = self
                .open
                .iter()
                .filter(|open| **open as usize == number)
                .count();
            let has_room = held.len() - before < size;
            if held.len() - before != page.used as usize {
                return Err(format!("page {number} does not have {} in use", page.used));
            }
            if used.len() > limit || (limit != 0 && limit != size) {
                return Err(format!(
                    "page {number} has {} entries of {limit}",
                    used.len()
                ));
            }
            if listed != usize::from(page.listed) || (has_room && listed == 0) {
                return Err(format!(
                    "page {number} is named {listed} times as having room"
                ));
            }
            if page.used == 0 && limit != 0 && self.open.last() != Some(&(number as u32)) {
                return Err(format!("page {number} is empty and keeps its memory"));
            }
        }
        let allocated: usize = self.pages.iter().map(|page| page.limit as usize).sum();
        if (held.len(), allocated) != (self.len, self.allocated) {
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
        assert_eq!((slab.len(), slab.allocated(), slab.pages.len()), (0, 0, 0));
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
        assert!(slab.allocated() <= 3 * PAGE, "{}", slab.allocated());
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
        assert!(slab.allocated() <= 3000 + 4 * PAGE, "{}", slab.allocated());
    }
}
