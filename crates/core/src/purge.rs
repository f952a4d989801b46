//! MQ.PURGE: removing the messages of a status, a bounded number at a time.

use crate::effects::Effect;
use crate::id::Key;
use crate::queue::Queue;
use crate::turn::Turn;
use crate::types::Status;

/// What goes where no status is named: all but what consumers are working on, and what goes by itself.
/// Follow-ups go before what they wait for, or they would be ready.
const ALL: [Status; 6] = [
    Status::Waiting,
    Status::Queued,
    Status::QueuedWithBackoff,
    Status::DoneWithBackoff,
    Status::DoneWithRequeue,
    Status::Dead,
];

impl Queue {
    /// Removes up to `count` messages of a status, those that come first, with their waiting copies; of
    /// all statuses but the locked ones if none is given. Returns how many were removed, which is less
    /// than `count` only if no more are left.
    pub fn purge(&mut self, turn: &mut Turn<'_>, status: Option<Status>, count: usize) -> usize {
        self.let_time_act(turn);
        let Some(status) = status else {
            return ALL.into_iter().fold(0, |removed, status| {
                removed + self.purge_status(turn, status, count - removed)
            });
        };
        self.purge_status(turn, status, count)
    }

    fn purge_status(&mut self, turn: &mut Turn<'_>, status: Status, count: usize) -> usize {
        // Nobody has to remove what is not there any more.
        if count == 0 || status == Status::DoneAwaitingGc {
            return 0;
        }
        let now = turn.now.instant();
        let is_letter = status == Status::Dead;
        let mut removed = 0;
        for slot in self.slots_of(status, now, count) {
            let id = self.messages.get(slot).id();
            let id = id.bytes().to_vec();
            let key = Key::of(&id);
            let slot = if self.is_moved_on(slot, now) {
                // It comes to be what it is by now.
                let live = self.find_by_now(turn, &key);
                if is_letter {
                    self.find_letter_by_now(turn, &key)
                } else {
                    live
                }
            } else {
                Some(slot)
            };
            if let Some(slot) = slot {
                self.purge_slot(turn, slot, &key, is_letter);
                removed += 1;
            }
        }
        removed
    }

    fn purge_slot(&mut self, turn: &mut Turn<'_>, slot: u32, key: &Key<'_>, is_letter: bool) {
        let other = if is_letter {
            self.find_live(key).is_some() || self.result_of(key).is_some()
        } else {
            self.find_letter(key).is_some()
        };
        self.enter_frame(turn);
        let key = *key;
        let effect = if other {
            Effect::Remove { key, is_letter }
        } else {
            Effect::Cancel { key }
        };
        self.emit(turn, &effect);
        self.remove_one(slot, is_letter);
    }

    /// Removes a message, with the result that it may have if it is finished, or a dead letter, and leaves
    /// the other of its id.
    pub(crate) fn remove_one(&mut self, slot: u32, is_letter: bool) {
        self.kinds.cancelled = true;
        if is_letter {
            self.remove_letter(slot);
        } else {
            self.unlink(slot);
            self.forget_result_of(slot);
            self.remove(slot);
        }
    }
}
