//! What is told to Prometheus, in OpenMetrics.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{text, DescriptorEncoder, EncodeGaugeValue, EncodeMetric as _},
    metrics::{counter::ConstCounter, gauge::ConstGauge, MetricType},
    registry::{Registry, Unit},
};

use crate::reply::{self, Fields};

/// The format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The statuses, as fields of MQ.INFO.
const STATUSES: [&str; 8] = [
    "queued",
    "queued-with-backoff",
    "locked",
    "locked-with-requeue",
    "done-with-backoff",
    "done-with-requeue",
    "done-awaiting-gc",
    "dead",
];

/// Counters: name, field of MQ.INFO, help.
const COUNTERS: [(&str, &str, &str); 9] = [
    ("enqueued", "total-enqueued", "Messages accepted"),
    ("delivered", "total-delivered", "Deliveries made"),
    ("done", "total-done", "Messages finished"),
    (
        "retried",
        "total-retried",
        "Deliveries that ended in a retry",
    ),
    ("dead", "total-dead", "Messages that became dead letters"),
    (
        "expired_locks",
        "total-expired-locks",
        "Deliveries whose lock ended without a verdict",
    ),
    (
        "expired_messages",
        "total-expired",
        "Messages whose TTL ended before their delivery",
    ),
    ("refused", "total-full", "Messages that limits refused"),
    ("redriven", "total-redriven", "Dead letters sent again"),
];

/// All that one scrape has found out.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The server has answered.
    pub up: bool,
    /// What it told of each queue.
    pub queues: Vec<Queue>,
    /// Consumers that wait, of all queues.
    pub blocked_consumers: u64,
    /// How long it took.
    pub took: Duration,
}

/// One queue.
#[derive(Debug)]
pub struct Queue {
    name: String,
    statuses: [u64; STATUSES.len()],
    /// None where an older module does not tell it.
    counters: [Option<u64>; COUNTERS.len()],
    oldest: f64,
    held: u64,
    groups: u64,
    paused: u64,
    memory: Option<u64>,
    next_due: Option<f64>,
}

impl Queue {
    /// Reads the reply to MQ.INFO.
    pub fn new(name: String, info: &Fields, memory: Option<u64>) -> Self {
        let seconds = |name: &str| info.count(name) as f64 / 1_000.0;
        let next_due = info.value("next-due-ms").and_then(reply::unsigned);
        Self {
            name,
            statuses: STATUSES.map(|status| info.count(status)),
            counters: COUNTERS.map(|(_, field, _)| info.value(field).map(|_| info.count(field))),
            oldest: seconds("oldest-queued-ms"),
            held: info.count("held"),
            groups: info.count("groups"),
            paused: info.count("paused"),
            memory,
            // -1 is never.
            next_due: next_due.map(|ms| ms as f64 / 1_000.0),
        }
    }
}

impl Snapshot {
    /// The text.
    pub fn encode(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("redis_mq");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }

    fn gauges<N: EncodeGaugeValue>(
        &self,
        encoder: &mut DescriptorEncoder,
        (name, help, unit): (&str, &str, Option<Unit>),
        value: impl Fn(&Queue) -> Option<N>,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for queue in &self.queues {
            if let Some(value) = value(queue) {
                let labels = [("queue", &*queue.name)];
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let single = |encoder: &mut DescriptorEncoder, name, help, value: u64| {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(family)
        };
        single(
            &mut encoder,
            "up",
            "Whether the server answers",
            u64::from(self.up),
        )?;
        let took = encoder.encode_descriptor(
            "scrape",
            "How long the server took to tell all this",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        ConstGauge::new(self.took.as_secs_f64()).encode(took)?;
        let mut build =
            encoder.encode_descriptor("build_info", "The exporter", None, MetricType::Gauge)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        ConstGauge::new(1).encode(build.encode_family(&version)?)?;
        if !self.up {
            return Ok(());
        }
        let help = "Consumers that wait for a message of any queue";
        single(
            &mut encoder,
            "blocked_consumers",
            help,
            self.blocked_consumers,
        )?;
        let mut messages =
            encoder.encode_descriptor("messages", "Messages by status", None, MetricType::Gauge)?;
        for queue in &self.queues {
            for (status, count) in STATUSES.into_iter().zip(queue.statuses) {
                let labels = [("queue", &*queue.name), ("status", status)];
                ConstGauge::new(count).encode(messages.encode_family(&labels)?)?;
            }
        }
        let encoder = &mut encoder;
        let help = "How long the oldest ready message waits";
        self.gauges(encoder, ("oldest", help, Some(Unit::Seconds)), |queue| {
            Some(queue.oldest)
        })?;
        let help = "Ready messages that their groups keep from consumers";
        self.gauges(encoder, ("held_messages", help, None), |queue| {
            Some(queue.held)
        })?;
        self.gauges(encoder, ("groups", "Groups", None), |queue| {
            Some(queue.groups)
        })?;
        let help = "Whether deliveries are stopped";
        self.gauges(encoder, ("paused", help, None), |queue| Some(queue.paused))?;
        let help = "Memory that the queue takes";
        self.gauges(encoder, ("memory", help, Some(Unit::Bytes)), |queue| {
            queue.memory
        })?;
        let help = "Time until time alone next moves a message on";
        self.gauges(encoder, ("next_due", help, Some(Unit::Seconds)), |queue| {
            queue.next_due
        })?;
        for (at, (name, _, help)) in COUNTERS.into_iter().enumerate() {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for queue in &self.queues {
                if let Some(count) = queue.counters[at] {
                    let labels = [("queue", &*queue.name)];
                    ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}
