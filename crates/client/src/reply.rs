//! Reading replies, in RESP2 and RESP3 alike.

use std::borrow::Cow;

use redis::{RedisResult, Value};

use crate::{
    message::{
        delivered::{Delivered, More},
        headers::Headers,
        id::MessageId,
        status::Status,
    },
    producer::batch::BatchResult,
};

/// The reply to `MQ.DEQUEUE … COUNT n`.
#[derive(Debug, PartialEq)]
pub(crate) enum Dequeued {
    /// Nothing was ready in time.
    Nothing,
    /// Nothing is ready; poll again after that many milliseconds (EOQ).
    Wait(u64),
    Deliveries(Vec<Delivered>),
}

/// The bytes of a string reply of any kind.
pub(crate) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}

/// The text of a string reply of any kind.
pub(crate) fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(Cow::Borrowed(text)),
        Value::Okay => Some(Cow::Borrowed("OK")),
        _ => None,
    }
}

/// An integer reply; text is accepted too, since RESP2 maps may carry numbers as text.
pub(crate) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Boolean(flag) => Some(i64::from(*flag)),
        other => text(other)?.parse().ok(),
    }
}

pub(crate) fn unsigned(value: &Value) -> Option<u64> {
    int(value)?.try_into().ok()
}

/// The fields of a map reply, in either form.
pub(crate) fn fields(value: Value) -> Option<Vec<(String, Value)>> {
    let pairs = value.into_map_iter().ok()?;
    pairs
        .map(|(name, value)| Some((text(&name)?.into_owned(), value)))
        .collect()
}

pub(crate) fn status(value: &Value) -> Option<Status> {
    Status::from_wire(&text(value)?)
}

pub(crate) fn dequeued(value: Value) -> Option<Dequeued> {
    match value {
        Value::Nil => Some(Dequeued::Nothing),
        Value::Int(ms) => Some(Dequeued::Wait(ms.max(0).unsigned_abs())),
        Value::Array(items) if items.is_empty() => Some(Dequeued::Nothing),
        Value::Array(items) => items
            .into_iter()
            .map(delivered)
            .collect::<Option<_>>()
            .map(Dequeued::Deliveries),
        _ => None,
    }
}

fn delivered(value: Value) -> Option<Delivered> {
    let Value::Array(fields) = value else {
        return None;
    };
    let mut fields = fields.into_iter();
    // Fields after these may come with newer servers.
    Some(Delivered {
        id: MessageId::from(bytes(fields.next()?)?),
        payload: bytes(fields.next()?)?,
        attempt: int(&fields.next()?)?.try_into().ok()?,
        token: int(&fields.next()?)?,
        lock_ms: unsigned(&fields.next()?)?,
        enqueued_at_ms: unsigned(&fields.next()?)?,
        more: fields.next().and_then(more).map(Box::new),
    })
}

/// Fields that are not known here may come with newer servers.
fn more(value: Value) -> Option<More> {
    let mut more = More::default();
    for (name, value) in fields(value)? {
        match name.as_str() {
            "headers" => more.headers = bytes(value).map(Headers::from),
            "group" => more.group = bytes(value),
            "scheduled-at" => more.scheduled_at_ms = unsigned(&value),
            "batch" => more.batch = batch(&value),
            _ => {}
        }
    }
    Some(more)
}

/// How a batch has ended, as deliveries and `MQ.GET` tell it.
pub(crate) fn batch(value: &Value) -> Option<BatchResult> {
    let Value::Array(numbers) = value else {
        return None;
    };
    let mut numbers = numbers.iter().map(unsigned);
    let (ended, dead) = (numbers.next()??, numbers.next()??);
    Some(BatchResult { ended, dead })
}

/// What became of a delivery that an answer was sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerReply {
    /// The verdict counted; `None` is `done`, the message is no more.
    Became(Option<Status>),
    /// The message's time to live had ended, and it is gone.
    Expired,
    /// Somebody else has the message, or an earlier copy of this very answer ended the delivery.
    Stale,
    /// There is no such message any more.
    Gone,
}

/// Reads the reply to `MQ.DONE`. The error is the server's, and the answer is not known.
pub(crate) fn answered(reply: RedisResult<Value>) -> RedisResult<AnswerReply> {
    match reply {
        Ok(Value::Nil) => Ok(AnswerReply::Gone),
        Ok(Value::ServerError(error)) => answered(Err(error.into())),
        Ok(value) if text(&value).as_deref() == Some("expired") => Ok(AnswerReply::Expired),
        // A status that this version does not know is still an answer that counted.
        Ok(value) => Ok(AnswerReply::Became(status(&value))),
        Err(error) if error.code() == Some("STALE") => Ok(AnswerReply::Stale),
        Err(error) => Err(error),
    }
}

/// Reads what became of one of many, as `MQ.MDONE` replies it.
pub(crate) fn answered_in_its_place(value: Value) -> AnswerReply {
    match text(&value).as_deref() {
        Some("stale") => AnswerReply::Stale,
        Some("expired") => AnswerReply::Expired,
        None => AnswerReply::Gone,
        // A status that this version does not know is still an answer that counted.
        Some(_) => AnswerReply::Became(status(&value)),
    }
}

/// Reads the reply to `MQ.EXTEND`.
pub(crate) fn extended(reply: RedisResult<Value>) -> RedisResult<Extended> {
    Ok(match answered(reply)? {
        AnswerReply::Became(_) | AnswerReply::Expired => Extended::Held,
        AnswerReply::Stale => Extended::Taken,
        AnswerReply::Gone => Extended::Gone,
    })
}

/// What became of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extended {
    Held,
    Taken,
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn delivery() -> Value {
        Value::Array(vec![
            bulk("order:42"),
            Value::BulkString(vec![0, 255]),
            Value::Int(3),
            Value::Int(1_700_000_000_000_000),
            Value::Int(30_000),
            Value::Int(1_700_000_000_000),
        ])
    }

    #[test]
    fn deliveries_are_read() {
        let expected = Delivered {
            id: "order:42".into(),
            payload: vec![0, 255],
            attempt: 3,
            token: 1_700_000_000_000_000,
            lock_ms: 30_000,
            enqueued_at_ms: 1_700_000_000_000,
            more: None,
        };
        let reply = dequeued(Value::Array(vec![delivery()])).unwrap();
        assert_eq!(reply, Dequeued::Deliveries(vec![expected]));
    }

    #[test]
    fn headers_and_groups_are_read_in_both_protocols() {
        let resp2 = vec![
            bulk("headers"),
            bulk("a: 1\n"),
            bulk("new"),
            Value::Int(1),
            bulk("scheduled-at"),
            Value::Int(7),
        ];
        let resp3 = vec![
            (bulk("headers"), bulk("a: 1\n")),
            (bulk("new"), Value::Int(1)),
            (bulk("scheduled-at"), Value::Int(7)),
        ];
        for more in [Value::Array(resp2), Value::Map(resp3)] {
            let Value::Array(mut fields) = delivery() else {
                unreachable!()
            };
            fields.push(more);
            let read = delivered(Value::Array(fields)).unwrap().more.unwrap();
            assert_eq!(read.headers.unwrap().get("a"), Some("1"));
            assert_eq!((read.group, read.scheduled_at_ms), (None, Some(7)));
        }
    }

    #[test]
    fn later_fields_of_a_delivery_are_skipped_and_missing_ones_refused() {
        let Value::Array(mut fields) = delivery() else {
            unreachable!()
        };
        fields.push(bulk("from the future"));
        assert!(dequeued(Value::Array(vec![Value::Array(fields.clone())])).is_some());
        fields.truncate(5);
        assert!(dequeued(Value::Array(vec![Value::Array(fields)])).is_none());
    }

    #[test]
    fn an_empty_queue_is_null_or_a_wait() {
        assert_eq!(dequeued(Value::Nil), Some(Dequeued::Nothing));
        assert_eq!(dequeued(Value::Int(700)), Some(Dequeued::Wait(700)));
        assert_eq!(dequeued(Value::Okay), None);
    }

    #[test]
    fn maps_are_read_in_both_protocols() {
        let expected = vec![("queued".to_string(), Value::Int(2))];
        let resp2 = Value::Array(vec![bulk("queued"), Value::Int(2)]);
        let resp3 = Value::Map(vec![(Value::SimpleString("queued".into()), Value::Int(2))]);
        assert_eq!(fields(resp2), Some(expected.clone()));
        assert_eq!(fields(resp3), Some(expected));
    }

    #[test]
    fn answers_tell_done_from_stale_from_gone_from_unknown() {
        assert_eq!(
            answered(Ok(bulk("done"))).unwrap(),
            AnswerReply::Became(None)
        );
        assert_eq!(
            answered(Ok(bulk("dead"))).unwrap(),
            AnswerReply::Became(Some(Status::Dead))
        );
        assert_eq!(answered(Ok(Value::Nil)).unwrap(), AnswerReply::Gone);
        let stale = redis::make_extension_error("STALE".into(), Some("token".into()));
        assert_eq!(answered(Err(stale)).unwrap(), AnswerReply::Stale);
        let readonly = redis::RedisError::from(std::io::Error::other("reset"));
        assert!(answered(Err(readonly)).is_err());
        assert_eq!(extended(Ok(Value::Int(1))).unwrap(), Extended::Held);
        for (value, expected) in [
            (bulk("done"), AnswerReply::Became(None)),
            (bulk("dead"), AnswerReply::Became(Some(Status::Dead))),
            (bulk("expired"), AnswerReply::Expired),
            (bulk("stale"), AnswerReply::Stale),
            (Value::Nil, AnswerReply::Gone),
        ] {
            assert_eq!(answered_in_its_place(value), expected);
        }
    }
}
