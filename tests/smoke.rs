//! The main path, for servers on which the whole contract does not run every time: with the shipped
//! configuration, in both protocols, over a restart and on a replica.

use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{call, digest, wait_until, ReplyExt, Server, Shutdown, PATIENCE};

fn work_through_one_message(conn: &mut Connection) {
    let added = call!(*conn, "MQ.ENQUEUE", "q", "payload", "ID", "a").unwrap();
    assert_eq!(added.items()[0].text(), "added");
    let refused = call!(*conn, "MQ.ENQUEUE", "q", "other", "ID", "a").unwrap();
    assert_eq!(refused.items()[0].text(), "queued");

    let delivery = call!(*conn, "MQ.DEQUEUE", "q").unwrap();
    let [id, payload, attempt, token, lock, _enqueued_at] = delivery.items() else {
        panic!("not a delivery: {delivery:?}");
    };
    assert_eq!((id.bytes(), payload.bytes()), (&b"a"[..], &b"payload"[..]));
    assert_eq!((attempt.int(), lock.int()), (1, 3_600_000));
    assert_eq!(
        call!(*conn, "MQ.STATUS", "q", "a").unwrap().text(),
        "locked"
    );

    let stale = call!(*conn, "MQ.DONE", "q", "a", token.int() - 1).unwrap_err();
    assert!(stale.starts_with("STALE "), "{stale}");
    assert_eq!(
        call!(*conn, "MQ.DONE", "q", "a", token.int())
            .unwrap()
            .text(),
        "done"
    );
    assert!(call!(*conn, "MQ.STATUS", "q", "a").unwrap().is_nil());
    assert!(call!(*conn, "MQ.DEQUEUE", "q").unwrap().is_nil());
}

#[test]
fn a_message_goes_its_way_in_both_protocols() {
    let server = Server::builder().shipped_conf().start();
    work_through_one_message(&mut server.conn());
    work_through_one_message(&mut server.conn_resp3());

    let info = call!(server.conn(), "MQ.INFO", "q").unwrap().fields();
    assert_eq!(info["total-done"].int(), 2);
    assert_eq!(info["messages"].int(), 0);
}

#[test]
fn a_blocked_consumer_is_served_by_the_next_message() {
    let server = Server::start();
    let mut waiting = server.wire();
    waiting.send(&["MQ.DEQUEUE", "q", "BLOCK", "0"]);
    server.wait_for_blocked(1);
    call!(server.conn(), "MQ.ENQUEUE", "q", "payload", "ID", "a").unwrap();
    assert_eq!(waiting.reply().unwrap().items()[0].text(), "a");
}

#[test]
fn a_queue_is_the_same_after_a_restart_and_on_a_replica() {
    let mut server = Server::builder().shipped_conf().start();
    let mut conn = server.conn();
    for (id, delay) in [("ready", 0), ("delayed", 3_600_000), ("locked", 0)] {
        call!(conn, "MQ.ENQUEUE", "q", "payload", "ID", id, "DELAY", delay).unwrap();
    }
    call!(conn, "MQ.DEQUEUE", "q").unwrap();
    let before = digest(&mut conn, "q");

    let replica = Server::start();
    replica.replica_of(&server);
    assert_eq!(digest(&mut replica.conn(), "q"), before);

    server.restart(Shutdown::NoSave);
    assert_eq!(digest(&mut server.conn(), "q"), before);
    replica.wait_for_sync(&server);
    wait_until(PATIENCE, || digest(&mut replica.conn(), "q") == before);
}
