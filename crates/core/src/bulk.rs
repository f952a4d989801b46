//! MQ.MDONE: many messages in one turn.

use crate::done::{Ended, Stale, Verdict};
use crate::queue::Queue;
use crate::turn::Turn;
use crate::types::Token;

/// 2^64 divided by the golden ratio: multiples of it lie evenly among all random numbers.
const GOLDEN_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Queue {
    /// Ends each of these deliveries with the same verdict, as [`Queue::done`] would one after the
    /// other; `ended` gets what became of each, in their order. Time does no more than its share of one
    /// turn. Each message draws its own exponential backoff.
    pub fn done_many<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        deliveries: impl Iterator<Item = (&'a [u8], Token)>,
        verdict: Verdict<'_>,
        mut ended: impl FnMut(Result<Option<Ended>, Stale>),
    ) {
        turn.spell_out();
        for (id, token) in deliveries {
            ended(self.done(turn, id, token, verdict));
            turn.random = turn.random.wrapping_add(GOLDEN_STEP);
        }
    }
}
