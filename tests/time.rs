//! Time moves messages on by itself, on the primary only, also while the machine was asleep. That the
//! system's clock may be set is the matter of `clock.rs`.

mod faults;

use faults::clock::Clock;
use faults::{
    counter, dequeue, dequeue_many, done, enqueue, enqueue_many, ms, server_number, status,
    Delivery,
};
use redis_mq_testkit::{call, wait_until, ReplyExt, Server, Wire, PATIENCE};

const HOUR_MS: i64 = 3_600_000;

fn with_clock() -> (Clock, Server) {
    let clock = Clock::new();
    let server = clock.for_server(Server::builder()).start();
    (clock, server)
}

fn blocked_consumer(server: &Server, queue: &str, already: usize) -> Wire {
    let mut wire = server.wire();
    wire.send(&["MQ.DEQUEUE", queue, "BLOCK", "0", "LOCK", "360000000"]);
    server.wait_for_blocked(already + 1);
    wire
}

#[test]
fn what_ends_while_the_machine_sleeps_is_for_consumers_that_wait() {
    let (clock, server) = with_clock();
    let mut conn = server.conn();
    enqueue(&mut conn, "held", "a", &[]);
    let held = dequeue(&mut conn, "held", &["LOCK", "1800000"]).unwrap();
    enqueue(&mut conn, "delayed", "b", &["DELAY", "1800000"]);
    enqueue(&mut conn, "retried", "c", &[]);
    let retried = dequeue(&mut conn, "retried", &[]).unwrap();
    done(
        &mut conn,
        "retried",
        &retried,
        &["RETRY", "BACKOFF", "1800000"],
    )
    .unwrap();
    enqueue(&mut conn, "far", "d", &["DELAY", "7200000"]);
    let mut waiters = ["held", "delayed", "retried"]
        .into_iter()
        .enumerate()
        .map(|(number, queue)| blocked_consumer(&server, queue, number))
        .collect::<Vec<_>>();
    let mut far = blocked_consumer(&server, "far", 3);

    clock.sleep_ms(HOUR_MS);
    let got: Vec<_> = waiters
        .iter_mut()
        .map(|wire| Delivery::of(&wire.reply().unwrap()))
        .collect();
    let seen: Vec<_> = got.iter().map(|one| (one.name(), one.attempt)).collect();
    let expected = [("a", 2), ("b", 1), ("c", 2)];
    assert_eq!(
        seen,
        expected.map(|(id, attempt)| (id.to_string(), attempt))
    );
    assert!(got[0].token > held.token && got[2].token > retried.token);
    assert!(done(&mut conn, "held", &held, &[])
        .unwrap_err()
        .starts_with("STALE "));
    assert!(
        !far.has_reply_within(ms(20)),
        "an hour is left of that delay"
    );
    clock.sleep_ms(2 * HOUR_MS + 1000);
    assert_eq!(Delivery::of(&far.reply().unwrap()).name(), "d");
}

#[test]
fn ended_dedupe_windows_are_swept_by_the_thousand_without_any_consumer() {
    let server = Server::start();
    let mut conn = server.conn();
    let baseline = used_memory(&server);
    const COUNT: usize = 50_000;
    enqueue_many(&mut conn, "q", "m", COUNT, &["PRIORITY", "3"]);
    let most = used_memory(&server) - baseline;
    let taken = dequeue_many(&mut conn, "q", COUNT, &[]);
    for chunk in taken.chunks(5_000) {
        let mut pipeline = redis_mq_testkit::redis::pipe();
        for one in chunk {
            pipeline
                .cmd("MQ.DONE")
                .arg("q")
                .arg(&one.id)
                .arg(one.token)
                .arg("BACKOFF")
                .arg(200);
            pipeline.ignore();
        }
        pipeline.exec(&mut conn).unwrap();
    }
    drop(conn);
    // From here on only MQ.INFO is called, which reads.
    let mut conn = server.conn();
    wait_until(PATIENCE, || counter(&mut conn, "q", "messages") == 0);
    assert_eq!(counter(&mut conn, "q", "total-done"), COUNT as i64);
    let left = used_memory(&server) - baseline;
    assert!(left < most / 10, "{left} of {most} bytes are left");
}

#[test]
fn expired_locks_of_last_attempts_become_dead_letters_by_themselves() {
    let server = Server::builder()
        .config("notify-keyspace-events", "Kd")
        .start();
    let mut conn = server.conn();
    let mut listener = server.wire();
    listener.call(&["SUBSCRIBE", "__keyspace@0__:q"]).unwrap();
    enqueue_many(&mut conn, "q", "m", 10, &["ATTEMPTS", "1"]);
    assert_eq!(dequeue_many(&mut conn, "q", 10, &["LOCK", "50"]).len(), 10);
    drop(conn);
    // Nobody asks for anything: the event tells that it was done.
    loop {
        let event = listener.reply().unwrap();
        if event.items()[2].text() == "mq.dead" {
            break;
        }
    }
    let mut conn = server.conn();
    wait_until(PATIENCE, || counter(&mut conn, "q", "total-dead") == 10);
    assert_eq!(counter(&mut conn, "q", "dead"), 10);
}

#[test]
fn time_acts_in_databases_and_under_names_that_queues_came_by_later() {
    let server = Server::start();
    let mut conn = server.conn();
    let lose = |queue: &str, conn: &mut redis_mq_testkit::redis::Connection| {
        enqueue(conn, queue, "m", &["ATTEMPTS", "1"]);
        dequeue(conn, queue, &["LOCK", "80"]).unwrap();
    };
    lose("renamed", &mut conn);
    call!(conn, "RENAME", "renamed", "new name").unwrap();
    lose("moved", &mut conn);
    call!(conn, "MOVE", "moved", 3).unwrap();
    lose("copied", &mut conn);
    call!(conn, "COPY", "copied", "copy").unwrap();
    call!(conn, "COPY", "copied", "copied", "DB", 4).unwrap();
    lose("dumped", &mut conn);
    let dump = call!(conn, "DUMP", "dumped").unwrap();
    call!(conn, "DEL", "dumped").unwrap();
    call!(conn, "RESTORE", "restored", 0, dump.bytes()).unwrap();
    call!(conn, "SELECT", 7).unwrap();
    lose("swapped", &mut conn);
    call!(conn, "SWAPDB", 7, 8).unwrap();
    call!(conn, "SELECT", 0).unwrap();
    call!(conn, "DEBUG", "RELOAD").unwrap();
    for (database, queue) in [
        (0, "new name"),
        (3, "moved"),
        (0, "copied"),
        (0, "copy"),
        (4, "copied"),
        (0, "restored"),
        (8, "swapped"),
    ] {
        call!(conn, "SELECT", database).unwrap();
        wait_until(PATIENCE, || counter(&mut conn, queue, "total-dead") == 1);
    }
}

#[test]
fn a_delay_ten_times_the_lock_is_delivered_once_when_it_is_due() {
    let (clock, server) = with_clock();
    let mut conn = server.conn();
    let mut waiters: Vec<_> = (0..4).map(|_| server.wire()).collect();
    for wire in &mut waiters {
        wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0", "LOCK", "360000"]);
    }
    server.wait_for_blocked(4);
    enqueue(&mut conn, "q", "m", &["DELAY", &HOUR_MS.to_string()]);
    let due = call!(conn, "MQ.GET", "q", "m").unwrap().fields()["due-at"].int();
    clock.sleep_ms(HOUR_MS);
    wait_until(PATIENCE, || counter(&mut conn, "q", "total-delivered") == 1);
    assert_eq!(status(&mut conn, "q", "m").as_deref(), Some("locked"));
    server.wait_for_blocked(3);
    // The others get the next ones, one each.
    enqueue_many(&mut conn, "q", "next", 3, &[]);
    let got: Vec<_> = waiters
        .iter_mut()
        .map(|wire| Delivery::of(&wire.reply().unwrap()))
        .collect();
    assert!(got.iter().all(|one| one.attempt == 1), "{got:?}");
    let mut names: Vec<_> = got.iter().map(Delivery::name).collect();
    names.sort();
    assert_eq!(names, ["m", "next0", "next1", "next2"]);
    let first = got.iter().find(|one| one.name() == "m").unwrap();
    assert!(first.token / 1000 >= due, "never early");
    assert_eq!(counter(&mut conn, "q", "total-delivered"), 4);
}

fn used_memory(server: &Server) -> i64 {
    server_number(server, "memory", "used_memory")
}
