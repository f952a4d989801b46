//! MQ.DEQUEUE: handing the next ready messages over, each locked for its consumer.

use crate::apply::ApplyError;
use crate::batches::BatchResult;
use crate::effects::Effect;
use crate::eoq::Eoq;
use crate::id::IdText;
use crate::message::State;
use crate::queue::{count, Queue};
use crate::turn::Turn;
use crate::types::{Span, Timestamp, Token};

/// One hand-over of a message to a consumer.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The message's id.
    pub id: IdText<'a>,
    /// What the producer sent.
    pub payload: &'a [u8],
    /// How often this message was handed over, this time included.
    pub attempt: u32,
    /// Names this delivery in the verdict.
    pub token: Token,
    /// How long nobody else gets the message.
    pub lock: Span,
    /// When the message was enqueued.
    pub enqueued_at: Timestamp,
    /// What the producer sent beside the payload; empty for nothing.
    pub headers: &'a [u8],
    /// The group of the message; empty for none.
    pub group: &'a [u8],
    /// How the batch has ended that the message follows.
    pub batch: Option<BatchResult>,
    /// The instant that its schedule meant, by the server's clock; zero for a message of no schedule.
    pub scheduled_at: Timestamp,
    /// How many deliveries of the same call come after this one.
    pub left: usize,
}

/// How many shares of work for what time does a dequeue takes that finds nothing ready.
const SHARES: usize = 8;

impl Queue {
    /// How many messages a dequeue of `count` hands over at most, once time has acted: zero only if it
    /// hands over none. Fewer are handed over only where messages have groups;
    /// [`Delivery::left`] tells how many.
    #[inline]
    pub fn deliverable(&mut self, turn: &mut Turn<'_>, count: usize) -> usize {
        let now = turn.now.instant();
        self.let_time_act(turn);
        let mut most = count;
        if self.has_due_timers(now) {
            // Some that are ready may have expired, so one by one.
            self.expire_next(turn);
            most = most.min(1);
        }
        // A turn's share of what is due may have been spent on what makes nobody ready.
        let mut shares = SHARES;
        while shares > 0
            && self.ready_len() == 0
            && !self.is_paused()
            && self.tokens_left() != 0
            && self.has_due(now)
        {
            shares -= 1;
            turn.renew_budget();
            self.let_time_act(turn);
            self.expire_next(turn);
        }
        most.min(self.ready_len())
    }

    /// Hands over the next `count` ready messages, or as many as may go; `deliver` gets each.
    /// `lock` is the consumer's lock time, the setting's if it has none; a message's own wins.
    /// Returns how many were handed over.
    pub fn dequeue(
        &mut self,
        turn: &mut Turn<'_>,
        count: usize,
        lock: Option<Span>,
        mut deliver: impl FnMut(&Delivery<'_>),
    ) -> usize {
        let count = self.deliverable(turn, count);
        if count == 0 {
            return 0;
        }
        self.enter_frame(turn);
        self.eoq = Eoq::default();
        if !self.is_plain() {
            return self.dequeue_in_turns(turn, count, lock, deliver);
        }
        if self.has_due_timers(turn.now.instant()) {
            // A replica could not tell who has expired.
            turn.spell_out();
        }
        let verbatim = self.emit_verbatim(turn);
        for left in (0..count).rev() {
            let Some(slot) = self.next_ready() else { break };
            let (lock, token) = self.deliver(slot, lock);
            if !verbatim {
                let key = self.messages.get(slot).key();
                self.emit(turn, &Effect::Deliver { key, lock, token });
            }
            deliver(&self.delivery(slot, lock, token, left));
        }
        count
    }

    /// The same where groups take turns or limits hold: who may go depends on who went before, so
    /// all are locked before the first is told of.
    #[cold]
    fn dequeue_in_turns(
        &mut self,
        turn: &mut Turn<'_>,
        count: usize,
        lock: Option<Span>,
        mut deliver: impl FnMut(&Delivery<'_>),
    ) -> usize {
        let mut taken = Vec::new();
        while taken.len() < count {
            let Some(slot) = self.next_ready() else { break };
            let (lock, token) = self.deliver(slot, lock);
            let key = self.messages.get(slot).key();
            self.emit(turn, &Effect::Deliver { key, lock, token });
            taken.push((slot, lock, token));
        }
        let count = taken.len();
        for (left, (slot, lock, token)) in (0..count).rev().zip(taken) {
            deliver(&self.delivery(slot, lock, token, left));
        }
        count
    }

    /// In line: each delivery would be copied once more.
    #[inline(always)]
    fn delivery(&self, slot: u32, lock: Span, token: Token, left: usize) -> Delivery<'_> {
        let message = self.messages.get(slot);
        Delivery {
            id: message.id(),
            payload: message.payload(),
            attempt: message.attempts,
            token,
            lock,
            enqueued_at: message.enqueued(),
            headers: message.headers(),
            group: self.group_name(message),
            batch: match &self.batches {
                Some(_) => self.batch_result(slot),
                None => None,
            },
            scheduled_at: message.scheduled(),
            left,
        }
    }

    #[inline(always)]
    fn deliver(&mut self, slot: u32, lock: Option<Span>) -> (Span, Token) {
        let own = self.messages.get(slot).limits().lock;
        let lock = if own == Span::ZERO {
            lock.unwrap_or(self.frame.lock)
        } else {
            own
        };
        let token = self.next_token();
        self.hand_over(slot, lock, token);
        (lock, token)
    }

    /// Locks a ready message for the delivery named `token`.
    #[inline]
    pub(crate) fn hand_over(&mut self, slot: u32, lock: Span, token: Token) {
        let state = self.unlink(slot);
        self.pause_timer(slot);
        let message = self.messages.get_mut(slot);
        message.attempts = message.attempts.saturating_add(1);
        let is_first = message.attempts == 1;
        self.measure_wait(state, is_first);
        self.last_token = self.last_token.max(token.value());
        count(&mut self.totals.delivered);
        self.link(
            slot,
            State::Locked {
                until: self.frame.instant().after(lock),
                token,
            },
        );
        if !self.is_plain() {
            self.count_delivery(slot);
        }
    }

    /// Runs a consumer's command that the primary sent as it came.
    ///
    /// # Errors
    /// If nothing is ready here: this queue is no longer that of the primary.
    pub fn replay_dequeue(&mut self, count: usize, lock: Option<Span>) -> Result<(), ApplyError> {
        if self.counts.ready == 0 {
            return Err(ApplyError::Diverged("a delivered message is not ready"));
        }
        self.keep_up();
        for _ in 0..count.min(self.counts.ready).min(self.tokens_left()) {
            let Some(slot) = self.next_ready() else { break };
            self.deliver(slot, lock);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enqueue, Log, Now, Settings};

    #[test]
    fn a_queue_that_is_out_of_tokens_gives_none_twice() {
        let (settings, mut log) = (Settings::default(), Log::default());
        let (mut queue, mut replica) = (Queue::new(1), Queue::new(2));
        queue.last_token = Token::MAX.value() - 2;
        queue.snapshot(|chunk| replica.apply(chunk).unwrap());
        let now = Now::from_micros(1_700_000_000_000_000);
        for _ in 0..3 {
            let mut turn = Turn::new(now, 1, &settings, &mut log);
            turn.spell_out();
            queue.enqueue(&mut turn, &Enqueue::new(b""));
            if let crate::Replication::Effects(effects) = log.replication() {
                replica.apply(effects).unwrap();
            }
        }
        let mut tokens = Vec::new();
        let mut turn = Turn::new(now, 1, &settings, &mut log);
        queue.dequeue(&mut turn, 3, None, |delivery| tokens.push(delivery.token));
        assert_eq!(tokens, [Token::new(Token::MAX.value() - 1), Token::MAX]);
        assert_eq!(log.replication(), crate::Replication::Verbatim);
        replica.replay_dequeue(3, None).unwrap();
        assert_eq!(replica.last_token(), Token::MAX);
        assert_eq!((queue.ready_len(), replica.counts()), (0, queue.counts()));
        let mut turn = Turn::new(now, 1, &settings, &mut log);
        assert_eq!(queue.dequeue(&mut turn, 3, None, |_| {}), 0);
    }

    #[test]
    fn whatever_is_ready_is_handed_over_however_much_else_is_due() {
        const MANY: usize = 5000;
        let (settings, mut log) = (Settings::default(), Log::default());
        let mut queue = Queue::new(1);
        let start = 1_700_000_000_000_000;
        for _ in 0..MANY {
            let mut turn = Turn::new(Now::from_micros(start), 1, &settings, &mut log);
            queue.enqueue(&mut turn, &Enqueue::new(b""));
        }
        let mut turn = Turn::new(Now::from_micros(start), 2, &settings, &mut log);
        assert_eq!(
            queue.dequeue(&mut turn, MANY, Some(Span::from_millis(100)), |_| {}),
            MANY
        );
        let later = Now::from_micros(start + 200_000);
        let mut again = 0;
        while again < MANY {
            let mut turn = Turn::new(later, 3, &settings, &mut log);
            let got = queue.dequeue(&mut turn, MANY, None, |_| {});
            assert!(got > 0, "null although {} are ready", MANY - again);
            again += got;
        }
    }
}
