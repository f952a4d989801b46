//! A limit on how many messages are taken in a time.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// At most `most` messages within any `period`: over every window, not only on average.
///
/// What is taken within a small part of the period counts as taken at the end of it, so that a
/// long period with many messages costs no more memory than a short one. That makes the limit a
/// little stricter, never laxer.
#[derive(Debug)]
pub(crate) struct RateLimit {
    most: usize,
    period: Duration,
    /// What was taken within the last period; oldest first.
    taken: VecDeque<Taken>,
    sum: usize,
}

#[derive(Debug)]
struct Taken {
    from: Instant,
    until: Instant,
    count: usize,
}

/// Into how many parts a period is divided.
const PARTS: u32 = 256;

impl RateLimit {
    pub(crate) fn new(most: usize, period: Duration) -> Self {
        Self {
            most,
            period,
            taken: VecDeque::new(),
            sum: 0,
        }
    }

    /// How many may be taken now, or else when to ask again.
    pub(crate) fn free(&mut self, now: Instant) -> Result<usize, Instant> {
        while let Some(oldest) = self.taken.front() {
            if now < oldest.until + self.period {
                break;
            }
            self.sum -= oldest.count;
            self.taken.pop_front();
        }
        match self.taken.front() {
            Some(oldest) if self.sum >= self.most => Err(oldest.until + self.period),
            _ => Ok(self.most - self.sum),
        }
    }

    pub(crate) fn took(&mut self, now: Instant, count: usize) {
        if count == 0 {
            return;
        }
        self.sum += count;
        match self.taken.back_mut() {
            Some(newest) if now < newest.from + self.period / PARTS => {
                newest.until = now;
                newest.count += count;
            }
            _ => self.taken.push_back(Taken {
                from: now,
                until: now,
                count,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_holds_more_than_the_limit() {
        let period = Duration::from_millis(1_000);
        let mut limit = RateLimit::new(10, period);
        let start = Instant::now();
        let mut taken = Vec::new();
        let mut now = start;
        for step in 0..10_000u64 {
            now = start + Duration::from_millis(step);
            if let Ok(free) = limit.free(now) {
                let count = free.min(1 + (step % 4) as usize);
                limit.took(now, count);
                taken.push((now, count));
            }
        }
        for (at, _) in &taken {
            let window = taken
                .iter()
                .filter(|(other, _)| other >= at && *other < *at + period);
            assert!(window.map(|(_, count)| count).sum::<usize>() <= 10);
        }
        let total: usize = taken.iter().map(|(_, count)| count).sum();
        assert_eq!(
            total,
            100,
            "and the limit is used up, until {:?}",
            now - start
        );
    }

    #[test]
    fn a_long_period_needs_no_more_memory_than_a_short_one() {
        let day = Duration::from_secs(86_400);
        let mut limit = RateLimit::new(10_000_000, day);
        let mut now = Instant::now();
        for _ in 0..2_000_000 {
            now += Duration::from_millis(50);
            if limit.free(now).is_ok() {
                limit.took(now, 1);
            }
        }
        assert!(limit.taken.len() <= 257, "{} entries", limit.taken.len());
        assert!(limit.sum > 1_720_000, "{} within a day", limit.sum);
    }

    #[test]
    fn it_tells_when_to_ask_again() {
        let mut limit = RateLimit::new(3, Duration::from_secs(1));
        let start = Instant::now();
        limit.took(start, 2);
        let later = start + Duration::from_millis(500);
        assert_eq!(limit.free(later), Ok(1));
        limit.took(later, 1);
        assert_eq!(limit.free(later), Err(start + Duration::from_secs(1)));
        assert_eq!(limit.free(start + Duration::from_secs(1)), Ok(2));
    }
}
