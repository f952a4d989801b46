//! Whose verdict counts: late ones, repeated ones, and those of others.

mod common;

use common::contract;
use redis_mq_testkit::ReplyExt;

#[test]
fn the_verdict_of_an_expired_lock_counts_while_nobody_else_took_the_message() {
    contract(|lab| {
        let mut client = lab.client();
        for (verdict, became) in [
            ("", "done"),
            ("BACKOFF 3600000", "done-with-backoff"),
            ("RETRY", "queued"),
            ("RETRY BACKOFF 3600000", "queued-with-backoff"),
            ("ERROR", "dead"),
            ("RELEASE", "queued"),
        ] {
            let queue = lab.queue();
            client.enqueue(&queue, "p", "ID a ATTEMPTS 3");
            let delivery = client.dequeue(&queue, "LOCK 1").unwrap();
            client.wait_until_due(&queue, "a");
            assert_eq!(client.status(&queue, "a").as_deref(), Some("queued"));
            assert_eq!(client.done(&queue, &delivery, verdict), became, "{verdict}");
            let stale = client.try_done(&queue, &delivery, verdict);
            if became == "done" {
                assert!(stale.unwrap().is_nil());
            } else {
                assert!(stale.unwrap_err().starts_with("STALE "), "{verdict}");
            }
        }
    });
}

#[test]
fn a_late_verdict_is_refused_once_another_holds_the_message() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for verdict in ["", "RETRY", "ERROR", "RELEASE", "BACKOFF 1"] {
            client.enqueue(&queue, "p", "ID a");
            let late = client.dequeue(&queue, "LOCK 1").unwrap();
            client.wait_until_due(&queue, "a");
            let holder = client.take(&queue);
            let before = client.digest(&queue);
            let refused = client.try_done(&queue, &late, verdict).unwrap_err();
            assert!(refused.starts_with("STALE "), "{refused}");
            let refused = client.extend(&queue, &late, 1).unwrap_err();
            assert!(refused.starts_with("STALE "), "{refused}");
            assert_eq!(client.digest(&queue), before, "the holder is unaffected");
            assert_eq!(client.done(&queue, &holder, ""), "done");
            // After the other has finished nothing moves either.
            assert!(client.try_done(&queue, &late, verdict).unwrap().is_nil());
            assert_eq!(client.status(&queue, "a"), None);
        }
    });
}

#[test]
fn a_verdict_that_is_sent_twice_counts_once() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 2");
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, "RETRY"), "queued");
        let before = client.digest(&queue);
        for verdict in ["RETRY", "", "ERROR", "RELEASE", "RETRY BACKOFF EXP"] {
            let refused = client.try_done(&queue, &delivery, verdict).unwrap_err();
            assert!(refused.starts_with("STALE "), "{verdict}: {refused}");
        }
        let refused = client.extend(&queue, &delivery, 5).unwrap_err();
        assert!(refused.starts_with("STALE "), "{refused}");
        assert_eq!(client.digest(&queue), before);
        let second = client.take(&queue);
        assert_eq!(second.attempt, 2, "one retry, not two");
        assert_eq!(client.done(&queue, &second, ""), "done");
        for _ in 0..2 {
            assert!(client.try_done(&queue, &second, "").unwrap().is_nil());
        }
    });
}

#[test]
fn a_late_verdict_does_not_touch_a_new_message_of_the_same_id() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "first", "ID a");
        let old = client.take(&queue);
        client.done(&queue, &old, "");
        client.enqueue(&queue, "second", "ID a");
        let before = client.digest(&queue);
        for verdict in ["", "RETRY", "ERROR", "RELEASE"] {
            let refused = client.try_done(&queue, &old, verdict).unwrap_err();
            assert!(refused.starts_with("STALE "), "{refused}");
        }
        assert_eq!(client.digest(&queue), before);
        let new = client.take(&queue);
        assert!(client
            .try_done(&queue, &old, "")
            .unwrap_err()
            .starts_with("STALE "));
        assert_eq!(client.done(&queue, &new, ""), "done");
    });
}

#[test]
fn a_token_that_was_never_given_is_stale_and_an_unknown_id_is_null() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(
            client.ok(&format!("MQ.DONE {queue} a 1")).is_nil(),
            "there is no queue"
        );
        assert!(client.ok(&format!("MQ.EXTEND {queue} a 1 1")).is_nil());
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);

        client.put(&queue, "a", "locked");
        client.put(&queue, "never-delivered", "queued");
        let before = client.digest(&queue);
        for id in ["a", "never-delivered"] {
            for token in [0, 1, i64::MAX] {
                let reply = client.line(&format!("MQ.DONE {queue} {id} {token}"));
                assert!(reply.unwrap_err().starts_with("STALE "), "{id} {token}");
            }
        }
        assert!(client.ok(&format!("MQ.DONE {queue} other 1")).is_nil());
        assert_eq!(client.digest(&queue), before);
    });
}

#[test]
fn the_token_of_one_message_does_not_end_another() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        client.enqueue(&queue, "p", "ID b");
        let (a, mut b) = (client.take(&queue), client.take(&queue));
        b.token = a.token;
        assert!(client
            .try_done(&queue, &b, "")
            .unwrap_err()
            .starts_with("STALE "));
        assert_eq!(client.status(&queue, "b").as_deref(), Some("locked"));
    });
}
