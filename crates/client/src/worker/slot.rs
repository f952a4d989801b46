//! Handler slots: each handles one message at a time.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures_util::{future::BoxFuture, FutureExt};
use tracing::Instrument;

use super::{
    core::{Core, QueueName},
    delivery::Delivery,
    meter::Count,
    settings::Settings,
};
use crate::{
    codec::Decode,
    handler::Handler,
    message::Message,
    outcome::{Answer, Outcome, Pause},
    policy::{Cause, Failure},
    telemetry::Processing,
};

/// Makes slots: the handler and the codec, with their types forgotten.
pub(crate) trait Runner: Send + Sync {
    /// A slot that handles messages until the desk is closed.
    fn slot(self: Arc<Self>, core: Arc<Core>) -> BoxFuture<'static, ()>;

    /// Handles one message, apart from any desk.
    #[cfg(feature = "testing")]
    fn handle_one(
        self: Arc<Self>,
        core: Arc<Core>,
        delivery: Arc<Delivery>,
    ) -> BoxFuture<'static, Answer>;
}

pub(crate) struct Handling<T, C, H> {
    handler: H,
    codec: C,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<T, C, H> Handling<T, C, H> {
    pub(crate) fn new(codec: C, handler: H) -> Self {
        Self {
            handler,
            codec,
            value: std::marker::PhantomData,
        }
    }
}

impl<T, C, H> Runner for Handling<T, C, H>
where
    T: Send + 'static,
    C: Decode<T> + Send + Sync + 'static,
    H: Handler<T>,
{
    fn slot(self: Arc<Self>, core: Arc<Core>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            while let Some(begun) = core.desk.next().await {
                let began = core.spec.meter.begin_work();
                let answer = self.guarded(&core, Arc::clone(&begun.delivery)).await;
                core.spec.meter.end_work(began);
                begun.finish(answer);
                // Handlers that never wait must not keep others from running.
                tokio::task::consume_budget().await;
            }
        })
    }

    #[cfg(feature = "testing")]
    fn handle_one(
        self: Arc<Self>,
        core: Arc<Core>,
        delivery: Arc<Delivery>,
    ) -> BoxFuture<'static, Answer> {
        Box::pin(async move { self.guarded(&core, delivery).await })
    }
}

impl<T, C, H> Handling<T, C, H>
where
    T: Send + 'static,
    C: Decode<T> + Send + Sync + 'static,
    H: Handler<T>,
{
    /// Decoding, handling, policies, and the texts of errors are the user's code: whatever panics
    /// there, there is an answer.
    async fn guarded(&self, core: &Core, delivery: Arc<Delivery>) -> Answer {
        let processing = Processing::begin(&core.spec.queue, &delivery);
        processing.around(self.caught(core, delivery)).await
    }

    async fn caught(&self, core: &Core, delivery: Arc<Delivery>) -> Answer {
        let span = tracing::info_span!(
            "message",
            queue = %core.spec.queue.shown,
            id = %delivery.id,
            attempt = delivery.attempt,
        );
        let answer = AssertUnwindSafe(self.handle(core, delivery).instrument(span))
            .catch_unwind()
            .await;
        answer.unwrap_or_else(|panic| {
            forget(panic);
            Answer::Retry(Pause::Exponential.into())
        })
    }

    async fn handle(&self, core: &Core, delivery: Arc<Delivery>) -> Answer {
        let settings = &core.spec.settings;
        let attempt = delivery.attempt;
        let handled = AssertUnwindSafe(self.run(&core.spec.queue, &delivery))
            .catch_unwind()
            .await;
        let cause = match handled.unwrap_or_else(|panic| Err(Cause::Panic(message_of(panic)))) {
            Ok(outcome) => return settings.retries.answer(outcome, attempt, ""),
            Err(cause) => cause,
        };
        let why = text_of(&cause);
        match &cause {
            Cause::Error(_) => {
                core.spec.meter.add(Count::Failed, 1);
                tracing::warn!(error = %why, "the handler returned an error");
            }
            Cause::Panic(message) => {
                core.spec.meter.add(Count::Panicked, 1);
                tracing::error!(%message, "the handler panicked");
            }
            Cause::Undecodable(_) => {
                core.spec.meter.add(Count::Failed, 1);
                tracing::error!(error = %why, "the payload could not be decoded");
            }
        }
        let judged = judge(&cause, &why, &delivery, settings);
        // An error that panics when it is dropped has been judged all the same.
        if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(cause))) {
            forget(panic);
        }
        judged
    }

    async fn run(
        &self,
        queue: &Arc<QueueName>,
        delivery: &Arc<Delivery>,
    ) -> Result<Outcome, Cause> {
        let value = self
            .codec
            .decode(&delivery.payload)
            .map_err(Cause::Undecodable)?;
        let message = Message::new(value, Arc::clone(delivery), Arc::clone(queue));
        self.handler.handle(message).await.map_err(Cause::Error)
    }
}

/// What the worker's policies make of a failure. Policies are the user's code and may panic too.
fn judge(cause: &Cause, why: &str, delivery: &Delivery, settings: &Settings) -> Answer {
    let failure = Failure {
        cause,
        id: &delivery.id,
        payload: &delivery.payload,
        attempt: delivery.attempt,
    };
    let decide = |outcome| settings.retries.answer(outcome, delivery.attempt, why);
    let judged = AssertUnwindSafe(|| decide((settings.failure_policy)(&failure)));
    std::panic::catch_unwind(judged).unwrap_or_else(|panic| {
        forget(panic);
        tracing::error!("the failure policy panicked; the default one decides");
        match cause {
            Cause::Error(_) => decide(Outcome::RetryExponential),
            _ => Answer::Error(why.into()),
        }
    })
}

/// What went wrong, in words, whatever the error's own code does.
fn text_of(cause: &Cause) -> String {
    std::panic::catch_unwind(AssertUnwindSafe(|| cause.to_string())).unwrap_or_else(|panic| {
        forget(panic);
        "an error whose text cannot be had, since its Display panics".to_owned()
    })
}

/// Lets go of what a panic carried, which may panic when it is dropped.
fn forget(panic: Box<dyn Any + Send>) {
    if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// The text of a panic, if it has one.
fn message_of(panic: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    };
    forget(panic);
    text
}
