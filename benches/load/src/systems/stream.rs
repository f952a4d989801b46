//! Redis Streams with a consumer group. A finished entry is acknowledged and deleted, with XACKDEL
//! in one step where the server has it.

use redis::Value;

use super::{Delivery, System, QUEUE};
use crate::link::{bytes, items, Batch, Link};

const GROUP: &[u8] = b"workers";

pub struct Stream {
    xackdel: bool,
}

impl Stream {
    pub fn new(link: &mut Link) -> Self {
        let known = items(link.call(&[b"COMMAND", b"INFO", b"XACKDEL"]));
        Self {
            xackdel: known.first().is_some_and(|entry| *entry != Value::Nil),
        }
    }

    fn read(batch: &mut Batch, consumer: usize, count: usize, block: Option<u64>) {
        let (consumer, count) = (format!("consumer-{consumer}"), count.to_string());
        let block = block.map(|ms| ms.to_string());
        let mut words: Vec<&[u8]> = vec![b"XREADGROUP", b"GROUP", GROUP, consumer.as_bytes()];
        words.extend([&b"COUNT"[..], count.as_bytes()]);
        if let Some(ms) = &block {
            words.extend([&b"BLOCK"[..], ms.as_bytes()]);
        }
        words.extend([&b"STREAMS"[..], QUEUE, b">"]);
        batch.push(&words);
    }

    fn ids(batch: &mut Batch, words: &[&[u8]], done: &[Delivery]) {
        batch.begin(words.len() + done.len());
        for word in words {
            batch.word(word);
        }
        for delivery in done {
            batch.word(&delivery.id);
        }
    }
}

/// Makes the stream and its group, unless they are there.
pub fn create_group(link: &mut Link) {
    if link.call(&[b"EXISTS", QUEUE]) == Value::Int(0) {
        link.call(&[b"XGROUP", b"CREATE", QUEUE, GROUP, b"0", b"MKSTREAM"]);
    }
}

impl System for Stream {
    fn prepare(&self, link: &mut Link) {
        create_group(link);
    }

    fn enqueue(&self, batch: &mut Batch, payloads: &[Vec<u8>]) {
        for payload in payloads {
            batch.push(&[b"XADD", QUEUE, b"*", b"p", payload]);
        }
    }

    fn take(&self, batch: &mut Batch, consumer: usize, count: usize) {
        Self::read(batch, consumer, count, None);
    }

    fn take_waiting(&self, batch: &mut Batch, consumer: usize, wait_ms: u64) -> bool {
        Self::read(batch, consumer, 1, Some(wait_ms));
        true
    }

    fn deliveries(&self, reply: Value) -> Vec<Delivery> {
        items(reply)
            .into_iter()
            .flat_map(|stream| items(items(stream).swap_remove(1)))
            .map(|entry| {
                let mut entry = items(entry);
                let mut fields = items(entry.swap_remove(1));
                Delivery {
                    payload: bytes(fields.swap_remove(1)),
                    id: bytes(entry.swap_remove(0)),
                    token: 0,
                }
            })
            .collect()
    }

    fn finish(&self, batch: &mut Batch, done: &[Delivery]) {
        if done.is_empty() {
            return;
        }
        if self.xackdel {
            let count = done.len().to_string();
            let words = [
                b"XACKDEL",
                QUEUE,
                GROUP,
                b"DELREF",
                b"IDS",
                count.as_bytes(),
            ];
            Self::ids(batch, &words, done);
        } else {
            Self::ids(batch, &[b"XACK", QUEUE, GROUP], done);
            Self::ids(batch, &[b"XDEL", QUEUE], done);
        }
    }
}
