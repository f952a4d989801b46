//! MQ.ENQUEUE: what it adds, updates, requeues and refuses.

mod common;

use common::{contract, ids, HOUR, STATUSES, TEN_YEARS};
use redis_mq_testkit::ReplyExt;

/// What the contract's table says for a taken id: outcome and status afterwards.
fn expected(status: &str, update: bool, requeue: bool) -> (&str, &str) {
    match (status, update, requeue) {
        ("dead", ..) => ("added", "queued"),
        ("queued" | "queued-with-backoff", true, _) => ("updated", status),
        ("locked", _, true) => ("requeued", "locked-with-requeue"),
        ("done-with-backoff", _, true) => ("requeued", "done-with-requeue"),
        ("locked-with-requeue" | "done-with-requeue", true, true) => ("updated", status),
        _ => (status, status),
    }
}

#[test]
fn a_taken_id_is_refused_updated_or_requeued_as_its_status_says() {
    contract(|lab| {
        let mut client = lab.client();
        for status in STATUSES {
            for (update, requeue) in [(false, false), (true, false), (false, true), (true, true)] {
                let queue = lab.queue();
                client.put(&queue, "a", status);
                let before = client.digest(&queue);

                let update_word = if update { "UPDATE" } else { "" };
                let requeue_word = if requeue { "REQUEUE" } else { "" };
                let options = format!("ID a {update_word} {requeue_word}");
                let reply = client.enqueued(&queue, "new", &options);

                let (outcome, after) = expected(status, update, requeue);
                assert_eq!(reply, (outcome.into(), "a".into()), "{status} {options}");
                let now = client.status(&queue, "a");
                assert_eq!(now.as_deref(), Some(after), "{status} {options}");
                if outcome == status {
                    assert_eq!(client.digest(&queue), before, "{status} {options}");
                } else {
                    let message = client.message(&queue, "a");
                    let field = if after.ends_with("-requeue") {
                        "requeue"
                    } else {
                        "payload"
                    };
                    let payload = message.text(field);
                    assert_eq!(payload.as_deref(), Some("new"), "{status} {options}");
                }
            }
        }
    });
}

#[test]
fn an_id_is_free_when_nothing_lives_under_it() {
    contract(|lab| {
        let mut client = lab.client();
        let options = ["", "UPDATE", "REQUEUE", "UPDATE REQUEUE"];
        for option in options {
            let queue = lab.queue();
            let outcome = client.enqueue(&queue, "first", &format!("ID a {option}"));
            assert_eq!(outcome, "added", "a queue that does not exist, {option}");
            let delivery = client.take(&queue);
            assert_eq!(client.done(&queue, &delivery, ""), "done");
            let outcome = client.enqueue(&queue, "second", &format!("ID a {option}"));
            assert_eq!(outcome, "added", "finished, {option}");

            let delivery = client.take(&queue);
            assert_eq!(delivery.payload(), "second");
            client.done(&queue, &delivery, "BACKOFF 1");
            client.wait_until_due(&queue, "a");
            let outcome = client.enqueue(&queue, "third", &format!("ID a {option}"));
            assert_eq!(outcome, "added", "its window has ended, {option}");
            let third = client.take(&queue);
            assert_eq!((third.payload().as_str(), third.attempt), ("third", 1));
        }
    });
}

#[test]
fn every_option_is_kept_and_shown() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let before = client.now();
        client.enqueue(
            &queue,
            "p",
            "attempts 7 priority 2 lock 1234 delay 5000 id a",
        );
        let after = client.now();
        let message = client.message(&queue, "a");
        assert_eq!(message.text("id").as_deref(), Some("a"));
        assert_eq!(message.text("payload").as_deref(), Some("p"));
        assert_eq!(message.int("attempts"), 0);
        assert_eq!(message.int("max-attempts"), 7);
        assert_eq!(message.int("priority"), 2);
        assert_eq!(message.int("lock-ms"), 1234);
        let enqueued_at = message.int("enqueued-at");
        assert!((before..=after).contains(&enqueued_at));
        assert_eq!(message.int("due-at"), enqueued_at + 5000);
    });
}

#[test]
fn defaults_are_no_limit_priority_five_and_the_lock_of_the_consumer() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let message = client.message(&queue, "a");
        assert_eq!(message.int("max-attempts"), 0);
        assert_eq!(message.int("priority"), 5);
        assert_eq!(message.int("lock-ms"), 0);
        assert_eq!(message.int("due-at"), 0);
        let delivery = client.dequeue(&queue, "LOCK 4321").unwrap();
        assert_eq!(delivery.lock_ms, 4321);
    });
}

#[test]
fn a_delayed_message_is_not_delivered_before_its_time_and_then_it_is() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a DELAY 40");
        let due = client.message(&queue, "a").int("due-at");
        loop {
            let got = client.dequeue(&queue, &format!("LOCK {HOUR}"));
            let now = client.now();
            match got {
                Some(delivery) => {
                    assert!(client.delivered_at(&queue, &delivery) >= due);
                    break;
                }
                // Had its time come before the command, the message would have been there.
                None => assert!(now < due + 5000, "not delivered"),
            }
        }
    });
}

#[test]
fn at_names_the_instant_and_a_past_one_is_now() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let at = client.now() + HOUR;
        client.enqueue(&queue, "later", &format!("ID later AT {at}"));
        let message = client.message(&queue, "later");
        assert_eq!(
            message.text("status").as_deref(),
            Some("queued-with-backoff")
        );
        assert_eq!(message.int("due-at"), at);
        for past in [0, 1, at - 2 * HOUR] {
            let id = format!("past{past}");
            client.enqueue(&queue, "p", &format!("ID {id} AT {past}"));
            assert_eq!(
                client.status(&queue, &id).as_deref(),
                Some("queued"),
                "AT {past}"
            );
            assert_eq!(client.message(&queue, &id).int("due-at"), 0);
        }
    });
}

#[test]
fn no_delay_is_ready_at_once_and_the_longest_is_exact() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID now DELAY 0");
        assert_eq!(client.status(&queue, "now").as_deref(), Some("queued"));
        client.enqueue(
            &queue,
            "p",
            &format!("ID far DELAY {TEN_YEARS} LOCK {TEN_YEARS}"),
        );
        let message = client.message(&queue, "far");
        assert_eq!(
            message.int("due-at"),
            message.int("enqueued-at") + TEN_YEARS
        );
        assert_eq!(message.int("lock-ms"), TEN_YEARS);
    });
}

#[test]
fn an_update_replaces_payload_and_all_options() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a LOCK 1000 ATTEMPTS 3 PRIORITY 1");
        client.enqueue(&queue, "new", "ID a LOCK 2000 ATTEMPTS 4 PRIORITY 2 UPDATE");
        let message = client.message(&queue, "a");
        assert_eq!(message.int("lock-ms"), 2000);
        assert_eq!(message.int("max-attempts"), 4);
        assert_eq!(message.int("priority"), 2);

        // What an update does not name is not the old value but the default.
        client.enqueue(&queue, "newest", "ID a UPDATE");
        let message = client.message(&queue, "a");
        assert_eq!(message.int("lock-ms"), 0);
        assert_eq!(message.int("max-attempts"), 0);
        assert_eq!(message.int("priority"), 5);
        let delivery = client.take(&queue);
        assert_eq!(
            (delivery.payload().as_str(), delivery.attempt),
            ("newest", 1)
        );
        assert_eq!(
            client.dequeue(&queue, ""),
            None,
            "there was only one message"
        );
    });
}

#[test]
fn an_update_in_the_delay_keeps_its_end_unless_it_names_another() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", &format!("ID a DELAY {HOUR}"));
        let due = client.message(&queue, "a").int("due-at");
        client.enqueue(&queue, "new", "ID a UPDATE");
        assert_eq!(client.message(&queue, "a").int("due-at"), due);

        let before = client.now();
        client.enqueue(&queue, "new", &format!("ID a UPDATE DELAY {}", 2 * HOUR));
        let after = client.now();
        let due = client.message(&queue, "a").int("due-at");
        assert!((before + 2 * HOUR..=after + 2 * HOUR).contains(&due));

        client.enqueue(&queue, "new", &format!("ID a UPDATE AT {}", due + 1));
        assert_eq!(client.message(&queue, "a").int("due-at"), due + 1);

        client.enqueue(&queue, "newest", "ID a UPDATE DELAY 0");
        assert_eq!(client.status(&queue, "a").as_deref(), Some("queued"));
        assert_eq!(client.take(&queue).payload(), "newest");
    });
}

#[test]
fn an_update_during_the_pause_before_a_retry_keeps_the_attempts() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, &format!("RETRY BACKOFF {HOUR}"));
        let due = client.message(&queue, "a").int("due-at");
        assert_eq!(client.enqueue(&queue, "new", "ID a UPDATE"), "updated");
        assert_eq!(client.message(&queue, "a").int("due-at"), due);
        client.enqueue(&queue, "newest", "ID a UPDATE DELAY 0");
        let delivery = client.take(&queue);
        assert_eq!(
            (delivery.payload().as_str(), delivery.attempt),
            ("newest", 2)
        );
    });
}

#[test]
fn requeued_content_runs_after_the_delivery_as_a_new_message() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a ATTEMPTS 9 PRIORITY 9");
        let delivery = client.take(&queue);
        assert_eq!(
            client.enqueue(&queue, "one", "ID a REQUEUE LOCK 7"),
            "requeued"
        );
        let options = "ID a REQUEUE UPDATE LOCK 5000 ATTEMPTS 2 PRIORITY 1";
        assert_eq!(client.enqueue(&queue, "two", options), "updated");
        let running = client.message(&queue, "a");
        assert_eq!(running.text("payload").as_deref(), Some("old"));
        assert_eq!(running.text("requeue").as_deref(), Some("two"));

        assert_eq!(client.done(&queue, &delivery, "SUCCESS"), "queued");
        let message = client.message(&queue, "a");
        assert_eq!(message.int("attempts"), 0);
        assert_eq!(message.int("max-attempts"), 2);
        assert_eq!(message.int("priority"), 1);
        assert!(message.text("requeue").is_none());
        let next = client.take(&queue);
        assert_eq!((next.payload().as_str(), next.attempt), ("two", 1));
        assert_eq!(next.lock_ms, 5000);
        assert!(next.token > delivery.token);
        assert_eq!(
            client.done(&queue, &next, ""),
            "done",
            "exactly one more run"
        );
        assert_eq!(client.status(&queue, "a"), None);
    });
}

#[test]
fn the_delay_of_a_requeued_copy_counts_from_the_end_of_the_run() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "new", &format!("ID a REQUEUE DELAY {HOUR}"));
        client.wait_for_time(delivery.enqueued_at + 5);
        let before = client.now();
        assert_eq!(client.done(&queue, &delivery, ""), "queued-with-backoff");
        let after = client.now();
        let due = client.message(&queue, "a").int("due-at");
        assert!((before + HOUR..=after + HOUR).contains(&due));
    });
}

#[test]
fn the_delay_of_a_requeued_copy_counts_from_the_end_of_the_window() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "BACKOFF 60");
        let window_end = client
            .get(&queue, "a")
            .map_or(0, |message| message.int("due-at"));
        // The window may be over already on a slow machine: then this is just a new message.
        let outcome = client.enqueue(&queue, "new", &format!("ID a REQUEUE DELAY {HOUR}"));
        client.wait_for_time(window_end);
        let message = client.message(&queue, "a");
        assert_eq!(
            message.text("status").as_deref(),
            Some("queued-with-backoff")
        );
        assert_eq!(message.text("payload").as_deref(), Some("new"));
        if outcome == "requeued" {
            assert_eq!(message.int("due-at"), window_end + HOUR);
        }
    });
}

#[test]
fn server_made_ids_are_uuids_of_version_7_and_all_different() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let before = client.now();
        let made: Vec<String> = (0..500)
            .map(|_| client.enqueued(&queue, "p", ""))
            .map(|(outcome, id)| {
                assert_eq!(outcome, "added");
                id
            })
            .collect();
        let after = client.now();
        for id in &made {
            let groups: Vec<&str> = id.split('-').collect();
            let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert!(
                id.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()),
                "{id}"
            );
            assert_eq!(*id, id.to_lowercase());
            assert!(groups[2].starts_with('7'), "{id}");
            assert!(groups[3].starts_with(['8', '9', 'a', 'b']), "{id}");
            let time = format!("{}{}", groups[0], groups[1]);
            let ms = i64::from_str_radix(&time, 16).unwrap();
            assert!((before..=after).contains(&ms), "{id}");
        }
        let mut unique = made.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), made.len());
        assert_eq!(
            ids(&client.dequeue_many(&queue, 500, "")),
            made,
            "in their order"
        );
    });
}

#[test]
fn the_queue_appears_with_the_first_message_and_stays_when_empty() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "");
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 1);
        assert_eq!(client.info(&queue).int("messages"), 0);
    });
}
