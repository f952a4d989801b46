//! What handles messages, and what becomes of those that it handles.
//!
//! A handler returns a [`Verdict`]: an [`Outcome`](outcome::Outcome), or an error. An error, a panic
//! and a payload that cannot be read are a [`Cause`](retry::Cause), which the rules in [`retry`]
//! turn into an outcome. What is sent to the server in the end is an [`Answer`](answer::Answer).

pub(crate) mod answer;
pub(crate) mod blocking;
pub(crate) mod chain;
pub(crate) mod guard;
pub(crate) mod outcome;
pub(crate) mod retry;
#[cfg(feature = "tower")]
pub(crate) mod tower;

use std::future::Future;

use crate::{
    handler::outcome::{IntoVerdict, Verdict},
    message::Message,
};

/// Handles messages with values of type `T`.
///
/// Implemented for every async function or closure that takes a [`Message`] and returns `()`, an
/// [`Outcome`](crate::Outcome), or a `Result` of either with an error type of its own. Implement
/// it by hand to keep state in a type of yours.
///
/// Handlers of one worker run concurrently, each on a task of the runtime that the worker was
/// started in. A handler that blocks its thread, or computes for long without awaiting, holds up
/// other tasks of that runtime as any task would: give such work to [`blocking`](crate::blocking). It never holds
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
