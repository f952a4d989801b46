//! MQ.LIMIT, MQ.PAUSE and MQ.RESUME: what an operator sets, and how it takes hold.

use crate::bounds::Bounds;
use crate::effects::Effect;
use crate::groups::MAX_GROUP_BYTES;
use crate::id::Key;
use crate::limits::{GroupLimits, LimitChanges, LimitError, QueueLimits, Scope};
use crate::queue::{count, Queue};
use crate::rate::Meter;
use crate::turn::Turn;
use crate::types::{Span, Timestamp};

/// Which limit an enqueue would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// [`QueueLimits::length`].
    Length,
    /// [`QueueLimits::bytes`].
    Bytes,
    /// [`GroupLimits::length`], of the message's group.
    GroupLength,
}

impl Queue {
    /// The limits of the queue.
    pub fn limits(&self) -> QueueLimits {
        let bounds = self.bounds.as_ref();
        bounds.map_or_else(QueueLimits::default, |bounds| bounds.limits)
    }

    /// The limits of each group alike, or those that one group has of its own.
    pub fn group_limits(&self, group: Option<&[u8]>) -> GroupLimits {
        match (&self.groups, group) {
            (None, _) => GroupLimits::default(),
            (Some(groups), None) => *groups.shared(),
            (Some(groups), Some(name)) => match self.find_group(name) {
                Some(group) => groups.get(group).own_limits(),
                None => GroupLimits::default(),
            },
        }
    }

    /// Changes limits. Lowering one takes nothing back.
    ///
    /// # Errors
    /// If the change makes no sense; nothing changed then.
    pub fn set_limits(
        &mut self,
        turn: &mut Turn<'_>,
        scope: Scope<'_>,
        changes: &LimitChanges,
    ) -> Result<(), LimitError> {
        check_name(scope)?;
        self.let_time_act(turn);
        let (before, limits) = match scope {
            Scope::Queue => (self.limits(), changes.of_queue(&self.limits())?),
            Scope::Groups => {
                let before = self.group_limits(None);
                (before.into(), changes.of_groups(&before, true)?.into())
            }
            Scope::Group(name) => {
                let before = self.group_limits(Some(name));
                (before.into(), changes.of_groups(&before, false)?.into())
            }
        };
        if limits != before {
            self.enter_frame(turn);
            self.emit(turn, &Effect::Limits { scope, limits });
            self.take_limits(scope, limits);
            self.set_clock(turn);
        }
        Ok(())
    }

    /// Lets limits hold from now on.
    pub(crate) fn take_limits(&mut self, scope: Scope<'_>, limits: QueueLimits) {
        self.kinds.limits_set = true;
        let now = self.frame_now();
        let of_group = GroupLimits::from(limits);
        match scope {
            Scope::Queue => {
                let last_token = self.last_token;
                let bounds = self.bounds.get_or_insert_default();
                if limits.attempts != bounds.limits.attempts {
                    bounds.attempts_from = limits.attempts.map_or(0, |_| last_token);
                }
                if limits.rate.is_none() {
                    bounds.meter = Meter::default();
                }
                bounds.limits = limits;
                self.drop_idle_bounds();
            }
            Scope::Groups => self.groups_or_new().set_shared(of_group, now),
            Scope::Group(name) => {
                let group = self.group_or_new(name);
                let own = (of_group != GroupLimits::default()).then(|| Box::new(of_group));
                self.groups_or_new()
                    .change(group, now, |extra| extra.limits = own);
            }
        }
        self.drop_idle_groups();
    }

    /// Lets nothing be delivered of the queue, or of one group, for `span` or until
    /// [`Queue::resume`]. A span shortens no pause that there is. Returns when the pause ends, the
    /// epoch if somebody must end it.
    ///
    /// # Errors
    /// If the group's name cannot be one; nothing changed then.
    pub fn pause(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&[u8]>,
        span: Option<Span>,
    ) -> Result<Timestamp, LimitError> {
        check_name(group.map_or(Scope::Queue, Scope::Group))?;
        self.let_time_act(turn);
        let before = self.pause_of(group);
        let asked = span.map_or(Timestamp::ZERO, |span| turn.now.instant().after(span));
        let until = match before {
            Some(Timestamp::ZERO) => Timestamp::ZERO,
            Some(before) if asked != Timestamp::ZERO => before.max(asked),
            _ => asked,
        };
        if before != Some(until) {
            self.enter_frame(turn);
            let group = group.unwrap_or_default();
            let until = Some(until);
            self.emit(turn, &Effect::Pause { group, until });
            self.take_pause(group, until);
            self.set_clock(turn);
        }
        Ok(until)
    }

    /// Ends a pause of the queue, or of one group. Returns whether there was one.
    pub fn resume(&mut self, turn: &mut Turn<'_>, group: Option<&[u8]>) -> bool {
        self.let_time_act(turn);
        let is_paused = self.pause_of(group).is_some();
        if is_paused {
            self.end_pause(turn, group.unwrap_or_default());
        }
        is_paused
    }

    fn end_pause(&mut self, turn: &mut Turn<'_>, group: &[u8]) {
        self.enter_frame(turn);
        self.emit(turn, &Effect::Pause { group, until: None });
        self.take_pause(group, None);
    }

    fn pause_of(&self, group: Option<&[u8]>) -> Option<Timestamp> {
        match group {
            None => self.bounds.as_ref()?.pause,
            Some(name) => self.groups.as_ref()?.get(self.find_group(name)?).pause(),
        }
    }

    /// Begins or ends a pause; of the queue if the name of the group is empty.
    pub(crate) fn take_pause(&mut self, group: &[u8], until: Option<Timestamp>) {
        self.kinds.paused |= until.is_some();
        self.kinds.resumed |= until.is_none();
        let now = self.frame_now();
        if group.is_empty() {
            self.bounds.get_or_insert_default().pause = until;
            self.drop_idle_bounds();
        } else {
            let group = self.group_or_new(group);
            self.groups_or_new()
                .change(group, now, |extra| extra.pause = until);
            self.drop_idle_groups();
        }
    }

    /// Ends the queue's pause if it is over, and notes the clock.
    #[cold]
    pub(crate) fn bounds_meet_clock(&mut self, turn: &mut Turn<'_>) {
        self.set_clock(turn);
        let until = self.bounds.as_ref().and_then(|bounds| bounds.pause);
        let is_over = |until| until != Timestamp::ZERO && until <= turn.now.instant();
        if until.is_some_and(is_over) {
            self.end_pause(turn, &[]);
        }
    }

    fn set_clock(&mut self, turn: &Turn<'_>) {
        if let Some(bounds) = &mut self.bounds {
            bounds.clock = Some(turn.now);
        }
    }

    pub(crate) fn emit_group_due(&self, turn: &mut Turn<'_>, group: u32) {
        if let Some(groups) = &self.groups {
            let group = &groups.get(group).key;
            self.emit(turn, &Effect::GroupDue { group });
        }
    }

    /// Lets time act on a group, at the moment of the frame.
    pub(crate) fn group_due(&mut self, group: u32) {
        let now = self.frame_now();
        if let Some(groups) = &mut self.groups {
            groups.time_acts(group, now);
        }
        self.drop_idle_groups();
    }

    /// Why one more message of `group` is refused; counts that.
    #[inline(always)]
    pub(crate) fn is_full(&mut self, group: &[u8]) -> Option<Full> {
        if self.is_plain() {
            return None;
        }
        self.count_if_full(group)
    }

    #[cold]
    fn count_if_full(&mut self, group: &[u8]) -> Option<Full> {
        let full = self.full_by(group, 1, 1, 0);
        if full.is_some() {
            count(&mut self.refused);
        }
        full
    }

    /// Counts messages that limits have refused.
    pub(crate) fn count_refused(&mut self, messages: u64) {
        self.refused = self.refused.saturating_add(messages);
    }

    /// Why `added` more messages would pass a limit if `joined` more are in `group` then and the last of
    /// them finds `bytes` more in memory.
    pub(crate) fn full_by(
        &self,
        group: &[u8],
        added: u64,
        joined: u64,
        bytes: u64,
    ) -> Option<Full> {
        let most = self.limits().bytes.filter(|_| added != 0);
        let is_too_large = most.is_some_and(|most| self.bytes() as u64 + bytes >= most);
        match self.length_full_by(group, added, joined) {
            Some(Full::GroupLength) | None if is_too_large => Some(Full::Bytes),
            full => full,
        }
    }

    /// Why one more message of `group` would pass a length.
    pub(crate) fn length_full(&self, group: &[u8]) -> Option<Full> {
        self.length_full_by(group, 1, 1)
    }

    fn length_full_by(&self, group: &[u8], added: u64, joined: u64) -> Option<Full> {
        let counts = &self.counts;
        let open = counts.ready
            + counts.delayed
            + counts.locked
            + counts.locked_with_copy
            + counts.waiting;
        let length = self.limits().length.filter(|_| added != 0);
        if length.is_some_and(|most| open as u64 + added > most) {
            return Some(Full::Length);
        }
        self.group_full_by(group, joined)
    }

    /// Why a message that is there may not join `group`.
    pub(crate) fn group_full(&self, group: &[u8]) -> Option<Full> {
        self.group_full_by(group, 1)
    }

    fn group_full_by(&self, group: &[u8], joined: u64) -> Option<Full> {
        let groups = self.groups.as_ref().filter(|_| joined != 0)?;
        let (most, open) = match self.find_group(group) {
            Some(group) => (groups.limits(group).length, groups.get(group).open),
            None if group.is_empty() => return None,
            None => (groups.shared().length, 0),
        };
        most.is_some_and(|most| u64::from(open) + joined > most)
            .then_some(Full::GroupLength)
    }

    /// Whether a lock of the id's message may be extended: one that is over only if nobody has taken
    /// its room since.
    pub(crate) fn may_extend(&mut self, turn: &mut Turn<'_>, id: &[u8]) -> bool {
        let key = Key::of(id);
        let slot = self
            .find_by_now(turn, &key)
            .or_else(|| self.find_letter(&key));
        slot.is_none_or(|slot| self.may_be_locked_again(slot))
    }

    /// Whether a message whose lock is over may be locked again for the delivery it had: others may
    /// have taken its room since.
    fn may_be_locked_again(&self, slot: u32) -> bool {
        if self.is_plain() || self.is_locked(slot) {
            return true;
        }
        let group = self.messages.get(slot).group();
        let has_room = match (&self.groups, group) {
            (Some(groups), Some(group)) => groups.has_room_for(group, slot),
            _ => true,
        };
        has_room && self.inflight_room() != 0
    }

    /// Bounds to be read from a snapshot.
    pub(crate) fn bounds_or_new(&mut self) -> &mut Bounds {
        self.bounds.get_or_insert_default()
    }
}

fn check_name(scope: Scope<'_>) -> Result<(), LimitError> {
    match scope {
        Scope::Group(name) if name.is_empty() || name.len() > MAX_GROUP_BYTES => {
            Err(LimitError::Name)
        }
        _ => Ok(()),
    }
}
