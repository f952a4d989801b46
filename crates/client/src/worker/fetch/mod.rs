//! Takes messages: the worker's one blocking connection.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, RedisError, Value};
use tokio::{
    sync::watch,
    time::{sleep, sleep_until, timeout, Instant},
};

mod batch;
mod rate;

use self::{batch::Batch, rate::RateLimit};
use super::{
    connection::{unexpected_reply, LastingConnection},
    observe::{
        counts::Count,
        events::{Event, Poll, PollResult, Side},
    },
    run::core::{Core, Phase},
    settings::EndOfQueue,
};
use crate::{
    backoff::Reconnect,
    message::{delivered::Delivered, delivery::Delivery},
    millis::millis,
    reply::{dequeued, Dequeued},
    telemetry::received,
};

/// How long to let more slots get free before the next messages are taken, when there is a
/// backlog: many slots then share one round trip.
const GATHER: Duration = Duration::from_millis(1);

/// A shared wait of less than this is not worth a poll.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

/// Takes messages until the worker is stopped.
pub(crate) async fn run(core: Arc<Core>, delay: Duration) {
    let mut phase = core.phase();
    let stopped = draining(&mut phase, sleep(delay)).await.is_none();
    if !stopped {
        Fetching::new(Arc::clone(&core)).run(phase).await;
    }
    core.end_taking();
}

/// `work`'s result, or `None` when the worker has begun to stop.
async fn draining<F: std::future::Future>(
    phase: &mut watch::Receiver<Phase>,
    work: F,
) -> Option<F::Output> {
    tokio::select! {
        biased;
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => None,
        result = work => Some(result),
    }
}

struct Fetching {
    core: Arc<Core>,
    connection: LastingConnection,
    rate: Option<RateLimit>,
    batch: Batch,
    /// The last poll got all it asked for, so that there is probably more.
    backlog: bool,
    /// Pauses for a server whose blocking wait does not wait.
    dry: Reconnect,
}

impl Fetching {
    fn new(core: Arc<Core>) -> Self {
        let settings = &core.spec.settings;
        let wait = match settings.end_of_queue {
            EndOfQueue::Block(wait) => wait,
            EndOfQueue::SharedWait(_) => Duration::ZERO,
        };
        Self {
            connection: LastingConnection::new(&core, Side::Dequeue, wait),
            rate: settings
                .rate
                .map(|(most, period)| RateLimit::new(most, period)),
            batch: Batch::new(settings.max_batch),
            backlog: false,
            dry: Reconnect::new(SHORTEST_WAIT, wait.max(SHORTEST_WAIT)),
            core,
        }
    }

    async fn run(mut self, mut phase: watch::Receiver<Phase>) {
        let mut ended = phase.clone();
        loop {
            let Some(asked) = draining(&mut phase, self.allowance()).await else {
                return;
            };
            if draining(&mut phase, self.connection.opened())
                .await
                .is_none()
            {
                return;
            }
            let asked = self.core.deliveries.ask_for(asked);
            if asked == 0 {
                // Another queue was faster.
                continue;
            }
            // From here on a message may come, so that only the very end interrupts: whatever
            // comes is read, and given back if the worker is stopping.
            let pause = tokio::select! {
                biased;
                pause = self.poll(asked) => pause,
                _ = ended.wait_for(|phase| *phase == Phase::Ended) => return,
            };
            if !pause.is_zero() && draining(&mut phase, sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Waits until messages may be taken; tells how many.
    async fn allowance(&mut self) -> usize {
        let settings = &self.core.spec.settings;
        let at_work = &self.core.deliveries;
        loop {
            at_work.room_for(1).await;
            if self.backlog {
                let share = (settings.handlers / 4).clamp(1, 64);
                // Enough got free, or time is up: either way it goes on.
                let _ = timeout(GATHER, at_work.room_for(share)).await;
            }
            let free = at_work.free().min(self.batch.limit());
            let allowed = match &mut self.rate {
                None => free,
                Some(rate) => match rate.free(Instant::now()) {
                    Ok(allowed) => allowed.min(free),
                    Err(later) => {
                        sleep_until(later).await;
                        continue;
                    }
                },
            };
            if allowed > 0 {
                return allowed;
            }
        }
    }

    /// Polls once; tells how long to pause before the next time.
    async fn poll(&mut self, asked: usize) -> Duration {
        // The first poll over a new connection does not wait: it shows at once whether the server
        // is one that delivers.
        let proved = self.connection.is_proved();
        let waits = proved && self.core.deliveries.may_wait();
        let command = self.command(asked, waits);
        let identity = self.connection.identity().cloned();
        let connection = self.connection.opened().await;
        let sent = Instant::now();
        self.core.set_blocked(identity.filter(|_| waits));
        let reply = connection.query(&command).await;
        self.core.set_blocked(None);
        let took = sent.elapsed();
        self.core.spec.counters.add(Count::Polls, 1);
        let (result, pause) = self.read(reply, asked, waits, took);
        self.core.deliveries.asked(match result {
            PollResult::Taken(count) => Some(count > 0),
            PollResult::Nothing | PollResult::Wait(_) => Some(false),
            PollResult::Failed(_) => None,
        });
        pause.max(self.tell(asked, result, took))
    }

    fn command(&self, count: usize, may_block: bool) -> Cmd {
        let spec = &self.core.spec;
        let mut command = redis::cmd("MQ.DEQUEUE");
        command.arg(&spec.queue.key[..]).arg("COUNT").arg(count);
        command.arg("LOCK").arg(millis(spec.settings.lock));
        match &spec.settings.end_of_queue {
            EndOfQueue::Block(wait) if may_block => {
                command.arg("BLOCK").arg(millis(*wait));
            }
            EndOfQueue::Block(_) => {}
            EndOfQueue::SharedWait(waits) => {
                command.arg("EOQ");
                for wait in waits {
                    command.arg(millis(*wait));
                }
            }
        }
        command
    }

    fn read(
        &mut self,
        reply: Result<Value, RedisError>,
        asked: usize,
        blocked: bool,
        took: Duration,
    ) -> (PollResult, Duration) {
        self.backlog = false;
        match reply.and_then(|value| dequeued(value).ok_or_else(unexpected_reply)) {
            Ok(Dequeued::Deliveries(deliveries)) => {
                self.connection.succeeded();
                self.dry.reset();
                let count = deliveries.len();
                self.backlog = count >= asked;
                received(&self.core.spec.queue, took, &deliveries);
                self.take(deliveries);
                (PollResult::Taken(count), Duration::ZERO)
            }
            Ok(Dequeued::Nothing) => {
                self.connection.succeeded();
                (PollResult::Nothing, self.pause_if_dry(blocked, took))
            }
            Ok(Dequeued::Wait(ms)) => {
                self.connection.succeeded();
                let wait = Duration::from_millis(ms);
                (PollResult::Wait(wait), wait.max(SHORTEST_WAIT))
            }
            Err(error) => {
                if error.is_timeout() {
                    self.batch.timed_out();
                }
                self.connection.failed(&error);
                (PollResult::Failed(error.to_string()), Duration::ZERO)
            }
        }
    }

    fn take(&mut self, deliveries: Vec<Delivered>) {
        let received = Instant::now();
        let bytes = deliveries
            .iter()
            .map(|delivered| delivered.payload.len())
            .sum();
        self.batch.arrived(deliveries.len(), bytes);
        if let Some(rate) = &mut self.rate {
            rate.took(received, deliveries.len());
        }
        let spec = &self.core.spec;
        spec.counters.add(Count::Taken, deliveries.len());
        spec.counters.waited(&deliveries);
        let deliveries = deliveries.into_iter().map(|delivered| {
            let delivery = Arc::new(Delivery::new(delivered, received));
            spec.events.send(|| Event::Taken {
                id: delivery.id.clone(),
                attempt: delivery.attempt,
            });
            delivery
        });
        self.core.deliveries.admit(deliveries.collect());
    }

    /// A wait that ends long before its time, again and again, would make the worker spin.
    fn pause_if_dry(&mut self, blocked: bool, took: Duration) -> Duration {
        match self.core.spec.settings.end_of_queue {
            EndOfQueue::Block(wait) if blocked && took < wait / 2 => self.dry.pause(),
            EndOfQueue::Block(_) if blocked => {
                self.dry.reset();
                Duration::ZERO
            }
            EndOfQueue::Block(_) => Duration::ZERO,
            EndOfQueue::SharedWait(_) => self.dry.pause(),
        }
    }

    /// Tells the monitor; returns the throttle's pause. What panics there is the user's own, and
    /// is not to stop the worker.
    fn tell(&self, asked: usize, result: PollResult, took: Duration) -> Duration {
        let spec = &self.core.spec;
        if spec.settings.monitor.is_none() && spec.settings.throttle.is_none() {
            return Duration::ZERO;
        }
        let info = self.core.sample();
        let poll = Poll {
            queue: &spec.queue.key,
            asked,
            result,
            took,
            running: self.core.deliveries.running(),
            info: info.as_deref(),
        };
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if let Some(monitor) = &spec.settings.monitor {
                monitor(&poll);
            }
            spec.settings
                .throttle
                .as_ref()
                .map_or(Duration::ZERO, |throttle| throttle(&poll))
        }));
        told.unwrap_or_else(|_| {
            tracing::error!(queue = %spec.queue.shown, "the monitor or the throttle panicked");
            Duration::ZERO
        })
    }
}
