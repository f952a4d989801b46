//! The slow round: after a promotion, a load, or a rename that the server did not tell of, all queues are
//! met once, in small slices beside the looks.

use std::mem;
use std::time::{Duration, Instant};

use super::{met, state};
use crate::clock;
use crate::datatype::QUEUE_TYPE;
use crate::redis::{Ctx, KeyScan};

/// How long one slice takes.
const SLICE: Duration = Duration::from_micros(300);
/// From one slice to the next.
pub(super) const SLICE_PAUSE_MS: u64 = 2;
/// A round rests so many times as long as it took, and so long at least, before the next begins.
const REST: (u64, u64) = (20, 1_000);

/// The round that is under way, and the next one.
pub(super) struct Rounds {
    running: Option<Round>,
    wanted: bool,
    /// No round begins before this instant.
    rest_until: u64,
}

struct Round {
    db: i32,
    scan: KeyScan,
    begun_ms: u64,
}

impl Rounds {
    pub(super) const fn new() -> Rounds {
        Rounds {
            running: None,
            wanted: false,
            rest_until: 0,
        }
    }

    /// One from the beginning, after the rest.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// One from the beginning, at once.
    pub(super) fn begin_anew(&mut self) {
        *self = Rounds::new();
        self.wanted = true;
    }

    /// Queues have moved to where the round may have been already.
    pub(super) fn keys_have_moved(&mut self) {
        self.wanted |= self.running.is_some();
    }

    /// None is under way, and none is to come.
    pub(super) fn stop(&mut self) {
        *self = Rounds::new();
    }

    /// When there is something to do, at the earliest.
    pub(super) fn next(&self, now_ms: u64) -> Option<u64> {
        if self.running.is_some() {
            Some(now_ms)
        } else {
            self.wanted.then_some(self.rest_until)
        }
    }

    fn take(&mut self, now_ms: u64) -> Option<Round> {
        if self.running.is_none() && self.next(now_ms)? <= now_ms {
            self.wanted = false;
            self.running = Some(Round {
                db: 0,
                scan: KeyScan::new()?,
                begun_ms: now_ms,
            });
        }
        mem::take(&mut self.running)
    }

    fn put_back(&mut self, round: Round) {
        self.running = Some(round);
    }

    fn ended(&mut self, round: &Round, now_ms: u64) {
        let (times, least) = REST;
        let rest = now_ms.saturating_sub(round.begun_ms) * times;
        self.rest_until = now_ms + rest.max(least);
    }
}

/// One slice of the round, if one is due.
pub(super) fn slice(ctx: &Ctx) {
    let begin = Instant::now();
    let Some(mut round) = state().rounds.take(clock::read(ctx).steady_ms()) else {
        return;
    };
    let mut names = Vec::new();
    while begin.elapsed() < SLICE {
        if !ctx.select_db(round.db) {
            state().rounds.ended(&round, clock::read(ctx).steady_ms());
            return; // that was the last database
        }
        let more = round.scan.step(ctx, &QUEUE_TYPE, &mut names);
        for name in names.drain(..) {
            ctx.with_key_name(&name, |name| met(ctx, name));
        }
        if !more {
            round.scan.restart();
            round.db += 1;
        }
    }
    state().rounds.put_back(round);
}
