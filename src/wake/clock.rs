//! Whether the clock was set back.

use std::time::Instant;

/// Less than this is no step.
const STEP_MS: u64 = 1_000;

/// The server's clock beside one that only goes on, as they were seen last.
pub(super) struct SeenClock(Option<(Instant, u64)>);

impl SeenClock {
    pub(super) const fn new() -> SeenClock {
        SeenClock(None)
    }

    /// By how many milliseconds the clock was set back since it was seen last; 0 for not at all.
    pub(super) fn set_back_by(&mut self, now: Instant, now_ms: u64) -> u64 {
        let Some((then, then_ms)) = self.0.replace((now, now_ms)) else {
            return 0;
        };
        let passed = u64::try_from((now - then).as_millis()).unwrap_or(u64::MAX);
        let by = then_ms.saturating_add(passed).saturating_sub(now_ms);
        if by < STEP_MS {
            0
        } else {
            by
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_step_back_is_seen_once_and_one_forward_never() {
        let (mut clock, begin) = (SeenClock::new(), Instant::now());
        let mut see =
            |after: u64, now_ms| clock.set_back_by(begin + Duration::from_millis(after), now_ms);
        assert_eq!(see(0, 10_000), 0);
        assert_eq!(see(100, 10_090), 0);
        assert_eq!(see(200, 5_190), 5_000);
        assert_eq!(see(300, 5_290), 0);
        assert_eq!(see(400, 90_000), 0);
    }
}
