//! A queue that is empty for a while gives back what it held for its messages, and works on as if it
//! had never rested.

mod faults;

use faults::{builder, counter, dequeue, done, enqueue, Delivery};
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{call, wait_until, ReplyExt, PATIENCE};

/// An empty queue takes so many bytes at most, its key included.
const MOST: i64 = 400;

/// Lets one message through the queue; returns its token.
fn empty_again(conn: &mut Connection, queue: &str) -> i64 {
    enqueue(conn, queue, "only", &[]);
    let delivery = dequeue(conn, queue, &[]).expect("it was just enqueued");
    done(conn, queue, &delivery, &[]).expect("the token is right");
    delivery.token
}

fn usage(conn: &mut Connection, queue: &str) -> i64 {
    call!(*conn, "MEMORY", "USAGE", queue).unwrap().int()
}

#[track_caller]
fn wait_for_rest(conn: &mut Connection, queue: &str) {
    wait_until(PATIENCE, || usage(conn, queue) <= MOST);
}

#[test]
fn an_empty_queue_takes_at_most_400_bytes_on_every_server() {
    let primary = builder().start();
    let replica = builder().start();
    replica.replica_of(&primary);
    replica.wait_for_sync(&primary);
    let mut conn = primary.conn();
    empty_again(&mut conn, "q");
    assert!(usage(&mut conn, "q") > MOST, "it was used just now");
    wait_for_rest(&mut conn, "q");
    let mut there = replica.conn();
    wait_until(PATIENCE, || counter(&mut there, "q", "total-done") == 1);
    wait_for_rest(&mut there, "q");
    call!(conn, "DEBUG", "RELOAD").unwrap();
    assert!(usage(&mut conn, "q") <= MOST, "it is read at rest");
    call!(conn, "COPY", "q", "copy").unwrap();
    assert!(usage(&mut conn, "copy") <= MOST);
}

#[test]
fn queues_that_are_emptied_again_and_again_come_to_rest_in_the_end() {
    let server = builder().start();
    let mut conn = server.conn();
    for _ in 0..1_000 {
        empty_again(&mut conn, "q");
    }
    // Asking for messages is no rest either, and leaves it empty.
    assert!(dequeue(&mut conn, "q", &[]).is_none());
    wait_for_rest(&mut conn, "q");
    assert!(dequeue(&mut conn, "q", &[]).is_none());
    wait_for_rest(&mut conn, "q");
}

#[test]
fn after_its_rest_a_queue_is_what_it_was() {
    let primary = builder().start();
    let replica = builder().start();
    replica.replica_of(&primary);
    replica.wait_for_sync(&primary);
    let mut conn = primary.conn();
    let token = empty_again(&mut conn, "q");
    call!(conn, "MQ.LIMIT", "q", "LENGTH", 2).unwrap();
    call!(conn, "MQ.PAUSE", "q").unwrap();
    let dump = |conn: &mut Connection| call!(*conn, "DUMP", "q").unwrap();
    let digest = |conn: &mut Connection| call!(*conn, "DEBUG", "DIGEST-VALUE", "q").unwrap();
    let before = (dump(&mut conn), digest(&mut conn));
    wait_for_rest(&mut conn, "q");
    assert_eq!((dump(&mut conn), digest(&mut conn)), before);
    assert_eq!(counter(&mut conn, "q", "total-done"), 1);
    assert_eq!(counter(&mut conn, "q", "paused-until"), 0);

    enqueue(&mut conn, "q", "a", &[]);
    enqueue(&mut conn, "q", "b", &[]);
    let refused = call!(conn, "MQ.ENQUEUE", "q", "p").unwrap_err();
    assert!(refused.starts_with("FULL "), "{refused}");
    assert!(dequeue(&mut conn, "q", &[]).is_none(), "it is paused");
    call!(conn, "MQ.RESUME", "q").unwrap();
    let next = dequeue(&mut conn, "q", &[]).unwrap();
    assert!(next.token > token);
    assert_eq!(counter(&mut conn, "q", "total-enqueued"), 3);
    let mut there = replica.conn();
    wait_until(PATIENCE, || digest(&mut there) == digest(&mut conn));
}

#[test]
fn a_consumer_that_waits_at_a_queue_at_rest_is_served_at_once() {
    let server = builder().start();
    let mut conn = server.conn();
    empty_again(&mut conn, "q");
    wait_for_rest(&mut conn, "q");
    let mut waiter = server.wire();
    waiter.send(&["MQ.DEQUEUE", "q", "BLOCK", "0"]);
    server.wait_for_blocked(1);
    wait_for_rest(&mut conn, "q");
    enqueue(&mut conn, "q", "next", &[]);
    let delivery = Delivery::of(&waiter.reply().unwrap());
    assert_eq!(delivery.name(), "next");
}
