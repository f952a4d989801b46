//! Waiting on conditions instead of sleeping.

use std::thread;
use std::time::{Duration, Instant};

/// The deadline to give to something that normally takes milliseconds: far beyond what the slowest
/// machine needs, so that reaching it means "never".
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, looking every few milliseconds.
///
/// # Panics
///
/// If it does not hold within `deadline`; the message gives the caller's line.
#[track_caller]
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    let mut pause = Duration::from_micros(500);
    while !condition() {
        assert!(
            started.elapsed() < deadline,
            "the condition does not hold after {deadline:?}"
        );
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}
