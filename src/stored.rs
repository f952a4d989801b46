//! What a queue's key holds: the queue, at work or at rest, and what the module needs beside it.

use redis_mq_core::{Queue, Relocate, Resting, Span, Timestamp};

use crate::clock::Moment;
use crate::config;
use crate::error::Error;
use crate::info::Share;
use crate::redis::Ctx;
use crate::rest;
use crate::scratch;
use crate::waiting;
use crate::wake;

/// How long runs of schedules wait where the server has no memory left.
const RUNS_RETRY: Span = Span::from_millis(100);

/// The value of a queue's key.
pub struct StoredQueue {
    body: Body,
    /// A step has begun and not ended. If one is met so, it was given up half way: the queue may
    /// contradict itself and its replicas, so nobody gets anything of it any more.
    in_step: bool,
    /// When the module looks at the queue by itself.
    pub look: wake::Handle,
    /// What it has added to `INFO mq`.
    share: Share,
    /// Whether it came to its place by another way than its own deliveries, and has delivered nothing
    /// since: an older queue may have been there whose tokens must not be given again.
    pub is_new_here: bool,
    /// Whether it is to be laid to rest.
    pub rest: rest::Note,
    /// Who waits here for messages to end.
    pub waits: waiting::Mark,
    /// Until when runs of schedules wait for memory, in steady time.
    runs_wait_until: Timestamp,
}

enum Body {
    Working(Box<Queue>),
    Resting(Box<Resting>),
}

impl StoredQueue {
    /// An empty queue that is about to get something.
    pub fn new() -> StoredQueue {
        let queue = Queue::new(scratch::random());
        let share = Share::of(&queue);
        StoredQueue::with(Body::Working(Box::new(queue)), share)
    }

    /// A queue that was read or copied. An empty one rests at once.
    pub fn around(queue: Queue) -> StoredQueue {
        let share = Share::of(&queue);
        let body = match queue.rest() {
            Some(resting) => Body::Resting(Box::new(resting)),
            None => Body::Working(Box::new(queue)),
        };
        StoredQueue::with(body, share)
    }

    fn with(body: Body, share: Share) -> StoredQueue {
        StoredQueue {
            body,
            in_step: false,
            look: wake::Handle::default(),
            share,
            is_new_here: true,
            rest: rest::Note::default(),
            waits: waiting::Mark::default(),
            runs_wait_until: Timestamp::ZERO,
        }
    }

    /// The queue, for a step that changes it. Until [`StoredQueue::end_step`] nothing else is possible.
    ///
    /// # Errors
    /// If an earlier step was given up half way.
    #[inline]
    pub fn begin_step(&mut self) -> Result<&mut Queue, Error> {
        if self.in_step {
            return Err(Error::OutOfService);
        }
        self.in_step = true;
        if let Body::Resting(resting) = &self.body {
            self.body = Body::Working(Box::new(resting.wake()));
        }
        let is_waited_at = self.waits.is_set();
        match &mut self.body {
            Body::Working(queue) => {
                if is_waited_at {
                    queue.watch_ends();
                }
                Ok(queue)
            }
            Body::Resting(_) => Err(Error::OutOfService), // it was woken just now
        }
    }

    /// The step has come to its end.
    #[inline]
    pub fn end_step(&mut self) {
        self.in_step = false;
    }

    /// Tells those who wait for messages that have ended in the step.
    #[inline]
    pub fn answer_waiters(&mut self, ctx: &Ctx, now: Moment) {
        if self.waits.is_set() {
            if let Body::Working(queue) = &mut self.body {
                waiting::answer(ctx, &self.waits, now.of(queue), queue);
            }
        }
    }

    /// Shows the queue to `show`.
    ///
    /// # Errors
    /// If a step was given up half way.
    #[inline]
    pub fn show<R>(&self, show: impl FnOnce(&Queue) -> R) -> Result<R, Error> {
        if self.in_step {
            return Err(Error::OutOfService);
        }
        Ok(match &self.body {
            Body::Working(queue) => show(queue),
            Body::Resting(resting) => show(&resting.wake()),
        })
    }

    /// The queue, unless it is at rest: then it is empty and nothing falls due.
    #[inline]
    pub fn working(&self) -> Option<&Queue> {
        match &self.body {
            Body::Working(queue) => Some(queue),
            Body::Resting(_) => None,
        }
    }

    /// See [`Queue::ready_len`].
    #[inline]
    pub fn ready_len(&self) -> usize {
        self.working().map_or(0, Queue::ready_len)
    }

    /// When a look has something to do, in steady time: see [`Queue::next_due_by_server`]. At once if there
    /// are more dead letters than are kept, and when the queue goes by itself.
    #[inline]
    pub fn next_due(&self, now: Moment) -> Option<Timestamp> {
        let queue = match &self.body {
            Body::Working(queue) if !queue.is_empty() => queue,
            _ => return self.next_due_of_empty(now),
        };
        if queue.has_letters_to_forget(config::max_dead()) {
            return Some(Timestamp::ZERO);
        }
        let due = queue.next_due_by_server(now.steady());
        match self.next_run(now) {
            None => due,
            Some(run) => Some(due.map_or(run, |due| due.min(run))),
        }
    }

    /// When the next run of a schedule is due and may begin, in steady time.
    #[inline]
    pub fn next_run(&self, now: Moment) -> Option<Timestamp> {
        let run = self.working()?.next_run()?;
        Some(now.when_clock_shows(run).max(self.runs_wait_until))
    }

    /// There is no memory for runs of schedules that are due: they are tried again after a pause.
    pub fn let_runs_wait(&mut self, now: Moment) {
        self.runs_wait_until = now.steady().instant().after(RUNS_RETRY);
    }

    fn next_due_of_empty(&self, now: Moment) -> Option<Timestamp> {
        let queue = self.working();
        let due = queue.and_then(|queue| queue.next_due_by_server(now.steady()));
        let all = [due, self.next_run(now), self.idle_at()];
        all.into_iter().flatten().min()
    }

    /// When the queue goes by itself, in steady time; none if it stays.
    pub fn idle_at(&self) -> Option<Timestamp> {
        let idle = Span::from_millis(config::idle_ms());
        match &self.body {
            _ if self.in_step => None,
            Body::Working(queue) => queue.idle_at(idle),
            Body::Resting(resting) => resting.idle_at(idle),
        }
    }

    /// Lets `INFO mq` know what the queue holds now.
    #[inline]
    pub fn follow(&mut self) {
        if let Body::Working(queue) = &self.body {
            self.share.follow(queue);
        }
    }

    /// Lays the queue to rest if there is nothing to do.
    pub fn lay_to_rest(&mut self) {
        let resting = match &self.body {
            Body::Working(queue) if !self.in_step => queue.rest(),
            _ => None,
        };
        if let Some(resting) = resting {
            self.body = Body::Resting(Box::new(resting));
            // All that there can be to look at now is when it goes.
            if self.idle_at().is_none() {
                self.look = wake::Handle::default();
            }
        }
    }

    /// Writes the queue in chunks: see [`Queue::snapshot`].
    pub fn snapshot(&self, sink: impl FnMut(&[u8])) {
        match &self.body {
            Body::Working(queue) => queue.snapshot(sink),
            Body::Resting(resting) => resting.snapshot(sink),
        }
    }

    /// Writes what must be the same on replicas: see [`Queue::digest`].
    pub fn digest(&self, sink: impl FnMut(&[u8])) {
        match &self.body {
            Body::Working(queue) => queue.digest(sink),
            Body::Resting(resting) => resting.wake().digest(sink),
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        let body = match &self.body {
            Body::Working(queue) => queue.bytes(),
            Body::Resting(resting) => resting.bytes(),
        };
        size_of::<Self>() + self.look.bytes() + body
    }

    /// Lets `mover` move the memory: see [`Queue::relocate`].
    pub fn relocate(&mut self, cursor: u64, mover: &mut impl Relocate) -> Option<u64> {
        match &mut self.body {
            Body::Working(queue) => queue.relocate(cursor, mover),
            Body::Resting(resting) => {
                resting.relocate(mover);
                mover.value(resting);
                None
            }
        }
    }
}

impl Default for StoredQueue {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    use redis_mq_core::{Enqueue, Log, Now, Settings, Turn};

    use super::*;

    fn with_a_message(stored: &mut StoredQueue) {
        let (settings, mut log) = (Settings::default(), Log::default());
        let mut turn = Turn::new(Now::from_micros(1), 1, &settings, &mut log);
        stored
            .begin_step()
            .unwrap()
            .enqueue(&mut turn, &Enqueue::new(b"p").id(b"a"));
        stored.end_step();
    }

    #[test]
    fn a_queue_with_a_message_is_not_laid_to_rest_and_an_empty_one_is() {
        let mut stored = StoredQueue::new();
        stored.lay_to_rest();
        assert!(stored.working().is_none());
        assert_eq!(stored.show(Queue::len), Ok(0));
        with_a_message(&mut stored);
        stored.lay_to_rest();
        assert_eq!(stored.working().map(Queue::len), Some(1));
    }

    #[test]
    fn a_step_that_was_given_up_takes_the_queue_out_of_service() {
        let mut stored = StoredQueue::new();
        with_a_message(&mut stored);
        let step = catch_unwind(AssertUnwindSafe(|| {
            stored.begin_step().unwrap();
            panic!("expected by the test");
        }));
        assert!(step.is_err());
        assert_eq!(stored.show(Queue::len), Err(Error::OutOfService));
        assert!(matches!(stored.begin_step(), Err(Error::OutOfService)));
        stored.lay_to_rest();
        assert!(stored.working().is_some());
    }
}
