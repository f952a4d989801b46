//! From the instant when a delay or a lock ends to the delivery at a consumer that waits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{json, Value};

use crate::{
    histogram::Latencies,
    link::{bytes, int, items, Link},
    systems::QUEUE,
};

/// What ends at the instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Delay,
    Lock,
}

/// Messages of the module whose instants lie `step_ms` apart, one after the other.
#[derive(Debug, Deserialize)]
pub struct Due {
    kind: Kind,
    count: u32,
    step_ms: u64,
}

/// From the last preparation to the first instant.
const LEAD_MS: u64 = 200;

impl Due {
    pub fn run(self, port: u16) -> Value {
        let mut link = Link::open(port);
        // Preparing one takes three round trips.
        let first = now_ms() + u64::from(self.count) + LEAD_MS;
        for seq in 0..self.count {
            self.prepare(&mut link, first + u64::from(seq) * self.step_ms);
        }
        assert!(
            now_ms() < first,
            "the machine is too slow to prepare in time"
        );

        let mut latencies = Latencies::new();
        for _ in 0..self.count {
            let wait: &[&[u8]] = &[b"MQ.DEQUEUE", QUEUE, b"BLOCK", b"30000"];
            let mut fields = items(link.call(wait)).into_iter();
            let arrived = now();
            let (id, payload) = (
                fields.next().expect("an id"),
                fields.next().expect("a payload"),
            );
            let token = int(&fields.nth(1).expect("a token")).to_string();
            let due = u64::from_le_bytes(bytes(payload)[..8].try_into().expect("8 bytes"));
            latencies.record(arrived.saturating_sub(Duration::from_millis(due)));
            link.call(&[b"MQ.DONE", QUEUE, &bytes(id), token.as_bytes()]);
        }
        json!({ "late": latencies.summary() })
    }

    /// Puts a message into the queue that becomes ready at that instant.
    fn prepare(&self, link: &mut Link, due: u64) {
        let payload = due.to_le_bytes();
        match self.kind {
            Kind::Delay => {
                let at = due.to_string();
                link.call(&[b"MQ.ENQUEUE", QUEUE, &payload, b"AT", at.as_bytes()]);
            }
            Kind::Lock => {
                link.call(&[b"MQ.ENQUEUE", QUEUE, &payload]);
                let left = due.saturating_sub(now_ms()).max(1).to_string();
                let reply = link.call(&[b"MQ.DEQUEUE", QUEUE, b"LOCK", left.as_bytes()]);
                let mut fields = items(reply).into_iter();
                let id = bytes(fields.next().expect("an id"));
                let token = int(&fields.nth(2).expect("a token")).to_string();
                let mut deadline = 0;
                // A lock is counted from when the server reads its clock: again, until it ends in
                // the millisecond that the payload names.
                while deadline != due {
                    let left = due.saturating_sub(now_ms()).max(1).to_string();
                    let words: &[&[u8]] =
                        &[b"MQ.EXTEND", QUEUE, &id, token.as_bytes(), left.as_bytes()];
                    deadline = u64::try_from(int(&link.call(words))).expect("an instant");
                }
            }
        }
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock past 1970")
}

fn now_ms() -> u64 {
    u64::try_from(now().as_millis()).expect("a year before 500 million")
}
