//! Handler slots: each handles one message at a time.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::{future::BoxFuture, FutureExt};
use tracing::Instrument;

use super::core::Core;
use crate::{
    handler::{
        answer::Answer,
        guard::{forget, message_of, text_of},
        outcome::Outcome,
        retry::{self, Cause, Failure},
        Handler,
    },
    message::{codec::Decode, delivery::Delivery, queue_name::QueueName, Message},
    telemetry::Processing,
    worker::observe::counts::Count,
};

/// Makes slots: the handler and the codec, with their types forgotten.
pub(crate) trait Runner: Send + Sync {
    /// A slot that handles messages until nothing more is begun.
    fn slot(self: Arc<Self>, core: Arc<Core>) -> BoxFuture<'static, ()>;

    /// Handles one message, apart from the others.
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
            while let Some(begun) = core.deliveries.next().await {
                let began = core.spec.counters.begin_work();
                let answer = self.guarded(&core, Arc::clone(&begun.delivery)).await;
                core.spec.counters.end_work(began);
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
        let processing = Processing::begin(
            &core.spec.queue,
            &delivery,
            core.spec.settings.continues_traces,
        );
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
            retry::after_panic()
        })
    }

    async fn handle(&self, core: &Core, delivery: Arc<Delivery>) -> Answer {
        let rules = &core.spec.settings.retries;
        let attempt = delivery.attempt;
        let handled = AssertUnwindSafe(self.run(&core.spec.queue, &delivery))
            .catch_unwind()
            .await;
        let cause = match handled.unwrap_or_else(|panic| Err(Cause::Panic(message_of(panic)))) {
            Ok(outcome) => return rules.answer(outcome, attempt, ""),
            Err(cause) => cause,
        };
        let why = text_of(&cause);
        match &cause {
            Cause::Error(_) => {
                core.spec.counters.add(Count::Failed, 1);
                tracing::warn!(error = %why, "the handler returned an error");
            }
            Cause::Panic(message) => {
                core.spec.counters.add(Count::Panicked, 1);
                tracing::error!(%message, "the handler panicked");
            }
            Cause::Undecodable(_) => {
                core.spec.counters.add(Count::Failed, 1);
                tracing::error!(error = %why, "the payload could not be decoded");
            }
        }
        let failure = Failure {
            cause: &cause,
            id: &delivery.id,
            payload: &delivery.payload,
            attempt,
        };
        let judged = rules.judge(&failure, &why);
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
