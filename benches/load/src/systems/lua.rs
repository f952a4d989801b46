//! The older design: nine keys a queue, moved by scripts that look at one id at a time. A finished
//! message stays until a later poll meets it on its way round the circle.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::Value;

use super::{Delivery, System, QUEUE};
use crate::link::{bytes, items, Batch, Link};

const ENQUEUE: &str = include_str!("../../lua/enqueue.lua");
const DEQUEUE: &str = include_str!("../../lua/dequeue.lua");
/// The lock time and the pauses at the end of the circle, by dry run, all in milliseconds.
const TIMES: [&[u8]; 6] = [b"3600000", b"750", b"1500", b"3000", b"6000", b"12000"];

/// The keys of a queue, in the order in which the scripts want them.
const PARTS: [&str; 9] = [
    "messages", "locks", "backoffs", "attempts", "circle", "ready", "done", "requeue", "dry-runs",
];

pub struct Lua {
    enqueue: Vec<u8>,
    dequeue: Vec<u8>,
    keys: Vec<Vec<u8>>,
}

impl Lua {
    pub fn new(link: &mut Link) -> Self {
        let mut load = |script: &str| bytes(link.call(&[b"SCRIPT", b"LOAD", script.as_bytes()]));
        Self {
            enqueue: load(ENQUEUE),
            dequeue: load(DEQUEUE),
            keys: PARTS.iter().map(|part| key(part)).collect(),
        }
    }

    fn run(&self, batch: &mut Batch, script: &[u8], arguments: &[&[u8]]) {
        batch.begin(3 + self.keys.len() + arguments.len());
        batch.word(b"EVALSHA");
        batch.word(script);
        batch.word(self.keys.len().to_string().as_bytes());
        for word in self
            .keys
            .iter()
            .map(Vec::as_slice)
            .chain(arguments.iter().copied())
        {
            batch.word(word);
        }
    }
}

impl System for Lua {
    fn enqueue(&self, batch: &mut Batch, payloads: &[Vec<u8>]) {
        let now = now_ms().to_string();
        for payload in payloads {
            // The producer makes the id; the first words of the payload are unique here.
            let id = id_of(payload);
            self.run(batch, &self.enqueue, &[now.as_bytes(), &id, payload, b"0"]);
        }
    }

    fn fill(&self, batch: &mut Batch, payloads: &[Vec<u8>]) {
        // What the script leaves behind for each of them, many at once. The circle's marker comes
        // with the first message that a script enqueues.
        let ids: Vec<_> = payloads.iter().map(|payload| id_of(payload)).collect();
        batch.begin(2 + 2 * ids.len());
        batch.word(b"HSET");
        batch.word(&key("messages"));
        for (id, payload) in ids.iter().zip(payloads) {
            batch.word(id);
            batch.word(payload);
        }
        batch.begin(2 + ids.len());
        batch.word(b"LPUSH");
        batch.word(&key("ready"));
        ids.iter().for_each(|id| batch.word(id));
    }

    fn take(&self, batch: &mut Batch, _consumer: usize, count: usize) {
        let now = now_ms().to_string();
        let mut arguments = vec![now.as_bytes()];
        arguments.extend(TIMES);
        for _ in 0..count {
            self.run(batch, &self.dequeue, &arguments);
        }
    }

    fn take_waiting(&self, batch: &mut Batch, consumer: usize, _wait_ms: u64) -> bool {
        self.take(batch, consumer, 1);
        false
    }

    fn deliveries(&self, reply: Value) -> Vec<Delivery> {
        let mut fields = items(reply).into_iter();
        let outcome = bytes(fields.next().expect("an outcome"));
        if outcome != b"handle" {
            return Vec::new();
        }
        vec![Delivery {
            id: bytes(fields.next().expect("an id")),
            payload: bytes(fields.next().expect("a payload")),
            token: 0,
        }]
    }

    fn finish(&self, batch: &mut Batch, done: &[Delivery]) {
        for delivery in done {
            batch.push(&[b"SADD", &key("done"), &delivery.id]);
            batch.push(&[b"HDEL", &key("locks"), &delivery.id]);
        }
    }

    fn is_dry(&self, replies: &[Value]) -> bool {
        replies.iter().all(|reply| {
            items(reply.clone()).first() == Some(&Value::BulkString(b"sleep".to_vec()))
        })
    }
}

fn key(part: &str) -> Vec<u8> {
    [QUEUE, b":", part.as_bytes()].concat()
}

/// 36 characters, as long as the UUID that the older client made.
fn id_of(payload: &[u8]) -> Vec<u8> {
    let mut id: Vec<u8> = payload[..16]
        .iter()
        .flat_map(|b| format!("{b:02x}").into_bytes())
        .collect();
    for at in [8, 13, 18, 23] {
        id.insert(at, b'-');
    }
    id
}

fn now_ms() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock past 1970")
        .as_millis()
}
