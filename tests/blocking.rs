//! MQ.DEQUEUE … BLOCK: a waiter is served when a message becomes ready, for whatever reason, and
//! never before.

mod common;

use common::{contract_of_waiting, contract_of_waiting_on, Client, Delivery, Lab, HOUR};
use redis_mq_testkit::{ReplyExt, Server};

/// What a waiter got, and when its lock began.
fn served(lab: &Lab<'_>, waiter: &mut Client, queue: &str) -> (Delivery, i64) {
    let delivery = waiter.delivery();
    let at = lab.client().delivered_at(queue, &delivery);
    (delivery, at)
}

fn block_for_an_hour() -> String {
    format!("LOCK {HOUR} BLOCK {HOUR}")
}

#[test]
fn what_is_ready_is_served_without_waiting() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for block in [0, 1, HOUR] {
            client.enqueue(&queue, "p", "ID a");
            let delivery = client.dequeue(&queue, &format!("BLOCK {block}")).unwrap();
            assert_eq!((delivery.id().as_str(), delivery.attempt), ("a", 1));
            client.done(&queue, &delivery, "");
        }
        for n in 0..3 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        assert_eq!(client.dequeue_many(&queue, 5, "BLOCK 0").len(), 3);
    });
}

#[test]
fn an_enqueue_wakes_whether_the_queue_exists_or_not() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        for exists in [false, true] {
            let queue = lab.queue();
            if exists {
                client.put(&queue, "held", "locked");
            }
            for block in ["BLOCK 0", "BLOCK 3600000", "BLOCK 315360000000"] {
                let mut waiter = lab.waiter(&queue, &format!("{block} LOCK 4321"));
                client.enqueue(&queue, "payload", "ID a");
                let delivery = waiter.delivery();
                assert_eq!(delivery.payload(), "payload");
                assert_eq!((delivery.attempt, delivery.lock_ms), (1, 4321), "{block}");
                assert_eq!(client.done(&queue, &delivery, ""), "done");
            }
        }
    });
}

#[test]
fn with_count_a_waiter_gets_an_array() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiter = lab.waiter(&queue, "BLOCK 0 COUNT 5");
        client.ok("MULTI");
        for n in 0..3 {
            client.ok(&format!("MQ.ENQUEUE {queue} p ID {n}"));
        }
        client.ok("EXEC");
        let reply = waiter.reply().unwrap();
        let ids: Vec<_> = reply
            .items()
            .iter()
            .map(|one| Delivery::read(one).id())
            .collect();
        assert_eq!(ids, ["0", "1", "2"], "all that the transaction made ready");
    });
}

#[test]
fn the_end_of_a_delay_wakes() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        // Before and after the message is enqueued.
        for waits_first in [true, false] {
            let mut waiter = lab.client();
            if waits_first {
                waiter = lab.waiter(&queue, &block_for_an_hour());
            }
            client.enqueue(&queue, "p", "ID a DELAY 60");
            let due = client
                .get(&queue, "a")
                .map_or(0, |message| message.int("due-at"));
            if !waits_first {
                waiter = lab.waiter(&queue, &block_for_an_hour());
            }
            let (delivery, at) = served(lab, &mut waiter, &queue);
            assert!(at >= due && at >= delivery.enqueued_at + 60, "early");
            assert_eq!(delivery.attempt, 1);
            client.done(&queue, &delivery, "");
        }
    });
}

#[test]
fn the_end_of_a_lock_wakes() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let first = client.dequeue(&queue, "LOCK 60").unwrap();
        let mut waiter = lab.waiter(&queue, &block_for_an_hour());
        let (second, at) = served(lab, &mut waiter, &queue);
        assert!(at * 1000 >= first.token + 60_000 - 1000, "early");
        assert_eq!(second.attempt, 2);
        assert!(client
            .try_done(&queue, &first, "")
            .unwrap_err()
            .starts_with("STALE "));
    });
}

#[test]
fn a_lock_that_is_extended_wakes_at_its_new_end_only() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let mut waiter = lab.waiter(&queue, &block_for_an_hour());
        client.extend(&queue, &delivery, 20).unwrap();
        let deadline = client.extend(&queue, &delivery, 120);
        // On a slow machine the waiter may have it by now.
        let deadline = deadline.map_or(0, |reply| reply.int());
        let (second, at) = served(lab, &mut waiter, &queue);
        assert!(at >= deadline, "early");
        assert_eq!(second.attempt, 2);
    });
}

#[test]
fn retry_release_and_the_end_of_a_backoff_wake() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for (verdict, pause, attempt) in [
            ("RETRY", 0, 2),
            ("RELEASE", 0, 1),
            ("RETRY BACKOFF 50", 50, 2),
        ] {
            client.enqueue(&queue, "p", "ID a");
            let delivery = client.take(&queue);
            let mut waiter = lab.waiter(&queue, &block_for_an_hour());
            let before = client.now();
            client.done(&queue, &delivery, verdict);
            let (next, at) = served(lab, &mut waiter, &queue);
            assert!(at >= before + pause, "{verdict}");
            assert_eq!(next.attempt, attempt, "{verdict}");
            client.done(&queue, &next, "");
        }
    });
}

#[test]
fn a_waiting_copy_wakes_at_the_end_of_the_run_and_of_the_window() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        for (verdict, pause) in [("", 0), ("BACKOFF 50", 50), ("ERROR", 0)] {
            let queue = lab.queue();
            client.enqueue(&queue, "old", "ID a");
            let delivery = client.take(&queue);
            client.enqueue(&queue, "new", "ID a REQUEUE");
            let mut waiter = lab.waiter(&queue, &block_for_an_hour());
            let before = client.now();
            client.done(&queue, &delivery, verdict);
            let (next, at) = served(lab, &mut waiter, &queue);
            assert!(at >= before + pause, "{verdict}");
            assert_eq!(
                (next.payload().as_str(), next.attempt),
                ("new", 1),
                "{verdict}"
            );
        }
    });
}

#[test]
fn a_copy_wakes_when_the_last_lock_of_its_message_expires() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a ATTEMPTS 1");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "new", "ID a REQUEUE");
        let mut waiter = lab.waiter(&queue, &block_for_an_hour());
        let deadline = client.extend(&queue, &delivery, 40).unwrap().int();
        let (next, at) = served(lab, &mut waiter, &queue);
        assert!(at >= deadline);
        assert_eq!((next.payload().as_str(), next.attempt), ("new", 1));
    });
}

#[test]
fn an_update_that_ends_the_delay_wakes_and_one_that_prolongs_it_does_not() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", &format!("ID a DELAY {HOUR}"));
        let mut waiter = lab.waiter(&queue, &block_for_an_hour());
        client.enqueue(&queue, "new", &format!("ID a UPDATE DELAY {}", 2 * HOUR));
        assert!(lab.is_blocked(&waiter));
        client.enqueue(&queue, "newer", "ID a UPDATE DELAY 30");
        let due = client
            .get(&queue, "a")
            .map_or(0, |message| message.int("due-at"));
        let (delivery, at) = served(lab, &mut waiter, &queue);
        assert!(at >= due && delivery.payload() == "newer");
        client.done(&queue, &delivery, "");

        client.enqueue(&queue, "old", &format!("ID a DELAY {HOUR}"));
        let mut waiter = lab.waiter(&queue, &block_for_an_hour());
        client.enqueue(&queue, "at once", "ID a UPDATE DELAY 0");
        assert_eq!(waiter.delivery().payload(), "at once");
    });
}

#[test]
fn an_earlier_message_than_the_one_waited_for_wakes_earlier() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", &format!("ID far DELAY {HOUR}"));
        let mut waiter = lab.waiter(&queue, &block_for_an_hour());
        client.enqueue(&queue, "p", "ID near DELAY 50");
        let (delivery, at) = served(lab, &mut waiter, &queue);
        assert_eq!(delivery.id(), "near");
        assert!(at >= delivery.enqueued_at + 50);
    });
}

#[test]
fn a_delay_ten_times_the_lock_is_delivered_once_when_due() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiters: Vec<Client> = (0..4)
            .map(|_| lab.waiter(&queue, &format!("BLOCK {HOUR} LOCK {}", HOUR / 100)))
            .collect();
        client.enqueue(&queue, "p", "ID a LOCK 3600000 DELAY 200");
        let due = client
            .get(&queue, "a")
            .map_or(0, |message| message.int("due-at"));
        let (delivery, at) = served(lab, &mut waiters[0], &queue);
        assert!(at >= due);
        assert_eq!((delivery.id().as_str(), delivery.attempt), ("a", 1));
        for waiter in &waiters[1..] {
            assert!(lab.is_blocked(waiter));
        }
        assert_eq!(client.info(&queue).int("total-delivered"), 1);
    });
}

#[test]
fn many_delays_in_many_queues_each_wake_their_own_waiter() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        let mut waits: Vec<(Client, String, i64)> = (0..20)
            .map(|n| {
                let queue = lab.queue();
                let waiter = lab.waiter(&queue, &block_for_an_hour());
                let delay = 40 + (n * 37) % 100;
                client.enqueue(&queue, "p", &format!("ID {n} DELAY {delay}"));
                (waiter, queue, delay)
            })
            .collect();
        for (n, (waiter, queue, delay)) in waits.iter_mut().enumerate() {
            let (delivery, at) = served(lab, waiter, queue);
            assert_eq!(delivery.id(), n.to_string());
            assert!(at >= delivery.enqueued_at + *delay);
        }
    });
}

#[test]
fn in_any_database_time_wakes() {
    contract_of_waiting(|lab| {
        for db in [5, 15] {
            let queue = lab.queue();
            let mut client = lab.client();
            client.ok(&format!("SELECT {db}"));
            let mut waiter = lab.waiter_in(db, &queue, &block_for_an_hour());
            client.enqueue(&queue, "p", "ID a DELAY 40");
            let delivery = waiter.delivery();
            assert!(client.delivered_at(&queue, &delivery) >= delivery.enqueued_at + 40);
            client.extend(&queue, &delivery, 40).unwrap();
            let mut waiter = lab.waiter_in(db, &queue, &block_for_an_hour());
            assert_eq!(waiter.delivery().attempt, 2);
            // The same name in another database is another queue.
            assert_eq!(lab.client().dequeue(&queue, ""), None);
        }
    });
}

#[test]
fn five_hundred_idle_waiters_leave_the_server_idle_and_are_all_served() {
    contract_of_waiting_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", &format!("ID later DELAY {HOUR}"));
        let mut waiters: Vec<Client> = (0..500)
            .map(|_| {
                let mut waiter = lab.client();
                waiter.send(&common::words(&lab.wait(&queue, "BLOCK 0")));
                waiter
            })
            .collect();
        lab.server.wait_for_blocked(500);
        let cpu = cpu_seconds(lab);
        let start = client.now();
        client.wait_for_time(start + 500);
        let used = cpu_seconds(lab) - cpu;
        // A server that polls for 500 clients would be busy most of the time.
        assert!(used < 0.25, "{used} s of CPU in half a second");

        for n in 0..500 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        let mut got: Vec<String> = waiters.iter_mut().map(|one| one.delivery().id()).collect();
        got.sort();
        let mut expected: Vec<String> = (0..500).map(|n| n.to_string()).collect();
        expected.sort();
        assert_eq!(got, expected);
    });
}

/// What the server's main thread has used so far.
fn cpu_seconds(lab: &Lab<'_>) -> f64 {
    let field = |name| -> f64 {
        let text = lab.server.info("cpu", name).expect("INFO has it");
        text.parse().expect("a number")
    };
    field("used_cpu_user") + field("used_cpu_sys")
}
