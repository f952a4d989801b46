//! What happens to waiters when keys are renamed, copied, moved, swapped, deleted or overwritten
//! under them.

mod common;

use common::{args, ask, contract_of_waiting, contract_of_waiting_on, Client, Lab, HOUR};
use redis_mq_testkit::{ReplyExt, Server, Value};

const WAIT: &str = "BLOCK 0 LOCK 3600000";

/// A queue with a ready message `a`.
fn filled(lab: &Lab<'_>, client: &mut Client) -> String {
    let queue = lab.queue();
    client.enqueue(&queue, "p", "ID a");
    queue
}

/// The waiter is still there: a message now goes to it.
#[track_caller]
fn still_waits(lab: &Lab<'_>, waiter: &mut Client, queue: &str) {
    assert!(lab.is_blocked(waiter));
    lab.client().enqueue(queue, "p", "ID next");
    assert_eq!(waiter.delivery().id(), "next");
}

#[test]
fn a_rename_into_place_wakes() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        for rename in ["RENAME", "RENAMENX"] {
            let (source, queue) = (filled(lab, &mut client), lab.queue());
            let mut waiter = lab.waiter(&queue, WAIT);
            client.ok(&format!("{rename} {source} {queue}"));
            let delivery = waiter.delivery();
            assert_eq!(delivery.id(), "a");
            assert_eq!(client.done(&queue, &delivery, ""), "done");
        }
    });
}

#[test]
fn a_rename_over_an_empty_queue_wakes() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        let (source, queue) = (filled(lab, &mut client), lab.queue());
        client.put(&queue, "held", "locked");
        let mut waiter = lab.waiter(&queue, WAIT);
        client.ok(&format!("RENAME {source} {queue}"));
        assert_eq!(waiter.delivery().id(), "a");
        assert_eq!(client.status(&queue, "held"), None);
    });
}

#[test]
fn a_restore_wakes() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        let (source, queue) = (filled(lab, &mut client), lab.queue());
        let dump = client.ok(&format!("DUMP {source}"));
        let mut waiter = lab.waiter(&queue, WAIT);
        ask!(client, "RESTORE", queue, 0, dump.bytes()).unwrap();
        assert_eq!(waiter.delivery().id(), "a");
        assert_eq!(
            client.status(&source, "a").as_deref(),
            Some("queued"),
            "the source stays"
        );
    });
}

#[test]
fn a_copy_wakes() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        let (source, queue) = (filled(lab, &mut client), lab.queue());
        let mut waiter = lab.waiter(&queue, WAIT);
        client.ok(&format!("COPY {source} {queue}"));
        assert_eq!(waiter.delivery().id(), "a");
        assert_eq!(
            client.status(&source, "a").as_deref(),
            Some("queued"),
            "the source stays"
        );

        let source = filled(lab, &mut client);
        let mut waiter = lab.waiter_in(5, &source, WAIT);
        client.ok(&format!("COPY {source} {source} DB 5"));
        assert_eq!(waiter.delivery().id(), "a");
    });
}

#[test]
fn a_move_to_another_database_wakes() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        let queue = filled(lab, &mut client);
        let mut waiter = lab.waiter_in(5, &queue, WAIT);
        client.ok(&format!("MOVE {queue} 5"));
        assert_eq!(waiter.delivery().id(), "a");
    });
}

#[test]
fn a_swap_of_databases_wakes() {
    contract_of_waiting_on(Server::builder(), |lab| {
        let mut client = lab.client();
        let queue = filled(lab, &mut client);
        let mut waiter = lab.waiter_in(5, &queue, WAIT);
        client.ok("SWAPDB 0 5");
        assert_eq!(waiter.delivery().id(), "a");
    });
}

#[test]
fn a_message_that_comes_due_after_it_was_put_in_place_wakes() {
    contract_of_waiting_on(Server::builder(), |lab| {
        let mut client = lab.client();
        for how in ["rename", "copy", "restore", "move", "swap"] {
            let (source, queue) = (lab.queue(), lab.queue());
            // Nobody waits for the source, so nothing but the new place can make it prompt. The
            // longer delay is there in any case when the key changes its place.
            client.put(&source, "held", "queued");
            let held = client.take(&source);
            client.done(&source, &held, "RETRY BACKOFF 400");
            let mut due = client.message(&source, "held").int("due-at");
            client.enqueue(&source, "p", "ID a DELAY 150");
            due = due.min(client.message(&source, "a").int("due-at"));
            let (db, queue) = match how {
                "move" | "swap" => (5, source.clone()),
                _ => (0, queue),
            };
            let mut waiter = lab.waiter_in(db, &queue, WAIT);
            match how {
                "rename" => drop(client.ok(&format!("RENAME {source} {queue}"))),
                "copy" => drop(client.ok(&format!("COPY {source} {queue}"))),
                "restore" => {
                    let dump = client.ok(&format!("DUMP {source}"));
                    ask!(client, "RESTORE", queue, 0, dump.bytes()).unwrap();
                }
                "move" => drop(client.ok(&format!("MOVE {source} 5"))),
                _ => drop(client.ok("SWAPDB 0 5")),
            }
            let first = waiter.delivery();
            let mut there = lab.client();
            there.ok(&format!("SELECT {}", if how == "move" { 5 } else { 0 }));
            if how == "swap" {
                // The waiter stays in its database, which now holds what the other one held.
                there.ok("SELECT 5");
            }
            assert!(there.delivered_at(&queue, &first) >= due, "{how}: early");
            let mut second = lab.waiter_in(db, &queue, WAIT);
            let mut both = [first.id(), second.delivery().id()];
            both.sort();
            assert_eq!(both, ["a", "held"], "{how}");
            client.ok("FLUSHALL");
        }
    });
}

#[test]
fn waiters_in_both_databases_survive_a_swap() {
    contract_of_waiting_on(Server::builder(), |lab| {
        let queue = lab.queue();
        let mut here = lab.waiter_in(0, &queue, WAIT);
        let mut there = lab.waiter_in(5, &queue, WAIT);
        lab.client().ok("SWAPDB 0 5");
        still_waits(lab, &mut here, &queue);
        let mut client = lab.client();
        client.ok("SELECT 5");
        client.enqueue(&queue, "p", "ID there");
        assert_eq!(there.delivery().id(), "there");
    });
}

#[test]
fn deleting_the_queue_leaves_its_waiters_waiting() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        for delete in ["DEL", "UNLINK", "PEXPIRE"] {
            let queue = lab.queue();
            client.put(&queue, "held", "locked");
            let mut waiter = lab.waiter(&queue, WAIT);
            let at_once = if delete == "PEXPIRE" { "-1" } else { "" };
            client.ok(&format!("{delete} {queue} {at_once}"));
            still_waits(lab, &mut waiter, &queue);
        }
    });
}

#[test]
fn a_queue_that_is_deleted_while_a_message_comes_due_serves_nobody() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a DELAY 30");
        let due = client
            .get(&queue, "a")
            .map_or(0, |message| message.int("due-at"));
        let mut waiter = lab.waiter(&queue, WAIT);
        // On a slow machine the waiter may have it before the queue goes.
        client.ok("MULTI");
        client.ok(&format!("MQ.INFO {queue}"));
        client.ok(&format!("DEL {queue}"));
        let replies = client.ok("EXEC");
        let was_served = replies.items()[0].fields()["total-delivered"].int() == 1;
        client.wait_for_time(due + 30);
        if was_served {
            waiter.delivery();
        } else {
            still_waits(lab, &mut waiter, &queue);
        }
    });
}

#[test]
fn a_queue_that_expires_before_its_message_is_due_serves_nobody() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", &format!("ID a DELAY {HOUR}"));
        let mut waiter = lab.waiter(&queue, WAIT);
        // In one go: the message is due long after the end of its queue.
        client.ok("MULTI");
        client.ok(&format!("MQ.ENQUEUE {queue} p ID a UPDATE DELAY 60"));
        client.ok(&format!("PEXPIRE {queue} 10"));
        client.ok("EXEC");
        let now = client.now();
        client.wait_for_time(now + 80);
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
        still_waits(lab, &mut waiter, &queue);
    });
}

#[test]
fn flushing_leaves_the_waiters_waiting() {
    contract_of_waiting_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for flush in ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC", "FLUSHDB ASYNC"] {
            client.put(&queue, "held", "locked");
            client.enqueue(&queue, "p", &format!("ID later DELAY {HOUR}"));
            let mut waiter = lab.waiter(&queue, WAIT);
            client.ok(flush);
            still_waits(lab, &mut waiter, &queue);
            client.ok("FLUSHALL");

            // Time still wakes after the index of queues was emptied.
            let mut waiter = lab.waiter(&queue, WAIT);
            client.enqueue(&queue, "p", "ID timed DELAY 20");
            assert_eq!(waiter.delivery().id(), "timed", "{flush}");
            client.ok("FLUSHALL");
        }
    });
}

#[test]
fn a_value_of_another_type_leaves_the_waiters_waiting() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for other in ["SET {} text", "RPUSH {} element", "SADD {} member"] {
            let mut waiter = lab.waiter(&queue, WAIT);
            client.ok(&other.replace("{}", &queue));
            assert!(lab.is_blocked(&waiter), "{other}");
            let refused = lab.client().line(&lab.wait(&queue, "BLOCK 0"));
            assert!(refused.unwrap_err().starts_with("WRONGTYPE "));
            client.ok(&format!("DEL {queue}"));
            still_waits(lab, &mut waiter, &queue);
            client.ok(&format!("DEL {queue}"));
        }
    });
}

#[test]
fn set_over_a_queue_and_back_leaves_nothing_of_it() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        client.enqueue(&queue, "p", "ID soon DELAY 20");
        let mut waiter = lab.waiter(&queue, &format!("BLOCK {HOUR}"));
        client.ok(&format!("SET {queue} text"));
        let now = client.now();
        client.wait_for_time(now + 30);
        let answer = client.ok(&format!("GET {queue}"));
        assert_eq!(answer, Value::BulkString(b"text".to_vec()));
        client.ok(&format!("DEL {queue}"));
        if lab.is_blocked(&waiter) {
            still_waits(lab, &mut waiter, &queue);
        } else {
            assert_eq!(waiter.delivery().id(), "soon", "served before the SET");
        }
        assert_eq!(client.get(&queue, "held"), None);
    });
}
