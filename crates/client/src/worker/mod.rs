//! Working.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::broadcast, task::JoinSet, time::Instant};

pub(crate) mod ack;
pub(crate) mod builder;
pub(crate) mod connection;
#[cfg(test)]
mod fake;
pub(crate) mod fetch;
pub(crate) mod inflight;
pub(crate) mod lease;
pub(crate) mod observe;
pub(crate) mod run;
pub(crate) mod settings;
#[cfg(feature = "signals")]
pub(crate) mod signal;
#[cfg(test)]
mod tests;

use self::{
    inflight::pool::Seat,
    observe::{counts::WorkerStats, events::Event},
    run::{
        core::{Core, Spec},
        report::StopReport,
        slot::Runner,
    },
};
use crate::error::StartError;

/// Takes messages from a queue and gives them to a handler, for as long as it is not stopped.
///
/// See the [guide](crate::guide) for what it does and how to choose its settings.
///
/// Dropping a running worker begins to stop it: nothing new is taken, what was not begun is given
/// back, and handlers get the builder's [`stop_timeout`](crate::WorkerBuilder::stop_timeout) to finish.
/// [`stop`](Self::stop) does the same and waits.
///
/// ```no_run
/// # use std::time::Duration;
/// use redis_mq_client::{redis, Message, Worker};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = redis::Client::open("redis://127.0.0.1/")?;
/// let worker = Worker::builder(client, "mails").handlers(8).build(
///     |message: Message<String>| async move { println!("{}", message.value) },
/// )?;
/// // … until it is time to go:
/// let report = worker.stop(Duration::from_secs(30)).await;
/// println!("left unfinished: {:?}", report.unfinished);
/// # Ok(()) }
/// ```
#[must_use = "a worker that is dropped stops"]
pub struct Worker {
    spec: Arc<Spec>,
    /// Makes the handlers' slots.
    runner: Arc<dyn Runner>,
    /// The run of the last start, until a stop has ended.
    run: Mutex<Option<Arc<Core>>>,
}

impl Worker {
    /// Starts to take messages. `false`: it runs already, or has no handlers.
    ///
    /// Handlers run on the tokio runtime that this is called in.
    pub fn start(&self) -> Result<bool, StartError> {
        self.start_after(Duration::ZERO, None)
    }

    /// `seat` is its place where handlers are shared with other queues.
    pub(crate) fn start_after(
        &self,
        delay: Duration,
        seat: Option<Seat>,
    ) -> Result<bool, StartError> {
        let handle = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let mut run = self.run();
        let running = run.as_ref().is_some_and(|core| core.is_running());
        if running || self.spec.settings.handlers == 0 {
            return Ok(false);
        }
        let core = Arc::new(Core::new(Arc::clone(&self.spec), seat));
        let slots = {
            let (core, runner) = (Arc::clone(&core), Arc::clone(&self.runner));
            move || {
                let mut slots = JoinSet::new();
                for _ in 0..core.spec.settings.handlers {
                    let runner = Arc::clone(&runner);
                    slots.spawn_on(runner.slot(Arc::clone(&core)), &handle);
                }
                slots
            }
        };
        run::start(Arc::clone(&core), delay, slots).map_err(StartError::Thread)?;
        *run = Some(core);
        tracing::info!(queue = %self.spec.queue.shown, "worker started");
        Ok(true)
    }

    /// Stops taking messages, gives back those not begun without counting the attempt, waits up
    /// to `grace` for running handlers, sends their answers, and tells what was left.
    ///
    /// After the grace time, running handlers are told by their
    /// [`cancellation`](crate::Message::cancellation), and have the builder's
    /// [`cancel_timeout`](crate::WorkerBuilder::cancel_timeout) to return something, which still counts.
    /// Those that do not are dropped at their next await, and their messages given back, without
    /// counting the attempt; but not while somebody still holds the
    /// [`Message`](crate::Message), or works on it in [`blocking`](crate::blocking): those are left
    /// to their locks and reported. Work that a handler has handed on without its message is not
    /// known here. Then at most the response timeout, or what is left of the grace time, goes into
    /// sending answers.
    ///
    /// Once begun, the stop goes on even if this future is dropped. Of two stops at the same time
    /// the shorter grace counts, and both get the report. A worker that does not run has nothing
    /// left; one that has ended with its runtime reports what was left then.
    pub async fn stop(&self, grace: Duration) -> StopReport {
        let Some(core) = self.run().clone() else {
            return StopReport::default();
        };
        core.begin_to_stop(deadline(grace));
        let report = core.ended().await;
        let mut run = self.run();
        if run.as_ref().is_some_and(|run| Arc::ptr_eq(run, &core)) {
            *run = None;
        }
        report
    }

    /// Whether it takes messages, or tries to. A worker ends when it is stopped, or when the
    /// runtime that it was started in does.
    pub fn is_running(&self) -> bool {
        self.run().as_ref().is_some_and(|core| core.is_running())
    }

    /// Whether it takes messages and the server answers, for a readiness probe: it runs, the
    /// connection that takes messages works, and the other one has not failed. That one is opened
    /// with the first message. A server that has gone silent is noticed after the wait and the
    /// [response timeout](crate::WorkerBuilder::response_timeout), 8 seconds by default.
    ///
    /// A worker that is not connected loses nothing and tries on: no reason to restart it.
    pub fn is_connected(&self) -> bool {
        self.run().as_ref().is_some_and(|core| core.is_connected())
    }

    /// How many messages are being handled now.
    pub fn running_handlers(&self) -> usize {
        self.run()
            .as_ref()
            .map_or(0, |core| core.deliveries.running())
    }

    /// Everything that happens from now on. A listener that falls 4096 events behind misses some,
    /// which its next `recv` says.
    ///
    /// What is taken and what was answered come over two connections: a message's next delivery
    /// may be told before the answer that led to it.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.spec.events.subscribe()
    }

    /// What it has done since it was built.
    pub fn stats(&self) -> WorkerStats {
        self.spec.counters.stats()
    }

    /// The queue's name.
    pub fn queue(&self) -> &[u8] {
        &self.spec.queue.key
    }

    /// The most messages a second that the settings allow, however fast the handlers are: the
    /// throttle lets every handler get one message between two pauses, and the rate limit allows
    /// what it says. `None` if neither is set.
    pub fn expected_throughput(&self) -> Option<f64> {
        let settings = &self.spec.settings;
        let throttled = (!settings.pause.is_zero()).then(|| {
            let batch = settings.handlers.min(settings.max_batch);
            batch as f64 / settings.pause.as_secs_f64()
        });
        let limited = settings
            .rate
            .map(|(most, period)| most as f64 / period.as_secs_f64());
        match (throttled, limited) {
            (Some(throttled), Some(limited)) => Some(throttled.min(limited)),
            (throttled, limited) => throttled.or(limited),
        }
    }

    fn run(&self) -> std::sync::MutexGuard<'_, Option<Arc<Core>>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "signals")]
#[cfg_attr(docsrs, doc(cfg(feature = "signals")))]
impl Worker {
    /// Works until the process gets SIGTERM or SIGINT (Ctrl-C), and then [stops](Self::stop).
    /// Further signals while it stops change nothing: the grace time is the limit.
    pub async fn run_until_signal(&self, grace: Duration) -> std::io::Result<StopReport> {
        signal::shutdown_signal()?.await;
        Ok(self.stop(grace).await)
    }
}

impl Worker {
    /// Begins to stop it, if it runs.
    pub(crate) fn let_go(&self) {
        if let Some(core) = self.run().take() {
            core.begin_to_stop(deadline(self.spec.settings.stop_timeout));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// The end of a grace time that begins now.
fn deadline(grace: Duration) -> Instant {
    Instant::now() + grace.min(Duration::from_secs(u64::from(u32::MAX)))
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.spec.queue.shown)
            .field("settings", &self.spec.settings)
            .field("running", &self.is_running())
            .finish_non_exhaustive()
    }
}
