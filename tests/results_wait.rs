//! MQ.RESULT … BLOCK: whoever waits for the end of a message gets one true reply, whatever happens, and
//! nothing is left of the wait.

mod common;

use std::time::Duration;

use common::{contract, contract_on, Client, Lab, HOUR};
use redis_mq_testkit::{wait_until, ReplyExt, Server, Value, PATIENCE};

/// A new client that waits for the end of `id`.
#[track_caller]
fn waiter(lab: &Lab<'_>, queue: &str, id: &str, ms: i64) -> Client {
    let mut client = lab.client();
    lab.block(&mut client, &format!("MQ.RESULT {queue} {id} BLOCK {ms}"));
    client
}

/// The word and the value of a reply.
#[track_caller]
fn told(reply: &Value) -> (String, Option<String>) {
    let [word, value, _] = reply.items() else {
        panic!("{reply:?}");
    };
    let value = (!value.is_nil()).then(|| value.text());
    (word.text(), value)
}

/// What the client that waited was told; none for null.
#[track_caller]
fn answer(client: &mut Client) -> Option<(String, Option<String>)> {
    let reply = client.reply().unwrap_or_else(|error| panic!("{error}"));
    let answer = (!reply.is_nil()).then(|| told(&reply));
    assert_eq!(client.ok("PING").text(), "PONG", "one reply");
    answer
}

fn done(value: &str) -> Option<(String, Option<String>)> {
    Some(("done".into(), Some(value.into())))
}

fn dead(reason: &str) -> Option<(String, Option<String>)> {
    Some(("dead".into(), Some(reason.into())))
}

/// The client waits on.
#[track_caller]
fn waits_on(lab: &Lab<'_>, client: &mut Client) {
    assert!(!client.has_reply_within(Duration::from_millis(1)));
    assert!(lab.is_blocked(client));
}

/// Nobody waits any more.
#[track_caller]
fn nothing_is_left(server: &Server) {
    let none = |section, field| server.info(section, field).as_deref() == Some("0");
    wait_until(PATIENCE, || {
        none("clients", "blocked_clients") && none("mq", "mq_result_waiters")
    });
}

#[test]
fn a_success_is_told_before_at_and_after_it() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let mut early = waiter(lab, &queue, "a", 0);
        let delivery = client.take(&queue);
        let mut late = waiter(lab, &queue, "a", HOUR);
        waits_on(lab, &mut early);
        client.done(&queue, &delivery, "RESULT 42");
        assert_eq!(answer(&mut early), done("42"));
        assert_eq!(answer(&mut late), done("42"));
        let reply = client.ok(&format!("MQ.RESULT {queue} a BLOCK 0"));
        assert_eq!(Some(told(&reply)), done("42"), "it is there already");
        let reply = client.ok(&format!("MQ.RESULT {queue} b BLOCK 0"));
        assert!(reply.is_nil(), "nobody knows it");
    });
}

#[test]
fn each_end_of_a_message_is_told_as_what_it_was() {
    contract(|lab| {
        for (options, verdict, expected) in [
            ("", "", None),
            ("RETAIN 3600000", "", done("")),
            ("", "RESULT r RETAIN 0", None),
            ("", "RESULT r BACKOFF 3600000", done("r")),
            ("", "BACKOFF 3600000", Some(("done".into(), None))),
            ("", "ERROR REASON why", dead("why")),
            ("ATTEMPTS 1", "RETRY", dead("no attempts left")),
        ] {
            let (mut client, queue) = (lab.client(), lab.queue());
            // A letter of an older run must not be taken for the end of this one.
            client.put(&queue, "a", "dead");
            client.enqueue(&queue, "p", &format!("ID a {options}"));
            let mut waiter = waiter(lab, &queue, "a", 0);
            let delivery = client.take(&queue);
            client.done(&queue, &delivery, verdict);
            assert_eq!(answer(&mut waiter), expected, "{options}, {verdict}");
        }
    });
}

#[test]
fn cancel_and_purge_are_null_at_once() {
    contract(|lab| {
        for (status, command) in [
            ("queued", "MQ.CANCEL {} a"),
            ("locked", "MQ.CANCEL {} a"),
            ("queued", "MQ.PURGE {} ALL"),
            ("locked", "MQ.PURGE {} locked"),
        ] {
            let (mut client, queue) = (lab.client(), lab.queue());
            client.put(&queue, "a", status);
            let mut waiter = waiter(lab, &queue, "a", 0);
            client.ok(&command.replace("{}", &queue));
            assert_eq!(answer(&mut waiter), None, "{status}, {command}");
        }
    });
}

#[test]
fn time_alone_ends_the_wait_too() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID goes TTL 300");
        client.enqueue(&queue, "p", "ID buried TTL 300 BURY");
        let mut goes = waiter(lab, &queue, "goes", 0);
        let mut buried = waiter(lab, &queue, "buried", 0);
        client.enqueue(&queue, "p", "ID dies ATTEMPTS 1 PRIORITY 0");
        let mut dies = waiter(lab, &queue, "dies", 0);
        client.dequeue(&queue, "LOCK 100").unwrap();
        let died = dead("the lock of the last attempt expired");
        assert_eq!(answer(&mut dies), died);
        assert_eq!(answer(&mut goes), None);
        assert_eq!(answer(&mut buried), dead("expired"));
    });
}

#[test]
fn what_goes_on_is_waited_for() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let mut waiter = waiter(lab, &queue, "a", 0);
        for verdict in ["RETRY", "RELEASE", "RETRY BACKOFF 1"] {
            client.wait_until_due(&queue, "a");
            let delivery = client.take(&queue);
            client.done(&queue, &delivery, verdict);
            waits_on(lab, &mut waiter);
        }
        client.enqueue(&queue, "p", "ID a UPDATE");
        client.wait_until_due(&queue, "a");
        let delivery = client.take(&queue);
        // A copy takes its place: it is the one that is waited for now.
        client.enqueue(&queue, "p", "ID a REQUEUE");
        assert_eq!(client.done(&queue, &delivery, "RESULT first"), "queued");
        waits_on(lab, &mut waiter);
        let delivery = client.take(&queue);
        client.enqueue(&queue, "p", "ID a REQUEUE");
        client.done(&queue, &delivery, "ERROR");
        waits_on(lab, &mut waiter);
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "RESULT last");
        assert_eq!(answer(&mut waiter), done("last"));
    });
}

#[test]
fn a_redriven_message_is_waited_for() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "dead");
        let reply = client.ok(&format!("MQ.RESULT {queue} a BLOCK 0"));
        assert_eq!(Some(told(&reply)), dead("why"));
        client.ok(&format!("MQ.REDRIVE {queue} a"));
        let mut waiter = waiter(lab, &queue, "a", 0);
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "RESULT r");
        assert_eq!(answer(&mut waiter), done("r"));
    });
}

#[test]
fn an_end_wakes_those_of_its_id_and_nobody_else() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        for id in ["a", "b", "\u{fc}"] {
            client.enqueue("q", "p", &format!("ID {id}"));
            client.enqueue("other", "p", &format!("ID {id}"));
        }
        let mut of_a: Vec<_> = (0..3).map(|_| waiter(lab, "q", "a", 0)).collect();
        let mut of_b = waiter(lab, "q", "b", 0);
        let mut elsewhere = waiter(lab, "other", "a", 0);
        let waiting = |n: &str| {
            let count = lab.server.info("mq", "mq_result_waiters");
            assert_eq!(count.as_deref(), Some(n));
        };
        waiting("5");
        let delivery = client.take("q");
        client.done("q", &delivery, "RESULT r");
        for waiter in &mut of_a {
            assert_eq!(answer(waiter), done("r"));
        }
        waits_on(lab, &mut of_b);
        waits_on(lab, &mut elsewhere);
        waiting("2");
        client.ok("MULTI");
        client.ok("MQ.CANCEL q b");
        client.ok("EXEC");
        assert_eq!(answer(&mut of_b), None);
        waits_on(lab, &mut elsewhere);
        client.ok("DEL other");
        drop(elsewhere);
        nothing_is_left(lab.server);
    });
}

#[test]
fn many_ends_in_one_step_wake_all_of_theirs() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!("MQ.MENQUEUE {queue} 3 p p p IDS a b c"));
        let mut waiters: Vec<_> = ["a", "b", "c"]
            .map(|id| waiter(lab, &queue, id, 0))
            .into_iter()
            .collect();
        let all = client.dequeue_many(&queue, 3, "");
        let pairs: Vec<_> = all
            .iter()
            .map(|one| format!("{} {}", one.id(), one.token))
            .collect();
        client.ok(&format!("MQ.MDONE {queue} 3 {} RESULT r", pairs.join(" ")));
        for waiter in &mut waiters {
            assert_eq!(answer(waiter), done("r"));
        }
    });
}

#[test]
fn if_the_queue_leaves_its_place_all_are_told_to_ask_again() {
    contract_on(Server::builder(), |lab| {
        for commands in [
            &["DEL q"][..],
            &["UNLINK q"],
            &["RENAME q elsewhere"],
            &["RENAME other q"],
            &["MOVE q 5"],
            &["FLUSHDB"],
            &["FLUSHALL"],
            &["FLUSHALL ASYNC"],
            &["SWAPDB 0 1"],
            &["SWAPDB 1 0"],
            &["COPY other q REPLACE"],
            &["SET q text"],
            &["PEXPIRE q 1"],
            &["SUNIONSTORE q set"],
            &["DEBUG RELOAD"],
            &["MULTI", "DEL q", "MQ.ENQUEUE q p ID a", "EXEC"],
            &["restore"],
        ] {
            let mut client = lab.client();
            client.ok("FLUSHALL");
            client.put("q", "a", "queued");
            client.put("other", "a", "queued");
            client.ok("SADD set member");
            let mut waiters: Vec<_> = ["a", "a"]
                .map(|id| waiter(lab, "q", id, 0))
                .into_iter()
                .collect();
            for line in commands {
                if *line == "restore" {
                    let dump = client.ok("DUMP other");
                    let words: [&[u8]; 5] = [b"RESTORE", b"q", b"0", dump.bytes(), b"REPLACE"];
                    client.call(&words).unwrap();
                } else {
                    client.ok(line);
                }
            }
            for waiter in &mut waiters {
                let error = waiter.reply().unwrap_err();
                assert!(error.starts_with("UNBLOCKED "), "{commands:?}: {error}");
                assert_eq!(waiter.ok("PING").text(), "PONG");
            }
            drop(waiters);
            nothing_is_left(lab.server);
        }
    });
}

#[test]
fn a_copy_of_the_queue_and_changes_of_others_wake_nobody() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "locked");
        let mut waiter = waiter(lab, &queue, "a", 0);
        client.ok(&format!("COPY {queue} {queue}:copy"));
        client.cancel(&format!("{queue}:copy"), "a");
        client.ok(&format!("DEL {queue}:copy"));
        client.ok(&format!("PERSIST {queue}"));
        client.enqueue(&queue, "p", "ID b");
        client.cancel(&queue, "b");
        waits_on(lab, &mut waiter);
        client.cancel(&queue, "a");
        assert_eq!(answer(&mut waiter), None);
    });
}

#[test]
fn at_the_deadline_it_is_told_what_holds_then() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "locked");
        let reply = client.ok(&format!("MQ.RESULT {queue} a BLOCK 30"));
        assert_eq!(told(&reply), ("locked".into(), None));
        assert_eq!(reply.items()[2].int(), 0);
        for wrong in ["-1", "x", "315360000001"] {
            let error = client
                .line(&format!("MQ.RESULT {queue} a BLOCK {wrong}"))
                .unwrap_err();
            assert_eq!(error, "ERR BLOCK must be an integer from 0 to 315360000000");
        }
    });
}

#[test]
fn an_operator_can_end_the_wait_and_the_connection() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        client.put("q", "a", "locked");
        let mut unblocked = waiter(lab, "q", "a", 0);
        client.ok(&format!("CLIENT UNBLOCK {}", unblocked.id));
        assert_eq!(answer(&mut unblocked), Some(("locked".into(), None)));
        let mut failed = waiter(lab, "q", "a", 0);
        client.ok(&format!("CLIENT UNBLOCK {} ERROR", failed.id));
        let error = failed.reply().unwrap_err();
        assert!(error.starts_with("UNBLOCKED "), "{error}");
        assert_eq!(failed.ok("PING").text(), "PONG");
        let killed = waiter(lab, "q", "a", 0);
        client.ok(&format!("CLIENT KILL ID {}", killed.id));
        drop(waiter(lab, "q", "a", 0));
        nothing_is_left(lab.server);
        // The id can be waited for and ended as if nothing had been.
        let mut waiter = waiter(lab, "q", "a", 0);
        client.cancel("q", "a");
        assert_eq!(answer(&mut waiter), None);
    });
}

#[test]
fn an_end_and_a_deadline_or_a_kill_in_one_breath_leave_one_reply_each() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        for round in 0..30 {
            client.put("q", "a", "queued");
            let mut unblocked = waiter(lab, "q", "a", 0);
            let killed = waiter(lab, "q", "a", 0);
            let mut timed = waiter(lab, "q", "a", 1 + round % 5);
            let mut lines = [
                format!("CLIENT KILL ID {}", killed.id),
                format!("CLIENT UNBLOCK {}", unblocked.id),
                "MQ.CANCEL q a".to_string(),
            ];
            let end_first = round % 2 == 0;
            if end_first {
                lines.swap(1, 2);
            }
            client.ok("MULTI");
            for line in &lines {
                client.ok(line);
            }
            client.ok("EXEC");
            let at_its_deadline = Some(("queued".into(), None));
            let expected = at_its_deadline.clone().filter(|_| !end_first);
            assert_eq!(answer(&mut unblocked), expected);
            let answer = answer(&mut timed);
            assert!(answer.is_none() || answer == at_its_deadline, "{answer:?}");
        }
        nothing_is_left(lab.server);
    });
}

#[test]
fn whoever_is_let_go_in_the_breath_of_its_answer_gets_one_reply() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        for (end, how) in [
            ("MQ.CANCEL q a", "TIMEOUT"),
            ("MQ.CANCEL q a", "ERROR"),
            ("DEL q", "TIMEOUT"),
            ("DEL q", "ERROR"),
        ] {
            client.put("q", "a", "queued");
            let mut waiter = waiter(lab, "q", "a", 0);
            let gone = self::waiter(lab, "q", "a", 0);
            client.ok("MULTI");
            client.ok(end);
            client.ok(&format!("CLIENT UNBLOCK {} {how}", waiter.id));
            client.ok(&format!("CLIENT KILL ID {}", gone.id));
            client.ok("EXEC");
            if (end, how) == ("MQ.CANCEL q a", "TIMEOUT") {
                assert_eq!(answer(&mut waiter), None);
            } else {
                let error = waiter.reply().unwrap_err();
                assert!(error.starts_with("UNBLOCKED "), "{end}, {how}: {error}");
                assert_eq!(waiter.ok("PING").text(), "PONG", "one reply");
            }
            drop(waiter);
            nothing_is_left(lab.server);
        }
    });
}

#[test]
fn in_transactions_and_scripts_nobody_waits() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "locked");
        client.ok("MULTI");
        client.ok(&format!("MQ.RESULT {queue} a BLOCK 0"));
        let replies = client.ok("EXEC");
        let locked = ("locked".to_string(), None);
        assert_eq!(told(&replies.items()[0]), locked);
        let script = "return redis.call('MQ.RESULT', KEYS[1], 'a', 'BLOCK', 0)";
        let reply = client.call(&["EVAL", script, "1", &queue]).unwrap();
        assert_eq!(reply.items()[0].text(), "locked");
    });
}

#[test]
fn a_replica_does_not_wait_and_a_primary_that_becomes_one_lets_go() {
    let (server, other) = (Server::start(), Server::start());
    let lab = Lab::new(&server, common::Protocol::Resp3);
    let mut client = lab.client();
    client.put("q", "a", "locked");
    other.replica_of_port(server.port());
    other.wait_for_sync(&server);
    let mut reader = Client::connect(&other, lab.protocol);
    let reply = reader.ok("MQ.RESULT q a BLOCK 0");
    assert_eq!(told(&reply), ("locked".into(), None));
    let mut waiter = waiter(&lab, "q", "a", 0);
    reader.ok("REPLICAOF NO ONE");
    server.replica_of_port(other.port());
    let error = waiter.reply().unwrap_err();
    assert!(error.starts_with("UNBLOCKED "), "{error}");
    nothing_is_left(&server);
    // The new primary ends it, and tells who asks there.
    reader.cancel("q", "a");
    assert!(reader.ok("MQ.RESULT q a BLOCK 0").is_nil());
}

#[test]
fn whoever_loses_the_right_while_waiting_is_told_nothing() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return;
        }
        for taken in ["-mq.result", "resetkeys"] {
            let mut client = lab.client();
            client.ok("FLUSHALL");
            client.put("q", "a", "queued");
            client.ok("ACL SETUSER someone reset on nopass ~q +mq.result +ping +client");
            for ms in [0, 100] {
                client.ok("ACL SETUSER someone ~q +mq.result");
                let mut waiter = lab.client();
                waiter.ok("AUTH someone any");
                lab.block(&mut waiter, &format!("MQ.RESULT q a BLOCK {ms}"));
                if waiter.has_reply_within(Duration::from_millis(1)) {
                    continue; // the machine stood still
                }
                client.ok(&format!("ACL SETUSER someone {taken}"));
                if ms == 0 {
                    let delivery = client.take("q");
                    client.done("q", &delivery, "RESULT secret");
                    client.put("q", "a", "queued");
                }
                let error = waiter.reply().unwrap_err();
                assert!(error.starts_with("NOPERM "), "{taken}: {error}");
            }
        }
    });
}

#[test]
fn a_slot_that_is_given_away_ends_the_wait() {
    let server = Server::builder().config("cluster-enabled", "yes").start();
    let lab = Lab::new(&server, common::Protocol::Resp2);
    let mut client = lab.client();
    let all: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
    client.ok(&format!("CLUSTER ADDSLOTS {}", all.join(" ")));
    wait_until(PATIENCE, || {
        client
            .ok("CLUSTER INFO")
            .text()
            .contains("cluster_state:ok")
    });
    client.ok("CONFIG SET cluster-require-full-coverage no");
    client.put("q", "a", "locked");
    client.put("other", "a", "locked");
    let mut waiter_of_q = waiter(&lab, "q", "a", 0);
    let mut other = waiter(&lab, "other", "a", 0);
    let slot = client.ok("CLUSTER KEYSLOT q").int();
    client.ok(&format!("CLUSTER DELSLOTS {slot}"));
    let error = waiter_of_q.reply().unwrap_err();
    assert!(error.starts_with("UNBLOCKED "), "{error}");
    waits_on(&lab, &mut other);
}
