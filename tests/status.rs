//! MQ.STATUS, MQ.GET and MQ.INFO: what holds at this moment.

mod common;

use common::{contract, contract_on, Client, Fields, HOUR, STATUSES};
use redis_mq_testkit::{ReplyExt, Server};

#[test]
fn status_and_get_are_null_for_what_is_not_there() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert_eq!(client.status(&queue, "a"), None, "no queue");
        assert_eq!(client.get(&queue, "a"), None);
        assert!(client.ok(&format!("MQ.INFO {queue}")).is_nil());
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
        client.put(&queue, "a", "queued");
        assert_eq!(client.status(&queue, "b"), None, "no such message");
        assert_eq!(client.get(&queue, "b"), None);
    });
}

#[test]
fn looking_changes_nothing() {
    contract(|lab| {
        let mut client = lab.client();
        for status in STATUSES {
            let queue = lab.queue();
            client.put(&queue, "a", status);
            let before = client.digest(&queue);
            client.status(&queue, "a");
            client.get(&queue, "a");
            client.info(&queue);
            assert_eq!(client.digest(&queue), before, "{status}");
        }
    });
}

#[test]
fn get_tells_the_status_and_when_time_moves_it_on() {
    contract(|lab| {
        let mut client = lab.client();
        for status in STATUSES {
            let queue = lab.queue();
            let before = client.now();
            client.put(&queue, "a", status);
            let after = client.now();
            let message = client.message(&queue, "a");
            assert_eq!(message.text("status").as_deref(), Some(status));
            assert_eq!(message.text("payload").as_deref(), Some("old"), "{status}");
            let due = message.int("due-at");
            if matches!(status, "queued" | "dead") {
                assert_eq!(due, 0, "{status}");
            } else {
                assert!(
                    (before + HOUR..=after + HOUR).contains(&due),
                    "{status}: {due}"
                );
            }
            let attempts = i64::from(!status.starts_with("queued"));
            assert_eq!(message.int("attempts"), attempts, "{status}");
            let copy = status.ends_with("-requeue").then_some("copy");
            assert_eq!(message.text("requeue").as_deref(), copy, "{status}");
            let reason = (status == "dead").then_some("why");
            assert_eq!(message.text("reason").as_deref(), reason, "{status}");
        }
    });
}

/// Asks until `due` has passed: before it the answer is `then`, after it one of `later`.
fn watch(client: &mut Client, queue: &str, due: i64, then: &str, later: &[Option<&str>]) {
    loop {
        let asked = client.now();
        let status = client.status(queue, "a");
        let answered = client.now();
        if asked >= due {
            assert!(
                later.contains(&status.as_deref()),
                "{status:?} after the time"
            );
            return;
        }
        if answered < due {
            assert_eq!(status.as_deref(), Some(then), "before the time");
        }
    }
}

#[test]
fn time_alone_moves_a_message_on_at_the_exact_instant() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a DELAY 15");
        let due = client.message(&queue, "a").int("due-at");
        watch(
            &mut client,
            &queue,
            due,
            "queued-with-backoff",
            &[Some("queued")],
        );

        client.enqueue(&queue, "p", "ID a ATTEMPTS 1 UPDATE");
        let delivery = client.take(&queue);
        let due = client.extend(&queue, &delivery, 15).unwrap().int();
        watch(&mut client, &queue, due, "locked", &[Some("dead")]);
        assert_eq!(client.message(&queue, "a").int("due-at"), 0);

        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let due = client.extend(&queue, &delivery, 15).unwrap().int();
        watch(&mut client, &queue, due, "locked", &[Some("queued")]);

        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "RETRY BACKOFF 15");
        let due = client.message(&queue, "a").int("due-at");
        watch(
            &mut client,
            &queue,
            due,
            "queued-with-backoff",
            &[Some("queued")],
        );

        // The queue that has the dead letter of this id tells of that one afterwards.
        let queue = lab.queue();
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "BACKOFF 15");
        if let Some(message) = client.get(&queue, "a") {
            let due = message.int("due-at");
            let free = [None, Some("done-awaiting-gc")];
            watch(&mut client, &queue, due, "done-with-backoff", &free);
        }
    });
}

#[test]
fn an_expired_lock_with_a_waiting_copy_is_queued_and_still_has_the_copy() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "queued");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "copy", "ID a REQUEUE");
        let due = client.extend(&queue, &delivery, 15).unwrap().int();
        watch(
            &mut client,
            &queue,
            due,
            "locked-with-requeue",
            &[Some("queued")],
        );
        let message = client.message(&queue, "a");
        assert_eq!(message.text("payload").as_deref(), Some("old"));
        assert_eq!(message.text("requeue").as_deref(), Some("copy"));
    });
}

fn counts(info: &Fields) -> Vec<i64> {
    STATUSES.iter().map(|status| info.int(status)).collect()
}

#[test]
fn info_counts_each_status_exactly() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        // The message that stays ready comes last, so that each other one is taken when it is put.
        for (n, status) in STATUSES.iter().enumerate().rev() {
            for copy in 0..=n {
                if *status != "queued" || copy == 0 {
                    client.put(&queue, &format!("{status}:{copy}"), status);
                }
            }
        }
        let info = client.info(&queue);
        assert_eq!(counts(&info), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(info.int("done-awaiting-gc"), 0);
        assert_eq!(info.int("messages"), 28);
    });
}

#[test]
fn info_counts_what_time_has_moved_on_at_once() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..20 {
            client.enqueue(&queue, "p", &format!("ID l{n} ATTEMPTS {}", n % 2));
        }
        client.dequeue_many(&queue, 20, "LOCK 30");
        client.enqueue(&queue, "p", "ID d DELAY 30");
        let due = client.message(&queue, "d").int("due-at");
        loop {
            let asked = client.now();
            let info = client.info(&queue);
            assert_eq!(info.int("messages"), 21);
            if asked >= due {
                assert_eq!(counts(&info), [11, 0, 0, 0, 0, 0, 10]);
                assert_eq!(info.int("total-expired-locks"), 20);
                assert_eq!(info.int("total-dead"), 10);
                assert_eq!(info.int("next-due-ms"), -1);
                return;
            }
        }
    });
}

#[test]
fn info_names_who_is_next_and_who_is_last() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        let info = client.info(&queue);
        assert_eq!((info.text("next-mid"), info.text("last-mid")), (None, None));
        for options in ["ID b", "ID c", "ID a PRIORITY 1", "ID z PRIORITY 8"] {
            client.enqueue(&queue, "p", options);
        }
        client.enqueue(&queue, "p", &format!("ID later PRIORITY 9 DELAY {HOUR}"));
        let info = client.info(&queue);
        assert_eq!(info.text("next-mid").as_deref(), Some("a"));
        assert_eq!(info.text("last-mid").as_deref(), Some("z"));
        assert_eq!(client.take(&queue).id(), "a");
        assert_eq!(client.info(&queue).text("next-mid").as_deref(), Some("b"));
        client.cancel(&queue, "z");
        assert_eq!(client.info(&queue).text("last-mid").as_deref(), Some("c"));
    });
}

#[test]
fn who_is_next_is_who_is_delivered_next_also_among_those_that_time_made_ready() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut last_due = 0;
        for n in 0..60 {
            let (priority, delay) = (n * 7 % 3, [0, 9, 4][n % 3]);
            let options = format!("ID {n} PRIORITY {priority} DELAY {delay}");
            client.enqueue(&queue, "p", &options);
            let due = client.message(&queue, n.to_string()).int("due-at");
            last_due = last_due.max(due);
        }
        for delivery in client.dequeue_many(&queue, 10, "LOCK 5") {
            let due = client.message(&queue, &delivery.id).int("due-at");
            last_due = last_due.max(due);
        }
        client.wait_for_time(last_due);
        let last = client.info(&queue).text("last-mid");
        let mut order = Vec::new();
        loop {
            let next = client.info(&queue).text("next-mid");
            match client.dequeue(&queue, &format!("LOCK {HOUR}")) {
                Some(delivery) => {
                    assert_eq!(next, Some(delivery.id()), "after {order:?}");
                    order.push(delivery.id());
                }
                None => {
                    assert_eq!(next, None);
                    break;
                }
            }
        }
        assert_eq!(order.len(), 60);
        assert_eq!(last.as_ref(), order.last());
    });
}

#[test]
fn info_tells_how_long_until_time_moves_something() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "ready", "queued");
        assert_eq!(client.info(&queue).int("next-due-ms"), -1);
        client.enqueue(&queue, "p", &format!("ID far DELAY {}", 3 * HOUR));
        client.enqueue(&queue, "p", &format!("ID near DELAY {HOUR}"));
        let due = client.message(&queue, "near").int("due-at");
        let before = client.now();
        let left = client.info(&queue).int("next-due-ms");
        let after = client.now();
        assert!((due - after..=due - before).contains(&left), "{left}");
    });
}

#[test]
fn info_tells_how_long_the_oldest_ready_message_waits() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID old");
        let enqueued_at = client.message(&queue, "old").int("enqueued-at");
        client.wait_for_time(enqueued_at + 10);
        client.enqueue(&queue, "p", "ID new PRIORITY 0");
        let before = client.now();
        let age = client.info(&queue).int("oldest-queued-ms");
        let after = client.now();
        assert!(
            (before - enqueued_at..=after - enqueued_at).contains(&age),
            "{age}"
        );
    });
}

#[test]
fn info_totals_count_since_the_queue_was_created() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..6 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        client.enqueue(&queue, "p", "ID 0");
        let all = client.dequeue_many(&queue, 6, &format!("LOCK {HOUR}"));
        for (delivery, verdict) in all
            .iter()
            .zip(["", "BACKOFF 9999", "RETRY", "ERROR", "RELEASE"])
        {
            client.done(&queue, delivery, verdict);
        }
        client.try_done(&queue, &all[3], "").unwrap_err();
        client.extend(&queue, &all[5], 1).unwrap();
        client.wait_until_due(&queue, "5");
        let info = client.info(&queue);
        assert_eq!(info.int("total-enqueued"), 6, "a refusal is none");
        assert_eq!(info.int("total-delivered"), 6);
        assert_eq!(info.int("total-done"), 2);
        assert_eq!(info.int("total-retried"), 1);
        assert_eq!(info.int("total-dead"), 1);
        assert_eq!(info.int("total-expired-locks"), 1);
        assert_eq!(info.int("paused"), 0);
    });
}

#[test]
fn finished_messages_are_swept_with_no_consumer_anywhere() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..5000 {
            client.enqueue(&queue, "a payload of some length", &format!("ID {n}"));
        }
        let all = client.dequeue_many(&queue, 5000, "");
        for delivery in &all {
            client.done(&queue, delivery, "BACKOFF 50");
        }
        let mut watcher = lab.client();
        redis_mq_testkit::wait_until(redis_mq_testkit::PATIENCE, || {
            let info = watcher.info(&queue);
            info.int("messages") == 0
        });
        assert_eq!(client.enqueue(&queue, "p", "ID 17"), "added");
    });
}
