//! Whether groups, lanes, rings and counts agree: for tests and fuzzing.

use std::collections::{BTreeMap, BTreeSet};

use super::Groups;
use crate::link::{Links, List};
use crate::slab::NIL;
use crate::types::{Priority, Timestamp};

/// What the messages of a group say of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recount {
    pub members: u32,
    pub open: u32,
    pub in_flight: u32,
    pub waiting: u32,
    /// The ready slots by priority, whatever their order.
    pub ready: BTreeMap<u8, BTreeSet<u32>>,
}

impl Groups {
    /// Looks for a contradiction; `recounts` is what the messages of each group say, `plain` the lists
    /// of those without a group.
    ///
    /// # Errors
    /// With what contradicts what.
    pub fn check(
        &self,
        messages: &impl Links,
        recounts: &BTreeMap<u32, Recount>,
        plain: &[List; Priority::LEVELS],
        most: usize,
    ) -> Result<(), String> {
        let none = Recount::default();
        let (mut held, mut bytes, mut lanes) = (0, 0, BTreeSet::new());
        let slots = self.slab.check()?;
        if let Some(unknown) = recounts.keys().find(|group| !slots.contains(group)) {
            return Err(format!("messages name group {unknown}, which is not there"));
        }
        for slot in &slots {
            let group = self.get(*slot);
            let recount = recounts.get(slot).unwrap_or(&none);
            let counts = [group.members, group.open, group.in_flight, group.waiting];
            let counted = [
                recount.members,
                recount.open,
                recount.in_flight,
                recount.waiting,
            ];
            if counts != counted {
                return Err(format!("group {slot} counts {counts:?}, not {counted:?}"));
            }
            if self.find(&group.key, group.hash) != Some(*slot) {
                return Err(format!("group {slot} is not found by its name"));
            }
            if group.members == 0 && group.extra.is_none() {
                return Err(format!("group {slot} is kept for nothing"));
            }
            bytes += group.bytes();
            let is_parked = group.is_shut() || self.is_full(group);
            if group.is_parked() != is_parked {
                return Err(format!("group {slot} is parked: {}", group.is_parked()));
            }
            if is_parked {
                held += group.waiting as usize;
            }
            let ready = |level: &u8| recount.ready.get(level).cloned().unwrap_or_default();
            let holder_ready = recount.ready.values().any(|at| at.contains(&group.holder));
            if holder_ready != group.is_holder_ready() {
                return Err(format!(
                    "the holder of group {slot} is ready: {holder_ready}"
                ));
            }
            let mut seen = 0;
            for number in self.lane_numbers(*slot) {
                let lane = self.lanes.get(number);
                let listed = lane.list.check(messages, most)?;
                seen += listed.len();
                if listed.is_empty()
                    || listed.iter().copied().collect::<BTreeSet<_>>() != ready(&lane.level)
                {
                    return Err(format!("lane {} of group {slot}: {listed:?}", lane.level));
                }
                let holds = listed.contains(&group.holder);
                if holds && listed[0] != group.holder {
                    return Err(format!("the holder of group {slot} is not first"));
                }
                let may_go = !is_parked && (!holder_ready || holds);
                if lane.group != *slot || lane.in_turn != may_go {
                    return Err(format!("lane {} of group {slot} in turn", lane.level));
                }
                lanes.insert(number);
            }
            if seen != recount.waiting as usize {
                return Err(format!("the lanes of group {slot} hold {seen}"));
            }
        }
        for (level, list) in plain.iter().enumerate() {
            let lane = self.plain[level];
            if list.is_empty() != (lane == NIL) {
                return Err(format!("the lane without a group of priority {level}"));
            }
            if lane != NIL {
                lanes.insert(lane);
            }
        }
        if self.lanes.check()?.into_iter().collect::<BTreeSet<_>>() != lanes {
            return Err("lanes that belong to nobody".into());
        }
        self.check_rings(&lanes)?;
        let timed = slots
            .iter()
            .filter(|slot| self.get(**slot).due() != Timestamp::ZERO);
        let timed: BTreeSet<u32> = timed.copied().collect();
        let timers = self.timers.check(&self.slab, slots.len())?;
        if timers.into_iter().collect::<BTreeSet<_>>() != timed {
            return Err("timers of groups".into());
        }
        if (held, bytes) != (self.held, self.bytes) {
            return Err(format!(
                "{held} held and {bytes} bytes, not {} and {}",
                self.held, self.bytes
            ));
        }
        Ok(())
    }

    fn check_rings(&self, lanes: &BTreeSet<u32>) -> Result<(), String> {
        let is_in_turn = |lane: &&u32| self.lanes.get(**lane).in_turn;
        let expected: BTreeSet<u32> = lanes.iter().filter(is_in_turn).copied().collect();
        let mut found = BTreeSet::new();
        for (level, ring) in self.rings.iter().enumerate() {
            let ring = ring.check(&self.lanes, lanes.len())?;
            let of_level = |lane: &u32| usize::from(self.lanes.get(*lane).level) == level;
            if !ring.iter().all(of_level) || ring.is_empty() == (self.levels >> level & 1 == 1) {
                return Err(format!("the ring of priority {level}"));
            }
            found.extend(ring);
        }
        if found == expected {
            Ok(())
        } else {
            Err(format!("lanes in turn: {found:?}, not {expected:?}"))
        }
    }
}
