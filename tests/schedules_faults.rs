//! Schedules while servers stop, change roles, run full, and have their clocks set: each instant that was
//! promised is one run.

mod faults;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use faults::clock::Clock;
use faults::mix::assert_same_data;
use faults::{counter, ms, rounds, status};
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{
    call, digest, wait_until, Persistence, Reply, ReplyExt, Server, Shutdown, Value, PATIENCE,
};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

fn server_ms(conn: &mut Connection) -> i64 {
    let time = call!(*conn, "TIME").unwrap();
    let number = |index: usize| time.items()[index].text().parse::<i64>().unwrap();
    number(0) * 1000 + number(1) / 1000
}

fn wait_for_server_ms(conn: &mut Connection, instant: i64) {
    wait_until(PATIENCE, || server_ms(conn) >= instant);
}

/// The one schedule of a queue.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    next: i64,
    last: i64,
    runs: i64,
    skipped: i64,
}

fn shown(conn: &mut Connection, queue: &str) -> Shown {
    let page = call!(*conn, "MQ.SCHEDULES", queue, 0).unwrap();
    let all = page.items()[1].items();
    assert_eq!(all.len(), 1, "{page:?}");
    let fields = all[0].fields();
    let [next, last, runs, skipped] =
        ["next-at", "last-at", "runs", "skipped"].map(|name| fields[name].int());
    Shown {
        next,
        last,
        runs,
        skipped,
    }
}

/// All schedules of a queue; in which order they are listed may change with a restart.
fn by_name(conn: &mut Connection, queue: &str) -> Vec<Value> {
    let page = call!(*conn, "MQ.SCHEDULES", queue, 0).unwrap();
    let mut all = page.items()[1].items().to_vec();
    all.sort_by_key(|one| one.fields()["name"].text());
    all
}

fn schedule(conn: &mut Connection, queue: &str, options: &[&str]) -> i64 {
    let set = call!(*conn, "MQ.SCHEDULE", queue, "s", "p", options).unwrap();
    set.items()[1].int()
}

/// Takes a run and finishes it; gives the instant that was meant.
fn work(conn: &mut Connection, queue: &str, block: &[&str]) -> Option<i64> {
    let got = call!(*conn, "MQ.DEQUEUE", queue, block).unwrap();
    if got.is_nil() {
        return None;
    }
    let (id, token) = (got.items()[0].bytes().to_vec(), got.items()[3].int());
    let at = got.items()[6].fields()["scheduled-at"].int();
    assert_eq!(id, format!("s@{at}").into_bytes());
    call!(*conn, "MQ.DONE", queue, id, token).unwrap();
    Some(at)
}

#[test]
fn schedules_are_the_same_after_every_way_of_keeping_them() {
    for persistence in Persistence::DURABLE {
        let mut server = Server::builder().persistence(persistence).start();
        let mut conn = server.conn();
        let from = server_ms(&mut conn) + 20;
        let from = from.to_string();
        let options = [
            "EVERY", "3600000", "FROM", &from, "OVERLAP", "AFTER", "GROUP", "g",
        ];
        schedule(&mut conn, "q", &options);
        wait_until(PATIENCE, || shown(&mut conn, "q").runs == 1);
        let cron = [
            "CRON",
            "0 0 29 2 *",
            "TZ",
            "Asia/Kolkata",
            "TIMES",
            "3",
            "HEADERS",
            "h",
        ];
        call!(conn, "MQ.SCHEDULE", "q", "other", "p", &cron[..]).unwrap();
        call!(conn, "MQ.SCHEDULE", "q", "gone", "p", "CRON", "@yearly").unwrap();
        call!(conn, "MQ.UNSCHEDULE", "q", "gone").unwrap();
        let all = by_name(&mut conn, "q");
        let before = digest(&mut conn, "q");
        server.restart(Shutdown::Save);
        let mut conn = server.conn();
        assert_eq!(digest(&mut conn, "q"), before, "{persistence:?}");
        assert_eq!(by_name(&mut conn, "q"), all);
        if persistence == Persistence::Rdb {
            continue;
        }
        call!(conn, "BGREWRITEAOF").unwrap();
        wait_until(PATIENCE, || {
            let is = |field| server.info("persistence", field).as_deref() == Some("0");
            is("aof_rewrite_in_progress") && is("aof_rewrite_scheduled")
        });
        server.crash_and_restart();
        let mut conn = server.conn();
        assert_eq!(digest(&mut conn, "q"), before, "{persistence:?}, rewritten");
    }
}

#[test]
fn a_day_without_the_server_is_one_run() {
    let clock = Clock::new();
    let builder = Server::builder().persistence(Persistence::AofCommands);
    let mut server = clock.for_server(builder).start();
    let mut conn = server.conn();
    let first = schedule(&mut conn, "q", &["EVERY", "1000", "OVERLAP", "ALLOW"]);
    server.shutdown(Shutdown::Save);
    clock.set_ms(DAY_MS);
    server.start_again();
    let mut conn = server.conn();
    assert_eq!(work(&mut conn, "q", &["BLOCK", "0"]), Some(first));
    let second = work(&mut conn, "q", &["BLOCK", "0"]).unwrap();
    assert!(second > first + DAY_MS - 60_000, "the rest was one run");
    assert_eq!((second - first) % 1000, 0, "they go on in step");
}

/// A replica whose primary was killed before the next run of their one schedule, and when that is.
fn left_alone_before_a_run() -> (Server, i64) {
    // A machine that is slower than the first wait gets more time.
    for wait in [300, 3_000, 30_000] {
        let (mut primary, replica) = (Server::start(), Server::start());
        replica.replica_of(&primary);
        let mut conn = primary.conn();
        let from = (server_ms(&mut conn) + wait).to_string();
        let options = ["EVERY", "3600000", "FROM", &from, "OVERLAP", "ALLOW"];
        let next = schedule(&mut conn, "q", &options);
        replica.wait_for_sync(&primary);
        primary.kill9();
        if server_ms(&mut replica.conn()) < next {
            return (replica, next);
        }
    }
    panic!("a primary cannot be killed within half a minute");
}

#[test]
fn a_replica_shows_the_next_run_and_begins_it_when_it_is_promoted() {
    let (replica, next) = left_alone_before_a_run();
    let mut conn = replica.conn();
    wait_for_server_ms(&mut conn, next + 300);
    let Shown {
        next: still, runs, ..
    } = shown(&mut conn, "q");
    assert_eq!((still, runs), (next, 0), "it decides nothing");
    for refused in [
        call!(conn, "MQ.SCHEDULE", "q", "s", "p", "EVERY", 1000),
        call!(conn, "MQ.UNSCHEDULE", "q", "s"),
        call!(conn, "MQ.FIRE", "q", "s"),
    ] {
        assert!(refused.unwrap_err().starts_with("READONLY "));
    }
    replica.promote();
    assert_eq!(work(&mut conn, "q", &["BLOCK", "0"]), Some(next));
    assert_eq!(shown(&mut conn, "q").runs, 1);
}

/// What a worker had of its primary before that died.
#[derive(Debug, Default)]
struct Had {
    instant: Option<i64>,
    /// The verdict has reached the replica.
    replicated: bool,
}

fn work_until_the_end(mut conn: Connection) -> Had {
    let mut had = Had::default();
    let Ok(got) = call!(conn, "MQ.DEQUEUE", "q", "BLOCK", 0) else {
        return had;
    };
    if got.is_nil() {
        return had;
    }
    had.instant = Some(got.items()[6].fields()["scheduled-at"].int());
    let (id, token) = (got.items()[0].bytes().to_vec(), got.items()[3].int());
    let ended: Reply = call!(conn, "MQ.DONE", "q", id, token);
    let reached: Reply = ended.and_then(|_| call!(conn, "WAIT", 1, 1000));
    had.replicated = reached.is_ok_and(|replicas| replicas.int() == 1);
    had
}

#[test]
fn a_failover_around_a_due_instant_makes_one_run_of_it() {
    let (mut primary, mut replica) = (Server::start(), Server::start());
    for round in 0..rounds(20) {
        replica.replica_of(&primary);
        let mut conn = primary.conn();
        let from = server_ms(&mut conn) + 60;
        let every = [
            "EVERY",
            "3600000",
            "FROM",
            &from.to_string(),
            "OVERLAP",
            "ALLOW",
        ];
        schedule(&mut conn, "q", &every);
        let worker = primary.conn();
        replica.wait_for_sync(&primary);
        let worker = thread::spawn(move || work_until_the_end(worker));
        // At each millisecond around it.
        let at = from + (round as i64 % 15) - 5;
        let until = UNIX_EPOCH + Duration::from_millis(at as u64);
        while SystemTime::now() < until {
            std::hint::spin_loop();
        }
        primary.kill9();
        let had = worker.join().unwrap();
        replica.promote();

        let mut conn = replica.conn();
        wait_until(PATIENCE, || shown(&mut conn, "q").runs == 1);
        let Shown { last, next, .. } = shown(&mut conn, "q");
        assert_eq!((last, next), (from, from + HOUR_MS), "{had:?}");
        let run = status(&mut conn, "q", format!("s@{from}"));
        if had.replicated {
            assert_eq!(run, None, "it came again: {had:?}");
        } else if had.instant.is_none() {
            // Perhaps it was on its way to the worker.
            let is_there = matches!(run.as_deref(), Some("queued" | "locked"));
            assert!(is_there, "it is left out: {run:?}");
        }
        let left = i64::from(run.is_some());
        assert_eq!(counter(&mut conn, "q", "messages"), left, "{had:?}");
        call!(conn, "FLUSHALL").unwrap();
        primary.start_again();
        std::mem::swap(&mut primary, &mut replica);
    }
}

#[test]
fn a_fleet_that_says_its_schedule_again_and_again_has_one_next_run() {
    const WORKERS: usize = 8;
    const RUNS: usize = 3;
    let (server, replica) = (Server::start(), Server::start());
    replica.replica_of(&server);
    let mut conn = server.conn();
    let options = ["EVERY", "1000", "OVERLAP", "ALLOW"];
    let first = schedule(&mut conn, "q", &options);
    let over = AtomicBool::new(false);
    let said = thread::scope(|scope| {
        let deployments: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (mut conn, over) = (server.conn(), &over);
                scope.spawn(move || {
                    let mut said = 0;
                    while !over.load(Ordering::Relaxed) {
                        // Some are newer than others.
                        let payload = format!("version {}", number % 2);
                        let set = call!(conn, "MQ.SCHEDULE", "q", "s", payload, &options[..]);
                        let next = set.unwrap().items()[1].int();
                        assert_eq!((next - first) % 1000, 0, "it has moved");
                        said += 1;
                    }
                    said
                })
            })
            .collect();
        let instants: Vec<_> = (0..RUNS)
            .filter_map(|_| work(&mut conn, "q", &["BLOCK", "0"]))
            .collect();
        over.store(true, Ordering::Relaxed);
        let steps: Vec<_> = instants.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(steps.iter().all(|step| *step > 0 && step % 1000 == 0));
        let all = deployments.into_iter().map(|one| one.join().unwrap());
        all.sum::<usize>()
    });
    assert!(said > 100, "{said}");
    assert_eq!(shown(&mut conn, "q").skipped, 0);
    replica.wait_for_sync(&server);
    assert_same_data(&server, &[&replica]);
}

#[test]
fn at_maxmemory_a_run_stays_due_and_comes_when_there_is_room() {
    let server = Server::builder()
        .config("maxmemory-policy", "noeviction")
        .start();
    let mut conn = server.conn();
    let from = server_ms(&mut conn) + 50;
    let every = [
        "EVERY",
        "3600000",
        "FROM",
        &from.to_string(),
        "OVERLAP",
        "ALLOW",
    ];
    schedule(&mut conn, "q", &every);
    call!(conn, "CONFIG", "SET", "maxmemory", 1).unwrap();
    let mut waiter = server.wire();
    waiter.send(&["MQ.DEQUEUE", "q", "BLOCK", "0"]);
    server.wait_for_blocked(1);
    for refused in [
        call!(conn, "MQ.SCHEDULE", "q", "t", "p", "EVERY", 1000),
        call!(conn, "MQ.FIRE", "q", "s"),
    ] {
        assert!(refused.unwrap_err().starts_with("OOM "));
    }
    wait_for_server_ms(&mut conn, from + 300);
    let Shown { next, runs, .. } = shown(&mut conn, "q");
    // A slow machine may have been late with the limit.
    if runs == 0 {
        assert_eq!(next, from);
    }
    call!(conn, "CONFIG", "SET", "maxmemory", 0).unwrap();
    let got = waiter.reply().unwrap();
    assert_eq!(got.items()[6].fields()["scheduled-at"].int(), from);
    assert_eq!(shown(&mut conn, "q").runs, 1);
    // What removes needs no memory.
    call!(conn, "CONFIG", "SET", "maxmemory", 1).unwrap();
    assert_eq!(call!(conn, "MQ.UNSCHEDULE", "q", "s").unwrap().int(), 1);
}

#[test]
fn a_server_that_is_full_is_not_busy_with_the_runs_that_wait() {
    let server = Server::builder()
        .config("maxmemory-policy", "noeviction")
        .start();
    let mut conn = server.conn();
    let from = (server_ms(&mut conn) + 30).to_string();
    for queue in 0..50 {
        let queue = format!("q{queue}");
        schedule(&mut conn, &queue, &["EVERY", "1000", "FROM", &from]);
    }
    call!(conn, "CONFIG", "SET", "maxmemory", 1).unwrap();
    let cpu = || {
        let seconds = |field| server.info("cpu", field).unwrap().parse::<f64>().unwrap();
        seconds("used_cpu_user") + seconds("used_cpu_sys")
    };
    let (begun, used) = (server_ms(&mut conn), cpu());
    thread::sleep(ms(1_000));
    let (passed, used) = ((server_ms(&mut conn) - begun) as f64 / 1000.0, cpu() - used);
    assert!(used < passed / 2.0, "{used} s of {passed}");
}

#[test]
fn the_clock_of_the_server_may_be_set_and_no_instant_runs_twice() {
    let clock = Clock::new();
    let server = clock.for_server(Server::builder()).start();
    let mut conn = server.conn();
    let first = schedule(&mut conn, "q", &["EVERY", "1000", "OVERLAP", "ALLOW"]);
    assert_eq!(work(&mut conn, "q", &["BLOCK", "0"]), Some(first));
    let promised = shown(&mut conn, "q").next;
    clock.set_ms(-HOUR_MS);
    wait_until(PATIENCE, || server_ms(&mut conn) < promised - HOUR_MS / 2);
    let now = server_ms(&mut conn);
    wait_for_server_ms(&mut conn, now + 1_500);
    assert_eq!(work(&mut conn, "q", &[]), None);
    assert_eq!(shown(&mut conn, "q").next, promised, "it is later now");

    clock.set_ms(DAY_MS);
    let run = work(&mut conn, "q", &["BLOCK", "0"]);
    assert_eq!(run, Some(promised), "set forward it is due at once");
    let after = work(&mut conn, "q", &["BLOCK", "0"]).unwrap();
    assert!(after > promised + DAY_MS - 60_000, "the day is one run");
    assert_eq!((after - first) % 1000, 0);
    clock.set_ms(0);
    wait_until(PATIENCE, || server_ms(&mut conn) < after - DAY_MS / 2);
    let Shown { next, runs, .. } = shown(&mut conn, "q");
    let now = server_ms(&mut conn);
    wait_for_server_ms(&mut conn, now + 1_500);
    let still = shown(&mut conn, "q");
    assert_eq!(
        (still.next, still.runs),
        (next, runs),
        "it does not go through them again"
    );
}

#[test]
fn writes_that_are_paused_delay_a_run_and_make_one_of_many() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.replica_of(&primary);
    let mut conn = primary.conn();
    let first = schedule(&mut conn, "q", &["EVERY", "1000", "OVERLAP", "ALLOW"]);
    call!(conn, "CLIENT", "PAUSE", 60_000, "WRITE").unwrap();
    let before = shown(&mut conn, "q");
    wait_for_server_ms(&mut conn, first + 2_100);
    // The pause may have come too late on a slow machine.
    assert_eq!(shown(&mut conn, "q").runs, before.runs);
    call!(conn, "CLIENT", "UNPAUSE").unwrap();
    let run = work(&mut conn, "q", &["BLOCK", "0"]).unwrap();
    let next = work(&mut conn, "q", &["BLOCK", "0"]).unwrap();
    assert!(next - run >= 2_000, "{run} {next}");
    replica.wait_for_sync(&primary);
    assert_same_data(&primary, &[&replica]);
}
