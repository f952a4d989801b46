//! Any bytes are fine as id and as payload.

mod common;

use common::{args, ask, contract, Delivery};
use redis_mq_testkit::ReplyExt;

/// Bytes that trip up those who think of text.
fn awkward() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        &b"\0"[..],
        b"\0\0\0",
        b"a\0b",
        b"\r\n",
        b"-ERR\r\n",
        b"$5\r\nhello\r\n",
        b"\xff\xfe\xfd",
        b"\x80",
        b" ",
        b"%s%n%d",
        b"end-of-circle",
        b"ID",
        b"nil",
        b"0",
        b"-1",
        "\u{1F98A} \u{0301}".as_bytes(),
        &[0; 512],
        &[0xff; 512],
        &[b'\n'; 512],
    ]
    .into_iter()
    .map(<[u8]>::to_vec)
    .collect();
    all.push((0..=255).collect());
    all.push((0..512).map(|n| (n % 256) as u8).collect());
    all.extend((0..=255u8).map(|byte| vec![byte]));
    all
}

#[test]
fn any_bytes_are_an_id() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let ids: Vec<Vec<u8>> = {
            let mut ids = awkward();
            ids.sort();
            ids.dedup();
            ids
        };
        for id in &ids {
            let reply = ask!(client, "MQ.ENQUEUE", queue, "p", "ID", id.as_slice()).unwrap();
            assert_eq!(reply.items()[0].text(), "added", "{}", id.escape_ascii());
            assert_eq!(reply.items()[1].bytes(), id);
        }
        for id in &ids {
            assert_eq!(client.status(&queue, id).as_deref(), Some("queued"));
            assert_eq!(client.message(&queue, id).field("id").bytes(), id);
            let delivery = client.take(&queue);
            assert_eq!(delivery.id, *id);
            assert_eq!(client.done(&queue, &delivery, "RETRY"), "queued");
        }
        for id in &ids {
            let reply = ask!(client, "MQ.CANCEL", queue, id.as_slice()).unwrap();
            assert_eq!(reply.int(), 1, "{}", id.escape_ascii());
        }
        assert_eq!(client.info(&queue).int("messages"), 0);
    });
}

#[test]
fn any_bytes_are_a_payload() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut payloads = awkward();
        payloads.push(Vec::new());
        payloads.push(b"ID".to_vec());
        for payload in &payloads {
            ask!(client, "MQ.ENQUEUE", queue, payload.as_slice(), "ID", "a").unwrap();
            let message = client.message(&queue, "a");
            assert_eq!(message.field("payload").bytes(), payload);
            let delivery = client.take(&queue);
            assert_eq!(delivery.payload, *payload);
            ask!(
                client,
                "MQ.ENQUEUE",
                queue,
                payload.as_slice(),
                "ID",
                "a",
                "REQUEUE"
            )
            .unwrap();
            assert_eq!(
                client.message(&queue, "a").field("requeue").bytes(),
                payload
            );
            client.cancel(&queue, "a");
        }
    });
}

#[test]
fn any_bytes_are_a_queue() {
    contract(|lab| {
        let mut client = lab.client();
        let mut waiter = lab.client();
        for name in awkward() {
            let key = [format!("{:?}", lab.protocol).as_bytes(), name.as_slice()].concat();
            let key = key.as_slice();
            waiter.send(&args!["MQ.DEQUEUE", key, "BLOCK", 0]);
            ask!(client, "MQ.ENQUEUE", key, "p", "ID", "a").unwrap();
            let delivery = waiter.delivery();
            let token = delivery.token;
            let reply = ask!(client, "MQ.DONE", key, "a", token, "ERROR", "REASON", key);
            assert_eq!(reply.unwrap().text(), "dead");
            ask!(client, "DEL", key).unwrap();
        }
    });
}

#[test]
fn big_payloads_pass_unharmed() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for size in [1 << 10, 1 << 16, (1 << 20) + 1, 20 << 20] {
            let payload: Vec<u8> = (0..size).map(|n: u32| (n % 251) as u8).collect();
            assert_eq!(client.enqueue(&queue, &payload, "ID a"), "added");
            assert_eq!(client.enqueue(&queue, "small", "ID a"), "queued");
            let delivery = client.take(&queue);
            assert!(delivery.payload == payload, "{size} bytes");
            client.enqueue(&queue, &payload, "ID a REQUEUE");
            client.done(&queue, &delivery, "");
            let delivery = client.take(&queue);
            assert!(delivery.payload == payload, "{size} bytes");
            assert_eq!(client.done(&queue, &delivery, ""), "done");
        }
    });
}

#[test]
fn a_payload_beyond_the_servers_limit_is_the_servers_error() {
    common::contract_on(
        redis_mq_testkit::Server::builder().config("proto-max-bulk-len", 1 << 20),
        |lab| {
            let (mut client, queue) = (lab.client(), lab.queue());
            let size = (1 << 20) + 1;
            let head = format!(
                "*3\r\n$10\r\nMQ.ENQUEUE\r\n${}\r\n{queue}\r\n${size}\r\n",
                queue.len()
            );
            client.send_bytes(head.as_bytes());
            let error = client.reply().unwrap_err();
            assert!(error.starts_with("ERR Protocol error"), "{error}");
            assert_eq!(lab.client().status(&queue, "a"), None);
        },
    );
}

#[test]
fn a_server_made_id_given_back_as_text_is_the_same() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (_, id) = client.enqueued(&queue, "p", "");
        assert_eq!(client.status(&queue, &id).as_deref(), Some("queued"));
        assert_eq!(
            client.message(&queue, &id).text("id").as_deref(),
            Some(id.as_str())
        );
        assert_eq!(client.enqueue(&queue, "p", &format!("ID {id}")), "queued");
        assert_eq!(
            client.info(&queue).text("next-mid").as_deref(),
            Some(id.as_str())
        );
        let delivery = client.take(&queue);
        assert_eq!(delivery.id(), id);
        assert_eq!(client.done(&queue, &delivery, "ERROR"), "dead");
        assert_eq!(
            client.enqueue(&queue, "again", &format!("ID {id}")),
            "added"
        );
        assert_eq!(client.take(&queue).id(), id);
        assert_eq!(client.cancel(&queue, &id), 1);
        assert_eq!(client.status(&queue, &id), None);
    });
}

#[test]
fn what_only_looks_like_a_server_made_id_is_another_one() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (_, id) = client.enqueued(&queue, "made", "");
        let hex = id.replace('-', "");
        let raw: Vec<u8> = (0..16)
            .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
            .collect();
        let mut others: Vec<Vec<u8>> = vec![
            raw,
            hex.clone().into_bytes(),
            format!("{{{id}}}").into_bytes(),
            format!("urn:uuid:{id}").into_bytes(),
            format!("{id} ").into_bytes(),
            format!("{id}\0").into_bytes(),
            id.replacen('-', "_", 1).into_bytes(),
        ];
        if id.to_uppercase() != id {
            others.push(id.to_uppercase().into_bytes());
        }
        for other in &others {
            let reply = ask!(client, "MQ.ENQUEUE", queue, "given", "ID", other.as_slice()).unwrap();
            assert_eq!(reply.items()[0].text(), "added", "{}", other.escape_ascii());
            assert_eq!(reply.items()[1].bytes(), other);
        }
        assert_eq!(client.take(&queue).payload(), "made");
        for other in &others {
            assert_eq!(
                client.take(&queue).id,
                *other,
                "it comes back as it was given"
            );
        }
    });
}

#[test]
fn a_client_may_choose_any_uuid_itself() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for id in [
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "FFFFFFFF-FFFF-7FFF-BFFF-FFFFFFFFFFFF",
            "ffffffff-ffff-7fff-bfff-ffffffffffff",
            "9b2c5b1e-8f3a-4c6d-a111-22223333aaaa",
            "9b2c5b1e-8f3a-7c6d-a111-22223333AAAA",
        ] {
            assert_eq!(
                client.enqueued(&queue, "p", &format!("ID {id}")),
                ("added".into(), id.into())
            );
            assert_eq!(client.enqueue(&queue, "p", &format!("ID {id}")), "queued");
            let delivery: Delivery = client.take(&queue);
            assert_eq!(delivery.id(), id);
        }
    });
}
