//! Queues as producers and operators see them.

mod control;

pub(crate) mod batch;
pub(crate) mod browse;
pub(crate) mod enqueued;
pub(crate) mod groups;
pub(crate) mod info;
pub(crate) mod limits;
pub(crate) mod options;
pub(crate) mod queue;
mod recurring;
pub(crate) mod schedule;
pub(crate) mod schedules;
