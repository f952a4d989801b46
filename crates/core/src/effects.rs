//! What a step changed, in the form that replicas and the append-only file get.
//!
//! Each message-level change is one effect with explicit ids, tokens and absolute times
//! (docs/format.md). In front of them stands the *frame*: the moment of the command, the seed of
//! the ids made in it, and the default lock. Applying effects sets the frame on the replica too.
//! From then on, within the same millisecond, the three simplest steps (a new message added,
//! messages handed over in order, a message finished) follow from the command's own words and the
//! queue's state, frame included. For those the log says [`Replication::Verbatim`].

use crate::codec::{put_bytes, put_number, Damaged, Reader};
use crate::copies::Copy;
use crate::done::Finish;
use crate::enqueue::Start;
use crate::id::{Key, MAX_ID_BYTES};
use crate::message::Limits;
use crate::queue::Queue;
use crate::types::{Instant, Now, Priority, Settings, Span, Token, MAX_SPAN_MS};

/// Memory a log keeps from one turn to the next, for each queue.
const KEPT_BYTES: usize = 1024;

/// How many messages time may move on in one turn: about a fifth of a millisecond's work.
const TIME_BUDGET: usize = 1024;

/// One command's turn at a queue: what it may know of the world, and where its effects go.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(crate) now: Now,
    pub(crate) random: u64,
    pub(crate) settings: &'a Settings,
    pub(crate) log: &'a mut Log,
    pub(crate) budget: usize,
}

impl<'a> Turn<'a> {
    /// A turn at `now` with 64 fresh random bits. The log is emptied.
    #[inline]
    pub fn new(now: Now, random: u64, settings: &'a Settings, log: &'a mut Log) -> Self {
        log.clear();
        Self {
            now,
            random,
            settings,
            log,
            budget: TIME_BUDGET,
        }
    }

    /// Another share of work for what time does.
    pub(crate) fn renew_budget(&mut self) {
        self.budget = TIME_BUDGET;
    }

    /// Lets the log spell out every effect: there is no client's command that replicas could run.
    pub fn spell_out(&mut self) {
        self.log.spelled_out = true;
    }
}

/// The effects of one turn.
#[derive(Debug, Default)]
pub struct Log {
    bytes: Vec<u8>,
    verbatim: bool,
    /// The effects must be in `bytes`, because the frame is new or nobody sent a command.
    spelled_out: bool,
}

/// What must be sent to replicas and the append-only file after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication<'a> {
    /// Nothing changed.
    Nothing,
    /// The client's command as it came; replicas run it through one of `Queue::replay_*`.
    Verbatim,
    /// These bytes, for [`Queue::apply`].
    Effects(&'a [u8]),
}

impl Log {
    #[inline]
    fn clear(&mut self) {
        self.bytes.clear();
        self.verbatim = false;
        self.spelled_out = false;
    }

    /// Gives back what a large turn has taken.
    #[inline]
    pub fn trim(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Bytes that are held for the next turn.
    pub fn bytes_held(&self) -> usize {
        self.bytes.capacity()
    }

    /// What the turn changed.
    #[inline]
    pub fn replication(&self) -> Replication<'_> {
        if self.verbatim {
            Replication::Verbatim
        } else if self.bytes.is_empty() {
            Replication::Nothing
        } else {
            Replication::Effects(&self.bytes)
        }
    }
}

/// What replicas know of the moment: see the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub now_us: u64,
    pub seed: u64,
    /// The number of the next id that the queue makes, modulo 2^32.
    pub next_id: u32,
    pub lock: Span,
}

/// Version of the effects' encoding, the first byte of every log.
const EFFECTS_VERSION: u8 = 1;
const FRAME_BYTES: usize = 8 + 8 + 4 + 8;
const HEADER: usize = 1 + FRAME_BYTES;

impl Frame {
    #[inline]
    pub fn instant(&self) -> Instant {
        Now::from_micros(self.now_us).instant()
    }

    pub fn bytes(&self) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out[..8].copy_from_slice(&self.now_us.to_le_bytes());
        out[8..16].copy_from_slice(&self.seed.to_le_bytes());
        out[16..20].copy_from_slice(&self.next_id.to_le_bytes());
        out[20..].copy_from_slice(&self.lock.millis().to_le_bytes());
        out
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut eight = || -> Result<u64, Damaged> {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(reader.take(8)?);
            Ok(u64::from_le_bytes(bytes))
        };
        let (now_us, seed) = (eight()?, eight()?);
        let mut next_id = [0; 4];
        next_id.copy_from_slice(reader.take(4)?);
        let mut lock = [0; 8];
        lock.copy_from_slice(reader.take(8)?);
        let lock = u64::from_le_bytes(lock);
        if now_us > Token::MAX.value() || lock > MAX_SPAN_MS {
            return Err(Damaged("the frame is out of range"));
        }
        let lock = Span::from_millis(lock);
        Ok(Self {
            now_us,
            seed,
            next_id: u32::from_le_bytes(next_id),
            lock,
        })
    }
}

/// One change of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect<'a> {
    Add {
        key: Key<'a>,
        content: Content<'a>,
        due: Instant,
    },
    Update {
        key: Key<'a>,
        content: Content<'a>,
        time: NewTime,
    },
    Requeue {
        key: Key<'a>,
        content: Content<'a>,
        start: Start,
    },
    Deliver {
        key: Key<'a>,
        lock: Span,
        token: Token,
    },
    Due {
        key: Key<'a>,
    },
    End {
        key: Key<'a>,
        finish: Finish<'a>,
    },
    Extend {
        key: Key<'a>,
        until: Instant,
    },
    Cancel {
        key: Key<'a>,
    },
    Forget {
        key: Key<'a>,
    },
    Revive {
        key: Key<'a>,
    },
}

/// What a producer said of a message, and when it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub payload: &'a [u8],
    pub limits: Limits,
    pub priority: Priority,
    pub enqueued: Instant,
}

/// What an update does to the time of a queued message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewTime {
    Keep,
    Ready,
    At(Instant),
}

impl Queue {
    /// Makes the frame that of this turn. Called only where something changes, since a frame that
    /// replicas do not get must not be used.
    #[inline]
    pub(crate) fn enter_frame(&mut self, turn: &mut Turn<'_>) {
        let current =
            self.frame.instant() == turn.now.instant() && self.frame.lock == turn.settings.lock;
        if !current {
            let (now_us, seed) = (turn.now.micros(), turn.random);
            let lock = turn.settings.lock;
            self.frame = Frame {
                now_us,
                seed,
                lock,
                ..self.frame
            };
            turn.log.spelled_out = true;
        }
    }

    /// Whether the only change of this turn may be left to replicas to work out. If so, nothing
    /// else may be changed in this turn.
    #[inline]
    pub(crate) fn emit_verbatim(&mut self, turn: &mut Turn<'_>) -> bool {
        let log = &mut *turn.log;
        log.verbatim = !log.spelled_out && log.bytes.is_empty();
        log.verbatim
    }

    pub(crate) fn emit(&self, turn: &mut Turn<'_>, effect: &Effect<'_>) {
        let out = &mut turn.log.bytes;
        if out.is_empty() {
            out.resize(HEADER, 0);
            out[0] = EFFECTS_VERSION;
        }
        out[1..HEADER].copy_from_slice(&self.frame.bytes());
        effect.write(out);
    }
}

/// Reads the frame in front of effects.
pub(crate) fn read_header(reader: &mut Reader<'_>) -> Result<Frame, Damaged> {
    if reader.byte()? != EFFECTS_VERSION {
        return Err(Damaged("effects of an unknown version"));
    }
    Frame::read(reader)
}

const ADD: u8 = 1;
const UPDATE: u8 = 2;
const REQUEUE: u8 = 3;
const DELIVER: u8 = 4;
const DUE: u8 = 5;
const SUCCESS: u8 = 6;
const RETRY: u8 = 7;
const ERROR: u8 = 8;
const RELEASE: u8 = 9;
const EXTEND: u8 = 10;
const CANCEL: u8 = 11;
const FORGET: u8 = 12;
const REVIVE: u8 = 13;

const TIME_KEPT: u64 = 0;
const TIME_READY: u64 = 1;

impl<'a> Effect<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        let head = |out: &mut Vec<u8>, tag: u8, key: &Key<'_>| {
            out.push(tag);
            put_key(out, key);
        };
        match self {
            Self::Add { key, content, due } => {
                head(out, ADD, key);
                content.write(out);
                put_number(out, due.millis());
            }
            Self::Update { key, content, time } => {
                head(out, UPDATE, key);
                content.write(out);
                let time = match time {
                    NewTime::Keep => TIME_KEPT,
                    NewTime::Ready => TIME_READY,
                    NewTime::At(due) => due.millis().max(TIME_READY),
                };
                put_number(out, time);
            }
            Self::Requeue {
                key,
                content,
                start,
            } => {
                head(out, REQUEUE, key);
                content.write(out);
                put_start(out, *start);
            }
            Self::Deliver { key, lock, token } => {
                head(out, DELIVER, key);
                put_number(out, lock.millis());
                put_number(out, token.value());
            }
            Self::Due { key } => head(out, DUE, key),
            Self::End { key, finish } => match finish {
                Finish::Success { until } => {
                    head(out, SUCCESS, key);
                    put_number(out, until.map_or(0, Instant::millis));
                }
                Finish::Retry { until } => {
                    head(out, RETRY, key);
                    put_number(out, until.map_or(0, Instant::millis));
                }
                Finish::Error { reason } => {
                    head(out, ERROR, key);
                    out.push(u8::from(reason.is_some()));
                    put_bytes(out, reason.unwrap_or_default());
                }
                Finish::Release => head(out, RELEASE, key),
            },
            Self::Extend { key, until } => {
                head(out, EXTEND, key);
                put_number(out, until.millis());
            }
            Self::Cancel { key } => head(out, CANCEL, key),
            Self::Forget { key } => head(out, FORGET, key),
            Self::Revive { key } => head(out, REVIVE, key),
        }
    }

    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Damaged> {
        let tag = reader.byte()?;
        let key = read_key(reader)?;
        let optional = |reader: &mut Reader<'_>| -> Result<Option<Instant>, Damaged> {
            let instant = read_instant(reader)?;
            Ok((instant != Instant::ZERO).then_some(instant))
        };
        Ok(match tag {
            ADD => {
                let content = Content::read(reader)?;
                Self::Add {
                    key,
                    content,
                    due: read_instant(reader)?,
                }
            }
            UPDATE => {
                let content = Content::read(reader)?;
                let time = match read_instant(reader)? {
                    due if due.millis() == TIME_KEPT => NewTime::Keep,
                    due if due.millis() == TIME_READY => NewTime::Ready,
                    due => NewTime::At(due),
                };
                Self::Update { key, content, time }
            }
            REQUEUE => {
                let content = Content::read(reader)?;
                Self::Requeue {
                    key,
                    content,
                    start: read_start(reader)?,
                }
            }
            DELIVER => {
                let lock = read_span(reader)?;
                let token = read_token(reader)?.ok_or(Damaged("a delivery without a token"))?;
                Self::Deliver { key, lock, token }
            }
            DUE => Self::Due { key },
            SUCCESS => Self::End {
                key,
                finish: Finish::Success {
                    until: optional(reader)?,
                },
            },
            RETRY => Self::End {
                key,
                finish: Finish::Retry {
                    until: optional(reader)?,
                },
            },
            ERROR => {
                let given = match reader.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Damaged("unknown flags of a reason")),
                };
                let reason = reader.bytes()?;
                Self::End {
                    key,
                    finish: Finish::Error {
                        reason: given.then_some(reason),
                    },
                }
            }
            RELEASE => Self::End {
                key,
                finish: Finish::Release,
            },
            EXTEND => Self::Extend {
                key,
                until: read_instant(reader)?,
            },
            CANCEL => Self::Cancel { key },
            FORGET => Self::Forget { key },
            REVIVE => Self::Revive { key },
            _ => return Err(Damaged("an unknown effect")),
        })
    }
}

impl<'a> Content<'a> {
    pub fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.payload);
        put_number(out, u64::from(self.limits.attempts));
        put_number(out, self.limits.lock.millis());
        out.push(self.priority.level());
        put_number(out, self.enqueued.millis());
    }

    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Damaged> {
        let payload = reader.bytes()?;
        let attempts = reader.number_to(u64::from(u32::MAX))? as u32;
        let lock = read_span(reader)?;
        let priority = Priority::new(reader.byte()?).ok_or(Damaged("an unknown priority"))?;
        let enqueued = read_instant(reader)?;
        Ok(Self {
            payload,
            limits: Limits { attempts, lock },
            priority,
            enqueued,
        })
    }

    pub fn of(copy: &'a Copy) -> Self {
        Self {
            payload: &copy.payload,
            limits: copy.limits,
            priority: copy.priority,
            enqueued: copy.enqueued,
        }
    }
}

pub(crate) fn put_key(out: &mut Vec<u8>, key: &Key<'_>) {
    let stored = key.stored();
    put_number(out, (stored.len() as u64) << 1 | u64::from(key.is_uuid()));
    out.extend_from_slice(stored);
}

pub(crate) fn read_key<'a>(reader: &mut Reader<'a>) -> Result<Key<'a>, Damaged> {
    let shape = reader.number_to((MAX_ID_BYTES as u64) << 1 | 1)?;
    let stored = reader.take((shape >> 1) as usize)?;
    let key = match (shape & 1, <[u8; 16]>::try_from(stored)) {
        (0, _) => Key::Bytes(stored),
        (_, Ok(uuid)) => Key::Uuid(uuid),
        _ => return Err(Damaged("a UUID of another length")),
    };
    // The text of a UUID must be stored as one, or the id would be there twice.
    if stored.is_empty() || (!key.is_uuid() && Key::of(stored).is_uuid()) {
        return Err(Damaged("an id in a form it cannot have"));
    }
    Ok(key)
}

pub(crate) fn put_start(out: &mut Vec<u8>, start: Start) {
    let (kind, value) = match start {
        Start::Default => (0, 0),
        Start::After(span) => (1, span.millis()),
        Start::At(instant) => (2, instant.millis()),
    };
    out.push(kind);
    put_number(out, value);
}

pub(crate) fn read_start(reader: &mut Reader<'_>) -> Result<Start, Damaged> {
    Ok(match reader.byte()? {
        0 => reader.number_to(0).map(|_| Start::Default)?,
        1 => Start::After(read_span(reader)?),
        2 => Start::At(read_instant(reader)?),
        _ => return Err(Damaged("an unknown start")),
    })
}

pub(crate) fn read_instant(reader: &mut Reader<'_>) -> Result<Instant, Damaged> {
    Ok(Instant::from_millis(
        reader.number_to(Instant::MAX.millis())?,
    ))
}

pub(crate) fn read_span(reader: &mut Reader<'_>) -> Result<Span, Damaged> {
    Ok(Span::from_millis(reader.number_to(MAX_SPAN_MS)?))
}

/// A token; none is written as zero.
pub(crate) fn read_token(reader: &mut Reader<'_>) -> Result<Option<Token>, Damaged> {
    let value = reader.number_to(Token::MAX.value())?;
    Ok((value != 0).then_some(Token::new(value)))
}
