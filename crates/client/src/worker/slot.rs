//! Handler slots: each handles one message at a time.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures_util::{future::BoxFuture, FutureExt};
use tracing::Instrument;

use super::{
    core::{Core, Phase, QueueName},
    delivery::Delivery,
    meter::Count,
    settings::Settings,
};
use crate::{
    codec::Decode,
    handler::Handler,
    message::Message,
    outcome::Answer,
    policy::{answer, default_failure_policy, Cause, Failure},
};

/// Makes slots: the handler and the codec, with their types forgotten.
pub(crate) trait Runner: Send + Sync {
    /// A slot that handles messages until the desk is closed.
    fn slot(self: Arc<Self>, core: Arc<Core>, open: Arc<OpenSlots>) -> BoxFuture<'static, ()>;
}

/// Ends the run when the last slot has gone, whether the worker was stopped or the runtime of the
/// handlers was torn down: without slots nothing may be taken, and no lock held.
pub(crate) struct OpenSlots(pub(crate) Arc<Core>);

impl Drop for OpenSlots {
    fn drop(&mut self) {
        self.0.desk.close();
        self.0.advance(Phase::Flushing);
    }
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
    fn slot(self: Arc<Self>, core: Arc<Core>, open: Arc<OpenSlots>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            while let Some(begun) = core.desk.next().await {
                let delivery = Arc::clone(&begun.delivery);
                let span = tracing::info_span!(
                    "message",
                    queue = %core.spec.queue.shown,
                    id = %delivery.id,
                    attempt = delivery.attempt,
                );
                let answer = self.handle(&core, delivery).instrument(span).await;
                begun.finish(answer);
                // Handlers that never wait must not keep others from running.
                tokio::task::consume_budget().await;
            }
            drop(open);
        })
    }
}

impl<T, C, H> Handling<T, C, H>
where
    T: Send + 'static,
    C: Decode<T> + Send + Sync + 'static,
    H: Handler<T>,
{
    async fn handle(&self, core: &Core, delivery: Arc<Delivery>) -> Answer {
        let settings = &core.spec.settings;
        let attempt = delivery.attempt;
        let handled = AssertUnwindSafe(self.run(&core.spec.queue, &delivery))
            .catch_unwind()
            .await;
        let cause = match handled.unwrap_or_else(|panic| Err(Cause::Panic(message_of(&*panic)))) {
            Ok(outcome) => return answer(outcome, &settings.retry_policy, attempt, ""),
            Err(cause) => cause,
        };
        match &cause {
            Cause::Error(error) => {
                core.spec.meter.add(Count::Failed, 1);
                tracing::warn!(%error, "the handler returned an error");
            }
            Cause::Panic(message) => {
                core.spec.meter.add(Count::Panicked, 1);
                tracing::error!(%message, "the handler panicked");
            }
            Cause::Undecodable(error) => {
                core.spec.meter.add(Count::Failed, 1);
                tracing::error!(%error, "the payload could not be decoded");
            }
        }
        judge(&cause, &delivery, settings)
    }

    async fn run(
        &self,
        queue: &Arc<QueueName>,
        delivery: &Arc<Delivery>,
    ) -> Result<crate::Outcome, Cause> {
        let value = self
            .codec
            .decode(&delivery.payload)
            .map_err(Cause::Undecodable)?;
        let message = Message::new(value, Arc::clone(delivery), Arc::clone(queue));
        self.handler.handle(message).await.map_err(Cause::Error)
    }
}

/// What the worker's policies make of a failure. Policies are the user's code and may panic too.
fn judge(cause: &Cause, delivery: &Delivery, settings: &Settings) -> Answer {
    let failure = Failure {
        cause,
        id: &delivery.id,
        payload: &delivery.payload,
        attempt: delivery.attempt,
    };
    let decide = |outcome| {
        answer(
            outcome,
            &settings.retry_policy,
            delivery.attempt,
            &cause.to_string(),
        )
    };
    let judged = AssertUnwindSafe(|| decide((settings.failure_policy)(&failure)));
    std::panic::catch_unwind(judged).unwrap_or_else(|_| {
        tracing::error!("the failure policy panicked; the default one decides");
        let outcome = default_failure_policy(&failure);
        answer(outcome, &Default::default(), delivery.attempt, "")
    })
}

/// The text of a panic, if it has one.
fn message_of(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    }
}
