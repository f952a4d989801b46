//! Tokens: no delivery of a queue gets one that another had, whatever queue was at that place before,
//! and whatever a dump claims.

mod common;

use common::{args, ask, contract, Client};
use redis_mq_testkit::ReplyExt;

/// The checksum at the end of a dump (CRC-64 of Jones, reflected).
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x95ac_9329_ac4b_c9b5 * (crc & 1))
        })
    })
}

/// A number as dumps of queues hold it.
fn number(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// The dump of a queue with one ready message, its last token replaced.
fn forged(client: &mut Client, queue: &str, last_token: u64) -> Vec<u8> {
    client.ok("CONFIG SET rdbcompression no");
    client.enqueue(queue, "p", "");
    client.enqueue(queue, "p2", "");
    let delivery = client.take(queue);
    client.done(queue, &delivery, "");
    let dump = ask!(client, "DUMP", queue).unwrap().bytes().to_vec();
    let (body, sum) = dump.split_at(dump.len() - 8);
    assert_eq!(crc64(body).to_le_bytes(), sum, "the checksum is this one");
    let (old, new) = (number(delivery.token as u64), number(last_token));
    assert_eq!(old.len(), new.len(), "no length changes");
    let at = body
        .windows(old.len())
        .position(|part| part == old)
        .unwrap();
    let mut body = body.to_vec();
    body[at..at + old.len()].copy_from_slice(&new);
    let sum = crc64(&body).to_le_bytes();
    body.extend(sum);
    body
}

#[test]
fn a_forged_last_token_concerns_no_other_queue() {
    contract(|lab| {
        let (mut client, source) = (lab.client(), lab.queue());
        for last in [(1 << 56) - 1, (1 << 56) - 2, (1 << 56) - 9] {
            let dump = forged(&mut client, &source, last);
            client.ok(&format!("DEL {source}"));
            let restored = lab.queue();
            if ask!(client, "RESTORE", restored, 0, dump).is_ok() {
                client.dequeue(&restored, "");
            }
            let queue = lab.queue();
            let now_us = client.now() * 1000;
            client.enqueue(&queue, "p", "ID x");
            let first = client.dequeue(&queue, "LOCK 1").unwrap();
            client.wait_until_due(&queue, "x");
            let second = client.take(&queue);
            let bounds = now_us..now_us + 60_000_000;
            assert!(bounds.contains(&first.token), "{} at {now_us}", first.token);
            assert!(second.token > first.token);
            assert!(client
                .try_done(&queue, &first, "")
                .unwrap_err()
                .starts_with("STALE"));
            assert_eq!(client.done(&queue, &second, ""), "done");
        }
    });
}

#[test]
fn no_token_is_given_twice_by_a_queue_at_its_end() {
    contract(|lab| {
        let (mut client, source) = (lab.client(), lab.queue());
        let dump = forged(&mut client, &source, (1 << 56) - 2);
        let queue = lab.queue();
        if ask!(client, "RESTORE", queue, 0, dump).is_ok() {
            client.enqueue(&queue, "p", "");
            let mut tokens: Vec<_> = client
                .dequeue_many(&queue, 10, "")
                .iter()
                .map(|delivery| delivery.token)
                .collect();
            let given = tokens.len();
            tokens.dedup();
            assert_eq!(tokens.len(), given);
        }
    });
}

#[test]
fn a_queue_that_takes_the_place_of_another_gives_none_of_its_tokens() {
    contract(|lab| {
        for replace in ["DEL", "COPY", "RESTORE"] {
            let mut client = lab.client();
            let (queue, backup) = (lab.queue(), lab.queue());
            client.enqueue(&queue, "p", "ID a");
            client.ok(&format!("COPY {queue} {backup}"));
            let dump = ask!(client, "DUMP", queue).unwrap();
            client.ok("MULTI");
            client.ok(&format!("MQ.DEQUEUE {queue}"));
            match replace {
                "COPY" => client.ok(&format!("COPY {backup} {queue} REPLACE")),
                "DEL" => {
                    client.ok(&format!("DEL {queue}"));
                    client.ok(&format!("MQ.ENQUEUE {queue} p ID a"))
                }
                _ => ask!(client, "RESTORE", queue, 0, dump.bytes(), "REPLACE").unwrap(),
            };
            client.ok(&format!("MQ.DEQUEUE {queue}"));
            let replies = client.ok("EXEC");
            let (first, last) = (&replies.items()[0], replies.items().last().unwrap());
            let tokens = [first, last].map(|delivery| delivery.items()[3].int());
            assert!(tokens[1] > tokens[0], "{replace}: {tokens:?}");
        }
    });
}
