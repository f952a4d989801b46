//! The worker's own thread: its connections and its heartbeat.
//!
//! They live apart from the handlers so that a handler that computes or blocks where it should
//! not, on however many threads, cannot keep locks from being extended or answers from being sent.

use std::{future::Future, io, panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

use futures_util::FutureExt;
use tokio::{runtime, task::JoinSet, time::sleep};

pub(crate) mod core;
pub(crate) mod report;
pub(crate) mod slot;
mod stop;

use self::core::{Core, Phase};
use super::{ack::sending, fetch, lease};

/// Starts the thread, which is given the slots to look after.
pub(crate) fn start(
    core: Arc<Core>,
    delay: Duration,
    slots: impl FnOnce() -> JoinSet<()> + Send + 'static,
) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let name = format!("mq {}", core.spec.queue.shown.replace('\0', "?"));
    thread::Builder::new().name(name).spawn(move || {
        let worked = AssertUnwindSafe(|| runtime.block_on(run(Arc::clone(&core), delay, slots())));
        // Whoever waits for the end must hear of it, whatever it is.
        if std::panic::catch_unwind(worked).is_err() {
            core.advance(Phase::Ended);
            core.set_report(stop::report(&core));
        }
        // Name look-ups run on threads of their own and may take their time.
        runtime.shutdown_background();
    })?;
    Ok(())
}

pub(super) async fn run(core: Arc<Core>, delay: Duration, slots: JoinSet<()>) {
    let stop = tokio::spawn({
        let core = Arc::clone(&core);
        async move { stop::run(&core, slots).await }
    });
    let taking = tokio::spawn({
        let core = Arc::clone(&core);
        async move {
            for_good(&core, "taking", || fetch::run(Arc::clone(&core), delay)).await;
            core.end_taking();
        }
    });
    let heartbeat = tokio::spawn({
        let core = Arc::clone(&core);
        async move { for_good(&core, "heartbeat", || lease::run(Arc::clone(&core))).await }
    });
    for_good(&core, "answering", || sending::run(Arc::clone(&core))).await;
    core.advance(Phase::Ended);
    // All look at the phase and nothing else once it has ended.
    let _ = tokio::join!(taking, heartbeat, stop);
    core.set_report(stop::report(&core));
}

/// Runs a task of the worker until it ends. One that panics, which would be a fault of this crate
/// or of a connection's, is logged and started again: a worker never ends by itself.
async fn for_good<F, Fut>(core: &Core, task: &str, make: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = ()>,
{
    while AssertUnwindSafe(make()).catch_unwind().await.is_err() {
        tracing::error!(queue = %core.spec.queue.shown, task, "a task panicked, starting it again");
        sleep(Duration::from_secs(1)).await;
    }
}
