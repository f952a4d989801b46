//! One delivery, from the server's hand-over to the end of its handler.

use std::{
    ops::Deref,
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering},
        Arc,
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{
    delivered::{Delivered, More},
    id::MessageId,
};

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
}

/// The longest time between two extensions of a lock, however long the lock is: what a handler
/// learns of a cancelled message, it learns by them.
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) id: MessageId,
    pub(crate) payload: Vec<u8>,
    pub(crate) attempt: u32,
    pub(crate) token: i64,
    pub(crate) lock: Duration,
    pub(crate) enqueued_at_ms: u64,
    pub(crate) more: Option<Box<More>>,
    received: Instant,
    /// Microseconds from `received` to the end of the lock.
    held: AtomicU64,
    /// Microseconds from `received` to the next extension.
    ask_at: AtomicU64,
    /// An extension has been asked for and is not answered yet.
    pub(crate) extending: AtomicBool,
    /// Its handler has returned: the lock must not be extended, since the answer may be out.
    pub(crate) ended: AtomicBool,
    /// 0, or how the lock was lost.
    lost: AtomicU8,
    /// The worker stops, and has asked the handler to end.
    stopped: AtomicBool,
    /// How many hold the message, or work on it: while somebody does, it must not be given back.
    holders: AtomicUsize,
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
            more: delivered.more,
            received,
            held: AtomicU64::new(micros(lock)),
            ask_at: AtomicU64::new(micros((lock / 3).min(ASK_EVERY))),
            extending: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            lost: AtomicU8::new(0),
            stopped: AtomicBool::new(false),
            holders: AtomicUsize::new(0),
            told: Notify::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.received + Duration::from_micros(self.held.load(Ordering::Acquire))
    }

    /// A handler has to begin until then: with two thirds of the lock left.
    pub(crate) fn begin_by(&self) -> Instant {
        self.received + self.lock / 3
    }

    /// When to ask for the next extension: with two thirds of the lock left, or sooner.
    pub(crate) fn extend_at(&self) -> Instant {
        self.received + Duration::from_micros(self.ask_at.load(Ordering::Acquire))
    }

    /// An extension that was sent at `sent` has been confirmed; the next one is due after a third
    /// of the lock, or after `every`.
    pub(crate) fn extended(&self, sent: Instant, every: Duration) {
        let sent = sent.saturating_duration_since(self.received);
        self.held
            .fetch_max(micros(sent + self.lock), Ordering::AcqRel);
        self.ask_at
            .fetch_max(micros(sent + (self.lock / 3).min(every)), Ordering::AcqRel);
        self.extending.store(false, Ordering::Release);
    }

    /// An extension was refused for a reason that may pass; it is asked for again at `at`.
    pub(crate) fn ask_again(&self, at: Instant) {
        let at = at.saturating_duration_since(self.received);
        self.ask_at.fetch_max(micros(at), Ordering::AcqRel);
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
            _ => Some(LostLock::Unconfirmed),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.how_lost().is_some()
    }

    /// Asks the handler to end. What it returns still counts.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// Whether the handler should end: the lock is lost, or the worker stops.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_lost() || self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holders.load(Ordering::Acquire) > 0
    }

    pub(crate) async fn cancelled(&self) {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            // Listening before looking, so that no call falls in between.
            told.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            told.await;
        }
    }
}

/// Holds a delivery for somebody who works on it, wherever that is.
#[derive(Debug)]
pub(crate) struct Held(Arc<Delivery>);

impl Held {
    pub(crate) fn new(delivery: Arc<Delivery>) -> Self {
        delivery.holders.fetch_add(1, Ordering::AcqRel);
        Self(delivery)
    }
}

impl Deref for Held {
    type Target = Arc<Delivery>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.holders.fetch_sub(1, Ordering::AcqRel);
    }
}

fn code(how: LostLock) -> u8 {
    match how {
        LostLock::Taken => 1,
        LostLock::Gone => 2,
        LostLock::Unconfirmed => 3,
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
            more: None,
        };
        Delivery::new(delivered, Instant::now())
    }

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_extended_after_a_third_and_counts_from_when_the_extension_was_sent() {
        let start = Instant::now();
        let held = delivery("a", S(30));
        assert_eq!(held.deadline(), start + S(30));
        assert_eq!(held.begin_by(), start + S(10));
        held.extended(start + S(10), S(60));
        assert_eq!(held.deadline(), start + S(40));
        assert_eq!(held.extend_at(), start + S(20));
        held.extended(start + S(5), S(60));
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
            async move { held.cancelled().await }
        });
        tokio::task::yield_now().await;
        assert!(!held.is_lost());
        assert!(held.lose(LostLock::Taken));
        assert!(!held.lose(LostLock::Gone));
        waiting.await.unwrap();
        held.cancelled().await;
        assert_eq!(held.how_lost(), Some(LostLock::Taken));
    }

    #[test]
    fn a_long_lock_is_asked_about_more_often_than_it_needs() {
        let held = delivery("a", S(3_600));
        let first = held.extend_at();
        assert_eq!(first, held.received + ASK_EVERY);
        held.extended(first, ASK_EVERY);
        assert_eq!(held.extend_at(), first + ASK_EVERY);
        let short = delivery("b", Duration::from_millis(300));
        assert_eq!(
            short.extend_at(),
            short.received + Duration::from_millis(100)
        );
    }
}
