//! The binary form of a whole queue, in chunks (docs/format.md): for the server's dump, the
//! rewritten append-only file, and the digest that tells whether two queues are the same.
//!
//! Each chunk names its own version, the lowest that can say what is in it. Version 2 is version 1
//! with fields behind what has any.

use crate::batches::put_batch;
use crate::codec::{put_bytes, put_number, Damaged, Reader};
use crate::copies::WaitingCopy;
use crate::effects::{
    put_key, put_start, read_instant, read_key, read_start, read_token, Content, Extras,
};
use crate::fields::{end_fields, put_field, put_numbers, read_fields};
use crate::message::{Cause, Message, State};
use crate::queue::{Queue, Totals};
use crate::results_form::RESULT;
use crate::schedules::Definition;
use crate::turn::Frame;
use crate::types::{Timestamp, Token};

/// The newest version of the form; chunks that need no more are written as version 1.
pub const SNAPSHOT_VERSION: u8 = VERSION_2;

const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;

/// Where a chunk names its version.
const VERSION_AT: usize = 1;

/// First byte of every chunk; effects begin with another.
pub(crate) const SNAPSHOT_MARK: u8 = b'S';

const HEADER: u8 = 1;
const MESSAGES: u8 = 2;
/// Groups that have something of their own, in front of the messages.
const GROUPS: u8 = 3;

/// Schedules, behind the groups.
const SCHEDULES: u8 = 4;
/// Batches, in front of the messages.
const BATCHES: u8 = 5;

/// A chunk is closed when it has grown this long.
const CHUNK_BYTES: usize = 64 * 1024;

const READY: u8 = 0;
const DELAYED: u8 = 1;
const LOCKED: u8 = 2;
const DONE: u8 = 3;
const FAILED: u8 = 4;
const NO_ATTEMPTS_LEFT: u8 = 5;
const LAST_LOCK_EXPIRED: u8 = 6;
const EXPIRED: u8 = 7;
const WAITING: u8 = 9;

/// The last state that version 1 knows.
const LAST_OF_VERSION_1: u8 = LAST_LOCK_EXPIRED;

/// Set in a message's first byte: fields follow at its end.
const HAS_FIELDS: u8 = 0x80;

/// A field of the header: by how many milliseconds the queue's time is ahead of the server's.
const AHEAD: u64 = 28;

/// A field of the header: how many results follow behind the messages.
const RESULTS: u64 = 30;
/// A field of the header: how many schedules follow.
const SCHEDULES_IN_ALL: u64 = 38;

/// Fields of the header: totals that version 1 does not count.
const TOTAL_EXPIRED: u64 = 1;
const TOTAL_REDRIVEN: u64 = 3;
const TOTAL_DROPPED: u64 = 5;

/// Fields of a message, beside those of its content: since when it is ready, if not since it was
/// enqueued; the fields of its copy's content; its place among what was released.
const SINCE: u64 = 1;
const COPY: u64 = 12;
/// It keeps its group until it ends.
const HOLDS: u64 = 14;
const PLACE: u64 = 16;
/// Since when it is dead.
const DIED: u64 = 17;
/// It follows the batch that it names.
const FOLLOWS: u64 = 20;

const HAS_COPY: u8 = 1;
const HAS_REASON: u8 = 2;

const PAUSED: u8 = 1;

impl Queue {
    /// Writes the queue as chunks, each to `sink`. Equal queues give equal chunks.
    pub fn snapshot(&self, sink: impl FnMut(&[u8])) {
        self.write_chunks(&self.frame, sink);
    }

    /// What must be the same on a primary, its replicas and after every reload.
    pub fn digest(&self, sink: impl FnMut(&[u8])) {
        self.write_chunks(&Frame::default(), sink);
    }

    fn write_chunks(&self, frame: &Frame, mut sink: impl FnMut(&[u8])) {
        let mut out = vec![SNAPSHOT_MARK, VERSION_1, HEADER];
        out.extend_from_slice(&frame.bytes());
        put_number(&mut out, self.last_token);
        let totals = &self.totals;
        for total in [
            totals.enqueued,
            totals.delivered,
            totals.done,
            totals.retried,
            totals.dead,
            totals.expired_locks,
        ] {
            put_number(&mut out, total);
        }
        // Version 1 could say that a queue is paused; it was never set.
        out.push(0);
        put_number(&mut out, self.len() as u64);
        let end = out.len();
        self.write_totals(&mut out);
        self.write_bounds(&mut out);
        if self.ahead_ms != 0 {
            put_numbers(&mut out, AHEAD, &[self.ahead_ms]);
        }
        if self.results.is_some() {
            put_numbers(&mut out, RESULTS, &[self.results_len() as u64]);
        }
        if let Some(schedules) = &self.schedules {
            put_numbers(&mut out, SCHEDULES_IN_ALL, &[schedules.len() as u64]);
        }
        if out.len() > end {
            end_fields(&mut out);
            out[VERSION_AT] = VERSION_2;
        }
        sink(&out);
        out.clear();
        self.for_each_own_group(|group| {
            if out.is_empty() {
                out.extend_from_slice(&[SNAPSHOT_MARK, VERSION_2, GROUPS]);
            }
            group.write(&mut out);
            if out.len() >= CHUNK_BYTES {
                sink(&out);
                out.clear();
            }
        });
        if !out.is_empty() {
            sink(&out);
            out.clear();
        }
        for definition in self.definitions() {
            if out.is_empty() {
                out.extend_from_slice(&[SNAPSHOT_MARK, VERSION_2, SCHEDULES]);
            }
            definition.write(&mut out);
            if out.len() >= CHUNK_BYTES {
                sink(&out);
                out.clear();
            }
        }
        if !out.is_empty() {
            sink(&out);
            out.clear();
        }
        self.for_each_batch(|number, result| {
            if out.is_empty() {
                out.extend_from_slice(&[SNAPSHOT_MARK, VERSION_2, BATCHES]);
            }
            put_batch(&mut out, number, result);
            if out.len() >= CHUNK_BYTES {
                sink(&out);
                out.clear();
            }
        });
        if !out.is_empty() {
            sink(&out);
            out.clear();
        }
        self.for_each_in_order(|slot| {
            if out.is_empty() {
                out.extend_from_slice(&[SNAPSHOT_MARK, VERSION_1, MESSAGES]);
            }
            let start = out.len();
            self.write_message(slot, &mut out);
            if self.write_fields(slot, &mut out) {
                out[start] |= HAS_FIELDS;
            }
            if out[start] > LAST_OF_VERSION_1 {
                out[VERSION_AT] = VERSION_2;
            }
            if out.len() >= CHUNK_BYTES {
                sink(&out);
                out.clear();
            }
        });
        if !out.is_empty() {
            sink(&out);
        }
        self.write_results(&[SNAPSHOT_MARK, VERSION_2, MESSAGES], CHUNK_BYTES, sink);
    }

    /// Visits every message: the ready ones in their order, then the schedule by due time, then
    /// what follows a batch, then the dead letters from the oldest on.
    fn for_each_in_order(&self, mut visit: impl FnMut(u32)) {
        self.for_each_ready(&mut visit);
        // A list of the schedule holds mixed due times, and while one is being dealt out several
        // lists hold the same. Equal due times stay in the order they were put in.
        let mut batch: Vec<u32> = Vec::new();
        let mut flush = |batch: &mut Vec<u32>| {
            batch.sort_by_key(|slot| self.messages.get(*slot).due());
            batch.drain(..).for_each(&mut visit);
        };
        for (_, list) in self.wheel.lists() {
            batch.extend(list.iter(&self.messages));
            if !self.wheel.is_draining() {
                flush(&mut batch);
            }
        }
        flush(&mut batch);
        let waiting = self.waiting_list().into_iter();
        let waiting = waiting.flat_map(|list| list.iter(&self.messages));
        waiting.for_each(&mut visit);
        self.dead.iter(&self.messages).for_each(&mut visit);
    }

    fn write_message(&self, slot: u32, out: &mut Vec<u8>) {
        let message = self.messages.get(slot);
        let state = message.state();
        out.push(match state {
            State::Ready { .. } => READY,
            State::Delayed { .. } => DELAYED,
            State::Locked { .. } => LOCKED,
            State::Done { .. } => DONE,
            State::Waiting => WAITING,
            State::Dead { cause, .. } => match cause {
                Cause::Failed => FAILED,
                Cause::NoAttemptsLeft => NO_ATTEMPTS_LEFT,
                Cause::LastLockExpired => LAST_LOCK_EXPIRED,
                Cause::Expired => EXPIRED,
            },
        });
        put_key(out, &message.key());
        self.content(slot).write(out);
        put_number(out, u64::from(message.attempts));
        let value = |token: Option<Token>| token.map_or(0, Token::value);
        match state {
            State::Ready { token, .. } | State::Dead { token, .. } => {
                put_number(out, value(token));
            }
            State::Delayed { due: at } | State::Done { until: at } => put_number(out, at.millis()),
            State::Locked { until, token } => {
                put_number(out, until.millis());
                put_number(out, token.value());
            }
            State::Waiting => {}
        }
        let (copy, reason) = (self.copy(slot), self.reason(slot));
        let has_copy = if copy.is_some() { HAS_COPY } else { 0 };
        out.push(has_copy | if reason.is_some() { HAS_REASON } else { 0 });
        if let Some(copy) = copy {
            Content::of(copy).write(out);
            put_start(out, copy.start);
        }
        if let Some(reason) = reason {
            put_bytes(out, reason);
        }
    }

    /// What the producer said of the message.
    fn content(&self, slot: u32) -> Content<'_> {
        let message = self.messages.get(slot);
        Content {
            payload: message.payload(),
            limits: message.limits(),
            priority: message.priority(),
            enqueued: message.enqueued(),
            extras: Extras {
                headers: message.headers(),
                group: self.group_name(message),
                expiry: self.expiry(slot),
                retain: message.retain(),
                batch: message.batch().unwrap_or_default(),
                scheduled: message.scheduled(),
            },
        }
    }

    /// Totals that version 1 does not count.
    fn write_totals(&self, out: &mut Vec<u8>) {
        if self.totals.expired != 0 {
            put_numbers(out, TOTAL_EXPIRED, &[self.totals.expired]);
        }
        if self.totals.redriven != 0 {
            put_numbers(out, TOTAL_REDRIVEN, &[self.totals.redriven]);
        }
        if self.totals.dropped != 0 {
            put_numbers(out, TOTAL_DROPPED, &[self.totals.dropped]);
        }
        self.write_latency(|field, value| put_field(out, field, value));
    }

    /// What version 1 cannot say of a message; false if there is nothing.
    fn write_fields(&self, slot: u32, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let message = self.messages.get(slot);
        if let State::Ready { since, .. } = message.state() {
            if since != message.enqueued() {
                put_numbers(out, SINCE, &[since.millis()]);
            }
        }
        let content = self.content(slot);
        content.extras.put_first_fields(out);
        let extras = self.copy(slot).map(WaitingCopy::extras);
        if let Some(extras) = extras.filter(|extras| !extras.is_none()) {
            let mut fields = Vec::new();
            extras.put_fields(&mut fields);
            end_fields(&mut fields);
            put_field(out, COPY, &fields);
        }
        if self.holds_group(slot) {
            put_field(out, HOLDS, &[]);
        }
        if let Some(place) = self.place(slot) {
            put_numbers(out, PLACE, &[place.value()]);
        }
        if let State::Dead { died, .. } = message.state() {
            put_numbers(out, DIED, &[died.millis()]);
        }
        if self.batches.is_some() && message.state() != State::Waiting && self.is_follow_up(slot) {
            put_field(out, FOLLOWS, &[]);
        }
        content.extras.put_last_fields(out);
        let any = out.len() > start;
        if any {
            end_fields(out);
        }
        any
    }

    /// Takes in one chunk behind those before. Returns how much the header says is to follow.
    pub(crate) fn read_chunk(&mut self, chunk: &[u8]) -> Result<Option<Expected>, Damaged> {
        let mut reader = Reader::new(chunk);
        if reader.byte()? != SNAPSHOT_MARK {
            return Err(Damaged("not a chunk of a snapshot"));
        }
        let version = reader.byte()?;
        if !(VERSION_1..=VERSION_2).contains(&version) {
            return Err(Damaged("a snapshot of an unknown version"));
        }
        match reader.byte()? {
            HEADER => {
                let messages = self.read_totals(&mut reader)?;
                let mut results = 0;
                let mut schedules = 0;
                if version == VERSION_2 {
                    read_fields(&mut reader, |field| match field.number {
                        AHEAD => {
                            let ahead_ms = field.read(Reader::number)?;
                            if !self.can_be_ahead(ahead_ms) {
                                return Err(Damaged("a queue's time that is ahead of all times"));
                            }
                            self.ahead_ms = ahead_ms;
                            Ok(())
                        }
                        SCHEDULES_IN_ALL => {
                            schedules = field.read(Reader::number)?;
                            Ok(())
                        }
                        TOTAL_EXPIRED => {
                            self.totals.expired = field.read(Reader::number)?;
                            Ok(())
                        }
                        TOTAL_REDRIVEN => {
                            self.totals.redriven = field.read(Reader::number)?;
                            Ok(())
                        }
                        TOTAL_DROPPED => {
                            self.totals.dropped = field.read(Reader::number)?;
                            Ok(())
                        }
                        RESULTS => {
                            results = field.read(Reader::number)?;
                            Ok(())
                        }
                        _ if self.read_latency(field)? => Ok(()),
                        _ => self.read_bound(field),
                    })?;
                }
                if !reader.is_empty() {
                    return Err(Damaged("bytes behind the header"));
                }
                Ok(Some(Expected {
                    messages,
                    results,
                    schedules,
                }))
            }
            MESSAGES => {
                while !reader.is_empty() {
                    self.read_message(&mut reader, version)?;
                }
                Ok(None)
            }
            GROUPS if version == VERSION_2 => {
                while !reader.is_empty() {
                    self.read_group(&mut reader)?;
                }
                Ok(None)
            }
            BATCHES if version == VERSION_2 => {
                while !reader.is_empty() {
                    self.read_batch(&mut reader)?;
                }
                Ok(None)
            }
            SCHEDULES if version == VERSION_2 => {
                while !reader.is_empty() {
                    let definition = Definition::read(&mut reader)?;
                    if self.find_schedule(definition.name).is_some() {
                        return Err(Damaged("a schedule that is there twice"));
                    }
                    self.take_schedule(&definition);
                }
                Ok(None)
            }
            _ => Err(Damaged("an unknown chunk")),
        }
    }

    fn read_totals(&mut self, reader: &mut Reader<'_>) -> Result<u64, Damaged> {
        if !self.is_empty() || self.schedules.is_some() {
            return Err(Damaged("a header behind messages"));
        }
        let frame = Frame::read(reader)?;
        let last_token = reader.number_to(Token::MAX.value())?;
        let mut total = || reader.number();
        let totals = Totals {
            enqueued: total()?,
            delivered: total()?,
            done: total()?,
            retried: total()?,
            dead: total()?,
            expired_locks: total()?,
            expired: 0,
            redriven: 0,
            dropped: 0,
        };
        let paused = match reader.byte()? {
            0 => false,
            PAUSED => true,
            _ => return Err(Damaged("unknown flags")),
        };
        let expected = reader.number()?;
        (self.frame, self.last_token, self.totals) = (frame, last_token, totals);
        if paused {
            self.bounds_or_new().pause = Some(Timestamp::ZERO);
        }
        self.keep_up();
        Ok(expected)
    }

    fn read_message(&mut self, reader: &mut Reader<'_>, version: u8) -> Result<(), Damaged> {
        let mut tag = reader.byte()?;
        let has_fields = version == VERSION_2 && tag & HAS_FIELDS != 0;
        if has_fields {
            tag &= !HAS_FIELDS;
        }
        let key = read_key(reader)?;
        if version == VERSION_2 && tag == RESULT {
            return self.read_result(key, reader, has_fields);
        }
        let mut content = Content::read(reader)?;
        let attempts = reader.number_to(u64::from(u32::MAX))? as u32;
        let last_token = self.last_token;
        let open = |reader: &mut Reader<'_>| match read_token(reader)? {
            Some(token) if token.value() > last_token => {
                Err(Damaged("a token that is still to be given"))
            }
            token => Ok(token),
        };
        // Where nothing is said of it: no later than the last step.
        let died = self.death(self.frame.instant());
        let mut state = match tag {
            READY => State::Ready {
                since: content.enqueued,
                token: open(reader)?,
            },
            DELAYED => State::Delayed {
                due: read_instant(reader)?,
            },
            LOCKED => {
                let until = read_instant(reader)?;
                let token = open(reader)?.ok_or(Damaged("a lock without a token"))?;
                State::Locked { until, token }
            }
            DONE => State::Done {
                until: read_instant(reader)?,
            },
            WAITING if version == VERSION_2 => State::Waiting,
            FAILED => State::Dead {
                token: open(reader)?,
                cause: Cause::Failed,
                died,
            },
            NO_ATTEMPTS_LEFT => State::Dead {
                token: open(reader)?,
                cause: Cause::NoAttemptsLeft,
                died,
            },
            LAST_LOCK_EXPIRED => State::Dead {
                token: open(reader)?,
                cause: Cause::LastLockExpired,
                died,
            },
            EXPIRED if version == VERSION_2 => State::Dead {
                token: open(reader)?,
                cause: Cause::Expired,
                died,
            },
            _ => return Err(Damaged("an unknown state")),
        };
        let rare = reader.byte()?;
        if rare & !(HAS_COPY | HAS_REASON) != 0 {
            return Err(Damaged("unknown flags of a message"));
        }
        let mut copy = None;
        if rare & HAS_COPY != 0 {
            let content = Content::read(reader)?;
            copy = Some((content, read_start(reader)?));
        }
        let reason = if rare & HAS_REASON != 0 {
            Some(reader.bytes()?)
        } else {
            None
        };
        let newest_death = self.death(Timestamp::ZERO);
        let mut holds = false;
        let mut place = None;
        let mut follows = state == State::Waiting;
        if has_fields {
            read_fields(reader, |field| {
                match (field.number, &mut state, &mut copy) {
                    (SINCE, State::Ready { since, .. }, _) => {
                        *since = field.read(read_instant)?;
                        Ok(())
                    }
                    (DIED, State::Dead { died: at, .. }, _) => {
                        *at = field.read(read_instant)?;
                        if *at < newest_death {
                            return Err(Damaged("dead letters that are not in their order"));
                        }
                        Ok(())
                    }
                    (COPY, _, Some((content, _))) => {
                        field.read(|reader| {
                            read_fields(reader, |field| content.extras.take(field))
                        })?;
                        no_batch(content)
                    }
                    (HOLDS, state, _) if state.may_hold() => {
                        holds = true;
                        field.read(|_| Ok(()))
                    }
                    (PLACE, State::Ready { token: None, .. } | State::Locked { .. }, _) => {
                        place = field.read(open)?;
                        Ok(())
                    }
                    (FOLLOWS, state, _) if *state != State::Waiting => {
                        follows = true;
                        field.read(|_| Ok(()))
                    }
                    (SINCE | DIED | COPY | HOLDS | PLACE | FOLLOWS, ..) => {
                        Err(Damaged("a field that the message cannot have"))
                    }
                    _ => content.extras.take(field),
                }
            })?;
        }

        let hash = self.hash(&key);
        let dead = matches!(state, State::Dead { .. });
        let taken = if dead {
            self.find_letter(&key)
        } else {
            self.find_live(&key)
        }
        .is_some();
        if taken {
            return Err(Damaged("an id that is there twice"));
        }
        if !dead && !matches!(state, State::Done { .. }) && self.result_of(&key).is_some() {
            return Err(Damaged("a message that is not finished and has a result"));
        }
        if dead && copy.is_some() {
            return Err(Damaged("a dead letter with a waiting copy"));
        }
        let is_ready = matches!(state, State::Ready { .. });
        let may_stand = |place| !is_ready || self.may_follow(content.priority, place);
        let has_group = !content.extras.group.is_empty();
        if place.is_some_and(|place| has_group || !may_stand(place)) {
            return Err(Damaged("released messages that are not in their order"));
        }
        let ended = matches!(state, State::Done { .. } | State::Dead { .. });
        if ended && content.extras.expiry.is_some() {
            return Err(Damaged("a message that has ended and expires"));
        }
        let batch = content.extras.batch;
        let is_member = batch != 0 && !follows;
        if (follows && !self.may_follow_batch(batch))
            || (is_member && (ended || !self.has_batch(batch)))
        {
            return Err(Damaged("a message of a batch that it cannot belong to"));
        }
        let waits = state == State::Waiting;
        let may_wait = self.has_open_members(batch);
        if waits && (has_group || content.extras.expiry.is_some() || copy.is_some() || !may_wait) {
            return Err(Damaged("a follow-up that has what it cannot have"));
        }
        let own = self.own_of(&content);
        let Content {
            payload,
            priority,
            enqueued,
            ..
        } = content;
        let mut message = Message::new(key, hash, payload, &own, priority, enqueued);
        message.attempts = attempts;
        let slot = self.hold(message);
        if batch != 0 {
            self.enter_batch(slot, batch, follows);
        }
        if let Some((content, start)) = copy {
            self.set_copy(slot, WaitingCopy::new(&content, start));
        }
        if dead {
            self.bury_loaded(slot, state, reason);
        } else {
            if reason.is_some() {
                self.set_reason(slot, reason);
            }
            self.live.insert(&self.messages, slot, self.frame.next_id);
            self.hold_group(slot, holds)?;
            self.link(slot, state);
            self.start_timer(slot);
            if !holds {
                self.hold_no_group(slot);
            }
            if let Some(place) = place {
                self.take_place(slot, place);
            }
        }
        Ok(())
    }
}

/// A waiting copy is a member of no batch.
fn no_batch(content: &Content<'_>) -> Result<(), Damaged> {
    match content.extras.batch {
        0 => Ok(()),
        _ => Err(Damaged("a copy of a batch")),
    }
}

/// How much a header says is to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    messages: u64,
    results: u64,
    schedules: u64,
}

/// Builds a queue from the chunks of [`Queue::snapshot`], whatever the bytes.
#[derive(Debug)]
pub struct Loader {
    queue: Queue,
    expected: Option<Expected>,
}

impl Loader {
    /// Nothing read yet; `seed` as in [`Queue::new`].
    pub fn new(seed: u64) -> Self {
        Self {
            queue: Queue::new(seed),
            expected: None,
        }
    }

    /// Takes in the next chunk.
    ///
    /// # Errors
    /// If the bytes are no such chunk; the loader is then of no more use.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), Damaged> {
        let expected = self.queue.read_chunk(chunk)?;
        if expected.is_some() == self.expected.is_some() {
            return Err(Damaged("not one header in front"));
        }
        self.expected = self.expected.or(expected);
        Ok(())
    }

    /// How many messages are still to come; none before the header.
    pub fn missing(&self) -> Option<u64> {
        let expected = self.expected?.messages;
        Some(expected.saturating_sub(self.queue.len() as u64))
    }

    /// The queue.
    ///
    /// # Errors
    /// If there are not as many messages, results and schedules as the header says.
    pub fn finish(self) -> Result<Queue, Damaged> {
        if !self.queue.are_batches_met() {
            return Err(Damaged("a batch that has no messages"));
        }
        let there = Expected {
            messages: self.queue.len() as u64,
            results: self.queue.results_len() as u64,
            schedules: self.queue.schedules_len() as u64,
        };
        if self.expected == Some(there) {
            Ok(self.queue)
        } else {
            Err(Damaged("not the number of messages that the header names"))
        }
    }
}
