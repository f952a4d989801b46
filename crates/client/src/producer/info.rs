//! What the server tells of a queue and of a message.

use std::{
    convert::Infallible,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redis::Value;

use super::batch::BatchResult;
use crate::{
    message::{headers::Headers, id::MessageId, status::Status},
    reply::{batch, bytes, fields, int, status, text, unsigned},
};

/// The state of a queue at one moment, as `MQ.INFO` tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueInfo {
    /// All messages, whatever their status.
    pub messages: u64,
    /// Messages that are ready.
    pub queued: u64,
    /// Messages that wait for a delay or a retry's pause to end.
    pub queued_with_backoff: u64,
    /// Messages with a consumer.
    pub locked: u64,
    /// Messages with a consumer and a copy to run afterwards.
    pub locked_with_requeue: u64,
    /// Finished messages whose dedupe window runs.
    pub done_with_backoff: u64,
    /// The same, with a copy to run afterwards.
    pub done_with_requeue: u64,
    /// Finished messages whose window has ended, not swept yet.
    pub done_awaiting_gc: u64,
    /// Dead letters.
    pub dead: u64,
    /// Messages that follow a batch which has not ended.
    pub follow_ups: u64,
    /// The message that is delivered next.
    pub next_id: Option<MessageId>,
    /// The newest message in the ready order.
    pub last_id: Option<MessageId>,
    /// Until time alone next moves a message; `None` is never.
    pub next_due: Option<Duration>,
    /// How long the oldest ready message has been waiting.
    pub oldest_queued: Option<Duration>,
    /// What is left of the wait that all polling workers share.
    pub shared_wait: Duration,
    /// Polls in a row that found nothing, as the shared wait counts them.
    pub dry_runs: u64,
    /// Whether deliveries are paused.
    pub paused: bool,
    /// When the pause ends, on the server's clock; `None` if there is none, or it lasts until it
    /// is [resumed](crate::Queue::resume).
    pub paused_until: Option<SystemTime>,
    /// What keeps all ready messages from consumers.
    pub limited: Option<LimitedBy>,
    /// How long it is until the rate lets the next one go; `None` if nothing is limited, or a
    /// delivery has to end first.
    pub limit_free: Option<Duration>,
    /// Ready messages that their groups keep from consumers now.
    pub held: u64,
    /// Groups that have messages, limits or a pause.
    pub groups: u64,
    /// Schedules, those that have ended included.
    pub schedules: u64,
    /// Messages accepted since the queue was created.
    pub total_enqueued: u64,
    /// Deliveries since the queue was created.
    pub total_delivered: u64,
    /// Messages finished since the queue was created.
    pub total_done: u64,
    /// Retries since the queue was created.
    pub total_retried: u64,
    /// Messages that became dead since the queue was created.
    pub total_dead: u64,
    /// Locks that ended by time since the queue was created.
    pub total_expired_locks: u64,
    /// Messages whose time to live ended before they were handed over, since the queue was created.
    pub total_expired: u64,
    /// Messages that limits refused, since the queue is in this server's memory.
    pub total_full: u64,
}

/// What keeps ready messages from consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitedBy {
    /// As many messages are with consumers as may be.
    Inflight,
    /// The rate.
    Rate,
}

/// An instant in Unix milliseconds; 0 is none.
pub(crate) fn instant(value: &Value) -> Option<SystemTime> {
    let ms = unsigned(value).filter(|ms| *ms > 0)?;
    UNIX_EPOCH.checked_add(Duration::from_millis(ms))
}

impl QueueInfo {
    /// Fields that are missing, or that this version does not know, are left alone.
    pub(crate) fn from_reply(reply: Value) -> Option<Self> {
        let mut info = Self::default();
        for (name, value) in fields(reply)? {
            let number = || unsigned(&value).unwrap_or(0);
            match name.as_str() {
                "messages" => info.messages = number(),
                "queued" => info.queued = number(),
                "queued-with-backoff" => info.queued_with_backoff = number(),
                "locked" => info.locked = number(),
                "locked-with-requeue" => info.locked_with_requeue = number(),
                "done-with-backoff" => info.done_with_backoff = number(),
                "done-with-requeue" => info.done_with_requeue = number(),
                "done-awaiting-gc" => info.done_awaiting_gc = number(),
                "dead" => info.dead = number(),
                "waiting" => info.follow_ups = number(),
                "next-mid" => info.next_id = bytes(value).map(MessageId::from),
                "last-mid" => info.last_id = bytes(value).map(MessageId::from),
                "next-due-ms" => info.next_due = unsigned(&value).map(Duration::from_millis),
                "oldest-queued-ms" => {
                    info.oldest_queued = unsigned(&value).map(Duration::from_millis);
                }
                "eoq-backoff-ms" => info.shared_wait = Duration::from_millis(number()),
                "ndry-runs" => info.dry_runs = number(),
                "paused" => info.paused = int(&value) == Some(1),
                "total-enqueued" => info.total_enqueued = number(),
                "total-delivered" => info.total_delivered = number(),
                "total-done" => info.total_done = number(),
                "total-retried" => info.total_retried = number(),
                "total-dead" => info.total_dead = number(),
                "paused-until" => info.paused_until = instant(&value),
                "limited" => {
                    info.limited = match text(&value).as_deref() {
                        Some("inflight") => Some(LimitedBy::Inflight),
                        Some("rate") => Some(LimitedBy::Rate),
                        _ => None,
                    };
                }
                "limit-free-ms" => {
                    let ms = unsigned(&value).filter(|ms| *ms > 0);
                    info.limit_free = ms.map(Duration::from_millis);
                }
                "held" => info.held = number(),
                "groups" => info.groups = number(),
                "schedules" => info.schedules = number(),
                "total-expired" => info.total_expired = number(),
                "total-full" => info.total_full = number(),
                "total-expired-locks" => info.total_expired_locks = number(),
                _ => {}
            }
        }
        Some(info)
    }

    /// Messages that wait for a consumer now or later: ready ones and ones with a backoff.
    pub fn waiting(&self) -> u64 {
        self.queued + self.queued_with_backoff
    }
}

/// A message as the queue keeps it, as `MQ.GET` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredMessage<T> {
    /// Its id.
    pub id: MessageId,
    /// What it is doing.
    pub status: Status,
    /// The payload's value.
    pub value: T,
    /// The value of the copy that waits to run after it.
    pub requeue: Option<T>,
    /// Deliveries so far.
    pub attempts: u32,
    /// Deliveries it gets before it is dead; 0 is no limit.
    pub max_attempts: u32,
    /// 0 (first) to 9 (last).
    pub priority: u8,
    /// When it was enqueued, on the server's clock.
    pub enqueued_at: SystemTime,
    /// When time alone moves it on, on the server's clock; `None` is never.
    pub due_at: Option<SystemTime>,
    /// Its own lock time, if it has one.
    pub lock: Option<Duration>,
    /// Why it is dead, or what its last retry said.
    pub reason: Option<Vec<u8>>,
    /// What its producer gave along beside the payload.
    pub headers: Option<Headers>,
    /// The group that it belongs to.
    pub group: Option<Vec<u8>>,
    /// The instant that its schedule meant, on the server's clock; `None` if it is of none.
    pub scheduled_at: Option<SystemTime>,
    /// When its time to live ends, on the server's clock; `None` is never.
    pub expires_at: Option<SystemTime>,
    /// How the messages have ended so far that it follows.
    pub batch: Option<BatchResult>,
}

impl<T> StoredMessage<T> {
    /// The same with other values.
    pub fn map<U>(self, mut value: impl FnMut(T) -> U) -> StoredMessage<U> {
        let mapped = self.try_map(|it| Ok::<_, Infallible>(value(it)));
        match mapped {
            Ok(mapped) => mapped,
            Err(never) => match never {},
        }
    }

    /// The same with other values, if each can be had.
    pub fn try_map<U, E>(
        self,
        mut value: impl FnMut(T) -> Result<U, E>,
    ) -> Result<StoredMessage<U>, E> {
        Ok(StoredMessage {
            value: value(self.value)?,
            requeue: self.requeue.map(value).transpose()?,
            id: self.id,
            status: self.status,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            priority: self.priority,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            lock: self.lock,
            reason: self.reason,
            headers: self.headers,
            group: self.group,
            scheduled_at: self.scheduled_at,
            expires_at: self.expires_at,
            batch: self.batch,
        })
    }
}

/// `MQ.GET`'s reply before its payloads are decoded.
pub(crate) fn stored_message(reply: Value) -> Option<StoredMessage<Vec<u8>>> {
    let (mut id, mut state, mut payload) = (None, None, None);
    let mut message = StoredMessage {
        id: MessageId::from(Vec::new()),
        status: Status::Queued,
        value: Vec::new(),
        requeue: None,
        attempts: 0,
        max_attempts: 0,
        priority: 5,
        enqueued_at: UNIX_EPOCH,
        due_at: None,
        lock: None,
        reason: None,
        headers: None,
        group: None,
        scheduled_at: None,
        expires_at: None,
        batch: None,
    };
    for (name, value) in fields(reply)? {
        let small = || {
            unsigned(&value)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0)
        };
        let above_zero = || {
            unsigned(&value)
                .filter(|ms| *ms > 0)
                .map(Duration::from_millis)
        };
        match name.as_str() {
            "id" => id = bytes(value),
            "status" => state = status(&value),
            "payload" => payload = bytes(value),
            "requeue" => message.requeue = bytes(value),
            "reason" => message.reason = bytes(value),
            "attempts" => message.attempts = small(),
            "max-attempts" => message.max_attempts = small(),
            "priority" => message.priority = u8::try_from(small()).unwrap_or(5),
            "headers" => message.headers = bytes(value).map(Headers::from),
            "group" => message.group = bytes(value),
            "scheduled-at" => message.scheduled_at = instant(&value),
            "batch" => message.batch = batch(&value),
            "enqueued-at" => message.enqueued_at = instant(&value).unwrap_or(UNIX_EPOCH),
            "due-at" => message.due_at = instant(&value),
            "expires-at" => message.expires_at = instant(&value),
            "lock-ms" => message.lock = above_zero(),
            _ => {}
        }
    }
    message.id = id?.into();
    message.status = state?;
    message.value = payload?;
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn flat(pairs: Vec<(Value, Value)>) -> Value {
        Value::Array(
            pairs
                .into_iter()
                .flat_map(|(name, value)| [name, value])
                .collect(),
        )
    }

    #[test]
    fn a_queue_reads_the_same_in_both_protocols() {
        let pairs = vec![
            (bulk("messages"), Value::Int(7)),
            (bulk("queued"), Value::Int(3)),
            (bulk("queued-with-backoff"), Value::Int(2)),
            (bulk("next-mid"), bulk("a")),
            (bulk("last-mid"), Value::Nil),
            (bulk("next-due-ms"), Value::Int(-1)),
            (bulk("paused"), Value::Boolean(true)),
            (bulk("of-the-future"), Value::Array(vec![])),
        ];
        let info = QueueInfo::from_reply(Value::Map(pairs.clone())).unwrap();
        assert_eq!(info.waiting(), 5);
        assert_eq!(
            (info.next_id.clone(), info.last_id.clone()),
            (Some("a".into()), None)
        );
        assert_eq!((info.next_due, info.paused), (None, true));
        assert_eq!(QueueInfo::from_reply(flat(pairs)).unwrap(), info);
    }

    #[test]
    fn a_message_reads_the_same_in_both_protocols() {
        let pairs = vec![
            (bulk("id"), bulk("a")),
            (bulk("status"), bulk("locked-with-requeue")),
            (bulk("payload"), bulk("one")),
            (bulk("attempts"), Value::Int(2)),
            (bulk("max-attempts"), Value::Int(5)),
            (bulk("priority"), Value::Int(0)),
            (bulk("enqueued-at"), Value::Int(1_000)),
            (bulk("due-at"), Value::Int(0)),
            (bulk("lock-ms"), Value::Int(30_000)),
            (bulk("requeue"), bulk("two")),
            (bulk("reason"), Value::Nil),
        ];
        let message = stored_message(Value::Map(pairs.clone())).unwrap();
        assert_eq!(message.status, Status::LockedWithRequeue);
        assert_eq!(
            (&message.value[..], message.requeue.as_deref()),
            (&b"one"[..], Some(&b"two"[..]))
        );
        assert_eq!(
            (message.attempts, message.max_attempts, message.priority),
            (2, 5, 0)
        );
        assert_eq!(message.enqueued_at, UNIX_EPOCH + Duration::from_secs(1));
        assert_eq!(
            (message.due_at, message.lock),
            (None, Some(Duration::from_secs(30)))
        );
        assert_eq!(stored_message(flat(pairs)).unwrap(), message);
    }

    #[test]
    fn a_message_without_its_status_is_no_message() {
        let reply = Value::Map(vec![(bulk("id"), bulk("a")), (bulk("payload"), bulk("p"))]);
        assert_eq!(stored_message(reply), None);
    }
}
