//! MQ.ENQUEUE: adding a message, updating one that waits, and letting a copy wait for a run to end.

use crate::apply::ApplyError;
use crate::control::Full;
use crate::copies::WaitingCopy;
use crate::effects::{Content, Effect, Extras, NewTime};
use crate::expiry::Expiry;
use crate::id::{uuid_v7, IdText, Key};
use crate::message::{Limits, State};
use crate::queue::{count, Queue};
use crate::turn::Turn;
use crate::types::{Priority, Span, Status, Timestamp};

/// The most bytes of headers that a message has.
pub const MAX_HEADER_BYTES: usize = 4096;

/// What a producer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enqueue<'a> {
    /// The id; the queue makes one if there is none.
    pub id: Option<&'a [u8]>,
    /// What the consumer gets.
    pub payload: &'a [u8],
    /// When it becomes ready.
    pub start: Start,
    /// Lock time that wins over the consumer's.
    pub lock: Option<Span>,
    /// Deliveries before it is dead; 0 for no limit.
    pub attempts: u32,
    /// Its place in the order.
    pub priority: Priority,
    /// Let a copy wait if the id is with a consumer or in its dedupe window.
    pub requeue: bool,
    /// Replace what is waiting under the id.
    pub update: bool,
    /// What the consumer gets beside the payload, at most [`MAX_HEADER_BYTES`]; empty for nothing.
    pub headers: &'a [u8],
    /// The group it belongs to, of 1 to [`MAX_GROUP_BYTES`](crate::MAX_GROUP_BYTES) bytes.
    pub group: Option<&'a [u8]>,
    /// After which time it is not handed over any more.
    pub ttl: Option<Ttl>,
    /// How long its result is kept when it is finished, also without one: then it is an empty one.
    /// Zero for not at all.
    pub retain: Option<Span>,
    /// The id of a follow-up that waits; it waits for this message too.
    pub join: Option<&'a [u8]>,
}

/// How long a message may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// Counted from when it is accepted. A delivery that has begun by then is not touched.
    pub span: Span,
    /// Whether it becomes a dead letter then; else it goes.
    pub bury: bool,
}

/// When a message becomes ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At once; an update keeps the time there is.
    #[default]
    Default,
    /// After a delay; of a waiting copy, counted from the end of the run it waits for.
    After(Span),
    /// At an instant; at once if that is past.
    At(Timestamp),
}

/// What became of an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new message.
    Added,
    /// What waited under the id has the new payload and options.
    Updated,
    /// A copy runs after the current run or window.
    Requeued,
    /// Nothing changed: a limit refuses one more message.
    Full(Full),
    /// Nothing changed: no follow-up waits under the id that the message should join.
    NothingWaits,
    /// Nothing changed: the id's message has this status.
    Refused(Status),
}

impl Outcome {
    /// The word that replies use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Requeued => "requeued",
            Self::Full(_) => "full",
            Self::NothingWaits => "nothing-waits",
            Self::Refused(status) => status.name(),
        }
    }
}

/// The reply to an enqueue.
#[derive(Clone, Copy, Debug)]
pub struct Enqueued<'a> {
    /// What became of it.
    pub outcome: Outcome,
    /// The id asked for, or the one made; empty if none was made because a limit refused the message.
    pub id: IdText<'a>,
}

impl Enqueued<'_> {
    /// Nothing was added, so there is no id.
    fn refused(outcome: Outcome) -> Self {
        let id = IdText::new(Key::Bytes(&[]));
        Self { outcome, id }
    }
}

impl<'a> Enqueue<'a> {
    /// A message with this payload and no options.
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            id: None,
            payload,
            start: Start::Default,
            lock: None,
            attempts: 0,
            priority: Priority::default(),
            requeue: false,
            update: false,
            headers: &[],
            group: None,
            ttl: None,
            retain: None,
            join: None,
        }
    }

    /// The same with an id of 1 to [`MAX_ID_BYTES`](crate::MAX_ID_BYTES) bytes.
    pub fn id(mut self, id: &'a [u8]) -> Self {
        self.id = Some(id);
        self
    }

    /// Whether the message would expire before it becomes ready, were it accepted at `now`.
    pub fn expires_before_start(&self, now: Timestamp) -> bool {
        self.ttl
            .is_some_and(|ttl| self.start.due(now) >= now.after(ttl.span))
    }

    /// The limits that it gives a message.
    #[inline]
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            attempts: self.attempts,
            lock: self.lock.unwrap_or_default(),
        }
    }

    /// What becomes of it if it is accepted at `now`; `enqueued` is what it keeps of an update.
    #[inline]
    pub(crate) fn content(&self, now: Timestamp, enqueued: Timestamp) -> Content<'a> {
        Content {
            payload: self.payload,
            limits: self.limits(),
            priority: self.priority,
            enqueued,
            extras: Extras {
                headers: self.headers,
                group: self.group.unwrap_or_default(),
                expiry: self.ttl.map(|ttl| Expiry {
                    at: now.after(ttl.span),
                    bury: ttl.bury,
                }),
                retain: self.retain,
                batch: 0,
                scheduled: Timestamp::ZERO,
            },
        }
    }
}

impl Queue {
    /// Adds, updates or requeues as the contract's table says.
    #[inline]
    pub fn enqueue<'a>(&mut self, turn: &mut Turn<'_>, request: &Enqueue<'a>) -> Enqueued<'a> {
        let Some(follow_up) = request.join else {
            return self.enqueue_with(turn, request, false, 0);
        };
        self.let_time_act(turn);
        match self.batch_of(turn, follow_up) {
            Some(batch) => self.enqueue_with(turn, request, false, batch),
            None => Enqueued::refused(Outcome::NothingWaits),
        }
    }

    /// The same; with `has_room` no limit is asked, since one was for all messages of a batch.
    #[inline]
    pub(crate) fn enqueue_with<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        request: &Enqueue<'a>,
        has_room: bool,
        batch: u32,
    ) -> Enqueued<'a> {
        self.let_time_act(turn);
        let group = request.group.unwrap_or_default();
        let Some(id) = request.id else {
            if let Some(full) = (!has_room).then(|| self.is_full(group)).flatten() {
                return Enqueued::refused(Outcome::Full(full));
            }
            self.enter_frame(turn);
            let key = self.make_id();
            self.emit_and_add(turn, key, request, batch);
            return Enqueued {
                outcome: Outcome::Added,
                id: IdText::new(key),
            };
        };
        let key = Key::of(id);
        let outcome = match self.find_by_now(turn, &key) {
            Some(slot) => self.enqueue_again(turn, slot, request, has_room),
            None => match (!has_room).then(|| self.is_full(group)).flatten() {
                Some(full) => Outcome::Full(full),
                None => self.enqueue_new(turn, key, request, batch),
            },
        };
        Enqueued {
            outcome,
            id: IdText::new(key),
        }
    }

    #[inline]
    fn enqueue_new(
        &mut self,
        turn: &mut Turn<'_>,
        key: Key<'_>,
        request: &Enqueue<'_>,
        batch: u32,
    ) -> Outcome {
        self.enter_frame(turn);
        self.emit_and_add(turn, key, request, batch);
        Outcome::Added
    }

    #[inline]
    fn emit_and_add(
        &mut self,
        turn: &mut Turn<'_>,
        key: Key<'_>,
        request: &Enqueue<'_>,
        batch: u32,
    ) {
        let now = self.frame.instant();
        let mut content = request.content(now, now);
        content.extras.batch = batch;
        let due = request.start.due(now);
        let is_plain = content.extras.group.is_empty() && batch == 0;
        if !is_plain || !self.emit_verbatim(turn) {
            self.emit(turn, &Effect::Add { key, content, due });
        }
        self.add(key, &content, State::waiting(due, now));
    }

    /// An id from the frame that no live message has.
    #[inline]
    pub(crate) fn make_id(&mut self) -> Key<'static> {
        loop {
            let ms = self.frame.instant().millis();
            let key = Key::Uuid(uuid_v7(ms, self.frame.seed, self.frame.next_id));
            self.frame.next_id = self.frame.next_id.wrapping_add(1);
            if self.find_live(&key).is_none() {
                return key;
            }
        }
    }

    /// The id has a live message, and time has acted on it.
    fn enqueue_again(
        &mut self,
        turn: &mut Turn<'_>,
        slot: u32,
        request: &Enqueue<'_>,
        has_room: bool,
    ) -> Outcome {
        let now = turn.now.instant();
        // One that has expired would not have been found.
        let status = self.status_of(slot, now).unwrap_or(Status::DoneAwaitingGc);
        match status {
            Status::Queued | Status::QueuedWithBackoff if request.update => {
                let time = match request.start {
                    Start::Default => NewTime::Keep,
                    start => match start.due(now) {
                        due if due > now => NewTime::At(due),
                        _ => NewTime::Ready,
                    },
                };
                let group = request.group.unwrap_or_default();
                if !has_room && self.group_name(self.messages.get(slot)) != group {
                    if let Some(full) = self.group_full(group) {
                        count(&mut self.refused);
                        return Outcome::Full(full);
                    }
                }
                let content = request.content(now, self.messages.get(slot).enqueued());
                self.enter_frame(turn);
                let key = self.messages.get(slot).key();
                self.emit(turn, &Effect::Update { key, content, time });
                self.update(slot, &content, time);
                Outcome::Updated
            }
            Status::Locked | Status::DoneWithBackoff if request.requeue => {
                self.emit_and_requeue(turn, slot, request, now);
                Outcome::Requeued
            }
            Status::LockedWithRequeue | Status::DoneWithRequeue
                if request.requeue && request.update =>
            {
                let enqueued = self.copy(slot).map_or(now, |copy| copy.enqueued);
                self.emit_and_requeue(turn, slot, request, enqueued);
                Outcome::Updated
            }
            status => Outcome::Refused(status),
        }
    }

    fn emit_and_requeue(
        &mut self,
        turn: &mut Turn<'_>,
        slot: u32,
        request: &Enqueue<'_>,
        enqueued: Timestamp,
    ) {
        let mut start = request.start;
        if let (Start::Default, Some(copy)) = (start, self.copy(slot)) {
            start = copy.start;
        }
        let content = request.content(turn.now.instant(), enqueued);
        self.enter_frame(turn);
        let key = self.messages.get(slot).key();
        self.emit(
            turn,
            &Effect::Requeue {
                key,
                content,
                start,
            },
        );
        self.requeue(slot, &content, start);
    }

    /// Gives a queued message new content, and a new time if `time` says so. Its place in the
    /// order stays as long as priority and time do. A delivery of the old content whose lock ran
    /// out ends with it: its verdict must not be taken for one on content it never saw.
    pub(crate) fn update(&mut self, slot: u32, content: &Content<'_>, time: NewTime) {
        self.kinds.updated = true;
        let message = self.messages.get(slot);
        let before = message.state();
        let state = match (time, before) {
            (NewTime::At(due), _) => State::Delayed { due },
            (NewTime::Ready, State::Delayed { .. }) => State::Ready {
                since: self.frame.instant(),
                token: None,
            },
            (_, State::Ready { since, .. }) => State::Ready { since, token: None },
            (_, state) => state,
        };
        let stays_ready = matches!((before, state), (State::Ready { .. }, State::Ready { .. }));
        let same_time = stays_ready || before == state;
        let same_group = self.group_name(message) == content.extras.group;
        let same_place = same_time && same_group && message.priority() == content.priority;
        if !same_place {
            self.unlink(slot);
            self.forget_place(slot);
        }
        self.give_content(slot, content);
        if same_place {
            self.messages.get_mut(slot).set_state(state);
        } else {
            self.link(slot, state);
        }
        self.start_timer(slot);
    }

    /// Lets a copy wait for the end of the current run or window, in place of an older copy.
    pub(crate) fn requeue(&mut self, slot: u32, content: &Content<'_>, start: Start) {
        let had_copy = self.has_copy(slot);
        self.set_copy(slot, WaitingCopy::new(content, start));
        if had_copy {
            self.kinds.updated = true;
            return;
        }
        count(&mut self.totals.enqueued);
        let counts = &mut self.counts;
        let (from, to) = match self.messages.get(slot).state() {
            State::Locked { .. } => (&mut counts.locked, &mut counts.locked_with_copy),
            State::Done { .. } => (&mut counts.done, &mut counts.done_with_copy),
            _ => return,
        };
        *from -= 1;
        *to += 1;
    }

    /// Runs a producer's command that the primary sent as it came.
    ///
    /// # Errors
    /// If it is not a new message here: this queue is no longer that of the primary.
    pub fn replay_enqueue(&mut self, request: &Enqueue<'_>) -> Result<(), ApplyError> {
        let now = self.frame.instant();
        let content = request.content(now, now);
        let key = match request.id {
            None => self.make_id(),
            Some(id) => Key::of(id),
        };
        if self.find_live(&key).is_some() || request.join.is_some() {
            return Err(ApplyError::Diverged("an added message is already there"));
        }
        self.keep_up();
        let state = State::waiting(request.start.due(now), now);
        self.add(key, &content, state);
        Ok(())
    }
}
