//! What users of the older queue (nine keys and Lua scripts) know must hold here too, and its known
//! faults cannot happen. Each test tells one of its stories from start to end.

mod common;

use common::{contract, ids, HOUR};
use redis_mq_testkit::ReplyExt;

// What stays as it was.

#[test]
fn basics_empty_add_duplicate_deliver_lock_finish() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(client.poll(&queue, "EOQ") > 0, "an empty queue is a pause");
        assert_eq!(client.enqueue(&queue, "msg1", "ID mid1"), "added");
        assert_eq!(client.status(&queue, "mid1").as_deref(), Some("queued"));
        assert_eq!(client.enqueue(&queue, "msg1", "ID mid1"), "queued");
        // No end-of-circle marker comes first: the message is served although a pause runs.
        let delivery = client.dequeue(&queue, "EOQ").unwrap();
        assert_eq!(
            (delivery.id().as_str(), delivery.payload().as_str()),
            ("mid1", "msg1")
        );
        assert_eq!((delivery.attempt, delivery.lock_ms), (1, HOUR));
        assert_eq!(client.status(&queue, "mid1").as_deref(), Some("locked"));
        assert!(
            client.poll(&queue, "EOQ") > 0,
            "what is locked is not delivered again"
        );
        assert_eq!(client.done(&queue, &delivery, "SUCCESS"), "done");
        assert_eq!(
            client.status(&queue, "mid1"),
            None,
            "no second visit is needed"
        );
        assert_eq!(client.status(&queue, "unknown"), None);
    });
}

#[test]
fn initial_delays_hold_duplicates_off_and_end_in_order() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok("MULTI");
        client.ok(&format!("MQ.ENQUEUE {queue} msg1 ID mid1 DELAY 80"));
        client.ok(&format!("MQ.ENQUEUE {queue} msg2 ID mid2 DELAY 20"));
        client.ok("EXEC");
        let due1 = client.message(&queue, "mid1").int("due-at");
        let before = client.now();
        let outcome = client.enqueue(&queue, "again", "ID mid1");
        if client.now() < due1 && before < due1 {
            assert_eq!(outcome, "queued-with-backoff");
        }
        client.wait_for_time(due1);
        for id in ["mid1", "mid2"] {
            assert_eq!(client.status(&queue, id).as_deref(), Some("queued"));
            assert_eq!(
                client.enqueue(&queue, "again", &format!("ID {id}")),
                "queued"
            );
        }
        let got = client.dequeue_many(&queue, 5, "");
        assert_eq!(
            ids(&got),
            ["mid2", "mid1"],
            "in the order in which they became ready"
        );
        assert!(got.iter().all(|delivery| delivery.attempt == 1));
    });
}

#[test]
fn a_crashed_handler_gets_another_try_after_its_lock() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "msg1", "ID mid1");
        let first = client.dequeue(&queue, "LOCK 30").unwrap();
        let mut other = lab.client();
        let second = other
            .dequeue(&queue, &format!("BLOCK {HOUR} LOCK {HOUR}"))
            .unwrap();
        assert_eq!(
            (second.id(), second.payload()),
            (first.id(), first.payload())
        );
        assert_eq!(second.attempt, 2);
    });
}

#[test]
fn retry_with_backoff_then_success() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "msg1", "ID mid1");
        let first = client.take(&queue);
        assert_eq!(
            client.done(&queue, &first, "RETRY BACKOFF 30"),
            "queued-with-backoff"
        );
        let second = client.dequeue(&queue, &format!("BLOCK {HOUR}")).unwrap();
        assert_eq!((second.payload().as_str(), second.attempt), ("msg1", 2));
        assert_eq!(client.done(&queue, &second, ""), "done");
    });
}

#[test]
fn a_failed_message_is_never_retried_by_itself() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "msg1", "ID mid1");
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, "ERROR REASON boom"), "dead");
        assert_eq!(client.dequeue(&queue, "BLOCK 5"), None);
        assert_eq!(
            client.enqueue(&queue, "msg1", "ID mid1"),
            "added",
            "its id is free"
        );
    });
}

#[test]
fn an_update_keeps_the_time_of_the_first_enqueue() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID mid1 LOCK 500");
        let enqueued_at = client.message(&queue, "mid1").int("enqueued-at");
        client.wait_for_time(enqueued_at + 3);
        assert_eq!(
            client.enqueue(&queue, "new", "ID mid1 UPDATE LOCK 2000"),
            "updated"
        );
        let delivery = client.dequeue(&queue, "LOCK 9000").unwrap();
        assert_eq!(delivery.enqueued_at, enqueued_at);
        assert_eq!(
            (delivery.payload().as_str(), delivery.lock_ms),
            ("new", 2000)
        );
    });
}

#[test]
fn debouncing_moves_the_end_of_the_delay() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "1", &format!("ID mid1 DELAY {HOUR}"));
        let mut last = client.message(&queue, "mid1").int("due-at");
        for n in 2..5 {
            let now = client.now();
            client.wait_for_time(now + 2);
            let options = format!("ID mid1 UPDATE DELAY {HOUR}");
            assert_eq!(client.enqueue(&queue, n.to_string(), &options), "updated");
            let due = client.message(&queue, "mid1").int("due-at");
            assert!(due > last);
            last = due;
        }
        client.enqueue(&queue, "5", "ID mid1 UPDATE DELAY 1");
        client.wait_until_due(&queue, "mid1");
        let delivery = client.take(&queue);
        assert_eq!((delivery.payload().as_str(), delivery.attempt), ("5", 1));
    });
}

#[test]
fn the_state_of_a_queue_is_counted() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..10 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        let taken = client.dequeue_many(&queue, 4, "");
        client.done(&queue, &taken[0], "");
        client.done(&queue, &taken[1], &format!("BACKOFF {HOUR}"));
        client.done(&queue, &taken[2], &format!("RETRY BACKOFF {HOUR}"));
        let info = client.info(&queue);
        let count = |status| info.int(status);
        assert_eq!((count("queued"), count("locked")), (6, 1));
        assert_eq!(
            (count("queued-with-backoff"), count("done-with-backoff")),
            (1, 1)
        );
        assert_eq!(info.int("messages"), 9);
        assert_eq!(info.text("next-mid").as_deref(), Some("4"));
        assert_eq!(info.text("last-mid").as_deref(), Some("9"));
    });
}

// What cannot happen any more.

#[test]
fn enqueuing_again_never_delivers_old_content() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "1", "ID a");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "2", "ID a REQUEUE");
        client.done(&queue, &delivery, "");
        let delivery = client.take(&queue);
        assert_eq!(delivery.payload(), "2", "while locked");

        client.done(&queue, &delivery, "BACKOFF 30");
        let window = client
            .get(&queue, "a")
            .map_or(0, |message| message.int("due-at"));
        client.enqueue(&queue, "3", "ID a REQUEUE");
        client.wait_for_time(window);
        let delivery = client.take(&queue);
        assert_eq!(
            (delivery.payload().as_str(), delivery.attempt),
            ("3", 1),
            "in the window"
        );

        client.done(&queue, &delivery, "BACKOFF 1");
        client.wait_until_due(&queue, "a");
        client.enqueue(&queue, "4", "ID a");
        assert_eq!(client.take(&queue).payload(), "4", "after the window");
    });
}

#[test]
fn a_late_finish_leaves_no_trace_that_swallows_the_next_message() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "first", "ID a");
        let slow = client.dequeue(&queue, "LOCK 1").unwrap();
        client.wait_until_due(&queue, "a");
        let fast = client.take(&queue);
        assert_eq!(client.done(&queue, &fast, ""), "done");
        for verdict in ["", "BACKOFF 3600000", "RETRY BACKOFF 3600000", "ERROR"] {
            assert!(client.try_done(&queue, &slow, verdict).unwrap().is_nil());
        }
        assert_eq!(client.enqueue(&queue, "second", "ID a"), "added");
        assert_eq!(client.status(&queue, "a").as_deref(), Some("queued"));
        let next = client.take(&queue);
        assert_eq!((next.payload().as_str(), next.attempt), ("second", 1));
    });
}

#[test]
fn a_finish_with_an_expired_lock_does_not_unlock_the_current_holder() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let first = client.dequeue(&queue, "LOCK 1").unwrap();
        client.wait_until_due(&queue, "a");
        let second = client.take(&queue);
        for verdict in ["", "RETRY", "RELEASE", "ERROR"] {
            client.try_done(&queue, &first, verdict).unwrap_err();
            assert_eq!(client.dequeue(&queue, ""), None, "no third delivery");
        }
        assert_eq!(client.done(&queue, &second, ""), "done");
    });
}

#[test]
fn a_requeue_survives_the_failure_of_the_run_and_leaves_no_residue() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "new", "ID a REQUEUE");
        assert_eq!(client.done(&queue, &delivery, "ERROR"), "dead");
        let copy = client.take(&queue);
        assert_eq!((copy.payload().as_str(), copy.attempt), ("new", 1));
        assert_eq!(
            client.status(&queue, "a").as_deref(),
            Some("locked"),
            "nothing waits any more"
        );
        assert_eq!(client.done(&queue, &copy, ""), "done", "no run too many");
        client.cancel(&queue, "a");
        client.enqueue(&queue, "later", "ID a");
        client.take(&queue);
        assert_eq!(client.status(&queue, "a").as_deref(), Some("locked"));
    });
}

#[test]
fn a_finished_message_in_its_window_is_not_delivered_even_if_a_copy_waits() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "done-with-requeue");
        assert_eq!(client.dequeue(&queue, ""), None);
        assert_eq!(client.dequeue_many(&queue, 10, "BLOCK 3"), []);
        assert_eq!(client.info(&queue).int("total-delivered"), 1);
    });
}

#[test]
fn no_id_is_reserved() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for id in ["end-of-circle", "eoq-backoff", "nx", "sleep", "skip", "nil"] {
            client.enqueue(&queue, "p", &format!("ID {id}"));
            let delivery = client.take(&queue);
            assert_eq!(delivery.id(), id);
            assert_eq!(client.done(&queue, &delivery, ""), "done");
        }
    });
}

#[test]
fn a_new_message_is_there_at_once_whatever_else_the_queue_holds() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        // Ten thousand that wait for their time, a pause of pollers, some locked, some finished.
        let line = format!("MQ.ENQUEUE {queue} p DELAY {HOUR}\r\n");
        client.send_bytes(line.repeat(10_000).as_bytes());
        for _ in 0..10_000 {
            client.frame().unwrap();
        }
        client.put(&queue, "locked", "locked");
        client.put(&queue, "done", "done-with-backoff");
        assert!(client.poll(&queue, &format!("EOQ {}", HOUR / 2)) > 0);
        client.enqueue(&queue, "p", "ID new");
        assert_eq!(
            client.dequeue(&queue, "EOQ").unwrap().id(),
            "new",
            "with one poll"
        );

        client.enqueue(&queue, "p", "ID soon DELAY 20");
        let due = client
            .get(&queue, "soon")
            .map_or(0, |message| message.int("due-at"));
        let delivery = client
            .dequeue(&queue, &format!("BLOCK {HOUR} LOCK {HOUR}"))
            .unwrap();
        assert_eq!(delivery.id(), "soon");
        assert!(client.delivered_at(&queue, &delivery) >= due);
    });
}

#[test]
fn new_messages_do_not_starve_a_retry_that_is_due() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID retried");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "RETRY BACKOFF 1");
        client.wait_until_due(&queue, "retried");
        // It is due before these are enqueued, so it goes before them.
        for n in 0..100 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        assert_eq!(client.take(&queue).id(), "retried");
    });
}

#[test]
fn one_queue_is_one_key() {
    common::contract_on(redis_mq_testkit::Server::builder(), |lab| {
        let mut client = lab.client();
        for status in common::STATUSES.iter().rev() {
            client.put("q", status, status);
        }
        client.take("q");
        client.poll("q", "EOQ");
        assert_eq!(client.ok("DBSIZE").int(), 1);
        assert_eq!(client.ok("KEYS *").items()[0].text(), "q");
    });
}

#[test]
fn a_pause_of_nothing_or_of_a_fraction_has_no_side_effect() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "locked");
        let before = client.digest(&queue);
        for wrong in [
            "EOQ 0.5",
            "EOQ -1",
            "BLOCK 0.5",
            "BLOCK -1",
            "LOCK 0",
            "LOCK 0.1",
        ] {
            let error = client
                .line(&format!("MQ.DEQUEUE {queue} {wrong}"))
                .unwrap_err();
            assert!(error.starts_with("ERR "), "{wrong}: {error}");
        }
        assert_eq!(client.info(&queue).int("ndry-runs"), 0);
        assert_eq!(client.poll(&queue, "EOQ 0"), 0);
        assert_eq!(client.digest(&queue), before);
    });
}

#[test]
fn deduplication_requeue_and_counts_stay_exact_over_many_rounds() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (mut runs, mut accepted) = (0, 0);
        for round in 0..200 {
            let options = ["", "REQUEUE", "UPDATE", "REQUEUE UPDATE"][round % 4];
            let outcome = client.enqueue(&queue, round.to_string(), &format!("ID a {options}"));
            accepted += i64::from(outcome == "added" || outcome == "requeued");
            if round % 3 == 0 {
                if let Some(delivery) = client.dequeue(&queue, &format!("LOCK {HOUR}")) {
                    runs += 1;
                    let again = client.enqueue(&queue, "again", "ID a REQUEUE");
                    accepted += i64::from(again == "requeued");
                    client.done(&queue, &delivery, "");
                }
            }
        }
        while let Some(delivery) = client.dequeue(&queue, &format!("LOCK {HOUR}")) {
            runs += 1;
            client.done(&queue, &delivery, "");
        }
        assert_eq!(runs, accepted, "each accepted message ran once");
        let info = client.info(&queue);
        assert_eq!((info.int("messages"), info.int("total-done")), (0, runs));
        assert_eq!(client.status(&queue, "a"), None);
    });
}
