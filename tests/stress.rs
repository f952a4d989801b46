//! Very many at once: locks that end together, huge counts, huge queues that go away, many consumers.
//! Checked for being right; how fast it is, the benchmarks tell.

mod faults;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use faults::{
    counter, counters, dequeue, dequeue_many, done, enqueue, enqueue_many, rounds, server_number,
    Delivery, LONG_MS,
};
use redis_mq_testkit::redis::{self, Connection};
use redis_mq_testkit::{call, wait_until, ReplyExt, Server, PATIENCE};

/// Does something while another client pings, and gives the number of its PINGs and the longest.
fn while_pinging<R>(server: &Server, work: impl FnOnce() -> R) -> (R, usize, Duration) {
    let (begun, stop) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let pinger = scope.spawn(|| {
            let mut conn = server.conn();
            let (mut count, mut longest) = (0, Duration::ZERO);
            begun.wait();
            // One is asked for at least, however late this thread gets its turn.
            while count == 0 || !stop.load(Ordering::SeqCst) {
                let asked = Instant::now();
                call!(conn, "PING").expect("the server answers");
                longest = longest.max(asked.elapsed());
                count += 1;
            }
            (count, longest)
        });
        begun.wait();
        let result = work();
        stop.store(true, Ordering::SeqCst);
        let (count, longest) = pinger.join().expect("the server answers each PING");
        (result, count, longest)
    })
}

/// The commands in the slow log that are the module's own.
fn slow_commands(conn: &mut Connection) -> Vec<String> {
    let log = call!(*conn, "SLOWLOG", "GET", 100).unwrap();
    let command = |entry: &redis_mq_testkit::Value| entry.items()[3].items()[0].text();
    let all = log.items().iter().map(command);
    all.map(|name| name.to_ascii_lowercase())
        .filter(|name| name.starts_with("mq."))
        .collect()
}

#[test]
fn fifty_thousand_locks_that_end_in_one_millisecond_all_come_back_once() {
    const COUNT: usize = 50_000;
    let server = Server::builder()
        .config("notify-keyspace-events", "Kd")
        .start();
    let mut conn = server.conn();
    enqueue_many(&mut conn, "q", "m", COUNT, &[]);
    let taken = dequeue_many(&mut conn, "q", COUNT, &["LOCK", "500"]);
    assert_eq!(taken.len(), COUNT);
    call!(conn, "SLOWLOG", "RESET").unwrap();
    let (all, pings, longest) = while_pinging(&server, || {
        let mut all: Vec<Delivery> = Vec::new();
        while all.len() < COUNT {
            let some = ["BLOCK", "0", "LOCK", "36000000"];
            let some = dequeue_many(&mut conn, "q", 10_000, &some);
            assert!(!some.is_empty());
            all.extend(some);
        }
        all
    });
    println!("{pings} pings, the longest {longest:?}");
    assert!(all.iter().all(|one| one.attempt == 2));
    let ids: HashSet<_> = all.iter().map(|one| &one.id).collect();
    let tokens: HashSet<_> = taken.iter().chain(&all).map(|one| one.token).collect();
    assert_eq!((ids.len(), tokens.len()), (COUNT, 2 * COUNT));
    let order: Vec<_> = all.iter().take(COUNT).map(Delivery::name).collect();
    let expected: Vec<_> = taken.iter().map(Delivery::name).collect();
    assert!(
        order == expected,
        "locks that end together give back in their order"
    );
    let info = counters(&mut conn, "q");
    assert_eq!(info["total-expired-locks"], COUNT as i64);
    assert_eq!((info["locked"], info["queued"]), (COUNT as i64, 0));
    // Only what was asked for by a client can be in the slow log: time's own work is no command.
    let slow = slow_commands(&mut conn);
    assert!(slow.iter().all(|name| name == "mq.dequeue"), "{slow:?}");
}

#[test]
fn fifty_thousand_last_attempts_that_end_in_one_millisecond_are_all_dead() {
    const COUNT: usize = 50_000;
    let server = Server::builder().module_args(["max-dead", "1000"]).start();
    let mut conn = server.conn();
    enqueue_many(&mut conn, "q", "m", COUNT, &["ATTEMPTS", "1"]);
    assert_eq!(
        dequeue_many(&mut conn, "q", COUNT, &["LOCK", "300"]).len(),
        COUNT
    );
    let ((), pings, longest) = while_pinging(&server, || {
        wait_until(PATIENCE, || counter(&mut conn, "q", "messages") == 1_000);
    });
    println!("{pings} pings, the longest {longest:?}");
    let info = counters(&mut conn, "q");
    assert_eq!(
        (info["total-dead"], info["dead"], info["queued"]),
        (COUNT as i64, 1_000, 0)
    );
    assert_eq!(dequeue(&mut conn, "q", &[]), None);
}

#[test]
fn a_count_of_a_hundred_thousand_hands_over_as_many() {
    const COUNT: usize = 100_000;
    let server = Server::start();
    let mut conn = server.conn();
    enqueue_many(&mut conn, "q", "m", COUNT + 1, &[]);
    let taken = dequeue_many(&mut conn, "q", COUNT, &["LOCK", &LONG_MS.to_string()]);
    assert_eq!(taken.len(), COUNT);
    assert!(taken
        .iter()
        .enumerate()
        .all(|(number, one)| one.name() == format!("m{number}")));
    assert!(taken.is_sorted_by(|one, next| one.token < next.token));
    assert_eq!(dequeue_many(&mut conn, "q", 4_294_967_295, &[]).len(), 1);
    let ids: Vec<_> = taken.iter().map(|one| &one.id[..]).collect();
    assert_eq!(
        call!(conn, "MQ.CANCEL", "q", ids).unwrap().int(),
        COUNT as i64
    );
    assert_eq!(counter(&mut conn, "q", "messages"), 1);
}

#[test]
fn a_blocked_count_is_served_with_what_one_command_brings() {
    let server = Server::start();
    let mut wire = server.wire();
    wire.send(&["MQ.DEQUEUE", "q", "COUNT", "100000", "BLOCK", "0"]);
    server.wait_for_blocked(1);
    let mut pipeline = redis::pipe();
    pipeline.atomic();
    for number in 0..1_000 {
        pipeline
            .cmd("MQ.ENQUEUE")
            .arg("q")
            .arg("p")
            .arg("ID")
            .arg(number)
            .ignore();
    }
    pipeline.exec(&mut server.conn()).unwrap();
    assert_eq!(wire.reply().unwrap().items().len(), 1_000);
}

#[test]
fn huge_queues_go_away_while_others_are_served() {
    let server = Server::start();
    let mut conn = server.conn();
    let count = if faults::soaking() {
        5_000_000
    } else {
        200_000
    };
    let baseline = server_number(&server, "memory", "used_memory");
    for command in [&["UNLINK", "q"][..], &["FLUSHALL", "ASYNC"]] {
        enqueue_many(&mut conn, "q", "m", count, &[]);
        let used = server_number(&server, "memory", "used_memory") - baseline;
        let ((), pings, longest) = while_pinging(&server, || {
            server.wire().call(command).unwrap();
            assert_eq!(call!(conn, "EXISTS", "q").unwrap().int(), 0);
            wait_until(PATIENCE, || {
                server_number(&server, "memory", "used_memory") - baseline < used / 20
            });
        });
        println!("{command:?} of {count}: {pings} pings, the longest {longest:?}");
        assert!(pings > 0);
        assert_eq!(enqueue(&mut conn, "q", "m0", &[]), "added");
    }
}

#[test]
fn six_hundred_consumers_wait_and_each_gets_its_own() {
    // With room below the 1,024 files that a process may often have open.
    const CONSUMERS: usize = 600;
    let server = Server::builder()
        .config("maxclients", CONSUMERS + 100)
        .start();
    let mut wires: Vec<_> = (0..CONSUMERS).map(|_| server.wire()).collect();
    for wire in &mut wires {
        wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0"]);
    }
    server.wait_for_blocked(CONSUMERS);
    let mut conn = server.conn();
    enqueue_many(&mut conn, "q", "m", CONSUMERS, &[]);
    let got: HashSet<_> = wires
        .iter_mut()
        .map(|wire| Delivery::of(&wire.reply().unwrap()).id)
        .collect();
    assert_eq!(got.len(), CONSUMERS);
    assert_eq!(counter(&mut conn, "q", "total-delivered"), CONSUMERS as i64);
    assert_eq!(server_number(&server, "clients", "blocked_clients"), 0);
}

#[test]
fn ten_thousand_queues_with_something_due_are_all_looked_after() {
    let server = Server::start();
    let mut conn = server.conn();
    let queues = 10_000;
    let mut pipeline = redis::pipe();
    for number in 0..queues {
        let queue = format!("q{number}");
        pipeline
            .cmd("MQ.ENQUEUE")
            .arg(&queue)
            .arg("p")
            .arg("ATTEMPTS")
            .arg(1)
            .ignore();
        pipeline
            .cmd("MQ.DEQUEUE")
            .arg(&queue)
            .arg("LOCK")
            .arg(100)
            .ignore();
    }
    pipeline.exec(&mut conn).unwrap();
    wait_until(PATIENCE, || {
        let info = call!(conn, "INFO", "mq").unwrap().text();
        info.lines()
            .any(|line| line.trim_end() == format!("mq_total_expired_locks:{queues}"))
    });
    for number in (0..queues).step_by(997) {
        assert_eq!(counter(&mut conn, &format!("q{number}"), "total-dead"), 1);
    }
}

#[test]
fn one_message_handed_round_ten_thousand_times_keeps_count() {
    let server = Server::start();
    let mut conn = server.conn();
    enqueue(&mut conn, "q", "m", &[]);
    let times = rounds(10_000) as i64;
    let mut last = 0;
    for attempt in 1..=times {
        let one = dequeue(&mut conn, "q", &[]).unwrap();
        assert_eq!(one.attempt, attempt);
        assert!(one.token > last);
        last = one.token;
        done(&mut conn, "q", &one, &["RETRY"]).unwrap();
    }
    let info = counters(&mut conn, "q");
    assert_eq!(
        (info["total-delivered"], info["total-retried"]),
        (times, times)
    );
    assert_eq!(info["messages"], 1);
}
