//! `INFO mq`: what this server has done with queues since it started.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::redis::{register_info, Ctx, InfoSource, InfoWriter, LoadError};

/// A number that commands move and `INFO` shows. Moved by the server's thread and, where values are
/// freed in the background, by another one.
pub struct Gauge(AtomicU64);

impl Gauge {
    const fn new() -> Gauge {
        Gauge(AtomicU64::new(0))
    }

    /// One more.
    #[inline]
    pub fn up(&self) {
        self.add(1);
    }

    /// `n` more.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// One less; each goes with an [`Gauge::up`] before.
    #[inline]
    pub fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! gauges {
    ($($(#[doc = $doc:literal])+ $gauge:ident as $name:literal,)+) => {
        $($(#[doc = $doc])+ pub static $gauge: Gauge = Gauge::new();)+

        /// All gauges with their names in `INFO`, in its order.
        static GAUGES: &[(&CStr, &Gauge)] = &[$(($name, &$gauge),)+];
    };
}

gauges! {
    /// Queues in memory, in all databases.
    QUEUES as c"queues",
    /// Clients that wait in `MQ.DEQUEUE … BLOCK`.
    BLOCKED_CONSUMERS as c"blocked_consumers",
    /// Messages accepted: added, updated or requeued.
    TOTAL_ENQUEUED as c"total_enqueued",
    /// Deliveries.
    TOTAL_DELIVERED as c"total_delivered",
    /// Deliveries that ended with success.
    TOTAL_DONE as c"total_done",
    /// Deliveries that ended with a retry.
    TOTAL_RETRIED as c"total_retried",
    /// Messages that became dead letters.
    TOTAL_DEAD as c"total_dead",
    /// Locks that ran out before their delivery was ended.
    TOTAL_EXPIRED_LOCKS as c"total_expired_locks",
}

struct Totals;

impl InfoSource for Totals {
    fn write(info: &mut InfoWriter) {
        if info.section(c"") {
            for (name, gauge) in GAUGES {
                info.number(name, gauge.value());
            }
        }
    }
}

/// Makes `INFO mq` answer.
pub fn register(ctx: &Ctx) -> Result<(), LoadError> {
    register_info::<Totals>(ctx)
}
