//! What finished messages left behind: their results, each for a while and beside all messages.
//!
//! A result holds no id and has no status. It is found by the id of its message, in an index of its
//! own, and goes by a wheel of its own. A queue without results has none of it.

use crate::id::Key;
use crate::index::Index;
use crate::link::Links;
use crate::queue::allocated;
use crate::relocate::Relocate;
use crate::slab::{Entry, Slab, NIL};
use crate::types::Timestamp;
use crate::wheel::{self, Wheel};

/// One result: 48 bytes, and one allocation that holds the id and then the value.
#[derive(Debug)]
struct Kept {
    body: Box<[u8]>,
    previous: u32,
    next: u32,
    hash: u32,
    id_len: u16,
    is_uuid: bool,
    at: Timestamp,
    until: Timestamp,
}

const _: () = assert!(size_of::<Kept>() == 48);

/// A result, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held<'a> {
    pub key: Key<'a>,
    pub value: &'a [u8],
    /// When its message was finished.
    pub at: Timestamp,
    /// From when on it is not there any more.
    pub until: Timestamp,
}

impl Kept {
    fn key(&self) -> Key<'_> {
        let id = &self.body[..usize::from(self.id_len)];
        match <[u8; 16]>::try_from(id) {
            Ok(bytes) if self.is_uuid => Key::Uuid(bytes),
            _ => Key::Bytes(id),
        }
    }

    fn held(&self) -> Held<'_> {
        Held {
            key: self.key(),
            value: &self.body[usize::from(self.id_len)..],
            at: self.at,
            until: self.until,
        }
    }
}

impl Entry for Kept {
    fn vacant(next: u32) -> Self {
        Self {
            body: Box::default(),
            previous: NIL,
            next,
            hash: 0,
            id_len: 0,
            is_uuid: false,
            at: Timestamp::ZERO,
            until: Timestamp::ZERO,
        }
    }

    fn next_vacant(&self) -> u32 {
        self.next
    }
}

impl Links for Slab<Kept> {
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
        self.get(entry).until
    }
    fn len(&self) -> usize {
        Slab::len(self)
    }
}

/// The results of a queue.
#[derive(Debug, Default)]
pub(crate) struct Results {
    slab: Slab<Kept>,
    index: Index,
    wheel: Wheel,
    body_bytes: usize,
}

impl Results {
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Keeps a result whose id has none.
    pub fn insert(&mut self, hash: u32, held: Held<'_>) {
        let id = held.key.stored();
        let mut body = Vec::with_capacity(id.len() + held.value.len());
        body.extend_from_slice(id);
        body.extend_from_slice(held.value);
        self.body_bytes += allocated(body.len());
        let slot = self.slab.insert(Kept {
            body: body.into_boxed_slice(),
            hash,
            id_len: id.len() as u16, // an id has at most 512 bytes
            is_uuid: held.key.is_uuid(),
            at: held.at,
            until: held.until,
            ..Kept::vacant(NIL)
        });
        self.index.insert(hash, slot);
        if slot as usize >= wheel::FEW && !self.wheel.deals_ahead() {
            self.wheel.deal_ahead_from_now_on();
        }
        self.wheel.insert(&mut self.slab, slot, held.until);
    }

    fn find(&self, hash: u32, key: &Key<'_>) -> Option<u32> {
        self.index
            .find(hash, |slot| self.slab.get(slot).key() == *key)
    }

    /// The result of the message with this id.
    pub fn get(&self, hash: u32, key: &Key<'_>) -> Option<Held<'_>> {
        Some(self.slab.get(self.find(hash, key)?).held())
    }

    /// Lets go of the result of an id; false if there is none.
    pub fn remove(&mut self, hash: u32, key: &Key<'_>) -> bool {
        let Some(slot) = self.find(hash, key) else {
            return false;
        };
        let until = self.slab.get(slot).until;
        self.wheel.remove(&mut self.slab, slot, until);
        self.index.remove(hash, slot);
        let kept = self.slab.remove(slot);
        self.body_bytes -= allocated(kept.body.len());
        true
    }

    /// Whether none is over at `now`, or is to be dealt out; see [`Wheel::is_quiet_at`].
    #[inline]
    pub fn is_quiet_at(&mut self, now: Timestamp) -> bool {
        self.wheel.is_quiet_at(now)
    }

    /// The earliest instant at which there is something to do.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        self.wheel.next()
    }

    /// Moves the wheel's time towards `now`; see [`Wheel::advance`].
    pub fn advance(&mut self, now: Timestamp, budget: usize) -> usize {
        self.wheel.advance(&mut self.slab, now, budget)
    }

    /// The first result that is over, once the wheel has been advanced.
    pub fn overdue(&self) -> Option<Held<'_>> {
        let slot = self.wheel.overdue().head()?;
        Some(self.slab.get(slot).held())
    }

    /// How many are over by `now`, though they may be there.
    pub fn over_by(&self, now: Timestamp) -> usize {
        let lists = self.wheel.lists().filter(|(start, _)| *start <= now);
        let slots = lists.flat_map(|(_, list)| list.iter(&self.slab));
        slots
            .filter(|slot| self.slab.get(*slot).until <= now)
            .count()
    }

    /// Visits all by the instant at which they go, equal ones in the order in which they came.
    pub fn for_each_in_order(&self, mut visit: impl FnMut(Held<'_>)) {
        let lists = self.wheel.lists();
        let mut slots: Vec<u32> = lists.flat_map(|(_, list)| list.iter(&self.slab)).collect();
        slots.sort_by_key(|slot| self.slab.get(*slot).until);
        slots
            .into_iter()
            .for_each(|slot| visit(self.slab.get(slot).held()));
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.slab.bytes()
            + self.index.bytes()
            + self.wheel.bytes()
            + self.body_bytes
    }

    /// Lets `mover` move a page of results; false if it was the last.
    pub fn relocate(&mut self, page: usize, mover: &mut impl Relocate) -> bool {
        if page == 0 {
            self.wheel.relocate(mover);
        }
        self.slab
            .relocate(page, mover, |kept, mover| mover.slice(&mut kept.body))
    }

    /// All results, if slab, index and wheel agree.
    pub fn check(&self, hash: impl Fn(&Key<'_>) -> u32) -> Result<Vec<Held<'_>>, String> {
        let all = self.slab.check()?;
        let mut listed = self.wheel.check(&self.slab, all.len())?;
        listed.sort_unstable();
        let mut indexed = self.index.check(|slot| self.slab.get(slot).hash)?;
        indexed.sort_unstable();
        if listed != all || indexed != all {
            return Err(format!(
                "{} results, {} of them with a time, {} with an id",
                all.len(),
                listed.len(),
                indexed.len()
            ));
        }
        let bodies = all.iter().map(|slot| self.slab.get(*slot).body.len());
        if bodies.map(allocated).sum::<usize>() != self.body_bytes {
            return Err(format!("results do not hold {} bytes", self.body_bytes));
        }
        let mut held = Vec::new();
        for slot in all {
            let kept = self.slab.get(slot);
            if kept.hash != hash(&kept.key()) || self.find(kept.hash, &kept.key()) != Some(slot) {
                return Err(format!("result {slot} is not found by its id"));
            }
            held.push(kept.held());
        }
        Ok(held)
    }
}
