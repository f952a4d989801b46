//! How messages join their groups, and what a queue with groups or limits does otherwise.

use crate::codec::Damaged;
use crate::effects::Content;
use crate::groups::{End, Groups, Standing};
use crate::id::hash_bytes;
use crate::link::List;
use crate::message::{Message, Own, State};
use crate::queue::Queue;
use crate::types::{Now, Priority};

impl Queue {
    /// Whether the queue knows neither groups nor limits nor a pause: then the next message is the
    /// first of the ready lists, and whatever is ready may go.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.groups.is_none() && self.bounds.is_none()
    }

    /// The moment of the frame.
    #[inline]
    pub(crate) fn frame_now(&self) -> Now {
        Now::from_micros(self.frame.now_us)
    }

    /// The groups, made if there were none.
    pub(crate) fn groups_or_new(&mut self) -> &mut Groups {
        let ready = &self.ready;
        let new = || Box::new(Groups::new(|level| !ready[level].is_empty()));
        self.groups.get_or_insert_with(new)
    }

    /// Forgets about groups if there is nothing to remember.
    pub(crate) fn drop_idle_groups(&mut self) {
        if self.groups.as_ref().is_some_and(|groups| groups.is_idle()) {
            self.groups = None;
        }
    }

    pub(crate) fn group_hash(&self, name: &[u8]) -> u32 {
        hash_bytes(&self.hasher, name)
    }

    /// The group of that name, if it is there.
    pub(crate) fn find_group(&self, name: &[u8]) -> Option<u32> {
        let groups = self.groups.as_ref()?;
        groups.find(name, self.group_hash(name))
    }

    /// The group of that name, made if it is not there.
    pub(crate) fn group_or_new(&mut self, name: &[u8]) -> u32 {
        let hash = self.group_hash(name);
        self.groups_or_new().find_or_make(name, hash)
    }

    /// The name of a message's group; empty for none.
    #[inline]
    pub(crate) fn group_name(&self, message: &Message) -> &[u8] {
        let Some(groups) = &self.groups else {
            return &[];
        };
        message.group().map_or(&[], |group| &groups.get(group).key)
    }

    /// What a message keeps of `content`. It counts as a member of its group from now on; its timer is
    /// to be started.
    #[inline(always)]
    pub(crate) fn own_of<'a>(&mut self, content: &Content<'a>) -> Own<'a> {
        let name = content.extras.group;
        let group = (!name.is_empty()).then(|| self.join_group(name));
        let mut own = content.own(group);
        own.timer = self.make_timer(content);
        if content.extras.batch != 0 {
            own.batch = Some(content.extras.batch);
        }
        own
    }

    #[cold]
    fn join_group(&mut self, name: &[u8]) -> u32 {
        let group = self.group_or_new(name);
        self.groups_or_new().add_member(group);
        group
    }

    /// Gives an unlinked message new content; its group may be another one, its timer is to be started.
    pub(crate) fn give_content(&mut self, slot: u32, content: &Content<'_>) {
        let before = self.messages.get(slot).group();
        let batch = self.messages.get(slot).batch();
        self.drop_timer(slot);
        let mut own = self.own_of(content);
        own.batch = batch;
        self.change_body(slot, |message| {
            message.set_content(content.payload, &own, content.priority, content.enqueued);
        });
        if let Some(group) = before {
            self.leave_for_good(group, slot, own.group != before);
        }
    }

    /// A message that named `group` names it no more, or once less; it holds it no more if it is
    /// `lost` to it.
    fn leave_for_good(&mut self, group: u32, slot: u32, lost: bool) {
        let now = self.frame_now();
        if let Some(groups) = &mut self.groups {
            if lost {
                groups.lost(group, slot);
            }
            groups.remove_member(group, now);
        }
        self.drop_idle_groups();
    }

    /// The run of an unlinked message is over: its group may go on.
    pub(crate) fn let_group_go_on(&mut self, slot: u32) {
        if let (Some(group), Some(groups)) = (self.messages.get(slot).group(), &mut self.groups) {
            groups.lost(group, slot);
        }
    }

    /// A message that is in no list any more goes.
    #[cold]
    pub(crate) fn leave_group_for_good(&mut self, slot: u32) {
        if let Some(group) = self.messages.get(slot).group() {
            self.leave_for_good(group, slot, true);
        }
    }

    /// Tells the groups how a message stands from now on; puts it in line if it is ready.
    #[cold]
    pub(crate) fn enter_group(&mut self, slot: u32, state: State, end: End) {
        let Some(groups) = &mut self.groups else {
            return;
        };
        let message = self.messages.get(slot);
        let standing = standing(state, message.priority());
        match (message.group(), standing) {
            (Some(group), _) => groups.enter(&mut self.messages, group, slot, standing, end),
            (None, Standing::Waiting(priority)) => {
                let level = usize::from(priority.level());
                groups.plain_has(level, true);
                self.ready_levels |= 1 << level;
                match end {
                    End::Front => self.ready[level].push_front(&mut self.messages, slot),
                    End::Back => self.ready[level].push_back(&mut self.messages, slot),
                }
            }
            (None, _) => {}
        }
    }

    /// Tells the groups how a message stands no more; takes it out of the line if it was ready.
    #[cold]
    pub(crate) fn leave_group(&mut self, slot: u32, state: State) {
        let Some(groups) = &mut self.groups else {
            return;
        };
        let message = self.messages.get(slot);
        let standing = standing(state, message.priority());
        match (message.group(), standing) {
            (Some(group), _) => groups.leave(&mut self.messages, group, slot, standing),
            (None, Standing::Waiting(priority)) => {
                let level = usize::from(priority.level());
                self.ready[level].unlink(&mut self.messages, slot);
                if self.ready[level].is_empty() {
                    self.ready_levels &= !(1 << level);
                    groups.plain_has(level, false);
                }
            }
            (None, _) => {}
        }
    }

    /// A message was handed over: turns, rates and rooms change.
    #[cold]
    pub(crate) fn count_delivery(&mut self, slot: u32) {
        let message = self.messages.get(slot);
        let (group, priority) = (message.group(), message.priority());
        let now = self.frame_now();
        if let Some(groups) = &mut self.groups {
            groups.took_turn(group, priority);
            if let Some(group) = group {
                groups.count_delivery(group, now);
            }
        }
        if let Some(bounds) = &mut self.bounds {
            bounds.count_delivery(now);
        }
    }

    /// Visits the ready messages in an order that gives the same queue when they are put in line
    /// again: those in turn by priority, then those of parked groups by the groups' names.
    pub(crate) fn for_each_ready(&self, visit: &mut impl FnMut(u32)) {
        let mut all = |list: &List| list.iter(&self.messages).for_each(&mut *visit);
        let Some(groups) = &self.groups else {
            self.ready.iter().for_each(all);
            return;
        };
        for (level, plain) in self.ready.iter().enumerate() {
            groups.lists(level, plain).for_each(&mut all);
        }
        for group in groups.by_name() {
            let mut lanes: Vec<_> = groups.lanes_of(group).filter(|lane| !lane.1).collect();
            lanes.sort_unstable_by_key(|lane| lane.0);
            lanes.into_iter().for_each(|lane| all(lane.2));
        }
    }

    /// Whether the message keeps its group until it ends.
    pub(crate) fn holds_group(&self, slot: u32) -> bool {
        match (&self.groups, self.messages.get(slot).group()) {
            (Some(groups), Some(group)) => groups.get(group).holder == slot,
            _ => false,
        }
    }

    /// Lets a message that is read from a snapshot hold its group.
    pub(crate) fn hold_group(&mut self, slot: u32, holds: bool) -> Result<(), Damaged> {
        let can_hold = match (self.messages.get(slot).group(), &mut self.groups) {
            _ if !holds => true,
            (Some(group), Some(groups)) => groups.make_holder(group, slot),
            _ => false,
        };
        if can_hold {
            Ok(())
        } else {
            Err(Damaged("a group that is held by what cannot hold it"))
        }
    }

    /// A message that is read from a snapshot does not hold its group, although it is locked.
    pub(crate) fn hold_no_group(&mut self, slot: u32) {
        if let (Some(group), Some(groups)) = (self.messages.get(slot).group(), &mut self.groups) {
            groups.lost(group, slot);
        }
    }
}

#[inline]
fn standing(state: State, priority: Priority) -> Standing {
    match state {
        State::Ready { .. } => Standing::Waiting(priority),
        State::Delayed { .. } => Standing::Delayed,
        State::Locked { .. } => Standing::Locked,
        State::Done { .. } | State::Dead { .. } | State::Waiting => Standing::Ended,
    }
}
