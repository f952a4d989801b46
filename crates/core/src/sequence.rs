//! The index of ids that the queue made itself: an array in pages, addressed by the number in the id.
//!
//! Such ids are numbered, added in that order and mostly finished in that order, so their slots lie
//! side by side here. A hash table would scatter them over all of its memory, one cache miss for each
//! step, and move them about as it grows. A page that has become sparse is dissolved into the hash
//! index, so that a few messages that stay for long do not hold many pages.

use hashbrown::HashTable;

use crate::relocate::Relocate;
use crate::slab::NIL;

const PAGE_BITS: u32 = 9;
const PAGE: usize = 1 << PAGE_BITS;
/// A page with fewer entries is dissolved, unless it is the one being filled.
const SPARSE: u32 = PAGE as u32 / 16;

#[derive(Debug)]
struct Page {
    number: u32,
    used: u32,
    slots: Box<[u32; PAGE]>,
}

#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pages: HashTable<Page>,
    len: usize,
}

#[inline]
fn hash(page: u32) -> u64 {
    u64::from(page).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[inline]
fn split(number: u32) -> (u32, usize) {
    (number >> PAGE_BITS, number as usize % PAGE)
}

impl Sequence {
    /// The slot of the message with this number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<u32> {
        let (page, at) = split(number);
        let page = self.pages.find(hash(page), |other| other.number == page)?;
        Some(page.slots[at]).filter(|slot| *slot != NIL)
    }

    /// Adds a message. False if its place is taken, or if its page is not there and `may_grow` is
    /// false: it then belongs into the hash index.
    #[inline]
    pub fn insert(&mut self, number: u32, slot: u32, may_grow: bool) -> bool {
        let (number, at) = split(number);
        let page = match self
            .pages
            .find_mut(hash(number), |page| page.number == number)
        {
            Some(page) => page,
            None if may_grow => self.grow(number),
            None => return false,
        };
        let place = &mut page.slots[at];
        if *place != NIL {
            return false;
        }
        *place = slot;
        page.used += 1;
        self.len += 1;
        true
    }

    #[cold]
    fn grow(&mut self, number: u32) -> &mut Page {
        let page = Page {
            number,
            used: 0,
            slots: Box::new([NIL; PAGE]),
        };
        self.pages
            .insert_unique(hash(number), page, |page| hash(page.number))
            .into_mut()
    }

    /// Takes out the message in `slot`; false if it is not here. `current` is the number that is
    /// given next. What is left of a page that has become sparse goes to `dissolve`.
    #[inline]
    pub fn remove(
        &mut self,
        number: u32,
        slot: u32,
        current: u32,
        dissolve: impl FnMut(u32),
    ) -> bool {
        let (number, at) = split(number);
        let Some(page) = self
            .pages
            .find_mut(hash(number), |page| page.number == number)
        else {
            return false;
        };
        if page.slots[at] != slot {
            return false;
        }
        page.slots[at] = NIL;
        page.used -= 1;
        self.len -= 1;
        if page.used < SPARSE && number != split(current).0 {
            self.drop_page(number, dissolve);
        }
        true
    }

    #[cold]
    fn drop_page(&mut self, number: u32, dissolve: impl FnMut(u32)) {
        if let Ok(entry) = self
            .pages
            .find_entry(hash(number), |page| page.number == number)
        {
            let (page, _) = entry.remove();
            self.len -= page.used as usize;
            page.slots
                .iter()
                .copied()
                .filter(|slot| *slot != NIL)
                .for_each(dissolve);
        }
        if self.pages.is_empty() {
            self.pages = HashTable::new();
        }
    }

    /// Whether one more page would still be well used.
    pub fn is_dense(&self) -> bool {
        self.pages.len() * SPARSE as usize <= self.len
    }

    /// The slots in the pages, for [`Queue::check`](crate::Queue::check).
    ///
    /// # Errors
    /// If the counts are not those of the pages.
    pub fn check(&self) -> Result<Vec<u32>, String> {
        let mut slots = Vec::new();
        for page in &self.pages {
            let before = slots.len();
            slots.extend(page.slots.iter().copied().filter(|slot| *slot != NIL));
            if slots.len() - before != page.used as usize {
                return Err(format!("page {} does not hold {}", page.number, page.used));
            }
        }
        if slots.len() != self.len {
            return Err(format!("{} made ids instead of {}", slots.len(), self.len));
        }
        Ok(slots)
    }

    /// Lets `mover` move some pages; false if they were the last.
    pub fn relocate(&mut self, step: usize, mover: &mut impl Relocate) -> bool {
        const PAGES: usize = 128;
        let pages = self.pages.iter_mut().skip(step * PAGES).take(PAGES);
        pages.for_each(|page| mover.value(&mut page.slots));
        (step + 1) * PAGES < self.pages.len()
    }

    /// Bytes the pages hold.
    pub fn bytes(&self) -> usize {
        self.pages.allocation_size() + self.pages.len() * size_of::<[u32; PAGE]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_until_they_are_removed() {
        let mut sequence = Sequence::default();
        for number in 0..5000 {
            assert!(sequence.insert(number, number + 7, true));
        }
        assert!(!sequence.insert(17, 1, true), "the place is taken");
        assert_eq!(sequence.get(4999), Some(5006));
        assert_eq!(sequence.get(5000), None);
        let mut dissolved = Vec::new();
        for number in 0..5000 {
            let here = sequence.remove(number, number + 7, 5000, |slot| dissolved.push(slot));
            assert_eq!(here, !dissolved.contains(&(number + 7)));
            assert_eq!(sequence.get(number), None);
        }
        assert!(
            sequence.len == 0 && sequence.bytes() <= 4096,
            "{} bytes",
            sequence.bytes()
        );
    }

    #[test]
    fn a_page_is_not_made_where_it_may_not_be() {
        let mut sequence = Sequence::default();
        assert!(!sequence.insert(1_000_000, 1, false));
        assert!(sequence.insert(1_000_000, 1, true));
        assert!(
            sequence.insert(1_000_001, 2, false),
            "the page is there now"
        );
    }

    #[test]
    fn a_sparse_page_is_dissolved() {
        let mut sequence = Sequence::default();
        for number in 0..PAGE as u32 {
            sequence.insert(number, number, true);
        }
        let mut left = Vec::new();
        for number in 0..PAGE as u32 - SPARSE + 1 {
            assert!(left.is_empty());
            sequence.remove(number, number, 10_000, |slot| left.push(slot));
        }
        let expected: Vec<u32> = (PAGE as u32 - SPARSE + 1..PAGE as u32).collect();
        assert_eq!(left, expected);
        assert_eq!(sequence.bytes(), 0);
    }
}
