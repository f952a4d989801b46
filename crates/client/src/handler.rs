//! What handles messages.

use std::{future::Future, sync::Arc};

use crate::{
    message::Message,
    outcome::{IntoVerdict, Verdict},
};

/// Handles messages with values of type `T`.
///
/// Implemented for every async function or closure that takes a [`Message`] and returns `()`, an
/// [`Outcome`](crate::Outcome), or a `Result` of either with an error type of its own. Implement
/// it by hand to keep state in a type of yours.
///
/// Handlers of one worker run concurrently, each on a task of the runtime that the worker was
/// started in. A handler that blocks its thread, or computes for long without awaiting, holds up
/// other tasks of that runtime as any task would: give such work to [`blocking`]. It never holds
/// up the heartbeat, which has a thread of its own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler of messages with values of type `{T}`",
    label = "expected an async function that takes a `Message<{T}>`",
    note = "a handler is `Fn(Message<{T}>)`, `Send`, `Sync` and `'static`, and its future is `Send`",
    note = "the future yields `()`, an `Outcome`, or a `Result` of either with an error type",
    note = "give work that is not async to `blocking`, and tower services to `service`"
)]
pub trait Handler<T>: Send + Sync + 'static {
    /// Handles one message.
    fn handle(&self, message: Message<T>) -> impl Future<Output = Verdict> + Send;
}

impl<T, F, Fut> Handler<T> for F
where
    T: Send + 'static,
    F: Fn(Message<T>) -> Fut + Send + Sync + 'static,
    Fut: Future + Send,
    Fut::Output: IntoVerdict,
{
    async fn handle(&self, message: Message<T>) -> Verdict {
        self(message).await.into_verdict()
    }
}

/// A handler that blocks or computes: it runs on tokio's threads for blocking work, and so holds
/// up neither the heartbeat nor other tasks.
///
/// Tokio has 512 such threads by default; a worker with more handlers than that waits for one
/// with the message's lock held and extended. The message tells by
/// [`Message::is_cancelled`] that its lock was lost: a blocking handler cannot be stopped from
/// outside and should look at it from time to time.
///
/// ```
/// use redis_mq_client::{blocking, Message, Outcome};
///
/// let handler = blocking(|message: Message<Vec<u8>>| {
///     let sum: u64 = message.value.iter().map(|byte| u64::from(*byte)).sum();
///     if sum == 0 { Outcome::error("all zero") } else { Outcome::Success }
/// });
/// # fn is_handler<H: redis_mq_client::Handler<Vec<u8>>>(_: H) {}
/// # is_handler(handler);
/// ```
pub fn blocking<T, F, R>(function: F) -> Blocking<F>
where
    F: Fn(Message<T>) -> R + Send + Sync + 'static,
    R: IntoVerdict,
{
    Blocking(Arc::new(function))
}

/// The handler made by [`blocking`].
#[derive(Debug)]
pub struct Blocking<F>(Arc<F>);

impl<T, F, R> Handler<T> for Blocking<F>
where
    T: Send + 'static,
    F: Fn(Message<T>) -> R + Send + Sync + 'static,
    R: IntoVerdict,
{
    async fn handle(&self, message: Message<T>) -> Verdict {
        let function = Arc::clone(&self.0);
        // The thread goes on when the slot is dropped.
        let held = message.hold();
        let work = move || {
            let verdict = function(message).into_verdict();
            drop(held);
            verdict
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(verdict) => verdict,
            // The slot's own catch turns this into the message's panic.
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(cancelled) => Err(cancelled.into()),
            },
        }
    }
}
