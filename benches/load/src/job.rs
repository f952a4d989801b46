//! What the load generator can be asked to do.

use serde::Deserialize;
use serde_json::Value;

use crate::{blocked, due, idle, latency, ping, sharded, systems::Name, throughput, worker};

/// A job and the server to do it to.
#[derive(Debug, Deserialize)]
pub struct Request {
    /// Of the server, on this machine.
    pub port: u16,
    #[serde(flatten)]
    job: Job,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "job", rename_all = "kebab-case")]
enum Job {
    /// Enqueues as fast as it goes.
    Enqueue(throughput::Enqueue),
    /// Takes and finishes messages as fast as it goes, until the queue is empty.
    Consume(throughput::Consume),
    /// The same with the client crate's worker and a handler that does nothing.
    Worker(worker::Drain),
    /// One queue over several servers, filled and then worked on.
    Sharded(sharded::Sharded),
    /// Producers at a steady rate, consumers that wait; measures enqueue to delivery.
    Latency(latency::Steady),
    /// Measures from the due instant of a delay or a lock to delivery.
    Due(due::Due),
    /// Pings until standard input closes.
    Ping(ping::Ping),
    /// Enqueues one message at a time while many consumers wait.
    Blocked(blocked::Blocked),
    /// Holds consumers that wait, until standard input closes.
    Idle(idle::Idle),
}

impl Request {
    /// Does the job.
    pub fn run(self) -> Value {
        let port = self.port;
        match self.job {
            Job::Enqueue(job) => job.run(port),
            Job::Consume(job) => job.run(port),
            Job::Worker(job) => job.run(port),
            Job::Sharded(job) => job.run(),
            Job::Latency(job) => job.run(port),
            Job::Due(job) => job.run(port),
            Job::Ping(job) => job.run(port),
            Job::Blocked(job) => job.run(port),
            Job::Idle(job) => job.run(port),
        }
    }
}

/// How a consumer waits where it can only poll.
pub const fn default_poll_ms() -> u64 {
    // The older queue's throttle between two polls of a worker thread.
    200
}

/// The name in a result of a job that needs a system.
pub type System = Name;
