//! MQ.REDRIVE: sending dead letters again.

use crate::control::Full;
use crate::effects::Effect;
use crate::id::Key;
use crate::link::Links;
use crate::message::State;
use crate::queue::{count, Queue};
use crate::slab::NIL;
use crate::turn::Turn;

/// Why a dead letter stays one.
enum Stays {
    /// It is not there, its id has a live message, or its group is full.
    Alone,
    /// The queue is full, so that all of them stay.
    All,
}

impl Queue {
    /// Makes the dead letter of `id` a new message that is ready, behind the others of its priority or
    /// its group: no attempt is used, and nothing but its time to live is lost. False if it stays:
    /// there is none, the id has a live message, or a length is reached that the queue or the group
    /// may have.
    pub fn redrive(&mut self, turn: &mut Turn<'_>, id: &[u8]) -> bool {
        self.let_time_act(turn);
        self.redrive_letter(turn, &Key::of(id)).is_ok()
    }

    /// The same with up to `count` dead letters, the oldest first. Returns how many were sent again.
    pub fn redrive_oldest(&mut self, turn: &mut Turn<'_>, count: usize) -> usize {
        self.let_time_act(turn);
        let mut redriven = 0;
        let now = turn.now.instant();
        // Those whose age is over are gone, though nobody may have come to let go of all.
        let mut next = {
            let mut letters = self.dead.iter(&self.messages);
            letters.find(|slot| !self.is_over(*slot, now))
        };
        while let Some(slot) = next.filter(|_| redriven < count) {
            // Only letters of the same id go by what is done with this one.
            let behind = self.messages.next(slot);
            next = (behind != NIL).then_some(behind);
            let id = self.messages.get(slot).id();
            let id = id.bytes().to_vec();
            match self.redrive_letter(turn, &Key::of(&id)) {
                Ok(()) => redriven += 1,
                Err(Stays::Alone) => {}
                Err(Stays::All) => break,
            }
        }
        redriven
    }

    fn redrive_letter(&mut self, turn: &mut Turn<'_>, key: &Key<'_>) -> Result<(), Stays> {
        if self.find_letter(key).is_none() && self.find_live(key).is_none() {
            return Err(Stays::Alone);
        }
        // A live message may have died by now, and its letter takes the place of the older one.
        if self.find_by_now(turn, key).is_some() {
            return Err(Stays::Alone);
        }
        let slot = self.find_letter_by_now(turn, key).ok_or(Stays::Alone)?;
        let group = self.group_name(self.messages.get(slot));
        match self.length_full(group) {
            None => {}
            Some(Full::GroupLength) => return Err(Stays::Alone),
            Some(_) => return Err(Stays::All),
        }
        self.enter_frame(turn);
        self.emit(turn, &Effect::Redrive { key: *key });
        self.send_again(slot);
        Ok(())
    }

    /// Makes a dead letter whose id is free a ready message.
    pub(crate) fn send_again(&mut self, slot: u32) {
        self.unlink(slot);
        self.letters
            .remove(&self.messages, slot, self.frame.next_id);
        self.set_reason(slot, None);
        self.messages.get_mut(slot).attempts = 0;
        self.live.insert(&self.messages, slot, self.frame.next_id);
        self.forget_result_of(slot);
        count(&mut self.totals.redriven);
        self.link(
            slot,
            State::Ready {
                since: self.frame.instant(),
                token: None,
            },
        );
    }
}
