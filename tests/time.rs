//! Time moves messages on by itself, on the primary only; and the clock of the system may be stepped.
//!
//! A step forward ends at once what would have ended in the time that was skipped. After a step back
//! everything that was set lasts until the clock has caught up; what is set from then on counts from
//! the new time. Nothing is stuck, nothing is lost, and tokens and order do not go back.

mod faults;

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use faults::clock::Clock;
use faults::mix::assert_same_data;
use faults::{
    counter, dequeue, dequeue_many, done, enqueue, enqueue_many, ms, server_number, status,
    wait_for_status, Delivery,
};
use redis_mq_testkit::{
    call, digest, wait_until, Persistence, ReplyExt, Server, Shutdown, Wire, PATIENCE,
};

const HOUR_MS: i64 = 3_600_000;
const LONG_WAIT: &[&str] = &["BLOCK", "0", "LOCK", "360000000"];

fn with_clock() -> (Clock, Server) {
    let clock = Clock::new();
    let server = clock.for_server(Server::builder()).start();
    (clock, server)
}

/// Sets the clock and waits until the server has noticed: some look at it only now and then.
#[track_caller]
fn step(clock: &Clock, server: &Server, offset_ms: i64) {
    clock.set_ms(offset_ms);
    let mut conn = server.conn();
    wait_until(PATIENCE, || {
        let seconds = call!(conn, "TIME").unwrap().items()[0].text();
        let here = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis() as i64;
        let off = seconds.parse::<i64>().unwrap() * 1000 - (here + offset_ms);
        off.abs() < 10_000
    });
}

fn blocked_consumer(server: &Server, queue: &str, already: usize) -> Wire {
    let mut wire = server.wire();
    wire.send(&["MQ.DEQUEUE", queue, "BLOCK", "0", "LOCK", "360000000"]);
    server.wait_for_blocked(already + 1);
    wire
}

#[test]
fn a_step_forward_ends_locks_and_delays_for_consumers_that_wait() {
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

    step(&clock, &server, HOUR_MS);
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
    step(&clock, &server, 2 * HOUR_MS + 1000);
    assert_eq!(Delivery::of(&far.reply().unwrap()).name(), "d");
}

#[test]
fn after_a_step_back_old_locks_last_until_the_clock_has_caught_up() {
    let (clock, server) = with_clock();
    let mut conn = server.conn();
    step(&clock, &server, HOUR_MS);
    enqueue_many(&mut conn, "q", "old", 3, &[]);
    enqueue(&mut conn, "q", "delayed", &["DELAY", "60000"]);
    let old = dequeue_many(&mut conn, "q", 3, &["LOCK", "60000"]);
    done(&mut conn, "q", &old[1], &["BACKOFF", "60000"]).unwrap();
    step(&clock, &server, 0);

    // They hold, and their consumers can still end them.
    assert_eq!(status(&mut conn, "q", "old0").as_deref(), Some("locked"));
    assert_eq!(
        status(&mut conn, "q", "old1").as_deref(),
        Some("done-with-backoff")
    );
    assert_eq!(
        status(&mut conn, "q", "delayed").as_deref(),
        Some("queued-with-backoff")
    );
    assert_eq!(done(&mut conn, "q", &old[2], &[]).unwrap().text(), "done");
    assert_eq!(dequeue(&mut conn, "q", &[]), None);

    // What is new goes its way, by the new time, with newer tokens.
    enqueue(&mut conn, "q", "new", &[]);
    let new = dequeue(&mut conn, "q", &["LOCK", "50"]).unwrap();
    assert_eq!(new.name(), "new");
    assert!(
        new.token > old[2].token,
        "{} after {}",
        new.token,
        old[2].token
    );
    let again = dequeue(&mut conn, "q", LONG_WAIT).unwrap();
    assert_eq!((again.name(), again.attempt), ("new".to_string(), 2));
    enqueue(&mut conn, "q", "new-delayed", &["DELAY", "50"]);
    assert_eq!(
        dequeue(&mut conn, "q", LONG_WAIT).unwrap().name(),
        "new-delayed"
    );

    // The clock catches up: nothing is stuck.
    let mut waiters: Vec<_> = (0..2)
        .map(|number| blocked_consumer(&server, "q", number))
        .collect();
    step(&clock, &server, HOUR_MS + 70_000);
    let mut names: Vec<_> = waiters
        .iter_mut()
        .map(|wire| Delivery::of(&wire.reply().unwrap()).name())
        .collect();
    names.sort();
    assert_eq!(names, ["delayed", "old0"]);
    wait_for_status(&mut conn, "q", "old1", None);
}

#[test]
fn a_step_back_within_the_lifetime_of_a_timer_does_not_make_new_delays_late() {
    let (clock, server) = with_clock();
    let mut conn = server.conn();
    // A timer is armed for what is due first, by the old time …
    enqueue(&mut conn, "q", "old", &["DELAY", "60000"]);
    let mut first = blocked_consumer(&server, "q", 0);
    step(&clock, &server, -HOUR_MS);
    // … and by the new time this is due long before it.
    enqueue(&mut conn, "q", "new", &["DELAY", "100"]);
    assert_eq!(Delivery::of(&first.reply().unwrap()).name(), "new");
    enqueue(&mut conn, "other", "another", &["DELAY", "100"]);
    assert_eq!(
        dequeue(&mut conn, "other", LONG_WAIT).unwrap().name(),
        "another"
    );
    step(&clock, &server, 70_000);
    assert_eq!(dequeue(&mut conn, "q", LONG_WAIT).unwrap().name(), "old");
}

#[test]
fn the_order_of_messages_does_not_depend_on_the_clock() {
    let (clock, server) = with_clock();
    let mut conn = server.conn();
    for (number, offset) in [0, HOUR_MS, -HOUR_MS, 2 * HOUR_MS, 0]
        .into_iter()
        .enumerate()
    {
        step(&clock, &server, offset);
        enqueue(&mut conn, "q", &format!("m{number}"), &[]);
        let made = call!(conn, "MQ.ENQUEUE", "made", number).unwrap();
        assert_eq!(made.items()[0].text(), "added");
    }
    let (mut names, mut tokens) = (Vec::new(), Vec::new());
    for offset in [HOUR_MS, -HOUR_MS, 0, -2 * HOUR_MS, HOUR_MS] {
        step(&clock, &server, offset);
        let one = dequeue(&mut conn, "q", &["LOCK", "360000000"]).unwrap();
        names.push(one.name());
        tokens.push(one.token);
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4"]);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let made = dequeue_many(&mut conn, "made", 10, &[]);
    let payloads: Vec<_> = made.iter().map(|one| one.payload[0] - b'0').collect();
    assert_eq!(payloads, [0, 1, 2, 3, 4]);
    let ids: HashSet<_> = made.iter().map(|one| &one.id).collect();
    assert_eq!(ids.len(), 5, "made ids differ whatever the clock does");
}

#[test]
fn a_restart_with_the_clock_set_back_neither_loses_nor_repeats() {
    for persistence in Persistence::DURABLE {
        let clock = Clock::new();
        clock.set_ms(HOUR_MS);
        let mut server = clock
            .for_server(Server::builder())
            .persistence(persistence)
            .start();
        let mut conn = server.conn();
        enqueue_many(&mut conn, "q", "m", 3, &[]);
        let taken = dequeue_many(&mut conn, "q", 2, &["LOCK", "600000"]);
        server.shutdown(Shutdown::Save);
        clock.set_ms(0);
        server.start_again();
        let mut conn = server.conn();
        assert_eq!(done(&mut conn, "q", &taken[0], &[]).unwrap().text(), "done");
        let third = dequeue(&mut conn, "q", LONG_WAIT).unwrap();
        assert_eq!(third.name(), "m2");
        assert!(third.token > taken[1].token, "{persistence:?}");
        step(&clock, &server, 2 * HOUR_MS);
        let second = dequeue(&mut conn, "q", &["BLOCK", "0"]).unwrap();
        assert_eq!((second.name(), second.attempt), ("m1".to_string(), 2));
    }
}

#[test]
fn a_replica_with_a_wrong_clock_holds_the_same() {
    let (primary_clock, primary) = with_clock();
    let (replica_clock, replica) = with_clock();
    step(&replica_clock, &replica, HOUR_MS);
    let mut conn = primary.conn();
    enqueue_many(&mut conn, "q", "before", 5, &["DELAY", "1800000"]);
    replica.replica_of(&primary);
    enqueue_many(&mut conn, "q", "m", 20, &[]);
    let taken = dequeue_many(&mut conn, "q", 10, &["LOCK", "1800000"]);
    done(&mut conn, "q", &taken[0], &["BACKOFF", "1800000"]).unwrap();
    enqueue(&mut conn, "q", "last", &["ATTEMPTS", "1", "PRIORITY", "0"]);
    dequeue(&mut conn, "q", &["LOCK", "1800000"]).unwrap();
    assert_same_data(&primary, &[&replica]);
    // To the replica all of that is over; it acts on nothing of it.
    let state = digest(&mut replica.conn(), "q");
    let mut here = replica.conn();
    assert_eq!(status(&mut here, "q", "last").as_deref(), Some("dead"));
    assert_eq!(
        status(&mut here, "q", &taken[1].id).as_deref(),
        Some("queued")
    );
    for offset in [-HOUR_MS, 2 * HOUR_MS] {
        step(&replica_clock, &replica, offset);
        assert_eq!(
            done(&mut conn, "q", &taken[1], &["RETRY", "BACKOFF", "60000"]).is_ok(),
            offset < 0
        );
        enqueue(&mut conn, "q", &format!("at {offset}"), &[]);
        assert_same_data(&primary, &[&replica]);
    }
    assert_ne!(
        digest(&mut here, "q"),
        state,
        "the primary's steps still arrive"
    );
    step(&primary_clock, &primary, HOUR_MS);
    wait_until(PATIENCE, || counter(&mut conn, "q", "total-dead") == 1);
    assert_same_data(&primary, &[&replica]);
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
    clock.set_ms(HOUR_MS);
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
