//! redis-mq by its commands.

use redis::Value;

use super::{Delivery, System, QUEUE};
use crate::link::{bytes, int, items, Batch};

pub struct Mq;

impl System for Mq {
    fn enqueue(&self, batch: &mut Batch, payloads: &[Vec<u8>]) {
        for payload in payloads {
            batch.push(&[b"MQ.ENQUEUE", QUEUE, payload]);
        }
    }

    fn take(&self, batch: &mut Batch, _consumer: usize, count: usize) {
        batch.push(&[b"MQ.DEQUEUE", QUEUE, b"COUNT", count.to_string().as_bytes()]);
    }

    fn take_waiting(&self, batch: &mut Batch, _consumer: usize, wait_ms: u64) -> bool {
        let wait = wait_ms.to_string();
        batch.push(&[b"MQ.DEQUEUE", QUEUE, b"BLOCK", wait.as_bytes()]);
        true
    }

    fn deliveries(&self, reply: Value) -> Vec<Delivery> {
        match reply {
            Value::Nil => Vec::new(),
            Value::Array(fields) if matches!(fields.first(), Some(Value::Array(_))) => {
                fields.into_iter().map(delivery).collect()
            }
            one => vec![delivery(one)],
        }
    }

    fn finish(&self, batch: &mut Batch, done: &[Delivery]) {
        for delivery in done {
            let token = delivery.token.to_string();
            batch.push(&[b"MQ.DONE", QUEUE, &delivery.id, token.as_bytes()]);
        }
    }
}

fn delivery(reply: Value) -> Delivery {
    let mut fields = items(reply).into_iter();
    let (id, payload, _attempt, token) = (
        fields.next().expect("an id"),
        fields.next().expect("a payload"),
        fields.next().expect("an attempt"),
        fields.next().expect("a token"),
    );
    Delivery {
        payload: bytes(payload),
        id: bytes(id),
        token: int(&token),
    }
}
