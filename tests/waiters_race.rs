//! Serving a waiter and taking it away in the same instant: one reply each, and a message is locked
//! if and only if it was delivered.

mod common;

use std::thread;
use std::time::Duration;

use common::{contract_of_waiting, words, Client, Delivery, Lab, HOUR};
use redis_mq_testkit::{ReplyExt, Value};

/// Queues that take part at once, each with its waiter and its producer.
const QUEUES: usize = 64;

struct Lane {
    waiter: Client,
    producer: Client,
    queue: String,
}

impl Lane {
    /// Reads the waiter's reply; tells whether it was served.
    #[track_caller]
    fn settle(&mut self) -> bool {
        let got = self.waiter.reply().unwrap();
        assert_eq!(
            self.waiter.ok("PING").text(),
            "PONG",
            "one reply and no more"
        );
        self.check(&got)
    }

    /// The queue holds one message `a`: locked if `got` is its delivery, else never delivered.
    #[track_caller]
    fn check(&mut self, got: &Value) -> bool {
        let (producer, queue) = (&mut self.producer, &self.queue);
        let served = !got.is_nil();
        if served {
            let delivery = Delivery::read(got);
            assert_eq!((delivery.id().as_str(), delivery.attempt), ("a", 1));
            assert_eq!(producer.status(queue, "a").as_deref(), Some("locked"));
            assert_eq!(producer.done(queue, &delivery, ""), "done");
        } else {
            producer.wait_until_due(queue, "a");
            let info = producer.info(queue);
            assert_eq!(info.int("total-delivered"), 0, "locked without a delivery");
            let delivery = producer.take(queue);
            assert_eq!(delivery.attempt, 1);
            assert_eq!(producer.done(queue, &delivery, ""), "done");
        }
        let info = producer.info(queue);
        assert_eq!((info.int("messages"), info.int("total-delivered")), (0, 1));
        producer.ok(&format!("DEL {queue}"));
        served
    }
}

fn lanes(lab: &Lab<'_>) -> Vec<Lane> {
    let lane = || Lane {
        waiter: lab.client(),
        producer: lab.client(),
        queue: lab.queue(),
    };
    (0..QUEUES).map(|_| lane()).collect()
}

/// Runs thousands of races between the end of a wait and a message.
fn race(lab: &Lab<'_>, rounds: usize, run: impl Fn(usize, &mut [Lane])) {
    let mut lanes = lanes(lab);
    let (mut served, mut timed_out) = (0, 0);
    for round in 0..rounds {
        run(round, &mut lanes);
        for lane in &mut lanes {
            let outcome = lane.producer.reply().unwrap();
            assert_eq!(outcome.items()[0].text(), "added");
        }
        for lane in &mut lanes {
            if lane.settle() {
                served += 1;
            } else {
                timed_out += 1;
            }
        }
    }
    println!("{served} were served, {timed_out} timed out");
}

#[test]
fn the_end_of_the_wait_and_the_end_of_a_delay() {
    contract_of_waiting(|lab| {
        race(lab, 40, |round, lanes| {
            for lane in lanes {
                let queue = &lane.queue;
                let block = 3 + round % 3;
                let wait = lab.wait(queue, &format!("LOCK {HOUR} BLOCK {block}"));
                lane.waiter.send(&words(&wait));
                let enqueue = format!("MQ.ENQUEUE {queue} p ID a DELAY 4");
                lane.producer.send(&words(&enqueue));
            }
        });
    });
}

#[test]
fn the_end_of_the_wait_and_an_enqueue() {
    contract_of_waiting(|lab| {
        race(lab, 40, |round, lanes| {
            for lane in &mut *lanes {
                let wait = lab.wait(&lane.queue, &format!("LOCK {HOUR} BLOCK 3"));
                lane.waiter.send(&words(&wait));
            }
            // The producers' commands then arrive spread over the time of the timeouts.
            thread::sleep(Duration::from_micros(500 * (round as u64 % 7)));
            for lane in lanes {
                let enqueue = format!("MQ.ENQUEUE {} p ID a", lane.queue);
                lane.producer.send(&words(&enqueue));
            }
        });
    });
}

#[test]
fn the_end_of_the_wait_and_the_end_of_a_lock() {
    contract_of_waiting(|lab| {
        let mut lanes = lanes(lab);
        for round in 0..20 {
            for lane in &mut lanes {
                let queue = &lane.queue;
                lane.producer.enqueue(queue, "p", "ID a");
                let holder = lane.producer.take(queue);
                let block = 4 + round % 3;
                let wait = lab.wait(queue, &format!("LOCK {HOUR} BLOCK {block}"));
                lane.waiter.send(&words(&wait));
                lane.producer.extend(queue, &holder, 5).unwrap();
            }
            for lane in &mut lanes {
                let got = lane.waiter.reply().unwrap();
                assert_eq!(lane.waiter.ok("PING").text(), "PONG");
                let (producer, queue) = (&mut lane.producer, &lane.queue);
                let next = if got.is_nil() {
                    producer.wait_until_due(queue, "a");
                    assert_eq!(producer.info(queue).int("total-delivered"), 1);
                    producer.take(queue)
                } else {
                    Delivery::read(&got)
                };
                assert_eq!(next.attempt, 2);
                assert_eq!(producer.done(queue, &next, ""), "done");
                producer.ok(&format!("DEL {queue}"));
            }
        }
    });
}

#[test]
fn unblock_and_enqueue_in_one_breath() {
    contract_of_waiting(|lab| {
        let mut lanes = lanes(lab);
        for round in 0..10 {
            for lane in &mut lanes {
                let wait = lab.wait(&lane.queue, &format!("LOCK {HOUR} BLOCK 0"));
                lane.waiter.send(&words(&wait));
            }
            for lane in &mut lanes {
                while !lab.is_blocked(&lane.waiter) {
                    thread::yield_now();
                }
                let unblock = format!("CLIENT UNBLOCK {}\r\n", lane.waiter.id);
                let enqueue = format!("MQ.ENQUEUE {} p ID a\r\n", lane.queue);
                let unblock_first = round % 2 == 0;
                let both = if unblock_first {
                    unblock + &enqueue
                } else {
                    enqueue + &unblock
                };
                lane.producer.send_bytes(both.as_bytes());
                for _ in 0..2 {
                    lane.producer.reply().unwrap();
                }
                assert!(
                    !(lane.settle() && unblock_first),
                    "served after it was unblocked"
                );
            }
        }
    });
}

#[test]
fn kill_and_enqueue_in_one_breath() {
    contract_of_waiting(|lab| {
        for _ in 0..100 {
            let (mut producer, queue) = (lab.client(), lab.queue());
            let waiter = lab.waiter(&queue, "BLOCK 0");
            let kill = format!("CLIENT KILL ID {}\r\n", waiter.id);
            let enqueue = format!("MQ.ENQUEUE {queue} p ID a\r\n");
            producer.send_bytes((kill + &enqueue).as_bytes());
            for _ in 0..2 {
                producer.reply().unwrap();
            }
            lab.wait_until_gone(waiter.id);
            let mut lane = Lane {
                waiter,
                producer,
                queue,
            };
            lane.check(&Value::Nil);
        }
    });
}
