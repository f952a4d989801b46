//! What a replica does, and a primary that reads its append-only file: the effects as they come,
//! with no clock, no limits and no settings.

use crate::codec::{Damaged, Reader};
use crate::effects::Effect;
use crate::id::Key;
use crate::message::State;
use crate::queue::Queue;
use crate::snapshot::SNAPSHOT_MARK;
use crate::turn::read_header;
use crate::types::Now;

/// Why effects could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The bytes are no effects of this version.
    Damaged(Damaged),
    /// The queue is not in the state that the effects were made in.
    Diverged(&'static str),
}

impl From<Damaged> for ApplyError {
    fn from(damaged: Damaged) -> Self {
        Self::Damaged(damaged)
    }
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(damaged) => damaged.fmt(out),
            Self::Diverged(what) => out.write_str(what),
        }
    }
}

impl std::error::Error for ApplyError {}

/// When a primary made these effects; none if they are a part of a snapshot, which is made at any time
/// later, or no effects.
pub fn moment_of(effects: &[u8]) -> Option<Now> {
    let (_, frame) = read_header(&mut Reader::new(effects)).ok()?;
    Some(Now::from_micros(frame.now_us))
}

const NO_SCHEDULE: ApplyError = ApplyError::Diverged("a schedule is not there");

impl Queue {
    /// Applies the effects of one turn of the primary, or one chunk of a snapshot.
    ///
    /// # Errors
    /// If the bytes are damaged, or do not fit this queue. Effects in front of the one at fault
    /// stay applied.
    pub fn apply(&mut self, bytes: &[u8]) -> Result<(), ApplyError> {
        if bytes.first() == Some(&SNAPSHOT_MARK) {
            self.read_chunk(bytes)?;
            self.kinds.loaded = true;
            return Ok(());
        }
        let mut reader = Reader::new(bytes);
        let (version, frame) = read_header(&mut reader)?;
        let before = std::mem::replace(&mut self.frame, frame);
        if !self.can_be_ahead(self.ahead_ms) {
            self.frame = before;
            return Err(ApplyError::Diverged("a frame is before all times"));
        }
        self.keep_up();
        let mut new_batches = Vec::new();
        let applied = self.apply_all(&mut reader, version, &mut new_batches);
        for batch in new_batches {
            self.close_batch(batch);
        }
        applied
    }

    fn apply_all(
        &mut self,
        reader: &mut Reader<'_>,
        version: u8,
        new_batches: &mut Vec<u32>,
    ) -> Result<(), ApplyError> {
        while !reader.is_empty() {
            let effect = Effect::read(reader, version)?;
            self.apply_one(&effect)?;
            if let Effect::FollowUp { content, .. } = effect {
                new_batches.push(content.extras.batch);
            }
        }
        Ok(())
    }

    fn apply_one(&mut self, effect: &Effect<'_>) -> Result<(), ApplyError> {
        match effect {
            Effect::Add { key, content, due } => {
                if self.find_live(key).is_some() {
                    return Err(ApplyError::Diverged("an added message is already there"));
                }
                if content.extras.batch != 0 && !self.has_batch(content.extras.batch) {
                    return Err(ApplyError::Diverged("a message of no batch"));
                }
                self.add(*key, content, State::waiting(*due, self.frame.instant()));
            }
            Effect::FollowUp { key, content } => {
                if self.find_live(key).is_some() {
                    return Err(ApplyError::Diverged("an added message is already there"));
                }
                let extras = &content.extras;
                let is_plain = extras.group.is_empty() && extras.expiry.is_none();
                if extras.batch == 0 || self.has_batch(extras.batch) || !is_plain {
                    return Err(ApplyError::Diverged("a follow-up of no batch of its own"));
                }
                self.add(*key, content, State::Waiting);
            }
            Effect::Update { key, content, time } => {
                let slot = self.live(key)?;
                self.update(slot, content, *time);
            }
            Effect::Requeue {
                key,
                content,
                start,
            } => {
                let slot = self.live(key)?;
                self.requeue(slot, content, *start);
            }
            Effect::Deliver { key, lock, token } => {
                let slot = self.live(key)?;
                self.hand_over(slot, *lock, *token);
            }
            Effect::Due { key } => {
                let slot = self.live(key)?;
                self.move_on(slot);
            }
            Effect::End { key, finish } => {
                let slot = self.live(key)?;
                if self.messages.get(slot).open_token().is_none() {
                    return Err(ApplyError::Diverged("an ended delivery was not made"));
                }
                self.finish(slot, *finish);
            }
            Effect::Extend { key, until } => {
                let slot = self.live(key)?;
                let token = self.messages.get(slot).open_token();
                let token = token.ok_or(ApplyError::Diverged("an extended lock has no token"))?;
                self.lock_until(slot, *until, token);
            }
            Effect::Cancel { key } => {
                if !self.remove_all_of(key) {
                    return Err(ApplyError::Diverged("a cancelled message is not there"));
                }
            }
            Effect::Expire { key } => {
                let slot = self.live(key)?;
                if !self.expire(slot) {
                    return Err(ApplyError::Diverged("an expired message has no such time"));
                }
            }
            Effect::TokensAfter { token } => self.last_token = self.last_token.max(token.value()),
            Effect::Ahead { ms } => {
                if !self.can_be_ahead(*ms) {
                    return Err(ApplyError::Diverged("a queue's time is ahead of all times"));
                }
                self.ahead_ms = *ms;
            }
            Effect::Limits { scope, limits } => self.take_limits(*scope, *limits),
            Effect::Pause { group, until } => self.take_pause(group, *until),
            Effect::GroupDue { group } => {
                let group = self.find_group(group);
                self.group_due(group.ok_or(ApplyError::Diverged("a group is not there"))?);
            }
            Effect::Schedule { definition } => {
                self.kinds.scheduled = true;
                self.take_schedule(definition);
            }
            Effect::Unschedule { name } => {
                let place = self.find_schedule(name);
                self.drop_schedule(place.ok_or(NO_SCHEDULE)?);
            }
            Effect::Run {
                name,
                outcome,
                next,
            } => {
                let place = self.find_schedule(name).ok_or(NO_SCHEDULE)?;
                self.take_run(place, *outcome, *next)?;
            }
            Effect::Forget { key } => {
                let slot = self.letter(key)?;
                self.drop_letter(slot);
            }
            Effect::Remove { key, is_letter } => {
                let slot = if *is_letter {
                    self.letter(key)?
                } else {
                    self.live(key)?
                };
                self.remove_one(slot, *is_letter);
            }
            Effect::Keep { key, until, value } => {
                if !self.may_have_result(key) {
                    return Err(ApplyError::Diverged(
                        "a result is of a message that is not finished",
                    ));
                }
                self.keep_until(*key, value, *until);
            }
            Effect::LetGo { key } => {
                if !self.remove_result(key) {
                    return Err(ApplyError::Diverged("a result is not there"));
                }
            }
            Effect::Redrive { key } => {
                let slot = self.letter(key)?;
                if self.live(key).is_ok() {
                    return Err(ApplyError::Diverged(
                        "the id of a redriven dead letter is taken",
                    ));
                }
                self.send_again(slot);
            }
            Effect::Revive { key } => {
                let slot = self.letter(key)?;
                let State::Dead {
                    token: Some(token), ..
                } = self.messages.get(slot).state()
                else {
                    return Err(ApplyError::Diverged("a revived dead letter has no token"));
                };
                if self.live(key).is_ok() {
                    return Err(ApplyError::Diverged(
                        "the id of a revived dead letter is taken",
                    ));
                }
                self.revive(slot, token);
            }
        }
        Ok(())
    }

    fn live(&self, key: &Key<'_>) -> Result<u32, ApplyError> {
        self.find_live(key)
            .ok_or(ApplyError::Diverged("a changed message is not there"))
    }

    fn letter(&self, key: &Key<'_>) -> Result<u32, ApplyError> {
        self.find_letter(key)
            .ok_or(ApplyError::Diverged("a changed dead letter is not there"))
    }
}
