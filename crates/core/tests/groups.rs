//! Groups, limits and pauses: whose turn it is, who waits, and that a primary, its replica and a
//! reloaded queue agree on all of it after every step.

use proptest::collection::vec;
use proptest::prelude::*;

use redis_mq_core::{
    Backoff, Enqueue, Full, LimitChanges, Loader, Log, Now, Outcome, Peek, Priority, Queue,
    Replication, Scope, Settings, Span, Start, Status, Token, Turn, Verdict,
};

const START_US: u64 = 1_700_000_000_000_000;

struct Pair {
    queue: Queue,
    replica: Queue,
    log: Log,
    settings: Settings,
    now_us: u64,
    /// Every delivery that has no verdict yet: id, group, token.
    running: Vec<(Vec<u8>, Vec<u8>, Token)>,
}

impl Pair {
    fn new() -> Self {
        Self {
            queue: Queue::new(1),
            replica: Queue::new(2),
            log: Log::default(),
            settings: Settings {
                lock: ms(10_000),
                ..Settings::default()
            },
            now_us: START_US,
            running: Vec::new(),
        }
    }

    fn turn<T>(&mut self, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> T {
        let now = Now::from_micros(self.now_us);
        let mut turn = Turn::new(now, 7, &self.settings, &mut self.log);
        turn.spell_out();
        let result = step(&mut self.queue, &mut turn);
        match self.log.replication() {
            Replication::Nothing => {}
            Replication::Effects(bytes) => self.replica.apply(bytes).expect("effects fit"),
            Replication::Verbatim => panic!("everything was to be spelled out"),
        }
        self.check();
        result
    }

    fn check(&self) {
        self.queue.check().expect("the queue is sound");
        self.replica.check().expect("the replica is sound");
        assert_eq!(digest(&self.queue), digest(&self.replica));
        let loaded = reloaded(&self.queue);
        loaded.check().expect("a loaded queue is sound");
        assert_eq!(digest(&loaded), digest(&self.queue));
    }

    fn pass(&mut self, ms: u64) {
        self.now_us += ms * 1000;
        self.turn(|queue, turn| queue.let_time_act(turn));
    }

    fn add(&mut self, id: &str, group: &str) -> Outcome {
        self.enqueue(id, group, |_| {})
    }

    fn enqueue(&mut self, id: &str, group: &str, change: impl FnOnce(&mut Enqueue<'_>)) -> Outcome {
        let mut request = Enqueue::new(b"payload").id(id.as_bytes());
        request.group = (!group.is_empty()).then_some(group.as_bytes());
        change(&mut request);
        self.turn(|queue, turn| queue.enqueue(turn, &request).outcome)
    }

    fn take(&mut self, count: usize) -> String {
        let mut ids = String::new();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        let handed_over = self.turn(|queue, turn| {
            queue.dequeue(turn, count, None, |delivery| {
                ids.push_str(std::str::from_utf8(delivery.id.bytes()).expect("made here"));
                let id = delivery.id.bytes().to_vec();
                taken.push((id, delivery.group.to_vec(), delivery.token));
                left.push(delivery.left);
            })
        });
        assert_eq!(handed_over, taken.len());
        assert!(left.into_iter().rev().eq(0..handed_over));
        self.running.extend(taken);
        ids
    }

    fn done(&mut self, id: &str, verdict: Verdict<'_>) {
        let at = self
            .running
            .iter()
            .rposition(|running| running.0 == id.as_bytes());
        let (id, _, token) = self.running.remove(at.expect("it was delivered"));
        let ended = self.turn(|queue, turn| queue.done(turn, &id, token, verdict));
        ended.expect("the newest delivery").expect("it is there");
    }

    fn cancel(&mut self, id: &str) -> bool {
        self.turn(|queue, turn| queue.cancel(turn, id.as_bytes()))
    }

    fn limit(&mut self, scope: Scope<'_>, changes: LimitChanges) {
        let set = self.turn(|queue, turn| queue.set_limits(turn, scope, &changes));
        set.expect("limits that can be");
    }

    /// Milliseconds until a consumer gets something, if time alone brings that about.
    fn time_to_ready(&mut self) -> Option<u64> {
        let start = self.now_us;
        while self.queue.ready_len() == 0 {
            let due = self.queue.next_due()?.millis();
            let wait = due.saturating_sub(self.now_us / 1000);
            self.pass(wait.max(1));
        }
        Some((self.now_us - start) / 1000)
    }

    fn groups(&self) -> usize {
        self.queue.info(Now::from_micros(self.now_us)).groups
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

fn digest(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.digest(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

fn reloaded(queue: &Queue) -> Queue {
    let mut loader = Loader::new(3);
    queue.snapshot(|chunk| loader.feed(chunk).expect("a snapshot can be loaded"));
    loader.finish().expect("a snapshot is whole")
}

fn inflight(most: Option<u32>) -> LimitChanges {
    LimitChanges {
        inflight: Some(most),
        ..LimitChanges::default()
    }
}

fn rate(deliveries: u32, span: u64, burst: u32) -> LimitChanges {
    LimitChanges {
        rate: Some(Some((deliveries, ms(span)))),
        burst: Some(Some(burst)),
        ..LimitChanges::default()
    }
}

const RETRY: Verdict<'_> = Verdict::Retry {
    backoff: Backoff::None,
    reason: None,
};

#[test]
fn groups_and_the_messages_without_take_turns() {
    let mut pair = Pair::new();
    pair.limit(Scope::Groups, inflight(None));
    for id in ["1", "2", "3"] {
        pair.add(&format!("a{id}"), "a");
    }
    pair.add("x1", "");
    pair.add("x2", "");
    pair.add("b1", "b");
    pair.add("c1", "c");
    assert_eq!(pair.take(9), "a1x1b1c1a2x2a3");
}

#[test]
fn peek_takes_turns_without_taking_and_without_an_end_to_go_on_after() {
    let mut pair = Pair::new();
    for id in ["1", "2", "3"] {
        pair.add(id, "a");
    }
    pair.add("x", "");
    pair.add("y", "");
    pair.add("b", "b");
    let before = digest(&pair.queue);
    assert_eq!(pair.peek(None, false), "1xb2y3");
    assert_eq!(pair.peek(None, true), "by3x21");
    assert_eq!(digest(&pair.queue), before);
    assert_eq!(pair.take(1), "1");
    assert_eq!(pair.peek(None, false), "xby", "a is busy");
    assert_eq!(pair.peek(Some(Status::Queued), false), "xby23");
    let after = Peek {
        status: Some(Status::Queued),
        count: 3,
        after: Some(b"x"),
        reverse: false,
    };
    let page = pair.queue.peek(Now::from_micros(pair.now_us), &after);
    assert!(matches!(page, Err(redis_mq_core::PeekError::Turns)));
}

#[test]
fn pages_go_on_where_there_are_limits_for_groups_and_no_group() {
    let mut pair = Pair::new();
    pair.limit(Scope::Groups, inflight(Some(2)));
    for id in ["1", "2", "3"] {
        pair.add(id, "");
    }
    let behind = Peek {
        status: None,
        count: 9,
        after: Some(b"1"),
        reverse: false,
    };
    let now = Now::from_micros(pair.now_us);
    let page = pair.queue.peek(now, &behind).expect("nobody takes turns");
    let ids: Vec<_> = page.iter().map(|message| message.id.bytes()).collect();
    assert_eq!(ids, [b"2", b"3"]);
}

#[test]
fn one_behind_a_backlog_of_another_group_is_the_second_turn() {
    let mut pair = Pair::new();
    pair.limit(Scope::Groups, inflight(None));
    for id in 0..50 {
        pair.add(&format!("a{id}"), "a");
    }
    pair.add("b", "b");
    assert_eq!(pair.take(2), "a0b");
}

#[test]
fn priorities_go_before_turns() {
    let mut pair = Pair::new();
    pair.limit(Scope::Groups, inflight(None));
    pair.add("a5", "a");
    pair.enqueue("b9", "b", |request| {
        request.priority = Priority::new(9).expect("0 to 9")
    });
    pair.enqueue("a1", "a", |request| {
        request.priority = Priority::new(1).expect("0 to 9")
    });
    assert_eq!(pair.take(3), "a1a5b9");
}

#[test]
fn order_is_kept_through_retries_releases_and_lost_locks() {
    let mut pair = Pair::new();
    for id in ["A", "B", "C"] {
        pair.add(id, "g");
    }
    assert_eq!(pair.take(3), "A", "one of an ordered group at once");
    assert_eq!(pair.queue.ready_len(), 0);
    pair.done("A", RETRY);
    assert_eq!(pair.take(3), "A");
    pair.done("A", Verdict::Release);
    assert_eq!(pair.take(3), "A");
    pair.done(
        "A",
        Verdict::Retry {
            backoff: Backoff::For(ms(50)),
            reason: None,
        },
    );
    assert_eq!(pair.take(3), "", "a backoff holds the group");
    pair.pass(50);
    assert_eq!(pair.take(3), "A");
    pair.pass(10_000);
    assert_eq!(pair.take(3), "A", "after a lost lock too");
    pair.done("A", Verdict::SUCCESS);
    assert_eq!(pair.take(3), "B");
    pair.done("B", Verdict::SUCCESS);
    assert_eq!(pair.take(3), "C");
}

#[test]
fn a_holder_that_ends_in_whatever_state_lets_its_group_go_on() {
    for state in ["locked", "backoff", "retried", "released", "expired"] {
        for end in ["cancel", "dead", "window", "update", "purge"] {
            let mut pair = Pair::new();
            pair.add("A", "g");
            pair.add("B", "g");
            assert_eq!(pair.take(1), "A");
            match state {
                "locked" => {}
                "backoff" => pair.done(
                    "A",
                    Verdict::Retry {
                        backoff: Backoff::For(ms(50)),
                        reason: None,
                    },
                ),
                "retried" => pair.done("A", RETRY),
                "released" => pair.done("A", Verdict::Release),
                _ => pair.pass(10_000),
            }
            match (end, state) {
                ("update", "locked") => continue,
                ("update", _) => {
                    pair.enqueue("A", "other", |request| request.update = true);
                }
                ("cancel", _) => assert!(pair.cancel("A")),
                ("purge", _) => {
                    let now = Now::from_micros(pair.now_us);
                    let status = pair.queue.status(now, b"A");
                    assert_eq!(pair.turn(|queue, turn| queue.purge(turn, status, 1)), 1);
                    assert_eq!(pair.queue.status(now, b"A"), None);
                }
                (_, "locked") => pair.done(
                    "A",
                    match end {
                        "dead" => Verdict::Error { reason: None },
                        _ => Verdict::success(Backoff::For(ms(1000))),
                    },
                ),
                _ => continue,
            }
            let next = pair.take(2);
            assert!(next.contains('B'), "{state}, {end}: {next}");
        }
    }
}

#[test]
fn a_message_that_is_delayed_holds_nobody_before_its_first_delivery() {
    let mut pair = Pair::new();
    pair.enqueue("A", "g", |request| request.start = Start::After(ms(10)));
    pair.add("B", "g");
    assert_eq!(pair.take(2), "B");
    pair.pass(10);
    assert_eq!(pair.take(2), "", "B keeps the group");
    pair.done("B", Verdict::SUCCESS);
    assert_eq!(pair.take(2), "A");
}

#[test]
fn a_group_may_share_up_to_its_number_in_flight() {
    let mut pair = Pair::new();
    pair.limit(Scope::Groups, inflight(Some(3)));
    for id in 0..6 {
        pair.add(&id.to_string(), "g");
    }
    assert_eq!(pair.take(9), "012");
    pair.done("1", RETRY);
    assert_eq!(pair.take(9), "3", "a retry goes behind");
    pair.limit(Scope::Group(b"g"), inflight(Some(4)));
    assert_eq!(pair.take(9), "4");
    pair.limit(Scope::Groups, inflight(None));
    pair.limit(Scope::Group(b"g"), inflight(None));
    assert_eq!(pair.take(9), "51");
}

#[test]
fn a_lock_that_is_over_is_extended_only_if_its_room_is_free() {
    let mut pair = Pair::new();
    pair.limit(Scope::Queue, inflight(Some(1)));
    pair.add("A", "");
    pair.add("B", "");
    assert_eq!(pair.take(2), "A");
    pair.pass(10_000);
    assert_eq!(pair.take(2), "B");
    let (id, _, token) = pair.running[0].clone();
    let extended = pair.turn(|queue, turn| queue.extend(turn, &id, token, ms(100)));
    assert!(extended.is_err(), "two would run");
    pair.done("B", Verdict::SUCCESS);
    let extended = pair.turn(|queue, turn| queue.extend(turn, &id, token, ms(100)));
    assert!(extended.is_ok_and(|until| until.is_some()));
}

#[test]
fn a_rate_of_the_queue_frees_the_next_delivery_at_its_instant() {
    let mut pair = Pair::new();
    pair.limit(Scope::Queue, rate(10, 1000, 2));
    for id in 0..5 {
        pair.add(&id.to_string(), "");
    }
    assert_eq!(pair.take(9), "01");
    assert_eq!(pair.queue.ready_len(), 0);
    assert_eq!(pair.time_to_ready(), Some(100));
    assert_eq!(pair.queue.ready_len(), 1);
    assert_eq!(pair.take(9), "2");
    let off = LimitChanges {
        rate: Some(None),
        ..LimitChanges::default()
    };
    pair.limit(Scope::Queue, off);
    assert_eq!(pair.take(9), "34");
}

#[test]
fn a_rate_of_groups_stops_one_and_not_the_others() {
    let mut pair = Pair::new();
    pair.limit(Scope::Groups, inflight(None));
    pair.limit(Scope::Group(b"slow"), rate(1, 1000, 1));
    for id in 0..3 {
        pair.add(&format!("s{id}"), "slow");
        pair.add(&format!("f{id}"), "fast");
    }
    assert_eq!(pair.take(9), "s0f0f1f2");
    assert_eq!(pair.time_to_ready(), Some(1000));
    assert_eq!(pair.take(9), "s1");
}

#[test]
fn a_rate_outlives_a_group_that_runs_empty_and_no_longer() {
    let mut pair = Pair::new();
    pair.limit(Scope::Groups, rate(1, 1000, 1));
    pair.add("a", "g");
    assert_eq!(pair.take(1), "a");
    pair.done("a", Verdict::SUCCESS);
    pair.add("b", "g");
    assert_eq!(pair.take(1), "");
    pair.cancel("b");
    assert_eq!(pair.groups(), 1);
    pair.pass(999);
    assert_eq!(pair.groups(), 1);
    pair.pass(1);
    assert_eq!(pair.groups(), 0);
    assert_eq!(pair.queue.next_due(), None);
}

#[test]
fn a_pause_ends_at_its_instant_or_when_somebody_ends_it() {
    for group in [None, Some(&b"g"[..])] {
        let mut pair = Pair::new();
        pair.add("A", "g");
        let pause = |span| {
            move |queue: &mut Queue, turn: &mut Turn<'_>| {
                queue.pause(turn, group, span).expect("a name").millis()
            }
        };
        let now = START_US / 1000;
        assert_eq!(pair.turn(pause(Some(ms(50)))), now + 50);
        assert_eq!(pair.turn(pause(Some(ms(20)))), now + 50, "never shortened");
        assert_eq!(pair.take(1), "");
        assert_eq!(pair.time_to_ready(), Some(50));
        assert_eq!(pair.turn(pause(None)), 0);
        assert_eq!(pair.turn(pause(Some(ms(20)))), 0, "nor ended");
        pair.pass(1_000_000);
        assert_eq!((pair.take(1), pair.queue.next_due()), (String::new(), None));
        assert!(pair.turn(|queue, turn| queue.resume(turn, group)));
        assert!(!pair.turn(|queue, turn| queue.resume(turn, group)));
        assert_eq!(pair.take(1), "A");
    }
}

#[test]
fn what_would_pass_a_length_is_refused_and_what_is_in_stays() {
    let mut pair = Pair::new();
    let length = |most| LimitChanges {
        length: Some(Some(most)),
        ..LimitChanges::default()
    };
    pair.limit(Scope::Queue, length(2));
    pair.limit(Scope::Group(b"g"), length(1));
    assert_eq!(pair.add("a", "g"), Outcome::Added);
    let before = digest(&pair.queue);
    assert_eq!(pair.add("b", "g"), Outcome::Full(Full::GroupLength));
    assert_eq!(digest(&pair.queue), before);
    assert_eq!(pair.add("b", ""), Outcome::Added);
    assert_eq!(pair.add("c", ""), Outcome::Full(Full::Length));
    assert!(
        matches!(pair.add("a", "g"), Outcome::Refused(_)),
        "the id is taken"
    );
    let update = pair.enqueue("b", "g", |request| request.update = true);
    assert_eq!(update, Outcome::Full(Full::GroupLength));
    assert_eq!(pair.take(2), "ab");
    pair.done("a", RETRY);
    pair.done("b", Verdict::SUCCESS);
    assert_eq!(pair.add("c", ""), Outcome::Added);
}

#[test]
fn attempts_of_the_queue_count_from_the_next_delivery() {
    let mut pair = Pair::new();
    pair.add("a", "");
    pair.take(1);
    pair.done("a", RETRY);
    pair.take(1);
    let attempts = LimitChanges {
        attempts: Some(Some(2)),
        ..LimitChanges::default()
    };
    pair.limit(Scope::Queue, attempts);
    pair.done("a", RETRY);
    assert_eq!(pair.take(1), "a", "that delivery was before the limit");
    pair.done("a", RETRY);
    assert_eq!(pair.take(1), "", "dead");
}

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

    fn peek(&self, status: Option<Status>, reverse: bool) -> String {
        let peek = Peek {
            status,
            count: 1000,
            after: None,
            reverse,
        };
        let page = self.queue.peek(Now::from_micros(self.now_us), &peek);
        let page = page.expect("nothing is asked for that turns forbid");
        let ids = page.iter().map(|message| message.id.bytes().to_vec());
        String::from_utf8(ids.flatten().collect()).expect("made here")
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
