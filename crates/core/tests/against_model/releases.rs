//! What consumers give back stands where it stood, whatever the order in which they do.

use std::collections::VecDeque;

use redis_mq_core::{Enqueue, Log, Now, Queue, Settings, Span, Token, Turn, Verdict};

const START_US: u64 = 1_700_000_000_000_000;

/// Random numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// A queue with a clock that moves a little with each turn.
struct Bench {
    queue: Queue,
    log: Log,
    settings: Settings,
    now_us: u64,
}

impl Bench {
    /// Messages named by their number, which is also their order.
    fn with_messages(count: u32) -> Self {
        let mut bench = Self {
            queue: Queue::new(1),
            log: Log::default(),
            settings: Settings::default(),
            now_us: START_US,
        };
        for number in 0..count {
            bench.enqueue(number, 0);
        }
        bench
    }

    fn turn<T>(&mut self, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> T {
        self.now_us += 10;
        let now = Now::from_micros(self.now_us);
        let mut turn = Turn::new(now, self.now_us, &self.settings, &mut self.log);
        step(&mut self.queue, &mut turn)
    }

    fn enqueue(&mut self, number: u32, attempts: u32) {
        self.turn(|queue, turn| {
            let id = number.to_be_bytes();
            let mut request = Enqueue::new(b"").id(&id);
            request.attempts = attempts;
            queue.enqueue(turn, &request);
        });
    }

    fn take(&mut self, count: usize, lock_ms: u64) -> Vec<(u32, Token)> {
        let lock = Some(Span::from_millis(lock_ms));
        self.turn(|queue, turn| {
            let mut got = Vec::new();
            queue.dequeue(turn, count, lock, |delivery| {
                let id = delivery.id.bytes().try_into().expect("a number");
                got.push((u32::from_be_bytes(id), delivery.token));
            });
            got
        })
    }

    fn done(&mut self, delivery: (u32, Token), verdict: Verdict<'_>) -> bool {
        let id = delivery.0.to_be_bytes();
        self.turn(|queue, turn| matches!(queue.done(turn, &id, delivery.1, verdict), Ok(Some(_))))
    }

    fn order(&mut self) -> Vec<u32> {
        let count = self.queue.len();
        self.take(count, 1000)
            .into_iter()
            .map(|(id, _)| id)
            .collect()
    }
}

#[test]
fn released_messages_come_in_their_former_order_whoever_releases_first() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut bench = Bench::with_messages(6);
        let got = bench.take(3, 1000);
        for at in order {
            assert!(bench.done(got[at], Verdict::Release));
        }
        bench.queue.check().expect("sound");
        assert_eq!(bench.order(), [0, 1, 2, 3, 4, 5], "{order:?}");
    }
}

#[test]
fn a_message_that_is_released_again_keeps_its_place() {
    let mut bench = Bench::with_messages(4);
    let got = bench.take(3, 1000);
    for delivery in got {
        bench.done(delivery, Verdict::Release);
    }
    // Its newest delivery is younger than those of the messages behind it.
    let again = bench.take(1, 1000);
    bench.done(again[0], Verdict::Release);
    assert_eq!(bench.order(), [0, 1, 2, 3]);
}

#[test]
fn any_mix_of_releases_by_many_consumers_keeps_the_order() {
    for seed in 0..200 {
        let mut numbers = Numbers(seed);
        let mut bench = Bench::with_messages(20);
        let mut held = Vec::new();
        for _ in 0..200 {
            if held.is_empty() || numbers.below(2) == 0 {
                let count = 1 + numbers.below(4) as usize;
                held.extend(bench.take(count, 100_000));
            } else {
                let at = numbers.below(held.len() as u64) as usize;
                let delivery = held.swap_remove(at);
                assert!(bench.done(delivery, Verdict::Release));
            }
        }
        for delivery in held {
            bench.done(delivery, Verdict::Release);
        }
        bench.queue.check().expect("sound");
        assert_eq!(bench.order(), (0..20).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn a_retry_and_an_expired_lock_go_behind_the_others_and_lose_the_place() {
    let mut bench = Bench::with_messages(3);
    let first = bench.take(1, 1000)[0];
    bench.done(first, Verdict::Release);
    let first = bench.take(1, 1)[0];
    bench.now_us += 1000;
    // The verdict of the expired lock still counts: the place is that of this delivery.
    let next = bench.take(1, 1000)[0];
    bench.done(first, Verdict::Release);
    assert_eq!(next.0, 1);
    bench.done(next, Verdict::Release);
    bench.queue.check().expect("sound");
    assert_eq!(bench.order(), [0, 1, 2]);

    let mut bench = Bench::with_messages(3);
    let first = bench.take(1, 1000)[0];
    bench.done(first, Verdict::Release);
    bench.take(1, 1);
    bench.now_us += 1000;
    assert_eq!(bench.order(), [1, 2, 0]);
}

#[test]
fn a_hundred_thousand_releases_in_random_order_keep_the_order() {
    const MANY: u32 = 100_000;
    let mut bench = Bench::with_messages(MANY);
    let mut got = bench.take(MANY as usize, 1_000_000);
    let mut numbers = Numbers(1);
    for last in (1..got.len()).rev() {
        got.swap(last, numbers.below(last as u64 + 1) as usize);
    }
    for delivery in got {
        assert!(bench.done(delivery, Verdict::Release));
    }
    bench.queue.check().expect("sound");
    let order = bench.order();
    assert!(order.into_iter().eq(0..MANY));
}

#[test]
fn every_message_is_counted_as_done_or_dead_once_whatever_comes_late() {
    const STEPS: u32 = 1_000_000;
    let mut numbers = Numbers(7);
    let mut bench = Bench::with_messages(0);
    bench.settings.max_dead = u32::MAX;
    let mut held = VecDeque::new();
    for step in 0..STEPS {
        match numbers.below(4) {
            0 => bench.enqueue(step, 1 + numbers.below(2) as u32),
            1 => held.extend(bench.take(1, 1)),
            2 => bench.now_us += 300,
            _ => {
                // Often late, so that a lock has run out, sometimes that of a last attempt.
                let Some(delivery) = held.pop_front() else {
                    continue;
                };
                let backoff = redis_mq_core::Backoff::None;
                bench.done(
                    delivery,
                    match numbers.below(4) {
                        0 => Verdict::SUCCESS,
                        1 => Verdict::Retry {
                            backoff,
                            reason: None,
                        },
                        2 => Verdict::Error { reason: None },
                        _ => Verdict::Release,
                    },
                );
            }
        }
        if step % 1000 == 0 {
            bench.turn(|queue, turn| queue.let_time_act(turn));
            let (totals, counts) = (bench.queue.totals(), bench.queue.counts());
            let dead = counts[6] as u64;
            assert_eq!(totals.dead, dead, "each letter was counted once");
            assert_eq!(
                totals.enqueued,
                totals.done + bench.queue.len() as u64,
                "nobody is in two totals"
            );
        }
    }
    assert!(bench.queue.totals().dead > 1000);
}
