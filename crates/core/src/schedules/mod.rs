//! Schedules: what a queue enqueues by itself, each time an instant comes.
//!
//! The next instant is a part of the queue, and one effect both adds the run and sets the instant after
//! it: so whoever takes over has both or neither. All instants of schedules are by the server's clock, as
//! the people mean who write them; it may be set, so they need not go with the queue's own time.

mod form;
mod plan;
mod runs;
mod set;
mod store;
mod view;

pub(crate) use form::Definition;
pub use plan::{Overlap, RunOutcome, Times};
pub use set::{Schedule, ScheduleChange, ScheduleError, Scheduled};
pub(crate) use store::Schedules;
pub use view::ScheduleView;

use crate::id::MAX_ID_BYTES;
use crate::types::Span;

/// The longest name of a schedule, in bytes.
pub const MAX_NAME_BYTES: usize = MAX_ID_BYTES;
/// The longest name where each run has an id of its own: `@` and the instant's digits come behind it.
pub const MAX_NAME_BYTES_ALLOW: usize = MAX_ID_BYTES - 1 - 15;
/// The longest cron expression, in bytes: room for a list in every field.
pub const MAX_CRON_BYTES: usize = 512;
/// The longest name of a time zone, in bytes.
pub const MAX_ZONE_BYTES: usize = 64;
/// The shortest time from one run to the next.
pub const LEAST_EVERY: Span = Span::from_millis(1000);

#[cfg(test)]
mod tests;
