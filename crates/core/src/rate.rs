//! How many deliveries may begin in a time: the generic cell rate algorithm (ITU-T I.371), which
//! keeps one instant and nothing else.
//!
//! A delivery moves the instant on by the interval. The next may begin once the clock is within
//! `burst - 1` intervals of it. So at most `n + burst - 1` deliveries begin in any `span`, wherever
//! the window is laid: fixed windows let 2 n through at their edge.

use crate::types::{Span, Timestamp};

/// Deliveries in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    deliveries: u32,
    span: Span,
    burst: u32,
}

impl Rate {
    /// One delivery every `span / deliveries`; after a pause up to `burst` at once. None if one of
    /// the three is zero.
    pub fn new(deliveries: u32, span: Span, burst: u32) -> Option<Self> {
        let some = deliveries != 0 && span != Span::ZERO && burst != 0;
        some.then_some(Self {
            deliveries,
            span,
            burst,
        })
    }

    /// Deliveries in a span.
    pub fn deliveries(self) -> u32 {
        self.deliveries
    }

    /// The time that they are counted in.
    pub fn span(self) -> Span {
        self.span
    }

    /// How many may begin at once after a pause.
    pub fn burst(self) -> u32 {
        self.burst
    }

    /// The same with another burst, at least 1.
    #[must_use]
    pub fn with_burst(self, burst: u32) -> Self {
        Self {
            burst: burst.max(1),
            ..self
        }
    }

    /// Nanoseconds between two deliveries, rounded up.
    fn interval(self) -> u64 {
        (self.span.millis() * 1_000_000).div_ceil(self.deliveries.into())
    }
}

/// What a rate has used up: one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    /// When all that began is used up again, in Unix nanoseconds; zero before the first.
    used_until: u64,
}

#[inline]
fn nanos(us: u64) -> u64 {
    us.saturating_mul(1000)
}

impl Meter {
    /// The meter as [`Meter::stored`] wrote it.
    pub fn from_stored(value: u64) -> Self {
        Self { used_until: value }
    }

    /// What a snapshot keeps.
    pub fn stored(self) -> u64 {
        self.used_until
    }

    /// What is used up, as far as it counts at `now`. More than a full burst is that of another
    /// rate, or of a clock that has been set back: then one delivery may begin.
    fn used(self, rate: Rate, now: u64) -> u64 {
        let ahead = |bursts: u64| now.saturating_add(rate.interval().saturating_mul(bursts));
        if self.used_until > ahead(rate.burst.into()) {
            ahead(u64::from(rate.burst) - 1)
        } else {
            self.used_until
        }
    }

    /// Counts a delivery that begins at `now_us` Unix microseconds.
    pub fn count(&mut self, rate: Rate, now_us: u64) {
        let now = nanos(now_us);
        let from = self.used(rate, now).max(now);
        self.used_until = from.saturating_add(rate.interval());
    }

    /// How many deliveries may begin at `now_us`.
    pub fn room(self, rate: Rate, now_us: u64) -> usize {
        let now = nanos(now_us);
        let ahead = self.used(rate, now).saturating_sub(now);
        let used = ahead.div_ceil(rate.interval());
        u64::from(rate.burst).saturating_sub(used) as usize
    }

    /// The first millisecond in which a delivery may begin: none if that is `now_us`.
    pub fn free_at(self, rate: Rate, now_us: u64) -> Option<Timestamp> {
        if self.room(rate, now_us) != 0 {
            return None;
        }
        let ahead = rate.interval().saturating_mul(u64::from(rate.burst) - 1);
        let free = self.used(rate, nanos(now_us)).saturating_sub(ahead);
        Some(millisecond(free))
    }

    /// When nothing is used up any more: none if that is so at `now_us`.
    pub fn idle_at(self, now_us: u64) -> Option<Timestamp> {
        (self.used_until > nanos(now_us)).then(|| millisecond(self.used_until))
    }
}

/// The first whole millisecond that is not before `ns`.
fn millisecond(ns: u64) -> Timestamp {
    Timestamp::from_millis(ns.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000_000_000;

    fn rate(deliveries: u32, ms: u64, burst: u32) -> Rate {
        Rate::new(deliveries, Span::from_millis(ms), burst).expect("none is zero")
    }

    /// Takes whatever is allowed at each instant; gives when deliveries began.
    fn greedy(rate: Rate, instants: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut meter = Meter::default();
        let mut begun = Vec::new();
        for now in instants {
            for _ in 0..meter.room(rate, now) {
                meter.count(rate, now);
                begun.push(now);
            }
            assert_eq!(meter.room(rate, now), 0, "room is what is taken");
        }
        begun
    }

    #[test]
    fn no_window_sees_more_than_n_and_the_burst() {
        for (n, ms, burst) in [(1, 10, 1), (3, 10, 1), (7, 10, 4), (50, 60, 50), (2, 1, 3)] {
            let rate = rate(n, ms, burst);
            let begun = greedy(rate, (0..400_000).map(|step| START + step * 7));
            let window = ms * 1000;
            let most = begun
                .iter()
                .enumerate()
                .map(|(at, from)| {
                    let inside = |other: &&u64| **other >= *from && **other < *from + window;
                    begun[at..].iter().take(200).filter(inside).count()
                })
                .max();
            assert!(
                most <= Some((n + burst - 1) as usize),
                "{n} in {ms}: {most:?}"
            );
        }
    }

    #[test]
    fn a_rate_is_reached_when_consumers_always_wait() {
        let begun = greedy(
            rate(50, 60_000, 1),
            (0..600_000).map(|ms| START + ms * 1000),
        );
        assert_eq!(begun.len(), 500, "50 a minute for ten minutes");
        let begun = greedy(rate(3, 10, 1), (0..1_000_000).map(|us| START + us));
        assert_eq!(begun.len(), 300);
    }

    #[test]
    fn a_burst_is_there_again_after_a_pause() {
        let rate = rate(10, 1000, 4);
        let mut meter = Meter::default();
        for _ in 0..4 {
            assert_ne!(meter.room(rate, START), 0);
            meter.count(rate, START);
        }
        let freed = Timestamp::from_millis(START / 1000 + 100);
        assert_eq!(meter.free_at(rate, START), Some(freed));
        assert_eq!(meter.room(rate, START + 100_000), 1);
        assert_eq!(meter.free_at(rate, START + 100_000), None);
        assert_eq!(meter.room(rate, START + 250_000), 2);
        let idle = Timestamp::from_millis(START / 1000 + 400);
        assert_eq!(meter.idle_at(START), Some(idle));
        assert_eq!(meter.room(rate, START + 400_000), 4);
        assert_eq!(meter.idle_at(START + 400_000), None);
    }

    #[test]
    fn a_clock_set_back_or_a_faster_rate_holds_nobody_up() {
        let rate = rate(10, 1000, 3);
        let mut meter = Meter::default();
        meter.count(rate, START);
        let back = START - 3_600_000_000;
        assert_eq!(meter.room(rate, back), 1);
        meter.count(rate, back);
        let free = Timestamp::from_millis(back / 1000 + 100);
        assert_eq!(meter.free_at(rate, back), Some(free));
        assert_eq!(meter.room(rate, back + 200_000), 2);
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let rate = Rate::new(1, Span::MAX, u32::MAX).expect("none is zero");
        let mut meter = Meter::from_stored(u64::MAX);
        let latest = (1 << 56) - 1;
        assert!(meter.room(rate, latest) <= u32::MAX as usize);
        meter.count(rate, latest);
        assert!(meter
            .free_at(rate, latest)
            .is_none_or(|at| at <= Timestamp::MAX));
        assert!(Rate::new(0, Span::MAX, 1).is_none());
    }
}
