//! A slot that moves atomically while its queue is worked on: what is written meanwhile reaches the new
//! primary as it would reach a replica, and nothing of it is decided a second time.

mod faults;

use std::collections::BTreeMap;
use std::thread;

use faults::{counter, dequeue, done, enqueue_many, Delivery, LONG_MS};
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{call, wait_until, Cluster, ReplyExt, ServerBuilder, PATIENCE};

const QUEUE: &str = "queue";

/// What a client was told while the slot moved.
#[derive(Default)]
struct Told {
    added: i64,
    delivered: i64,
    done: i64,
    /// The newest delivery of each message that was not finished.
    held: BTreeMap<Vec<u8>, Delivery>,
    refused: String,
}

/// Enqueues, takes and finishes until the server sends it elsewhere. One of ten locks ends at once.
fn work_until_moved(conn: &mut Connection) -> Told {
    let mut told = Told::default();
    for number in 0.. {
        // Ids of the server's own and of clients, which are replicated differently.
        let id = format!("id {number}");
        let options: &[&str] = if number % 2 == 0 { &["ID", &id] } else { &[] };
        match call!(*conn, "MQ.ENQUEUE", QUEUE, "payload", options) {
            Ok(_) => told.added += 1,
            Err(error) => told.refused = error,
        }
        let lock = if number % 10 == 0 { 1 } else { LONG_MS };
        match call!(*conn, "MQ.DEQUEUE", QUEUE, "LOCK", lock) {
            Ok(reply) if reply.is_nil() => continue,
            Ok(reply) => {
                told.delivered += 1;
                let delivery = Delivery::of(&reply);
                told.held.insert(delivery.id.clone(), delivery.clone());
                if number % 3 != 0 {
                    let ended = done(conn, QUEUE, &delivery, &[]);
                    match ended.map(|reply| reply.text()) {
                        Ok(_) => {
                            told.done += 1;
                            told.held.remove(&delivery.id);
                        }
                        Err(error) => told.refused = error,
                    }
                }
            }
            Err(error) => told.refused = error,
        }
        if !told.refused.is_empty() {
            break;
        }
    }
    told
}

#[test]
fn what_is_done_while_a_slot_moves_atomically_moves_with_it() {
    let cluster = Cluster::start_with(3, 0, ServerBuilder::new());
    let from = cluster.owner(QUEUE);
    if !from.version().is_valkey(9, 0) {
        return; // this server has no atomic migration
    }
    let to = cluster
        .primaries()
        .iter()
        .find(|one| one.port() != from.port())
        .expect("there are three");
    let (mut here, mut there) = (from.conn(), to.conn());
    // Something to copy, so that the work goes on beside the copy.
    const DELAYED: i64 = 20_000;
    let long = LONG_MS.to_string();
    enqueue_many(
        &mut here,
        QUEUE,
        "delayed",
        DELAYED as usize,
        &["DELAY", &long],
    );

    let mut conn = from.conn();
    let worker = thread::spawn(move || work_until_moved(&mut conn));
    wait_until(PATIENCE, || counter(&mut here, QUEUE, "total-done") > 200);
    let slot = cluster.slot(QUEUE);
    let target = Cluster::node_id(to);
    call!(
        here,
        "CLUSTER",
        "MIGRATESLOTS",
        "SLOTSRANGE",
        slot,
        slot,
        "NODE",
        target
    )
    .unwrap();
    let told = worker.join().expect("the worker is sent away in the end");
    let moved = format!("MOVED {slot} 127.0.0.1:{}", to.port());
    assert_eq!(told.refused, moved);
    wait_until(PATIENCE, || call!(there, "MQ.INFO", QUEUE).is_ok());

    let mut count = |name| counter(&mut there, QUEUE, name);
    assert_eq!(count("total-enqueued"), DELAYED + told.added);
    assert_eq!(count("total-delivered"), told.delivered);
    assert_eq!(count("total-done"), told.done);
    assert_eq!(count("messages"), DELAYED + told.added - told.done);
    assert_eq!(count("queued-with-backoff"), DELAYED);
    let newest = told.held.values().map(|delivery| delivery.token).max();
    for delivery in told.held.values() {
        let ended = done(&mut there, QUEUE, delivery, &["RETRY"]);
        assert_eq!(ended.map(|reply| reply.text()), Ok("queued".to_string()));
    }
    let next = dequeue(&mut there, QUEUE, &[]).expect("what was given back");
    assert!(Some(next.token) > newest, "tokens go on");
}
