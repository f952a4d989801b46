//! `INFO mq`: the queues in memory, and what this server has done with them since it started.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use redis_mq_core::Queue;

use crate::consumers;
use crate::cron;
use crate::redis::{register_info, Ctx, InfoSource, InfoWriter, LoadError};
use crate::waiting;

/// A number that only the server's thread changes.
pub struct Gauge(AtomicU64);

impl Gauge {
    const fn new() -> Gauge {
        Gauge(AtomicU64::new(0))
    }

    /// `n` more.
    #[inline]
    pub fn add(&self, n: u64) {
        // One thread writes: no need for the cost of an atomic addition.
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// More or less by `by`, and no less than none: what is taken back may have been counted before
    /// the server started.
    #[inline]
    pub fn change(&self, by: i64) {
        let value = self.0.load(Ordering::Relaxed).saturating_add_signed(by);
        self.0.store(value, Ordering::Relaxed);
    }

    /// The number now.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Messages accepted since the server started.
pub static ENQUEUED: Gauge = Gauge::new();
/// Deliveries since the server started.
pub static DELIVERED: Gauge = Gauge::new();
/// Deliveries that ended with success since the server started.
pub static DONE: Gauge = Gauge::new();
/// Deliveries that ended with a retry since the server started.
pub static RETRIED: Gauge = Gauge::new();
/// Messages that became dead since the server started.
pub static DEAD: Gauge = Gauge::new();
/// Messages whose time to live ended before they were handed over, since the server started.
pub static EXPIRED: Gauge = Gauge::new();
/// Dead letters above the number that is kept, since the server started.
pub static DEAD_DROPPED: Gauge = Gauge::new();
/// Locks that ran out since the server started.
pub static EXPIRED_LOCKS: Gauge = Gauge::new();

/// Dead letters sent again since the server started.
pub static REDRIVEN: Gauge = Gauge::new();

/// Runs of schedules that were enqueued since the server started.
pub static RUNS: Gauge = Gauge::new();

/// Queues that have gone by themselves since the server started.
pub static IDLED_QUEUES: Gauge = Gauge::new();

static SINCE_START: [(&CStr, &Gauge); 11] = [
    (c"total_enqueued", &ENQUEUED),
    (c"total_delivered", &DELIVERED),
    (c"total_done", &DONE),
    (c"total_retried", &RETRIED),
    (c"total_dead", &DEAD),
    (c"total_expired_locks", &EXPIRED_LOCKS),
    (c"total_expired", &EXPIRED),
    (c"total_redriven", &REDRIVEN),
    (c"total_dead_dropped", &DEAD_DROPPED),
    (c"total_idled_queues", &IDLED_QUEUES),
    (c"total_runs", &RUNS),
];

/// Queues in memory.
static QUEUES: AtomicI64 = AtomicI64::new(0);
/// Messages of all queues by status.
static MESSAGES: [AtomicI64; Queue::COUNTS] = [const { AtomicI64::new(0) }; Queue::COUNTS];

/// What one queue has added to the sums over all queues, and takes away again when it is dropped, possibly
/// by the thread that frees in the background.
#[derive(Debug, PartialEq, Eq)]
pub struct Share([u32; Queue::COUNTS]);

impl Share {
    /// The statuses by the last step; `done-awaiting-gc` is one that time reaches by itself.
    const STATUSES: [&'static CStr; Queue::COUNTS] = [
        c"messages_queued",
        c"messages_queued_with_backoff",
        c"messages_locked",
        c"messages_locked_with_requeue",
        c"messages_done_with_backoff",
        c"messages_done_with_requeue",
        c"messages_dead",
        c"messages_waiting",
    ];

    /// The share of this queue, which is new in memory.
    pub fn of(queue: &Queue) -> Share {
        QUEUES.fetch_add(1, Ordering::Relaxed);
        let mut share = Share([0; Queue::COUNTS]);
        share.follow(queue);
        share
    }

    /// Adds what has changed in the queue since it was looked at last.
    #[inline]
    pub fn follow(&mut self, queue: &Queue) {
        for ((shared, count), sum) in self.0.iter_mut().zip(queue.counts()).zip(&MESSAGES) {
            let count = count as u32; // a slab has fewer than 2^32 slots
            if *shared != count {
                let more = i64::from(count) - i64::from(*shared);
                sum.fetch_add(more, Ordering::Relaxed);
                *shared = count;
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        QUEUES.fetch_sub(1, Ordering::Relaxed);
        for (shared, sum) in self.0.iter().zip(&MESSAGES) {
            sum.fetch_sub(i64::from(*shared), Ordering::Relaxed);
        }
    }
}

struct Numbers;

impl InfoSource for Numbers {
    fn write(info: &mut InfoWriter) {
        if !info.section(c"") {
            return;
        }
        // A queue that is being freed may have left one sum and not yet another.
        let read = |sum: &AtomicI64| u64::try_from(sum.load(Ordering::Relaxed)).unwrap_or(0);
        info.number(c"queues", read(&QUEUES));
        info.number(c"messages", MESSAGES.iter().map(read).sum());
        for (name, sum) in Share::STATUSES.iter().zip(&MESSAGES) {
            info.number(name, read(sum));
        }
        info.number(c"blocked_consumers", consumers::count());
        info.number(c"result_waiters", waiting::count());
        for (name, gauge) in &SINCE_START {
            info.number(name, gauge.value());
        }
        info.text(c"tzdata", cron::database_version());
    }
}

/// Makes `INFO mq` answer.
pub fn register(ctx: &Ctx) -> Result<(), LoadError> {
    register_info::<Numbers>(ctx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_mq_core::{Enqueue, Log, Now, Settings, Turn};

    #[test]
    fn a_queue_takes_its_share_away_with_it() {
        let (settings, mut log) = (Settings::default(), Log::default());
        let mut queue = Queue::new(1);
        let mut share = Share::of(&queue);
        let now = Now::from_micros(1_700_000_000_000_000);
        let mut turn = Turn::new(now, 1, &settings, &mut log);
        queue.enqueue(&mut turn, &Enqueue::new(b"p"));
        share.follow(&queue);
        let held = (
            QUEUES.load(Ordering::Relaxed),
            MESSAGES[0].load(Ordering::Relaxed),
        );
        assert_eq!((held, share.0[0]), ((1, 1), 1));
        drop(share);
        let left = (
            QUEUES.load(Ordering::Relaxed),
            MESSAGES[0].load(Ordering::Relaxed),
        );
        assert_eq!(left, (0, 0));
    }
}
