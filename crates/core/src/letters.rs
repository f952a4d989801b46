//! Dead letters: messages that gave up, kept for inspection beside whatever lives under their id.

use crate::effects::{Content, Effect};
use crate::id::Key;
use crate::message::{Cause, State};
use crate::queue::{count, Queue};
use crate::turn::Turn;
use crate::types::{Timestamp, Token};

impl Queue {
    /// When a message whose life ends at `ended` is dead: letters die in the order that they lie in, also
    /// where the clock was set back.
    pub(crate) fn death(&self, ended: Timestamp) -> Timestamp {
        let newest = self.dead.tail().map(|slot| self.messages.get(slot).due());
        ended.max(newest.unwrap_or_default())
    }

    /// When a letter that died then is let go; none if it is kept whatever its age.
    #[inline]
    pub(crate) fn end_of_letter(&self, died: Timestamp) -> Option<Timestamp> {
        let age = self.bounds.as_ref()?.limits.dead_age?;
        Some(died.after(age))
    }

    /// Whether a letter that died then is one no more at `now`.
    #[inline]
    pub(crate) fn is_let_go(&self, died: Timestamp, now: Timestamp) -> bool {
        self.end_of_letter(died).is_some_and(|end| end <= now)
    }

    /// The same of a letter that is there.
    #[inline]
    pub(crate) fn is_over(&self, letter: u32, now: Timestamp) -> bool {
        self.is_let_go(self.messages.get(letter).due(), now)
    }

    /// When the oldest letter is let go for its age.
    #[inline]
    pub(crate) fn end_of_oldest_letter(&self) -> Option<Timestamp> {
        self.end_of_letter(self.messages.get(self.dead.head()?).due())
    }

    /// Lets go of the oldest letter if its age is over at `by`; false if it is not.
    pub(crate) fn forget_an_old_letter(&mut self, turn: &mut Turn<'_>, by: Timestamp) -> bool {
        match self.dead.head() {
            Some(slot) if self.is_over(slot, by) => {
                self.forget(turn, slot);
                true
            }
            _ => false,
        }
    }

    /// The dead letter of an id as it is by now, though time may not have been let act on all.
    pub(crate) fn find_letter_by_now(&mut self, turn: &mut Turn<'_>, key: &Key<'_>) -> Option<u32> {
        let slot = self.find_letter(key)?;
        if self.is_over(slot, turn.now.instant()) {
            self.forget(turn, slot);
            return None;
        }
        Some(slot)
    }

    /// Lets go of a letter as a step of this turn.
    pub(crate) fn forget(&mut self, turn: &mut Turn<'_>, slot: u32) {
        self.enter_frame(turn);
        let key = self.messages.get(slot).key();
        self.emit(turn, &Effect::Forget { key });
        self.drop_letter(slot);
    }

    /// Lets go of a dead letter that is one too many, or too old.
    pub(crate) fn drop_letter(&mut self, slot: u32) {
        self.remove_letter(slot);
        count(&mut self.totals.dropped);
    }

    /// Removes a dead letter.
    pub(crate) fn remove_letter(&mut self, slot: u32) {
        self.unlink(slot);
        self.letters
            .remove(&self.messages, slot, self.frame.next_id);
        self.free(slot);
    }

    /// Makes an unlinked live message a dead letter, in place of an older one of the same id. A
    /// waiting copy becomes a new message; its delay counts from `ended`.
    pub(crate) fn bury(
        &mut self,
        slot: u32,
        cause: Cause,
        token: Option<Token>,
        reason: Option<&[u8]>,
        ended: Timestamp,
    ) {
        self.leave_batch(slot, true, ended);
        let copy = self.take_copy(slot);
        self.forget_expiry(slot);
        let message = self.messages.get(slot);
        let id = copy.is_some().then(|| message.id().bytes().to_vec());
        let died = self.death(ended);
        if let Some(older) = self.find_letter(&message.key()) {
            if self.is_over(older, ended) {
                self.drop_letter(older);
            } else {
                self.remove_letter(older);
            }
        }
        self.note_end(slot, true);
        self.live.remove(&self.messages, slot, self.frame.next_id);
        let state = State::Dead { token, cause, died };
        self.bury_loaded(slot, state, reason);
        count(&mut self.totals.dead);
        if let (Some(copy), Some(id)) = (copy, id) {
            let enqueued = self.totals.enqueued;
            let state = State::waiting(copy.start.due(ended), ended);
            self.add(Key::of(&id), &Content::of(&copy), state);
            // It was counted when it was requeued.
            self.totals.enqueued = enqueued;
        }
    }

    /// Lists an unlinked message that is in no index as a dead letter.
    pub(crate) fn bury_loaded(&mut self, slot: u32, state: State, reason: Option<&[u8]>) {
        self.set_reason(slot, reason);
        self.letters
            .insert(&self.messages, slot, self.frame.next_id);
        self.link(slot, state);
    }

    /// Makes a dead letter whose lock ran out a live message again, its lock over, so that its
    /// consumer's verdict counts, and its death no more. No live message has the id.
    pub(crate) fn revive(&mut self, slot: u32, token: Token) {
        self.totals.dead = self.totals.dead.saturating_sub(1);
        self.unlink(slot);
        self.letters
            .remove(&self.messages, slot, self.frame.next_id);
        self.live.insert(&self.messages, slot, self.frame.next_id);
        self.forget_result_of(slot);
        self.link(
            slot,
            State::Locked {
                until: self.frame.instant(),
                token,
            },
        );
    }
}
