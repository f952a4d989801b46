//! What schedules need to know of calendars. The core has none: who takes a turn brings one.

use crate::types::Timestamp;

/// Tells at which instants a cron expression matches.
pub trait Calendar: std::fmt::Debug {
    /// The first instant later than `after` at which `expression` matches in the time zone of that name;
    /// none if there is none within ten years, or expression or zone are not understood. It must be found
    /// in bounded time, whatever the bytes.
    fn next(&self, expression: &[u8], zone: &[u8], after: Timestamp) -> Option<Timestamp>;
}

/// A calendar that understands nothing.
#[derive(Debug)]
pub(crate) struct NoCalendar;

impl Calendar for NoCalendar {
    fn next(&self, _: &[u8], _: &[u8], _: Timestamp) -> Option<Timestamp> {
        None
    }
}
