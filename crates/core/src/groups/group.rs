//! One group as it lies in the slab, and the lanes of its waiting messages.

use crate::limits::GroupLimits;
use crate::link::{Links, List};
use crate::rate::Meter;
use crate::slab::{Entry, Slab, NIL};
use crate::types::Timestamp;

/// Messages that belong together.
#[derive(Debug)]
pub(crate) struct Group {
    /// Never empty, but in a vacant entry.
    pub key: Box<[u8]>,
    /// What few groups have.
    pub extra: Option<Box<Extra>>,
    /// The timer's instant in the lowest 48 bits, zero for none, then flags.
    due_flags: u64,
    pub hash: u32,
    /// Messages that name it, whatever their state.
    pub members: u32,
    /// Those that are not finished.
    pub open: u32,
    /// Those with a consumer.
    pub in_flight: u32,
    /// Those that are ready.
    pub waiting: u32,
    /// The slot of the message that keeps the group until it ends, where order is kept.
    pub holder: u32,
    /// First of its lanes, which are linked as siblings.
    pub lanes: u32,
    previous: u32,
    next: u32,
}

const _: () = assert!(size_of::<Group>() == 72);

/// What a group may have of its own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    pub limits: Option<Box<GroupLimits>>,
    pub meter: Meter,
    /// When its pause ends; the epoch for one that somebody must end.
    pub pause: Option<Timestamp>,
}

const DUE_MASK: u64 = (1 << Timestamp::BITS) - 1;
const PARKED: u64 = 1 << 48;
const SHUT: u64 = 1 << 49;
const HOLDER_READY: u64 = 1 << 50;

impl Group {
    pub fn new(key: &[u8], hash: u32) -> Self {
        Self {
            key: key.into(),
            hash,
            ..Self::vacant(NIL)
        }
    }

    #[inline]
    fn flag(&self, flag: u64) -> bool {
        self.due_flags & flag != 0
    }

    #[inline]
    fn set_flag(&mut self, flag: u64, on: bool) {
        self.due_flags = self.due_flags & !flag | if on { flag } else { 0 };
    }

    /// Whether its lanes are out of the rings.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.flag(PARKED)
    }

    pub fn set_parked(&mut self, on: bool) {
        self.set_flag(PARKED, on);
    }

    /// Whether its rate or a pause forbids deliveries, as far as time has been let act.
    #[inline]
    pub fn is_shut(&self) -> bool {
        self.flag(SHUT)
    }

    pub fn set_shut(&mut self, on: bool) {
        self.set_flag(SHUT, on);
    }

    /// Whether the message that keeps the group waits for its next delivery.
    #[inline]
    pub fn is_holder_ready(&self) -> bool {
        self.flag(HOLDER_READY)
    }

    pub fn set_holder_ready(&mut self, on: bool) {
        self.set_flag(HOLDER_READY, on);
    }

    /// When time acts on the group; zero for never.
    #[inline]
    pub fn due(&self) -> Timestamp {
        Timestamp::from_millis(self.due_flags & DUE_MASK)
    }

    pub fn set_due(&mut self, due: Timestamp) {
        self.due_flags = self.due_flags & !DUE_MASK | due.millis();
    }

    pub fn own_limits(&self) -> GroupLimits {
        let limits = self.extra.as_ref().and_then(|extra| extra.limits.as_ref());
        limits.map_or_else(GroupLimits::default, |limits| **limits)
    }

    pub fn meter(&self) -> Meter {
        self.extra
            .as_ref()
            .map_or_else(Meter::default, |extra| extra.meter)
    }

    pub fn pause(&self) -> Option<Timestamp> {
        self.extra.as_ref()?.pause
    }

    /// Changes what the group has of its own; nothing left takes no memory.
    pub fn change_extra(&mut self, change: impl FnOnce(&mut Extra)) {
        let extra = self.extra.get_or_insert_default();
        change(extra);
        if **extra == Extra::default() {
            self.extra = None;
        }
    }

    /// Whether the slot is in use.
    pub fn is_held(&self) -> bool {
        !self.key.is_empty()
    }

    /// Bytes it holds elsewhere.
    pub fn bytes(&self) -> usize {
        let limits = |extra: &Extra| {
            extra
                .limits
                .as_ref()
                .map_or(0, |_| size_of::<GroupLimits>())
        };
        let extra = |extra: &Extra| size_of::<Extra>() + limits(extra);
        self.key.len() + self.extra.as_deref().map_or(0, extra)
    }
}

impl Entry for Group {
    fn vacant(next: u32) -> Self {
        Self {
            key: Box::default(),
            extra: None,
            due_flags: 0,
            hash: 0,
            members: 0,
            open: 0,
            in_flight: 0,
            waiting: 0,
            holder: NIL,
            lanes: NIL,
            previous: NIL,
            next,
        }
    }

    fn next_vacant(&self) -> u32 {
        self.next
    }
}

impl Links for Slab<Group> {
    fn len(&self) -> usize {
        Slab::len(self)
    }
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
        self.get(entry).due()
    }
}

/// The waiting messages of one group and priority; or all without a group of one priority, which
/// are in the queue's own list.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The messages, first to last; empty in the lane of those without a group.
    pub list: List,
    /// The group; none for messages without one.
    pub group: u32,
    /// The group's next lane.
    pub sibling: u32,
    pub level: u8,
    /// Whether it is in the ring of its priority.
    pub in_turn: bool,
    previous: u32,
    next: u32,
}

impl Lane {
    pub fn new(group: u32, level: u8, sibling: u32) -> Self {
        Self {
            group,
            level,
            sibling,
            ..Self::vacant(NIL)
        }
    }
}

impl Entry for Lane {
    fn vacant(next: u32) -> Self {
        Self {
            list: List::default(),
            group: NIL,
            sibling: NIL,
            level: 0,
            in_turn: false,
            previous: NIL,
            next,
        }
    }

    fn next_vacant(&self) -> u32 {
        self.next
    }
}

impl Links for Slab<Lane> {
    fn len(&self) -> usize {
        Slab::len(self)
    }
    #[inline]
    fn previous(&self, entry: u32) -> u32 {
        self.get(entry).previous
    }
    #[inline]
    fn next(&self, entry: u32) -> u32 {
        self.get(entry).next
    }
    #[inline]
    fn set_previous(&mut self, entry: u32, to: u32) {
        self.get_mut(entry).previous = to;
    }
    #[inline]
    fn set_next(&mut self, entry: u32, to: u32) {
        self.get_mut(entry).next = to;
    }
    fn due(&self, _entry: u32) -> Timestamp {
        Timestamp::ZERO
    }
}
