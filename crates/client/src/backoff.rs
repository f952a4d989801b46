//! Growing, jittered pauses.

use std::time::Duration;

use crate::millis::LONGEST;

/// The pause that grows with each try: `(2^(n-1) + random × 2^(n-1)) × 0.5 × factor`, random in
/// [0, 1), kept between a least and a most.
///
/// With the default factor of 2200 ms: 550 to 1100 ms for n = 0, 1100 to 2200 for n = 1, 2200 to
/// 4400 for n = 2, and so on. The server's own `BACKOFF EXP` is the same formula.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct ExpBackoff {
    factor: Duration,
    min: Duration,
    max: Duration,
}

impl Default for ExpBackoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(2_200))
    }
}

impl ExpBackoff {
    /// Pauses that are `factor` long around n = 1 (half to once the factor), without bounds.
    pub const fn new(factor: Duration) -> Self {
        Self {
            factor,
            min: Duration::ZERO,
            max: LONGEST,
        }
    }

    /// No pause is shorter.
    pub const fn min(mut self, min: Duration) -> Self {
        self.min = min;
        self
    }

    /// No pause is longer.
    pub const fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    /// A pause for the n-th try, drawn anew each time.
    pub fn pause(&self, n: u32) -> Duration {
        self.pause_at(n, fastrand::f64())
    }

    /// The pause for the n-th try with that random number, which is in [0, 1).
    fn pause_at(&self, n: u32, random: f64) -> Duration {
        let steps = f64::from(n.min(200)) - 1.0;
        let seconds = steps.exp2() * (1.0 + random) * 0.5 * self.factor.as_secs_f64();
        let pause = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
        pause.min(self.max).max(self.min).min(LONGEST)
    }
}

/// The pauses between tries to reach a server: doubling from `least` to `most`, each drawn from
/// its upper half, and forgotten once a connection has proved good.
#[derive(Debug, Clone)]
pub(crate) struct Reconnect {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Reconnect {
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            next: least,
        }
    }

    /// The pause before the next try. Never zero, so that no fault can make a worker spin.
    pub(crate) fn pause(&mut self) -> Duration {
        let ceiling = self.next;
        self.next = (self.next * 2).min(self.most);
        ceiling
            .mul_f64(0.5 + 0.5 * fastrand::f64())
            .max(Duration::from_millis(1))
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn pauses_double_and_stay_in_their_ranges() {
        let backoff = ExpBackoff::default();
        for (n, low, high) in [
            (0, 550, 1_100),
            (1, 1_100, 2_200),
            (2, 2_200, 4_400),
            (5, 17_600, 35_200),
        ] {
            assert_eq!(backoff.pause_at(n, 0.0), MS(low), "n = {n}");
            assert!(backoff.pause_at(n, 0.999_999) < MS(high), "n = {n}");
            for _ in 0..100 {
                let pause = backoff.pause(n);
                assert!(pause >= MS(low) && pause < MS(high), "n = {n}: {pause:?}");
            }
        }
    }

    #[test]
    fn bounds_hold_for_every_n() {
        let backoff = ExpBackoff::new(MS(100)).min(MS(80)).max(MS(1_000));
        for n in [0, 1, 2, 10, 100, u32::MAX] {
            let pause = backoff.pause(n);
            assert!(pause >= MS(80) && pause <= MS(1_000), "n = {n}: {pause:?}");
        }
        assert_eq!(ExpBackoff::default().pause(u32::MAX), LONGEST);
    }

    #[test]
    fn reconnects_wait_longer_and_longer_up_to_the_cap_and_start_anew_after_success() {
        let mut reconnect = Reconnect::new(MS(100), MS(800));
        for ceiling in [100, 200, 400, 800, 800, 800] {
            let pause = reconnect.pause();
            assert!(
                pause >= MS(ceiling) / 2 && pause <= MS(ceiling),
                "{pause:?} of {ceiling}"
            );
        }
        reconnect.reset();
        assert!(reconnect.pause() <= MS(100));
    }
}
