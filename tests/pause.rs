//! MQ.PAUSE and MQ.RESUME: no deliveries for a time, of a queue or of one group.

mod common;

use common::{contract, ids, HOUR};
use redis_mq_testkit::Value;

#[test]
fn a_paused_queue_delivers_nothing_until_it_is_resumed() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(client.ok(&format!("MQ.PAUSE {queue}")), Value::Int(0));
        assert_eq!(client.dequeue(&queue, ""), None);
        let info = client.info(&queue);
        assert_eq!((info.int("paused"), info.int("queued")), (1, 1));
        assert_eq!(client.enqueue(&queue, "p", "ID b"), "added");
        let mut waiter = lab.waiter(&queue, "BLOCK 0 COUNT 5");
        assert_eq!(client.ok(&format!("MQ.RESUME {queue}")), Value::Int(1));
        assert!(!redis_mq_testkit::ReplyExt::is_nil(
            &waiter.reply().unwrap()
        ));
        assert_eq!(client.ok(&format!("MQ.RESUME {queue}")), Value::Int(0));
        assert_eq!(client.info(&queue).int("paused"), 0);
    });
}

#[test]
fn verdicts_go_on_during_a_pause() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        client.ok(&format!("MQ.PAUSE {queue}"));
        assert!(client.extend(&queue, &delivery, HOUR).is_ok());
        assert_eq!(client.done(&queue, &delivery, ""), "done");
    });
}

#[test]
fn a_pause_for_a_time_ends_by_itself_and_wakes() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let before = client.now();
        let Value::Int(until) = client.ok(&format!("MQ.PAUSE {queue} FOR 150")) else {
            panic!("not an instant")
        };
        assert!((before + 150..=client.now() + 150).contains(&until));
        assert_eq!(client.info(&queue).int("paused-until"), until);
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        let delivery = waiter.delivery();
        assert!(client.delivered_at(&queue, &delivery) >= until);
        assert_eq!(client.info(&queue).int("paused"), 0);
    });
}

#[test]
fn a_pause_is_never_shortened() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let long = client.ok(&format!("MQ.PAUSE {queue} FOR {HOUR}"));
        assert_eq!(client.ok(&format!("MQ.PAUSE {queue} FOR 1")), long);
        assert_eq!(client.ok(&format!("MQ.PAUSE {queue}")), Value::Int(0));
        assert_eq!(client.ok(&format!("MQ.PAUSE {queue} FOR 1")), Value::Int(0));
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(client.dequeue(&queue, ""), None);
    });
}

#[test]
fn a_group_is_paused_alone() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for word in ["a1 a", "b1 b", "a2 a", "b2 b"] {
            let (id, group) = word.split_once(' ').unwrap();
            client.enqueue(&queue, "p", &format!("ID {id} GROUP {group}"));
        }
        client.ok(&format!("MQ.PAUSE {queue} GROUP a"));
        assert_eq!(ids(&client.dequeue_many(&queue, 10, "")), ["b1"]);
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        assert_eq!(
            client.ok(&format!("MQ.RESUME {queue} GROUP a")),
            Value::Int(1)
        );
        assert_eq!(waiter.delivery().id(), "a1");
        assert_eq!(
            client.ok(&format!("MQ.RESUME {queue} GROUP a")),
            Value::Int(0)
        );
    });
}

#[test]
fn a_group_s_pause_for_a_time_ends_by_itself() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a GROUP g");
        let Value::Int(until) = client.ok(&format!("MQ.PAUSE {queue} GROUP g FOR 120")) else {
            panic!("not an instant")
        };
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        let delivery = waiter.delivery();
        assert!(client.delivered_at(&queue, &delivery) >= until);
    });
}

#[test]
fn polling_a_paused_queue_tells_to_wait() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        client.ok(&format!("MQ.PAUSE {queue} FOR {HOUR}"));
        assert!(client.poll(&queue, "EOQ 500") >= 1);
    });
}

#[test]
fn a_wrong_pause_changes_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for line in ["FOR 0", "FOR -1", "FOR 315360000001"] {
            let error = client
                .line(&format!("MQ.PAUSE {queue} {line}"))
                .unwrap_err();
            assert_eq!(error, "ERR FOR must be an integer from 1 to 315360000000");
        }
        for line in ["FOR", "GROUP", "GROUP a GROUP b", "FOR 1 FOR 1", "SOON"] {
            assert!(
                client.line(&format!("MQ.PAUSE {queue} {line}")).is_err(),
                "{line}"
            );
        }
        assert!(client.line(&format!("MQ.RESUME {queue} NOW")).is_err());
        assert_eq!(client.ok(&format!("EXISTS {queue}")), Value::Int(0));
        assert_eq!(client.ok(&format!("MQ.RESUME {queue}")), Value::Int(0));
        assert_eq!(
            client.ok(&format!("EXISTS {queue}")),
            Value::Int(0),
            "nothing to resume"
        );
    });
}
