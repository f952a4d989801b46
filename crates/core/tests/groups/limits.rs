//! Rates, lengths, attempts and pauses.

use redis_mq_core::{Full, LimitChanges, Outcome, Queue, Scope, Turn, Verdict};

use crate::pair::{digest, inflight, ms, rate, Pair, RETRY, START_US};

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
