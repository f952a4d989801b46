//! Counters of a worker: its own, and those of the `metrics` facade.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

#[cfg(feature = "metrics")]
use super::facade;
use crate::reply::Delivered;

/// What a worker has done since it was built, whatever starts and stops came between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Messages taken.
    pub taken: u64,
    /// Messages finished with success.
    pub finished: u64,
    /// Messages to be tried again.
    pub retried: u64,
    /// Messages that became dead letters here.
    pub dead: u64,
    /// Messages whose time to live had ended when they were to be retried or given back.
    pub expired: u64,
    /// Messages given back: not begun, or dropped by a stop.
    pub released: u64,
    /// Handlers that returned an error.
    pub failed: u64,
    /// Handlers that panicked.
    pub panicked: u64,
    /// Locks that were lost, or could not be confirmed in time.
    pub lost_locks: u64,
    /// Answers that the server refused.
    pub answers_refused: u64,
    /// Polls of the queue.
    pub polls: u64,
    /// Outages of either connection.
    pub outages: u64,
}

macro_rules! counts {
    ($($variant:ident $field:ident $name:literal $help:literal,)*) => {
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Count { $($variant,)* }

        /// The counters of the `metrics` facade, and what they count.
        pub(super) const NAMES: &[(&str, &str)] = &[$(($name, $help),)*];

        impl Meter {
            pub(crate) fn stats(&self) -> WorkerStats {
                WorkerStats { $($field: self.own[Count::$variant as usize].load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    Taken taken "redis_mq_worker_taken_total" "Messages taken",
    Finished finished "redis_mq_worker_finished_total" "Messages finished with success",
    Retried retried "redis_mq_worker_retried_total" "Messages to be tried again",
    Dead dead "redis_mq_worker_dead_total" "Messages that became dead letters",
    Expired expired "redis_mq_worker_expired_total" "Messages expired when given back",
    Released released "redis_mq_worker_released_total" "Messages given back",
    Failed failed "redis_mq_worker_failed_total" "Handlers that returned an error",
    Panicked panicked "redis_mq_worker_panicked_total" "Handlers that panicked",
    LostLocks lost_locks "redis_mq_worker_lost_locks_total" "Locks lost",
    AnswersRefused answers_refused "redis_mq_worker_answers_refused_total" "Answers refused",
    Polls polls "redis_mq_worker_polls_total" "Polls of the queue",
    Outages outages "redis_mq_worker_outages_total" "Outages of a connection",
}

#[derive(Debug)]
pub(crate) struct Meter {
    own: [AtomicU64; NAMES.len()],
    #[cfg(feature = "metrics")]
    facade: facade::Facade,
}

impl Meter {
    pub(crate) fn new(queue: &str) -> Self {
        #[cfg(not(feature = "metrics"))]
        let _ = queue;
        Self {
            own: Default::default(),
            #[cfg(feature = "metrics")]
            facade: facade::Facade::new(queue),
        }
    }

    pub(crate) fn add(&self, count: Count, n: usize) {
        if n == 0 {
            return;
        }
        let n = n as u64;
        self.own[count as usize].fetch_add(n, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        self.facade.add(count as usize, n);
    }

    /// The moment at which work begins; `None` while nobody records durations.
    #[cfg(feature = "metrics")]
    pub(crate) fn begin_work(&self) -> Option<Instant> {
        facade::is_installed().then(Instant::now)
    }

    #[cfg(not(feature = "metrics"))]
    #[allow(clippy::unused_self, reason = "as with the facade")]
    pub(crate) fn begin_work(&self) -> Option<Instant> {
        None
    }

    /// Work that began then has ended.
    pub(crate) fn end_work(&self, began: Option<Instant>) {
        if let Some(began) = began {
            #[cfg(feature = "metrics")]
            self.facade.worked(began.elapsed());
            #[cfg(not(feature = "metrics"))]
            let _ = began;
        }
    }

    /// These messages have been handed over. How long they had waited is by the server's clock
    /// alone: a token is the moment of its delivery, in microseconds, or a little more.
    pub(crate) fn waited(&self, deliveries: &[Delivered]) {
        #[cfg(feature = "metrics")]
        if facade::is_installed() {
            for first in deliveries.iter().filter(|it| it.attempt == 1) {
                let delivered_ms = u64::try_from(first.token).unwrap_or(0) / 1_000;
                let waited_ms = delivered_ms.saturating_sub(first.enqueued_at_ms);
                self.facade
                    .waited(std::time::Duration::from_millis(waited_ms));
            }
        }
        #[cfg(not(feature = "metrics"))]
        let _ = deliveries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_has_its_own_field() {
        let meter = Meter::new("q");
        meter.add(Count::Taken, 3);
        meter.add(Count::Outages, 1);
        meter.add(Count::Outages, 1);
        meter.add(Count::Dead, 0);
        assert_eq!(
            meter.stats(),
            WorkerStats {
                taken: 3,
                outages: 2,
                ..Default::default()
            }
        );
    }
}
