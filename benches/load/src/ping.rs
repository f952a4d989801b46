//! Another client: does the server still answer at once?

use std::{
    io::Read,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{json, Value};

use crate::{histogram::Latencies, link::Link};

/// One PING every `every_us`, until standard input closes. A ping that could not be sent in time
/// because the one before it was still unanswered counts from when it was due: a stall of ten
/// milliseconds is seen by all who would have called meanwhile.
#[derive(Debug, Deserialize)]
pub struct Ping {
    every_us: u64,
}

impl Ping {
    pub fn run(self, port: u16) -> Value {
        let stop = AtomicBool::new(false);
        let latencies = thread::scope(|scope| {
            let pinger = scope.spawn(|| self.ping(Link::open(port), &stop));
            wait_for_end_of_input();
            stop.store(true, Ordering::Relaxed);
            pinger.join().expect("the pinger")
        });
        json!({ "ping": latencies.summary() })
    }

    fn ping(&self, mut link: Link, stop: &AtomicBool) -> Latencies {
        let mut latencies = Latencies::new();
        let every = Duration::from_micros(self.every_us);
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let start = if now < due {
                thread::sleep(due - now);
                Instant::now()
            } else {
                due
            };
            link.call(&[b"PING"]);
            latencies.record(start.elapsed());
            due += every;
        }
        latencies
    }
}

/// Returns when whoever started this process has closed its standard input.
pub fn wait_for_end_of_input() {
    // What it says is of no interest, and a failing read is an end too.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
