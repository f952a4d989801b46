//! Working on all shards of a queue.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::sync::broadcast;

use crate::{
    error::{BuildError, StartError},
    handler::Handler,
    message::codec::Decode,
    worker::{
        builder::WorkerBuilder,
        inflight::pool::Pool,
        observe::{counts::WorkerStats, events::Event},
        run::report::StopReport,
        settings::Start,
        Worker,
    },
};

/// Takes messages from all shards of a queue and gives them to one handler.
///
/// It has two connections and a thread for each shard, and one set of handlers for all of them.
/// A shard with nothing to do has one handler to wait with; those with a backlog share the others
/// evenly, and what one does not use is there for the rest. A shard that cannot be reached leaves
/// its part to the others until it is back.
///
/// It is made by [`WorkerBuilder::build_sharded`], and is otherwise as a [`Worker`].
#[must_use = "a worker that is dropped stops"]
pub struct ShardedWorker {
    workers: Vec<Worker>,
    handlers: usize,
    /// Held by a start, so that all shards are of the same one.
    starting: Mutex<()>,
}

impl<C> WorkerBuilder<C> {
    /// A worker on all shards of the [`ShardedQueue`](crate::ShardedQueue) of the builder's name,
    /// which is started unless [`start`](Self::start) says otherwise. Its connections come from the
    /// builder's source: of a cluster, or of several servers with
    /// [`connect::shards`](crate::connect::shards).
    ///
    /// The [`handlers`](Self::handlers) are those of all shards together, at least one for each.
    /// A [`rate_limit`](Self::rate_limit) is shared out over the shards. What is told of a queue
    /// ([`monitor`](Self::monitor), [`throttle`](Self::throttle), [`size_warning`](Self::size_warning),
    /// counters of the `metrics` facade) is told of each shard.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis_mq_client::{ClusterNodes, Message, Worker};
    ///
    /// let nodes = ClusterNodes::new(["redis://10.0.0.1/", "redis://10.0.0.2/"])?;
    /// let worker = Worker::builder(nodes, "mails").handlers(64).build_sharded(
    ///     4,
    ///     |message: Message<String>| async move { println!("{}", message.value) },
    /// )?;
    /// # let _ = worker;
    /// # Ok(()) }
    /// ```
    pub fn build_sharded<T, H>(self, shards: usize, handler: H) -> Result<ShardedWorker, BuildError>
    where
        T: Send + 'static,
        C: Decode<T> + Send + Sync + 'static,
        H: Handler<T>,
    {
        let (start, handlers) = self.start_and_handlers();
        let worker = ShardedWorker {
            workers: self.shard_workers(shards, handler)?,
            handlers,
            starting: Mutex::new(()),
        };
        match start {
            Start::Automatic => worker.start_after(Duration::ZERO)?,
            Start::Delayed(delay) => worker.start_after(delay)?,
            Start::Manual => false,
        };
        Ok(worker)
    }
}

impl ShardedWorker {
    /// Starts to take messages, as [`Worker::start`]. `false`: it runs already, or has no handlers.
    pub fn start(&self) -> Result<bool, StartError> {
        self.start_after(Duration::ZERO)
    }

    fn start_after(&self, delay: Duration) -> Result<bool, StartError> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_running() || self.handlers == 0 {
            return Ok(false);
        }
        let seats = Pool::seats(self.handlers, self.workers.len());
        for (worker, seat) in self.workers.iter().zip(seats) {
            if let Err(error) = worker.start_after(delay, Some(seat)) {
                self.workers.iter().for_each(Worker::let_go);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Stops all shards at the same time, as [`Worker::stop`]; what was left of all of them.
    pub async fn stop(&self, grace: Duration) -> StopReport {
        let stops = self.workers.iter().map(|worker| worker.stop(grace));
        let mut left = StopReport::default();
        for report in join_all(stops).await {
            left.given_back.extend(report.given_back);
            left.unfinished.extend(report.unfinished);
            left.unanswered.extend(report.unanswered);
        }
        left
    }

    /// Whether it takes messages, or tries to.
    pub fn is_running(&self) -> bool {
        self.workers.iter().any(Worker::is_running)
    }

    /// Whether it takes messages, and all shards answer, as [`Worker::is_connected`].
    pub fn is_connected(&self) -> bool {
        self.connected_shards() == self.workers.len()
    }

    /// How many shards it takes messages from: for a readiness probe that bears one being down.
    pub fn connected_shards(&self) -> usize {
        let connected = self.workers.iter().filter(|worker| worker.is_connected());
        connected.count()
    }

    /// How many messages are being handled now, never more than there are handlers.
    pub fn running_handlers(&self) -> usize {
        self.workers.iter().map(Worker::running_handlers).sum()
    }

    /// Everything that happens at all shards from now on, as [`Worker::events`].
    pub fn events(&self) -> broadcast::Receiver<Event> {
        // All shards send to the same.
        self.workers[0].events()
    }

    /// What it has done since it was built.
    pub fn stats(&self) -> WorkerStats {
        let stats = self.shard_stats();
        stats.iter().fold(WorkerStats::default(), WorkerStats::plus)
    }

    /// What it has done since it was built, at each shard.
    pub fn shard_stats(&self) -> Vec<WorkerStats> {
        self.workers.iter().map(Worker::stats).collect()
    }
}

#[cfg(feature = "signals")]
#[cfg_attr(docsrs, doc(cfg(feature = "signals")))]
impl ShardedWorker {
    /// Works until the process gets SIGTERM or SIGINT, as [`Worker::run_until_signal`].
    pub async fn run_until_signal(&self, grace: Duration) -> std::io::Result<StopReport> {
        crate::worker::signal::shutdown_signal()?.await;
        Ok(self.stop(grace).await)
    }
}

impl fmt::Debug for ShardedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedWorker")
            .field("shards", &self.workers)
            .finish_non_exhaustive()
    }
}
