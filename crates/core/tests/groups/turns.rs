//! Whose turn it is, and what keeps a group.

use redis_mq_core::{Backoff, Now, Peek, Priority, Scope, Start, Status, Verdict};

use crate::pair::{digest, inflight, ms, Pair, RETRY};

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
