//! Consumers with nothing to do.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{json, Value};

use crate::{
    job::{default_poll_ms, System as Name},
    link::Link,
    ping::wait_for_end_of_input,
    systems::system,
};

/// Holds `consumers` that wait, or poll if the system knows no waiting, until standard input
/// closes. Prints a line when all stand.
#[derive(Debug, Deserialize)]
pub struct Idle {
    system: Name,
    consumers: usize,
    #[serde(default = "default_poll_ms")]
    poll_ms: u64,
}

impl Idle {
    pub fn run(self, port: u16) -> Value {
        let mut link = Link::open(port);
        let system = system(self.system, &mut link);
        system.prepare(&mut link);
        let mut links: Vec<_> = (0..self.consumers).map(|_| Link::open(port)).collect();
        let mut waits = true;
        for (consumer, link) in links.iter_mut().enumerate() {
            waits &= system.take_waiting(&mut link.batch, consumer, 0);
        }

        if waits {
            links.iter_mut().for_each(Link::send);
            println!("{}", json!({ "ready": true }));
            wait_for_end_of_input();
        } else {
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                for (consumer, link) in links.iter_mut().enumerate() {
                    let (system, stop) = (system.as_ref(), &stop);
                    scope.spawn(move || {
                        // Spread over the pause, as workers that started at different times are.
                        let spread = self.poll_ms * consumer as u64 / self.consumers as u64;
                        thread::sleep(Duration::from_millis(spread));
                        while !stop.load(Ordering::Relaxed) {
                            link.flush();
                            system.take_waiting(&mut link.batch, consumer, 0);
                            thread::sleep(Duration::from_millis(self.poll_ms));
                        }
                    });
                }
                println!("{}", json!({ "ready": true }));
                wait_for_end_of_input();
                stop.store(true, Ordering::Relaxed);
            });
        }
        json!({ "consumers": self.consumers })
    }
}
