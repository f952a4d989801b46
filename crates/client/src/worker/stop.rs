//! Stopping.

use std::time::Duration;

use tokio::{task::JoinSet, time::timeout};

use super::core::{Core, Phase};
use crate::id::MessageId;

/// What a worker had done, and had not, when it stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Messages whose handler did not end and was dropped at an await. They were given back: they
    /// are ready for other workers, and the attempt does not count.
    pub given_back: Vec<MessageId>,
    /// Messages that are perhaps still being worked on: the handler blocks its thread, runs in
    /// [`blocking`](crate::blocking), or has handed the message to somebody who keeps it. They
    /// come back when their lock ends, as a further attempt.
    pub unfinished: Vec<MessageId>,
    /// Messages that were handled, or are to be given back, but whose answer could not be sent in
    /// time. They come back when their lock ends, unless the answer did arrive and only the reply
    /// was lost.
    pub unanswered: Vec<MessageId>,
}

impl StopReport {
    /// Every handler that was begun has ended by itself, and every answer has arrived.
    pub fn is_clean(&self) -> bool {
        self.given_back.is_empty() && self.unfinished.is_empty() && self.unanswered.is_empty()
    }
}

/// How long to wait for handlers to be dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits until the slots have ended, by a stop or with their runtime, and then for the answers to
/// arrive.
pub(crate) async fn run(core: &Core, mut slots: JoinSet<()>) {
    tokio::select! {
        biased;
        () = ended(&mut slots) => {}
        () = core.deadline_passed() => {}
    }
    if !slots.is_empty() {
        core.desk.cancel();
        let grace = core.spec.settings.cancel_timeout;
        let _ = timeout(grace, ended(&mut slots)).await;
    }
    // Handlers end at their next await. One that blocks its thread has none, and is not waited for:
    // whatever it returns, nobody listens to its slot any more.
    slots.abort_all();
    let _ = timeout(DROP_TIMEOUT, ended(&mut slots)).await;
    core.desk.close();
    core.desk.abandon();
    core.advance(Phase::Flushing);
    let mut phase = core.phase();
    // Even a deadline that has passed leaves the time for one exchange with the server.
    let flush = core.time_left().max(core.spec.settings.response_timeout);
    let flushed = phase.wait_for(|phase| *phase == Phase::Ended);
    if timeout(flush, flushed).await.is_err() {
        core.advance(Phase::Ended);
    }
}

async fn ended(slots: &mut JoinSet<()>) {
    while slots.join_next().await.is_some() {}
}

/// Tells, and logs, what was left.
pub(crate) fn report(core: &Core) -> StopReport {
    let report = core.desk.left();
    let queue = &core.spec.queue.shown;
    if report.is_clean() {
        tracing::info!(%queue, "worker stopped");
    } else {
        tracing::warn!(
            %queue,
            given_back = report.given_back.len(),
            unfinished = report.unfinished.len(),
            unanswered = report.unanswered.len(),
            "worker stopped and left messages"
        );
    }
    report
}
