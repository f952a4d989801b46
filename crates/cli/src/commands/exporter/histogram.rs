//! A histogram of MQ.LATENCY as Prometheus has them.

use redis_mq_client::redis::Value;

use crate::reply::{self, Fields};

/// Bounds are 1 ms and its doubles, up to 2^23 ms, which is more than two hours. The server's buckets
/// begin at the same instants, so nothing is estimated. It measures in whole milliseconds: what took
/// less than 2^n ms is at most 2^n - 1 there.
const POWERS: std::ops::Range<u32> = 0..24;

/// How many took how long.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    /// The sum of all, in seconds.
    pub sum: f64,
    /// How many there are.
    pub count: u64,
    /// Upper bounds in seconds, each with how many there are between it and the one before.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    /// Reads `wait` or `work` of the reply.
    pub fn read(value: &Value) -> Option<Self> {
        let fields = Fields::read(value)?;
        let buckets = reply::items(fields.value("buckets")?)?;
        let told: Vec<(u64, u64)> = buckets.iter().map(bucket).collect::<Option<_>>()?;
        let count = fields.count("count");
        let mut buckets = Vec::new();
        let mut below = 0;
        for power in POWERS {
            let bound_ms = 1_u64 << power;
            let up_to = told.partition_point(|(longest, _)| *longest < bound_ms);
            let all = up_to.checked_sub(1).map_or(0, |last| told[last].1);
            buckets.push((bound_ms as f64 / 1_000.0, all.saturating_sub(below)));
            below = all;
        }
        buckets.push((f64::INFINITY, count.saturating_sub(below)));
        Some(Self {
            sum: fields.count("sum-ms") as f64 / 1_000.0,
            count,
            buckets,
        })
    }
}

fn bucket(pair: &Value) -> Option<(u64, u64)> {
    match reply::items(pair)? {
        [longest, count] => Some((reply::unsigned(longest)?, reply::unsigned(count)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(buckets: &[(i64, i64)], count: i64, sum_ms: i64) -> Value {
        let name = |text: &str| Value::BulkString(text.into());
        let pairs = buckets
            .iter()
            .map(|(longest, count)| Value::Array(vec![Value::Int(*longest), Value::Int(*count)]));
        Value::Map(vec![
            (name("count"), Value::Int(count)),
            (name("sum-ms"), Value::Int(sum_ms)),
            (name("buckets"), Value::Array(pairs.collect())),
        ])
    }

    #[test]
    fn times_are_below_the_bound_they_are_counted_under() {
        // Two of 0 ms, one of 1, one of 9, and one of four hours.
        let server = told(&[(0, 2), (1, 3), (9, 4), (16_777_215, 5)], 5, 14_400_010);
        let histogram = Histogram::read(&server).unwrap();
        let some: Vec<_> = histogram.buckets.iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(
            some,
            [&(0.001, 2), &(0.002, 1), &(0.016, 1), &(f64::INFINITY, 1)]
        );
        assert_eq!((histogram.count, histogram.sum), (5, 14_400.010));
        assert_eq!(histogram.buckets.len(), 25);
    }

    #[test]
    fn nothing_measured_is_a_histogram_too_and_nonsense_is_none() {
        let empty = Histogram::read(&told(&[], 0, 0)).unwrap();
        assert!(empty.buckets.iter().all(|(_, count)| *count == 0));
        assert!(Histogram::read(&told(&[(-1, 2)], 2, 2)).is_none());
        assert!(Histogram::read(&Value::Int(7)).is_none());
    }
}
