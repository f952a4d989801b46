//! MQ.CANCEL: removing messages, whatever their status.

use crate::effects::Effect;
use crate::id::Key;
use crate::message::State;
use crate::queue::Queue;
use crate::turn::Turn;

impl Queue {
    /// Removes what there is of `id`: the live message with its waiting copy, the dead letter, and the
    /// result.
    /// Returns whether there was anything.
    pub fn cancel(&mut self, turn: &mut Turn<'_>, id: &[u8]) -> bool {
        let key = Key::of(id);
        let live = self.find_live(&key);
        let has_result = self.result_at(&key, turn.now.instant()).is_some();
        if self.find_letter_by_now(turn, &key).is_none() && live.is_none() && !has_result {
            return false;
        }
        let is_locked = |slot| matches!(self.messages.get(slot).state(), State::Locked { .. });
        let now = turn.now.instant();
        if live.is_some_and(|slot| is_locked(slot) || self.expiry_by(slot, now).is_some()) {
            // A lock that has run out stays counted, and what has expired is not there.
            let live = self.find_by_now(turn, &key);
            if self.find_letter_by_now(turn, &key).is_none() && live.is_none() {
                return false;
            }
        }
        self.enter_frame(turn);
        self.emit(turn, &Effect::Cancel { key });
        self.remove_all_of(&key);
        true
    }

    /// Removes the live message, the dead letter and the result of an id; false if there was none.
    pub(crate) fn remove_all_of(&mut self, key: &Key<'_>) -> bool {
        let live = self.find_live(key);
        if let Some(slot) = live {
            self.unlink(slot);
            self.remove(slot);
        }
        let letter = self.find_letter(key);
        if let Some(slot) = letter {
            self.remove_letter(slot);
        }
        let has_result = self.remove_result(key);
        let found = live.is_some() || letter.is_some() || has_result;
        self.kinds.cancelled |= found;
        found
    }
}
