//! The deliveries of one run of a worker: from the server's hand-over until their answer has
//! arrived.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

mod admission;
pub(crate) mod pool;
mod slots;

use self::{
    admission::Admission,
    pool::{Demand, Seat},
    slots::Slots,
};
use super::{
    ack::outbox::{Outbox, Outgoing},
    lease::watch::{ask_every, Found, LockWatch, Seen},
    run::report::StopReport,
};
use crate::{
    handler::answer::Answer,
    message::delivery::{Delivery, LostLock},
};

/// Shared by the tasks of one run of a worker. One lock guards it all and is never held while
/// anything waits.
#[derive(Debug)]
pub(crate) struct Deliveries {
    handlers: usize,
    /// Where the handlers are shared with other queues.
    seat: Option<Seat>,
    /// With this many answers unsent, nothing new is taken.
    most_unsent: usize,
    state: Mutex<State>,
    /// Wakes a handler slot: something is ready.
    work: Notify,
    /// Wakes whoever takes messages: a slot is free.
    room: Notify,
    /// Wakes whoever sends: there is something to send.
    pub(crate) to_send: Notify,
    /// Wakes the heartbeat: it has to look earlier than it planned.
    pub(crate) beat: Notify,
}

#[derive(Debug, Default)]
struct State {
    admission: Admission,
    slots: Slots,
    outbox: Outbox,
    watch: LockWatch,
}

impl State {
    /// How many slots have something to do, or are about to.
    fn taken(&self) -> usize {
        self.admission.ready.len() + self.slots.running.len()
    }
}

impl Deliveries {
    pub(crate) fn new(handlers: usize, seat: Option<Seat>) -> Self {
        Self {
            handlers,
            seat,
            most_unsent: handlers.saturating_mul(4).max(1_000),
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
            to_send: Notify::new(),
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
        let outbox = &state.outbox;
        if outbox.unsent() > self.most_unsent || outbox.is_late() || state.admission.stalled {
            return 0;
        }
        match &self.seat {
            None => self.handlers - state.taken().min(self.handlers),
            Some(seat) => seat.free(),
        }
    }

    /// Takes up to so many slots for messages that are about to be asked for; fewer where slots
    /// are shared, and perhaps none. [`Self::asked`] has to follow.
    pub(crate) fn ask_for(&self, most: usize) -> usize {
        self.seat.as_ref().map_or(most, |seat| seat.claim(most))
    }

    /// Whether to wait on the server if there is nothing: not with many slots that others may want.
    pub(crate) fn may_wait(&self) -> bool {
        !self.seat.as_ref().is_some_and(Seat::is_hungry)
    }

    /// A server has been asked for messages. What came was admitted before: `came` is whether
    /// anything did, and `None` that it cannot be asked for now.
    pub(crate) fn asked(&self, came: Option<bool>) {
        if let Some(seat) = &self.seat {
            seat.settle(match came {
                None => Demand::Absent,
                Some(false) => Demand::Idle,
                Some(true) => Demand::Hungry,
            });
        }
    }

    /// Tells those that share the slots how many are taken.
    fn tell_taken(&self, state: &State) {
        if let Some(seat) = &self.seat {
            seat.set_taken(state.taken());
        }
    }

    /// Waits until that many slots are free.
    pub(crate) async fn room_for(&self, slots: usize) {
        loop {
            // Listening before looking, so that no call falls in between.
            let others = self.seat.as_ref().map(Seat::changed);
            {
                let mut state = self.state();
                if self.free_in(&state) >= slots {
                    state.admission.room_at = 0;
                    return;
                }
                state.admission.room_at = slots;
            }
            match others {
                None => self.room.notified().await,
                Some(others) => tokio::select! {
                    () = self.room.notified() => {}
                    () = others => {}
                },
            }
        }
    }

    fn tell_room(&self, state: &mut State) {
        self.tell_taken(state);
        let room_at = state.admission.room_at;
        if room_at > 0 && self.free_in(state) >= room_at {
            state.admission.room_at = 0;
            self.room.notify_one();
        }
    }

    /// Puts deliveries before the handlers, or gives them back if nobody would begin them.
    pub(crate) fn admit(&self, deliveries: Vec<Arc<Delivery>>) {
        let mut state = self.state();
        if let Some(due) = deliveries.iter().map(|delivery| delivery.begin_by()).min() {
            self.look_by(&mut state, due);
        }
        state.admission.ready.extend(deliveries);
        if state.admission.is_refused() {
            self.give_back(&mut state);
        }
        self.tell_taken(&state);
        self.wake_slot(&mut state);
    }

    /// Gives back what was not begun. Each goes to the front of the queue, so that the last one
    /// goes first.
    fn give_back(&self, state: &mut State) {
        while let Some(delivery) = state.admission.ready.pop_back() {
            if matches!(delivery.how_lost(), None | Some(LostLock::Unconfirmed)) {
                self.send(state, delivery, Answer::Release);
            }
        }
        self.tell_taken(state);
    }

    // Handling.

    /// Wakes one slot; it wakes the next one if there is more to do.
    fn wake_slot(&self, state: &mut State) {
        if state.admission.wakes() {
            self.work.notify_one();
        }
    }

    /// The next delivery to handle, or `None` when nothing is begun any more.
    pub(crate) async fn next(self: &Arc<Self>) -> Option<Begun> {
        let mut woken = false;
        loop {
            // Listening before looking, so that no call falls in between.
            let called = self.work.notified();
            {
                let mut state = self.state();
                if woken {
                    state.admission.waking = false;
                }
                if std::mem::take(&mut state.admission.stalled) {
                    self.tell_room(&mut state);
                }
                while let Some(delivery) = state.admission.ready.pop_front() {
                    match delivery.how_lost() {
                        None => {
                            self.look_by(&mut state, delivery.extend_at());
                            let key = state.slots.running.insert(Arc::clone(&delivery));
                            self.wake_slot(&mut state);
                            drop(state);
                            let deliveries = Arc::clone(self);
                            return Some(Begun {
                                deliveries,
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
                if state.admission.closed {
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
        let Some(delivery) = state.slots.end(key) else {
            return;
        };
        match (delivery.how_lost(), answer) {
            (None, Some(answer))
            | (Some(LostLock::Unconfirmed), Some(answer @ Answer::Success(_))) => {
                self.send(&mut state, delivery, answer);
            }
            (None | Some(LostLock::Unconfirmed), None) if delivery.is_held() => {
                state.slots.unfinished.push(delivery);
            }
            (None | Some(LostLock::Unconfirmed), None) => {
                state.slots.given_back.push(delivery.id.clone());
                self.send(&mut state, delivery, Answer::Release);
            }
            _ => {}
        }
        self.tell_room(&mut state);
    }

    /// How many deliveries are being handled now.
    pub(crate) fn running(&self) -> usize {
        self.state().slots.running.len()
    }

    // Stopping.

    /// Asks all handlers to end.
    pub(crate) fn cancel(&self) {
        self.state().slots.cancel();
    }

    /// No delivery is begun any more; those that were not are given back.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.admission.closed = true;
        self.give_back(&mut state);
        drop(state);
        self.work.notify_waiters();
    }

    /// Gives up on everything that is still being handled.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        state.slots.abandon();
        self.tell_taken(&state);
    }

    /// What is left in the end.
    pub(crate) fn left(&self) -> StopReport {
        let state = self.state();
        let id = |delivery: &Arc<Delivery>| delivery.id.clone();
        let answers = state.outbox.answers();
        let unanswered: Vec<_> = answers.map(|unsent| id(&unsent.delivery)).collect();
        let given_back = state.slots.given_back.iter();
        StopReport {
            given_back: given_back
                .filter(|id| !unanswered.contains(id))
                .cloned()
                .collect(),
            unfinished: state.slots.unfinished.iter().map(id).collect(),
            unanswered,
        }
    }

    // Sending.

    fn send(&self, state: &mut State, delivery: Arc<Delivery>, answer: Answer) {
        if state.outbox.add(delivery, answer) {
            self.to_send.notify_one();
        }
    }

    /// Whether there is something to send.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.state().outbox.is_empty()
    }

    /// As [`Outbox::collect`].
    pub(crate) fn collect(&self, most: usize) -> Arc<Outgoing> {
        self.state().outbox.collect(most)
    }

    /// As [`Outbox::settle`].
    pub(crate) fn settle(&self, unsure: Outgoing) {
        let mut state = self.state();
        state.outbox.settle(unsure);
        self.tell_room(&mut state);
    }

    /// Answers can be sent, or cannot.
    pub(crate) fn set_cut_off(&self, cut_off: bool) {
        let mut state = self.state();
        state.outbox.set_cut_off(cut_off);
        self.tell_room(&mut state);
    }

    /// The server cannot be reached: what these slots are kept for is left to other queues until
    /// messages are asked for again.
    pub(crate) fn leave(&self) {
        self.seat.iter().for_each(Seat::leave);
    }

    /// Whether every answer is known to have arrived.
    pub(crate) fn is_clear(&self) -> bool {
        self.state().outbox.unsent() == 0
    }

    // The heartbeat.

    /// Looks at every lock: asks for the extensions that are due, and gives back what should have
    /// been begun long ago.
    pub(crate) fn look(&self, now: Instant) -> Seen {
        let mut state = self.state();
        let mut given_back = 0;
        if state.admission.is_overdue(now) {
            state.admission.stalled = true;
            given_back = state.admission.ready.len();
            self.give_back(&mut state);
        }
        let mut found = Found {
            next: state.admission.begin_by(),
            ..Found::default()
        };
        for (_, delivery) in &state.slots.running {
            found.look(delivery, now);
        }
        if !found.due.is_empty() {
            state.outbox.extend(&mut found.due);
            self.to_send.notify_one();
        }
        state.watch.plan(found.next);
        Seen {
            ended: found.ended,
            given_back,
            next: found.next,
        }
    }

    /// How often to ask for a lock.
    pub(crate) fn ask_every(&self) -> Duration {
        ask_every(self.running())
    }

    /// Makes the heartbeat look at that time at the latest.
    pub(crate) fn beat_by(&self, at: Instant) {
        self.look_by(&mut self.state(), at);
    }

    fn look_by(&self, state: &mut State, at: Instant) {
        if state.watch.look_by(at) {
            self.beat.notify_one();
        }
    }
}

/// A delivery in a handler's hands. Dropped without [`finish`](Self::finish), as when its task is
/// torn down, it is given back, unless somebody still holds the message: then it comes back when
/// its lock ends.
#[derive(Debug)]
pub(crate) struct Begun {
    deliveries: Arc<Deliveries>,
    pub(crate) delivery: Arc<Delivery>,
    key: Option<usize>,
}

impl Begun {
    pub(crate) fn finish(mut self, answer: Answer) {
        if let Some(key) = self.key.take() {
            self.deliveries.end(key, Some(answer));
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.deliveries.end(key, None);
        }
    }
}
