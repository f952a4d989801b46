//! What a worker counts.

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

        /// What has been counted, by the reading of each count.
        pub(super) fn stats(read: impl Fn(Count) -> u64) -> WorkerStats {
            WorkerStats { $($field: read(Count::$variant),)* }
        }

        impl WorkerStats {
            /// Both together.
            pub(crate) fn plus(self, other: &Self) -> Self {
                Self { $($field: self.$field + other.$field,)* }
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
