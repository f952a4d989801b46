//! What became of an enqueue.

use redis::Value;

use crate::{
    message::{id::MessageId, status::Status},
    reply::{bytes, text},
};

/// What became of an enqueue. A refusal is no error, and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enqueued {
    /// A new message.
    Added {
        /// Its id, the given one or the one that the server made.
        id: MessageId,
    },
    /// A message that waited was replaced by this one ([`EnqueueOptions::update`](crate::EnqueueOptions::update)).
    Updated {
        /// Its id.
        id: MessageId,
    },
    /// The message is kept as the copy to run after the current one
    /// ([`EnqueueOptions::requeue`](crate::EnqueueOptions::requeue)).
    Requeued {
        /// Its id.
        id: MessageId,
    },
    /// The id is taken by a live message, and the options do not allow to replace or follow it.
    Refused {
        /// The id that is taken.
        id: MessageId,
        /// What the message that has it is doing.
        status: Status,
    },
}

impl Enqueued {
    /// The id, whatever the outcome.
    pub fn id(&self) -> &MessageId {
        match self {
            Enqueued::Added { id }
            | Enqueued::Updated { id }
            | Enqueued::Requeued { id }
            | Enqueued::Refused { id, .. } => id,
        }
    }

    /// Whether the message will be delivered.
    pub fn is_accepted(&self) -> bool {
        self.refused_by().is_none()
    }

    /// The status that refused the message, if it was refused.
    pub fn refused_by(&self) -> Option<Status> {
        match self {
            Enqueued::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// Reads the reply to `MQ.ENQUEUE`.
pub(crate) fn enqueued(value: Value) -> Option<Enqueued> {
    let Value::Array(items) = value else {
        return None;
    };
    let mut items = items.into_iter();
    let outcome = items.next()?;
    let id = MessageId::from(bytes(items.next()?)?);
    Some(match &*text(&outcome)? {
        "added" => Enqueued::Added { id },
        "updated" => Enqueued::Updated { id },
        "requeued" => Enqueued::Requeued { id },
        refusal => Enqueued::Refused {
            id,
            status: Status::from_wire(refusal)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn outcomes_are_read_from_bulk_and_simple_strings() {
        let id = MessageId::from("a");
        for (outcome, expected) in [
            (bulk("added"), Enqueued::Added { id: id.clone() }),
            (
                Value::SimpleString("updated".into()),
                Enqueued::Updated { id: id.clone() },
            ),
            (bulk("requeued"), Enqueued::Requeued { id: id.clone() }),
            (
                bulk("locked"),
                Enqueued::Refused {
                    id: id.clone(),
                    status: Status::Locked,
                },
            ),
        ] {
            assert_eq!(
                enqueued(Value::Array(vec![outcome, bulk("a")])),
                Some(expected)
            );
        }
        assert_eq!(enqueued(Value::Array(vec![bulk("eaten"), bulk("a")])), None);
        assert_eq!(enqueued(Value::Nil), None);
    }
}
