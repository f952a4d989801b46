//! Whether a queue's parts agree with each other: for tests and fuzzing.

use std::collections::{BTreeMap, BTreeSet};

use crate::groups::Recount;
use crate::message::State;
use crate::queue::{allocated, Counts, Queue};
use crate::timers::Owner;
use crate::types::{Priority, Timestamp};

impl Queue {
    /// Looks for a contradiction between the slab, the lists, the schedule, the indexes and the
    /// counts. Takes time in proportion to the queue.
    ///
    /// # Errors
    /// With what contradicts what.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), String> {
        let held = self.messages.check()?;
        self.check_places(&held)?;
        self.check_indexes(&held)?;
        self.check_counts(&held)?;
        self.check_rares(&held)?;
        self.check_released(&held)?;
        self.check_timers(&held)?;
        self.check_results()?;
        if let Some(schedules) = &self.schedules {
            schedules.check()?;
        }
        same("time that can be", &self.can_be_ahead(self.ahead_ms), &true)?;
        let bodies: usize = held
            .iter()
            .map(|slot| allocated(self.messages.get(*slot).body_len()))
            .sum();
        same("bytes of bodies", &self.body_bytes, &bodies)
    }

    /// Every message is in one list: that of its state.
    fn check_places(&self, held: &[u32]) -> Result<(), String> {
        let most = held.len();
        let mut found = Vec::with_capacity(most);
        for (level, list) in self.ready.iter().enumerate() {
            let slots = list.check(&self.messages, most)?;
            for slot in &slots {
                let message = self.messages.get(*slot);
                let is_ready = matches!(message.state(), State::Ready { .. });
                if !is_ready
                    || message.group().is_some()
                    || message.priority().level() as usize != level
                {
                    return Err(format!("{slot} is in the ready list of priority {level}"));
                }
            }
            same(
                "ready bit",
                &(self.ready_levels >> level & 1 == 1),
                &!slots.is_empty(),
            )?;
            found.extend(slots);
        }
        same(
            "bits beyond the priorities",
            &(self.ready_levels >> Priority::LEVELS),
            &0,
        )?;
        found.extend(self.check_groups(held)?);
        found.extend(self.check_batches(held)?);
        for slot in self.wheel.check(&self.messages, most)? {
            if !self.messages.get(slot).is_scheduled() {
                return Err(format!("{slot} is in the schedule"));
            }
            found.push(slot);
        }
        let mut newest = Timestamp::ZERO;
        for slot in self.dead.check(&self.messages, most)? {
            if !matches!(self.messages.get(slot).state(), State::Dead { .. }) {
                return Err(format!("{slot} is among the dead letters"));
            }
            let died = self.messages.get(slot).due();
            if std::mem::replace(&mut newest, died) > died {
                return Err(format!("{slot} died before the letter in front of it"));
            }
            found.push(slot);
        }
        found.sort_unstable();
        same("messages in lists", &found.as_slice(), &held)
    }

    /// The groups are what their messages say. Gives the messages in lanes.
    fn check_groups(&self, held: &[u32]) -> Result<Vec<u32>, String> {
        let mut recounts: BTreeMap<u32, Recount> = BTreeMap::new();
        let mut ready = Vec::new();
        for slot in held {
            let message = self.messages.get(*slot);
            let Some(group) = message.group() else {
                continue;
            };
            let recount = recounts.entry(group).or_default();
            recount.members += 1;
            recount.open += u32::from(message.state().may_hold());
            match message.state() {
                State::Ready { .. } => {
                    recount.waiting += 1;
                    let level = message.priority().level();
                    recount.ready.entry(level).or_default().insert(*slot);
                    ready.push(*slot);
                }
                State::Locked { .. } => recount.in_flight += 1,
                _ => {}
            }
        }
        match &self.groups {
            None => same("groups of messages", &recounts.len(), &0)?,
            Some(groups) if groups.is_idle() => return Err("groups are kept for nothing".into()),
            Some(groups) => groups.check(&self.messages, &recounts, &self.ready, held.len())?,
        }
        if self.bounds.as_ref().is_some_and(|bounds| bounds.is_idle()) {
            return Err("bounds are kept for nothing".into());
        }
        Ok(ready)
    }

    /// Every message is found by its id, in the one index that it belongs to.
    fn check_indexes(&self, held: &[u32]) -> Result<(), String> {
        let (letters, live): (Vec<u32>, Vec<u32>) = held
            .iter()
            .partition(|slot| matches!(self.messages.get(**slot).state(), State::Dead { .. }));
        for (name, mut slots, expected) in [
            ("live messages", self.live.check(&self.messages)?, live),
            ("letters", self.letters.check(&self.messages)?, letters),
        ] {
            slots.sort_unstable();
            same(name, &slots, &expected)?;
            let ids = |slot: &u32| self.messages.get(*slot).id().bytes().to_vec();
            let ids: BTreeSet<Vec<u8>> = slots.iter().map(ids).collect();
            same("ids that are there once", &ids.len(), &slots.len())?;
        }
        for slot in held {
            let message = self.messages.get(*slot);
            let key = message.key();
            same("hash", &message.hash, &self.hash(&key))?;
            let found = match message.state() {
                State::Dead { .. } => self.find_letter(&key),
                _ => self.find_live(&key),
            };
            same("slot found by id", &found, &Some(*slot))?;
        }
        Ok(())
    }

    fn check_counts(&self, held: &[u32]) -> Result<(), String> {
        let mut counts = Counts::default();
        for slot in held {
            let has_copy = self.has_copy(*slot);
            *match self.messages.get(*slot).state() {
                State::Ready { .. } => &mut counts.ready,
                State::Delayed { .. } => &mut counts.delayed,
                State::Locked { .. } if has_copy => &mut counts.locked_with_copy,
                State::Locked { .. } => &mut counts.locked,
                State::Done { .. } if has_copy => &mut counts.done_with_copy,
                State::Done { .. } => &mut counts.done,
                State::Dead { .. } => &mut counts.dead,
                State::Waiting => &mut counts.waiting,
            } += 1;
        }
        same("counts", &self.counts, &counts)
    }

    /// Every timer belongs to one message that has not ended, and is armed if that waits.
    fn check_timers(&self, held: &[u32]) -> Result<(), String> {
        let (mut all, mut armed) = (Vec::new(), Vec::new());
        for slot in held {
            let message = self.messages.get(*slot);
            let Some(timer) = message.timer() else {
                continue;
            };
            all.push(timer);
            match message.state() {
                State::Ready { .. } | State::Delayed { .. } => armed.push(timer),
                State::Locked { .. } => {}
                State::Done { .. } | State::Dead { .. } | State::Waiting => {
                    return Err(format!("{slot} has ended and expires"));
                }
            }
            let owner = self.timers.as_ref().map(|timers| timers.owner(timer));
            let (Some(Owner::Message(owner)) | Some(Owner::Buried(owner))) = owner else {
                return Err(format!("the timer of {slot} is not there"));
            };
            same("owner of a timer", &owner, slot)?;
        }
        all.sort_unstable();
        armed.sort_unstable();
        match &self.timers {
            None => same("timers", &Vec::new(), &all),
            Some(timers) if timers.is_empty() => Err("no timer has memory".to_owned()),
            Some(timers) => same("timers", &timers.check()?, &(all, armed)),
        }
    }

    /// A result is of an id whose message is finished, or not there.
    fn check_results(&self) -> Result<(), String> {
        let Some(results) = &self.results else {
            return Ok(());
        };
        if results.len() == 0 {
            return Err("no result has memory".into());
        }
        for held in results.check(|key| self.hash(key))? {
            if !self.may_have_result(&held.key) {
                return Err(format!("{:?} has a result and lives", held.key));
            }
        }
        Ok(())
    }

    /// Every rare part belongs to one message and holds something.
    fn check_rares(&self, held: &[u32]) -> Result<(), String> {
        let mut parts: Vec<u32> = held
            .iter()
            .filter_map(|slot| self.messages.get(*slot).rare())
            .collect();
        parts.sort_unstable();
        same("rare parts", &self.rares.check()?, &parts)?;
        for slot in held {
            let has_rare = self.messages.get(*slot).rare().is_some();
            let holds = self.has_copy(*slot) || self.reason(*slot).is_some();
            same("rare part that holds something", &has_rare, &holds)?;
        }
        same(
            "bytes of rare parts",
            &self.rare_bytes,
            &self.recount_rare_bytes(held),
        )
    }
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(
    what: &str,
    is: &T,
    should: &T,
) -> Result<(), String> {
    if is == should {
        Ok(())
    } else {
        Err(format!("{what}: {is:?}, not {should:?}"))
    }
}
