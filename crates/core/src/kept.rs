//! DONE … RESULT and MQ.RESULT: what is kept of a message that was finished, and what is known of an id.
//!
//! A result is of the newest end of its id: it goes when a message of that id is there again, in
//! whatever way. So it never tells of an older run than the one that somebody asks for.

use crate::done::Keep;
use crate::effects::Effect;
use crate::id::{IdText, Key};
use crate::inspect::View;
use crate::message::State;
use crate::queue::Queue;
use crate::results::{Held, Results};
use crate::stand::Stand;
use crate::turn::Turn;
use crate::types::{Now, Span, Status, Timestamp};

/// The longest result, in bytes.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// Its message is finished.
    Done {
        /// The result and when it came, if it is kept.
        result: Option<(&'a [u8], Timestamp)>,
    },
    /// Its message is a dead letter.
    Dead {
        /// Why, if a reason is known.
        reason: Option<&'a [u8]>,
        /// Since when.
        at: Timestamp,
    },
    /// Its message is not finished: waiting for it may be worth while.
    Live(Status),
}

/// A message of this id ended in the step that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndOf {
    /// The id, as clients read it.
    pub id: Box<[u8]>,
    /// Whether it became a dead letter.
    pub died: bool,
}

impl Queue {
    /// What of a success is to be kept, and how long. The verdict's word goes before the message's, and
    /// nothing is kept where neither has one.
    #[inline]
    pub(crate) fn to_be_kept<'a>(
        &self,
        turn: &Turn<'_>,
        slot: u32,
        keep: Keep<'a>,
    ) -> Option<(&'a [u8], Span)> {
        let own = self.messages.get(slot).retain();
        if keep.result.is_none() && keep.retain.is_none() && own.is_none() {
            return None;
        }
        let span = keep.retain.or(own).unwrap_or(turn.settings.retain);
        (span != Span::ZERO).then_some((keep.result.unwrap_or_default(), span))
    }

    /// Keeps the result of a message that was just finished, unless its copy is there already.
    pub(crate) fn keep(&mut self, turn: &mut Turn<'_>, key: Key<'_>, value: &[u8], span: Span) {
        if self.may_have_result(&key) {
            let until = self.frame.instant().after(span);
            self.emit(turn, &Effect::Keep { key, until, value });
            self.keep_until(key, value, until);
        }
    }

    /// Whether the id has no message, or one that is finished.
    pub(crate) fn may_have_result(&self, key: &Key<'_>) -> bool {
        self.find_live(key)
            .is_none_or(|slot| matches!(self.messages.get(slot).state(), State::Done { .. }))
    }

    /// Keeps a result that came at the moment of the frame, in place of an older one.
    pub(crate) fn keep_until(&mut self, key: Key<'_>, value: &[u8], until: Timestamp) {
        self.remove_result(&key);
        let at = self.frame.instant();
        self.hold_result(Held {
            key,
            value,
            at,
            until,
        });
    }

    /// Takes a result in; its id has none.
    pub(crate) fn hold_result(&mut self, held: Held<'_>) {
        let (hash, now) = (self.hash(&held.key), self.frame.instant());
        let results = self.results.get_or_insert_with(|| {
            let mut results = Box::new(Results::default());
            results.is_quiet_at(now);
            results
        });
        results.insert(hash, held);
    }

    /// The result of an id, whether its time is over or not.
    pub(crate) fn result_of(&self, key: &Key<'_>) -> Option<Held<'_>> {
        self.results.as_ref()?.get(self.hash(key), key)
    }

    /// The result of an id that is there at `now`.
    pub(crate) fn result_at(&self, key: &Key<'_>, now: Timestamp) -> Option<Held<'_>> {
        self.result_of(key).filter(|held| held.until > now)
    }

    /// How many results there are at `now`.
    pub(crate) fn results_at(&self, now: Timestamp) -> usize {
        let results = self.results.as_ref();
        results.map_or(0, |results| results.len() - results.over_by(now))
    }

    /// Lets go of the result of an id; false if there was none.
    pub(crate) fn remove_result(&mut self, key: &Key<'_>) -> bool {
        let Some(hash) = self.results.is_some().then(|| self.hash(key)) else {
            return false;
        };
        let Some(results) = &mut self.results else {
            return false;
        };
        let removed = results.remove(hash, key);
        if results.len() == 0 {
            self.results = None;
        }
        removed
    }

    /// A message of this id is there again: its end is still to come.
    #[inline]
    pub(crate) fn forget_result_of(&mut self, slot: u32) {
        if self.results.is_some() {
            self.remove_result_of(slot);
        }
    }

    #[cold]
    pub(crate) fn remove_result_of(&mut self, slot: u32) {
        let id = self.messages.get(slot).id();
        let id = id.bytes().to_vec();
        self.remove_result(&Key::of(&id));
    }

    /// Whether no result is over at `now`.
    #[inline]
    pub(crate) fn has_quiet_results(&mut self, now: Timestamp) -> bool {
        (self.results.as_mut()).is_none_or(|results| results.is_quiet_at(now))
    }

    /// Lets go of results that are over, with what is left of the turn's budget.
    pub(crate) fn let_results_go(&mut self, turn: &mut Turn<'_>) {
        while let Some(results) = &mut self.results {
            turn.budget = results.advance(turn.now.instant(), turn.budget);
            if turn.budget == 0 {
                break;
            }
            let Some(held) = results.overdue() else {
                break;
            };
            turn.budget -= 1;
            let id = IdText::new(held.key).bytes().to_vec();
            let key = Key::of(&id);
            self.enter_frame(turn);
            self.emit(turn, &Effect::LetGo { key });
            self.remove_result(&key);
        }
    }

    /// What is known of an id at `now`; none if nothing is. A live message comes first.
    pub fn result(&self, now: Now, id: &[u8]) -> Option<Known<'_>> {
        let (key, now) = (Key::of(id), now.instant());
        let live = self.find_live(&key);
        let of_live = live.and_then(|slot| self.known(slot, self.stand(slot, now), now));
        let of_result = || {
            if live.is_some_and(|slot| self.copy_has_come(slot, now)) {
                return None;
            }
            let held = self.result_at(&key, now)?;
            let result = Some((held.value, held.at));
            Some(Known::Done { result })
        };
        of_live.or_else(of_result).or_else(|| {
            let letter = self.find_letter(&key)?;
            self.known(letter, self.stand(letter, now), now)
        })
    }

    /// Whether a copy has taken the place of a finished message by `now`, though nobody may have let time
    /// act: then its result is of the past.
    pub(crate) fn copy_has_come(&self, slot: u32, now: Timestamp) -> bool {
        let state = self.messages.get(slot).state();
        matches!(state, State::Done { until } if until <= now) && self.has_copy(slot)
    }

    /// What is known of the id of a message that ended in a watched step: nothing of an older dead
    /// letter, which [`Queue::result`] would tell of.
    pub fn result_of_end(&self, now: Now, end: &EndOf) -> Option<Known<'_>> {
        let known = self.result(now, &end.id);
        known.filter(|known| end.died || !matches!(known, Known::Dead { .. }))
    }

    /// What is known of the message in a slot, which stands so at `now`.
    fn known<'a>(&'a self, slot: u32, stand: Stand<'a>, now: Timestamp) -> Option<Known<'a>> {
        match stand.status(now)? {
            Status::DoneAwaitingGc => None,
            Status::DoneWithBackoff | Status::DoneWithRequeue => {
                let held = self.result_at(&self.messages.get(slot).key(), now);
                let result = held.map(|held| (held.value, held.at));
                Some(Known::Done { result })
            }
            Status::Dead => {
                let View { reason, .. } = self.view_as(slot, now, stand)?;
                let at = self.died_at(slot, now);
                Some(Known::Dead { reason, at })
            }
            status => Some(Known::Live(status)),
        }
    }

    /// Lets the ids of messages that end be noted, until [`Queue::take_ends`]: whoever waits for one is
    /// to be told.
    #[inline]
    pub fn watch_ends(&mut self) {
        self.watched = Some(Vec::new());
    }

    /// The ends since [`Queue::watch_ends`], in their order.
    #[inline]
    pub fn take_ends(&mut self) -> Vec<EndOf> {
        self.watched.take().unwrap_or_default()
    }

    /// The message in the slot is about to end.
    #[inline]
    pub(crate) fn note_end(&mut self, slot: u32, died: bool) {
        if self.watched.is_some() {
            self.note_watched_end(slot, died);
        }
    }

    #[cold]
    fn note_watched_end(&mut self, slot: u32, died: bool) {
        let id = self.messages.get(slot).id().bytes().into();
        if let Some(ends) = &mut self.watched {
            ends.push(EndOf { id, died });
        }
    }
}
