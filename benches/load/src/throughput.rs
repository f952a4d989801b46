//! As fast as it goes.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::{json, Value};

use crate::{
    job::System as Name,
    link::{Batch, Link},
    systems::{system, System},
};

/// Enqueues `count` messages over one connection.
#[derive(Debug, Deserialize)]
pub struct Enqueue {
    system: Name,
    count: u64,
    /// Bytes of a payload, at least 16.
    payload: usize,
    /// Messages that are sent before the replies are awaited.
    batch: usize,
    /// One command for each message, even where the system takes many in one.
    #[serde(default)]
    single: bool,
    /// The fastest way to a queue of that length, whatever producers do.
    #[serde(default)]
    fill: bool,
}

impl Enqueue {
    pub fn run(self, port: u16) -> Value {
        let mut link = Link::open(port);
        let system = system(self.system, &mut link);
        system.prepare(&mut link);
        // Jobs that follow one another must not send the same payload twice.
        let base = nanos_since_1970();
        let start = Instant::now();
        let mut payloads = Vec::with_capacity(self.batch);
        for seq in 0..self.count {
            payloads.push(payload(base + seq, self.payload));
            if payloads.len() == self.batch || seq + 1 == self.count {
                self.add(system.as_ref(), &mut link.batch, &payloads);
                link.flush();
                payloads.clear();
            }
        }
        json!({ "count": self.count, "seconds": start.elapsed().as_secs_f64() })
    }

    fn add(&self, system: &dyn System, batch: &mut Batch, payloads: &[Vec<u8>]) {
        if self.fill {
            system.fill(batch, payloads);
        } else if self.single {
            payloads
                .chunks(1)
                .for_each(|one| system.enqueue(batch, one));
        } else {
            system.enqueue(batch, payloads);
        }
    }
}

/// Takes and finishes all that is in the queue.
#[derive(Debug, Deserialize)]
pub struct Consume {
    system: Name,
    /// Messages that each connection takes, and then finishes, at once.
    batch: usize,
    /// One command for each message, even where the system takes many in one.
    #[serde(default)]
    single: bool,
    /// Connections, each with a thread.
    #[serde(default = "one")]
    connections: usize,
    /// Takes only, and leaves the messages with the consumer.
    #[serde(default)]
    hold: bool,
    /// Stops after so many.
    #[serde(default = "all")]
    count: u64,
}

const fn one() -> usize {
    1
}

const fn all() -> u64 {
    u64::MAX
}

impl Consume {
    pub fn run(self, port: u16) -> Value {
        let mut link = Link::open(port);
        let system = system(self.system, &mut link);
        let taken = AtomicU64::new(0);
        let start = Instant::now();
        thread::scope(|scope| {
            for consumer in 0..self.connections {
                let (job, system, taken) = (&self, system.as_ref(), &taken);
                scope.spawn(move || job.consume(system, Link::open(port), consumer, taken));
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        json!({ "count": taken.into_inner(), "seconds": seconds })
    }

    fn consume(&self, system: &dyn System, mut link: Link, consumer: usize, taken: &AtomicU64) {
        loop {
            let (commands, each) = if self.single {
                (self.batch, 1)
            } else {
                (1, self.batch)
            };
            (0..commands).for_each(|_| system.take(&mut link.batch, consumer, each));
            let replies = link.flush();
            let dry = system.is_dry(&replies);
            let deliveries: Vec<_> = replies
                .into_iter()
                .flat_map(|reply| system.deliveries(reply))
                .collect();
            if !deliveries.is_empty() && !self.hold {
                let each = if self.single { 1 } else { deliveries.len() };
                deliveries
                    .chunks(each)
                    .for_each(|some| system.finish(&mut link.batch, some));
                link.flush();
            }
            let before = taken.fetch_add(deliveries.len() as u64, Ordering::Relaxed);
            if dry || before + deliveries.len() as u64 >= self.count {
                return;
            }
        }
    }
}

fn nanos_since_1970() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock past 1970");
    u64::try_from(now.as_nanos()).expect("a year before 2554")
}

/// A payload that no other message of the job has: the number stands first, twice.
pub fn payload(seq: u64, length: usize) -> Vec<u8> {
    let mut payload = vec![b'x'; length.max(16)];
    payload[..8].copy_from_slice(&seq.to_le_bytes());
    payload[8..16].copy_from_slice(&seq.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    payload
}
