//! Producers at a steady rate and consumers that wait: how long from enqueue to delivery.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{json, Value};

use crate::{
    histogram::Latencies,
    job::{default_poll_ms, System as Name},
    link::Link,
    systems::{system, System},
    throughput::payload,
};

/// The load is open: producers send when a message is due, however long others took, and a message
/// that was sent late counts from the instant when it should have been sent.
#[derive(Debug, Clone, Deserialize)]
pub struct Steady {
    system: Name,
    /// Messages a second, all producers together.
    rate: f64,
    seconds: f64,
    producers: usize,
    consumers: usize,
    payload: usize,
    #[serde(default = "default_poll_ms")]
    poll_ms: u64,
}

/// How long a consumer waits at a time; then it looks whether all is done.
const WAIT_MS: u64 = 250;
/// How long the consumers may go on after the last message was sent.
const PATIENCE: Duration = Duration::from_secs(60);

impl Steady {
    pub fn run(self, port: u16) -> Value {
        let mut link = Link::open(port);
        let system = system(self.system, &mut link);
        system.prepare(&mut link);
        let total = (self.rate * self.seconds) as u64;
        let (received, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let epoch = Instant::now();

        let (latencies, acknowledged) = thread::scope(|scope| {
            let consumers: Vec<_> = (0..self.consumers)
                .map(|consumer| {
                    let (job, system) = (&self, system.as_ref());
                    let (received, stop) = (&received, &stop);
                    scope.spawn(move || job.consume(system, port, consumer, epoch, received, stop))
                })
                .collect();
            // The consumers have to stand before the first message comes.
            thread::sleep(Duration::from_millis(300));
            let producers: Vec<_> = (0..self.producers)
                .map(|producer| {
                    let (job, system) = (&self, system.as_ref());
                    scope.spawn(move || job.produce(system, port, producer, epoch, total))
                })
                .collect();
            let mut acknowledged = Latencies::new();
            for producer in producers {
                acknowledged.merge(&producer.join().expect("a producer"));
            }
            let deadline = Instant::now() + PATIENCE;
            while received.load(Ordering::Relaxed) < total && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
            let mut latencies = Latencies::new();
            for consumer in consumers {
                latencies.merge(&consumer.join().expect("a consumer"));
            }
            (latencies, acknowledged)
        });
        json!({
            "sent": total,
            "delivery": latencies.summary(),
            "enqueue": acknowledged.summary(),
        })
    }

    fn produce(
        &self,
        system: &dyn System,
        port: u16,
        producer: usize,
        epoch: Instant,
        total: u64,
    ) -> Latencies {
        let mut link = Link::open(port);
        let mut latencies = Latencies::new();
        let pause = Duration::from_secs_f64(1.0 / self.rate);
        let begin = Instant::now();
        for seq in (producer as u64..total).step_by(self.producers) {
            let due = begin + pause * u32::try_from(seq).expect("a job of less than 4 billion");
            let now = Instant::now();
            let start = if now < due {
                thread::sleep(due - now);
                Instant::now()
            } else {
                due
            };
            let mut message = payload(seq, self.payload);
            let nanos = u64::try_from((start - epoch).as_nanos()).expect("less than centuries");
            message[..8].copy_from_slice(&nanos.to_le_bytes());
            system.enqueue(&mut link.batch, std::slice::from_ref(&message));
            link.flush();
            latencies.record(start.elapsed());
        }
        latencies
    }

    fn consume(
        &self,
        system: &dyn System,
        port: u16,
        consumer: usize,
        epoch: Instant,
        received: &AtomicU64,
        stop: &AtomicBool,
    ) -> Latencies {
        let mut link = Link::open(port);
        let mut latencies = Latencies::new();
        while !stop.load(Ordering::Relaxed) {
            let waits = system.take_waiting(&mut link.batch, consumer, WAIT_MS);
            let deliveries: Vec<_> = link
                .flush()
                .into_iter()
                .flat_map(|reply| system.deliveries(reply))
                .collect();
            let now = epoch.elapsed();
            for delivery in &deliveries {
                let sent = u64::from_le_bytes(delivery.payload[..8].try_into().expect("8 bytes"));
                latencies.record(now.saturating_sub(Duration::from_nanos(sent)));
            }
            if !deliveries.is_empty() {
                system.finish(&mut link.batch, &deliveries);
                link.flush();
                received.fetch_add(deliveries.len() as u64, Ordering::Relaxed);
            }
            if !waits && self.poll_ms > 0 {
                thread::sleep(Duration::from_millis(self.poll_ms));
            }
        }
        latencies
    }
}
