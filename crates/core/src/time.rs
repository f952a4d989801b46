//! What time does by itself: delays and backoffs end, locks run out, dedupe windows close.
//!
//! Only a primary lets time act, a bounded number of messages per turn. What is left over is done
//! in later turns; until then every reply tells what holds, not what was done.

use crate::effects::Effect;
use crate::id::Key;
use crate::message::{Cause, State};
use crate::queue::{count, Queue};
use crate::turn::Turn;
use crate::types::Timestamp;

impl Queue {
    /// Moves on the messages whose time has come, in the order in which they were due, at most
    /// about a thousand; those left are due in [`Queue::next_due`] at once.
    #[inline]
    pub fn let_time_act(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.instant();
        if !self.is_plain() {
            self.bounds_meet_clock(turn);
        }
        let letters = self.has_letters_to_forget(turn.settings.max_dead)
            || (!self.is_plain() && self.end_of_oldest_letter().is_some_and(|end| end <= now));
        // No wheel moves on before the others have nothing to do.
        let is_quiet = !self.has_due_timers(now)
            && (self.groups.as_mut()).is_none_or(|groups| groups.is_quiet_at(now))
            && self.wheel.is_quiet_at(now)
            && (self.timers.as_mut()).is_none_or(|timers| timers.is_quiet_at(now));
        if letters || !is_quiet {
            self.move_due_on(turn);
        }
        if !self.has_quiet_results(now) {
            self.let_results_go(turn);
        }
        if self.schedules.is_some() {
            self.let_runs_begin(turn);
        }
    }

    /// Whether time has something left to do.
    #[inline]
    pub(crate) fn has_due(&self, now: Timestamp) -> bool {
        let groups = self.groups.as_ref().and_then(|groups| groups.next_due());
        let has_come = |next: Option<Timestamp>| next.is_some_and(|next| next <= now);
        self.wheel.is_due_at(now) || has_come(groups) || self.has_due_timers(now)
    }

    #[cold]
    fn move_due_on(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.instant();
        while turn.budget > 0 {
            // What one message's end makes due as well is in order before the next is looked at.
            let message = self.next_overdue(turn, now);
            let by = message.map_or(now, |(at, _)| at);
            if turn.budget > 0 && self.forget_an_old_letter(turn, by) {
                turn.budget -= 1;
                continue;
            }
            if turn.budget > 0 && self.let_time_act_on_group(turn, message) {
                turn.budget -= 1;
                continue;
            }
            let Some((_, slot)) = message else { break };
            turn.budget -= 1;
            self.let_time_act_on(turn, slot);
            self.forget_a_letter(turn);
        }
        while turn.budget > 0 && self.forget_a_letter(turn) {
            turn.budget -= 1;
        }
    }

    /// Lets time act on the group that is due next, if that is before `message`.
    fn let_time_act_on_group(
        &mut self,
        turn: &mut Turn<'_>,
        message: Option<(Timestamp, u32)>,
    ) -> bool {
        let Some(groups) = &mut self.groups else {
            return false;
        };
        let Some(group) = groups.overdue(turn.now.instant(), turn.budget) else {
            return false;
        };
        let due = groups.get(group).due();
        if message.is_some_and(|(at, _)| at <= due) {
            return false;
        }
        self.enter_frame(turn);
        self.emit_group_due(turn, group);
        self.group_due(group);
        true
    }

    /// The message whose time has come first, of equal instants one of the schedule, and that instant;
    /// none if the budget is spent.
    #[inline]
    fn next_overdue(&mut self, turn: &mut Turn<'_>, now: Timestamp) -> Option<(Timestamp, u32)> {
        if self.timers.is_some() {
            return self.next_overdue_or_expired(turn, now);
        }
        turn.budget = self.wheel.advance(&mut self.messages, now, turn.budget);
        let slot = self.wheel.overdue().head().filter(|_| turn.budget > 0)?;
        Some((self.messages.get(slot).due(), slot))
    }

    /// Neither wheel is moved beyond what the other may have first, so that what a message's end puts
    /// into it has its place there.
    fn next_overdue_or_expired(
        &mut self,
        turn: &mut Turn<'_>,
        now: Timestamp,
    ) -> Option<(Timestamp, u32)> {
        while turn.budget > 0 {
            let overdue = self.wheel.overdue().head();
            let due = match overdue {
                Some(slot) => Some(self.messages.get(slot).due()),
                None => self.wheel.next(),
            };
            let expired = self.first_expired();
            let timers = self.timers.as_mut()?;
            let expiry = match expired {
                Some((at, _)) => Some(at),
                None => timers.next(),
            };
            let (due_by_now, expiry_by_now) = (
                due.filter(|due| *due <= now),
                expiry.filter(|expiry| *expiry <= now),
            );
            match (due_by_now, expiry_by_now) {
                (None, None) => {
                    turn.budget = self.wheel.advance(&mut self.messages, now, turn.budget);
                    turn.budget = timers.advance(now, turn.budget);
                    return None;
                }
                (Some(due), expiry) if expiry.is_none_or(|expiry| due <= expiry) => {
                    if let Some(slot) = overdue {
                        return Some((due, slot));
                    }
                    let limit = expiry.unwrap_or(now);
                    turn.budget = self.wheel.advance(&mut self.messages, limit, turn.budget);
                }
                (due, _) => {
                    if expired.is_some() {
                        return expired;
                    }
                    turn.budget = timers.advance(due.unwrap_or(now), turn.budget);
                }
            }
        }
        None
    }

    /// Moves one message on whose time has come; false if it has not.
    #[inline]
    fn let_time_act_on(&mut self, turn: &mut Turn<'_>, slot: u32) -> bool {
        let message = self.messages.get(slot);
        let now = turn.now.instant();
        let due = message.due();
        // What is due first, of equal instants the schedule's.
        let has_come = due <= now
            && message.is_scheduled()
            && !(message.waits() && self.expiry_by(slot, now).is_some_and(|at| at.at < due));
        if has_come {
            self.enter_frame(turn);
            let key = self.messages.get(slot).key();
            self.emit(turn, &Effect::Due { key });
            self.move_on(slot);
        }
        has_come || self.expire_now(turn, slot)
    }

    /// The live message of an id as it is by now, though time may not have been let act on all
    /// that are due.
    #[inline]
    pub(crate) fn find_by_now(&mut self, turn: &mut Turn<'_>, key: &Key<'_>) -> Option<u32> {
        loop {
            let slot = self.find_live(key)?;
            if !self.let_time_act_on(turn, slot) {
                return Some(slot);
            }
        }
    }

    /// Does to a message in the schedule what the end of its time means.
    pub(crate) fn move_on(&mut self, slot: u32) {
        let state = self.unlink(slot);
        self.forget_place(slot);
        match state {
            State::Delayed { due: since } => self.link(slot, State::Ready { since, token: None }),
            State::Locked { until, token } => {
                count(&mut self.totals.expired_locks);
                if self.is_out_of_attempts(slot) {
                    self.bury(slot, Cause::LastLockExpired, Some(token), None, until);
                } else if let Some(expiry) = self.expiry_by(slot, until) {
                    self.end_by_expiry(slot, expiry, until);
                } else {
                    let (since, token) = (until, Some(token));
                    self.link(slot, State::Ready { since, token });
                    self.start_timer(slot);
                }
            }
            State::Done { until } => match self.take_copy(slot) {
                Some(copy) => self.promote(slot, &copy, until),
                None => self.remove(slot),
            },
            state @ (State::Ready { .. } | State::Dead { .. } | State::Waiting) => {
                self.link(slot, state);
            }
        }
    }

    /// Drops the oldest dead letter if there are more than are kept; false if there are not.
    pub(crate) fn forget_a_letter(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some(slot) = self.dead.head() else {
            return false;
        };
        let too_many = self.has_letters_to_forget(turn.settings.max_dead);
        if too_many {
            self.forget(turn, slot);
        }
        too_many
    }

    /// A replica's schedule follows the frame, so that it is in order should it become primary.
    /// Nothing is moved on.
    pub(crate) fn keep_up(&mut self) {
        let now = self.frame.instant();
        if !self.has_due_timers(now) && !self.wheel.is_quiet_at(now) {
            self.wheel.advance(&mut self.messages, now, KEEP_UP_BUDGET);
        }
        if let Some(timers) = &mut self.timers {
            if !timers.is_quiet_at(now) {
                timers.advance(now, KEEP_UP_BUDGET);
            }
        }
        if let Some(groups) = &mut self.groups {
            groups.keep_up(now);
        }
        if let Some(results) = &mut self.results {
            if !results.is_quiet_at(now) {
                results.advance(now, KEEP_UP_BUDGET);
            }
        }
    }
}

/// Entries a replica deals to lower levels of its schedule per effect.
const KEEP_UP_BUDGET: usize = 64;
