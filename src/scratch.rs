//! What every step needs and no queue has to keep: memory for the effects' log, and random numbers.

use std::cell::{Cell, RefCell};

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use redis_mq_core::Log;

thread_local! {
    static LOG: Cell<Log> = Cell::default();
    static RANDOM: RefCell<SmallRng> = RefCell::new(SmallRng::from_os_rng());
}

/// An empty log, with the memory of the step before.
#[inline]
pub fn log() -> Log {
    LOG.take()
}

/// Keeps a log's memory for the next step.
#[inline]
pub fn keep(mut log: Log) {
    log.trim();
    LOG.set(log);
}

/// 64 fresh random bits: for ids, seeds and jitter, not for secrets.
#[inline]
pub fn random() -> u64 {
    RANDOM.with_borrow_mut(RngCore::next_u64)
}
