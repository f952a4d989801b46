//! Watches over the locks.

pub(crate) mod watch;

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep_until, Instant};

use super::run::core::{Core, Phase};
use crate::message::delivery::LostLock;

/// How often the log is told of a runtime that is blocked.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Asks for extensions when they are due, and tells handlers whose lock has ended unconfirmed.
/// Nothing here waits for a connection, so that an outage cannot delay that news.
pub(crate) async fn run(core: Arc<Core>) {
    let mut phase = core.phase();
    let mut warned = None;
    let mut given_back = 0;
    loop {
        let now = Instant::now();
        let seen = core.deliveries.look(now);
        for delivery in seen.ended {
            core.lose(&delivery, LostLock::Unconfirmed);
        }
        given_back += seen.given_back;
        if given_back > 0 && warned.is_none_or(|at| now >= at + WARN_EVERY) {
            let queue = &core.spec.queue.shown;
            tracing::warn!(
                %queue,
                given_back,
                "messages were given back since no handler began them: is its runtime blocked?"
            );
            (warned, given_back) = (Some(now), 0);
        }
        let pause = async {
            match seen.next {
                // Locks of a few milliseconds must not make it spin.
                Some(at) => sleep_until(at.max(now + Duration::from_millis(1))).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = pause => {}
            () = core.deliveries.beat.notified() => {}
            _ = phase.wait_for(|phase| *phase == Phase::Ended) => return,
        }
    }
}
