//! MQ.PEEK, MQ.SCAN, MQ.REDRIVE and MQ.PURGE: looking at a queue and repairing it.

mod common;

use std::collections::BTreeSet;

use common::{contract, contract_on, ids, Client, Fields, HOUR, STATUSES};
use redis_mq_testkit::{wait_until, ReplyExt, Server, Value, PATIENCE};

/// MQ.PEEK; gives the ids.
#[track_caller]
fn peek(client: &mut Client, queue: &str, options: &str) -> Vec<String> {
    let reply = client.ok(&format!("MQ.PEEK {queue} {options}"));
    let id = |map: &Value| Fields(map.fields()).text("id").expect("each has an id");
    reply.items().iter().map(id).collect()
}

/// MQ.SCAN to the end; gives ids with their statuses.
#[track_caller]
fn scan(client: &mut Client, queue: &str, options: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut cursor = "0".to_string();
    loop {
        let page = client.ok(&format!("MQ.SCAN {queue} {cursor} {options}"));
        let [next, found] = page.items() else {
            panic!("not a page: {page:?}")
        };
        for pair in found.items() {
            all.push((pair.items()[0].text(), pair.items()[1].text()));
        }
        cursor = match next {
            Value::Int(number) => number.to_string(),
            text => text.text(),
        };
        if cursor == "0" {
            return all;
        }
    }
}

#[test]
fn peek_shows_the_next_deliveries_and_takes_none() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(client.ok(&format!("MQ.PEEK {queue}")).is_nil());
        for (id, options) in [
            ("b", ""),
            ("c", "GROUP g"),
            ("d", "GROUP g"),
            ("a", "PRIORITY 1"),
        ] {
            client.enqueue(&queue, "p", &format!("ID {id} {options}"));
        }
        let digest = client.digest(&queue);
        let shown = peek(&mut client, &queue, "COUNT 10");
        assert_eq!(client.digest(&queue), digest);
        let mut delivered = Vec::new();
        while let Some(delivery) = client.dequeue(&queue, "") {
            delivered.push(delivery.id());
            client.done(&queue, &delivery, "");
        }
        assert_eq!(shown, delivered);
        assert_eq!(delivered, ["a", "b", "c", "d"]);
    });
}

#[test]
fn peek_pages_through_each_status_from_both_ends() {
    contract(|lab| {
        for status in ["queued-with-backoff", "locked", "done-with-backoff", "dead"] {
            let (mut client, queue) = (lab.client(), lab.queue());
            for n in 0..25 {
                client.put(&queue, &format!("m{n:02}"), status);
            }
            for rev in ["", "REV"] {
                let mut all = Vec::new();
                let mut after = String::new();
                loop {
                    let options = format!("STATUS {status} COUNT 10 {rev} {after}");
                    let page = peek(&mut client, &queue, &options);
                    let Some(last) = page.last() else { break };
                    after = format!("AFTER {last}");
                    all.extend(page);
                }
                let distinct: BTreeSet<_> = all.iter().collect();
                assert_eq!((all.len(), distinct.len()), (25, 25), "{status} {rev}");
                if status == "dead" {
                    let mut sorted = all.clone();
                    sorted.sort();
                    if !rev.is_empty() {
                        sorted.reverse();
                    }
                    assert_eq!(all, sorted, "by death");
                }
            }
        }
    });
}

#[test]
fn peek_goes_on_only_behind_a_message_of_that_status() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "letter", "dead");
        client.enqueue(&queue, "p", "ID ready");
        for (status, after) in [("dead", "ready"), ("queued", "letter"), ("dead", "nobody")] {
            let line = format!("MQ.PEEK {queue} STATUS {status} AFTER {after}");
            let error = client.line(&line).unwrap_err();
            assert_eq!(error, "ERR no such message to go on after");
        }
        client.enqueue(&queue, "p", "ID grouped GROUP g");
        let line = format!("MQ.PEEK {queue} STATUS queued AFTER ready");
        assert!(client
            .line(&line)
            .unwrap_err()
            .starts_with("ERR syntax error"));
    });
}

#[test]
fn scan_sees_every_message_of_every_status_at_least_once() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(client.ok(&format!("MQ.SCAN {queue} 0")).is_nil());
        let mut expected = BTreeSet::new();
        for n in 0..4 {
            for status in STATUSES {
                let id = format!("{status}-{n}");
                client.put(&queue, &id, status);
                if status == "queued" {
                    // Out of the way of those that are made next.
                    client.enqueue(&queue, "p", &format!("ID {id} UPDATE DELAY {HOUR}"));
                    expected.insert((id, "queued-with-backoff".to_string()));
                } else {
                    expected.insert((id, status.to_string()));
                }
            }
        }
        for count in ["", "COUNT 1", "COUNT 7", "COUNT 10000"] {
            let seen: BTreeSet<_> = scan(&mut client, &queue, count).into_iter().collect();
            assert_eq!(seen, expected, "{count}");
        }
        let dead = scan(&mut client, &queue, "STATUS dead COUNT 5");
        assert_eq!(dead.len(), 4);
        let some = scan(&mut client, &queue, "MATCH locked-*[12]");
        let some: BTreeSet<_> = some.into_iter().map(|(id, _)| id).collect();
        let wanted = [
            "locked-1",
            "locked-2",
            "locked-with-requeue-1",
            "locked-with-requeue-2",
        ];
        assert_eq!(some, wanted.map(String::from).into());
    });
}

#[test]
fn a_cursor_of_before_a_reload_is_refused() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..50 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        let page = client.ok(&format!("MQ.SCAN {queue} 0 COUNT 10"));
        let cursor = match &page.items()[0] {
            Value::Int(number) => number.to_string(),
            text => text.text(),
        };
        assert_ne!(cursor, "0");
        let copied = lab.queue();
        client.ok(&format!("COPY {queue} {copied}"));
        let error = client
            .line(&format!("MQ.SCAN {copied} {cursor}"))
            .unwrap_err();
        assert_eq!(error, "ERR the cursor is not of this queue");
        assert!(client.line(&format!("MQ.SCAN {queue} {cursor}")).is_ok());
    });
}

#[test]
fn scan_sees_what_stays_while_everything_moves() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..300 {
            client.enqueue(&queue, "p", &format!("ID stays-{n}"));
            client.enqueue(&queue, "p", &format!("ID goes-{n} PRIORITY 1"));
        }
        let (mut seen, mut cursor, mut round) = (BTreeSet::new(), "0".to_string(), 0);
        loop {
            let page = client.ok(&format!("MQ.SCAN {queue} {cursor} COUNT 13"));
            let found = page.items()[1].items();
            assert!(found.len() <= 13);
            seen.extend(found.iter().map(|pair| pair.items()[0].text()));
            cursor = page.items()[0].text();
            if cursor == "0" {
                break;
            }
            // Those that go make room where others come; those that stay change their status.
            for _ in 0..6 {
                let goes = client.take(&queue);
                client.done(&queue, &goes, "");
                client.enqueue(&queue, "p", &format!("ID comes-{round} PRIORITY 9"));
                round += 1;
            }
            let stays = format!("ID stays-{} PRIORITY 0 UPDATE", round % 300);
            client.enqueue(&queue, "p", &stays);
            let stays = client.take(&queue);
            client.done(&queue, &stays, ["RETRY BACKOFF 60000", "ERROR"][round % 2]);
        }
        for n in 0..300 {
            assert!(seen.contains(&format!("stays-{n}")), "{n}");
        }
    });
}

#[test]
fn paging_through_letters_that_come_and_go_shows_none_twice_and_misses_none_that_stays() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let die = |client: &mut Client, id: &str| {
            client.enqueue(&queue, "p", &format!("ID {id}"));
            let delivery = client.take(&queue);
            client.done(&queue, &delivery, "ERROR");
        };
        for n in 0..200 {
            die(&mut client, &format!("l{n}"));
        }
        for rev in ["", "REV"] {
            let (mut seen, mut after, mut round) = (Vec::new(), String::new(), 0);
            loop {
                let page = peek(
                    &mut client,
                    &queue,
                    &format!("STATUS dead COUNT 7 {rev} {after}"),
                );
                let Some(last) = page.last() else { break };
                after = format!("AFTER {last}");
                seen.extend(page.iter().filter(|id| id.starts_with('l')).cloned());
                // Letters before and behind the page go, and new ones come.
                for id in [&page[0], &format!("l{}", 3 * round)] {
                    if id != last && id.starts_with('l') && id[1..].parse::<u32>().unwrap() % 3 == 0
                    {
                        client.cancel(&queue, id);
                    }
                }
                if round < 20 {
                    die(&mut client, &format!("new{rev}{round}"));
                }
                round += 1;
            }
            let distinct: BTreeSet<_> = seen.iter().collect();
            assert_eq!(distinct.len(), seen.len(), "{seen:?}");
            for n in (0..200).filter(|n| n % 3 != 0) {
                assert!(distinct.contains(&format!("l{n}")), "{n} {rev}");
            }
        }
    });
}

#[test]
fn what_is_looked_at_is_the_same_after_a_reload_and_on_a_replica() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        for status in STATUSES.iter().rev() {
            for n in 0..3 {
                client.put("q", &format!("{status}-{n}"), status);
            }
        }
        for n in 0..9 {
            client.enqueue("q", "p", &format!("ID g{n} GROUP {}", n % 3));
        }
        let all = |client: &mut Client| {
            let mut pages: Vec<_> = STATUSES
                .iter()
                .map(|status| peek(client, "q", &format!("STATUS {status} COUNT 100")))
                .collect();
            // Their order is that of the schedule, which is dealt anew.
            pages[1..6].iter_mut().for_each(|page| page.sort());
            pages.push(peek(client, "q", "COUNT 100"));
            let mut scanned = scan(client, "q", "COUNT 5");
            scanned.sort();
            (pages, scanned)
        };
        let before = all(&mut client);
        let replica = Server::start();
        replica.replica_of(lab.server);
        replica.wait_for_sync(lab.server);
        assert_eq!(all(&mut Client::connect(&replica, lab.protocol)), before);
        client.ok("COPY q copy");
        client.ok("RENAME copy q");
        assert_eq!(all(&mut client), before);
    });
}

#[test]
fn peek_and_scan_leave_a_queue_that_is_watched_alone() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "queued");
        client.ok(&format!("WATCH {queue}"));
        let mut other = lab.client();
        peek(&mut other, &queue, "");
        scan(&mut other, &queue, "");
        client.ok("MULTI");
        client.ok("PING");
        assert_eq!(client.ok("EXEC").items().len(), 1);
    });
}

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
