//! One message as it lies in the slab: 48 bytes and one allocation.
//!
//! The allocation holds, in this order, what the message has of: when it was enqueued (6 bytes;
//! absent if the id is a UUIDv7 that says it), its own options (a mask byte and those it names:
//! [`Own`]), the number of its rare part (4 bytes), the id, the payload.

use crate::id::{uuid_millis, IdText, Key};
use crate::link::Links;
use crate::relocate::Relocate;
use crate::slab::{Entry, Slab, NIL};
use crate::types::{Priority, Span, Timestamp, Token};

mod own;

pub(crate) use own::Own;

/// Where a message stands, as the last step on it left it; time alone may have moved it on since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In the ready list of its priority, deliverable since that instant. The token is that of a
    /// delivery whose lock ran out and whose consumer may still end it.
    Ready {
        since: Timestamp,
        token: Option<Token>,
    },
    /// In the schedule, ready from `due` on.
    Delayed { due: Timestamp },
    /// In the schedule, with a consumer.
    Locked { until: Timestamp, token: Token },
    /// In the schedule, finished; the id is taken.
    Done { until: Timestamp },
    /// In the list of follow-ups: ready when all messages of its batch have ended.
    Waiting,
    /// In the list of dead letters, since `died`, never before the letter in front of it. The token is
    /// that of a delivery whose lock ran out.
    Dead {
        token: Option<Token>,
        cause: Cause,
        died: Timestamp,
    },
}

impl State {
    /// Whether a message in it may keep its group to itself.
    pub fn may_hold(&self) -> bool {
        matches!(
            self,
            Self::Ready { .. } | Self::Delayed { .. } | Self::Locked { .. }
        )
    }

    /// Delayed until `due`, or ready since `since` if that is not after it.
    #[inline]
    pub fn waiting(due: Timestamp, since: Timestamp) -> Self {
        if due > since {
            Self::Delayed { due }
        } else {
            Self::Ready { since, token: None }
        }
    }

    /// The newest delivery's token, while a verdict on it is still open.
    pub fn open_token(self) -> Option<Token> {
        match self {
            Self::Locked { token, .. } => Some(token),
            Self::Ready { token, .. } | Self::Dead { token, .. } => token,
            Self::Delayed { .. } | Self::Done { .. } | Self::Waiting => None,
        }
    }
}

/// Why a message is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A consumer said so; its reason, if any, is in the rare part.
    Failed,
    /// A retry was asked for and all attempts were used.
    NoAttemptsLeft,
    /// The lock of the last attempt ran out.
    LastLockExpired,
    /// Its time to live ended before it was handed over.
    Expired,
}

/// The limits that a producer gave a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Deliveries before it is dead; 0 for no limit.
    pub attempts: u32,
    /// Lock time that wins over the consumer's; zero for none.
    pub lock: Span,
}

const ENQUEUED: usize = 6;
const RARE: usize = 4;

#[derive(Debug)]
pub(crate) struct Message {
    body: Box<[u8]>,
    previous: u32,
    next: u32,
    pub attempts: u32,
    pub hash: u32,
    /// Token in the lowest 56 bits, then state (4 bits), then priority (4 bits).
    token_state: u64,
    /// Timestamp of the schedule in the lowest 48 bits, or since when the message is ready or dead; then
    /// the id's length (10 bits), then flags.
    due_shape: u64,
}

const _: () = assert!(size_of::<Message>() == 48);

const TOKEN_MASK: u64 = Token::MAX.value();
const DUE_MASK: u64 = (1 << Timestamp::BITS) - 1;
const STATE_SHIFT: u32 = Token::BITS;
const PRIORITY_SHIFT: u32 = Token::BITS + 4;
const LENGTH_SHIFT: u32 = Timestamp::BITS;
const LENGTH_MASK: u64 = (1 << 10) - 1;
const UUID: u64 = 1 << 58;
const OWN_ENQUEUED: u64 = 1 << 59;
const OWN_OPTIONS: u64 = 1 << 60;
const HAS_RARE: u64 = 1 << 61;
const PLACED: u64 = 1 << 62;

const READY: u64 = 0;
const DELAYED: u64 = 1;
const LOCKED: u64 = 2;
const DONE: u64 = 3;
const FAILED: u64 = 4;
const NO_ATTEMPTS_LEFT: u64 = 5;
const LAST_LOCK_EXPIRED: u64 = 6;
const EXPIRED: u64 = 7;
const WAITING: u64 = 9;

impl Message {
    /// A message that was not delivered yet.
    #[inline]
    pub fn new(
        key: Key<'_>,
        hash: u32,
        payload: &[u8],
        own: &Own<'_>,
        priority: Priority,
        enqueued: Timestamp,
    ) -> Self {
        let id = key.stored();
        let mut shape = (id.len() as u64) << LENGTH_SHIFT;
        if key.is_uuid() {
            shape |= UUID;
        }
        if !key.is_uuid() || uuid_millis(id) != enqueued.millis() {
            shape |= OWN_ENQUEUED;
        }
        if !own.is_none() {
            shape |= OWN_OPTIONS;
        }
        Self {
            body: build(shape, id, payload, own, enqueued, NIL),
            previous: NIL,
            next: NIL,
            attempts: 0,
            hash,
            token_state: u64::from(priority.level()) << PRIORITY_SHIFT,
            due_shape: shape,
        }
    }

    #[inline]
    pub fn state(&self) -> State {
        let token = self.token_state & TOKEN_MASK;
        let due = Timestamp::from_millis(self.due_shape & DUE_MASK);
        let open = (token != 0).then_some(Token::new(token));
        match self.token_state >> STATE_SHIFT & 0xF {
            READY => State::Ready {
                since: due,
                token: open,
            },
            DELAYED => State::Delayed { due },
            LOCKED => State::Locked {
                until: due,
                token: Token::new(token),
            },
            DONE => State::Done { until: due },
            WAITING => State::Waiting,
            FAILED => State::Dead {
                token: open,
                cause: Cause::Failed,
                died: due,
            },
            NO_ATTEMPTS_LEFT => State::Dead {
                token: open,
                cause: Cause::NoAttemptsLeft,
                died: due,
            },
            LAST_LOCK_EXPIRED => State::Dead {
                token: open,
                cause: Cause::LastLockExpired,
                died: due,
            },
            _ => State::Dead {
                token: open,
                cause: Cause::Expired,
                died: due,
            },
        }
    }

    #[inline]
    pub fn set_state(&mut self, state: State) {
        let value = |token: Option<Token>| token.map_or(0, Token::value) & TOKEN_MASK;
        let (code, due, token) = match state {
            State::Ready { since, token } => (READY, since.millis(), value(token)),
            State::Delayed { due } => (DELAYED, due.millis(), 0),
            State::Locked { until, token } => (LOCKED, until.millis(), value(Some(token))),
            State::Done { until } => (DONE, until.millis(), 0),
            State::Waiting => (WAITING, 0, 0),
            State::Dead { token, cause, died } => {
                let code = match cause {
                    Cause::Failed => FAILED,
                    Cause::NoAttemptsLeft => NO_ATTEMPTS_LEFT,
                    Cause::LastLockExpired => LAST_LOCK_EXPIRED,
                    Cause::Expired => EXPIRED,
                };
                (code, died.millis(), value(token))
            }
        };
        let priority = self.token_state >> PRIORITY_SHIFT << PRIORITY_SHIFT;
        self.token_state = priority | code << STATE_SHIFT | token;
        self.due_shape = self.due_shape & !DUE_MASK | due;
    }

    /// The instant at which time alone moves a scheduled message on.
    #[inline]
    pub fn due(&self) -> Timestamp {
        Timestamp::from_millis(self.due_shape & DUE_MASK)
    }

    /// Whether the message waits for its time or its turn.
    #[inline]
    pub fn waits(&self) -> bool {
        matches!(self.token_state >> STATE_SHIFT & 0xF, READY | DELAYED)
    }

    /// Whether time moves the message on, or should have already.
    #[inline]
    pub fn is_scheduled(&self) -> bool {
        matches!(
            self.token_state >> STATE_SHIFT & 0xF,
            DELAYED | LOCKED | DONE
        )
    }

    /// The newest delivery's token, while a verdict on it is still open.
    #[inline]
    pub fn open_token(&self) -> Option<Token> {
        let token = self.token_state & TOKEN_MASK;
        (token != 0).then_some(Token::new(token))
    }

    /// Whether the message has a place among what was released.
    #[inline]
    pub fn is_placed(&self) -> bool {
        self.due_shape & PLACED != 0
    }

    pub fn set_placed(&mut self, placed: bool) {
        self.due_shape = self.due_shape & !PLACED | if placed { PLACED } else { 0 };
    }

    #[inline]
    pub fn priority(&self) -> Priority {
        let level = (self.token_state >> PRIORITY_SHIFT) as u8;
        Priority::new(level).unwrap_or_default()
    }

    #[inline]
    fn id_at(&self) -> usize {
        let mut at = 0;
        if self.due_shape & OWN_ENQUEUED != 0 {
            at += ENQUEUED;
        }
        if self.due_shape & OWN_OPTIONS != 0 {
            at += own::length(&self.body[at..]);
        }
        if self.due_shape & HAS_RARE != 0 {
            at += RARE;
        }
        at
    }

    #[inline]
    fn id_length(&self) -> usize {
        (self.due_shape >> LENGTH_SHIFT & LENGTH_MASK) as usize
    }

    /// Whether the slot is in use: an id is never empty.
    pub fn is_held(&self) -> bool {
        self.id_length() != 0
    }

    /// The id's bytes as stored, and whether they are a UUID's.
    #[inline]
    fn stored_id(&self) -> &[u8] {
        let at = self.id_at();
        &self.body[at..at + self.id_length()]
    }

    #[inline]
    pub fn has_key(&self, key: &Key<'_>) -> bool {
        (self.due_shape & UUID != 0) == key.is_uuid() && self.stored_id() == key.stored()
    }

    #[inline]
    pub fn key(&self) -> Key<'_> {
        let id = self.stored_id();
        match <[u8; 16]>::try_from(id) {
            Ok(bytes) if self.due_shape & UUID != 0 => Key::Uuid(bytes),
            _ => Key::Bytes(id),
        }
    }

    #[inline]
    pub fn id(&self) -> IdText<'_> {
        IdText::new(self.key())
    }

    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.body[self.id_at() + self.id_length()..]
    }

    #[inline]
    pub fn enqueued(&self) -> Timestamp {
        let bytes = if self.due_shape & OWN_ENQUEUED != 0 {
            &*self.body
        } else {
            self.stored_id()
        };
        Timestamp::from_millis(uuid_millis(bytes))
    }

    /// The part of the allocation that begins with the own options, if there are any.
    #[inline]
    fn own_part(&self) -> Option<&[u8]> {
        if self.due_shape & OWN_OPTIONS == 0 {
            return None;
        }
        let at = if self.due_shape & OWN_ENQUEUED != 0 {
            ENQUEUED
        } else {
            0
        };
        Some(&self.body[at..])
    }

    /// All options of the message's own.
    pub fn own(&self) -> Own<'_> {
        self.own_part().map(own::read).unwrap_or_default()
    }

    #[inline]
    pub fn limits(&self) -> Limits {
        self.own_part().map(own::limits).unwrap_or_default()
    }

    /// The number of its group.
    #[inline]
    pub fn group(&self) -> Option<u32> {
        self.own_part().and_then(own::group)
    }

    /// How long its result is kept, if it says so.
    #[inline]
    pub fn retain(&self) -> Option<Span> {
        self.own_part().and_then(own::retain)
    }

    /// The number of the batch that it is a member of, or the follow-up.
    #[inline]
    pub fn batch(&self) -> Option<u32> {
        self.own_part().and_then(own::batch)
    }

    /// The instant that its schedule meant; zero for a message of no schedule.
    #[inline]
    pub fn scheduled(&self) -> Timestamp {
        self.own_part().map(own::scheduled).unwrap_or_default()
    }

    /// What the producer sent beside the payload; empty for nothing.
    #[inline]
    pub fn headers(&self) -> &[u8] {
        self.own_part().map(own::headers).unwrap_or_default()
    }

    /// The timer of its expiry.
    #[inline]
    pub fn timer(&self) -> Option<u32> {
        own::timer(self.own_part()?)
    }

    pub fn set_timer(&mut self, timer: Option<u32>) {
        let own = Own {
            timer,
            ..self.own()
        };
        (self.body, self.due_shape) = self.with_own(&own);
    }

    pub fn set_batch(&mut self, batch: Option<u32>) {
        let own = Own {
            batch,
            ..self.own()
        };
        (self.body, self.due_shape) = self.with_own(&own);
    }

    /// The allocation and the shape with other options.
    fn with_own(&self, own: &Own<'_>) -> (Box<[u8]>, u64) {
        let shape = if own.is_none() {
            self.due_shape & !OWN_OPTIONS
        } else {
            self.due_shape | OWN_OPTIONS
        };
        let (id, payload) = (self.stored_id(), self.payload());
        let rare = self.rare().unwrap_or(NIL);
        let body = build(shape, id, payload, own, self.enqueued(), rare);
        (body, shape)
    }

    /// Whether the message has had all deliveries it may have.
    #[inline]
    pub fn is_out_of_attempts(&self) -> bool {
        let limit = self.limits().attempts;
        limit != 0 && self.attempts >= limit
    }

    /// The slot of the message's rare part.
    #[inline]
    pub fn rare(&self) -> Option<u32> {
        if self.due_shape & HAS_RARE == 0 {
            return None;
        }
        let end = self.id_at();
        let mut slot = [0; RARE];
        slot.copy_from_slice(&self.body[end - RARE..end]);
        Some(u32::from_le_bytes(slot))
    }

    pub fn set_rare(&mut self, rare: Option<u32>) {
        let shape = match rare {
            Some(_) => self.due_shape | HAS_RARE,
            None => self.due_shape & !HAS_RARE,
        };
        self.body = build(
            shape,
            self.stored_id(),
            self.payload(),
            &self.own(),
            self.enqueued(),
            rare.unwrap_or(NIL),
        );
        self.due_shape = shape;
    }

    /// Gives the message new content; id, attempts, rare part and place stay.
    pub fn set_content(
        &mut self,
        payload: &[u8],
        own: &Own<'_>,
        priority: Priority,
        enqueued: Timestamp,
    ) {
        let mut fresh = Self::new(self.key(), self.hash, payload, own, priority, enqueued);
        if let Some(rare) = self.rare() {
            fresh.set_rare(Some(rare));
        }
        self.body = fresh.body;
        self.due_shape = self.due_shape & (DUE_MASK | PLACED) | fresh.due_shape;
        let kept = self.token_state & !(0xF << PRIORITY_SHIFT);
        self.token_state = kept | u64::from(priority.level()) << PRIORITY_SHIFT;
    }

    /// Lets `mover` move the allocation.
    pub fn relocate(&mut self, mover: &mut impl Relocate) {
        mover.slice(&mut self.body);
    }

    /// Bytes of the allocation.
    #[inline]
    pub fn body_len(&self) -> usize {
        self.body.len()
    }
}

fn build(
    shape: u64,
    id: &[u8],
    payload: &[u8],
    own: &Own<'_>,
    enqueued: Timestamp,
    rare: u32,
) -> Box<[u8]> {
    let mut length = id.len() + payload.len();
    if shape & (OWN_ENQUEUED | OWN_OPTIONS | HAS_RARE) != 0 {
        for (flag, size) in [(OWN_ENQUEUED, ENQUEUED), (HAS_RARE, RARE)] {
            if shape & flag != 0 {
                length += size;
            }
        }
        if shape & OWN_OPTIONS != 0 {
            length += own.len();
        }
    }
    // The exact capacity, so that turning it into a box does not copy.
    let mut body = Vec::with_capacity(length);
    if shape & OWN_ENQUEUED != 0 {
        body.extend_from_slice(&enqueued.millis().to_be_bytes()[2..]);
    }
    if shape & OWN_OPTIONS != 0 {
        own.write(&mut body);
    }
    if shape & HAS_RARE != 0 {
        body.extend_from_slice(&rare.to_le_bytes());
    }
    body.extend_from_slice(id);
    body.extend_from_slice(payload);
    body.into_boxed_slice()
}

impl Entry for Message {
    fn vacant(next: u32) -> Self {
        Self {
            body: Box::default(),
            previous: NIL,
            next,
            attempts: 0,
            hash: 0,
            token_state: 0,
            due_shape: 0,
        }
    }

    fn next_vacant(&self) -> u32 {
        self.next
    }
}

impl Links for Slab<Message> {
    #[inline]
    fn previous(&self, entry: u32) -> u32 {
        self.get(entry).previous
    }
    #[inline]
    fn next(&self, entry: u32) -> u32 {
        self.get(entry).next
    }
    #[inline]
    fn set_previous(&mut self, entry: u32, to: u32) {
        self.get_mut(entry).previous = to;
    }
    #[inline]
    fn set_next(&mut self, entry: u32, to: u32) {
        self.get_mut(entry).next = to;
    }
    #[inline]
    fn due(&self, entry: u32) -> Timestamp {
        self.get(entry).due()
    }
    #[inline]
    fn len(&self) -> usize {
        Slab::len(self)
    }
}

#[cfg(test)]
mod tests;
