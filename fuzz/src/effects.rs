//! The applier of effects: what a replica gets from its primary, and every server from its
//! append-only file.

use redis_mq_core::Queue;

use super::pair::Pair;
use super::pieces;

/// Applies the pieces of `data` one after the other to a queue that has a message in every state, and
/// to a copy of it. Whether a piece is accepted or refused, the queue stays sound and both the same.
pub fn run(data: &[u8]) {
    let mut pair = Pair::with_every_state();
    for effects in pieces::split(data) {
        let applied = pair.queue.apply(effects);
        assert_eq!(applied, pair.replica.apply(effects));
        pair.compare();
    }
    pair.live_on();
}

/// Effects for a queue from [`Pair::with_every_state`], in pieces: those of everything that
/// [`Pair::live_on`] does to it.
pub fn sample() -> Vec<Vec<u8>> {
    let mut pair = Pair::with_every_state();
    pair.keep_effects = Some(Vec::new());
    pair.live_on();
    let effects = pair.keep_effects.take().unwrap_or_default();
    let mut queue: Queue = Pair::with_every_state().queue;
    for effect in &effects {
        queue.apply(effect).expect("effects fit the queue");
    }
    effects
}
