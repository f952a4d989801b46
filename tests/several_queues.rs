//! MQ.MDEQUEUE: one consumer of several queues. What holds of every consumer that waits is shown where
//! that of one queue is shown too (`contract_of_waiting`).

mod common;

use common::{args, ask, contract, contract_on, ids, Client, Delivery, Lab, HOUR};
use redis_mq_testkit::{Persistence, ReplyExt, Server, Value};

/// The deliveries of a reply to a command with COUNT, as queue and id.
#[track_caller]
fn told(reply: &Value) -> Vec<(String, String)> {
    if reply.is_nil() {
        return Vec::new();
    }
    let all = reply.items().iter().map(Delivery::read);
    all.map(|one| (one.queue.clone().expect("a name in front"), one.id()))
        .collect()
}

#[track_caller]
fn assert_told(reply: &Value, expected: &[(&str, &str)]) {
    let told = told(reply);
    let told: Vec<_> = told.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    assert_eq!(told, expected);
}

/// Three names of queues that are not there.
fn queues(lab: &Lab<'_>) -> [String; 3] {
    [lab.queue(), lab.queue(), lab.queue()]
}

#[test]
fn the_first_named_goes_first_and_count_is_for_all_together() {
    contract(|lab| {
        let mut client = lab.client();
        let [a, b, c] = queues(lab);
        for (queue, id) in [(&c, "c1"), (&a, "a1"), (&a, "a2"), (&c, "c2")] {
            client.enqueue(queue, "payload", &format!("ID {id} HEADERS h"));
        }
        let all = format!("3 {a} {b} {c}");
        let reply = client.ok(&format!("MQ.MDEQUEUE {all} COUNT 3 LOCK 7777"));
        assert_told(&reply, &[(&a, "a1"), (&a, "a2"), (&c, "c1")]);
        let one = Delivery::read(&reply.items()[2]);
        assert_eq!(one.payload(), "payload");
        assert_eq!((one.attempt, one.lock_ms), (1, 7777));
        assert_eq!(one.more["headers"], b"h");
        assert_eq!(client.done(&c, &one, ""), "done");
        // Without COUNT it is one delivery; a queue that is not there stays so.
        let one = Delivery::read(&client.ok(&format!("MQ.MDEQUEUE 3 {b} {c} {a}")));
        assert_eq!((one.queue.as_deref(), &*one.id()), (Some(&*c), "c2"));
        for line in [
            format!("MQ.MDEQUEUE {all}"),
            format!("MQ.MDEQUEUE {all} COUNT 5"),
            format!("MQ.MDEQUEUE {all} BLOCK 1"),
            format!("MQ.MDEQUEUE {all} BLOCK 1 COUNT 5"),
        ] {
            assert!(client.ok(&line).is_nil(), "{line}");
        }
        assert_eq!(client.ok(&format!("EXISTS {b}")), Value::Int(0));
        // One that is named twice gives each message once.
        client.enqueue(&a, "p", "ID a3");
        let reply = client.ok(&format!("MQ.MDEQUEUE 2 {a} {a} COUNT 5"));
        assert_told(&reply, &[(&a, "a3")]);
    });
}

#[test]
fn limits_and_pauses_of_each_queue_hold() {
    contract(|lab| {
        let mut client = lab.client();
        let [paused, limited, rated] = queues(lab);
        for queue in [&paused, &limited, &rated] {
            for n in 0..3 {
                client.enqueue(queue, "p", &format!("ID {n}"));
            }
        }
        client.ok(&format!("MQ.PAUSE {paused}"));
        client.ok(&format!("MQ.LIMIT {limited} INFLIGHT 2"));
        client.ok(&format!("MQ.LIMIT {rated} RATE 1 {HOUR}"));
        let take = format!("MQ.MDEQUEUE 3 {paused} {limited} {rated} COUNT 10 LOCK {HOUR}");
        let reply = client.ok(&take);
        assert_told(&reply, &[(&limited, "0"), (&limited, "1"), (&rated, "0")]);
        assert!(client.ok(&take).is_nil());
        // Whoever waits is served when the room is there again.
        let mut waiter = lab.client();
        lab.block(&mut waiter, &format!("{take} BLOCK 0"));
        let first = Delivery::read(&reply.items()[0]);
        assert_eq!(client.done(&limited, &first, ""), "done");
        assert_told(&waiter.reply().unwrap(), &[(&limited, "2")]);
        lab.block(&mut waiter, &format!("{take} BLOCK 0"));
        client.ok(&format!("MQ.RESUME {paused}"));
        let expected = ["0", "1", "2"].map(|id| (&paused[..], id));
        assert_told(&waiter.reply().unwrap(), &expected);
    });
}

#[test]
fn a_key_of_another_type_anywhere_refuses_all() {
    contract(|lab| {
        let mut client = lab.client();
        let [a, text, c] = queues(lab);
        client.enqueue(&a, "p", "ID a");
        client.ok(&format!("SET {text} value"));
        let digest = client.digest(&a);
        for line in [
            format!("MQ.MDEQUEUE 3 {a} {text} {c}"),
            format!("MQ.MDEQUEUE 3 {c} {a} {text} COUNT 1"),
            format!("MQ.MDEQUEUE 2 {c} {text} BLOCK 0"),
        ] {
            let error = client.line(&line).unwrap_err();
            assert!(error.starts_with("WRONGTYPE "), "{line}: {error}");
        }
        assert_eq!(client.digest(&a), digest);
    });
}

#[test]
fn whatever_falls_due_in_any_of_the_queues_wakes() {
    contract(|lab| {
        let mut client = lab.client();
        for (at, waits_first) in [(0, false), (1, true), (2, false), (2, true)] {
            let names = queues(lab);
            let queue = &names[at];
            let wait = format!("MQ.MDEQUEUE 3 {} LOCK {HOUR} BLOCK 0", names.join(" "));
            for how in ["delay", "lock", "backoff"] {
                let mut waiter = lab.client();
                let mut begin = |when: bool| {
                    if when == waits_first {
                        lab.block(&mut waiter, &wait);
                    }
                };
                match how {
                    "delay" => {
                        begin(true);
                        client.enqueue(queue, "p", "ID a DELAY 60");
                        begin(false);
                    }
                    _ => {
                        client.enqueue(queue, "p", "ID a");
                        let held = client.take(queue);
                        begin(true);
                        if how == "lock" {
                            client.extend(queue, &held, 60).unwrap();
                        } else {
                            client.done(queue, &held, "RETRY BACKOFF 60");
                        }
                        begin(false);
                    }
                }
                let delivery = waiter.delivery();
                assert_eq!(delivery.queue.as_ref(), Some(queue), "{how}");
                assert_eq!(client.done(queue, &delivery, ""), "done");
            }
        }
    });
}

#[test]
fn at_each_queue_those_who_came_first_are_served_first() {
    contract(|lab| {
        let mut client = lab.client();
        let [a, b, _] = queues(lab);
        let mut first = lab.waiter(&a, "BLOCK 0");
        let mut both = lab.client();
        lab.block(&mut both, &format!("MQ.MDEQUEUE 2 {a} {b} BLOCK 0"));
        let mut last = lab.waiter(&b, "BLOCK 0");
        // The consumer of both must not take what the first has waited for longer.
        client.ok("MULTI");
        client.ok(&format!("MQ.ENQUEUE {b} p ID b1"));
        client.ok(&format!("MQ.ENQUEUE {a} p ID a1"));
        client.ok("EXEC");
        assert_eq!(first.delivery().id(), "a1");
        let delivery = both.delivery();
        assert_eq!((delivery.queue.as_ref(), &*delivery.id()), (Some(&b), "b1"));
        // It is served once, and waits at none of them any more.
        client.enqueue(&b, "p", "ID b2");
        assert_eq!(last.delivery().id(), "b2");
        assert!(!lab.is_blocked(&both));
        client.enqueue(&a, "p", "ID a2");
        assert_eq!(client.status(&a, "a2").as_deref(), Some("queued"));
    });
}

#[test]
fn whoever_lost_the_right_to_one_of_the_queues_gets_an_error() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        client.ok("ACL SETUSER worker reset on nopass ~a ~b +@all");
        let mut worker = lab.client();
        worker.ok("AUTH worker any");
        for line in ["MQ.MDEQUEUE 2 a c", "MQ.MDEQUEUE 3 a b c BLOCK 0"] {
            let error = worker.line(line).unwrap_err();
            assert!(error.starts_with("NOPERM "), "{line}: {error}");
        }
        assert!(worker.ok("MQ.MDEQUEUE 2 a b").is_nil());
        if !lab.has(7, 0) {
            return; // there a module cannot ask for a user's rights
        }
        lab.block(&mut worker, "MQ.MDEQUEUE 2 a b BLOCK 0");
        let mut next = lab.waiter("a", "BLOCK 0");
        client.ok("ACL SETUSER worker resetkeys ~a");
        client.enqueue("a", "secret", "ID a");
        let error = worker.reply().unwrap_err();
        assert!(error.starts_with("NOPERM "), "{error}");
        assert_eq!(next.delivery().attempt, 1);
    });
}

#[test]
fn while_the_server_refuses_writes_nobody_is_served() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        let mut waiter = lab.client();
        lab.block(&mut waiter, "MQ.MDEQUEUE 2 a b BLOCK 0");
        client.ok("MULTI");
        client.ok("MQ.ENQUEUE b p ID late DELAY 100");
        client.ok("CONFIG SET min-replicas-to-write 1");
        client.ok("EXEC");
        let since = client.now();
        client.wait_for_time(since + 300);
        let refused = client.line("MQ.MDEQUEUE 2 a b").unwrap_err();
        assert!(refused.starts_with("NOREPLICAS "), "{refused}");
        assert!(lab.is_blocked(&waiter));
        client.ok("CONFIG SET min-replicas-to-write 0");
        assert_eq!(waiter.delivery().id(), "late");
    });
}

#[test]
fn in_a_transaction_and_in_a_script_nobody_waits() {
    contract(|lab| {
        let mut client = lab.client();
        let [a, b, _] = queues(lab);
        client.ok("MULTI");
        client.ok(&format!("MQ.MDEQUEUE 2 {a} {b} BLOCK 0"));
        client.ok(&format!("MQ.ENQUEUE {b} p ID b"));
        client.ok(&format!("MQ.MDEQUEUE 2 {a} {b} BLOCK 0 COUNT 2"));
        let replies = client.ok("EXEC");
        assert!(replies.items()[0].is_nil());
        assert_told(&replies.items()[2], &[(&b, "b")]);
        client.enqueue(&a, "p", "ID a");
        let script =
            "return redis.call('MQ.MDEQUEUE', 2, KEYS[1], KEYS[2], 'COUNT', 2, 'BLOCK', 0)";
        let reply = ask!(client, "EVAL", script, 2, a, b).unwrap();
        assert_told(&reply, &[(&a, "a")]);
        assert_eq!(ask!(client, "EVAL", script, 2, a, b), Ok(Value::Nil));
    });
}

#[test]
fn replicas_and_the_file_have_each_delivery() {
    let builder = Server::builder().persistence(Persistence::AofCommands);
    contract_on(builder, |lab| {
        let replica = Server::start();
        replica.replica_of(lab.server);
        let mut client = lab.client();
        for queue in ["a", "b", "c"] {
            for n in 0..3 {
                client.enqueue(queue, "p", &format!("ID {n}"));
            }
        }
        let take = format!("MQ.MDEQUEUE 3 a b c LOCK {HOUR} COUNT");
        let taken = client.ok(&format!("{take} 4"));
        assert_eq!(taken.items().len(), 4);
        client.ok("MULTI");
        client.ok(&format!("{take} 10"));
        client.ok("EXEC");
        let mut waiter = lab.client();
        lab.block(&mut waiter, &format!("{take} 10 BLOCK 0"));
        client.enqueue("b", "p", "ID served");
        assert_told(&waiter.reply().unwrap(), &[("b", "served")]);
        replica.wait_for_sync(lab.server);
        let mut there = Client::connect(&replica, lab.protocol);
        let refused = there.line("MQ.MDEQUEUE 1 a").unwrap_err();
        assert!(refused.starts_with("READONLY"), "{refused}");
        let digests = ["a", "b", "c"].map(|queue| client.digest(queue));
        assert_eq!(["a", "b", "c"].map(|queue| there.digest(queue)), digests);
        client.ok("DEBUG LOADAOF");
        assert_eq!(["a", "b", "c"].map(|queue| client.digest(queue)), digests);
        let first = Delivery::read(&taken.items()[0]);
        assert_eq!(client.done("a", &first, ""), "done");
    });
}

#[test]
fn a_consumer_of_many_queues_waits_at_all_of_them_and_is_counted_once() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        let names: Vec<String> = (0..1000).map(|n| format!("q{n}")).collect();
        let wait = format!("MQ.MDEQUEUE 1000 {} COUNT 5 BLOCK 0", names.join(" "));
        let mut waiter = lab.client();
        for at in [0, 500, 999] {
            lab.block(&mut waiter, &wait);
            let waiting = lab.server.info("mq", "mq_blocked_consumers");
            assert_eq!(waiting.as_deref(), Some("1"));
            client.enqueue(&names[at], "p", "ID a");
            let reply = waiter.reply().unwrap();
            assert_told(&reply, &[(&names[at], "a")]);
            assert_eq!(ids(&[Delivery::read(&reply.items()[0])]), ["a"]);
        }
        let waiting = lab.server.info("mq", "mq_blocked_consumers");
        assert_eq!(waiting.as_deref(), Some("0"));
    });
}
