//! Any steps in any order.

use proptest::collection::vec;
use proptest::prelude::*;

use redis_mq_core::{Backoff, LimitChanges, Priority, Queue, Scope, Start, Status, Verdict};

use crate::pair::{chars, inflight, ms, Pair, RETRY};

#[derive(Clone, Debug)]
enum Step {
    Add {
        id: u8,
        group: u8,
        priority: u8,
        delay: u64,
        flags: (bool, bool),
        attempts: u32,
    },
    Take(usize),
    Done {
        at: usize,
        verdict: u8,
    },
    Extend {
        at: usize,
    },
    Cancel(u8),
    Redrive(usize),
    Purge(u8, usize),
    Pass(u64),
    Limit {
        scope: u8,
        inflight: u32,
        rate: u8,
    },
    Pause {
        group: u8,
        span: u64,
    },
    Resume(u8),
    FailOver,
}

const GROUPS: [&str; 4] = ["", "g", "h", "i"];

fn step() -> impl Strategy<Value = Step> {
    let delay = prop_oneof![3 => Just(0u64), 1 => 1..20u64];
    let priority = prop_oneof![3 => Just(5u8), 1 => 4..7u8];
    prop_oneof![
        10 => (0..8u8, 0..4u8, priority, delay, any::<(bool, bool)>(), 0..3u32).prop_map(
            |(id, group, priority, delay, flags, attempts)| {
                Step::Add { id, group, priority, delay, flags, attempts }
            }
        ),
        8 => (1..4usize).prop_map(Step::Take),
        8 => (0..4usize, 0..6u8).prop_map(|(at, verdict)| Step::Done { at, verdict }),
        1 => (0..4usize).prop_map(|at| Step::Extend { at }),
        1 => (0..8u8).prop_map(Step::Cancel),
        1 => (1..3usize).prop_map(Step::Redrive),
        1 => (0..8u8, 1..3usize).prop_map(|(status, count)| Step::Purge(status, count)),
        4 => (0..40u64).prop_map(Step::Pass),
        2 => (0..5u8, 0..4u32, 0..4u8)
            .prop_map(|(scope, inflight, rate)| Step::Limit { scope, inflight, rate }),
        1 => (0..4u8, 0..30u64).prop_map(|(group, span)| Step::Pause { group, span }),
        1 => (0..4u8).prop_map(Step::Resume),
        1 => Just(Step::FailOver),
    ]
}

impl Pair {
    fn step(&mut self, step: &Step) {
        let group =
            |at: &u8| Some(GROUPS[usize::from(*at)].as_bytes()).filter(|name| !name.is_empty());
        match step {
            Step::Add {
                id,
                group,
                priority,
                delay,
                flags,
                attempts,
            } => {
                self.enqueue(&id.to_string(), GROUPS[usize::from(*group)], |request| {
                    request.priority = Priority::new(*priority).expect("0 to 9");
                    request.start = Start::After(ms(*delay));
                    (request.update, request.requeue) = *flags;
                    request.attempts = *attempts;
                });
            }
            Step::Take(count) => {
                let promised = self.turn(|queue, turn| queue.deliverable(turn, *count));
                let got = self.take(*count).len();
                assert_eq!(promised == 0, got == 0, "{promised} promised, {got} given");
            }
            Step::Done { at, verdict } => {
                let Some((id, _, token)) = self.running.iter().rev().nth(*at).cloned() else {
                    return;
                };
                let verdict = match verdict {
                    0 | 1 => Verdict::SUCCESS,
                    2 => Verdict::success(Backoff::For(ms(10))),
                    3 => Verdict::Retry {
                        backoff: Backoff::For(ms(10)),
                        reason: None,
                    },
                    4 => RETRY,
                    _ => Verdict::Release,
                };
                let ended = self.turn(|queue, turn| queue.done(turn, &id, token, verdict));
                ended.ok();
            }
            Step::Extend { at } => {
                let Some((id, _, token)) = self.running.iter().rev().nth(*at).cloned() else {
                    return;
                };
                self.turn(|queue, turn| queue.extend(turn, &id, token, ms(30)).ok());
            }
            Step::Cancel(id) => {
                self.cancel(&id.to_string());
            }
            Step::Redrive(count) => {
                self.turn(|queue, turn| queue.redrive_oldest(turn, *count));
            }
            Step::Purge(status, count) => {
                let status = Status::ALL[usize::from(*status)];
                let of_status = |queue: &Queue| queue.counts().get(status as usize).copied();
                self.turn(|queue, turn| queue.let_time_act(turn));
                let before = of_status(&self.queue).unwrap_or_default();
                let purged = self.turn(|queue, turn| queue.purge(turn, Some(status), *count));
                if status != Status::Dead && status != Status::DoneAwaitingGc {
                    assert_eq!(purged, before.min(*count), "{status:?}");
                }
            }
            Step::Pass(ms) => self.pass(*ms),
            Step::Limit {
                scope,
                inflight,
                rate,
            } => {
                let scope = match scope {
                    0 => Scope::Queue,
                    1 => Scope::Groups,
                    at => Scope::Group(GROUPS[usize::from(*at) - 1].as_bytes()),
                };
                let rate = match rate {
                    0 => Some(None),
                    1 => None,
                    n => Some(Some((u32::from(*n), ms(20)))),
                };
                let changes = LimitChanges {
                    inflight: Some((*inflight != 0).then_some(*inflight)),
                    rate,
                    ..LimitChanges::default()
                };
                self.limit(scope, changes);
            }
            Step::Pause { group: at, span } => {
                let span = (*span != 0).then(|| ms(*span));
                let until = self.turn(|queue, turn| queue.pause(turn, group(at), span));
                until.expect("a name");
            }
            Step::Resume(at) => {
                self.turn(|queue, turn| queue.resume(turn, group(at)));
            }
            Step::FailOver => std::mem::swap(&mut self.queue, &mut self.replica),
        }
    }

    /// What is shown as the next deliveries is what comes if each ends before the next begins, and all
    /// that is ready is shown, held or not.
    fn compare_ahead(&mut self) {
        let no_rate = LimitChanges {
            rate: Some(None),
            ..LimitChanges::default()
        };
        for scope in [Scope::Groups, Scope::Queue] {
            self.limit(scope, no_rate);
        }
        self.limit(Scope::Queue, inflight(None));
        for group in &GROUPS[1..] {
            self.limit(Scope::Group(group.as_bytes()), no_rate);
        }
        self.turn(|queue, turn| queue.resume(turn, None));
        let ready = self.peek(Some(Status::Queued), false);
        assert_eq!(ready.len(), self.queue.counts()[Status::Queued as usize]);
        let ahead = self.peek(None, false);
        assert!(ready.starts_with(&ahead), "{ready} {ahead}");
        let (mut sorted, mut last) = (chars(&ahead), chars(&self.peek(None, true)));
        sorted.sort_unstable();
        last.sort_unstable();
        assert_eq!(sorted, last, "from the other end");
        let mut came = String::new();
        loop {
            let id = self.take(1);
            if id.is_empty() {
                break;
            }
            came.push_str(&id);
            let window = Backoff::For(ms(1_000_000));
            self.done(&id, Verdict::success(window));
        }
        assert_eq!(came, ahead);
    }

    fn drain(&mut self) {
        for scope in [Scope::Queue, Scope::Groups] {
            let off = LimitChanges {
                inflight: Some(None),
                rate: Some(None),
                ..LimitChanges::default()
            };
            self.limit(scope, off);
        }
        self.turn(|queue, turn| queue.resume(turn, None));
        for group in &GROUPS[1..] {
            self.limit(
                Scope::Group(group.as_bytes()),
                LimitChanges {
                    inflight: Some(None),
                    rate: Some(None),
                    ..LimitChanges::default()
                },
            );
            self.turn(|queue, turn| queue.resume(turn, Some(group.as_bytes())));
        }
        for _ in 0..200 {
            self.pass(40);
            self.pass(10_000);
            let from = self.running.len();
            self.take(100);
            let taken: Vec<_> = self.running.drain(from..).collect();
            for (id, _, token) in taken {
                self.turn(|queue, turn| queue.done(turn, &id, token, Verdict::SUCCESS))
                    .ok();
            }
            if self.queue.counts()[..6] == [0; 6] {
                return;
            }
        }
        panic!("something is stuck: {:?}", self.queue.counts());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn peek_shows_the_next_deliveries_after_any_steps(steps in vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
        }
        pair.compare_ahead();
    }

    #[test]
    fn primary_replica_and_reload_agree_after_any_steps_and_nothing_is_stuck(
        steps in vec(step(), 1..60)
    ) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
        }
        pair.drain();
    }
}
