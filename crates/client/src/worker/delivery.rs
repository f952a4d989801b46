//! One delivery, from the server's hand-over to the end of its handler.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{id::MessageId, reply::Delivered};

/// How a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostLock {
    /// Somebody else has the message now.
    Taken,
    /// The message was cancelled, or its queue removed.
    Gone,
    /// The lock ended before an extension was confirmed, because the server could not be reached.
    /// A handler that succeeds all the same is reported: the server still knows whether anybody
    /// else has taken the message.
    Unconfirmed,
    /// The worker stopped and does not wait for this handler any longer.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) id: MessageId,
    pub(crate) payload: Vec<u8>,
    pub(crate) attempt: u32,
    pub(crate) token: i64,
    pub(crate) lock: Duration,
    pub(crate) enqueued_at_ms: u64,
    received: Instant,
    /// Microseconds from `received` to the end of the lock.
    held: AtomicU64,
    /// An extension has been asked for and is not answered yet.
    pub(crate) extending: AtomicBool,
    /// Its handler has returned: the lock must not be extended, since the answer may be out.
    pub(crate) ended: AtomicBool,
    /// 0, or how the lock was lost.
    lost: AtomicU8,
    told: Notify,
}

impl Delivery {
    pub(crate) fn new(delivered: Delivered, received: Instant) -> Self {
        let lock = Duration::from_millis(delivered.lock_ms);
        Self {
            id: delivered.id,
            payload: delivered.payload,
            attempt: delivered.attempt,
            token: delivered.token,
            lock,
            enqueued_at_ms: delivered.enqueued_at_ms,
            received,
            held: AtomicU64::new(micros(lock)),
            extending: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            lost: AtomicU8::new(0),
            told: Notify::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.received + Duration::from_micros(self.held.load(Ordering::Acquire))
    }

    /// When to ask for the next extension: with two thirds of the lock left.
    pub(crate) fn extend_at(&self) -> Instant {
        // The deadline is never earlier than one lock after the reception.
        self.deadline() - self.lock.mul_f64(2.0 / 3.0)
    }

    /// An extension that was sent at `sent` has been confirmed.
    pub(crate) fn extended(&self, sent: Instant) {
        let held = sent.saturating_duration_since(self.received) + self.lock;
        self.held.fetch_max(micros(held), Ordering::AcqRel);
        self.extending.store(false, Ordering::Release);
    }

    /// Marks the lock as lost and tells the handler. `false` if it was lost before.
    pub(crate) fn lose(&self, how: LostLock) -> bool {
        let first = self
            .lost
            .compare_exchange(0, code(how), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if first {
            self.told.notify_waiters();
        }
        first
    }

    /// A lock that was only feared lost is known to be.
    pub(crate) fn confirm_loss(&self, how: LostLock) {
        let feared = code(LostLock::Unconfirmed);
        let _ = self
            .lost
            .compare_exchange(feared, code(how), Ordering::AcqRel, Ordering::Acquire);
    }

    pub(crate) fn how_lost(&self) -> Option<LostLock> {
        match self.lost.load(Ordering::Acquire) {
            0 => None,
            1 => Some(LostLock::Taken),
            2 => Some(LostLock::Gone),
            3 => Some(LostLock::Unconfirmed),
            _ => Some(LostLock::Stopped),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.how_lost().is_some()
    }

    pub(crate) async fn lost(&self) {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            // Listening before looking, so that no call falls in between.
            told.as_mut().enable();
            if self.is_lost() {
                return;
            }
            told.await;
        }
    }
}

fn code(how: LostLock) -> u8 {
    match how {
        LostLock::Taken => 1,
        LostLock::Gone => 2,
        LostLock::Unconfirmed => 3,
        LostLock::Stopped => 4,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn delivery(id: &str, lock: Duration) -> Delivery {
        let delivered = Delivered {
            id: id.into(),
            payload: Vec::new(),
            attempt: 1,
            token: 1_700_000_005_000_000,
            lock_ms: u64::try_from(lock.as_millis()).unwrap(),
            enqueued_at_ms: 1_700_000_000_000,
        };
        Delivery::new(delivered, Instant::now())
    }

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_extended_after_a_third_and_counts_from_when_the_extension_was_sent() {
        let start = Instant::now();
        let held = delivery("a", S(30));
        assert_eq!(held.deadline(), start + S(30));
        assert_eq!(held.extend_at(), start + S(10));
        held.extended(start + S(10));
        assert_eq!(held.deadline(), start + S(40));
        assert_eq!(held.extend_at(), start + S(20));
        held.extended(start + S(5));
        assert_eq!(
            held.deadline(),
            start + S(40),
            "an older confirmation takes nothing back"
        );
    }

    #[tokio::test]
    async fn whoever_waits_is_told_of_the_loss_once_and_for_all() {
        let held = std::sync::Arc::new(delivery("a", S(30)));
        let waiting = tokio::spawn({
            let held = held.clone();
            async move { held.lost().await }
        });
        tokio::task::yield_now().await;
        assert!(!held.is_lost());
        assert!(held.lose(LostLock::Taken));
        assert!(!held.lose(LostLock::Gone));
        waiting.await.unwrap();
        held.lost().await;
        assert_eq!(held.how_lost(), Some(LostLock::Taken));
    }
}
