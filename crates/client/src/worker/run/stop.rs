//! Stopping.

use std::time::Duration;

use tokio::{task::JoinSet, time::timeout};

use super::{
    core::{Core, Phase},
    report::StopReport,
};

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
        core.deliveries.cancel();
        let grace = core.spec.settings.cancel_timeout;
        let _ = timeout(grace, ended(&mut slots)).await;
    }
    // Handlers end at their next await. One that blocks its thread has none, and is not waited for:
    // whatever it returns, nobody listens to its slot any more.
    slots.abort_all();
    let _ = timeout(DROP_TIMEOUT, ended(&mut slots)).await;
    core.deliveries.close();
    core.deliveries.abandon();
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
    let report = core.deliveries.left();
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
