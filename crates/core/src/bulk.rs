//! MQ.MENQUEUE and MQ.MDONE: many messages in one turn.

use std::collections::HashSet;

use crate::control::Full;
use crate::done::{Ended, Stale, Verdict};
use crate::effects::{Content, Effect, Extras};
use crate::enqueue::{Enqueue, Enqueued, Outcome};
use crate::id::{IdText, Key};
use crate::message::State;
use crate::queue::Queue;
use crate::turn::Turn;
use crate::types::Token;

/// A message that is ready when all messages of a batch have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowUp<'a> {
    /// The id; the queue makes one if there is none.
    pub id: Option<&'a [u8]>,
    /// What the consumer gets.
    pub payload: &'a [u8],
    /// What the consumer gets beside, at most [`MAX_HEADER_BYTES`](crate::MAX_HEADER_BYTES).
    pub headers: &'a [u8],
}

/// Why nothing of a batch was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRefused {
    /// A limit does not let in all of it.
    Full(Full),
    /// No follow-up waits under the id that its messages should join.
    NothingWaits,
}

/// What the effect of a plain message takes beside its payload.
const EFFECT_BYTES: usize = 40;

/// 2^64 divided by the golden ratio: multiples of it lie evenly among all random numbers.
const GOLDEN_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Queue {
    /// Adds messages with these ids and payloads and the options of `template`, in their order, as
    /// [`Queue::enqueue`] would one after the other; `enqueued` gets what became of each. An id that is
    /// taken refuses its own message only. Time does no more than its share of one turn.
    ///
    /// With a follow-up the messages that are added make a batch; `enqueued` gets what became of the
    /// follow-up last. It has the lock, the attempts and the priority of `template`. If its id is taken,
    /// there is no batch.
    ///
    /// # Errors
    /// If a limit does not let in all of those whose ids are free, or nothing waits that they should
    /// join: nothing was added.
    pub fn enqueue_many<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        template: &Enqueue<'a>,
        messages: impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone,
        follow_up: Option<&FollowUp<'a>>,
        mut enqueued: impl FnMut(Enqueued<'a>),
    ) -> Result<(), BatchRefused> {
        turn.spell_out();
        self.let_time_act(turn);
        let joined = match template.join {
            None => 0,
            Some(id) => {
                let batch = self.batch_of(turn, id);
                batch.ok_or(BatchRefused::NothingWaits)?
            }
        };
        // Time has nothing left to do at this moment that could take the room away again, or no budget.
        if !self.is_plain() {
            self.find_room(turn, template, messages.clone(), follow_up)
                .map_err(BatchRefused::Full)?;
        }
        let payloads = messages
            .clone()
            .map(|(_, payload)| payload.len() + EFFECT_BYTES);
        turn.expect_effects(payloads.sum());
        let follow_up =
            follow_up.map(|follow_up| self.enqueue_follow_up(turn, template, follow_up));
        let batch = follow_up.as_ref().map_or(joined, |(_, batch)| *batch);
        for (id, payload) in messages {
            let request = Enqueue {
                id,
                payload,
                ..*template
            };
            enqueued(self.enqueue_with(turn, &request, true, batch));
        }
        if let Some((reply, batch)) = follow_up {
            self.close_batch(batch);
            enqueued(reply);
        }
        Ok(())
    }

    /// Adds a follow-up that waits. Returns what became of it, and the number of its batch, 0 if its id is
    /// taken.
    #[cold]
    fn enqueue_follow_up<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        template: &Enqueue<'_>,
        follow_up: &FollowUp<'a>,
    ) -> (Enqueued<'a>, u32) {
        let named = follow_up.id.map(Key::of);
        let live = named.and_then(|key| self.find_by_now(turn, &key));
        let status = live.and_then(|slot| self.status_of(slot, turn.now.instant()));
        if let (Some(key), Some(status)) = (named, status) {
            let (outcome, id) = (Outcome::Refused(status), IdText::new(key));
            return (Enqueued { outcome, id }, 0);
        }
        self.enter_frame(turn);
        let key = named.unwrap_or_else(|| self.make_id());
        let batch = self.free_batch();
        let content = Content {
            payload: follow_up.payload,
            limits: template.limits(),
            priority: template.priority,
            enqueued: self.frame.instant(),
            extras: Extras {
                headers: follow_up.headers,
                batch,
                ..Extras::default()
            },
        };
        self.emit(turn, &Effect::FollowUp { key, content });
        self.add(key, &content, State::Waiting);
        let (outcome, id) = (Outcome::Added, IdText::new(key));
        (Enqueued { outcome, id }, batch)
    }

    /// Whether limits leave room for all that a batch adds. Of what it takes in memory only the bytes
    /// that it brings are known before, and the last message may pass the limit as any may.
    #[cold]
    fn find_room<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        template: &Enqueue<'a>,
        messages: impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])>,
        follow_up: Option<&FollowUp<'a>>,
    ) -> Result<(), Full> {
        let group = template.group.unwrap_or_default();
        let (mut added, mut joined) = (0, 0);
        let (mut before_last, mut last) = (0, 0);
        let mut met = HashSet::new();
        if let Some(FollowUp {
            id,
            payload,
            headers,
        }) = follow_up
        {
            let taken = id.and_then(|id| self.find_by_now(turn, &Key::of(id)));
            if taken.is_none() {
                added += 1;
                last = id.map_or(0, <[u8]>::len) + payload.len() + headers.len();
                met.extend(*id);
            }
        }
        for (id, payload) in messages {
            if id.is_some_and(|id| !met.insert(id)) {
                // It meets the message that the batch has added or updated, of the same group.
                continue;
            }
            match id.and_then(|id| self.find_by_now(turn, &Key::of(id))) {
                None => {
                    (added, joined) = (added + 1, joined + 1);
                    before_last += last;
                    last = id.map_or(0, <[u8]>::len) + payload.len() + template.headers.len();
                }
                Some(slot) => {
                    let message = self.messages.get(slot);
                    let waits =
                        matches!(message.state(), State::Ready { .. } | State::Delayed { .. });
                    let moves = template.update && waits && self.group_name(message) != group;
                    joined += u64::from(moves);
                }
            }
        }
        match self.full_by(group, added, joined, before_last as u64) {
            None => Ok(()),
            Some(full) => {
                self.count_refused(added.max(joined));
                Err(full)
            }
        }
    }

    /// Ends each of these deliveries with the same verdict, as [`Queue::done`] would one after the
    /// other; `ended` gets what became of each, in their order. Time does no more than its share of one
    /// turn. Each message draws its own exponential backoff.
    pub fn done_many<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        deliveries: impl Iterator<Item = (&'a [u8], Token)>,
        verdict: Verdict<'_>,
        mut ended: impl FnMut(Result<Option<Ended>, Stale>),
    ) {
        turn.spell_out();
        for (id, token) in deliveries {
            ended(self.done(turn, id, token, verdict));
            turn.random = turn.random.wrapping_add(GOLDEN_STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LimitChanges, Loader, Log, Now, Outcome, Scope, Settings};

    const NOW: u64 = 1_700_000_000_000_000;

    fn step<R>(queue: &mut Queue, run: impl FnOnce(&mut Queue, &mut Turn<'_>) -> R) -> R {
        let (settings, mut log) = (Settings::default(), Log::default());
        let result = run(
            queue,
            &mut Turn::new(Now::from_micros(NOW), 1, &settings, &mut log),
        );
        queue.check().unwrap();
        result
    }

    fn reloaded(queue: &Queue) -> Queue {
        let mut loader = Loader::new(2);
        queue.snapshot(|chunk| loader.feed(chunk).unwrap());
        loader.finish().unwrap()
    }

    /// A queue with `a` ready, `b` locked, and `c` ready in a group.
    fn queue(length: u64, of_groups: u64) -> Queue {
        let mut queue = Queue::new(1);
        step(&mut queue, |queue, turn| {
            queue.enqueue(turn, &Enqueue::new(b"p").id(b"b"));
            assert_eq!(queue.dequeue(turn, 1, None, |_| {}), 1);
            queue.enqueue(turn, &Enqueue::new(b"p").id(b"a"));
            let mut grouped = Enqueue::new(b"p").id(b"c");
            grouped.group = Some(b"g");
            queue.enqueue(turn, &grouped);
            for (scope, length) in [(Scope::Queue, length), (Scope::Groups, of_groups)] {
                let changes = LimitChanges {
                    length: Some(Some(length)),
                    ..LimitChanges::default()
                };
                queue.set_limits(turn, scope, &changes).unwrap();
            }
        });
        queue
    }

    #[test]
    fn a_batch_is_full_exactly_if_one_of_its_messages_alone_would_be() {
        let names: [Option<&[u8]>; 5] = [None, Some(b"a"), Some(b"b"), Some(b"c"), Some(b"d")];
        for case in 0..5 * 5 * 5 * 16 {
            let ids = [case % 5, case / 5 % 5, case / 25 % 5].map(|at| names[at]);
            let flags = case / 125;
            let mut template = Enqueue::new(b"");
            template.group = (flags & 1 != 0).then_some(b"g");
            (template.update, template.requeue) = (flags & 2 != 0, flags & 4 != 0);
            let mut queue = match flags & 8 {
                0 => queue(5, 3),
                _ => queue(100, 2),
            };
            let mut alone = reloaded(&queue);
            let one_by_one = ids.map(|id| {
                let request = Enqueue {
                    id,
                    payload: b"q",
                    ..template
                };
                step(&mut alone, |queue, turn| {
                    queue.enqueue(turn, &request).outcome
                })
            });
            let fits = !(one_by_one.iter()).any(|outcome| matches!(outcome, Outcome::Full(_)));
            let (before, mut outcomes) = (queue.len(), Vec::new());
            let added = step(&mut queue, |queue, turn| {
                let messages = ids.iter().map(|id| (*id, &b"q"[..]));
                queue.enqueue_many(turn, &template, messages, None, |one| {
                    outcomes.push(one.outcome);
                })
            });
            assert_eq!(added.is_ok(), fits, "{ids:?} {template:?}");
            if fits {
                assert_eq!(outcomes, one_by_one);
            } else {
                assert!(outcomes.is_empty() && queue.len() == before);
            }
        }
    }
}
