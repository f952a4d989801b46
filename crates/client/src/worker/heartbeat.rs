//! Watches over the locks.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep_until, Instant};

use super::{
    core::{Core, Phase},
    delivery::LostLock,
};

/// Asks for extensions when they are due, and tells handlers whose lock has ended unconfirmed.
/// Nothing here waits for a connection, so that an outage cannot delay that news.
pub(crate) async fn run(core: Arc<Core>) {
    let mut phase = core.phase();
    loop {
        let now = Instant::now();
        let (ended, next) = core.desk.look(now);
        for delivery in ended {
            core.lose(&delivery, LostLock::Unconfirmed);
        }
        let pause = async {
            match next {
                // Locks of a few milliseconds must not make it spin.
                Some(at) => sleep_until(at.max(now + Duration::from_millis(1))).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = pause => {}
            () = core.desk.beat.notified() => {}
            _ = phase.wait_for(|phase| *phase == Phase::Ended) => return,
        }
    }
}
