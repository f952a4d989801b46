//! Who comes next: turns are taken on a copy of as much of the rings as the answer needs.

use std::collections::{BTreeMap, VecDeque};

use super::{Group, Groups};
use crate::limits::UNLIMITED;
use crate::link::{Links, List};
use crate::slab::NIL;
use crate::types::Priority;

/// Turns that are only played.
struct Ahead<'a, L> {
    groups: &'a Groups,
    messages: &'a L,
    plain: &'a [List; Priority::LEVELS],
    reverse: bool,
    /// What is left of the rings as they are.
    rings: [u32; Priority::LEVELS],
    /// The lanes that come behind them, each with the number of the turn that put it there.
    behind: [VecDeque<(u32, usize)>; Priority::LEVELS],
    /// The newest such number of each lane; it is where that says, and no more in the ring.
    put: BTreeMap<u32, usize>,
    /// The next message of each lane that had a turn.
    heads: BTreeMap<u32, u32>,
    turns: usize,
}

impl Groups {
    /// The slots of the next `most` deliveries, those aside that `is_there` denies, if each ends before
    /// the next begins and nothing but groups holds any back; or of the last, last first.
    pub fn ahead(
        &self,
        messages: &impl Links,
        plain: &[List; Priority::LEVELS],
        reverse: bool,
        most: usize,
        is_there: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let ends = |list: &List| if reverse { list.tail() } else { list.head() };
        let mut ahead = Ahead {
            groups: self,
            messages,
            plain,
            reverse,
            rings: self.rings.map(|ring| ends(&ring).unwrap_or(NIL)),
            behind: Default::default(),
            put: BTreeMap::new(),
            heads: BTreeMap::new(),
            turns: 0,
        };
        let mut slots = Vec::new();
        while slots.len() < most {
            let Some(lane) = ahead.next_lane() else { break };
            let mut slot = ahead.head(lane);
            while slot != NIL && !is_there(slot) {
                slot = ahead.beside(slot);
            }
            if slot != NIL {
                slots.push(slot);
                let next = ahead.beside(slot);
                ahead.heads.insert(lane, next);
                ahead.take_turn(lane);
            }
        }
        slots
    }

    /// The lists of the groups that may not be served, group by group, in no promised order.
    pub fn parked_lists(&self) -> impl Iterator<Item = &List> {
        let groups = (0..self.end()).filter(|slot| self.at(*slot).is_some_and(Group::is_parked));
        groups.flat_map(|group| self.lanes_of(group).map(|lane| lane.2))
    }

    /// The lists of all lanes that are not in turn: also those that wait for the holder of their group.
    pub fn lists_out_of_turn(&self) -> impl Iterator<Item = &List> {
        let groups = (0..self.end()).filter(|slot| self.at(*slot).is_some());
        let lanes = groups.flat_map(|group| self.lanes_of(group));
        lanes.filter(|lane| !lane.1).map(|lane| lane.2)
    }
}

impl<L: Links> Ahead<'_, L> {
    /// Takes the lane whose turn it is.
    fn next_lane(&mut self) -> Option<u32> {
        let mut levels: [usize; Priority::LEVELS] = std::array::from_fn(|level| level);
        if self.reverse {
            levels.reverse();
        }
        levels
            .into_iter()
            .find_map(|level| self.next_lane_of(level))
    }

    fn next_lane_of(&mut self, level: usize) -> Option<u32> {
        while self.rings[level] != NIL {
            let lane = self.rings[level];
            let lanes = &self.groups.lanes;
            self.rings[level] = if self.reverse {
                lanes.previous(lane)
            } else {
                lanes.next(lane)
            };
            if !self.put.contains_key(&lane) {
                return Some(lane);
            }
        }
        while let Some((lane, turn)) = self.behind[level].pop_front() {
            if self.put.get(&lane) == Some(&turn) {
                return Some(lane);
            }
        }
        None
    }

    fn head(&self, lane: u32) -> u32 {
        if let Some(head) = self.heads.get(&lane) {
            return *head;
        }
        let lane = self.groups.lanes.get(lane);
        let list = if lane.group == NIL {
            &self.plain[usize::from(lane.level)]
        } else {
            &lane.list
        };
        let head = if self.reverse {
            list.tail()
        } else {
            list.head()
        };
        head.unwrap_or(NIL)
    }

    fn beside(&self, slot: u32) -> u32 {
        if self.reverse {
            self.messages.previous(slot)
        } else {
            self.messages.next(slot)
        }
    }

    /// A message of the lane was delivered and ended. A group that it made full left its turns and has
    /// come back to all of them.
    fn take_turn(&mut self, lane: u32) {
        self.turns += 1;
        let group = self.groups.lanes.get(lane).group;
        if group == NIL {
            self.put_behind(lane);
            return;
        }
        let entry = self.groups.get(group);
        let becomes_full = match self.groups.inflight(entry) {
            UNLIMITED => false,
            most => entry.in_flight + 1 >= most,
        };
        if becomes_full {
            let groups = self.groups;
            groups
                .lane_numbers(group)
                .for_each(|lane| self.put_behind(lane));
        } else {
            self.put_behind(lane);
        }
    }

    fn put_behind(&mut self, lane: u32) {
        let level = usize::from(self.groups.lanes.get(lane).level);
        if self.head(lane) != NIL {
            self.put.insert(lane, self.turns);
            self.behind[level].push_back((lane, self.turns));
        }
    }
}
