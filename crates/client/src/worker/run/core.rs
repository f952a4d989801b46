//! What the tasks of a worker share.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{sleep_until, Instant},
};

use super::report::StopReport;
use crate::{
    connect::Connect,
    message::{
        delivery::{Delivery, LostLock},
        queue_name::QueueName,
    },
    producer::info::QueueInfo,
    worker::{
        inflight::{pool::Seat, Deliveries},
        observe::{
            counters::Counters,
            counts::Count,
            events::{Event, Events, Side},
            health::Health,
        },
        settings::Settings,
    },
};

/// A worker, apart from whether it runs.
pub(crate) struct Spec {
    pub(crate) queue: Arc<QueueName>,
    pub(crate) settings: Settings,
    pub(crate) source: Arc<dyn Connect>,
    /// One for all shards of a queue.
    pub(crate) events: Arc<Events>,
    pub(crate) counters: Counters,
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
    pub(crate) deliveries: Arc<Deliveries>,
    phase: watch::Sender<Phase>,
    /// How the connections do that take, and answer.
    health: [Arc<Health>; 2],
    /// The dequeue connection, while it may be blocked.
    blocked: Mutex<Option<Identity>>,
    /// Whether nothing will be taken any more.
    taking_ended: watch::Sender<bool>,
    /// The queue's state as last sampled.
    sample: Mutex<Option<Arc<QueueInfo>>>,
    /// Until when handlers may go on, once it stops.
    deadline: watch::Sender<Option<Instant>>,
    /// What was left, once it has ended.
    report: watch::Sender<Option<StopReport>>,
}

impl Core {
    /// A run; `seat` is its place where handlers are shared with other queues.
    pub(crate) fn new(spec: Arc<Spec>, seat: Option<Seat>) -> Self {
        Self {
            deliveries: Arc::new(Deliveries::new(spec.settings.handlers, seat)),
            spec,
            phase: watch::Sender::new(Phase::Running),
            health: Default::default(),
            blocked: Mutex::new(None),
            taking_ended: watch::Sender::new(false),
            sample: Mutex::new(None),
            deadline: watch::Sender::new(None),
            report: watch::Sender::new(None),
        }
    }

    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn health(&self, side: Side) -> &Arc<Health> {
        match side {
            Side::Dequeue => &self.health[0],
            Side::Answer => &self.health[1],
        }
    }

    /// Whether messages can be taken, and, as far as is known, answered.
    pub(crate) fn is_connected(&self) -> bool {
        self.is_running()
            && self.health(Side::Dequeue).is_up()
            && !self.health(Side::Answer).is_down()
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.phase.borrow() == Phase::Running
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

    /// Takes nothing new from now on, gives back what was not begun, and lets handlers go on until
    /// the deadline; of two deadlines the earlier one counts.
    pub(crate) fn begin_to_stop(&self, deadline: Instant) {
        self.advance(Phase::Draining);
        self.deliveries.close();
        self.deadline
            .send_modify(|at| *at = Some(at.map_or(deadline, |at| at.min(deadline))));
    }

    /// Returns when handlers may not go on, else never.
    pub(crate) async fn deadline_passed(&self) {
        let mut deadline = self.deadline.subscribe();
        loop {
            let at = *deadline.borrow_and_update();
            let passed = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = passed => return,
                // The sender lives as long as `self`.
                _ = deadline.changed() => {}
            }
        }
    }

    /// How long it is until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        let deadline = *self.deadline.borrow();
        deadline.map_or(Duration::ZERO, |at| {
            at.saturating_duration_since(Instant::now())
        })
    }

    /// Tells what was left. Only the first call counts.
    pub(crate) fn set_report(&self, report: StopReport) {
        self.report.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert(report);
            first
        });
    }

    /// Waits for the end; what was left then.
    pub(crate) async fn ended(&self) -> StopReport {
        let mut report = self.report.subscribe();
        let told = report.wait_for(Option::is_some).await;
        told.ok()
            .and_then(|report| report.clone())
            .unwrap_or_default()
    }

    pub(crate) fn end_taking(&self) {
        self.set_blocked(None);
        self.taking_ended.send_replace(true);
        self.deliveries.to_send.notify_one();
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
        self.spec.counters.add(Count::LostLocks, 1);
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
