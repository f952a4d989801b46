//! The decoder of snapshots: what the server loads from a dump, a RESTORE or a primary.

use redis_mq_core::Loader;

use super::pair::{snapshot, Pair};
use super::pieces;

/// Loads the pieces of `data` as the chunks of a snapshot. They are refused, or give a sound queue that
/// can be saved, loaded and used like any other.
pub fn run(data: &[u8]) {
    let mut loader = Loader::new(1);
    for chunk in pieces::split(data) {
        if loader.feed(chunk).is_err() {
            return;
        }
    }
    let Ok(queue) = loader.finish() else { return };
    queue.check().expect("a loaded queue is sound");
    let mut pair = Pair::of(queue);
    assert_eq!(
        snapshot(&pair.queue),
        snapshot(&pair.replica),
        "a snapshot is canonical"
    );
    pair.live_on();
}
