//! MQ.DONE: what each verdict makes of a message.

mod common;

use common::{contract, ids, HOUR};

#[test]
fn success_removes_the_message() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for verdict in ["", "SUCCESS", "success BACKOFF 0"] {
            client.enqueue(&queue, "p", "ID a");
            let delivery = client.take(&queue);
            assert_eq!(client.done(&queue, &delivery, verdict), "done", "{verdict}");
            assert_eq!(client.status(&queue, "a"), None);
        }
        let info = client.info(&queue);
        assert_eq!((info.int("messages"), info.int("total-done")), (0, 3));
    });
}

#[test]
fn success_with_backoff_keeps_the_id_taken_for_exactly_that_long() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let before = client.now();
        let became = client.done(&queue, &delivery, "SUCCESS BACKOFF 40");
        let after = client.now();
        assert_eq!(became, "done-with-backoff");
        loop {
            let asked = client.now();
            let outcome = client.enqueue(&queue, "again", "ID a");
            let answered = client.now();
            if outcome == "added" {
                assert!(answered >= before + 40, "free too early");
                break;
            }
            assert_eq!(outcome, "done-with-backoff");
            assert!(asked < after + 40, "taken for too long");
        }
    });
}

#[test]
fn success_lets_the_waiting_copy_run() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a");
        let first = client.take(&queue);
        client.done(&queue, &first, "RETRY");
        let second = client.take(&queue);
        assert_eq!(second.attempt, 2);
        client.enqueue(&queue, "new", "ID a REQUEUE");
        assert_eq!(client.done(&queue, &second, ""), "queued");
        assert_eq!(client.status(&queue, "a").as_deref(), Some("queued"));
        let next = client.take(&queue);
        assert_eq!((next.payload().as_str(), next.attempt), ("new", 1));
    });
}

#[test]
fn success_with_backoff_holds_the_waiting_copy_until_the_window_ends() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "new", "ID a REQUEUE");
        let became = client.done(&queue, &delivery, "BACKOFF 30");
        assert_eq!(became, "done-with-requeue");
        let end = client.message(&queue, "a").int("due-at").max(client.now());
        let next = loop {
            match client.dequeue(&queue, &format!("LOCK {HOUR}")) {
                Some(delivery) => break delivery,
                None => assert!(client.now() < end + 5000, "the copy does not run"),
            }
        };
        assert_eq!((next.payload().as_str(), next.attempt), ("new", 1));
        assert_eq!(client.done(&queue, &next, ""), "done");
    });
}

#[test]
fn retry_goes_behind_the_others_of_its_priority() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for id in ["a", "b", "c"] {
            client.enqueue(&queue, "p", &format!("ID {id}"));
        }
        client.enqueue(&queue, "p", "ID z PRIORITY 6");
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, "RETRY"), "queued");
        let got = client.dequeue_many(&queue, 4, "");
        assert_eq!(ids(&got), ["b", "c", "a", "z"]);
        assert_eq!(got[2].attempt, 2);
        assert_eq!(client.info(&queue).int("total-retried"), 1);
    });
}

#[test]
fn retry_with_backoff_waits_exactly_that_long() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let before = client.now();
        let became = client.done(&queue, &delivery, "BACKOFF 50 RETRY");
        let after = client.now();
        assert_eq!(became, "queued-with-backoff");
        let next = loop {
            let asked = client.now();
            match client.dequeue(&queue, &format!("LOCK {HOUR}")) {
                Some(delivery) => break delivery,
                None => assert!(asked < after + 50, "not given back"),
            }
        };
        assert!(
            client.delivered_at(&queue, &next) >= before + 50,
            "given back too early"
        );
        assert_eq!(next.attempt, 2);
    });
}

#[test]
fn exponential_backoff_doubles_with_each_attempt() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        // (2^(n-1) + random × 2^(n-1)) × 0.5 × 2200 ms
        for (attempt, low) in [(1, 1100), (2, 2200), (3, 4400), (4, 8800), (5, 17_600)] {
            let delivery = client.take(&queue);
            assert_eq!(delivery.attempt, attempt);
            let before = client.now();
            let became = client.done(&queue, &delivery, "RETRY BACKOFF EXP");
            let after = client.now();
            assert_eq!(became, "queued-with-backoff");
            let due = client.message(&queue, "a").int("due-at");
            assert!(due >= before + low, "attempt {attempt}: {}", due - before);
            assert!(due <= after + 2 * low, "attempt {attempt}: {}", due - after);
            client.enqueue(&queue, "p", "ID a UPDATE DELAY 0");
        }
        let delivery = client.take(&queue);
        let before = client.now();
        let became = client.done(&queue, &delivery, "SUCCESS BACKOFF EXP");
        let after = client.now();
        assert_eq!(became, "done-with-backoff");
        let due = client.message(&queue, "a").int("due-at");
        assert!((before + 35_200..=after + 70_400).contains(&due));
    });
}

#[test]
fn exponential_backoff_is_random() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut pauses: Vec<i64> = (0..20)
            .map(|n| {
                client.enqueue(&queue, "p", &format!("ID {n}"));
                let delivery = client.take(&queue);
                let before = client.now();
                client.done(&queue, &delivery, "RETRY BACKOFF EXP");
                client.message(&queue, n.to_string()).int("due-at") - before
            })
            .collect();
        pauses.sort();
        pauses.dedup();
        assert!(pauses.len() > 10, "{pauses:?}");
    });
}

#[test]
fn success_and_release_of_the_last_attempt_do_not_kill_it() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 1");
        for _ in 0..5 {
            let delivery = client.take(&queue);
            assert_eq!(delivery.attempt, 1, "a released attempt does not count");
            assert_eq!(client.done(&queue, &delivery, "RELEASE"), "queued");
        }
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, ""), "done");
    });
}

#[test]
fn release_goes_in_front_and_does_not_count() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for id in ["a", "b", "c"] {
            client.enqueue(&queue, "p", &format!("ID {id}"));
        }
        client.enqueue(&queue, "p", "ID urgent PRIORITY 4");
        client.take(&queue);
        let first = client.take(&queue);
        assert_eq!(client.done(&queue, &first, "RELEASE"), "queued");
        assert_eq!(client.message(&queue, "a").int("attempts"), 0);
        let again = client.take(&queue);
        assert_eq!((again.id().as_str(), again.attempt), ("a", 1));
        assert!(again.token > first.token);
        assert!(client
            .try_done(&queue, &first, "")
            .unwrap_err()
            .starts_with("STALE "));
        client.done(&queue, &again, "RETRY");
        assert_eq!(ids(&client.dequeue_many(&queue, 3, "")), ["b", "c", "a"]);
    });
}

#[test]
fn released_messages_stand_where_they_stood_whoever_releases_first() {
    contract(|lab| {
        let (mut client, mut other) = (lab.client(), lab.client());
        let orders = [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        for order in orders {
            let queue = lab.queue();
            for id in 1..=6 {
                client.enqueue(&queue, "p", &format!("ID {id}"));
            }
            let mut held = client.dequeue_many(&queue, 2, "");
            held.push(other.take(&queue));
            for at in order {
                assert_eq!(client.done(&queue, &held[at], "RELEASE"), "queued");
            }
            // What is taken and released once more keeps its place too.
            let again = other.take(&queue);
            assert_eq!(other.done(&queue, &again, "RELEASE"), "queued");
            let got = client.dequeue_many(&queue, 6, "");
            assert_eq!(ids(&got), ["1", "2", "3", "4", "5", "6"], "{order:?}");
        }
    });
}

#[test]
fn a_waiting_copy_survives_retry_and_release() {
    contract(|lab| {
        let mut client = lab.client();
        for verdict in ["RETRY", "RELEASE", "RETRY BACKOFF 1"] {
            let queue = lab.queue();
            client.enqueue(&queue, "old", "ID a");
            let delivery = client.take(&queue);
            client.enqueue(&queue, "new", "ID a REQUEUE");
            client.done(&queue, &delivery, verdict);
            client.wait_until_due(&queue, "a");
            assert_eq!(
                client.message(&queue, "a").text("requeue").as_deref(),
                Some("new")
            );
            let again = client.take(&queue);
            assert_eq!(again.payload(), "old", "{verdict}");
            let status = client.status(&queue, "a");
            assert_eq!(status.as_deref(), Some("locked-with-requeue"), "{verdict}");
            assert_eq!(client.done(&queue, &again, ""), "queued");
            let copy = client.take(&queue);
            assert_eq!((copy.payload().as_str(), copy.attempt), ("new", 1));
            assert_eq!(client.done(&queue, &copy, ""), "done");
        }
    });
}
