//! Acknowledges: sends the answers of handlers, and extensions of locks, until they have arrived.

pub(crate) mod outbox;
mod refusal;
pub(crate) mod sending;
pub(crate) mod spent;
