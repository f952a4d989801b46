//! MQ.REDRIVE and MQ.PURGE: repairing a queue.

mod common;

use common::{contract, contract_on, ids, Client, STATUSES};
use redis_mq_testkit::{wait_until, ReplyExt, Server, PATIENCE};

#[test]
fn letters_are_redriven_by_id_or_oldest_first_with_their_options() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let redrive = |client: &mut Client, what: &str| {
            client.ok(&format!("MQ.REDRIVE {queue} {what}")).int()
        };
        for n in 0..5 {
            let options = format!("ID d{n} ATTEMPTS 1 PRIORITY 2 LOCK 7777 HEADERS h GROUP g");
            client.enqueue(&queue, "p", &options);
            let delivery = client.take(&queue);
            assert_eq!(client.done(&queue, &delivery, "RETRY"), "dead");
        }
        assert_eq!(redrive(&mut client, "d3 nobody"), 1);
        assert_eq!(redrive(&mut client, "COUNT 2"), 2);
        let info = client.info(&queue);
        assert_eq!((info.int("dead"), info.int("queued")), (2, 3));
        assert_eq!(info.int("total-redriven"), 3);
        let mut order = Vec::new();
        while let Some(delivery) = client.dequeue(&queue, "") {
            assert_eq!((delivery.attempt, delivery.lock_ms), (1, 7777));
            assert_eq!(delivery.more["headers"], b"h");
            order.push(delivery.id());
            client.done(&queue, &delivery, "");
        }
        assert_eq!(order, ["d3", "d0", "d1"]);
    });
}

#[test]
fn a_letter_whose_id_lives_stays_and_so_does_what_passes_the_length() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "dead");
        client.put(&queue, "b", "dead");
        client.enqueue(&queue, "p", "ID a");
        client.ok(&format!("MQ.LIMIT {queue} LENGTH 1"));
        assert_eq!(client.ok(&format!("MQ.REDRIVE {queue} a b")).int(), 0);
        client.ok(&format!("MQ.LIMIT {queue} LENGTH 2"));
        assert_eq!(client.ok(&format!("MQ.REDRIVE {queue} a b")).int(), 1);
        assert_eq!(client.info(&queue).int("dead"), 1);
    });
}

#[test]
fn a_redriven_letter_wakes_who_waits_and_its_old_verdict_is_stale() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 1 TTL 3600000 LOCK 30");
        let lost = client.take(&queue);
        wait_until(PATIENCE, || {
            client.status(&queue, "a").as_deref() == Some("dead")
        });
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        assert_eq!(client.ok(&format!("MQ.REDRIVE {queue} a")).int(), 1);
        let delivery = waiter.delivery();
        assert_eq!((delivery.id().as_str(), delivery.attempt), ("a", 1));
        let message = client.message(&queue, "a");
        assert_eq!(message.int("expires-at"), 0, "it has waited its time");
        assert_eq!(message.text("reason"), None);
        let error = client.try_done(&queue, &lost, "").unwrap_err();
        assert!(error.starts_with("STALE"), "{error}");
        // The one attempt is used again, and none before it.
        assert_eq!(client.done(&queue, &delivery, "RETRY"), "dead");
    });
}

#[test]
fn redriving_is_an_event_a_count_and_the_same_on_a_replica() {
    contract_on(Server::builder(), |lab| {
        let replica = Server::start();
        replica.replica_of(lab.server);
        let mut client = lab.client();
        client.ok("CONFIG SET notify-keyspace-events Ed");
        let mut listener = lab.client();
        listener.ok("PSUBSCRIBE __keyevent@0__:mq.redrive");
        for n in 0..5 {
            client.put("q", &format!("d{n}"), "dead");
        }
        let before = lab.server.info("mq", "mq_total_redriven").unwrap();
        assert_eq!(client.ok("MQ.REDRIVE q COUNT 3").int(), 3);
        let after = lab.server.info("mq", "mq_total_redriven").unwrap();
        assert_eq!(
            after.parse::<u64>().unwrap() - before.parse::<u64>().unwrap(),
            3
        );
        assert!(listener.reply().is_ok(), "one event for all of them");
        replica.wait_for_sync(lab.server);
        let mut there = Client::connect(&replica, lab.protocol);
        assert_eq!(there.digest("q"), client.digest("q"));
        assert_eq!(there.info("q").int("total-redriven"), 3);
        assert!(there
            .line("MQ.REDRIVE q COUNT 1")
            .unwrap_err()
            .starts_with("READONLY"));
        client.ok("COPY q copy");
        assert_eq!(client.info("copy").int("total-redriven"), 3);
        assert_eq!(client.digest("copy"), client.digest("q"));
    });
}

#[test]
fn letters_that_are_redriven_while_others_die_are_not_lost() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..100 {
            client.enqueue(&queue, "p", &format!("ID {n} ATTEMPTS 1"));
        }
        let mut done = 0;
        for round in 0.. {
            let failing = round < 10;
            for delivery in client.dequeue_many(&queue, 30, "") {
                let verdict = if failing { "RETRY" } else { "" };
                done += u32::from(client.done(&queue, &delivery, verdict) == "done");
            }
            client.ok(&format!("MQ.REDRIVE {queue} COUNT 17"));
            if client.info(&queue).int("messages") == 0 {
                break;
            }
            assert!(round < 100, "something is stuck");
        }
        assert_eq!(done, 100);
    });
}

#[test]
fn purge_takes_a_status_or_all_but_what_is_locked() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let purge =
            |client: &mut Client, what: &str| client.ok(&format!("MQ.PURGE {queue} {what}")).int();
        assert_eq!(purge(&mut client, "ALL"), 0, "no queue");
        for status in STATUSES {
            for n in 0..3 {
                client.put(&queue, &format!("{status}{n}"), status);
                if status == "queued" {
                    client.cancel(&queue, &format!("{status}{n}"));
                }
            }
        }
        assert_eq!(purge(&mut client, "dead COUNT 2"), 2);
        assert_eq!(purge(&mut client, "dead"), 1);
        assert_eq!(purge(&mut client, "dead"), 0);
        let all = purge(&mut client, "ALL");
        assert_eq!(all, 9, "delayed and finished ones");
        assert_eq!(client.info(&queue).int("messages"), 6);
        assert_eq!(purge(&mut client, "locked"), 3);
        assert_eq!(purge(&mut client, "locked-with-requeue"), 3);
        assert_eq!(client.info(&queue).int("messages"), 0);
    });
}

#[test]
fn purge_takes_the_letter_or_the_message_of_an_id_and_leaves_the_other() {
    contract_on(Server::builder(), |lab| {
        let replica = Server::start();
        replica.replica_of(lab.server);
        let mut client = lab.client();
        client.ok("CONFIG SET notify-keyspace-events Ed");
        let mut listener = lab.client();
        listener.ok("PSUBSCRIBE __keyevent@0__:mq.cancel");
        for id in ["a", "b"] {
            client.put("q", id, "dead");
        }
        for id in ["a", "b"] {
            client.enqueue("q", "again", &format!("ID {id}"));
        }
        assert_eq!(client.ok("MQ.PURGE q dead COUNT 1").int(), 1);
        assert!(listener.reply().is_ok());
        assert_eq!(client.status("q", "a").as_deref(), Some("queued"));
        assert_eq!(client.ok("MQ.PURGE q queued").int(), 2);
        assert!(listener.reply().is_ok());
        assert_eq!(client.status("q", "a"), None);
        assert_eq!(client.status("q", "b").as_deref(), Some("dead"));
        let info = client.info("q");
        assert_eq!((info.int("messages"), info.int("dead")), (1, 1));
        replica.wait_for_sync(lab.server);
        let mut there = Client::connect(&replica, lab.protocol);
        assert_eq!(there.digest("q"), client.digest("q"));
        assert!(there
            .line("MQ.PURGE q ALL")
            .unwrap_err()
            .starts_with("READONLY"));
    });
}

#[test]
fn purging_what_holds_a_group_lets_the_group_go_on() {
    contract(|lab| {
        for (verdict, status) in [
            ("", "locked"),
            ("RETRY BACKOFF 60000", "queued-with-backoff"),
        ] {
            let (mut client, queue) = (lab.client(), lab.queue());
            client.enqueue(&queue, "p", "ID holder GROUP g");
            client.enqueue(&queue, "p", "ID next GROUP g");
            let holder = client.take(&queue);
            if !verdict.is_empty() {
                client.done(&queue, &holder, verdict);
            }
            let mut waiter = lab.waiter(&queue, "BLOCK 0");
            assert_eq!(client.ok(&format!("MQ.PURGE {queue} {status}")).int(), 1);
            assert_eq!(waiter.delivery().id(), "next");
            assert_eq!(client.info(&queue).int("held"), 0);
        }
    });
}

#[test]
fn a_queue_is_emptied_in_steps_of_which_each_tells_how_many() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..250 {
            let group = ["", "GROUP a", "GROUP b", "DELAY 3600000"][n % 4];
            client.enqueue(&queue, "p", &format!("ID m{n} PRIORITY {} {group}", n % 3));
        }
        let held = client.take(&queue);
        let mut steps = Vec::new();
        loop {
            let removed = client.ok(&format!("MQ.PURGE {queue} ALL COUNT 100")).int();
            if removed == 0 {
                break;
            }
            steps.push(removed);
        }
        assert_eq!(steps, [100, 100, 49]);
        assert_eq!(client.done(&queue, &held, ""), "done");
        let info = client.info(&queue);
        assert_eq!((info.int("messages"), info.int("groups")), (0, 0));
        assert_eq!(
            client.ok(&format!("EXISTS {queue}")).int(),
            1,
            "the queue stays"
        );
    });
}

#[test]
fn letters_are_repaired_and_removed_at_maxmemory() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        for n in 0..4 {
            client.put("q", &format!("d{n}"), "dead");
        }
        client.ok("CONFIG SET maxmemory-policy noeviction");
        client.ok("CONFIG SET maxmemory 1");
        let error = client.line("MQ.ENQUEUE q p").unwrap_err();
        assert!(error.starts_with("OOM"), "{error}");
        assert_eq!(client.ok("MQ.REDRIVE q COUNT 2").int(), 2);
        assert_eq!(client.ok("MQ.PURGE q dead").int(), 2);
        assert_eq!(client.ok("MQ.PURGE q ALL").int(), 2);
        client.ok("CONFIG SET maxmemory 0");
    });
}

#[test]
fn a_retry_keeps_its_reason_until_the_message_is_dead() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 2");
        let first = client.take(&queue);
        assert_eq!(client.done(&queue, &first, "RETRY REASON first"), "queued");
        let reason = client.message(&queue, "a").text("reason");
        assert_eq!(reason.as_deref(), Some("first"));
        let second = client.take(&queue);
        assert_eq!(client.done(&queue, &second, "RETRY REASON second"), "dead");
        let reason = client.message(&queue, "a").text("reason");
        assert_eq!(reason.as_deref(), Some("no attempts left: second"));
        assert_eq!(ids(&client.dequeue_many(&queue, 5, "")), [""; 0]);
    });
}
