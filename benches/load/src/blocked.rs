//! One enqueue while many consumers wait for it.

use std::time::Instant;

use serde::Deserialize;
use serde_json::{json, Value};

use crate::{
    histogram::Latencies,
    link::Link,
    systems::{create_group, QUEUE},
};

/// How the consumers wait.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Wait {
    /// MQ.DEQUEUE BLOCK.
    Mq,
    /// BLPOP.
    List,
    /// XREADGROUP BLOCK.
    Stream,
}

/// Enqueues `count` messages, one at a time; the consumer that gets it waits again at once, so that
/// there are always `waiters` of them.
#[derive(Debug, Deserialize)]
pub struct Blocked {
    system: Wait,
    waiters: usize,
    count: usize,
}

impl Blocked {
    pub fn run(self, port: u16) -> Value {
        let mut producer = Link::open(port);
        if matches!(self.system, Wait::Stream) {
            create_group(&mut producer);
        }
        let mut waiters: Vec<_> = (0..self.waiters).map(|_| Link::open(port)).collect();
        for (before, waiter) in waiters.iter_mut().enumerate() {
            self.wait(waiter);
            // First come, first served: the order has to be known.
            while producer.info("clients", "blocked_clients") <= before as f64 {}
        }

        let (mut enqueue, mut delivery) = (Latencies::new(), Latencies::new());
        let cpu = cpu_seconds(&mut producer);
        for turn in 0..self.count {
            let start = Instant::now();
            self.enqueue(&mut producer);
            enqueue.record(start.elapsed());
            let served = &mut waiters[turn % self.waiters];
            served.receive();
            delivery.record(start.elapsed());
            self.wait(served);
        }
        let cpu = cpu_seconds(&mut producer) - cpu;
        json!({
            "enqueue": enqueue.summary(),
            "delivery": delivery.summary(),
            "cpu_us": cpu * 1e6 / self.count as f64,
        })
    }

    fn wait(&self, waiter: &mut Link) {
        let words: &[&[u8]] = match self.system {
            Wait::Mq => &[b"MQ.DEQUEUE", QUEUE, b"BLOCK", b"0"],
            Wait::List => &[b"BLPOP", QUEUE, b"0"],
            Wait::Stream => &[
                b"XREADGROUP",
                b"GROUP",
                b"workers",
                b"one",
                b"COUNT",
                b"1",
                b"BLOCK",
                b"0",
                b"STREAMS",
                QUEUE,
                b">",
            ],
        };
        waiter.batch.push(words);
        waiter.send();
    }

    fn enqueue(&self, producer: &mut Link) {
        const PAYLOAD: &[u8] = &[b'x'; 40];
        let words: &[&[u8]] = match self.system {
            Wait::Mq => &[b"MQ.ENQUEUE", QUEUE, PAYLOAD],
            Wait::List => &[b"RPUSH", QUEUE, PAYLOAD],
            Wait::Stream => &[b"XADD", QUEUE, b"*", b"p", PAYLOAD],
        };
        producer.call(words);
    }
}

fn cpu_seconds(link: &mut Link) -> f64 {
    link.info("cpu", "used_cpu_user") + link.info("cpu", "used_cpu_sys")
}
