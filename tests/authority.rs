//! What a command would be refused does not happen by itself either: to time, and to consumers that
//! were waiting already.

mod common;

use std::fs;
use std::time::Duration;

use common::{contract_on, Client, Delivery, Protocol};
use redis_mq_testkit::{wait_until, ReplyExt, Server, Value, PATIENCE};

/// Too few replicas: there are none.
const REFUSE: &str = "CONFIG SET min-replicas-to-write 1";
const ALLOW: &str = "CONFIG SET min-replicas-to-write 0";

/// Runs the lines with no time for anything in between.
fn at_once<const N: usize>(client: &mut Client, lines: [&str; N]) -> Vec<Value> {
    client.ok("MULTI");
    for line in lines {
        client.ok(line);
    }
    client.ok("EXEC").items().to_vec()
}

#[test]
fn without_enough_replicas_no_lock_ends_and_nothing_dies() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        client.enqueue("q", "p", "ID last ATTEMPTS 1");
        client.enqueue("q", "p", "ID more");
        let dequeue = "MQ.DEQUEUE q LOCK 300";
        let replies = at_once(&mut client, [dequeue, dequeue, REFUSE]);
        let (last, more) = (Delivery::read(&replies[0]), Delivery::read(&replies[1]));
        let since = client.now();
        for refused in [
            client.extend("q", &last, 5000),
            client.try_done("q", &more, ""),
        ] {
            assert!(refused.unwrap_err().starts_with("NOREPLICAS "));
        }
        client.wait_for_time(since + 1000);
        // Who holds the messages can do nothing about it, so they are as they were.
        for id in ["last", "more"] {
            assert_eq!(client.status("q", id).as_deref(), Some("locked"), "{id}");
        }
        let info = client.info("q");
        assert_eq!((info.int("locked"), info.int("dead")), (2, 0));
        assert_eq!(info.int("total-expired-locks"), 0);
        client.ok(ALLOW);
        assert_eq!(client.done("q", &last, ""), "done");
        assert_eq!(client.done("q", &more, ""), "done");
    });
}

#[test]
fn a_waiter_gets_its_message_when_there_are_enough_replicas_again() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        let mut waiter = lab.waiter("q", "BLOCK 0");
        at_once(&mut client, ["MQ.ENQUEUE q p ID late DELAY 200", REFUSE]);
        let since = client.now();
        client.wait_for_time(since + 700);
        assert!(!waiter.has_reply_within(Duration::from_millis(1)));
        let refused = client.line("MQ.DEQUEUE q").unwrap_err();
        assert!(refused.starts_with("NOREPLICAS "), "{refused}");
        client.ok(ALLOW);
        let delivery = waiter.delivery();
        assert_eq!(delivery.id(), "late");
        assert_eq!(client.done("q", &delivery, ""), "done");
    });
}

#[test]
fn a_waiter_that_may_not_be_served_keeps_its_deadline() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        let mut waiter = lab.waiter("q", "BLOCK 1000");
        at_once(&mut client, ["MQ.ENQUEUE q p DELAY 100", REFUSE]);
        waiter.null();
        client.ok(ALLOW);
        assert_eq!(client.take("q").attempt, 1);
    });
}

#[test]
fn while_the_server_cannot_save_nobody_is_served_and_nothing_dies() {
    const REFUSE: &str = "CONFIG SET stop-writes-on-bgsave-error yes";
    const ALLOW: &str = "CONFIG SET stop-writes-on-bgsave-error no";

    let file = "cannot-be-written";
    let builder = Server::builder()
        .config("save", "3600 1")
        .config("dbfilename", file);
    contract_on(builder, |lab| {
        let mut client = lab.client();
        client.ok(ALLOW);
        let path = lab.server.dir().join(file);
        let _ = fs::remove_file(&path); // FLUSHALL has written it
        fs::create_dir(&path).unwrap(); // no snapshot can take the place of a folder
        client.ok("BGSAVE");
        wait_until(PATIENCE, || {
            let status = lab.server.info("persistence", "rdb_last_bgsave_status");
            status.as_deref() == Some("err")
        });
        let mut waiter = lab.waiter("q", "BLOCK 0");
        client.enqueue("held", "p", "ID held ATTEMPTS 1");
        let replies = at_once(
            &mut client,
            [
                "MQ.DEQUEUE held LOCK 200",
                "MQ.ENQUEUE q p ID late DELAY 200",
                REFUSE,
            ],
        );
        let held = Delivery::read(&replies[0]);
        let since = client.now();
        client.wait_for_time(since + 700);
        let refused = client.line("MQ.DEQUEUE q").unwrap_err();
        assert!(refused.starts_with("MISCONF "), "{refused}");
        assert!(!waiter.has_reply_within(Duration::from_millis(1)));
        assert_eq!(client.status("held", "held").as_deref(), Some("locked"));
        client.ok(ALLOW);
        assert_eq!(waiter.delivery().id(), "late");
        assert_eq!(client.done("held", &held, ""), "done");
        fs::remove_dir(&path).unwrap();
    });
}

#[test]
fn while_the_cluster_is_down_nothing_dies() {
    let server = Server::builder().config("cluster-enabled", "yes").start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut client = Client::connect(&server, protocol);
        let is = |client: &mut Client, state: &str| {
            let info = client.ok("CLUSTER INFO").text();
            info.contains(&format!("cluster_state:{state}"))
        };
        if protocol == Protocol::Resp2 {
            let all: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
            client.ok(&format!("CLUSTER ADDSLOTS {}", all.join(" ")));
        }
        wait_until(PATIENCE, || is(&mut client, "ok"));
        let other = client.ok("CLUSTER KEYSLOT other").int();
        client.enqueue("q", "p", "ID a ATTEMPTS 1");
        let held = client.dequeue("q", "LOCK 2000").unwrap();
        let deadline = client.message("q", "a").int("due-at");
        client.ok(&format!("CLUSTER DELSLOTS {other}"));
        wait_until(PATIENCE, || is(&mut client, "fail"));
        if client.now() >= deadline {
            continue; // the machine stood still
        }
        client.wait_for_time(deadline + 300);
        let refused = client.extend("q", &held, 1000).unwrap_err();
        assert!(refused.starts_with("CLUSTERDOWN "), "{refused}");
        assert_eq!(server.info("mq", "mq_messages_dead").as_deref(), Some("0"));
        client.ok(&format!("CLUSTER ADDSLOTS {other}"));
        wait_until(PATIENCE, || is(&mut client, "ok"));
        assert_eq!(client.done("q", &held, ""), "done");
    }
}

#[test]
fn who_lost_the_right_while_waiting_gets_an_error_and_the_next_one_the_message() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return; // there a module cannot ask for a user's rights
        }
        for taken in ["-mq.dequeue", "resetkeys", "resetkeys %W~q"] {
            let mut client = lab.client();
            client.ok("ACL SETUSER worker reset on nopass ~q +@all");
            let mut former = lab.client();
            former.ok("AUTH worker any");
            lab.block(&mut former, "MQ.DEQUEUE q BLOCK 0");
            let mut next = lab.waiter("q", "BLOCK 0");
            client.ok(&format!("ACL SETUSER worker {taken}"));
            client.enqueue("q", "secret", "ID a ATTEMPTS 1");
            let error = former.reply().unwrap_err();
            assert!(error.starts_with("NOPERM "), "{taken}: {error}");
            let delivery = next.delivery();
            assert_eq!((delivery.id(), delivery.attempt), ("a".to_string(), 1));
            assert_eq!(client.done("q", &delivery, ""), "done");
            // The connection goes on.
            let refused = former.line("MQ.DEQUEUE q").unwrap_err();
            assert!(refused.starts_with("NOPERM "), "{refused}");
        }
    });
}

#[test]
fn a_waiter_whose_rights_changed_and_still_suffice_is_served() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        client.ok("ACL SETUSER worker reset on nopass ~* +@all");
        let mut waiter = lab.client();
        waiter.ok("AUTH worker any");
        lab.block(&mut waiter, "MQ.DEQUEUE q BLOCK 0");
        client.ok("ACL SETUSER worker reset on nopass ~q +mq.dequeue");
        client.enqueue("q", "p", "ID a");
        assert_eq!(waiter.delivery().id(), "a");
    });
}

#[test]
fn waiters_that_get_nothing_leave_no_trace_in_the_statistics() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        let waiters: Vec<_> = (0..20).map(|_| lab.waiter("q", "BLOCK 0")).collect();
        client.ok("CONFIG RESETSTAT");
        client.enqueue("q", "p", "");
        wait_until(PATIENCE, || {
            let waiting = lab.server.info("clients", "blocked_clients");
            waiting.as_deref() == Some("19")
        });
        for field in ["keyspace_hits", "keyspace_misses"] {
            let counted = lab.server.info("stats", field).unwrap();
            // The server itself may count each key that it looks up for them, not each of them.
            assert!(counted.parse::<u32>().unwrap() <= 2, "{field} {counted}");
        }
        drop(waiters);
    });
}
