//! Transactions, scripts, functions and client-side caches.

mod common;

use common::{args, ask, contract, Client, Delivery, Lab, Protocol, HOUR};
use redis_mq_testkit::{ReplyExt, Value};
use std::time::Duration;

#[test]
fn a_transaction_runs_as_one() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok("MULTI");
        for line in [
            "MQ.ENQUEUE Q p ID a",
            "MQ.ENQUEUE Q p ID a",
            "MQ.STATUS Q a",
            "MQ.DEQUEUE Q",
            "MQ.DEQUEUE Q EOQ 5",
            "MQ.GET Q a",
            "MQ.INFO Q",
            "MQ.DONE Q a 5",
            "MQ.CANCEL Q a b",
        ] {
            let line = line.replace(" Q", &format!(" {queue}"));
            assert_eq!(client.ok(&line).text(), "QUEUED");
        }
        assert_eq!(
            lab.client().status(&queue, "a"),
            None,
            "nothing happens before EXEC"
        );
        let replies = client.ok("EXEC");
        let replies = replies.items();
        assert_eq!(replies[0].items()[0].text(), "added");
        assert_eq!(replies[1].items()[0].text(), "queued");
        assert_eq!(replies[2].text(), "queued");
        assert_eq!(Delivery::read(&replies[3]).id(), "a");
        assert_eq!(replies[4].int(), 5);
        assert_eq!(replies[5].fields()["status"].text(), "locked");
        assert_eq!(replies[6].fields()["locked"].int(), 1);
        match &replies[7] {
            Value::ServerError(error) => assert_eq!(error.code(), "STALE"),
            other => panic!("{other:?}"),
        }
        assert_eq!(replies[8].int(), 1);
    });
}

#[test]
fn a_discarded_transaction_leaves_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok("MULTI");
        client.ok(&format!("MQ.ENQUEUE {queue} p"));
        client.ok("DISCARD");
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
    });
}

/// Whether a transaction that watches the queue still runs after `act`.
fn watched(lab: &Lab<'_>, queue: &str, act: impl FnOnce(&mut Client)) -> bool {
    let mut client = lab.client();
    client.ok(&format!("WATCH {queue}"));
    act(&mut lab.client());
    client.ok("MULTI");
    client.ok("PING");
    !client.ok("EXEC").is_nil()
}

#[test]
fn what_changes_a_queue_breaks_a_watch() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "base", "locked");
        let q = queue.as_str();
        let mut held = None;
        assert!(
            !watched(lab, q, |other| drop(other.enqueue(q, "p", "ID a"))),
            "added"
        );
        assert!(
            !watched(lab, q, |other| drop(other.enqueue(q, "p", "ID a UPDATE"))),
            "updated"
        );
        assert!(
            !watched(lab, q, |other| held = Some(other.take(q))),
            "delivered"
        );
        let held = held.unwrap();
        assert!(!watched(lab, q, |other| drop(other.enqueue(
            q,
            "p",
            "ID a REQUEUE"
        ))));
        assert!(
            !watched(lab, q, |other| drop(other.extend(q, &held, HOUR))),
            "extended"
        );
        assert!(
            !watched(lab, q, |other| drop(other.done(q, &held, ""))),
            "done"
        );
        assert!(
            !watched(lab, q, |other| assert_eq!(other.cancel(q, "a"), 1)),
            "cancelled"
        );
        let mut waiter = lab.client();
        waiter.send(&common::words(&format!("MQ.DEQUEUE {q} BLOCK 0")));
        assert!(!watched(lab, q, |other| {
            other.enqueue(q, "p", "ID b");
            waiter.delivery();
        }));
        let none = lab.queue();
        let other_queue = none.as_str();
        assert!(!watched(lab, other_queue, |other| drop(other.enqueue(
            other_queue,
            "p",
            ""
        ))));
    });
}

#[test]
fn what_changes_nothing_does_not_break_a_watch() {
    contract(|lab| {
        let (mut client, queue, missing) = (lab.client(), lab.queue(), lab.queue());
        client.put(&queue, "base", "locked");
        for (queue, is_there) in [(queue.as_str(), true), (missing.as_str(), false)] {
            for line in [
                "MQ.DEQUEUE Q",
                "MQ.DEQUEUE Q COUNT 5",
                "MQ.DEQUEUE Q BLOCK 1",
                "MQ.DEQUEUE Q EOQ",
                "MQ.STATUS Q base",
                "MQ.GET Q base",
                "MQ.INFO Q",
                "MQ.CANCEL Q none",
                "MQ.DONE Q none 5",
                "MQ.EXTEND Q none 5 5",
                "MQ.ENQUEUE Q p ID base PRIORITY 10",
            ] {
                let line = line.replace(" Q", &format!(" {queue}"));
                assert!(
                    watched(lab, queue, |other| drop(other.line(&line))),
                    "{line}"
                );
            }
            if is_there {
                for line in [
                    "MQ.ENQUEUE Q p ID base",
                    "MQ.DONE Q base 5",
                    "MQ.EXTEND Q base 5 5",
                ] {
                    let line = line.replace(" Q", &format!(" {queue}"));
                    assert!(
                        watched(lab, queue, |other| drop(other.line(&line))),
                        "{line}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_script_uses_every_command() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let script = "
            local q = KEYS[1]
            local added = redis.call('MQ.ENQUEUE', q, 'p', 'ID', 'a')
            local got = redis.call('MQ.DEQUEUE', q)
            local token = string.format('%.0f', got[4])
            redis.call('MQ.EXTEND', q, 'a', token, 5000)
            local stale = redis.pcall('MQ.DONE', q, 'a', 5)
            local status = redis.call('MQ.STATUS', q, 'a')
            local became = redis.call('MQ.DONE', q, 'a', token, 'RETRY')
            local map = redis.call('MQ.GET', q, 'a')
            local none = redis.call('MQ.GET', q, 'none')
            local cancelled = redis.call('MQ.CANCEL', q, 'a')
            return {added[1], got[1], got[3], stale.err, status, became, map[1], tostring(none), cancelled}";
        let reply = ask!(client, "EVAL", script, 1, queue).unwrap();
        let got = reply.items();
        assert_eq!(got[0].text(), "added");
        assert_eq!((got[1].text().as_str(), got[2].int()), ("a", 1));
        assert!(got[3].text().contains("STALE "), "{got:?}");
        assert_eq!(
            (got[4].text().as_str(), got[5].text().as_str()),
            ("locked", "queued")
        );
        assert_eq!(
            (got[6].text().as_str(), got[7].text().as_str()),
            ("id", "false")
        );
        assert_eq!(got[8].int(), 1);
    });
}

#[test]
fn a_token_is_exact_in_a_script() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        // Numbers in Lua are doubles: a token is below 2^53 for the next two centuries.
        let script = "return string.format('%.0f', redis.call('MQ.DEQUEUE', KEYS[1])[4])";
        let token = ask!(client, "EVAL", script, 1, queue).unwrap().text();
        let reply = ask!(client, "MQ.DONE", queue, "a", token).unwrap();
        assert_eq!(reply.text(), "done");
    });
}

#[test]
fn a_script_that_only_reads_may_look_and_not_change() {
    contract(|lab| {
        if !lab.has(7, 0) {
            return;
        }
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "queued");
        let look = "return redis.call('MQ.STATUS', KEYS[1], 'a')";
        assert_eq!(
            ask!(client, "EVAL_RO", look, 1, queue).unwrap().text(),
            "queued"
        );
        for change in ["'MQ.ENQUEUE', KEYS[1], 'p'", "'MQ.DEQUEUE', KEYS[1]"] {
            let script = format!("return redis.call({change})");
            ask!(client, "EVAL_RO", script, 1, queue).unwrap_err();
        }
        assert_eq!(client.info(&queue).int("total-delivered"), 0);
    });
}

#[test]
fn a_script_sees_maps_in_the_third_protocol() {
    contract(|lab| {
        // Before 7.0 modules cannot reply with a map.
        if !lab.has(7, 0) {
            return;
        }
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "queued");
        let script = "redis.setresp(3); \
                      return redis.call('MQ.GET', KEYS[1], 'a').map.status";
        assert_eq!(
            ask!(client, "EVAL", script, 1, queue).unwrap().text(),
            "queued"
        );
    });
}

#[test]
fn a_function_uses_the_commands() {
    contract(|lab| {
        if !lab.has(7, 0) {
            return;
        }
        let (mut client, queue) = (lab.client(), lab.queue());
        let library = "#!lua name=movers\n\
            redis.register_function('pass_on', function(keys, args) \
              local got = redis.call('MQ.DEQUEUE', keys[1]) \
              if not got then return nil end \
              redis.call('MQ.ENQUEUE', keys[2], got[2], 'ID', got[1]) \
              return redis.call('MQ.DONE', keys[1], got[1], string.format('%.0f', got[4])) \
            end)";
        ask!(client, "FUNCTION", "LOAD", "REPLACE", library).unwrap();
        client.enqueue(&queue, "payload", "ID a");
        let next = lab.queue();
        let reply = ask!(client, "FCALL", "pass_on", 2, queue, next).unwrap();
        assert_eq!(reply.text(), "done");
        assert_eq!(client.take(&next).payload(), "payload");
        assert!(ask!(client, "FCALL", "pass_on", 2, queue, next)
            .unwrap()
            .is_nil());
    });
}

#[test]
fn a_client_side_cache_is_told_of_changes_and_of_nothing_else() {
    contract(|lab| {
        if lab.protocol == Protocol::Resp2 {
            return;
        }
        let (mut other, queue) = (lab.client(), lab.queue());
        other.put(&queue, "a", "locked");
        let mut cache = lab.client();
        cache.ok("CLIENT TRACKING ON");
        assert_eq!(cache.status(&queue, "a").as_deref(), Some("locked"));
        for line in [
            "MQ.DEQUEUE Q",
            "MQ.DEQUEUE Q EOQ 1",
            "MQ.DEQUEUE Q BLOCK 1",
            "MQ.ENQUEUE Q p ID a",
            "MQ.STATUS Q a",
            "MQ.INFO Q",
            "MQ.CANCEL Q none",
            "MQ.DONE Q none 1",
        ] {
            other.ok(&line.replace(" Q", &format!(" {queue}")));
        }
        other.line(&format!("MQ.DONE {queue} a 5")).unwrap_err();
        assert_eq!(
            cache.ok("PING").text(),
            "PONG",
            "no invalidation came before it"
        );
        assert!(!cache.has_reply_within(Duration::from_millis(1)));

        other.cancel(&queue, "a");
        match cache.reply().unwrap() {
            Value::Push { data, .. } => assert_eq!(data[0].items()[0].text(), queue),
            reply => panic!("not an invalidation: {reply:?}"),
        }
        assert_eq!(cache.status(&queue, "a"), None);
    });
}

#[test]
fn a_client_side_cache_is_told_of_what_time_has_done() {
    contract(|lab| {
        if lab.protocol == Protocol::Resp2 {
            return;
        }
        let (mut other, queue) = (lab.client(), lab.queue());
        let mut cache = lab.client();
        cache.ok("CLIENT TRACKING ON");
        other.enqueue(&queue, "p", "ID a ATTEMPTS 1");
        let delivery = other.take(&queue);
        assert_eq!(cache.status(&queue, "a").as_deref(), Some("locked"));
        other.extend(&queue, &delivery, 30).unwrap();
        // The first tells of the new deadline; then nobody sends anything any more.
        for expected in [None, Some("dead")] {
            match cache.reply().unwrap() {
                Value::Push { data, .. } => assert_eq!(data[0].items()[0].text(), queue),
                reply => panic!("not an invalidation: {reply:?}"),
            }
            let status = cache.status(&queue, "a");
            assert!(
                expected.is_none() || status.as_deref() == expected,
                "{status:?}"
            );
            if status.as_deref() == Some("dead") {
                break;
            }
        }
    });
}
