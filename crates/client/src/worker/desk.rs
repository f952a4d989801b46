//! The worker's desk: what has been taken, what is being handled, and what is to be sent.

use std::{
    collections::VecDeque,
    sync::{atomic::Ordering, Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use slab::Slab;
use tokio::{sync::Notify, time::Instant};

use super::{
    delivery::{Delivery, LostLock, ASK_EVERY},
    stop::StopReport,
};
use crate::{id::MessageId, outcome::Answer};

/// An answer on its way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) answer: Answer,
    /// The lock may have ended meanwhile.
    pub(crate) doubtful: bool,
}

/// What is to be sent: locks to extend, and answers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Post {
    pub(crate) extensions: Vec<Arc<Delivery>>,
    pub(crate) letters: Vec<Letter>,
}

impl Post {
    pub(crate) fn is_empty(&self) -> bool {
        self.extensions.is_empty() && self.letters.is_empty()
    }
}

/// What the heartbeat has seen.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The deliveries whose lock has ended.
    pub(crate) ended: Vec<Arc<Delivery>>,
    /// How many messages were given back since no slot began them.
    pub(crate) given_back: usize,
    /// When to look again; `None`: when there is something.
    pub(crate) next: Option<Instant>,
}

/// Shared by the tasks of one run of a worker. One lock guards it all and is never held while
/// anything waits.
#[derive(Debug)]
pub(crate) struct Desk {
    handlers: usize,
    /// With this many answers unsent, nothing new is taken.
    most_unsent: usize,
    state: Mutex<State>,
    /// Wakes a handler slot: something is ready.
    work: Notify,
    /// Wakes whoever takes messages: a slot is free.
    room: Notify,
    /// Wakes whoever sends: there is post.
    pub(crate) mail: Notify,
    /// Wakes the heartbeat: it has to look earlier than it planned.
    pub(crate) beat: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Taken, not begun.
    ready: VecDeque<Arc<Delivery>>,
    /// With a handler.
    running: Slab<Arc<Delivery>>,
    /// With nobody, but perhaps still being worked on; kept for the report.
    unfinished: Vec<Arc<Delivery>>,
    /// Those whose handlers were dropped, and that were given back; kept for the report.
    given_back: Vec<MessageId>,
    post: Post,
    /// What has been collected and is not settled. It is still here, so that whoever sends it may
    /// fail in any way, and the next one sends it.
    sending: Arc<Post>,
    /// How many of all these are doubtful.
    doubtful: usize,
    /// Answers cannot be sent at the moment.
    cut_off: bool,
    /// The number of free slots at which to wake whoever takes messages; 0 is not at all.
    room_at: usize,
    /// A slot has been woken and has not looked yet.
    waking: bool,
    closed: bool,
    /// Messages had to be given back since no slot began them; none has looked for one since.
    stalled: bool,
    /// When the heartbeat will look next.
    beat_at: Option<Instant>,
}

impl Desk {
    pub(crate) fn new(handlers: usize) -> Self {
        Self {
            handlers,
            most_unsent: handlers.saturating_mul(4).max(1_000),
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
            mail: Notify::new(),
            beat: Notify::new(),
        }
    }

    /// No code that may panic runs under the lock, so that a poisoned one is a good one.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Taking messages.

    /// Free slots. 0 also while too many answers wait to be sent, while one of them waits for so
    /// long that its message may be ready again (this very worker would take it once more), and
    /// while the handlers' runtime does not run.
    pub(crate) fn free(&self) -> usize {
        self.free_in(&self.state())
    }

    fn free_in(&self, state: &State) -> usize {
        let unsent = state.post.letters.len() + state.sending.letters.len();
        let waits = state.doubtful > 0 || (state.cut_off && unsent > 0);
        if unsent > self.most_unsent || waits || state.stalled {
            return 0;
        }
        self.handlers - (state.ready.len() + state.running.len()).min(self.handlers)
    }

    /// Waits until that many slots are free.
    pub(crate) async fn room_for(&self, slots: usize) {
        loop {
            {
                let mut state = self.state();
                if self.free_in(&state) >= slots {
                    state.room_at = 0;
                    return;
                }
                state.room_at = slots;
            }
            self.room.notified().await;
        }
    }

    fn tell_room(&self, state: &mut State) {
        if state.room_at > 0 && self.free_in(state) >= state.room_at {
            state.room_at = 0;
            self.room.notify_one();
        }
    }

    /// Puts deliveries before the handlers, or gives them back if nobody would begin them.
    pub(crate) fn admit(&self, deliveries: Vec<Arc<Delivery>>) {
        let mut state = self.state();
        if let Some(due) = deliveries.iter().map(|delivery| delivery.begin_by()).min() {
            self.look_by(&mut state, due);
        }
        state.ready.extend(deliveries);
        if state.closed || state.stalled {
            self.give_back(&mut state);
        }
        self.wake_slot(&mut state);
    }

    /// Gives back what was not begun. Each goes to the front of the queue, so that the last one
    /// goes first.
    fn give_back(&self, state: &mut State) {
        while let Some(delivery) = state.ready.pop_back() {
            if matches!(delivery.how_lost(), None | Some(LostLock::Unconfirmed)) {
                self.send(state, delivery, Answer::Release);
            }
        }
    }

    // Handling.

    /// Wakes one slot; it wakes the next one if there is more to do.
    fn wake_slot(&self, state: &mut State) {
        if !state.waking && !state.ready.is_empty() {
            state.waking = true;
            self.work.notify_one();
        }
    }

    /// The next delivery to handle, or `None` when the desk is closed.
    pub(crate) async fn next(self: &Arc<Self>) -> Option<Begun> {
        let mut woken = false;
        loop {
            // Listening before looking, so that no call falls in between.
            let called = self.work.notified();
            {
                let mut state = self.state();
                if woken {
                    state.waking = false;
                }
                if std::mem::take(&mut state.stalled) {
                    self.tell_room(&mut state);
                }
                while let Some(delivery) = state.ready.pop_front() {
                    match delivery.how_lost() {
                        None => {
                            self.look_by(&mut state, delivery.extend_at());
                            let key = state.running.insert(Arc::clone(&delivery));
                            self.wake_slot(&mut state);
                            drop(state);
                            let desk = Arc::clone(self);
                            return Some(Begun {
                                desk,
                                delivery,
                                key: Some(key),
                            });
                        }
                        // Perhaps still ours: nothing has happened to it, and nothing will here.
                        Some(LostLock::Unconfirmed) => {
                            self.send(&mut state, delivery, Answer::Release);
                        }
                        Some(_) => {}
                    }
                    self.tell_room(&mut state);
                }
                if state.closed {
                    return None;
                }
            }
            called.await;
            woken = true;
        }
    }

    /// The handler of `key` has ended, with an answer or without.
    fn end(&self, key: usize, answer: Option<Answer>) {
        let mut state = self.state();
        let Some(delivery) = state.running.try_remove(key) else {
            return;
        };
        delivery.ended.store(true, Ordering::Release);
        match (delivery.how_lost(), answer) {
            (None, Some(answer))
            | (Some(LostLock::Unconfirmed), Some(answer @ Answer::Success(_))) => {
                self.send(&mut state, delivery, answer);
            }
            (None | Some(LostLock::Unconfirmed), None) if delivery.is_held() => {
                state.unfinished.push(delivery);
            }
            (None | Some(LostLock::Unconfirmed), None) => {
                state.given_back.push(delivery.id.clone());
                self.send(&mut state, delivery, Answer::Release);
            }
            _ => {}
        }
        self.tell_room(&mut state);
    }

    /// Asks all handlers to end.
    pub(crate) fn cancel(&self) {
        for (_, delivery) in &self.state().running {
            delivery.stop();
        }
    }

    /// No delivery is begun any more; those that were not are given back.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        self.give_back(&mut state);
        drop(state);
        self.work.notify_waiters();
    }

    /// Gives up on everything that is still being handled.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        let abandoned: Vec<_> = state.running.drain().collect();
        for delivery in &abandoned {
            delivery.ended.store(true, Ordering::Release);
        }
        state.unfinished.extend(abandoned);
    }

    /// What is left in the end.
    pub(crate) fn left(&self) -> StopReport {
        let state = self.state();
        let id = |delivery: &Arc<Delivery>| delivery.id.clone();
        let letters = state.sending.letters.iter().chain(&state.post.letters);
        let unanswered: Vec<_> = letters.map(|letter| id(&letter.delivery)).collect();
        let given_back = state.given_back.iter();
        StopReport {
            given_back: given_back
                .filter(|id| !unanswered.contains(id))
                .cloned()
                .collect(),
            unfinished: state.unfinished.iter().map(id).collect(),
            unanswered,
        }
    }

    // Sending.

    fn send(&self, state: &mut State, delivery: Arc<Delivery>, answer: Answer) {
        delivery.ended.store(true, Ordering::Release);
        let doubtful = delivery.is_lost();
        state.doubtful += usize::from(doubtful);
        state.post.letters.push(Letter {
            delivery,
            answer,
            doubtful,
        });
        if state.post.letters.len() == 1 {
            self.mail.notify_one();
        }
    }

    /// Whether there is something to send.
    pub(crate) fn has_post(&self) -> bool {
        let state = self.state();
        !state.post.is_empty() || !state.sending.is_empty()
    }

    /// What is to be sent, at most so many answers: first what was collected before and is not
    /// [settled](Self::settle).
    pub(crate) fn collect(&self, most: usize) -> Arc<Post> {
        let mut state = self.state();
        let State { post, sending, .. } = &mut *state;
        let next = Arc::make_mut(sending);
        next.extensions.append(&mut post.extensions);
        // Handlers may have ended, and locks been lost, since these were asked for.
        next.extensions
            .retain(|delivery| !delivery.ended.load(Ordering::Acquire) && !delivery.is_lost());
        let count = most.saturating_sub(next.letters.len());
        if next.letters.is_empty() && post.letters.len() <= count {
            std::mem::swap(&mut next.letters, &mut post.letters);
        } else {
            let count = count.min(post.letters.len());
            next.letters.extend(post.letters.drain(..count));
        }
        Arc::clone(sending)
    }

    /// All that was collected is known to have arrived, or is given up, but for what is `unsure`.
    pub(crate) fn settle(&self, unsure: Post) {
        let mut state = self.state();
        let doubtful = |post: &Post| post.letters.iter().filter(|letter| letter.doubtful).count();
        let settled = std::mem::replace(&mut state.sending, Arc::new(unsure));
        state.doubtful -= doubtful(&settled) - doubtful(&state.sending);
        self.tell_room(&mut state);
    }

    /// Answers can be sent, or cannot.
    pub(crate) fn set_cut_off(&self, cut_off: bool) {
        let mut state = self.state();
        state.cut_off = cut_off;
        self.tell_room(&mut state);
    }

    /// Whether every answer is known to have arrived.
    pub(crate) fn is_clear(&self) -> bool {
        let state = self.state();
        state.post.letters.is_empty() && state.sending.letters.is_empty()
    }

    // The heartbeat.

    /// Looks at every lock: asks for the extensions that are due, and gives back what should have
    /// been begun long ago.
    pub(crate) fn look(&self, now: Instant) -> Seen {
        let mut state = self.state();
        let mut given_back = 0;
        if state
            .ready
            .iter()
            .any(|delivery| delivery.begin_by() <= now)
        {
            state.stalled = true;
            given_back = state.ready.len();
            self.give_back(&mut state);
        }
        let State {
            ready,
            running,
            post,
            beat_at,
            ..
        } = &mut *state;
        let mut next = ready.iter().map(|delivery| delivery.begin_by()).min();
        let mut ended = Vec::new();
        let before = post.extensions.len();
        for (_, delivery) in running.iter().filter(|(_, delivery)| !delivery.is_lost()) {
            let deadline = delivery.deadline();
            if deadline <= now {
                ended.push(Arc::clone(delivery));
                continue;
            }
            let mut look_at = delivery.extend_at();
            // Those that are due soon go along, so that not each of many needs a look of its own.
            let due = look_at <= now + (delivery.lock / 16).min(ASK_EVERY / 6);
            if due && !delivery.extending.swap(true, Ordering::AcqRel) {
                post.extensions.push(Arc::clone(delivery));
            }
            if delivery.extending.load(Ordering::Acquire) {
                look_at = deadline;
            }
            next = Some(next.map_or(look_at, |next: Instant| next.min(look_at)));
        }
        if post.extensions.len() > before {
            self.mail.notify_one();
        }
        *beat_at = next;
        Seen {
            ended,
            given_back,
            next,
        }
    }

    /// How often to ask for a lock: no more than a thousand times a second for all together.
    pub(crate) fn ask_every(&self) -> Duration {
        let running = self.state().running.len();
        ASK_EVERY.max(Duration::from_millis(running as u64))
    }

    /// Makes the heartbeat look at that time at the latest.
    pub(crate) fn beat_by(&self, at: Instant) {
        self.look_by(&mut self.state(), at);
    }

    fn look_by(&self, state: &mut State, at: Instant) {
        if state.beat_at.is_none_or(|planned| at < planned) {
            state.beat_at = Some(at);
            self.beat.notify_one();
        }
    }

    /// How many deliveries are being handled now.
    pub(crate) fn running(&self) -> usize {
        self.state().running.len()
    }
}

/// A delivery in a handler's hands. Dropped without [`finish`](Self::finish), as when its task is
/// torn down, it is given back, unless somebody still holds the message: then it comes back when
/// its lock ends.
#[derive(Debug)]
pub(crate) struct Begun {
    desk: Arc<Desk>,
    pub(crate) delivery: Arc<Delivery>,
    key: Option<usize>,
}

impl Begun {
    pub(crate) fn finish(mut self, answer: Answer) {
        if let Some(key) = self.key.take() {
            self.desk.end(key, Some(answer));
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.desk.end(key, None);
        }
    }
}
