//! Stopping.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::JoinSet,
    time::{sleep_until, timeout, Instant},
};

use super::core::{Core, Phase};
use crate::id::MessageId;

/// What a worker had done, and had not, when it stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it tells what was left"]
pub struct StopReport {
    /// Messages whose handler was still running at the deadline. The handler was dropped at its
    /// next await; the message comes back when its lock ends, as a further attempt.
    pub unfinished: Vec<MessageId>,
    /// Messages that were handled, or not begun, but whose answer could not be sent in time. They
    /// come back when their lock ends, unless the answer did arrive and only the reply was lost.
    pub unanswered: Vec<MessageId>,
}

impl StopReport {
    /// Nothing was left.
    pub fn is_clean(&self) -> bool {
        self.unfinished.is_empty() && self.unanswered.is_empty()
    }
}

/// How long to wait for cancelled handlers to be dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// A run of a worker, as the one who stops it sees it.
pub(crate) struct Run {
    pub(crate) core: Arc<Core>,
    pub(crate) slots: JoinSet<()>,
    pub(crate) engine: oneshot::Receiver<()>,
    pub(crate) handle: Handle,
}

impl Run {
    /// Takes nothing new from now on, and gives back what was not begun.
    pub(crate) fn begin_to_stop(&self) {
        self.core.advance(Phase::Draining);
        self.core.desk.close();
    }

    /// Waits for the handlers until the deadline, and then for the answers to arrive.
    pub(crate) async fn finish(mut self, grace: Duration) -> StopReport {
        let core = &self.core;
        let deadline = Instant::now() + grace.min(Duration::from_secs(u64::from(u32::MAX)));
        let handled = async { while self.slots.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            () = handled => {}
            () = sleep_until(deadline) => {}
        }
        let unfinished = core.desk.abandon();
        self.slots.abort_all();
        core.advance(Phase::Flushing);
        let slots = &mut self.slots;
        let dropped = async { while slots.join_next().await.is_some() {} };
        // Even a deadline that has passed leaves the time for one exchange with the server.
        let left = deadline.saturating_duration_since(Instant::now());
        let flush = left.max(core.spec.settings.response_timeout);
        let flushed = async {
            if timeout(flush, &mut self.engine).await.is_err() {
                core.advance(Phase::Ended);
                let _ = timeout(flush, &mut self.engine).await;
            }
        };
        // Handlers end at their next await. One that blocks its thread has none, and is not waited
        // for: whatever it returns, nobody listens to its slot any more.
        let _ = tokio::join!(flushed, timeout(DROP_TIMEOUT, dropped));
        let unanswered = core.desk.collect(usize::MAX).letters;
        let report = StopReport {
            unfinished: unfinished
                .iter()
                .map(|delivery| delivery.id.clone())
                .collect(),
            unanswered: unanswered
                .iter()
                .map(|letter| letter.delivery.id.clone())
                .collect(),
        };
        let queue = &core.spec.queue.shown;
        if report.is_clean() {
            tracing::info!(%queue, "worker stopped");
        } else {
            let (unfinished, unanswered) = (report.unfinished.len(), report.unanswered.len());
            tracing::warn!(%queue, unfinished, unanswered, "worker stopped and left messages");
        }
        report
    }
}
