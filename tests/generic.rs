//! A queue is a key like any other: the server's own commands work on it.

mod common;

use common::{args, ask, contract, HOUR, STATUSES};
use redis_mq_testkit::{ReplyExt, Value};

/// A queue with a message in every status; one more, `held`, is locked by the delivery given back.
fn full(client: &mut common::Client, queue: &str) -> common::Delivery {
    for status in STATUSES.iter().rev() {
        client.put(queue, status, status);
    }
    client.enqueue(queue, "p", "ID held PRIORITY 0 ATTEMPTS 3");
    client.take(queue)
}

#[test]
fn a_deleted_queue_is_gone_with_all_its_ids() {
    contract(|lab| {
        let mut client = lab.client();
        for delete in ["DEL", "UNLINK"] {
            let queue = lab.queue();
            let held = full(&mut client, &queue);
            assert_eq!(client.ok(&format!("{delete} {queue}")).int(), 1);
            assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
            assert!(client.ok(&format!("MQ.INFO {queue}")).is_nil());
            assert!(client.try_done(&queue, &held, "").unwrap().is_nil());
            for id in STATUSES.into_iter().chain(["held"]) {
                assert_eq!(client.enqueue(&queue, "new", &format!("ID {id}")), "added");
            }
            assert_eq!(client.info(&queue).int("total-enqueued"), 8, "counted anew");
        }
    });
}

#[test]
fn a_cleared_queue_delivers_the_same_id_again() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        // Many times, because a clock of whole milliseconds would only often give a token twice.
        for _ in 0..50 {
            client.enqueue(&queue, "old", "ID a");
            let old = client.take(&queue);
            client.ok(&format!("DEL {queue}"));
            // The verdict of the old holder comes late, before and after the same id is there again.
            assert!(client.try_done(&queue, &old, "").unwrap().is_nil());
            client.enqueue(&queue, "new", "ID a");
            assert!(client
                .try_done(&queue, &old, "")
                .unwrap_err()
                .starts_with("STALE "));
            let new = client.take(&queue);
            assert_eq!((new.payload().as_str(), new.attempt), ("new", 1));
            assert!(new.token > old.token, "a token is not given again");
            assert!(client
                .try_done(&queue, &old, "")
                .unwrap_err()
                .starts_with("STALE "));
            assert_eq!(client.done(&queue, &new, ""), "done");
        }
    });
}

#[test]
fn a_renamed_queue_keeps_everything() {
    contract(|lab| {
        let (mut client, queue, name) = (lab.client(), lab.queue(), lab.queue());
        let held = full(&mut client, &queue);
        let before = client.digest(&queue);
        client.ok(&format!("RENAME {queue} {name}"));
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
        assert_eq!(client.digest(&name), before);
        for status in STATUSES {
            assert_eq!(client.status(&name, status).as_deref(), Some(status));
        }
        assert_eq!(client.done(&name, &held, ""), "done");
    });
}

#[test]
fn a_copy_is_equal_and_independent() {
    contract(|lab| {
        let (mut client, queue, copy) = (lab.client(), lab.queue(), lab.queue());
        let held = full(&mut client, &queue);
        let before = client.digest(&queue);
        assert_eq!(client.ok(&format!("COPY {queue} {copy}")).int(), 1);
        assert_eq!(client.digest(&copy), before);
        assert_eq!(
            client.ok(&format!("COPY {queue} {copy}")).int(),
            0,
            "without REPLACE"
        );

        assert_eq!(client.done(&copy, &held, "RETRY"), "queued");
        client.cancel(&copy, &STATUSES.join(" "));
        assert_eq!(
            client.digest(&queue),
            before,
            "the original does not change"
        );
        assert_eq!(client.done(&queue, &held, ""), "done");
        assert_eq!(client.take(&copy).attempt, 2);
        assert_eq!(client.ok(&format!("COPY {queue} {copy} REPLACE")).int(), 1);
        assert_eq!(client.digest(&copy), client.digest(&queue));
    });
}

#[test]
fn a_dump_restores_everything() {
    contract(|lab| {
        let (mut client, queue, name) = (lab.client(), lab.queue(), lab.queue());
        let held = full(&mut client, &queue);
        let (before, info) = (client.digest(&queue), client.info(&queue));
        let dump = client.ok(&format!("DUMP {queue}"));
        let dump = dump.bytes();
        ask!(client, "RESTORE", name, 0, dump).unwrap();
        assert_eq!(client.digest(&name), before);
        let restored = client.info(&name);
        for (field, value) in info.0 {
            if !field.ends_with("-ms") {
                assert_eq!(restored.field(&field), &value, "{field}");
            }
        }
        let error = ask!(client, "RESTORE", name, 0, dump).unwrap_err();
        assert!(error.starts_with("BUSYKEY "), "{error}");
        client.done(&name, &held, "ERROR");
        ask!(client, "RESTORE", name, 0, dump, "REPLACE").unwrap();
        assert_eq!(client.digest(&name), before);
        assert_eq!(client.done(&name, &held, ""), "done");
    });
}

#[test]
fn a_queue_moves_to_another_database() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let held = full(&mut client, &queue);
        let before = client.digest(&queue);
        assert_eq!(client.ok(&format!("MOVE {queue} 9")).int(), 1);
        assert_eq!(client.get(&queue, "held"), None);
        client.ok("SELECT 9");
        assert_eq!(client.digest(&queue), before);
        assert_eq!(client.done(&queue, &held, ""), "done");
    });
}

#[test]
fn the_same_name_in_two_databases_is_two_queues() {
    contract(|lab| {
        let (mut here, mut there, queue) = (lab.client(), lab.client(), lab.queue());
        there.ok("SELECT 4");
        assert_eq!(here.enqueue(&queue, "here", "ID a"), "added");
        assert_eq!(there.enqueue(&queue, "there", "ID a"), "added");
        assert_eq!(there.take(&queue).payload(), "there");
        assert_eq!(here.take(&queue).payload(), "here");
    });
}

#[test]
fn an_expiry_takes_the_whole_queue_at_its_time_and_no_command_lifts_it() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let held = full(&mut client, &queue);
        client.ok(&format!("PEXPIRE {queue} {HOUR}"));
        client.enqueue(&queue, "p", "ID more");
        client.take(&queue);
        client.done(&queue, &held, "");
        client.cancel(&queue, "more");
        let left = client.ok(&format!("PTTL {queue}")).int();
        assert!(left > 0 && left <= HOUR, "{left}");
        client.ok(&format!("PEXPIRE {queue} 20"));
        // The server counts the instant itself as before the end.
        let end = client.now() + 21;
        client.wait_for_time(end);
        assert_eq!(client.dequeue(&queue, ""), None);
        assert_eq!(client.status(&queue, "held"), None);
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
        assert_eq!(client.enqueue(&queue, "p", "ID held"), "added");
        assert_eq!(client.ok(&format!("PTTL {queue}")).int(), -1, "a new key");
    });
}

#[test]
fn the_server_can_tell_about_the_key() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        full(&mut client, &queue);
        assert_eq!(client.ok(&format!("TYPE {queue}")).text(), "mq-circle");
        assert!(client.ok(&format!("OBJECT ENCODING {queue}")).text().len() > 1);
        assert!(client.ok(&format!("OBJECT IDLETIME {queue}")).int() >= 0);
        assert_eq!(client.ok(&format!("OBJECT REFCOUNT {queue}")).int(), 1);
        assert_eq!(client.ok(&format!("TOUCH {queue}")).int(), 1);
        client.ok(&format!("DEBUG OBJECT {queue}"));
        client.ok("MEMORY DOCTOR");
    });
}

#[test]
fn memory_usage_counts_the_payloads() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "");
        let usage = |client: &mut common::Client| {
            client.ok(&format!("MEMORY USAGE {queue} SAMPLES 0")).int()
        };
        let empty = usage(&mut client);
        for _ in 0..100 {
            client.enqueue(&queue, [b'p'; 10_000], "");
        }
        let full = usage(&mut client) - empty;
        assert!((1_000_000..1_300_000).contains(&full), "{full}");
        let all = client.dequeue_many(&queue, 101, "");
        for delivery in &all {
            client.done(&queue, delivery, "");
        }
        let rest = usage(&mut client);
        assert!(rest < empty + 100_000, "{rest}");
    });
}

#[test]
fn setting_the_key_replaces_the_queue() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let held = full(&mut client, &queue);
        client.ok(&format!("SET {queue} text"));
        let refused = client.try_done(&queue, &held, "").unwrap_err();
        assert!(refused.starts_with("WRONGTYPE "), "{refused}");
        let value = client.ok(&format!("GET {queue}"));
        assert_eq!(value, Value::BulkString(b"text".to_vec()));
    });
}

#[test]
fn flushing_takes_every_queue() {
    common::contract_on(redis_mq_testkit::Server::builder(), |lab| {
        let mut client = lab.client();
        for flush in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC"] {
            full(&mut client, "q");
            client.ok(flush);
            assert_eq!(client.ok("DBSIZE").int(), 0);
            assert_eq!(client.status("q", "held"), None);
            assert_eq!(client.enqueue("q", "p", "ID held"), "added");
            client.ok("FLUSHALL");
        }
    });
}
