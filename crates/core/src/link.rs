//! Doubly linked lists through the entries themselves.

use crate::slab::NIL;
use crate::types::Timestamp;

/// Where the links of an entry are kept.
pub(crate) trait Links {
    fn previous(&self, entry: u32) -> u32;
    fn next(&self, entry: u32) -> u32;
    fn set_previous(&mut self, entry: u32, to: u32);
    fn set_next(&mut self, entry: u32, to: u32);
    /// When time moves the entry on.
    fn due(&self, entry: u32) -> Timestamp;
    /// How many entries there are, in whatever list.
    fn len(&self) -> usize;
}

/// First and last entry of a list; each entry is in one list at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NIL,
            tail: NIL,
        }
    }
}

impl List {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    #[inline]
    pub fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline]
    pub fn tail(&self) -> Option<u32> {
        (self.tail != NIL).then_some(self.tail)
    }

    #[inline]
    pub fn push_back(&mut self, links: &mut impl Links, entry: u32) {
        links.set_previous(entry, self.tail);
        links.set_next(entry, NIL);
        if self.tail == NIL {
            self.head = entry;
        } else {
            links.set_next(self.tail, entry);
        }
        self.tail = entry;
    }

    #[inline]
    pub fn push_front(&mut self, links: &mut impl Links, entry: u32) {
        links.set_previous(entry, NIL);
        links.set_next(entry, self.head);
        if self.head == NIL {
            self.tail = entry;
        } else {
            links.set_previous(self.head, entry);
        }
        self.head = entry;
    }

    /// Puts `entry` directly behind `before`, which is in this list, or first.
    pub fn insert_behind(&mut self, links: &mut impl Links, before: Option<u32>, entry: u32) {
        let Some(before) = before else {
            self.push_front(links, entry);
            return;
        };
        let next = links.next(before);
        if next == NIL {
            self.push_back(links, entry);
            return;
        }
        links.set_previous(entry, before);
        links.set_next(entry, next);
        links.set_next(before, entry);
        links.set_previous(next, entry);
    }

    #[inline]
    pub fn pop_front(&mut self, links: &mut impl Links) -> Option<u32> {
        let entry = self.head()?;
        self.unlink(links, entry);
        Some(entry)
    }

    /// Whether `entry` is the first or the last of this list.
    #[inline]
    pub fn holds_at_end(&self, entry: u32) -> bool {
        self.head == entry || self.tail == entry
    }

    /// Takes out `entry`, which is in this list.
    #[inline]
    pub fn unlink(&mut self, links: &mut impl Links, entry: u32) {
        let (previous, next) = (links.previous(entry), links.next(entry));
        if previous == NIL {
            self.head = next;
        } else {
            links.set_next(previous, next);
        }
        if next == NIL {
            self.tail = previous;
        } else {
            links.set_previous(next, previous);
        }
    }

    /// Moves all of `other` behind the entries of this list.
    pub fn append(&mut self, links: &mut impl Links, other: &mut Self) {
        let other = std::mem::take(other);
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            links.set_next(self.tail, other.head);
            links.set_previous(other.head, self.tail);
            self.tail = other.tail;
        }
    }

    /// The entries, first to last.
    pub fn iter<'a>(&self, links: &'a impl Links) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(self.head(), move |entry| {
            let next = links.next(*entry);
            (next != NIL).then_some(next)
        })
    }

    /// The entries, last to first.
    pub fn iter_back<'a>(&self, links: &'a impl Links) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(self.tail(), move |entry| {
            let previous = links.previous(*entry);
            (previous != NIL).then_some(previous)
        })
    }

    /// The entries, first to last, if the links agree in both directions; `most` is how many there
    /// can be.
    pub fn check(&self, links: &impl Links, most: usize) -> Result<Vec<u32>, String> {
        let mut entries = Vec::new();
        let (mut previous, mut at) = (NIL, self.head);
        while at != NIL {
            if entries.len() == most {
                return Err(format!("a list from {} runs in a circle", self.head));
            }
            if links.previous(at) != previous {
                return Err(format!(
                    "the links between {previous} and {at} do not agree"
                ));
            }
            entries.push(at);
            (previous, at) = (at, links.next(at));
        }
        if self.tail != previous {
            return Err(format!(
                "a list ends with {previous}, not with {}",
                self.tail
            ));
        }
        Ok(entries)
    }
}
