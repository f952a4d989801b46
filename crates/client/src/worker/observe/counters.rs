//! Counters of a worker: its own, and those of the `metrics` facade.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use super::counts::{stats, Count, WorkerStats, NAMES};
#[cfg(feature = "metrics")]
use super::recorder;
use crate::message::delivered::Delivered;

#[derive(Debug)]
pub(crate) struct Counters {
    own: [AtomicU64; NAMES.len()],
    #[cfg(feature = "metrics")]
    recorded: recorder::Recorded,
}

impl Counters {
    pub(crate) fn new(queue: &str) -> Self {
        #[cfg(not(feature = "metrics"))]
        let _ = queue;
        Self {
            own: Default::default(),
            #[cfg(feature = "metrics")]
            recorded: recorder::Recorded::new(queue),
        }
    }

    pub(crate) fn stats(&self) -> WorkerStats {
        stats(|count| self.own[count as usize].load(Ordering::Relaxed))
    }

    pub(crate) fn add(&self, count: Count, n: usize) {
        if n == 0 {
            return;
        }
        let n = n as u64;
        self.own[count as usize].fetch_add(n, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        self.recorded.add(count as usize, n);
    }

    /// The moment at which work begins; `None` while nobody records durations.
    #[cfg(feature = "metrics")]
    pub(crate) fn begin_work(&self) -> Option<Instant> {
        recorder::is_installed().then(Instant::now)
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
            self.recorded.worked(began.elapsed());
            #[cfg(not(feature = "metrics"))]
            let _ = began;
        }
    }

    /// These messages have been handed over. How long they had waited is by the server's clock
    /// alone: a token is the moment of its delivery, in microseconds, or a little more.
    pub(crate) fn waited(&self, deliveries: &[Delivered]) {
        #[cfg(feature = "metrics")]
        if recorder::is_installed() {
            for first in deliveries.iter().filter(|it| it.attempt == 1) {
                let delivered_ms = u64::try_from(first.token).unwrap_or(0) / 1_000;
                let waited_ms = delivered_ms.saturating_sub(first.enqueued_at_ms);
                self.recorded
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
        let counters = Counters::new("q");
        counters.add(Count::Taken, 3);
        counters.add(Count::Outages, 1);
        counters.add(Count::Outages, 1);
        counters.add(Count::Dead, 0);
        assert_eq!(
            counters.stats(),
            WorkerStats {
                taken: 3,
                outages: 2,
                ..Default::default()
            }
        );
    }
}
