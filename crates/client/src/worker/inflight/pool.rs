//! Handlers that several queues share.
//!
//! A message is only asked for when there is a handler for it, so that a queue that waits on its
//! server holds a handler meanwhile: one, as long as nothing has come, since all of a rush may be
//! another queue's. Of those that have more than that each may have its fair part at any time, and
//! what others leave over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The handlers of a worker with several queues, and who has them.
#[derive(Debug)]
pub(crate) struct Pool {
    handlers: usize,
    seats: Mutex<Vec<Share>>,
    /// Wakes those that wait for room.
    changed: Notify,
}

/// What one queue has of the pool.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// Messages that were taken and whose handlers have not ended.
    taken: usize,
    /// Handlers for messages that are being asked for.
    asked: usize,
    demand: Demand,
}

/// What a queue may want next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Nothing: it cannot take messages.
    #[default]
    Absent,
    /// One message: nothing was there when it last asked.
    Idle,
    /// As many as it may have.
    Hungry,
}

impl Pool {
    /// A pool of so many handlers, and a seat in it for each queue.
    pub(crate) fn seats(handlers: usize, queues: usize) -> impl Iterator<Item = Seat> {
        let pool = Arc::new(Self {
            handlers,
            seats: Mutex::new(vec![Share::default(); queues]),
            changed: Notify::new(),
        });
        (0..queues).map(move |index| Seat {
            pool: Arc::clone(&pool),
            index,
        })
    }

    fn shares(&self) -> MutexGuard<'_, Vec<Share>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many more messages the queue of that index may ask for.
    fn free(&self, shares: &[Share], index: usize) -> usize {
        // Whoever asks wants something.
        let demand = |other: usize| match shares[other].demand {
            Demand::Absent if other == index => Demand::Idle,
            demand => demand,
        };
        let those = |wanted| (0..shares.len()).filter(move |other| demand(*other) == wanted);
        let (idle, hungry) = (those(Demand::Idle).count(), those(Demand::Hungry).count());
        let even = (self.handlers / (idle + hungry)).max(1);
        // What an idle queue has, and one handler to ask with, within its even part.
        let part_of_idle = |other: usize| (shares[other].taken + 1).min(even);
        let all_idle = those(Demand::Idle).map(part_of_idle).sum();
        let rest = self.handlers.saturating_sub(all_idle);
        let part = |other: usize| match demand(other) {
            Demand::Absent => 0,
            Demand::Idle => part_of_idle(other),
            Demand::Hungry => rest / hungry,
        };
        let held = |other: usize| shares[other].taken + shares[other].asked;
        let missing = |other: usize| part(other).saturating_sub(held(other));
        let others = || (0..shares.len()).filter(|other| *other != index);
        let all_held: usize = (0..shares.len()).map(held).sum();
        let unheld = self.handlers.saturating_sub(all_held);
        let left_over = unheld.saturating_sub(others().map(missing).sum());
        if missing(index) == 0 || left_over >= missing(index) {
            return left_over;
        }
        // Some hold more than their part, and there is not enough for the others: a little for
        // each of these, and first of all one for each that has none.
        let without = others().filter(|other| missing(*other) > 0 && held(*other) == 0);
        let enough = unheld.saturating_sub(without.count());
        let short = (0..shares.len()).filter(|other| missing(*other) > 0);
        let little = (enough / short.count()).max(enough.min(1));
        little.min(missing(index)).max(left_over)
    }
}

/// One queue's place in a [`Pool`].
#[derive(Debug)]
pub(crate) struct Seat {
    pool: Arc<Pool>,
    index: usize,
}

impl Seat {
    /// How many more messages may be asked for.
    pub(super) fn free(&self) -> usize {
        self.pool.free(&self.pool.shares(), self.index)
    }

    /// Claims handlers for up to `most` messages that are about to be asked for, and returns for
    /// how many: one alone if nothing was there the last time.
    pub(super) fn claim(&self, most: usize) -> usize {
        let mut shares = self.pool.shares();
        let own = &mut shares[self.index];
        if own.demand == Demand::Absent {
            own.demand = Demand::Idle;
        }
        let most = match own.demand {
            Demand::Hungry => most,
            Demand::Absent | Demand::Idle => most.min(1),
        };
        let claimed = self.pool.free(&shares, self.index).min(most);
        shares[self.index].asked += claimed;
        claimed
    }

    /// What was asked for has come, as far as it was there; what is wanted next.
    pub(super) fn settle(&self, demand: Demand) {
        let mut shares = self.pool.shares();
        let own = &mut shares[self.index];
        own.asked = 0;
        own.demand = demand;
        drop(shares);
        self.pool.changed.notify_waiters();
    }

    /// Nothing may be asked for now.
    pub(super) fn leave(&self) {
        let mut shares = self.pool.shares();
        let own = &mut shares[self.index];
        let leaves = own.asked == 0 && own.demand != Demand::Absent;
        if leaves {
            own.demand = Demand::Absent;
        }
        drop(shares);
        if leaves {
            self.pool.changed.notify_waiters();
        }
    }

    /// Whether there probably is more than one message to ask for.
    pub(super) fn is_hungry(&self) -> bool {
        self.pool.shares()[self.index].demand == Demand::Hungry
    }

    /// So many messages are taken now.
    pub(super) fn set_taken(&self, taken: usize) {
        let mut shares = self.pool.shares();
        let own = &mut shares[self.index];
        let fewer = taken < own.taken;
        own.taken = taken;
        drop(shares);
        if fewer {
            self.pool.changed.notify_waiters();
        }
    }

    /// Wakes when another queue has left something over. It counts from the call on.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.pool.changed.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(handlers: usize, queues: usize) -> Vec<Seat> {
        Pool::seats(handlers, queues).collect()
    }

    /// Takes as much as it may, as a queue with a backlog does.
    fn fill(seat: &Seat) -> usize {
        let claimed = seat.claim(usize::MAX);
        let taken = seat.pool.shares()[seat.index].taken;
        seat.set_taken(taken + claimed);
        seat.settle(Demand::Hungry);
        claimed
    }

    #[test]
    fn one_queue_has_all_but_one_handler_for_each_that_waits() {
        let seats = seats(10, 4);
        for seat in &seats[1..] {
            assert_eq!(seat.claim(10), 1, "one for a queue that waits");
        }
        assert_eq!((fill(&seats[0]), fill(&seats[0])), (1, 6));
        assert_eq!(fill(&seats[0]), 0);
    }

    #[test]
    fn queues_with_much_to_do_have_even_parts_in_the_end() {
        let seats = seats(12, 3);
        assert_eq!((fill(&seats[0]), fill(&seats[0])), (1, 11), "alone: all");
        assert_eq!(seats[1].claim(5), 0, "until handlers end");
        // As they end, the one that has more than its part gets no new ones.
        seats[0].set_taken(11);
        assert_eq!((seats[0].free(), fill(&seats[1])), (0, 1));
        seats[0].set_taken(9);
        assert_eq!((seats[0].free(), fill(&seats[1])), (0, 2));
        seats[0].set_taken(5);
        assert_eq!((seats[0].free(), fill(&seats[1])), (1, 3));
        assert_eq!((fill(&seats[0]), fill(&seats[1])), (1, 0));
    }

    #[test]
    fn what_one_holds_beyond_its_part_starves_nobody() {
        let seats = seats(8, 4);
        for seat in &seats[1..] {
            assert_eq!(seat.claim(8), 1);
        }
        assert_eq!((fill(&seats[0]), fill(&seats[0])), (1, 4));
        // All others have something to do at the same moment, and the first never ends.
        for seat in &seats[1..] {
            seat.settle(Demand::Hungry);
        }
        for seat in &seats[1..] {
            assert_eq!((seats[0].free(), seat.claim(8)), (0, 1));
        }
    }

    #[test]
    fn a_queue_that_is_cut_off_leaves_its_part_to_the_others() {
        let seats = seats(8, 2);
        fill(&seats[1]);
        assert_eq!((fill(&seats[0]), fill(&seats[0])), (1, 3));
        seats[1].settle(Demand::Absent);
        assert_eq!(fill(&seats[0]), 3, "but not what its handlers hold");
        seats[1].set_taken(0);
        assert_eq!(fill(&seats[0]), 1);
    }

    #[test]
    fn never_more_than_there_are_handlers() {
        let mut random = fastrand::Rng::with_seed(7);
        for handlers in 1..9 {
            let seats = seats(handlers, handlers.min(4));
            for _ in 0..5_000 {
                let seat = &seats[random.usize(..seats.len())];
                let own = seat.pool.shares()[seat.index];
                match random.u8(..4) {
                    0 if own.asked == 0 => drop(seat.claim(random.usize(1..9))),
                    1 => {
                        seat.set_taken(own.taken + random.usize(..=own.asked));
                        let all = [Demand::Absent, Demand::Idle, Demand::Hungry];
                        seat.settle(all[random.usize(..3)]);
                    }
                    _ => seat.set_taken(own.taken - random.usize(..=own.taken)),
                }
                let shares = seat.pool.shares();
                let held: usize = shares.iter().map(|it| it.taken + it.asked).sum();
                assert!(held <= handlers);
                // Nobody starves: with nothing held, each may ask.
                if held == 0 {
                    for index in 0..shares.len() {
                        assert!(seat.pool.free(&shares, index) > 0);
                    }
                }
            }
        }
    }
}
