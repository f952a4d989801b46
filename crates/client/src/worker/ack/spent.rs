//! Which retries the worker's own limit of attempts ends.

use redis::{RedisError, RedisResult, Value};

use super::{
    outbox::Unsent,
    refusal::{is_final, is_unknown_command},
};
use crate::{
    connect::any::{pipeline, AnyConnection},
    handler::answer::Answer,
    message::{delivery::Delivery, queue_name::QueueName},
    producer::{info::stored_message, limits::QueueLimits},
};

/// How many messages to look at in one round trip: their payloads come along.
const AT_ONCE: usize = 16;

/// The answers, by number, whose retry is not to be: the worker's limit is reached, and neither the
/// message nor its queue has one.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub(super) answers: Vec<usize>,
    /// Why the server does not tell of other limits. The messages are tried again then.
    pub(super) untold: Option<RedisError>,
}

/// Whether there is another limit than the worker's.
enum Other {
    Is,
    IsNot,
    /// Whoever may not know leaves the decision to the server.
    Untold(RedisError),
}

/// Asks about answers whose retry reaches the worker's limit, and sends nothing where none does. The
/// error is one that calls for another try.
pub(super) async fn all_spent(
    connection: &mut AnyConnection,
    queue: &QueueName,
    answers: &[Unsent],
) -> RedisResult<Spent> {
    let mut spent = Spent::default();
    let asked: Vec<_> = (0..answers.len())
        .filter(|n| matches!(&answers[*n].answer, Answer::Retry(retry) if retry.last))
        .collect();
    if asked.is_empty() {
        return Ok(spent);
    }
    match of_queue(connection, queue).await? {
        Other::Is => return Ok(spent),
        Other::IsNot => {}
        Other::Untold(error) => {
            spent.untold = Some(error);
            return Ok(spent);
        }
    }
    for some in asked.chunks(AT_ONCE) {
        let mut questions = pipeline(some.len());
        for n in some {
            let id = answers[*n].delivery.id.as_bytes();
            questions.cmd("MQ.GET").arg(&queue.key[..]).arg(id);
        }
        let replies = connection.query_all(&questions).await?;
        for (n, reply) in some.iter().zip(replies) {
            match of_message(reply, &answers[*n].delivery)? {
                Other::Is => {}
                Other::IsNot => spent.answers.push(*n),
                Other::Untold(error) => spent.untold = Some(error),
            }
        }
    }
    Ok(spent)
}

/// The same for one delivery, whose retry reaches the worker's limit.
#[cfg(feature = "testing")]
pub(crate) async fn is_spent(
    connection: &mut AnyConnection,
    queue: &QueueName,
    delivery: &Delivery,
) -> RedisResult<bool> {
    let mut question = redis::cmd("MQ.GET");
    question.arg(&queue.key[..]).arg(delivery.id.as_bytes());
    let of_queue = of_queue(connection, queue).await?;
    let of_message = of_message(connection.query(&question).await, delivery)?;
    Ok(matches!(
        (of_queue, of_message),
        (Other::IsNot, Other::IsNot)
    ))
}

async fn of_queue(connection: &mut AnyConnection, queue: &QueueName) -> RedisResult<Other> {
    let mut question = redis::cmd("MQ.LIMIT");
    question.arg(&queue.key[..]);
    match connection.query(&question).await {
        Ok(value) => {
            let limits = QueueLimits::from_reply(value);
            Ok(is(limits.is_some_and(|limits| limits.attempts.is_some())))
        }
        // A module that knows no limits has none.
        Err(error) if is_unknown_command(&error) => Ok(Other::IsNot),
        Err(error) => untold(error),
    }
}

fn of_message(reply: RedisResult<Value>, delivery: &Delivery) -> RedisResult<Other> {
    match reply {
        Ok(value) => {
            let message = stored_message(value).filter(|message| message.id == delivery.id);
            // One that is gone has had its verdict.
            Ok(is(message.is_none_or(|message| message.max_attempts > 0)))
        }
        Err(error) => untold(error),
    }
}

fn is(there: bool) -> Other {
    if there {
        Other::Is
    } else {
        Other::IsNot
    }
}

fn untold(error: RedisError) -> RedisResult<Other> {
    if is_final(&error) || error.code() == Some("NOPERM") {
        Ok(Other::Untold(error))
    } else {
        Err(error)
    }
}
