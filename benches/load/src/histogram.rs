//! Latencies.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{json, Value};

/// Counts latencies to three digits, up to ten minutes.
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("valid bounds"))
    }

    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos.max(1));
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the same bounds");
    }

    /// Count and percentiles, in microseconds, and the curve of the distribution.
    pub fn summary(&self) -> Value {
        let at = |percent: f64| micros(self.0.value_at_percentile(percent));
        let curve: Vec<_> = CURVE
            .iter()
            .map(|percent| json!([percent, at(*percent)]))
            .collect();
        json!({
            "count": self.0.len(),
            "p50": at(50.0),
            "p99": at(99.0),
            "p999": at(99.9),
            "max": micros(self.0.max()),
            "curve": curve,
        })
    }
}

const CURVE: [f64; 16] = [
    1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99,
    100.0,
];

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}
