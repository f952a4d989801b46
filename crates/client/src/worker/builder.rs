//! Describing a worker.

use std::{sync::Arc, time::Duration};

use super::{
    observe::{
        counters::Counters,
        events::{Events, Poll},
    },
    run::{
        core::Spec,
        slot::{Handling, Runner},
    },
    settings::{EndOfQueue, Settings, SizeWarning, Start},
    Worker,
};
use crate::{
    connect::Connect,
    error::BuildError,
    handler::{
        outcome::Outcome,
        retry::{Failure, RetryPolicy},
        Handler,
    },
    message::{
        codec::{Decode, MessagePack},
        queue_name::QueueName,
    },
    sharded,
};

impl Worker {
    /// Describes a worker for the queue of that name; connections come from `source`: a
    /// [`redis::Client`], [`ClusterNodes`](crate::ClusterNodes), or anything that can
    /// [`Connect`].
    pub fn builder(source: impl Connect, queue: impl Into<Vec<u8>>) -> WorkerBuilder {
        WorkerBuilder::new(source, queue)
    }
}

/// Describes a [`Worker`]. Every value has a default; [`build`](Self::build) checks them all.
#[must_use = "a builder does nothing until it is built"]
pub struct WorkerBuilder<C = MessagePack> {
    source: Arc<dyn Connect>,
    queue: Vec<u8>,
    codec: C,
    settings: Settings,
}

impl WorkerBuilder {
    pub(crate) fn new(source: impl Connect, queue: impl Into<Vec<u8>>) -> Self {
        Self {
            source: Arc::new(source),
            queue: queue.into(),
            codec: MessagePack,
            settings: Settings::default(),
        }
    }
}

impl<C> WorkerBuilder<C> {
    /// How payloads are read; [`MessagePack`] by default.
    pub fn codec<D>(self, codec: D) -> WorkerBuilder<D> {
        WorkerBuilder {
            source: self.source,
            queue: self.queue,
            codec,
            settings: self.settings,
        }
    }

    /// How many messages are handled at the same time; 16 by default. With 0 the worker is built
    /// but never starts, which turns a queue off by configuration.
    pub fn handlers(mut self, handlers: usize) -> Self {
        self.settings.handlers = handlers;
        self
    }

    /// How long a message is locked at a time; 30 seconds by default, at least 100 ms.
    ///
    /// The worker extends the lock after each third of it for as long as the handler runs, so
    /// that this says nothing about how long a handler may take. It is how long a message waits
    /// after its worker was killed or cut off. A message's own lock time wins.
    pub fn lock(mut self, lock: Duration) -> Self {
        self.settings.lock = lock;
        self
    }

    /// What to do when the queue is empty; blocking for 5 seconds at a time by default.
    pub fn end_of_queue(mut self, end_of_queue: EndOfQueue) -> Self {
        self.settings.end_of_queue = end_of_queue;
        self
    }

    /// When the worker begins; at once by default.
    pub fn start(mut self, start: Start) -> Self {
        self.settings.start = start;
        self
    }

    /// How many messages one reply may bring; 512 by default. It is never more than there are free
    /// handlers, and with large payloads only as many as make some megabytes.
    pub fn max_batch(mut self, messages: usize) -> Self {
        self.settings.max_batch = messages;
        self
    }

    /// A pause after every poll; none by default. See also [`rate_limit`](Self::rate_limit).
    pub fn throttle(mut self, pause: Duration) -> Self {
        self.settings.pause = pause;
        self.settings.throttle =
            (!pause.is_zero()).then(|| Arc::new(move |_: &Poll<'_>| pause) as _);
        self
    }

    /// A pause after every poll that depends on what came of it.
    pub fn throttle_with(
        mut self,
        pause: impl Fn(&Poll<'_>) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.settings.pause = Duration::ZERO;
        self.settings.throttle = Some(Arc::new(pause));
        self
    }

    /// Takes at most that many messages in any period of that length. What may not be handled yet
    /// is not taken, so that no lock is held for it and other workers may have it.
    pub fn rate_limit(mut self, messages: usize, period: Duration) -> Self {
        self.settings.rate = Some((messages, period));
        self
    }

    /// How long the server may take to answer, its blocking wait not counted; 3 seconds by
    /// default. A server that is silent for longer is given up and connected to anew.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.settings.response_timeout = timeout;
        self
    }

    /// How long opening a connection may take; 3 seconds by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// The pauses between tries to reach the server: they double from the first to the second,
    /// with jitter; 100 ms to 5 seconds by default.
    pub fn reconnect_backoff(mut self, least: Duration, most: Duration) -> Self {
        self.settings.reconnect = (least, most);
        self
    }

    /// The grace time of a worker that is dropped while it runs; 30 seconds by default.
    pub fn stop_timeout(mut self, grace: Duration) -> Self {
        self.settings.stop_timeout = grace;
        self
    }

    /// How long handlers may go on after the grace time of a stop, once their
    /// [`cancellation`](crate::Message::cancellation) has told them; 2 seconds by default. What
    /// they return counts, so that a handler can put its work down.
    pub fn cancel_timeout(mut self, timeout: Duration) -> Self {
        self.settings.cancel_timeout = timeout;
        self
    }

    /// Decides about the next try of messages whose handler returned an error or
    /// [`Outcome::RetryByPolicy`]. By default the server draws exponential pauses.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.settings.retries.policy = policy;
        self
    }

    /// How many attempts a message gets that has no limit of its own
    /// ([`EnqueueOptions::attempts`](crate::EnqueueOptions::attempts)) in a queue that has none
    /// either (`MQ.LIMIT … ATTEMPTS`); 25 by default, 0 is no limit.
    ///
    /// A retry of the last one makes it a dead letter with the reason `no attempts left: …`,
    /// whoever decided for the retry; but a [`RetryPolicy`] with an end of its own has that one
    /// instead. From that attempt on the worker asks the server about the other limits, by
    /// `MQ.GET` and `MQ.LIMIT`; where an ACL refuses these, the message is tried again.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.settings.retries.attempts = attempts;
        self
    }

    /// Decides about messages that were not handled: the handler returned an error or panicked,
    /// or the payload could not be decoded. By default an error is retried by the
    /// [`retry_policy`](Self::retry_policy), and the other two become dead letters.
    ///
    /// ```
    /// # use redis_mq_client::{redis, Worker};
    /// use redis_mq_client::{policy::Cause, Outcome};
    ///
    /// # fn example(client: redis::Client) {
    /// let builder = Worker::builder(client, "mails").on_failure(|failure| match failure.cause {
    ///     Cause::Error(_) if failure.attempt < 5 => Outcome::RetryByPolicy,
    ///     cause => Outcome::error(cause.to_string()),
    /// });
    /// # let _ = builder; }
    /// ```
    pub fn on_failure(
        mut self,
        policy: impl Fn(&Failure<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.settings.retries.on_failure = Arc::new(policy);
        self
    }

    /// Called after every poll, on the worker's own thread: it should be quick.
    pub fn monitor(mut self, monitor: impl Fn(&Poll<'_>) + Send + Sync + 'static) -> Self {
        self.settings.monitor = Some(Arc::new(monitor));
        self
    }

    /// Looks at the queue's state that often, for the monitor and the throttle.
    pub fn sample_queue(mut self, every: Duration) -> Self {
        self.settings.sample_every = Some(every);
        self
    }

    /// Logs a warning when more than `above` messages wait, at most once in a while. The queue is
    /// looked at every 10 seconds, or as [`sample_queue`](Self::sample_queue) says.
    pub fn size_warning(mut self, above: u64, at_most_every: Duration) -> Self {
        self.settings.size_warning = Some(SizeWarning {
            above,
            at_most_every,
        });
        self
    }

    /// With the feature `opentelemetry`: makes the span of each delivery a child of that of its
    /// enqueue, in the same trace. By default it begins a trace of its own and is linked to the
    /// enqueue, since a message may be handled long after, and several times.
    #[cfg(feature = "opentelemetry")]
    #[cfg_attr(docsrs, doc(cfg(feature = "opentelemetry")))]
    pub fn continue_traces(mut self) -> Self {
        self.settings.continues_traces = true;
        self
    }

    /// Builds the worker, and starts it unless [`start`](Self::start) says otherwise.
    ///
    /// Fails if a value is out of range, and, if it starts, outside of a tokio runtime.
    pub fn build<T, H>(self, handler: H) -> Result<Worker, BuildError>
    where
        T: Send + 'static,
        C: Decode<T> + Send + Sync + 'static,
        H: Handler<T>,
    {
        let start = self.settings.start;
        let (spec, runner) = self.spec(handler)?;
        let worker = Worker {
            spec: Arc::new(spec),
            runner,
            run: Default::default(),
        };
        match start {
            Start::Automatic => worker.start_after(Duration::ZERO, None)?,
            Start::Delayed(delay) => worker.start_after(delay, None)?,
            Start::Manual => false,
        };
        Ok(worker)
    }

    /// The worker, apart from whether it runs, and what makes its slots.
    pub(crate) fn spec<T, H>(self, handler: H) -> Result<(Spec, Arc<dyn Runner>), BuildError>
    where
        T: Send + 'static,
        C: Decode<T> + Send + Sync + 'static,
        H: Handler<T>,
    {
        self.settings.check()?;
        if self.queue.is_empty() {
            return Err(invalid("queue", "a queue needs a name"));
        }
        let events = Arc::new(Events::new());
        let spec = spec(self.queue, self.settings, self.source, events);
        Ok((spec, Arc::new(Handling::new(self.codec, handler))))
    }

    pub(crate) fn start_and_handlers(&self) -> (Start, usize) {
        (self.settings.start, self.settings.handlers)
    }

    /// One worker for each shard, all with the same handler, which none of them has started.
    pub(crate) fn shard_workers<T, H>(
        self,
        shards: usize,
        handler: H,
    ) -> Result<Vec<Worker>, BuildError>
    where
        T: Send + 'static,
        C: Decode<T> + Send + Sync + 'static,
        H: Handler<T>,
    {
        self.settings.check()?;
        if let Some((option, problem)) = sharded::problem(&self.queue, shards) {
            return Err(invalid(option, problem));
        }
        let handlers = self.settings.handlers;
        if handlers > 0 && handlers < shards {
            return Err(invalid("handlers", "has to be at least one for each shard"));
        }
        let most = self.settings.rate.map(|(most, _)| most);
        if most.is_some_and(|most| most < shards) {
            let problem = "has to allow at least one message for each shard";
            return Err(invalid("rate_limit", problem));
        }
        let runner: Arc<dyn Runner> = Arc::new(Handling::new(self.codec, handler));
        let events = Arc::new(Events::new());
        let worker = |shard| {
            let mut settings = self.settings.clone();
            if let Some((most, _)) = &mut settings.rate {
                *most = sharded::share(*most as u64, shard, shards) as usize;
            }
            let key = sharded::shard_key(&self.queue, shard);
            let (source, events) = (Arc::clone(&self.source), Arc::clone(&events));
            Worker {
                spec: Arc::new(spec(key, settings, source, events)),
                runner: Arc::clone(&runner),
                run: Default::default(),
            }
        };
        Ok((0..shards).map(worker).collect())
    }
}

fn spec(key: Vec<u8>, settings: Settings, source: Arc<dyn Connect>, events: Arc<Events>) -> Spec {
    let queue = QueueName::new(key);
    Spec {
        counters: Counters::new(&queue.shown),
        queue: Arc::new(queue),
        settings,
        source,
        events,
    }
}

fn invalid(option: &'static str, problem: &'static str) -> BuildError {
    BuildError::InvalidOption { option, problem }
}

impl<C> std::fmt::Debug for WorkerBuilder<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.settings.fmt(f)
    }
}
