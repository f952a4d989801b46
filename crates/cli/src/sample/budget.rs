//! How many commands may be sent in a second.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// In no second more than so many begin.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    /// When those of the last second began, the oldest first.
    begun: Mutex<VecDeque<Instant>>,
    /// Who waits, in order.
    turn: tokio::sync::Mutex<()>,
}

impl Budget {
    /// That many a second, at least one.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            begun: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Takes one, now or when there is room for it.
    pub async fn take(&self) {
        let _turn = self.turn.lock().await;
        while let Err(wait) = self.try_take(Instant::now(), 0) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes one that may wait: a third of the budget is left to those who cannot.
    pub async fn take_spare(&self) {
        while let Err(wait) = self.try_take(Instant::now(), self.most / 3) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes one if `spared` more would fit too, or tells when to try again.
    fn try_take(&self, now: Instant, spared: usize) -> Result<(), Duration> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        while begun.front().is_some_and(|at| now - *at >= SECOND) {
            begun.pop_front();
        }
        let room = self.most - spared;
        match begun.len().checked_sub(room) {
            None => {
                begun.push_back(now);
                Ok(())
            }
            // Of those that began, this one has to be a second ago.
            Some(at) => Err(SECOND.saturating_sub(now - begun[at])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_than_the_budget() {
        let budget = Budget::new(3);
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        for ms in [0, 400, 800] {
            assert_eq!(budget.try_take(after(ms), 0), Ok(()));
        }
        let wait = Duration::from_millis(100);
        assert_eq!(budget.try_take(after(900), 0), Err(wait));
        assert_eq!(budget.try_take(after(1_000), 0), Ok(()));
        let wait = Duration::from_millis(399);
        assert_eq!(budget.try_take(after(1_001), 0), Err(wait));
    }

    #[test]
    fn what_may_wait_leaves_room() {
        let budget = Budget::new(3);
        let now = Instant::now();
        assert_eq!(budget.try_take(now, 1), Ok(()));
        assert_eq!(budget.try_take(now, 1), Ok(()));
        assert_eq!(budget.try_take(now, 1), Err(SECOND));
        assert_eq!(budget.try_take(now, 0), Ok(()));
        assert_eq!(budget.try_take(now, 0), Err(SECOND));
    }
}
