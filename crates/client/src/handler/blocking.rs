//! Handlers that block or compute.

use std::sync::Arc;

use super::{
    outcome::{IntoVerdict, Verdict},
    Handler,
};
use crate::message::Message;

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
