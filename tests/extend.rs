//! MQ.EXTEND: holding on to a message.

mod common;

use common::{contract, HOUR, TEN_YEARS};
use redis_mq_testkit::ReplyExt;

#[test]
fn the_lock_ends_that_long_from_now() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        // Later, earlier, and as far away as can be.
        for ms in [2 * HOUR, 5000, TEN_YEARS] {
            let before = client.now();
            let deadline = client.extend(&queue, &delivery, ms).unwrap().int();
            let after = client.now();
            assert!((before + ms..=after + ms).contains(&deadline), "{ms}");
            assert_eq!(client.message(&queue, "a").int("due-at"), deadline);
        }
        assert_eq!(client.done(&queue, &delivery, ""), "done");
    });
}

#[test]
fn an_extended_lock_holds_until_its_new_end_and_not_longer() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.dequeue(&queue, "LOCK 1000").unwrap();
        let old_deadline = client.now() + 1000;
        let deadline = client.extend(&queue, &delivery, 30).unwrap().int();
        let next = loop {
            let asked = client.now();
            match client.dequeue(&queue, &format!("LOCK {HOUR}")) {
                Some(delivery) => break delivery,
                None => assert!(asked < deadline, "not given back"),
            }
        };
        assert!(client.delivered_at(&queue, &next) >= deadline);
        assert_eq!(next.attempt, 2);

        // The end of the old lock means nothing any more.
        client.wait_for_time(old_deadline);
        assert_eq!(client.status(&queue, "a").as_deref(), Some("locked"));
        assert_eq!(client.done(&queue, &next, ""), "done");
    });
}

#[test]
fn an_expired_lock_is_renewed_while_nobody_else_took_the_message() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        // With attempts left it had become ready, without it had become dead.
        for attempts in [0, 1] {
            client.enqueue(&queue, "p", &format!("ID a ATTEMPTS {attempts}"));
            let delivery = client.dequeue(&queue, "LOCK 1").unwrap();
            client.wait_until_due(&queue, "a");
            client.extend(&queue, &delivery, HOUR).unwrap();
            assert_eq!(client.status(&queue, "a").as_deref(), Some("locked"));
            assert_eq!(client.dequeue(&queue, ""), None, "nobody else gets it");
            assert_eq!(client.message(&queue, "a").int("attempts"), 1);
            assert_eq!(client.done(&queue, &delivery, ""), "done");
        }
    });
}

#[test]
fn the_waiting_copy_and_the_attempt_stay() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a ATTEMPTS 2 PRIORITY 1 LOCK 9000");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "new", "ID a REQUEUE");
        client.extend(&queue, &delivery, HOUR).unwrap();
        let message = client.message(&queue, "a");
        assert_eq!(
            message.text("status").as_deref(),
            Some("locked-with-requeue")
        );
        assert_eq!(message.text("requeue").as_deref(), Some("new"));
        assert_eq!(
            (message.int("attempts"), message.int("max-attempts")),
            (1, 2)
        );
        assert_eq!(
            message.int("lock-ms"),
            9000,
            "the message's own lock time stays"
        );
        assert_eq!(client.done(&queue, &delivery, "RETRY"), "queued");
        assert_eq!(client.take(&queue).lock_ms, 9000);
    });
}

#[test]
fn only_the_holder_can_extend() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let before = client.digest(&queue);
        for token in [0, 1, delivery.token - 1, delivery.token + 1, i64::MAX] {
            let reply = client.line(&format!("MQ.EXTEND {queue} a {token} {HOUR}"));
            assert!(reply.unwrap_err().starts_with("STALE "), "{token}");
        }
        let token = delivery.token;
        assert!(client
            .ok(&format!("MQ.EXTEND {queue} other {token} 1"))
            .is_nil());
        assert_eq!(client.digest(&queue), before);

        client.done(&queue, &delivery, &format!("BACKOFF {HOUR}"));
        let refused = client.extend(&queue, &delivery, 1).unwrap_err();
        assert!(
            refused.starts_with("STALE "),
            "its verdict is given: {refused}"
        );
        client.cancel(&queue, "a");
        assert!(client.extend(&queue, &delivery, 1).unwrap().is_nil());
    });
}
