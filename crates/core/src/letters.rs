//! Dead letters: messages that gave up, kept for inspection beside whatever lives under their id.

use crate::effects::Content;
use crate::id::Key;
use crate::message::{Cause, State};
use crate::queue::{count, Queue};
use crate::types::{Timestamp, Token};

impl Queue {
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
        let copy = self.take_copy(slot);
        self.forget_expiry(slot);
        let message = self.messages.get(slot);
        let id = copy.is_some().then(|| message.id().bytes().to_vec());
        if let Some(older) = self.find_letter(&message.key()) {
            self.remove_letter(older);
        }
        self.live.remove(&self.messages, slot, self.frame.next_id);
        self.bury_loaded(slot, State::Dead { token, cause }, reason);
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
        self.link(
            slot,
            State::Locked {
                until: self.frame.instant(),
                token,
            },
        );
    }
}
