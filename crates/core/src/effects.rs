//! The changes that a step makes to a queue, in the form that replicas and the append-only file get:
//! one effect a message, with explicit ids, tokens and absolute times (docs/format.md).
//!
//! What version 1 cannot say follows as fields, or as effects of later kinds; only a log with any of
//! those is of version 2.

use crate::batches::read_batch_number;
use crate::codec::{put_bytes, put_number, Damaged, Reader};
use crate::copies::WaitingCopy;
use crate::done::Finish;
use crate::enqueue::{Start, MAX_HEADER_BYTES};
use crate::expiry::Expiry;
use crate::fields::{end_fields, put_field, put_numbers, read_fields, Field};
use crate::groups::MAX_GROUP_BYTES;
use crate::id::{Key, MAX_ID_BYTES};
use crate::limits::{QueueLimits, Scope};
use crate::limits_form::{
    pause_number, put_limits, put_scope, read_limits, read_pause, read_scope,
};
use crate::message::{Limits, Own};
use crate::released::Return;
use crate::schedules::{Definition, RunOutcome};
use crate::types::{Priority, Span, Timestamp, Token, MAX_SPAN_MS};

/// One change of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect<'a> {
    Add {
        key: Key<'a>,
        content: Content<'a>,
        due: Timestamp,
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
        until: Timestamp,
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
    /// The time to live of a message that waits has ended.
    Expire {
        key: Key<'a>,
    },
    /// The result of a message that was just finished is kept until then, in place of an older one.
    Keep {
        key: Key<'a>,
        until: Timestamp,
        value: &'a [u8],
    },
    /// The result of an id goes.
    LetGo {
        key: Key<'a>,
    },
    /// A dead letter is sent again.
    Redrive {
        key: Key<'a>,
    },
    /// A new message that waits for the end of the batch that its content names. It is ready at the end of
    /// these effects if the batch has no messages by then.
    FollowUp {
        key: Key<'a>,
        content: Content<'a>,
    },
    /// A live message, or a dead letter, is removed, and the other of its id stays.
    Remove {
        key: Key<'a>,
        is_letter: bool,
    },
    /// Limits hold from now on, in place of those that there were.
    Limits {
        scope: Scope<'a>,
        limits: QueueLimits,
    },
    /// A pause of the queue, or of a group if its name is not empty, begins or is over.
    Pause {
        group: &'a [u8],
        until: Option<Timestamp>,
    },
    /// Time acts on a group: its pause or its rate.
    GroupDue {
        group: &'a [u8],
    },
    /// A schedule is made, or replaced.
    Schedule {
        definition: Definition<'a>,
    },
    /// A schedule goes.
    Unschedule {
        name: &'a [u8],
    },
    /// The time of a schedule's next run has come: what became of the run, and when the one after it is.
    Run {
        name: &'a [u8],
        outcome: RunOutcome,
        next: Option<Timestamp>,
    },
    /// Tokens go on behind this one.
    TokensAfter {
        token: Token,
    },
    /// The queue's own time is ahead of the server's by so much from now on.
    Ahead {
        ms: u64,
    },
}

/// What a producer said of a message, and when it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub payload: &'a [u8],
    pub limits: Limits,
    pub priority: Priority,
    pub enqueued: Timestamp,
    pub extras: Extras<'a>,
}

/// What few producers give beside: version 2 writes it as fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras<'a> {
    /// What the consumer gets beside the payload; empty for nothing.
    pub headers: &'a [u8],
    /// The name of its group; empty for none.
    pub group: &'a [u8],
    pub expiry: Option<Expiry>,
    /// How long its result is kept, if it says so.
    pub retain: Option<Span>,
    /// The number of the batch that a new message is a member of, or follows; 0 for none.
    pub batch: u32,
    /// The instant that its schedule meant; zero for a message of no schedule.
    pub scheduled: Timestamp,
}

/// What an update does to the time of a queued message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewTime {
    Keep,
    Ready,
    At(Timestamp),
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
const TOKENS_AFTER: u8 = 14;
/// Release, behind those released that stood before it; kinds from here on make version 2.
const RETURN: u8 = 15;
const EXPIRE: u8 = 16;
const AHEAD: u8 = 17;
const REDRIVE: u8 = 18;
const REMOVE: u8 = 19;
const KEEP: u8 = 20;
const LET_GO: u8 = 21;
const FOLLOW_UP: u8 = 24;
const LIMITS: u8 = 32;
const PAUSE: u8 = 33;
const GROUP_DUE: u8 = 34;
const SCHEDULE: u8 = 40;
const UNSCHEDULE: u8 = 41;
const RUN: u8 = 42;

/// The last effect that version 1 knows.
const LAST_OF_VERSION_1: u8 = TOKENS_AFTER;

/// Set in an effect's first byte: fields follow at its end.
const HAS_FIELDS: u8 = 0x80;

/// Version of effects without and with fields or later kinds.
const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;

const TIME_KEPT: u64 = 0;
const TIME_READY: u64 = 1;

impl<'a> Effect<'a> {
    /// Appends the effect; returns the version that a reader of it must know.
    pub fn write(&self, out: &mut Vec<u8>) -> u8 {
        let start = out.len();
        self.write_plain(out);
        let end = out.len();
        match self {
            Self::Add { content, .. }
            | Self::FollowUp { content, .. }
            | Self::Update { content, .. }
            | Self::Requeue { content, .. } => content.extras.put_fields(out),
            Self::End {
                finish:
                    Finish::Retry {
                        reason: Some(reason),
                        ..
                    },
                ..
            } => put_field(out, RETRY_REASON, reason),
            _ => {}
        }
        if out.len() > end {
            out[start] |= HAS_FIELDS;
            end_fields(out);
        }
        if out[start] <= LAST_OF_VERSION_1 {
            VERSION_1
        } else {
            VERSION_2
        }
    }

    fn write_plain(&self, out: &mut Vec<u8>) {
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
            Self::FollowUp { key, content } => {
                head(out, FOLLOW_UP, key);
                content.write(out);
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
                    put_number(out, until.map_or(0, Timestamp::millis));
                }
                Finish::Retry { until, .. } => {
                    head(out, RETRY, key);
                    put_number(out, until.map_or(0, Timestamp::millis));
                }
                Finish::Error { reason } => {
                    head(out, ERROR, key);
                    out.push(u8::from(reason.is_some()));
                    put_bytes(out, reason.unwrap_or_default());
                }
                Finish::Release { way } => match way {
                    Return::InFront => head(out, RELEASE, key),
                    Return::ToItsPlace => head(out, RETURN, key),
                },
            },
            Self::Extend { key, until } => {
                head(out, EXTEND, key);
                put_number(out, until.millis());
            }
            Self::Cancel { key } => head(out, CANCEL, key),
            Self::Forget { key } => head(out, FORGET, key),
            Self::Revive { key } => head(out, REVIVE, key),
            Self::Expire { key } => head(out, EXPIRE, key),
            Self::Keep { key, until, value } => {
                head(out, KEEP, key);
                put_number(out, until.millis());
                put_bytes(out, value);
            }
            Self::LetGo { key } => head(out, LET_GO, key),
            Self::Redrive { key } => head(out, REDRIVE, key),
            Self::Remove { key, is_letter } => {
                head(out, REMOVE, key);
                out.push(u8::from(*is_letter));
            }
            Self::Limits { scope, limits } => {
                out.push(LIMITS);
                put_scope(out, *scope);
                put_limits(out, limits);
            }
            Self::Pause { group, until } => {
                out.push(PAUSE);
                put_bytes(out, group);
                put_number(out, pause_number(*until));
            }
            Self::GroupDue { group } => {
                out.push(GROUP_DUE);
                put_bytes(out, group);
            }
            Self::Schedule { definition } => {
                out.push(SCHEDULE);
                definition.write(out);
            }
            Self::Unschedule { name } => {
                out.push(UNSCHEDULE);
                put_bytes(out, name);
            }
            Self::Run {
                name,
                outcome,
                next,
            } => {
                out.push(RUN);
                put_bytes(out, name);
                out.push(outcome.code());
                put_number(out, next.map_or(0, Timestamp::millis));
            }
            Self::TokensAfter { token } => {
                out.push(TOKENS_AFTER);
                put_number(out, token.value());
            }
            Self::Ahead { ms } => {
                out.push(AHEAD);
                put_number(out, *ms);
            }
        }
    }

    /// Reads an effect of a log of that version.
    pub fn read(reader: &mut Reader<'a>, version: u8) -> Result<Self, Damaged> {
        let tag = reader.byte()?;
        if version < VERSION_2 && tag > LAST_OF_VERSION_1 {
            return Err(Damaged("an effect of a later version"));
        }
        if tag & HAS_FIELDS == 0 {
            return Self::read_plain(reader, tag);
        }
        let mut effect = Self::read_plain(reader, tag & !HAS_FIELDS)?;
        read_fields(reader, |field| match &mut effect {
            Self::Add { content, .. } | Self::FollowUp { content, .. } => {
                content.extras.take(field)
            }
            Self::Update { content, .. } | Self::Requeue { content, .. }
                if field.number != BATCH =>
            {
                content.extras.take(field)
            }
            Self::End {
                finish: Finish::Retry { reason, .. },
                ..
            } if field.number == RETRY_REASON => {
                *reason = Some(field.bytes());
                Ok(())
            }
            _ => field.pass_over(),
        })?;
        Ok(effect)
    }

    fn read_plain(reader: &mut Reader<'a>, tag: u8) -> Result<Self, Damaged> {
        match tag {
            LIMITS => {
                let scope = read_scope(reader)?;
                let limits = read_limits(reader, scope)?;
                return Ok(Self::Limits { scope, limits });
            }
            PAUSE => {
                let group = reader.bytes()?;
                let until = read_pause(reader)?;
                if group.len() > MAX_GROUP_BYTES {
                    return Err(Damaged("the name of a group is too long"));
                }
                return Ok(Self::Pause { group, until });
            }
            GROUP_DUE => {
                let group = reader.bytes()?;
                return Ok(Self::GroupDue { group });
            }
            SCHEDULE => {
                let definition = Definition::read(reader)?;
                return Ok(Self::Schedule { definition });
            }
            UNSCHEDULE => {
                let name = reader.bytes()?;
                return Ok(Self::Unschedule { name });
            }
            RUN => {
                let name = reader.bytes()?;
                let outcome = RunOutcome::read(reader)?;
                let next = Some(read_instant(reader)?).filter(|next| *next != Timestamp::ZERO);
                return Ok(Self::Run {
                    name,
                    outcome,
                    next,
                });
            }
            AHEAD => {
                let ms = reader.number()?;
                return Ok(Self::Ahead { ms });
            }
            _ => {}
        }
        if tag == TOKENS_AFTER {
            let token = read_token(reader)?.ok_or(Damaged("tokens behind no token"))?;
            return Ok(Self::TokensAfter { token });
        }
        let key = read_key(reader)?;
        let optional = |reader: &mut Reader<'_>| -> Result<Option<Timestamp>, Damaged> {
            let instant = read_instant(reader)?;
            Ok((instant != Timestamp::ZERO).then_some(instant))
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
            FOLLOW_UP => Self::FollowUp {
                key,
                content: Content::read(reader)?,
            },
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
                    reason: None,
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
                finish: Finish::Release {
                    way: Return::InFront,
                },
            },
            RETURN => Self::End {
                key,
                finish: Finish::Release {
                    way: Return::ToItsPlace,
                },
            },
            EXTEND => Self::Extend {
                key,
                until: read_instant(reader)?,
            },
            CANCEL => Self::Cancel { key },
            FORGET => Self::Forget { key },
            REVIVE => Self::Revive { key },
            EXPIRE => Self::Expire { key },
            KEEP => Self::Keep {
                key,
                until: read_instant(reader)?,
                value: reader.bytes()?,
            },
            LET_GO => Self::LetGo { key },
            REDRIVE => Self::Redrive { key },
            REMOVE => Self::Remove {
                key,
                is_letter: reader.number_to(1)? == 1,
            },
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
            extras: Extras::default(),
        })
    }

    pub fn of(copy: &'a WaitingCopy) -> Self {
        Self {
            payload: &copy.payload,
            limits: copy.limits,
            priority: copy.priority,
            enqueued: copy.enqueued,
            extras: copy.extras(),
        }
    }

    /// What the message itself keeps of it, beside payload, priority and the number of its timer;
    /// `group` is the number of its group.
    #[inline]
    pub fn own(&self, group: Option<u32>) -> Own<'a> {
        Own {
            limits: self.limits,
            retain: self.extras.retain,
            headers: self.extras.headers,
            timer: None,
            group,
            batch: None,
            scheduled: self.extras.scheduled,
        }
    }
}

/// Fields of a content; [`snapshot`](crate::snapshot) numbers those of a message in the same row.
const HEADERS: u64 = 2;
const EXPIRY: u64 = 4;
const GROUP: u64 = 6;
const RETAIN: u64 = 10;
const BATCH: u64 = 8;
const SCHEDULED: u64 = 24;

/// The field of a retry.
const RETRY_REASON: u64 = 2;

impl<'a> Extras<'a> {
    #[inline]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub fn put_fields(&self, out: &mut Vec<u8>) {
        self.put_first_fields(out);
        self.put_last_fields(out);
    }

    /// Those in front of the fields that only a message has.
    pub fn put_first_fields(&self, out: &mut Vec<u8>) {
        if !self.headers.is_empty() {
            put_field(out, HEADERS, self.headers);
        }
        if let Some(expiry) = self.expiry {
            put_numbers(out, EXPIRY, &expiry.numbers());
        }
        if !self.group.is_empty() {
            put_field(out, GROUP, self.group);
        }
        if self.batch != 0 {
            put_numbers(out, BATCH, &[u64::from(self.batch)]);
        }
        if let Some(retain) = self.retain {
            put_numbers(out, RETAIN, &[retain.millis()]);
        }
    }

    /// Those behind them.
    pub fn put_last_fields(&self, out: &mut Vec<u8>) {
        if self.scheduled != Timestamp::ZERO {
            put_numbers(out, SCHEDULED, &[self.scheduled.millis()]);
        }
    }

    pub fn take(&mut self, field: Field<'a>) -> Result<(), Damaged> {
        match field.number {
            HEADERS => {
                self.headers = field.bytes();
                if self.headers.is_empty() || self.headers.len() > MAX_HEADER_BYTES {
                    return Err(Damaged("headers of a length they cannot have"));
                }
                Ok(())
            }
            EXPIRY => {
                self.expiry = Some(field.read(Expiry::read)?);
                Ok(())
            }
            GROUP => {
                self.group = field.read(read_group)?;
                Ok(())
            }
            RETAIN => {
                self.retain = Some(field.read(read_span)?);
                Ok(())
            }
            BATCH => {
                self.batch = field.read(read_batch_number)?;
                Ok(())
            }
            SCHEDULED => {
                self.scheduled = field.read(read_instant)?;
                Ok(())
            }
            _ => field.pass_over(),
        }
    }
}

/// The name of a group, as the value of a field or behind its length.
pub(crate) fn read_group<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Damaged> {
    let name = reader.rest();
    if name.is_empty() || name.len() > MAX_GROUP_BYTES {
        return Err(Damaged("the name of a group of a length it cannot have"));
    }
    Ok(name)
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

pub(crate) fn read_instant(reader: &mut Reader<'_>) -> Result<Timestamp, Damaged> {
    Ok(Timestamp::from_millis(
        reader.number_to(Timestamp::MAX.millis())?,
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
