//! What is rare, kept away from what every message pays for: a newer copy that waits for the end
//! of the current run, and the reason of a dead letter.

use crate::effects::{Content, Extras};
use crate::enqueue::Start;
use crate::expiry::Expiry;
use crate::message::Limits;
use crate::queue::Queue;
use crate::relocate::Relocate;
use crate::slab::Entry;
use crate::types::{Priority, Span, Timestamp};

/// A copy that runs after the current run or dedupe window.
#[derive(Debug)]
pub(crate) struct WaitingCopy {
    pub payload: Box<[u8]>,
    pub limits: Limits,
    pub priority: Priority,
    pub start: Start,
    pub enqueued: Timestamp,
    extras: Option<Box<OwnedExtras>>,
}

/// What few copies have beside.
#[derive(Debug)]
struct OwnedExtras {
    headers: Box<[u8]>,
    group: Box<[u8]>,
    retain: Option<Span>,
    expiry: Option<Expiry>,
    scheduled: Timestamp,
}

impl WaitingCopy {
    pub fn new(content: &Content<'_>, start: Start) -> Self {
        Self {
            payload: content.payload.into(),
            limits: content.limits,
            priority: content.priority,
            start,
            enqueued: content.enqueued,
            extras: (!content.extras.is_none()).then(|| {
                Box::new(OwnedExtras {
                    headers: content.extras.headers.into(),
                    group: content.extras.group.into(),
                    retain: content.extras.retain,
                    expiry: content.extras.expiry,
                    scheduled: content.extras.scheduled,
                })
            }),
        }
    }

    /// What the producer gave beside.
    pub fn extras(&self) -> Extras<'_> {
        match &self.extras {
            Some(extras) => Extras {
                headers: &extras.headers,
                group: &extras.group,
                retain: extras.retain,
                expiry: extras.expiry,
                batch: 0,
                scheduled: extras.scheduled,
            },
            None => Extras::default(),
        }
    }

    pub fn relocate(&mut self, mover: &mut impl Relocate) {
        mover.slice(&mut self.payload);
        if let Some(extras) = &mut self.extras {
            mover.value(extras);
            mover.slice(&mut extras.headers);
        }
    }

    /// When it expires, if that has come by `at`.
    pub fn expiry_by(&self, at: Timestamp) -> Option<Expiry> {
        self.extras().expiry.filter(|expiry| expiry.at <= at)
    }

    /// Bytes it holds elsewhere.
    pub fn bytes(&self) -> usize {
        let extras = |extras: &OwnedExtras| {
            size_of::<OwnedExtras>() + extras.headers.len() + extras.group.len()
        };
        self.payload.len() + self.extras.as_deref().map_or(0, extras)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rare {
    copy: Option<WaitingCopy>,
    reason: Option<Box<[u8]>>,
}

impl Rare {
    fn bytes(&self) -> usize {
        let copy = self.copy.as_ref().map_or(0, WaitingCopy::bytes);
        size_of::<Self>() + copy + self.reason.as_ref().map_or(0, |reason| reason.len())
    }
}

#[derive(Debug)]
pub(crate) enum RareEntry {
    Vacant(u32),
    Held(Box<Rare>),
}

impl Entry for RareEntry {
    fn vacant(next: u32) -> Self {
        Self::Vacant(next)
    }

    fn next_vacant(&self) -> u32 {
        match self {
            Self::Vacant(next) => *next,
            Self::Held(_) => unreachable!("the slab asks this of vacant entries only"),
        }
    }
}

impl RareEntry {
    fn relocate(&mut self, mover: &mut impl Relocate) {
        if let Self::Held(rare) = self {
            mover.value(rare);
            if let Some(copy) = &mut rare.copy {
                copy.relocate(mover);
            }
            if let Some(reason) = &mut rare.reason {
                mover.slice(reason);
            }
        }
    }
}

impl Queue {
    /// Lets `mover` move a page of rare parts; false if it was the last.
    pub(crate) fn relocate_rares(&mut self, page: usize, mover: &mut impl Relocate) -> bool {
        self.rares.relocate(page, mover, RareEntry::relocate)
    }

    fn rare(&self, slot: u32) -> Option<&Rare> {
        match self.rares.get(self.messages.get(slot).rare()?) {
            RareEntry::Held(rare) => Some(rare),
            RareEntry::Vacant(_) => None,
        }
    }

    /// Bytes of the rare parts of these messages.
    pub(crate) fn recount_rare_bytes(&self, slots: &[u32]) -> usize {
        slots
            .iter()
            .filter_map(|slot| self.rare(*slot))
            .map(Rare::bytes)
            .sum()
    }

    /// Changes the rare part; one that is left empty goes.
    fn change_rare(&mut self, slot: u32, change: impl FnOnce(&mut Rare)) {
        let old = self.messages.get(slot).rare();
        let mut rare = match old.map(|at| self.rares.remove(at)) {
            Some(RareEntry::Held(rare)) => rare,
            _ => Box::default(),
        };
        let before = if old.is_some() { rare.bytes() } else { 0 };
        change(&mut rare);
        let holds_something = rare.copy.is_some() || rare.reason.is_some();
        let after = if holds_something { rare.bytes() } else { 0 };
        let new = holds_something.then(|| self.rares.insert(RareEntry::Held(rare)));
        self.rare_bytes = self.rare_bytes + after - before;
        if new != old {
            self.change_body(slot, |message| message.set_rare(new));
        }
    }

    /// The waiting copy.
    #[inline]
    pub(crate) fn copy(&self, slot: u32) -> Option<&WaitingCopy> {
        self.rare(slot)?.copy.as_ref()
    }

    #[inline]
    pub(crate) fn has_copy(&self, slot: u32) -> bool {
        self.copy(slot).is_some()
    }

    /// Lets `copy` wait, in place of an older one. The caller keeps the counts.
    pub(crate) fn set_copy(&mut self, slot: u32, copy: WaitingCopy) {
        self.change_rare(slot, |rare| rare.copy = Some(copy));
    }

    /// Takes the waiting copy away. The caller keeps the counts.
    pub(crate) fn take_copy(&mut self, slot: u32) -> Option<WaitingCopy> {
        if !self.has_copy(slot) {
            return None;
        }
        let mut copy = None;
        self.change_rare(slot, |rare| copy = rare.copy.take());
        copy
    }

    /// The reason that a consumer gave for the dead letter.
    pub(crate) fn reason(&self, slot: u32) -> Option<&[u8]> {
        self.rare(slot)?.reason.as_deref()
    }

    pub(crate) fn set_reason(&mut self, slot: u32, reason: Option<&[u8]>) {
        if reason.is_some() || self.reason(slot).is_some() {
            self.change_rare(slot, |rare| rare.reason = reason.map(Box::from));
        }
    }

    /// Gives the rare part's memory back before the message itself goes.
    pub(crate) fn drop_rare(&mut self, slot: u32) {
        if let Some(at) = self.messages.get(slot).rare() {
            if let RareEntry::Held(rare) = self.rares.remove(at) {
                self.rare_bytes -= rare.bytes();
            }
        }
    }
}
