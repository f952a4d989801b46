//! MQ.PEEK and MQ.SCAN: looking at the messages of a queue.

mod common;

use std::collections::BTreeSet;

use common::{contract, contract_on, Client, Fields, HOUR, STATUSES};
use redis_mq_testkit::{ReplyExt, Server, Value};

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
