//! Groups of messages, and whose turn it is.
//!
//! Within one priority those who have something deliverable take turns: each group, and all
//! messages without a group together. Each is a *lane*; the lanes of a priority that may be served
//! are in its *ring*, and a lane that was served goes to the back. A group that may not be served
//! is *parked*: its lanes are in no ring, so nobody looks at its messages, and `held` counts them.
//!
//! All of it follows from the messages themselves: how many of a group are with a consumer, and
//! which one keeps the group. Where order is kept (one message of a group at once, the default),
//! the first delivery makes a message the *holder*, and it stays that until it ends: while it is
//! with a consumer or waits for its time nothing else of the group is served, and when it is ready
//! again it comes first.
//!
//! Nothing here knows a clock: whatever depends on time gets the moment of the step's frame.

mod ahead;
mod check;
mod group;
mod lane;

use crate::index::Index;
use crate::limits::{GroupLimits, UNLIMITED};
use crate::link::List;
use crate::rate::{Meter, Rate};
use crate::slab::{Slab, NIL};
use crate::types::{Now, Priority, Timestamp};
use crate::wheel::Wheel;

pub(crate) use check::Recount;
use group::Lane;
pub(crate) use group::{Extra, Group};
pub(crate) use lane::{End, Standing};

/// The longest name of a group.
pub const MAX_GROUP_BYTES: usize = 128;

/// Entries of the timers that one step may deal to lower levels.
const TIMER_BUDGET: usize = 64;

#[derive(Debug)]
pub(crate) struct Groups {
    slab: Slab<Group>,
    index: Index,
    lanes: Slab<Lane>,
    /// The lanes in turn, by priority.
    rings: [List; Priority::LEVELS],
    /// Bit n is set when the ring of priority n has any.
    levels: u16,
    /// The lane of the messages without a group, by priority.
    plain: [u32; Priority::LEVELS],
    /// When pauses and rates of groups end.
    timers: Wheel,
    /// The limits of each group that has none of its own.
    shared: GroupLimits,
    /// Ready messages of parked groups.
    held: usize,
    /// Bytes that the groups hold elsewhere.
    bytes: usize,
}

impl Groups {
    /// No group yet. `has_plain` tells by priority whether there are messages without a group.
    pub fn new(has_plain: impl Fn(usize) -> bool) -> Self {
        let mut groups = Self {
            slab: Slab::default(),
            index: Index::default(),
            lanes: Slab::default(),
            rings: [List::default(); Priority::LEVELS],
            levels: 0,
            plain: [NIL; Priority::LEVELS],
            timers: Wheel::default(),
            shared: GroupLimits::default(),
            held: 0,
            bytes: 0,
        };
        for level in (0..Priority::LEVELS).filter(|level| has_plain(*level)) {
            groups.plain_has(level, true);
        }
        groups
    }

    /// Whether there is nothing to remember any more.
    pub fn is_idle(&self) -> bool {
        self.slab.len() == 0 && self.shared == GroupLimits::default()
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Ready messages whose group may not be served now.
    #[inline]
    pub fn held(&self) -> usize {
        self.held
    }

    #[inline]
    pub fn get(&self, group: u32) -> &Group {
        self.slab.get(group)
    }

    /// The group in a slot of the slab, if one is there.
    pub fn at(&self, slot: u32) -> Option<&Group> {
        self.slab.find(slot).filter(|group| group.is_held())
    }

    /// One more than the last slot that may hold a group.
    pub fn end(&self) -> u32 {
        self.slab.end()
    }

    /// The slots of all groups, by name.
    pub fn by_name(&self) -> Vec<u32> {
        let mut slots: Vec<u32> = (0..self.end())
            .filter(|at| self.at(*at).is_some())
            .collect();
        slots.sort_unstable_by(|one, other| self.get(*one).key.cmp(&self.get(*other).key));
        slots
    }

    #[inline]
    pub fn find(&self, key: &[u8], hash: u32) -> Option<u32> {
        self.index.find(hash, |slot| *self.get(slot).key == *key)
    }

    /// The group of that name, made if it is not there.
    pub fn find_or_make(&mut self, key: &[u8], hash: u32) -> u32 {
        if let Some(group) = self.find(key, hash) {
            return group;
        }
        let group = Group::new(key, hash);
        self.bytes += group.bytes();
        let slot = self.slab.insert(group);
        self.index.insert(hash, slot);
        slot
    }

    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.slab.bytes()
            + self.lanes.bytes()
            + self.index.bytes()
            + self.timers.bytes()
            + self.bytes
    }

    /// The limits of each group alike.
    pub fn shared(&self) -> &GroupLimits {
        &self.shared
    }

    /// The limits that hold for a group.
    pub fn limits(&self, group: u32) -> GroupLimits {
        let own = self.get(group).own_limits();
        GroupLimits {
            length: own.length.or(self.shared.length),
            inflight: own.inflight.or(self.shared.inflight),
            rate: own.rate.or(self.shared.rate),
        }
    }

    #[inline]
    fn inflight(&self, group: &Group) -> u32 {
        let own = group.extra.as_ref().and_then(|extra| extra.limits.as_ref());
        let own = own.and_then(|limits| limits.inflight);
        own.or(self.shared.inflight).unwrap_or(1)
    }

    #[inline]
    fn rate(&self, group: &Group) -> Option<Rate> {
        let own = group.extra.as_ref().and_then(|extra| extra.limits.as_ref());
        own.and_then(|limits| limits.rate).or(self.shared.rate)
    }

    /// Whether the group delivers one message at once, in order.
    #[inline]
    pub fn keeps_order(&self, group: u32) -> bool {
        self.inflight(self.get(group)) == 1
    }

    /// Whether as many of the group are with consumers as may be, or its holder is.
    #[inline]
    fn is_full(&self, group: &Group) -> bool {
        match self.inflight(group) {
            UNLIMITED => false,
            1 if group.holder != NIL && !group.is_holder_ready() => true,
            most => group.in_flight >= most,
        }
    }

    /// Whether `slot`, a message of the group whose lock is over, may be locked again without a
    /// delivery.
    pub fn has_room_for(&self, group: u32, slot: u32) -> bool {
        let group = self.get(group);
        let is_kept_by_another = group.holder != NIL && group.holder != slot;
        match self.inflight(group) {
            UNLIMITED => true,
            1 => !is_kept_by_another && group.in_flight == 0,
            most => group.in_flight < most,
        }
    }

    /// Counts a message that names the group from now on.
    pub fn add_member(&mut self, group: u32) {
        self.slab.get_mut(group).members += 1;
    }

    /// A message that named the group is gone, or names another. A group without messages goes,
    /// unless something of its own is to be remembered.
    pub fn remove_member(&mut self, group: u32, now: Now) {
        let entry = self.slab.get_mut(group);
        entry.members -= 1;
        if entry.members == 0 {
            if entry.extra.is_some() {
                self.look_at_clock(group, now);
            }
            self.drop_if_idle(group);
        }
    }

    /// Drops a group that nothing is to be remembered of.
    fn drop_if_idle(&mut self, group: u32) {
        let entry = self.get(group);
        if entry.members != 0 || entry.extra.is_some() {
            return;
        }
        self.set_timer(group, Timestamp::ZERO);
        self.index.remove(self.get(group).hash, group);
        let entry = self.slab.remove(group);
        self.bytes -= entry.bytes();
    }

    /// Gives a group that was just made what a snapshot says of it.
    pub fn load(&mut self, group: u32, extra: Extra, due: Timestamp, shut: bool) {
        self.change_meter(group, |own| *own = extra);
        self.slab.get_mut(group).set_shut(shut);
        self.set_timer(group, due);
        self.settle(group);
    }

    /// Changes what the group has of its own, and lets that take hold.
    pub fn change(&mut self, group: u32, now: Now, change: impl FnOnce(&mut Extra)) {
        let entry = self.slab.get_mut(group);
        self.bytes -= entry.bytes();
        entry.change_extra(change);
        self.bytes += entry.bytes();
        self.let_limits_hold(group, now);
        self.drop_if_idle(group);
    }

    /// Sets the limits of each group alike. Those that may go on now do so in the order of their
    /// names.
    pub fn set_shared(&mut self, limits: GroupLimits, now: Now) {
        self.shared = limits;
        for group in self.by_name() {
            self.let_limits_hold(group, now);
            self.drop_if_idle(group);
        }
    }

    fn let_limits_hold(&mut self, group: u32, now: Now) {
        if !self.keeps_order(group) {
            let entry = self.slab.get_mut(group);
            entry.holder = NIL;
            entry.set_holder_ready(false);
        }
        if self.rate(self.get(group)).is_none() {
            self.change_meter(group, |extra| extra.meter = Meter::default());
        }
        self.look_at_clock(group, now);
    }

    fn change_meter(&mut self, group: u32, change: impl FnOnce(&mut Extra)) {
        let entry = self.slab.get_mut(group);
        self.bytes -= entry.bytes();
        entry.change_extra(change);
        self.bytes += entry.bytes();
    }

    /// A delivery of the group begins.
    #[inline]
    pub fn count_delivery(&mut self, group: u32, now: Now) {
        if let Some(rate) = self.rate(self.get(group)) {
            self.change_meter(group, |extra| extra.meter.count(rate, now.micros()));
            self.look_at_clock(group, now);
        }
    }

    /// Ends the group's pause if it is over, finds out whether its rate and pause let it go on, and
    /// when that has to be asked again.
    fn look_at_clock(&mut self, group: u32, now: Now) {
        let is_over = |until| until != Timestamp::ZERO && until <= now.instant();
        if self.get(group).pause().is_some_and(is_over) {
            self.change_meter(group, |extra| extra.pause = None);
        }
        let entry = self.get(group);
        let (pause, meter, is_empty) = (entry.pause(), entry.meter(), entry.members == 0);
        let rate = self.rate(entry);
        let limited = rate.and_then(|rate| meter.free_at(rate, now.micros()));
        let due = match (pause, limited) {
            (Some(Timestamp::ZERO), _) => Timestamp::ZERO,
            (Some(until), limited) => limited.map_or(until, |free| free.max(until)),
            (None, Some(free)) => free,
            // The rate goes on although the group has run empty.
            (None, None) if is_empty => meter.idle_at(now.micros()).unwrap_or_default(),
            (None, None) => Timestamp::ZERO,
        };
        let is_shut = pause.is_some() || limited.is_some();
        self.slab.get_mut(group).set_shut(is_shut);
        self.set_timer(group, due);
        if is_empty && !is_shut && due == Timestamp::ZERO {
            self.change_meter(group, |extra| extra.meter = Meter::default());
        }
        self.settle(group);
    }

    fn set_timer(&mut self, group: u32, due: Timestamp) {
        let before = self.get(group).due();
        if before == due {
            return;
        }
        if before != Timestamp::ZERO {
            self.timers.remove(&mut self.slab, group, before);
        }
        self.slab.get_mut(group).set_due(due);
        if due != Timestamp::ZERO {
            self.timers.insert(&mut self.slab, group, due);
        }
    }

    /// When time has to act on a group next, at the earliest; the epoch when it should already.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Whether time has nothing to do with any group at `now`.
    #[inline]
    pub fn is_quiet_at(&mut self, now: Timestamp) -> bool {
        self.timers.is_quiet_at(now)
    }

    /// A group that time has to act on by `now`, if there is one.
    pub fn overdue(&mut self, now: Timestamp, budget: usize) -> Option<u32> {
        self.timers.advance(&mut self.slab, now, budget.max(1));
        self.timers.overdue().head()
    }

    /// Lets time act on a group, at the moment of the frame.
    pub fn time_acts(&mut self, group: u32, now: Now) {
        // Also where the clock was set back since: what holds now is found out anew.
        self.set_timer(group, Timestamp::ZERO);
        self.look_at_clock(group, now);
        self.drop_if_idle(group);
    }

    /// A replica's timers follow the frame.
    pub fn keep_up(&mut self, now: Timestamp) {
        if !self.is_quiet_at(now) {
            self.timers.advance(&mut self.slab, now, TIMER_BUDGET);
        }
    }
}
