//! By how much the primary's time is ahead of a replica's clock.

use super::STEP_MS;

/// For how long a lead must be the same to be no delay, in milliseconds.
const SURE_AFTER_MS: u64 = 500;
/// What differs less is the same.
const SAME_MS: u64 = 250;

/// What a replica has heard of its primary's time since the link came up.
///
/// Each change says how far the primary's time was ahead of the replica's clock, less the time that the
/// change took to get here. So the largest lead is the best. One that is more than what the replica goes
/// by is true at once. One that is less may be a delay: a replica that has just joined gets what was
/// written meanwhile, and that comes in faster than it was written. It is true once it stays the same.
#[derive(Debug)]
pub(super) struct Followed {
    largest_ms: Option<i64>,
    /// When a lead was first heard that has been the same since, and that lead.
    same_since: Option<(u64, i64)>,
}

impl Followed {
    pub const fn new() -> Followed {
        Followed {
            largest_ms: None,
            same_since: None,
        }
    }

    /// Takes in one lead, heard `at_ms` on a clock that nobody sets, while the replica goes by
    /// `shift_ms`. Returns what it is to go by from now on.
    pub fn hear(&mut self, lead_ms: i64, at_ms: u64, shift_ms: i64) -> i64 {
        let largest = self.largest_ms.map_or(lead_ms, |most| most.max(lead_ms));
        self.largest_ms = Some(largest);
        let is_sure = match self.same_since {
            Some((since, lead)) if lead.abs_diff(lead_ms) < SAME_MS => {
                at_ms.saturating_sub(since) >= SURE_AFTER_MS
            }
            _ => {
                self.same_since = Some((at_ms, lead_ms));
                false
            }
        };
        // Clocks that agree are left alone.
        let best = if largest.unsigned_abs() < STEP_MS {
            0
        } else {
            largest
        };
        let is_less = best < shift_ms && best.abs_diff(shift_ms) >= STEP_MS;
        if best > shift_ms || (is_less && is_sure) {
            best
        } else {
            shift_ms
        }
    }

    /// The replica's own clock was set by so many milliseconds.
    pub fn clock_was_set(&mut self, by_ms: i64) {
        if let Some(largest) = &mut self.largest_ms {
            *largest -= by_ms;
        }
        if let Some((_, lead)) = &mut self.same_since {
            *lead -= by_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// A replica that hears these leads at these instants, and goes by nothing at first.
    fn shift_after(heard: &[(u64, i64)]) -> i64 {
        let mut followed = Followed::new();
        heard
            .iter()
            .fold(0, |shift, (at, lead)| followed.hear(*lead, *at, shift))
    }

    #[test]
    fn a_primary_that_is_ahead_is_followed_at_once() {
        assert_eq!(shift_after(&[(0, HOUR)]), HOUR);
        assert_eq!(
            shift_after(&[(0, HOUR - 40), (1, HOUR - 3), (2, HOUR - 9)]),
            HOUR - 3
        );
    }

    #[test]
    fn one_that_is_behind_is_followed_when_that_is_no_delay() {
        assert_eq!(shift_after(&[(0, -HOUR), (499, -HOUR)]), 0);
        assert_eq!(shift_after(&[(0, -HOUR), (500, -HOUR + 3)]), -HOUR + 3);
        assert_eq!(
            shift_after(&[(0, -HOUR), (400, -HOUR + 300), (800, -HOUR + 300)]),
            0
        );
    }

    #[test]
    fn changes_that_were_held_up_teach_nothing() {
        // What was written in ten seconds comes in within one, then what is new.
        let mut heard: Vec<_> = (0..=10)
            .map(|n| (n * 100, n as i64 * 900 - 9_000))
            .collect();
        heard.push((2_000, -3));
        assert_eq!(shift_after(&heard), 0);
        // Then one is late by far.
        heard.push((9_000, -6_000));
        assert_eq!(shift_after(&heard), 0);
    }

    #[test]
    fn clocks_that_agree_to_the_second_are_left_alone() {
        assert_eq!(shift_after(&[(0, 999), (5_000, 999)]), 0);
        assert_eq!(shift_after(&[(0, -999), (5_000, -999)]), 0);
    }

    #[test]
    fn another_primary_or_a_clock_set_right_is_followed_anew() {
        let mut followed = Followed::new();
        assert_eq!(followed.hear(HOUR, 0, 0), HOUR);
        followed.clock_was_set(HOUR);
        assert_eq!(followed.hear(2, 1_000, 0), 0);
        followed.clock_was_set(-HOUR);
        assert_eq!(followed.hear(HOUR, 2_000, HOUR), HOUR + 2);
        let mut followed = Followed::new();
        assert_eq!(followed.hear(5, 3_000, HOUR), HOUR);
        assert_eq!(followed.hear(5, 3_600, HOUR), 0);
    }
}
