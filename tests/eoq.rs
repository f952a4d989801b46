//! MQ.DEQUEUE … EOQ: the wait that all pollers of a dry queue share.

mod common;

use common::{contract, contract_on, HOUR};
use redis_mq_testkit::{ReplyExt, Server, Value};

/// A wait that does not pass during a test, and ends before the lock of a message that is held.
const LONG: i64 = HOUR / 4;

#[test]
fn a_dry_poll_gets_the_first_wait_and_creates_no_queue() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for options in ["EOQ", "EOQ COUNT 3", "LOCK 5 EOQ"] {
            let wait = client.poll(&queue, options);
            assert!((550..=1100).contains(&wait), "{options}: {wait}");
        }
        assert_eq!(client.poll(&queue, "EOQ 10 20 30"), 10);
        assert_eq!(client.poll(&queue, "EOQ 7"), 7);
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
    });
}

#[test]
fn the_first_wait_is_random() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waits: Vec<i64> = (0..50).map(|_| client.poll(&queue, "EOQ")).collect();
        waits.sort();
        waits.dedup();
        assert!(waits.len() > 10, "{waits:?}");
    });
}

#[test]
fn what_is_ready_is_served_as_without_eoq() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        client.enqueue(&queue, "p", "ID b");
        client.enqueue(&queue, "p", "ID c");
        assert_eq!(client.dequeue(&queue, "EOQ").unwrap().id(), "a");
        assert_eq!(
            client.dequeue(&queue, "EOQ 5 6 LOCK 777").unwrap().lock_ms,
            777
        );
        assert_eq!(client.dequeue_many(&queue, 5, "EOQ 5")[0].id(), "c");
        assert_eq!(client.info(&queue).int("ndry-runs"), 0);
    });
}

#[test]
fn all_pollers_share_one_wait() {
    contract(|lab| {
        let (mut one, mut other, queue) = (lab.client(), lab.client(), lab.queue());
        one.put(&queue, "held", "locked");
        let before = one.now();
        let wait = one.poll(&queue, &format!("EOQ {LONG}"));
        let after = one.now();
        assert_eq!(wait, LONG);
        one.wait_for_time(after + 5);

        // What is left, whatever the other would have drawn.
        for options in ["EOQ", "EOQ 1", "EOQ 9 9 9 9 9"] {
            let asked = other.now();
            let left = other.poll(&queue, options);
            let answered = other.now();
            assert!(left <= after + LONG - asked, "{options}: {left}");
            assert!(left >= before + LONG - answered, "{options}: {left}");
        }
        let info = other.info(&queue);
        assert_eq!(info.int("ndry-runs"), 1, "one dry run");
        assert!((1..LONG).contains(&info.int("eoq-backoff-ms")));
    });
}

#[test]
fn each_dry_run_takes_the_next_number_and_the_last_for_all_further_ones() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        for (run, expected) in [3, 5, 4, 6, 6, 6].into_iter().enumerate() {
            let wait = client.poll(&queue, "EOQ 3 5 4 6");
            let drawn = client.now();
            assert_eq!(wait, expected, "dry run {run}");
            client.wait_for_time(drawn + wait);
            assert_eq!(client.info(&queue).int("ndry-runs"), run as i64 + 1);
            assert_eq!(client.info(&queue).int("eoq-backoff-ms"), 0);
        }
    });
}

#[test]
fn the_default_wait_doubles_up_to_the_fifth_dry_run() {
    let server = Server::builder().module_args(["backoff-factor-ms", "16"]);
    contract_on(server, |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        // (2^(n-1) + random × 2^(n-1)) × 0.5 × 16 ms, n at most 4
        for low in [4, 8, 16, 32, 64, 64, 64] {
            let wait = client.poll(&queue, "EOQ");
            let drawn = client.now();
            assert!(
                (low..=2 * low).contains(&wait),
                "{wait} is not from {low} on"
            );
            client.wait_for_time(drawn + wait);
        }
    });
}

#[test]
fn a_served_poll_starts_the_dry_runs_anew() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        client.poll(&queue, &format!("EOQ 1 {LONG}"));
        let drawn = client.now();
        client.wait_for_time(drawn + 1);
        assert_eq!(client.poll(&queue, &format!("EOQ 1 {LONG}")), LONG);
        assert_eq!(client.info(&queue).int("ndry-runs"), 2);

        // An enqueue never waits for the pause.
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(client.dequeue(&queue, "EOQ").unwrap().id(), "a");
        let info = client.info(&queue);
        assert_eq!((info.int("ndry-runs"), info.int("eoq-backoff-ms")), (0, 0));
        assert_eq!(client.poll(&queue, "EOQ 17 18"), 17);
    });
}

#[test]
fn serving_any_consumer_ends_the_wait() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        for options in ["", "COUNT 2", "BLOCK 1"] {
            assert_eq!(client.poll(&queue, &format!("EOQ {LONG}")), LONG);
            client.enqueue(&queue, "p", "");
            assert!(!client.ok(&format!("MQ.DEQUEUE {queue} {options}")).is_nil());
            assert_eq!(client.info(&queue).int("ndry-runs"), 0, "{options}");
            assert_eq!(client.info(&queue).int("eoq-backoff-ms"), 0, "{options}");
        }
    });
}

#[test]
fn a_dry_dequeue_without_eoq_is_no_dry_run() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        assert_eq!(client.dequeue(&queue, ""), None);
        assert_eq!(client.dequeue(&queue, "BLOCK 1"), None);
        assert_eq!(client.info(&queue).int("ndry-runs"), 0);
    });
}

#[test]
fn the_wait_never_passes_the_time_when_a_message_becomes_ready() {
    contract(|lab| {
        let mut client = lab.client();
        for setup in ["delay", "lock", "retry", "copy"] {
            let queue = lab.queue();
            client.enqueue(&queue, "p", "ID a");
            let delivery = client.take(&queue);
            let half = HOUR / 2;
            match setup {
                "delay" => {
                    client.enqueue(&queue, "p", &format!("ID b DELAY {half}"));
                }
                "lock" => {
                    client.extend(&queue, &delivery, half).unwrap();
                }
                "retry" => {
                    client.done(&queue, &delivery, &format!("RETRY BACKOFF {half}"));
                }
                _ => {
                    client.enqueue(&queue, "p", "ID a REQUEUE");
                    client.done(&queue, &delivery, &format!("BACKOFF {half}"));
                }
            }
            let id = if setup == "delay" { "b" } else { "a" };
            let due = client.message(&queue, id).int("due-at");
            let before = client.now();
            let wait = client.poll(&queue, &format!("EOQ {}", 10 * HOUR));
            let after = client.now();
            assert!(
                (due - after..=due - before).contains(&wait),
                "{setup}: {wait}"
            );
        }
    });
}

#[test]
fn a_message_that_comes_due_sooner_shortens_the_running_wait() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        assert_eq!(client.poll(&queue, &format!("EOQ {LONG}")), LONG);
        client.enqueue(&queue, "p", "ID soon DELAY 30");
        let due = client.message(&queue, "soon").int("due-at");
        loop {
            let asked = client.now();
            let reply = client.ok(&format!("MQ.DEQUEUE {queue} EOQ"));
            if let Value::Int(wait) = reply {
                assert!(asked < due, "it is due and was not served");
                assert!(wait <= due - asked, "{wait} passes the time");
                continue;
            }
            assert_eq!(common::Delivery::read(&reply).id(), "soon");
            return;
        }
    });
}

#[test]
fn a_wait_of_nothing_is_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert_eq!(client.poll(&queue, "EOQ 0"), 0);
        client.put(&queue, "held", "locked");
        for _ in 0..3 {
            assert_eq!(client.poll(&queue, "EOQ 0"), 0);
        }
    });
}

#[test]
fn a_dry_run_changes_nothing_that_is_kept() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        let before = client.digest(&queue);
        client.poll(&queue, &format!("EOQ {LONG}"));
        assert_eq!(client.digest(&queue), before);
    });
}
