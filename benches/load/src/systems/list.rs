//! The reliable queue of two lists: what is being worked on stands in the second one.

use redis::Value;

use super::{Delivery, System, QUEUE};
use crate::link::{bytes, Batch};

const PROCESSING: &[u8] = b"bench:processing";

pub struct List;

impl System for List {
    fn enqueue(&self, batch: &mut Batch, payloads: &[Vec<u8>]) {
        batch.begin(2 + payloads.len());
        batch.word(b"LPUSH");
        batch.word(QUEUE);
        for payload in payloads {
            batch.word(payload);
        }
    }

    fn take(&self, batch: &mut Batch, _consumer: usize, count: usize) {
        for _ in 0..count {
            batch.push(&[b"LMOVE", QUEUE, PROCESSING, b"RIGHT", b"LEFT"]);
        }
    }

    fn take_waiting(&self, batch: &mut Batch, _consumer: usize, wait_ms: u64) -> bool {
        let seconds = (wait_ms as f64 / 1000.0).to_string();
        batch.push(&[
            b"BLMOVE",
            QUEUE,
            PROCESSING,
            b"RIGHT",
            b"LEFT",
            seconds.as_bytes(),
        ]);
        true
    }

    fn deliveries(&self, reply: Value) -> Vec<Delivery> {
        match reply {
            Value::Nil => Vec::new(),
            payload => vec![Delivery {
                payload: bytes(payload),
                id: Vec::new(),
                token: 0,
            }],
        }
    }

    fn finish(&self, batch: &mut Batch, done: &[Delivery]) {
        for delivery in done {
            batch.push(&[b"LREM", PROCESSING, b"-1", &delivery.payload]);
        }
    }
}
