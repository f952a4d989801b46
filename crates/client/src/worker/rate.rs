//! A limit on how many messages are taken in a time.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// At most `most` messages within any `period`: exact over every window, not only on average.
#[derive(Debug)]
pub(crate) struct RateLimit {
    most: usize,
    period: Duration,
    /// How many were taken when, within the last period; oldest first.
    taken: VecDeque<(Instant, usize)>,
    sum: usize,
}

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
        while let Some((at, count)) = self.taken.front() {
            if now < *at + self.period {
                break;
            }
            self.sum -= count;
            self.taken.pop_front();
        }
        match self.taken.front() {
            Some((at, _)) if self.sum >= self.most => Err(*at + self.period),
            _ => Ok(self.most - self.sum),
        }
    }

    pub(crate) fn took(&mut self, now: Instant, count: usize) {
        if count > 0 {
            self.taken.push_back((now, count));
            self.sum += count;
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
