//! Consumers that are cut off between the server's delivery and their reading of it: every message
//! comes back after its lock, and what went in comes out.

mod common;

use std::collections::BTreeMap;
use std::thread;

use common::{contract, words, HOUR};

const MESSAGES: usize = 300;
/// Cut connections per protocol.
const CUTS: usize = 5000;

#[test]
fn cut_off_consumers_lose_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..MESSAGES {
            client.enqueue(&queue, n.to_string(), &format!("ID {n}"));
        }
        // They take one or several messages, waiting or not, and go at once.
        thread::scope(|scope| {
            for worker in 0..2 {
                let queue = &queue;
                scope.spawn(move || {
                    for n in 0..CUTS / 2 {
                        let options = ["", "COUNT 3", "BLOCK 1", "BLOCK 0", "EOQ"][n % 5];
                        let lock = 1 + (n * 7 + worker) % 40;
                        let line = format!("MQ.DEQUEUE {queue} LOCK {lock} {options}");
                        let mut consumer = lab.server.wire();
                        consumer.send(&words(&line));
                        if n % 3 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
        });

        let mut done = BTreeMap::new();
        while done.len() < MESSAGES {
            let options = format!("LOCK {HOUR} BLOCK {HOUR}");
            for delivery in client.dequeue_many(&queue, 50, &options) {
                assert_eq!(delivery.id, delivery.payload);
                assert_eq!(client.done(&queue, &delivery, ""), "done");
                let again = done.insert(delivery.id(), delivery.attempt);
                assert_eq!(again, None, "{} came twice", delivery.id());
            }
        }
        let info = client.info(&queue);
        assert_eq!(info.int("messages"), 0);
        assert_eq!(info.int("total-done"), MESSAGES as i64);
        // Each lost delivery is an expired lock and an attempt; nothing else is.
        let attempts: i64 = done.values().sum();
        assert_eq!(info.int("total-delivered"), attempts);
        assert_eq!(info.int("total-expired-locks"), attempts - MESSAGES as i64);
        assert!(attempts > MESSAGES as i64, "no delivery was lost");
    });
}
