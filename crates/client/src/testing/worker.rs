//! A worker that does one thing after the other.

use std::{fmt, sync::Arc};

use tokio::{sync::Mutex, time::Instant};

use crate::{
    connect::{any::AnyConnection, ConnectOptions},
    error::{unexpected, BuildError, Error},
    handler::{
        answer::{Answer, Pause, Retry},
        outcome::Outcome,
        retry::out_of_attempts,
        Handler,
    },
    message::{codec::Decode, delivery::Delivery, id::MessageId, status::Status},
    millis::millis,
    reply::{self, answered, dequeued, AnswerReply, Dequeued},
    worker::{
        ack::spent,
        builder::WorkerBuilder,
        run::{core::Core, slot::Runner},
    },
};

/// A worker that takes and handles one message at a time, and only when it is told to.
///
/// It is described by the builder of a real one, and what becomes of messages is decided alike:
/// codec, lock time, policies and limits of attempts are the builder's. There is no thread, no
/// heartbeat and no wait; limits of the worker's own speed are not looked at. Its connection is the
/// builder's too, so that it works on a real server as well.
pub struct TestWorker {
    core: Arc<Core>,
    runner: Arc<dyn Runner>,
    connection: Mutex<Option<AnyConnection>>,
}

/// What a [`TestWorker`] did with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// The message.
    pub id: MessageId,
    /// Which delivery of it this was.
    pub attempt: u32,
    /// What was decided in the end, by the handler or by the policies of the worker. A retry by
    /// policy is shown as the pause that came of it.
    pub outcome: Outcome,
    /// What went wrong, if the message is to be tried again for that.
    pub reason: Option<String>,
    /// What the message is doing now; `None` if it is gone.
    pub status: Option<Status>,
    /// Whether the outcome counted: else the message was cancelled meanwhile, or somebody else has
    /// it.
    pub counted: bool,
}

/// More runs than that without a rest are those of a handler that retries for ever.
const MOST_RUNS: usize = 100_000;

impl TestWorker {
    /// A worker of that description, with that handler. Nothing is sent.
    pub fn new<T, C, H>(builder: WorkerBuilder<C>, handler: H) -> Result<Self, BuildError>
    where
        T: Send + 'static,
        C: Decode<T> + Send + Sync + 'static,
        H: Handler<T>,
    {
        let (spec, runner) = builder.spec(handler)?;
        Ok(Self {
            core: Arc::new(Core::new(Arc::new(spec), None)),
            runner,
            connection: Mutex::new(None),
        })
    }

    /// Takes the next message that is ready and handles it. `None` if there is none.
    pub async fn run_one(&self) -> Result<Option<Run>, Error> {
        let mut connection = self.connection.lock().await;
        let connection = match &mut *connection {
            Some(connection) => connection,
            none => none.insert(self.connect().await?),
        };
        let Some(delivery) = self.take(connection).await? else {
            return Ok(None);
        };
        let runner = Arc::clone(&self.runner);
        let core = Arc::clone(&self.core);
        let answer = runner.handle_one(core, Arc::clone(&delivery)).await;
        let answer = match answer {
            Answer::Retry(retry) if self.is_spent(connection, &delivery, &retry).await? => {
                out_of_attempts(&retry)
            }
            answer => answer,
        };
        let queue = &self.core.spec.queue.key[..];
        let mut command = redis::cmd("MQ.DONE");
        command.arg(queue).arg(delivery.id.as_bytes());
        command.arg(delivery.token);
        answer.write(&mut command, true);
        let answered = answered(connection.query(&command).await)?;
        let mut status = redis::cmd("MQ.STATUS");
        status.arg(queue).arg(delivery.id.as_bytes());
        let status = connection.query(&status).await?;
        let (outcome, reason) = shown(answer);
        Ok(Some(Run {
            id: delivery.id.clone(),
            attempt: delivery.attempt,
            outcome,
            reason,
            status: reply::status(&status),
            counted: matches!(answered, AnswerReply::Became(_) | AnswerReply::Expired),
        }))
    }

    /// Handles messages until none is ready; tells of each.
    ///
    /// # Panics
    /// After 100000 messages: a handler that retries at once has no end.
    pub async fn run_until_idle(&self) -> Result<Vec<Run>, Error> {
        let mut runs = Vec::new();
        while let Some(run) = self.run_one().await? {
            runs.push(run);
            assert!(runs.len() < MOST_RUNS, "{MOST_RUNS} runs and no end of it");
        }
        Ok(runs)
    }

    async fn connect(&self) -> Result<AnyConnection, Error> {
        let spec = &self.core.spec;
        let options = ConnectOptions {
            queue: spec.queue.key.clone(),
            response_timeout: spec.settings.response_timeout,
            connect_timeout: spec.settings.connect_timeout,
            ask: None,
        };
        Ok(AnyConnection(spec.source.connect(&options).await?))
    }

    async fn take(&self, connection: &mut AnyConnection) -> Result<Option<Arc<Delivery>>, Error> {
        let spec = &self.core.spec;
        let mut command = redis::cmd("MQ.DEQUEUE");
        command.arg(&spec.queue.key[..]).arg("COUNT").arg(1);
        command.arg("LOCK").arg(millis(spec.settings.lock));
        let reply = connection.query(&command).await?;
        match dequeued(reply).ok_or(unexpected("MQ.DEQUEUE"))? {
            Dequeued::Nothing | Dequeued::Wait(_) => Ok(None),
            Dequeued::Deliveries(mut deliveries) => Ok(deliveries
                .pop()
                .map(|delivered| Arc::new(Delivery::new(delivered, Instant::now())))),
        }
    }

    async fn is_spent(
        &self,
        connection: &mut AnyConnection,
        delivery: &Arc<Delivery>,
        retry: &Retry,
    ) -> Result<bool, Error> {
        if !retry.last {
            return Ok(false);
        }
        let queue = &self.core.spec.queue;
        Ok(spent::is_spent(connection, queue, delivery).await?)
    }
}

/// An answer as a handler could have given it.
fn shown(answer: Answer) -> (Outcome, Option<String>) {
    match answer {
        Answer::Success(None) => (Outcome::Success, None),
        Answer::Success(Some(window)) => (Outcome::SuccessFor(window), None),
        Answer::Retry(retry) => {
            let outcome = match retry.pause {
                Pause::None => Outcome::RetryNow,
                Pause::For(pause) => Outcome::RetryAfter(pause),
                Pause::Exponential => Outcome::RetryExponential,
            };
            let reason = retry.reason.into_string();
            (outcome, Some(reason).filter(|reason| !reason.is_empty()))
        }
        Answer::Error(reason) => (Outcome::Error(reason.into_string()), None),
        // No handler decides for that.
        Answer::Release => (Outcome::RetryNow, None),
    }
}

impl fmt::Debug for TestWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestWorker")
            .field("queue", &self.core.spec.queue.shown)
            .field("settings", &self.core.spec.settings)
            .finish_non_exhaustive()
    }
}
