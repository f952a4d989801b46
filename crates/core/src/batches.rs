//! Batches: a follow-up that waits until all messages of a batch have ended, however each did.
//!
//! The truth is in the messages: each member names its batch, by a number, until it ends. A batch counts
//! its members that are open, and knows its follow-up; so whatever a member ends by, it counts once, and
//! a letter that is sent again is no member any more. The follow-up names the batch for as long as it is
//! there, since its deliveries tell how the batch ended.

use std::collections::BTreeMap;

use crate::codec::{put_number, Damaged, Reader};
use crate::id::Key;
use crate::link::List;
use crate::message::State;
use crate::queue::Queue;
use crate::slab::NIL;
use crate::turn::Turn;
use crate::types::Timestamp;

/// How the messages of a batch have ended, as its follow-up is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchResult {
    /// How many have ended: done, dead, cancelled or expired.
    pub ended: u64,
    /// How many of them as dead letters.
    pub dead: u64,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    /// Members that have not ended.
    open: u32,
    result: BatchResult,
    /// The slot of the follow-up; none if that was removed.
    follow_up: u32,
}

/// The batches of a queue that has any.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    all: BTreeMap<u32, Batch>,
    /// Follow-ups that still wait, in the order in which they came.
    pub waiting: List,
}

/// About what an entry of the tree takes, with its share of the nodes.
const ENTRY_BYTES: usize = 64;

impl Batches {
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.all.len() * ENTRY_BYTES
    }

    /// A number that no batch has.
    fn free_number(&self) -> Option<u32> {
        let last = self.all.last_key_value().map_or(0, |(number, _)| *number);
        let behind = last.checked_add(1);
        behind.or_else(|| (1..u32::MAX).find(|number| !self.all.contains_key(number)))
    }
}

impl Queue {
    /// A number for a new batch.
    pub(crate) fn free_batch(&self) -> u32 {
        let batches = self.batches.as_ref();
        // There are fewer batches than messages, and fewer of those than numbers.
        batches
            .map_or(Some(1), |all| all.free_number())
            .unwrap_or(1)
    }

    /// Whether there is a batch of that number.
    pub(crate) fn has_batch(&self, number: u32) -> bool {
        let batches = self.batches.as_ref();
        batches.is_some_and(|batches| batches.all.contains_key(&number))
    }

    /// Whether there is a batch of that number that has no follow-up.
    pub(crate) fn may_follow_batch(&self, number: u32) -> bool {
        self.batch(number)
            .is_some_and(|batch| batch.follow_up == NIL)
    }

    /// The batch whose follow-up waits under this id.
    pub(crate) fn batch_of(&mut self, turn: &mut Turn<'_>, id: &[u8]) -> Option<u32> {
        let slot = self.find_by_now(turn, &Key::of(id))?;
        let message = self.messages.get(slot);
        (message.state() == State::Waiting).then(|| message.batch())?
    }

    /// How the batch has ended whose follow-up the message is.
    pub(crate) fn batch_result(&self, slot: u32) -> Option<BatchResult> {
        let batch = self.batch(self.messages.get(slot).batch()?)?;
        (batch.follow_up == slot).then_some(batch.result)
    }

    /// Whether the end of this message may be what a follow-up waits for.
    pub(crate) fn is_waited_for(&self, slot: u32) -> bool {
        let number = self.messages.get(slot).batch();
        let batch = number.and_then(|number| self.batch(number));
        batch.is_some_and(|batch| batch.follow_up != slot && batch.follow_up != NIL)
    }

    /// Whether the message names a batch that it is the follow-up of.
    pub(crate) fn is_follow_up(&self, slot: u32) -> bool {
        self.batch_result(slot).is_some()
    }

    fn batch(&self, number: u32) -> Option<&Batch> {
        self.batches.as_ref()?.all.get(&number)
    }

    /// Counts a new message that names a batch, or makes it the batch's follow-up.
    #[cold]
    pub(crate) fn enter_batch(&mut self, slot: u32, number: u32, follows: bool) {
        let batches = self.batches.get_or_insert_default();
        let batch = batches.all.entry(number).or_insert(Batch {
            open: 0,
            result: BatchResult::default(),
            follow_up: NIL,
        });
        if follows {
            batch.follow_up = slot;
        } else {
            batch.open += 1;
        }
    }

    /// A message ends at `at`. If it was the last that a follow-up has waited for, that is ready.
    #[inline]
    pub(crate) fn leave_batch(&mut self, slot: u32, dead: bool, at: Timestamp) {
        if self.batches.is_some() && self.member_ends(slot, dead, at) {
            self.change_body(slot, |message| message.set_batch(None));
        }
    }

    /// A message in no list goes.
    #[cold]
    pub(crate) fn leave_batch_for_good(&mut self, slot: u32) {
        if !self.member_ends(slot, false, self.frame.instant()) {
            self.forget_follow_up(slot);
        }
    }

    /// A run of other content begins, or none: the message is no follow-up any more.
    #[inline]
    pub(crate) fn follow_no_more(&mut self, slot: u32) {
        if self.batches.is_some() && self.forget_follow_up(slot) {
            self.change_body(slot, |message| message.set_batch(None));
        }
    }

    /// False if the message is no member; else it must be told that it is none any more.
    fn member_ends(&mut self, slot: u32, dead: bool, at: Timestamp) -> bool {
        let (Some(number), Some(batches)) = (self.messages.get(slot).batch(), &mut self.batches)
        else {
            return false;
        };
        let Some(batch) = batches.all.get_mut(&number) else {
            return false;
        };
        if batch.follow_up == slot {
            return false;
        }
        batch.open = batch.open.saturating_sub(1);
        batch.result.ended = batch.result.ended.saturating_add(1);
        batch.result.dead = batch.result.dead.saturating_add(u64::from(dead));
        if batch.open == 0 {
            let follow_up = batch.follow_up;
            if follow_up == NIL {
                self.drop_batch(number);
            } else if self.messages.get(follow_up).state() == State::Waiting {
                self.follow(follow_up, at);
            }
        }
        true
    }

    /// False if the message is no follow-up.
    fn forget_follow_up(&mut self, slot: u32) -> bool {
        let (Some(number), Some(batches)) = (self.messages.get(slot).batch(), &mut self.batches)
        else {
            return false;
        };
        let batch = batches.all.get_mut(&number);
        let Some(batch) = batch.filter(|batch| batch.follow_up == slot) else {
            return false;
        };
        batch.follow_up = NIL;
        if batch.open == 0 {
            self.drop_batch(number);
        }
        true
    }

    fn drop_batch(&mut self, number: u32) {
        if let Some(batches) = &mut self.batches {
            batches.all.remove(&number);
            if batches.all.is_empty() {
                self.batches = None;
            }
        }
    }

    /// Makes a follow-up that waits ready.
    fn follow(&mut self, slot: u32, since: Timestamp) {
        self.unlink(slot);
        self.link(slot, State::Ready { since, token: None });
    }

    /// All messages of a new batch are there: its follow-up is ready if there are none. Whoever applies
    /// the effects of the step does the same at their end.
    pub(crate) fn close_batch(&mut self, number: u32) {
        if let Some(&Batch {
            open: 0, follow_up, ..
        }) = self.batch(number)
        {
            if follow_up != NIL && self.messages.get(follow_up).state() == State::Waiting {
                self.follow(follow_up, self.frame.instant());
            }
        }
    }

    /// Follow-ups that wait, in their order.
    pub(crate) fn waiting_list(&self) -> Option<&List> {
        self.batches.as_ref().map(|batches| &batches.waiting)
    }

    /// Writes how each batch has ended so far, by number, to `write`.
    pub(crate) fn for_each_batch(&self, mut write: impl FnMut(u32, BatchResult)) {
        let batches = self.batches.iter().flat_map(|batches| &batches.all);
        batches.for_each(|(number, batch)| write(*number, batch.result));
    }

    /// Reads what [`put_batch`] has written. Its messages follow.
    pub(crate) fn read_batch(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let number = read_batch_number(reader)?;
        let (ended, dead) = (reader.number()?, reader.number()?);
        if dead > ended {
            return Err(Damaged("a batch of which more are dead than have ended"));
        }
        let batch = Batch {
            open: 0,
            result: BatchResult { ended, dead },
            follow_up: NIL,
        };
        let batches = self.batches.get_or_insert_default();
        let last = batches.all.last_key_value().map_or(0, |(last, _)| *last);
        if number <= last {
            return Err(Damaged("batches that are not in their order"));
        }
        batches.all.insert(number, batch);
        Ok(())
    }

    /// Whether members of the batch are open.
    pub(crate) fn has_open_members(&self, number: u32) -> bool {
        self.batch(number).is_some_and(|batch| batch.open != 0)
    }

    /// Whether each batch that was read has a message.
    pub(crate) fn are_batches_met(&self) -> bool {
        let mut batches = self.batches.iter().flat_map(|batches| batches.all.values());
        batches.all(|batch| batch.open != 0 || batch.follow_up != NIL)
    }

    /// The batches are what their messages say.
    pub(crate) fn check_batches(&self, held: &[u32]) -> Result<Vec<u32>, String> {
        let Some(batches) = &self.batches else {
            let named = held
                .iter()
                .find(|slot| self.messages.get(**slot).batch().is_some());
            return named.map_or(Ok(Vec::new()), |slot| Err(format!("{slot} has no batch")));
        };
        let mut open: BTreeMap<u32, u32> = BTreeMap::new();
        for slot in held {
            let message = self.messages.get(*slot);
            let follows = self.is_follow_up(*slot);
            match (message.batch(), message.state()) {
                (None, State::Waiting) => return Err(format!("{slot} waits for no batch")),
                (None, _) => {}
                (Some(_), _) if follows => {}
                (
                    Some(number),
                    State::Ready { .. } | State::Delayed { .. } | State::Locked { .. },
                ) => {
                    *open.entry(number).or_default() += 1;
                }
                (Some(_), _) => return Err(format!("{slot} has ended and is a member")),
            }
        }
        for (number, batch) in &batches.all {
            if open.remove(number).unwrap_or_default() != batch.open {
                return Err(format!("batch {number} has not {} members", batch.open));
            }
            let follow_up = Some(batch.follow_up).filter(|slot| *slot != NIL);
            let is_waiting = |slot| self.messages.get(slot).state() == State::Waiting;
            if batch.open == 0 && follow_up.is_some_and(is_waiting) {
                return Err(format!("the follow-up of batch {number} waits for nothing"));
            }
            if batch.follow_up != NIL && held.binary_search(&batch.follow_up).is_err() {
                return Err(format!("the follow-up of batch {number} is not there"));
            }
        }
        if batches.all.is_empty() || !open.is_empty() {
            return Err(format!("batches that are not there: {open:?}"));
        }
        let waiting = batches.waiting.check(&self.messages, held.len())?;
        match waiting
            .iter()
            .find(|slot| self.messages.get(**slot).state() != State::Waiting)
        {
            Some(slot) => Err(format!("{slot} is among those that wait for a batch")),
            None => Ok(waiting),
        }
    }
}

/// Writes a batch.
pub(crate) fn put_batch(out: &mut Vec<u8>, number: u32, result: BatchResult) {
    for number in [u64::from(number), result.ended, result.dead] {
        put_number(out, number);
    }
}

/// The number of a batch, as the value of a field or in front of what is told of it.
pub(crate) fn read_batch_number(reader: &mut Reader<'_>) -> Result<u32, Damaged> {
    match reader.number_to(u64::from(u32::MAX))? {
        0 => Err(Damaged("a batch without a number")),
        number => Ok(number as u32),
    }
}
