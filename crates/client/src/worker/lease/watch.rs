//! When to look at locks, and what is seen then.

use std::{
    sync::{atomic::Ordering, Arc},
    time::Duration,
};

use tokio::time::Instant;

use crate::message::delivery::{Delivery, ASK_EVERY};

/// When the heartbeat looks next.
#[derive(Debug, Default)]
pub(crate) struct LockWatch {
    planned: Option<Instant>,
}

/// What the heartbeat has seen.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The deliveries whose lock has ended.
    pub(crate) ended: Vec<Arc<Delivery>>,
    /// How many messages were given back since no slot began them.
    pub(crate) given_back: usize,
    /// When to look again; `None`: when there is something.
    pub(crate) next: Option<Instant>,
}

impl LockWatch {
    /// Plans a look at that time at the latest. `true`: that is earlier than was planned, so that
    /// the heartbeat has to be woken.
    pub(crate) fn look_by(&mut self, at: Instant) -> bool {
        let earlier = self.planned.is_none_or(|planned| at < planned);
        if earlier {
            self.planned = Some(at);
        }
        earlier
    }

    /// The next look is then, or when there is something.
    pub(crate) fn plan(&mut self, next: Option<Instant>) {
        self.planned = next;
    }
}

/// What a look at running deliveries has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those whose lock has ended.
    pub(crate) ended: Vec<Arc<Delivery>>,
    /// Those whose lock has to be extended now.
    pub(crate) due: Vec<Arc<Delivery>>,
    /// When to look again.
    pub(crate) next: Option<Instant>,
}

impl Found {
    /// Looks at the lock of a delivery that a handler has.
    pub(crate) fn look(&mut self, delivery: &Arc<Delivery>, now: Instant) {
        if delivery.is_lost() {
            return;
        }
        let deadline = delivery.deadline();
        if deadline <= now {
            self.ended.push(Arc::clone(delivery));
            return;
        }
        let mut look_at = delivery.extend_at();
        // Those that are due soon go along, so that not each of many needs a look of its own.
        let due = look_at <= now + (delivery.lock / 16).min(ASK_EVERY / 6);
        if due && !delivery.extending.swap(true, Ordering::AcqRel) {
            self.due.push(Arc::clone(delivery));
        }
        if delivery.extending.load(Ordering::Acquire) {
            look_at = deadline;
        }
        self.next = Some(self.next.map_or(look_at, |next| next.min(look_at)));
    }
}

/// How often to ask for a lock: no more than a thousand times a second for all together.
pub(crate) fn ask_every(running: usize) -> Duration {
    ASK_EVERY.max(Duration::from_millis(running as u64))
}
