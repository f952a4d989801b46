//! Lanes and rings: where the ready messages of groups wait, and who is served next.

use super::{Groups, Lane};
use crate::link::{Links, List};
use crate::slab::NIL;
use crate::types::Priority;

/// What a group sees of one of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Ready, with this priority.
    Waiting(Priority),
    /// To be ready later.
    Delayed,
    /// With a consumer.
    Locked,
    /// Finished or dead.
    Ended,
}

/// Where in its lane a message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

impl Groups {
    /// The slot that a consumer gets next; `plain` are the messages without a group.
    #[inline]
    pub fn next(&self, plain: &[List; Priority::LEVELS]) -> Option<u32> {
        let level = self.levels.trailing_zeros() as usize;
        let lane = self.lanes.get(self.rings.get(level)?.head()?);
        if lane.group == NIL {
            plain[level].head()
        } else {
            lane.list.head()
        }
    }

    /// The lists of the lanes in turn of a priority, as they are served. `plain` is the list of the
    /// messages without a group.
    pub fn lists<'a>(&'a self, level: usize, plain: &'a List) -> impl Iterator<Item = &'a List> {
        let lane = |lane: u32| self.lanes.get(lane);
        let turns = self.rings[level].iter(&self.lanes).map(lane);
        turns.map(move |lane| if lane.group == NIL { plain } else { &lane.list })
    }

    /// The slots that are first in the first lane and last in the last of those in turn.
    pub fn ends(&self, level: usize, plain: &List) -> [Option<u32>; 2] {
        let list = |lane: u32| match self.lanes.get(lane) {
            lane if lane.group == NIL => *plain,
            lane => lane.list,
        };
        let ring = &self.rings[level];
        [
            ring.head().and_then(|lane| list(lane).head()),
            ring.tail().and_then(|lane| list(lane).tail()),
        ]
    }

    /// The lanes of a group, with their priorities.
    pub fn lanes_of(&self, group: u32) -> impl Iterator<Item = (u8, bool, &List)> {
        self.lane_numbers(group).map(|lane| {
            let lane = self.lanes.get(lane);
            (lane.level, lane.in_turn, &lane.list)
        })
    }

    pub(super) fn lane_numbers(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |lane: u32| (lane != NIL).then_some(lane);
        std::iter::successors(next(self.get(group).lanes), move |lane| {
            next(self.lanes.get(*lane).sibling)
        })
    }

    fn lane(&self, group: u32, level: usize) -> Option<u32> {
        let mut lanes = self.lane_numbers(group);
        lanes.find(|lane| usize::from(self.lanes.get(*lane).level) == level)
    }

    /// Tells whether there are ready messages without a group.
    #[inline]
    pub fn plain_has(&mut self, level: usize, any: bool) {
        let is_there = self.plain[level] != NIL;
        if any && !is_there {
            let lane = self.lanes.insert(Lane::new(NIL, level as u8, NIL));
            self.plain[level] = lane;
            self.put_in_turn(lane);
        } else if !any && is_there {
            self.take_out_of_turn(self.plain[level]);
            self.lanes.remove(self.plain[level]);
            self.plain[level] = NIL;
        }
    }

    /// The first message of a lane was delivered: the others of its priority come first now.
    #[inline]
    pub fn took_turn(&mut self, group: Option<u32>, priority: Priority) {
        let level = usize::from(priority.level());
        let lane = match group {
            Some(group) => self.lane(group, level),
            None => Some(self.plain[level]).filter(|lane| *lane != NIL),
        };
        if let Some(lane) = lane.filter(|lane| self.lanes.get(*lane).in_turn) {
            self.rings[level].unlink(&mut self.lanes, lane);
            self.rings[level].push_back(&mut self.lanes, lane);
        }
    }

    fn put_in_turn(&mut self, lane: u32) {
        let entry = self.lanes.get_mut(lane);
        entry.in_turn = true;
        let level = usize::from(entry.level);
        self.levels |= 1 << level;
        self.rings[level].push_back(&mut self.lanes, lane);
    }

    fn take_out_of_turn(&mut self, lane: u32) {
        let entry = self.lanes.get_mut(lane);
        if !std::mem::take(&mut entry.in_turn) {
            return;
        }
        let level = usize::from(entry.level);
        self.rings[level].unlink(&mut self.lanes, lane);
        if self.rings[level].is_empty() {
            self.levels &= !(1 << level);
        }
    }

    /// A message of the group has come to stand so.
    pub fn enter(
        &mut self,
        messages: &mut impl Links,
        group: u32,
        slot: u32,
        standing: Standing,
        end: End,
    ) {
        let in_order = self.keeps_order(group);
        let entry = self.slab.get_mut(group);
        let holds = entry.holder == slot;
        entry.open += u32::from(standing != Standing::Ended);
        match standing {
            Standing::Waiting(priority) => {
                entry.waiting += 1;
                self.held += usize::from(entry.is_parked());
                if holds {
                    entry.set_holder_ready(true);
                }
                let end = if holds { End::Front } else { end };
                self.line_up(messages, group, slot, usize::from(priority.level()), end);
            }
            Standing::Locked => {
                entry.in_flight += 1;
                if in_order && entry.holder == NIL {
                    entry.holder = slot;
                }
            }
            Standing::Delayed => {}
            Standing::Ended if holds => entry.holder = NIL,
            Standing::Ended => {}
        }
        self.settle(group);
    }

    /// A message of the group stands so no more. What it comes to stand as is told next, or
    /// [`Groups::lost`].
    pub fn leave(&mut self, messages: &mut impl Links, group: u32, slot: u32, standing: Standing) {
        let entry = self.slab.get_mut(group);
        entry.open -= u32::from(standing != Standing::Ended);
        match standing {
            Standing::Waiting(priority) => {
                entry.waiting -= 1;
                self.held -= usize::from(entry.is_parked());
                if entry.holder == slot {
                    entry.set_holder_ready(false);
                }
                self.step_out(messages, group, slot, usize::from(priority.level()));
            }
            Standing::Locked => entry.in_flight -= 1,
            Standing::Delayed | Standing::Ended => {}
        }
    }

    /// A message of the group that stands nowhere is gone, or names another group from now on.
    pub fn lost(&mut self, group: u32, slot: u32) {
        let entry = self.slab.get_mut(group);
        if entry.holder == slot {
            entry.holder = NIL;
        }
        self.settle(group);
    }

    /// Makes a message that is read from a snapshot the holder, before it is told how it stands.
    /// False if it cannot be.
    pub fn make_holder(&mut self, group: u32, slot: u32) -> bool {
        let can_be = self.keeps_order(group) && self.get(group).holder == NIL;
        if can_be {
            self.slab.get_mut(group).holder = slot;
        }
        can_be
    }

    fn line_up(
        &mut self,
        messages: &mut impl Links,
        group: u32,
        slot: u32,
        level: usize,
        end: End,
    ) {
        let lane = self.lane(group, level).unwrap_or_else(|| {
            let lane = Lane::new(group, level as u8, self.get(group).lanes);
            let lane = self.lanes.insert(lane);
            self.slab.get_mut(group).lanes = lane;
            lane
        });
        let entry = self.get(group);
        let holder = (entry.is_holder_ready() && entry.holder != slot).then_some(entry.holder);
        let list = &mut self.lanes.get_mut(lane).list;
        match end {
            End::Back => list.push_back(messages, slot),
            // The holder stays first.
            End::Front if holder.is_some() && list.head() == holder => {
                let holder = list.pop_front(messages);
                list.push_front(messages, slot);
                if let Some(holder) = holder {
                    list.push_front(messages, holder);
                }
            }
            End::Front => list.push_front(messages, slot),
        }
    }

    fn step_out(&mut self, messages: &mut impl Links, group: u32, slot: u32, level: usize) {
        let Some(lane) = self.lane(group, level) else {
            return;
        };
        let list = &mut self.lanes.get_mut(lane).list;
        list.unlink(messages, slot);
        if list.is_empty() {
            self.take_out_of_turn(lane);
            self.forget_lane(group, lane);
        }
    }

    fn forget_lane(&mut self, group: u32, lane: u32) {
        let sibling = self.lanes.get(lane).sibling;
        let before = self
            .lane_numbers(group)
            .find(|other| self.lanes.get(*other).sibling == lane);
        match before {
            Some(before) => self.lanes.get_mut(before).sibling = sibling,
            None => self.slab.get_mut(group).lanes = sibling,
        }
        self.lanes.remove(lane);
    }

    /// Parks the group or lets it take its turns, as its messages and its clock say.
    pub(super) fn settle(&mut self, group: u32) {
        let entry = self.get(group);
        let parked = entry.is_shut() || self.is_full(entry);
        let waiting = entry.waiting as usize;
        if parked != entry.is_parked() {
            self.slab.get_mut(group).set_parked(parked);
            if parked {
                self.held += waiting;
            } else {
                self.held -= waiting;
            }
        }
        let entry = self.get(group);
        let holder = entry.is_holder_ready().then_some(entry.holder);
        let mut at = entry.lanes;
        while at != NIL {
            let lane = self.lanes.get(at);
            let sibling = lane.sibling;
            let may_go = !parked && (holder.is_none() || lane.list.head() == holder);
            match (may_go, lane.in_turn) {
                (true, false) => self.put_in_turn(at),
                (false, true) => self.take_out_of_turn(at),
                _ => {}
            }
            at = sibling;
        }
    }
}
