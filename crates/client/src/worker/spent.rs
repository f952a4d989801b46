//! Which retries the worker's own limit of attempts ends.

use redis::{RedisError, RedisResult, Value};

use super::{answering::is_final, core::QueueName, delivery::Delivery, desk::Letter};
use crate::{
    connection::{pipeline, AnyConnection},
    info::stored_message,
    limits::QueueLimits,
    outcome::Answer,
};

/// How many messages to look at in one round trip: their payloads come along.
const AT_ONCE: usize = 16;

/// Of these letters, by number, those whose retry is not to be: the worker's limit is reached, and
/// neither the message nor its queue has one. Where the limit is not reached nothing is asked.
///
/// The error is one that calls for another try; where the server refuses to tell, the message is
/// tried again.
pub(super) async fn all_spent(
    connection: &mut AnyConnection,
    queue: &QueueName,
    letters: &[Letter],
) -> RedisResult<Vec<usize>> {
    let mut spent = Vec::new();
    let asked: Vec<_> = (0..letters.len())
        .filter(|n| matches!(&letters[*n].answer, Answer::Retry(retry) if retry.last))
        .collect();
    if asked.is_empty() {
        return Ok(spent);
    }
    if queue_has_limit(connection, queue).await? {
        return Ok(spent);
    }
    for some in asked.chunks(AT_ONCE) {
        let mut questions = pipeline(some.len());
        for n in some {
            let id = letters[*n].delivery.id.as_bytes();
            questions.cmd("MQ.GET").arg(&queue.key[..]).arg(id);
        }
        let replies = connection.query_all(&questions).await?;
        for (n, reply) in some.iter().zip(replies) {
            if !message_has_limit(reply, queue, &letters[*n].delivery)? {
                spent.push(*n);
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
    Ok(!queue_has_limit(connection, queue).await?
        && !message_has_limit(connection.query(&question).await, queue, delivery)?)
}

async fn queue_has_limit(connection: &mut AnyConnection, queue: &QueueName) -> RedisResult<bool> {
    let mut limits = redis::cmd("MQ.LIMIT");
    limits.arg(&queue.key[..]);
    match connection.query(&limits).await {
        Ok(value) => {
            let limits = QueueLimits::from_reply(value);
            Ok(limits.is_some_and(|limits| limits.attempts.is_some()))
        }
        // A module that knows no limits has none.
        Err(error) if is_unknown_command(&error) => Ok(false),
        Err(error) => untold(error, queue),
    }
}

fn message_has_limit(
    reply: RedisResult<Value>,
    queue: &QueueName,
    delivery: &Delivery,
) -> RedisResult<bool> {
    match reply {
        Ok(value) => {
            let message = stored_message(value).filter(|message| message.id == delivery.id);
            Ok(message.is_none_or(|message| message.max_attempts > 0))
        }
        Err(error) => untold(error, queue),
    }
}

/// Whoever may not know of a limit leaves the decision to the server.
fn untold(error: RedisError, queue: &QueueName) -> RedisResult<bool> {
    if !is_final(&error) && error.code() != Some("NOPERM") {
        return Err(error);
    }
    let queue = &queue.shown;
    tracing::warn!(%queue, %error, "a message is tried again: its limit of attempts is not told");
    Ok(true)
}

/// Whether the server has the module, but an older one.
fn is_unknown_command(error: &RedisError) -> bool {
    error.code() == Some("ERR")
        && error
            .detail()
            .is_some_and(|detail| detail.contains("unknown command"))
}
