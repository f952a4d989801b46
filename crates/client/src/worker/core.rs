//! What the tasks of a worker share.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

use super::{
    delivery::{Delivery, LostLock},
    desk::Desk,
    events::{Event, Events},
    meter::{Count, Meter},
    settings::Settings,
    slot::Runner,
};
use crate::{connect::Connect, id::show_bytes, info::QueueInfo};

/// A queue's key, and how it is shown in logs and metrics.
#[derive(Debug)]
pub(crate) struct QueueName {
    pub(crate) key: Vec<u8>,
    pub(crate) shown: String,
}

impl QueueName {
    pub(crate) fn new(key: Vec<u8>) -> Self {
        struct Shown<'a>(&'a [u8]);
        impl fmt::Display for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show_bytes(self.0, f)
            }
        }
        let shown = Shown(&key).to_string();
        Self { key, shown }
    }
}

/// A worker, apart from whether it runs.
pub(crate) struct Spec {
    pub(crate) queue: Arc<QueueName>,
    pub(crate) settings: Settings,
    pub(crate) source: Arc<dyn Connect>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) events: Events,
    pub(crate) meter: Meter,
}

/// How far a run has come. It only ever moves on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Takes messages.
    Running,
    /// Takes nothing new; handlers run on, their locks are extended.
    Draining,
    /// No handler runs any more; answers are still being sent.
    Flushing,
    /// Ends at once.
    Ended,
}

/// Which connection of which server is blocked in a dequeue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) server: String,
    pub(crate) client: i64,
}

/// One run of a worker, from a start to a stop.
pub(crate) struct Core {
    pub(crate) spec: Arc<Spec>,
    pub(crate) desk: Arc<Desk>,
    phase: watch::Sender<Phase>,
    /// The dequeue connection, while it may be blocked.
    blocked: Mutex<Option<Identity>>,
    /// Whether nothing will be taken any more.
    taking_ended: watch::Sender<bool>,
    /// The queue's state as last sampled.
    sample: Mutex<Option<Arc<QueueInfo>>>,
}

impl Core {
    pub(crate) fn new(spec: Arc<Spec>) -> Self {
        Self {
            desk: Arc::new(Desk::new(spec.settings.handlers)),
            spec,
            phase: watch::Sender::new(Phase::Running),
            blocked: Mutex::new(None),
            taking_ended: watch::Sender::new(false),
            sample: Mutex::new(None),
        }
    }

    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let forward = *phase < to;
            if forward {
                *phase = to;
            }
            forward
        });
    }

    pub(crate) fn end_taking(&self) {
        self.set_blocked(None);
        self.taking_ended.send_replace(true);
        self.desk.mail.notify_one();
    }

    pub(crate) fn taking_has_ended(&self) -> bool {
        *self.taking_ended.borrow()
    }

    pub(crate) fn set_blocked(&self, identity: Option<Identity>) {
        *self.blocked.lock().unwrap_or_else(PoisonError::into_inner) = identity;
    }

    pub(crate) fn blocked(&self) -> Option<Identity> {
        self.blocked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_sample(&self, info: QueueInfo) {
        *self.sample.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(info));
    }

    pub(crate) fn sample(&self) -> Option<Arc<QueueInfo>> {
        self.sample
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Tells the handler, the log, the listeners and the counters that a lock is lost.
    pub(crate) fn lose(&self, delivery: &Delivery, how: LostLock) {
        if !delivery.lose(how) {
            delivery.confirm_loss(how);
            return;
        }
        self.spec.meter.add(Count::LostLocks, 1);
        tracing::warn!(
            queue = %self.spec.queue.shown,
            id = %delivery.id,
            attempt = delivery.attempt,
            ?how,
            "the lock of a message was lost"
        );
        self.spec.events.send(|| Event::LostLock {
            id: delivery.id.clone(),
            attempt: delivery.attempt,
            how,
        });
    }
}
