//! Many waiters: who is served first, who goes on waiting and until when, and where nobody waits.

mod common;

use std::time::Duration;

use common::{args, ask, contract_of_waiting, ids, Client, HOUR};
use redis_mq_testkit::{ReplyExt, Value};

#[test]
fn first_come_first_served() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiters: Vec<Client> = (0..5).map(|_| lab.waiter(&queue, "BLOCK 0")).collect();
        for n in 0..5 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        for (n, waiter) in waiters.iter_mut().enumerate() {
            assert_eq!(waiter.delivery().id(), n.to_string());
        }
    });
}

/// The server takes the commands of one write in one turn of its event loop.
#[test]
fn who_asks_in_the_breath_of_an_enqueue_gets_in_line() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut late = lab.client();
        for n in 0..10 {
            let mut first = lab.waiter(&queue, "BLOCK 0");
            let wait = lab.wait(&queue, "BLOCK 0");
            let both = format!("MQ.ENQUEUE {queue} p ID a{n}\r\n{wait}\r\n");
            late.send_bytes(both.as_bytes());
            assert_eq!(first.delivery().id(), format!("a{n}"));
            late.reply().unwrap();
            client.enqueue(&queue, "p", &format!("ID b{n}"));
            assert_eq!(late.delivery().id(), format!("b{n}"));
        }
    });
}

#[test]
fn messages_that_become_ready_together_go_to_the_waiters_in_order() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiters: Vec<Client> = (0..3).map(|_| lab.waiter(&queue, "BLOCK 0")).collect();
        let mut last = lab.waiter(&queue, "BLOCK 0 COUNT 10");
        client.ok("MULTI");
        for n in 0..6 {
            client.ok(&format!("MQ.ENQUEUE {queue} p ID {n}"));
        }
        client.ok("EXEC");
        for (n, waiter) in waiters.iter_mut().enumerate() {
            assert_eq!(waiter.delivery().id(), n.to_string());
        }
        let rest = last.reply().unwrap();
        let rest: Vec<_> = rest.items().iter().map(common::Delivery::read).collect();
        assert_eq!(ids(&rest), ["3", "4", "5"]);
    });
}

#[test]
fn a_waiter_that_was_woken_and_not_served_keeps_its_place() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut first = lab.waiter(&queue, "BLOCK 0");
        let mut second = lab.waiter(&queue, "BLOCK 0");
        let mut third = lab.waiter(&queue, "BLOCK 0");
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(first.delivery().id(), "a");
        // All were woken. Who comes again comes last.
        lab.block(&mut first, &lab.wait(&queue, "BLOCK 0"));
        for (waiter, id) in [(&mut second, "b"), (&mut third, "c"), (&mut first, "d")] {
            client.enqueue(&queue, "p", &format!("ID {id}"));
            assert_eq!(waiter.delivery().id(), id);
        }
    });
}

#[test]
fn two_consumers_wait_and_one_message_goes_to_one_of_them() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut first = lab.waiter(&queue, "BLOCK 0");
        let before = client.now();
        let mut second = lab.waiter(&queue, "BLOCK 100");
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(first.delivery().id(), "a");
        second.null();
        assert!(client.now() >= before + 100, "not before its own deadline");
        let info = client.info(&queue);
        assert_eq!((info.int("locked"), info.int("total-delivered")), (1, 1));
    });
}

#[test]
fn the_end_of_the_wait_is_null_and_never_early() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        for block in [1, 2, 10, 50] {
            let before = client.now();
            let reply = client.ok(&lab.wait(&queue, &format!("BLOCK {block}")));
            assert!(reply.is_nil());
            assert!(client.now() >= before + block, "BLOCK {block}");
        }
    });
}

#[test]
fn being_woken_for_nothing_does_not_move_the_deadline() {
    contract_of_waiting(|lab| {
        let (mut client, queue, other_queue) = (lab.client(), lab.queue(), lab.queue());
        let mut before_it: Vec<Client> = (0..5).map(|_| lab.waiter(&queue, "BLOCK 0")).collect();
        let start = client.now();
        let mut waiter = lab.waiter(&queue, "BLOCK 1000");
        // Ends a little later than the waiter, and much earlier than it would if a wake began its wait
        // anew.
        let mut witness = lab.waiter(&other_queue, "BLOCK 1010");
        for (n, served) in (1..).zip(&mut before_it) {
            client.wait_for_time(start + 150 * n);
            client.enqueue(&queue, "p", &format!("ID {n}"));
            assert_eq!(served.delivery().id(), n.to_string());
        }
        witness.null();
        assert!(
            waiter.has_reply_within(Duration::from_millis(500)),
            "its deadline was moved"
        );
        waiter.null();
        assert!(client.now() >= start + 1000, "early");
    });
}

#[test]
fn a_waiter_served_from_a_priority_gets_the_first_of_it() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        client.ok("MULTI");
        for id in ["9", "5", "0"] {
            client.ok(&format!("MQ.ENQUEUE {queue} p ID {id} PRIORITY {id}"));
        }
        client.ok("EXEC");
        assert_eq!(waiter.delivery().id(), "0");
    });
}

#[test]
fn a_waiter_can_go_on_with_its_connection() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        // What it sends meanwhile waits behind the reply.
        waiter.send(&["PING"]);
        waiter.send(&["ECHO", "again"]);
        client.enqueue(&queue, "p", "ID a");
        let delivery = waiter.delivery();
        assert_eq!(waiter.reply().unwrap().text(), "PONG");
        assert_eq!(waiter.reply().unwrap().text(), "again");
        assert_eq!(waiter.done(&queue, &delivery, ""), "done");
    });
}

#[test]
fn in_a_transaction_nobody_waits() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok("MULTI");
        client.ok(&lab.wait(&queue, "BLOCK 0"));
        client.ok(&lab.wait(&queue, "BLOCK 0 COUNT 3"));
        client.ok(&format!("MQ.ENQUEUE {queue} p ID a"));
        client.ok(&lab.wait(&queue, "BLOCK 0"));
        client.ok(&lab.wait(&queue, "BLOCK 0"));
        let replies = client.ok("EXEC");
        let replies = replies.items();
        assert_eq!(replies.len(), 5);
        assert!(replies[0].is_nil() && replies[1].is_nil() && replies[4].is_nil());
        assert_eq!(common::Delivery::read(&replies[3]).id(), "a");
        assert_eq!(client.ok("PING").text(), "PONG", "the connection goes on");
    });
}

#[test]
fn in_a_script_nobody_waits() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let script = "local d = redis.call('MQ.DEQUEUE', KEYS[1], 'BLOCK', 0); \
                      if d then return d[1] else return 'nothing' end";
        let reply = ask!(client, "EVAL", script, 1, queue);
        assert_eq!(reply.unwrap().text(), "nothing");
        client.enqueue(&queue, "p", "ID a");
        let reply = ask!(client, "EVAL", script, 1, queue);
        assert_eq!(reply.unwrap().text(), "a");
        let plain = "return redis.call('MQ.DEQUEUE', KEYS[1], 'BLOCK', 0, 'COUNT', 2)";
        assert_eq!(ask!(client, "EVAL", plain, 1, queue), Ok(Value::Nil));
        assert!(!lab.is_blocked(&client));
    });
}

#[test]
fn in_a_function_nobody_waits() {
    contract_of_waiting(|lab| {
        if !lab.has(7, 0) {
            return;
        }
        let (mut client, queue) = (lab.client(), lab.queue());
        let library = "#!lua name=waiting\n\
            redis.register_function('take', function(keys, args) \
            return redis.call('MQ.DEQUEUE', keys[1], 'BLOCK', 0) end)";
        ask!(client, "FUNCTION", "LOAD", "REPLACE", library).unwrap();
        assert_eq!(ask!(client, "FCALL", "take", 1, queue), Ok(Value::Nil));
        client.enqueue(&queue, "p", "ID a");
        let reply = ask!(client, "FCALL", "take", 1, queue).unwrap();
        assert_eq!(reply.items()[0].text(), "a");
    });
}

#[test]
fn what_a_script_or_a_transaction_enqueues_wakes() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        let script = "redis.call('MQ.ENQUEUE', KEYS[1], 'p', 'ID', 'a'); \
                      return redis.call('MQ.STATUS', KEYS[1], 'a')";
        let reply = ask!(client, "EVAL", script, 1, queue).unwrap();
        assert_eq!(reply.text(), "queued", "served after the script");
        assert_eq!(waiter.delivery().id(), "a");

        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        client.ok("MULTI");
        client.ok(&format!("MQ.ENQUEUE {queue} p ID b"));
        client.ok(&format!("MQ.CANCEL {queue} b"));
        client.ok("EXEC");
        assert!(
            lab.is_blocked(&waiter),
            "what the transaction took back is not served"
        );
        client.enqueue(&queue, "p", "ID c");
        assert_eq!(waiter.delivery().id(), "c");
    });
}

#[test]
fn a_poller_that_does_not_wait_may_take_what_a_waiter_waits_for() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut waiter = lab.waiter(&queue, &format!("BLOCK {HOUR}"));
        client.ok("MULTI");
        client.ok(&format!("MQ.ENQUEUE {queue} p ID a"));
        client.ok(&format!("MQ.DEQUEUE {queue}"));
        let replies = client.ok("EXEC");
        assert_eq!(common::Delivery::read(&replies.items()[1]).id(), "a");
        assert!(lab.is_blocked(&waiter));
        client.enqueue(&queue, "p", "ID b");
        assert_eq!(waiter.delivery().id(), "b");
    });
}
