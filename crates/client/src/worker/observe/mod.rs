//! What a worker shows of itself: events, counters, metrics, and how its connections do.

pub(crate) mod counters;
pub(crate) mod counts;
pub(crate) mod events;
pub(crate) mod health;
#[cfg(feature = "metrics")]
mod recorder;
pub(crate) mod sampling;
