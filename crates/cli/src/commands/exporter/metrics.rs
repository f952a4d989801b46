//! What is told to Prometheus, as text.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{
        prometheus_text, text, DescriptorEncoder, EncodeGaugeValue, EncodeMetric as _, NoLabelSet,
    },
    metrics::{counter::ConstCounter, gauge::ConstGauge, MetricType},
    registry::{Registry, Unit},
};

use super::histogram::Histogram;
use crate::{
    output,
    reply::{self, Fields},
};

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format 0.0.4, which all that reads metrics knows.
    Text,
    /// OpenMetrics 1.0.0, which Prometheus asks for.
    OpenMetrics,
}

impl Format {
    const OPEN_METRICS: &'static str = "application/openmetrics-text";

    /// The one that these Accept headers ask for.
    pub fn accepted<'a>(mut headers: impl Iterator<Item = &'a str>) -> Self {
        match headers.any(|accepted| accepted.contains(Self::OPEN_METRICS)) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Its Content-Type header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The statuses, as fields of MQ.INFO.
const STATUSES: [&str; 9] = [
    "queued",
    "queued-with-backoff",
    "locked",
    "locked-with-requeue",
    "done-with-backoff",
    "done-with-requeue",
    "done-awaiting-gc",
    "dead",
    "waiting",
];

/// Counters: name, field of MQ.INFO, help.
const COUNTERS: [(&str, &str, &str); 10] = [
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
    (
        "dead_dropped",
        "total-dead-dropped",
        "Dead letters let go because there were too many",
    ),
];

/// Histograms: name, field of MQ.LATENCY, help.
const HISTOGRAMS: [(&str, &str, &str); 2] = [
    (
        "wait",
        "wait",
        "How long messages were ready before their first delivery",
    ),
    (
        "work",
        "work",
        "How long deliveries took until they ended with a verdict",
    ),
];

/// All that one scrape has found out.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The server has answered.
    pub up: bool,
    /// What it told of each queue.
    pub queues: Vec<Queue>,
    /// And of their schedules.
    pub schedules: Vec<Schedule>,
    /// Consumers that wait, of all queues.
    pub blocked_consumers: u64,
    /// The servers' own state.
    pub nodes: Vec<Node>,
    /// Questions that the server refused, as to a user without rights.
    pub refused: u64,
    /// Scrapes that failed since this exporter started.
    pub failed: u64,
    /// How long it took.
    pub took: Duration,
}

/// A server.
#[derive(Debug)]
pub struct Node {
    /// Its address; none where there is no cluster.
    pub address: Option<String>,
    /// Bytes in use.
    pub used: u64,
    /// How many it may use at most.
    pub limit: Option<u64>,
}

/// One schedule.
#[derive(Debug)]
pub struct Schedule {
    queue: String,
    name: String,
    /// When its next run is, Unix seconds; none if it has ended.
    next: Option<f64>,
    skipped: u64,
}

impl Schedule {
    /// Reads one of the reply to MQ.SCHEDULES.
    pub fn new(queue: String, fields: &Fields) -> Option<Self> {
        Some(Self {
            queue,
            name: output::name(fields.bytes("name")?),
            next: Some(fields.count("next-at"))
                .filter(|ms| *ms != 0)
                .map(|ms| ms as f64 / 1_000.0),
            skipped: fields.count("skipped"),
        })
    }

    fn labels(&self) -> [(&'static str, &str); 2] {
        [("queue", &self.queue), ("schedule", &self.name)]
    }
}

/// One queue.
#[derive(Debug)]
pub struct Queue {
    name: String,
    statuses: [u64; STATUSES.len()],
    /// None where an older module does not tell it.
    counters: [Option<u64>; COUNTERS.len()],
    histograms: [Option<Histogram>; HISTOGRAMS.len()],
    oldest: f64,
    held: u64,
    groups: u64,
    results: Option<u64>,
    paused: u64,
    memory: Option<u64>,
    next_due: Option<f64>,
}

impl Queue {
    /// Reads the replies to MQ.INFO and MQ.LATENCY.
    pub fn new(name: String, info: &Fields, latency: Option<&Fields>, memory: Option<u64>) -> Self {
        let seconds = |name: &str| info.count(name) as f64 / 1_000.0;
        let next_due = info.value("next-due-ms").and_then(reply::unsigned);
        Self {
            name,
            statuses: STATUSES.map(|status| info.count(status)),
            counters: COUNTERS.map(|(_, field, _)| info.value(field).map(|_| info.count(field))),
            histograms: HISTOGRAMS.map(|(_, field, _)| Histogram::read(latency?.value(field)?)),
            oldest: seconds("oldest-queued-ms"),
            held: info.count("held"),
            groups: info.count("groups"),
            results: info.value("results").and_then(reply::unsigned),
            paused: info.count("paused"),
            memory,
            // -1 is never.
            next_due: next_due.map(|ms| ms as f64 / 1_000.0),
        }
    }
}

impl Snapshot {
    /// The text.
    pub fn encode(self, format: Format) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("redis_mq");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        match format {
            Format::Text => prometheus_text::encode(&mut text, &registry)?,
            Format::OpenMetrics => text::encode(&mut text, &registry)?,
        }
        Ok(text)
    }

    /// The exporter's own state.
    fn encode_scrape(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        single(encoder, "up", "Whether the server answers", self.up.into())?;
        let took = encoder.encode_descriptor(
            "scrape",
            "How long the server took to tell all this",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        ConstGauge::new(self.took.as_secs_f64()).encode(took)?;
        let help = "Scrapes that the server did not answer";
        let failed =
            encoder.encode_descriptor("scrape_failures", help, None, MetricType::Counter)?;
        ConstCounter::new(self.failed).encode(failed)?;
        let help = "Questions of this scrape that the server refused, as for want of rights";
        single(encoder, "scrape_refusals", help, self.refused)?;
        let mut build =
            encoder.encode_descriptor("build_info", "The exporter", None, MetricType::Gauge)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        ConstGauge::new(1).encode(build.encode_family(&version)?)
    }

    /// The servers' state.
    fn encode_nodes(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Consumers that wait for a message of any queue";
        single(encoder, "blocked_consumers", help, self.blocked_consumers)?;
        type Value = fn(&Node) -> Option<u64>;
        let values: [(&str, &str, Value); 2] = [
            ("server_memory", "Memory in use by the server", |node| {
                Some(node.used)
            }),
            ("server_memory_limit", "The server's maxmemory", |node| {
                node.limit
            }),
        ];
        for (name, help, value) in values {
            let unit = Some(&Unit::Bytes);
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for node in &self.nodes {
                let Some(value) = value(node) else {
                    continue;
                };
                let labels: Vec<_> = node
                    .address
                    .iter()
                    .map(|at| ("node", at.as_str()))
                    .collect();
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn encode_histograms(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        for (at, (name, _, help)) in HISTOGRAMS.into_iter().enumerate() {
            let unit = Some(&Unit::Seconds);
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
            for queue in &self.queues {
                if let Some(told) = &queue.histograms[at] {
                    let labels = [("queue", &*queue.name)];
                    family
                        .encode_family(&labels)?
                        .encode_histogram::<NoLabelSet>(
                            told.sum,
                            told.count,
                            &told.buckets,
                            None,
                        )?;
                }
            }
        }
        Ok(())
    }

    fn encode_schedules(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let (name, unit) = ("schedule_next_timestamp", Some(&Unit::Seconds));
        let help = "When the next run of a schedule is, Unix time";
        let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for schedule in &self.schedules {
            if let Some(next) = schedule.next {
                ConstGauge::new(next).encode(family.encode_family(&schedule.labels())?)?;
            }
        }
        let help = "Runs left out, because the one before was not finished or the queue was full";
        let mut family =
            encoder.encode_descriptor("schedule_skipped", help, None, MetricType::Counter)?;
        for schedule in &self.schedules {
            let skipped = ConstCounter::new(schedule.skipped);
            skipped.encode(family.encode_family(&schedule.labels())?)?;
        }
        Ok(())
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
        self.encode_scrape(&mut encoder)?;
        if !self.up {
            return Ok(());
        }
        self.encode_nodes(&mut encoder)?;
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
        self.gauges(encoder, ("results", "Results kept", None), |queue| {
            queue.results
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
        self.encode_schedules(encoder)?;
        self.encode_histograms(encoder)
    }
}

/// A gauge without labels.
fn single(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(family)
}
