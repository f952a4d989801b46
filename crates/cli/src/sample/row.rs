//! A queue as it is shown, and what rows are put in order by.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use crate::reply::Fields;

/// A queue as it is shown.
#[derive(Debug, Clone)]
pub struct Row {
    /// The key.
    pub name: Vec<u8>,
    /// The newest reply to MQ.INFO; none before the first one.
    pub info: Option<Arc<Fields>>,
    /// How old that is.
    pub age: Duration,
    /// Why the server does not tell.
    pub refused: Option<String>,
    /// Messages enqueued in a second; none before there are two samples.
    pub rate_in: Option<f64>,
    /// Messages done in a second.
    pub rate_out: Option<f64>,
    /// How many were ready, the oldest sample first.
    pub ready_before: Vec<u64>,
}

impl Row {
    /// A count of MQ.INFO.
    pub fn count(&self, field: &str) -> u64 {
        self.info.as_ref().map_or(0, |info| info.count(field))
    }

    /// How many are with consumers.
    pub fn locked(&self) -> u64 {
        self.count("locked") + self.count("locked-with-requeue")
    }

    /// How long the oldest ready message waits.
    pub fn oldest_ms(&self) -> Option<u64> {
        (self.count("queued") > 0).then(|| self.count("oldest-queued-ms"))
    }

    /// Whether deliveries are stopped.
    pub fn is_paused(&self) -> bool {
        self.count("paused") == 1
    }
}

/// What rows are put in order by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The name, from a on.
    Name,
    /// Most ready ones first, and so on.
    Ready,
    /// Waiting for their time.
    Delayed,
    /// With consumers.
    Locked,
    /// Dead letters.
    Dead,
    /// The age of the oldest ready one.
    Oldest,
    /// Enqueued in a second.
    In,
    /// Done in a second.
    Out,
}

impl Order {
    /// All of them with their words.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Name, "queue"),
        (Self::Ready, "ready"),
        (Self::Delayed, "delayed"),
        (Self::Locked, "locked"),
        (Self::Dead, "dead"),
        (Self::Oldest, "oldest"),
        (Self::In, "in"),
        (Self::Out, "out"),
    ];

    /// Which of two rows comes first.
    pub fn compare(self, one: &Row, other: &Row) -> Ordering {
        let rate = |rate: Option<f64>| rate.unwrap_or(-1.0);
        match self {
            Self::Name => Ordering::Equal,
            Self::Ready => other.count("queued").cmp(&one.count("queued")),
            Self::Delayed => {
                let delayed = |row: &Row| row.count("queued-with-backoff");
                delayed(other).cmp(&delayed(one))
            }
            Self::Locked => other.locked().cmp(&one.locked()),
            Self::Dead => other.count("dead").cmp(&one.count("dead")),
            Self::Oldest => other.oldest_ms().cmp(&one.oldest_ms()),
            Self::In => rate(other.rate_in).total_cmp(&rate(one.rate_in)),
            Self::Out => rate(other.rate_out).total_cmp(&rate(one.rate_out)),
        }
    }
}
