//! MQ.GROUPS: the groups of a queue as they stand at a moment.

use crate::message::State;
use crate::queue::Queue;
use crate::types::{Now, Span, Timestamp};

/// One group at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupView<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its messages that are ready.
    pub waiting: u32,
    /// Its messages that are with consumers.
    pub in_flight: u32,
    /// For how long the one of them that has waited longest at the head of a priority is ready.
    pub oldest: Span,
    /// What it does.
    pub state: GroupState,
    /// When its rate or its pause lets it go on; the epoch where no instant is known.
    pub until: Timestamp,
    /// Its messages that are not finished.
    pub open: u32,
}

/// What a group does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Nothing of it waits.
    Idle,
    /// Consumers may have the next of its messages.
    Ready,
    /// As many of its messages are in flight as may be, or one that keeps its order waits for a retry.
    Busy,
    /// Its rate lets nothing go yet.
    Limited,
    /// Its deliveries are paused.
    Paused,
}

impl GroupState {
    /// The word that replies use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Limited => "limited",
            Self::Paused => "paused",
        }
    }
}

impl Queue {
    /// Shows the groups at the places from `cursor` on, at most `count` places; 0 is the first. Returns
    /// where to go on, 0 when all have been looked at. A group keeps its place for as long as it is
    /// there.
    pub fn group_views(
        &self,
        now: Now,
        cursor: u32,
        count: u32,
        mut show: impl FnMut(&GroupView<'_>),
    ) -> u32 {
        let Some(groups) = &self.groups else {
            return 0;
        };
        let end = groups.end();
        let next = cursor.saturating_add(count).min(end);
        for place in cursor..next {
            if groups.at(place).is_some() {
                show(&self.group_view(now, place));
            }
        }
        if next == end {
            0
        } else {
            next
        }
    }

    /// Shows the group of that name, if it is there.
    pub fn group_named(&self, now: Now, name: &[u8]) -> Option<GroupView<'_>> {
        let place = self.find_group(name)?;
        Some(self.group_view(now, place))
    }

    fn group_view(&self, now: Now, place: u32) -> GroupView<'_> {
        let (state, until) = self.group_state(now, place);
        let group = self.groups.as_ref().map(|groups| groups.get(place));
        GroupView {
            name: group.map_or(&[], |group| &group.key),
            waiting: group.map_or(0, |group| group.waiting),
            in_flight: group.map_or(0, |group| group.in_flight),
            oldest: self.oldest_of_group(now, place),
            state,
            until,
            open: group.map_or(0, |group| group.open),
        }
    }

    fn group_state(&self, now: Now, place: u32) -> (GroupState, Timestamp) {
        let nothing = (GroupState::Idle, Timestamp::ZERO);
        let Some(groups) = &self.groups else {
            return nothing;
        };
        let group = groups.get(place);
        let runs = |until: &Timestamp| *until == Timestamp::ZERO || *until > now.instant();
        if let Some(until) = group.pause().filter(runs) {
            return (GroupState::Paused, until);
        }
        if group.waiting == 0 {
            return nothing;
        }
        let rate = groups.limits(place).rate;
        let free_at = rate.and_then(|rate| group.meter().free_at(rate, now.micros()));
        if let Some(free_at) = free_at {
            return (GroupState::Limited, free_at);
        }
        let is_busy = group.is_parked() && !group.is_shut();
        let state = if is_busy {
            GroupState::Busy
        } else {
            GroupState::Ready
        };
        (state, Timestamp::ZERO)
    }

    fn oldest_of_group(&self, now: Now, place: u32) -> Span {
        let Some(groups) = &self.groups else {
            return Span::ZERO;
        };
        let heads = groups.lanes_of(place).filter_map(|(.., list)| list.head());
        let since = heads.filter_map(|slot| match self.messages.get(slot).state() {
            State::Ready { since, .. } => Some(since),
            _ => None,
        });
        since
            .min()
            .map_or(Span::ZERO, |since| since.until(now.instant()))
    }
}
