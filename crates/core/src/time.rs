//! What time does by itself: delays and backoffs end, locks run out, dedupe windows close.
//!
//! Only a primary lets time act, a bounded number of messages per turn. What is left over is done
//! in later turns; until then every reply tells what holds, not what was done.

use crate::effects::{Effect, Turn};
use crate::message::{Cause, State};
use crate::queue::Queue;
use crate::types::Instant;

impl Queue {
    /// Moves on the messages whose time has come, at most about a thousand; those left are due
    /// in [`Queue::next_due`] at once.
    #[inline]
    pub fn let_time_act(&mut self, turn: &mut Turn<'_>) {
        if !self.wheel.is_quiet_at(turn.now.instant()) {
            self.move_due_on(turn);
        }
    }

    #[cold]
    fn move_due_on(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.instant();
        turn.budget = self.wheel.advance(&mut self.messages, now, turn.budget);
        while turn.budget > 0 {
            let Some(slot) = self.wheel.overdue().head() else {
                break;
            };
            turn.budget -= 1;
            self.let_time_act_on(turn, slot);
        }
        self.forget_oldest_letters(turn);
    }

    /// Moves one message on whose time has come; does nothing to one whose has not.
    pub(crate) fn let_time_act_on(&mut self, turn: &mut Turn<'_>, slot: u32) {
        let due = self.messages.get(slot).due();
        if due != Instant::ZERO && due <= turn.now.instant() {
            self.enter_frame(turn);
            self.emit(
                turn,
                &Effect::Due {
                    key: self.messages.get(slot).key(),
                },
            );
            self.move_on(slot);
        }
    }

    /// Does to a message in the schedule what the end of its time means.
    pub(crate) fn move_on(&mut self, slot: u32) {
        match self.unlink(slot) {
            State::Delayed { .. } => self.link(slot, State::Ready { token: None }),
            State::Locked { until, token } => {
                self.totals.expired_locks += 1;
                if self.messages.get(slot).is_out_of_attempts() {
                    self.bury(slot, Cause::LastLockExpired, Some(token), None, until);
                } else {
                    self.link(slot, State::Ready { token: Some(token) });
                }
            }
            State::Done { until } => match self.take_copy(slot) {
                Some(copy) => self.promote(slot, &copy, until),
                None => self.remove(slot),
            },
            state @ (State::Ready { .. } | State::Dead { .. }) => self.link(slot, state),
        }
    }

    /// Drops the oldest dead letters beyond the number that is kept.
    pub(crate) fn forget_oldest_letters(&mut self, turn: &mut Turn<'_>) {
        while self.counts.dead > turn.settings.max_dead as usize && turn.budget > 0 {
            let Some(slot) = self.dead.head() else { break };
            turn.budget -= 1;
            self.enter_frame(turn);
            self.emit(
                turn,
                &Effect::Forget {
                    key: self.messages.get(slot).key(),
                },
            );
            self.remove_letter(slot);
        }
    }

    /// A replica's schedule follows the frame, so that it is in order should it become primary.
    /// Nothing is moved on.
    pub(crate) fn keep_up(&mut self) {
        let now = self.frame.instant();
        if !self.wheel.is_quiet_at(now) {
            self.wheel.advance(&mut self.messages, now, KEEP_UP_BUDGET);
        }
    }
}

/// Entries a replica deals to lower levels of its schedule per effect.
const KEEP_UP_BUDGET: usize = 64;
