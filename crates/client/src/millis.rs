//! Durations and instants as the contract writes them: whole milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest duration that the contract allows: ten years.
pub(crate) const LONGEST: Duration = Duration::from_millis(315_360_000_000);

/// Whole milliseconds, rounded up so that nothing happens early.
pub(crate) fn millis(duration: Duration) -> u64 {
    let rounded = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// Unix milliseconds, rounded up; an instant before 1970 is 0, which is as much in the past.
pub(crate) fn unix_millis(at: SystemTime) -> u64 {
    millis(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_up() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_millis(7)), 7);
        assert_eq!(millis(Duration::from_micros(7_001)), 8);
        assert_eq!(millis(LONGEST), 315_360_000_000);
    }

    #[test]
    fn instants_before_1970_are_in_the_past() {
        assert_eq!(unix_millis(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(unix_millis(UNIX_EPOCH + Duration::from_secs(1)), 1_000);
    }
}
