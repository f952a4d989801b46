//! MQ.CANCEL: removing messages, whatever their status.

mod common;

use common::{args, ask, contract, HOUR, STATUSES};
use redis_mq_testkit::ReplyExt;

#[test]
fn a_message_of_any_status_is_removed_and_its_id_is_free() {
    contract(|lab| {
        let mut client = lab.client();
        for status in STATUSES {
            let queue = lab.queue();
            client.put(&queue, "a", status);
            assert_eq!(client.cancel(&queue, "a"), 1, "{status}");
            assert_eq!(client.status(&queue, "a"), None, "{status}");
            assert_eq!(client.get(&queue, "a"), None, "{status}");
            assert_eq!(client.info(&queue).int("messages"), 0, "{status}");
            assert_eq!(client.dequeue(&queue, ""), None, "{status}");
            assert_eq!(client.cancel(&queue, "a"), 0, "{status}");
            assert_eq!(client.enqueue(&queue, "new", "ID a"), "added", "{status}");
            let delivery = client.take(&queue);
            assert_eq!((delivery.payload().as_str(), delivery.attempt), ("new", 1));
            assert_eq!(client.done(&queue, &delivery, ""), "done");
            assert_eq!(client.status(&queue, "a"), None, "no copy came after it");
        }
    });
}

#[test]
fn the_holder_of_a_cancelled_message_gets_null() {
    contract(|lab| {
        let mut client = lab.client();
        for verdict in ["", "RETRY", "ERROR", "RELEASE", "BACKOFF 5"] {
            let queue = lab.queue();
            client.enqueue(&queue, "p", "ID a");
            let delivery = client.take(&queue);
            client.enqueue(&queue, "copy", "ID a REQUEUE");
            assert_eq!(client.cancel(&queue, "a"), 1);
            assert!(client.extend(&queue, &delivery, 5).unwrap().is_nil());
            assert!(client
                .try_done(&queue, &delivery, verdict)
                .unwrap()
                .is_nil());
            assert_eq!(client.status(&queue, "a"), None, "{verdict}");
        }
    });
}

#[test]
fn the_holder_of_a_cancelled_message_does_not_touch_the_next_of_that_id() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "first", "ID a");
        let delivery = client.take(&queue);
        client.cancel(&queue, "a");
        client.enqueue(&queue, "second", "ID a");
        let next = client.take(&queue);
        assert!(client
            .try_done(&queue, &delivery, "")
            .unwrap_err()
            .starts_with("STALE "));
        assert_eq!(client.status(&queue, "a").as_deref(), Some("locked"));
        assert_eq!(client.done(&queue, &next, ""), "done");
    });
}

#[test]
fn the_dead_letter_beside_a_live_message_goes_too_and_counts_once() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "dead");
        client.enqueue(&queue, "alive", "ID a");
        assert_eq!(client.cancel(&queue, "a"), 1);
        let info = client.info(&queue);
        assert_eq!((info.int("dead"), info.int("messages")), (0, 0));
    });
}

#[test]
fn each_id_that_had_something_counts_once() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert_eq!(client.cancel(&queue, "a"), 0, "there is no queue");
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
        for id in ["a", "b", "c"] {
            client.enqueue(&queue, "p", &format!("ID {id}"));
        }
        let before = client.digest(&queue);
        assert_eq!(client.cancel(&queue, "x y z"), 0);
        assert_eq!(client.digest(&queue), before);
        assert_eq!(client.cancel(&queue, "a x b a a"), 2);
        assert_eq!(client.take(&queue).id(), "c");
    });
}

#[test]
fn thousands_of_ids_in_one_command() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let ids: Vec<String> = (0..5000).map(|n| format!("id:{n}")).collect();
        for id in &ids {
            client.enqueue(&queue, "p", &format!("ID {id}"));
        }
        let reply = ask!(client, "MQ.CANCEL", queue, &ids[10..]);
        assert_eq!(reply.unwrap().int(), 4990);
        assert_eq!(client.info(&queue).int("messages"), 10);
    });
}

#[test]
fn enqueue_with_delay_cancel_enqueue_adds() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for _ in 0..3 {
            let outcome = client.enqueue(&queue, "p", &format!("ID a DELAY {HOUR}"));
            assert_eq!(outcome, "added");
            assert_eq!(client.cancel(&queue, "a"), 1);
        }
        assert_eq!(client.enqueue(&queue, "p", "ID a"), "added");
        assert_eq!(client.take(&queue).id(), "a");
        assert_eq!(client.info(&queue).int("messages"), 1);
    });
}
