//! Looks in the order in which they are taken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

use super::databases::Slot;

/// Where a queue was found when its look was noted.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The database.
    pub db: Slot,
    /// The key.
    pub name: Box<[u8]>,
}

impl Place {
    /// Whether it is this one.
    pub fn is(&self, db: Slot, name: &[u8]) -> bool {
        self.db == db && *self.name == *name
    }
}

/// In which order looks are taken whose instants have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Consumers wait for it: before all others.
    Waited,
    /// Nobody waits.
    Plain,
    /// A look before this one did not get through all that was due. Takes turns with [`Class::Plain`].
    Backlog,
}

impl Class {
    const ALL: [Class; 3] = [Class::Waited, Class::Plain, Class::Backlog];
}

/// The look at one queue: it is in the plan, or not. Its queue reads it without a lock; only the plan
/// changes it.
#[derive(Debug)]
pub struct Look {
    place: Place,
    /// What falls due from this instant on need not be noted.
    covers: AtomicU64,
    /// With `order`, the key in the plan.
    at: AtomicU64,
    order: AtomicU64,
    /// A [`Class`], or `NOT_NOTED`.
    class: AtomicU8,
    /// How often in a row the queue was not found.
    misses: AtomicU8,
    gone: AtomicBool,
}

const NOT_NOTED: u8 = u8::MAX;

impl Look {
    /// A look that is not in the plan.
    pub fn new(place: Place) -> Arc<Look> {
        Arc::new(Look {
            place,
            covers: AtomicU64::new(u64::MAX),
            at: AtomicU64::new(0),
            order: AtomicU64::new(0),
            class: AtomicU8::new(NOT_NOTED),
            misses: AtomicU8::new(0),
            gone: AtomicBool::new(false),
        })
    }

    /// Where the queue was found.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What falls due at this instant (milliseconds of steady time) or later is taken care of: the look in the plan
    /// comes in time for it. `u64::MAX` where there is none.
    #[inline]
    pub fn covers(&self) -> u64 {
        self.covers.load(Ordering::Relaxed)
    }

    /// Whether it is in the plan.
    #[cfg(test)]
    pub fn is_noted(&self) -> bool {
        self.class.load(Ordering::Relaxed) != NOT_NOTED
    }

    /// The queue is gone, or is looked after elsewhere.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// How often in a row the queue was not found where the look says, this time included.
    pub fn miss(&self) -> u8 {
        let misses = self.misses.load(Ordering::Relaxed).saturating_add(1);
        self.misses.store(misses, Ordering::Relaxed);
        misses
    }

    /// The queue was found.
    pub fn found(&self) {
        self.misses.store(0, Ordering::Relaxed);
    }

    fn key(&self) -> (u64, u64) {
        let at = self.at.load(Ordering::Relaxed);
        (at, self.order.load(Ordering::Relaxed))
    }

    fn class(&self) -> Option<Class> {
        let class = self.class.load(Ordering::Relaxed);
        Class::ALL.get(usize::from(class)).copied()
    }

    fn take_out(&self) {
        self.class.store(NOT_NOTED, Ordering::Relaxed);
        self.covers.store(u64::MAX, Ordering::Relaxed);
    }
}

/// All looks that are to come. Noting and removing take logarithmic time each, whatever the number.
#[derive(Debug)]
pub struct Plan {
    /// By class.
    looks: [BTreeMap<(u64, u64), Arc<Look>>; Class::ALL.len()],
    /// Orders looks of the same instant.
    noted: u64,
    /// Whether it is the backlog's turn.
    backlog_next: bool,
}

impl Plan {
    /// No looks.
    pub const fn new() -> Plan {
        Plan {
            looks: [const { BTreeMap::new() }; Class::ALL.len()],
            noted: 0,
            backlog_next: false,
        }
    }

    /// How many looks are to come.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.looks.iter().map(BTreeMap::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.looks.iter().all(BTreeMap::is_empty)
    }

    /// Notes the look at the instant `at`, which is in time for all that falls due from `covers` on. One
    /// that is noted already keeps the better class and the earlier instant.
    pub fn note(&mut self, look: &Arc<Look>, class: Class, at: u64, covers: u64) {
        let (class, at) = match look.class() {
            Some(noted) => (class.min(noted), at.min(look.at.load(Ordering::Relaxed))),
            None => (class, at),
        };
        let covers = covers.min(look.covers());
        if look.class() != Some(class) || look.at.load(Ordering::Relaxed) != at {
            self.remove(look);
            self.noted += 1;
            look.at.store(at, Ordering::Relaxed);
            look.order.store(self.noted, Ordering::Relaxed);
            look.class.store(class as u8, Ordering::Relaxed);
            self.looks[class as usize].insert((at, self.noted), Arc::clone(look));
        }
        look.covers.store(covers, Ordering::Relaxed);
    }

    /// Takes the look out of the plan, if it is there.
    pub fn remove(&mut self, look: &Look) {
        if let Some(class) = look.class() {
            self.looks[class as usize].remove(&look.key());
            look.take_out();
        }
    }

    /// Takes the look out for good: its queue is gone, or has another one.
    pub fn forget(&mut self, look: &Look) {
        look.gone.store(true, Ordering::Relaxed);
        self.remove(look);
    }

    /// The next look whose instant has come. It is no longer in the plan.
    pub fn take_due(&mut self, now: u64) -> Option<Arc<Look>> {
        let others = if self.backlog_next {
            [Class::Backlog, Class::Plain]
        } else {
            [Class::Plain, Class::Backlog]
        };
        let class = [Class::Waited, others[0], others[1]]
            .into_iter()
            .find(|class| self.first_of(*class).is_some_and(|at| at <= now))?;
        if class != Class::Waited {
            self.backlog_next = class == Class::Plain;
        }
        let (_, look) = self.looks[class as usize].pop_first()?;
        look.take_out();
        Some(look)
    }

    /// When the next look is to be taken.
    pub fn first(&self) -> Option<u64> {
        Class::ALL
            .into_iter()
            .filter_map(|class| self.first_of(class))
            .min()
    }

    fn first_of(&self, class: Class) -> Option<u64> {
        let ((at, _), _) = self.looks[class as usize].first_key_value()?;
        Some(*at)
    }

    /// Takes out at most `count` looks, whenever they are due; true when none is left.
    pub fn clear(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let first = self.looks.iter_mut().find_map(BTreeMap::pop_first);
            match first {
                Some((_, look)) => look.take_out(),
                None => return true,
            }
        }
        self.is_empty()
    }
}

#[cfg(test)]
mod tests;
