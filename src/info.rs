//! `INFO mq`: the queues in memory, and what this server has done with them since it started.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use redis_mq_core::Queue;

use crate::redis::{register_info, Ctx, InfoSource, InfoWriter, LoadError};

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

    /// One less; each goes with an addition before.
    #[inline]
    pub fn down(&self) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_sub(1),
            Ordering::Relaxed,
        );
    }

    /// The number now.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Clients that wait in `MQ.DEQUEUE … BLOCK`.
pub static BLOCKED_CONSUMERS: Gauge = Gauge::new();

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
/// Locks that ran out since the server started.
pub static EXPIRED_LOCKS: Gauge = Gauge::new();

static SINCE_START: [(&CStr, &Gauge); 6] = [
    (c"total_enqueued", &ENQUEUED),
    (c"total_delivered", &DELIVERED),
    (c"total_done", &DONE),
    (c"total_retried", &RETRIED),
    (c"total_dead", &DEAD),
    (c"total_expired_locks", &EXPIRED_LOCKS),
];

/// One queue's messages by status, where `INFO` can read them without opening keys. Dropped with the
/// queue, possibly by the thread that frees in the background.
pub struct Published([AtomicU64; Published::STATUSES.len()]);

static QUEUES: Mutex<Vec<Weak<Published>>> = Mutex::new(Vec::new());

impl Published {
    /// The statuses by the last step; `done-awaiting-gc` is one that time reaches by itself.
    const STATUSES: [&'static CStr; 7] = [
        c"messages_queued",
        c"messages_queued_with_backoff",
        c"messages_locked",
        c"messages_locked_with_requeue",
        c"messages_done_with_backoff",
        c"messages_done_with_requeue",
        c"messages_dead",
    ];

    /// Numbers that `INFO` sums up from now on.
    pub fn new() -> Arc<Published> {
        let published = Arc::new(Published(Default::default()));
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        // Room is made only for queues that are gone, so that each is looked at once on average.
        if queues.len() == queues.capacity() {
            queues.retain(|queue| queue.strong_count() != 0);
        }
        queues.push(Arc::downgrade(&published));
        published
    }

    /// Takes the numbers over from the queue.
    #[inline]
    pub fn publish(&self, queue: &Queue) {
        for (number, count) in self.0.iter().zip(queue.counts()) {
            number.store(count as u64, Ordering::Relaxed);
        }
    }
}

struct Numbers;

impl InfoSource for Numbers {
    fn write(info: &mut InfoWriter) {
        if !info.section(c"") {
            return;
        }
        let mut sums = [0u64; Published::STATUSES.len()];
        let mut live = 0;
        // A crash report must not wait for whoever crashed.
        let queues = QUEUES.try_lock();
        for queue in queues
            .iter()
            .flat_map(|queues| queues.iter())
            .filter_map(Weak::upgrade)
        {
            live += 1;
            for (sum, number) in sums.iter_mut().zip(&queue.0) {
                *sum += number.load(Ordering::Relaxed);
            }
        }
        info.number(c"queues", live);
        info.number(c"messages", sums.iter().sum());
        for (name, sum) in Published::STATUSES.iter().zip(sums) {
            info.number(name, sum);
        }
        info.number(c"blocked_consumers", BLOCKED_CONSUMERS.value());
        for (name, gauge) in &SINCE_START {
            info.number(name, gauge.value());
        }
    }
}

/// Makes `INFO mq` answer.
pub fn register(ctx: &Ctx) -> Result<(), LoadError> {
    register_info::<Numbers>(ctx)
}
