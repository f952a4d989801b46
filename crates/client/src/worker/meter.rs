//! Counters of a worker: its own, and those of the `metrics` facade.

use std::sync::atomic::{AtomicU64, Ordering};

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

        const NAMES: &[(&str, &str)] = &[$(($name, $help),)*];

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
}

#[cfg(feature = "metrics")]
mod facade {
    use std::sync::{PoisonError, RwLock};

    use metrics::Recorder;

    use super::NAMES;

    /// The counters of the `metrics` facade, registered with the recorder of the moment: a program
    /// may install its recorder after its workers have begun to count.
    #[derive(Debug)]
    pub(super) struct Facade {
        queue: String,
        counters: RwLock<Registered>,
    }

    #[derive(Debug, Default)]
    struct Registered {
        /// Which recorder they are registered with.
        with: Option<Identity>,
        counters: Vec<metrics::Counter>,
    }

    /// The address and the size of a recorder tell it from the one that does nothing, and from
    /// another one.
    type Identity = (usize, usize);

    impl Facade {
        pub(super) fn new(queue: &str) -> Self {
            Self {
                queue: queue.to_owned(),
                counters: RwLock::default(),
            }
        }

        pub(super) fn add(&self, count: usize, n: u64) {
            metrics::with_recorder(|recorder| {
                let address = std::ptr::from_ref(recorder).cast::<()>().addr();
                let identity = (address, std::mem::size_of_val(recorder));
                {
                    let registered = self.counters.read();
                    let registered = registered.unwrap_or_else(PoisonError::into_inner);
                    if registered.with == Some(identity) {
                        return registered.counters[count].increment(n);
                    }
                }
                let counters = self.register(recorder);
                counters[count].increment(n);
                *self
                    .counters
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = Registered {
                    with: Some(identity),
                    counters,
                };
            });
        }

        fn register(&self, recorder: &dyn Recorder) -> Vec<metrics::Counter> {
            let level = metrics::Level::INFO;
            let metadata = metrics::Metadata::new(module_path!(), level, Some(module_path!()));
            let counter = |(name, help): &(&'static str, &'static str)| {
                recorder.describe_counter((*name).into(), None, (*help).into());
                let labels = vec![metrics::Label::new("queue", self.queue.clone())];
                recorder.register_counter(&metrics::Key::from_parts(*name, labels), &metadata)
            };
            NAMES.iter().map(counter).collect()
        }
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
