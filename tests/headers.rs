//! MQ.ENQUEUE … HEADERS: bytes beside the payload, told with the delivery and kept with the message.

mod common;

use common::{args, ask, contract, Delivery};
use redis_mq_testkit::ReplyExt;

const HEADERS: &[u8] = b"traceparent: 00-4bf9-00f0-01\ntenant: a\0\xff";

#[test]
fn headers_come_with_each_delivery_and_are_shown() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        ask!(
            client,
            "MQ.ENQUEUE",
            queue,
            "p",
            "ID",
            "a",
            "HEADERS",
            HEADERS
        )
        .unwrap();
        let fields = client.message(&queue, "a");
        assert_eq!(fields.field("headers").bytes(), HEADERS);
        for verdict in ["RETRY", "RELEASE"] {
            let delivery = client.take(&queue);
            assert_eq!(delivery.more["headers"], HEADERS, "{verdict}");
            assert_eq!(delivery.more.len(), 1);
            client.done(&queue, &delivery, verdict);
        }
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "ERROR REASON why");
        let letter = client.message(&queue, "a");
        assert_eq!(letter.field("headers").bytes(), HEADERS, "a dead letter");
    });
}

#[test]
fn a_plain_delivery_keeps_its_six_elements() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 3 PRIORITY 1 LOCK 5000");
        let reply = client.ok(&format!("MQ.DEQUEUE {queue}"));
        assert_eq!(reply.items().len(), 6);
        assert!(client.message(&queue, "a").text("headers").is_none());
    });
}

#[test]
fn an_update_and_a_copy_bring_their_own_headers() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a HEADERS old");
        client.enqueue(&queue, "p", "ID a HEADERS new UPDATE");
        let delivery = client.take(&queue);
        assert_eq!(delivery.more["headers"], b"new");
        client.enqueue(&queue, "copy", "ID a HEADERS copied REQUEUE");
        assert_eq!(client.done(&queue, &delivery, ""), "queued");
        let copy = client.take(&queue);
        assert_eq!(copy.more["headers"], b"copied");
        client.done(&queue, &copy, "RETRY");
        client.enqueue(&queue, "p", "ID a UPDATE");
        assert!(
            client.take(&queue).more.is_empty(),
            "an update without headers"
        );
    });
}

#[test]
fn headers_survive_a_reload_a_copy_and_a_dump() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        ask!(
            client,
            "MQ.ENQUEUE",
            queue,
            "p",
            "ID",
            "a",
            "HEADERS",
            HEADERS
        )
        .unwrap();
        let copied = lab.queue();
        client.ok(&format!("COPY {queue} {copied}"));
        let dump = ask!(client, "DUMP", queue).unwrap();
        let restored = lab.queue();
        ask!(client, "RESTORE", restored, 0, dump.bytes()).unwrap();
        for queue in [&queue, &copied, &restored] {
            assert_eq!(client.take(queue).more["headers"], HEADERS);
        }
    });
}

#[test]
fn headers_have_1_to_4096_bytes() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let longest = vec![b'h'; 4096];
        ask!(
            client,
            "MQ.ENQUEUE",
            queue,
            "p",
            "ID",
            "a",
            "HEADERS",
            longest
        )
        .unwrap();
        assert_eq!(client.take(&queue).more["headers"], longest);
        for wrong in [vec![], vec![b'h'; 4097]] {
            let error = ask!(
                client,
                "MQ.ENQUEUE",
                queue,
                "p",
                "ID",
                "b",
                "HEADERS",
                wrong
            );
            assert_eq!(error, Err("ERR HEADERS must be 1 to 4096 bytes".into()));
        }
        let error = client.line(&format!("MQ.ENQUEUE {queue} p HEADERS a HEADERS b"));
        assert!(error.unwrap_err().starts_with("ERR syntax error"));
        assert_eq!(client.status(&queue, "b"), None);
    });
}

#[test]
fn with_count_each_delivery_tells_its_own() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a HEADERS one");
        client.enqueue(&queue, "p", "ID b");
        client.enqueue(&queue, "p", "ID c HEADERS three");
        let more: Vec<_> = client
            .dequeue_many(&queue, 3, "")
            .iter()
            .map(|delivery: &Delivery| delivery.more.get("headers").cloned())
            .collect();
        assert_eq!(more, [Some(b"one".to_vec()), None, Some(b"three".to_vec())]);
    });
}
