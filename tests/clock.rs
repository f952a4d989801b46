//! The system's clock may be set, by whomever and how far: what was asked for in real time comes in real
//! time. Replies tell instants of the clock as it stands.

mod faults;

use std::collections::HashSet;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use faults::clock::Clock;
use faults::mix::assert_same_data;
use faults::{
    counter, dequeue, dequeue_many, done, enqueue, enqueue_many, ms, status, wait_for_status,
    Delivery,
};
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{
    call, digest, wait_until, Persistence, ReplyExt, Server, Shutdown, Wire, PATIENCE,
};

const HOUR_MS: i64 = 3_600_000;
const LONG_WAIT: &[&str] = &["BLOCK", "0", "LOCK", "360000000"];
/// A time that is asked for, and over soon.
const SOON_MS: u64 = 1_500;
/// Servers count whole milliseconds.
const EXACT_MS: u64 = 2;
/// A time that is asked for, and not over before the test.
const LATER_MS: i64 = 600_000;

fn with_clock() -> (Clock, Server) {
    let clock = Clock::new();
    let server = clock.for_server(Server::builder()).start();
    (clock, server)
}

fn server_ms(conn: &mut Connection) -> i64 {
    let time = call!(*conn, "TIME").unwrap();
    let number = |index: usize| time.items()[index].text().parse::<i64>().unwrap();
    number(0) * 1000 + number(1) / 1000
}

/// Sets the clock and waits until the server has noticed: some look at it only now and then.
#[track_caller]
fn step(clock: &Clock, server: &Server, offset_ms: i64) {
    clock.set_ms(offset_ms);
    let mut conn = server.conn();
    wait_until(PATIENCE, || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let here = since.as_millis() as i64;
        (server_ms(&mut conn) - (here + offset_ms)).abs() < 10_000
    });
}

fn blocked_consumer(server: &Server, queue: &str, already: usize) -> Wire {
    let mut wire = server.wire();
    wire.send(&["MQ.DEQUEUE", queue, "BLOCK", "0", "LOCK", "360000000"]);
    server.wait_for_blocked(already + 1);
    wire
}

/// Asks for [`SOON_MS`] of every kind, each in a queue of its own; gives the message that is to come.
fn ask_for_a_while(conn: &mut Connection) -> Vec<(&'static str, &'static str)> {
    let soon = &SOON_MS.to_string()[..];
    enqueue(conn, "locked", "a", &[]);
    dequeue(conn, "locked", &["LOCK", soon]).unwrap();
    enqueue(conn, "extended", "a", &[]);
    let held = dequeue(conn, "extended", &["LOCK", "360000000"]).unwrap();
    call!(*conn, "MQ.EXTEND", "extended", "a", held.token, soon).unwrap();
    enqueue(conn, "delayed", "a", &["DELAY", soon]);
    let at = (server_ms(conn) + SOON_MS as i64).to_string();
    enqueue(conn, "at", "a", &["AT", &at]);
    enqueue(conn, "retried", "a", &[]);
    let held = dequeue(conn, "retried", &[]).unwrap();
    done(conn, "retried", &held, &["RETRY", "BACKOFF", soon]).unwrap();
    enqueue(conn, "window", "a", &[]);
    let held = dequeue(conn, "window", &[]).unwrap();
    done(conn, "window", &held, &["BACKOFF", soon]).unwrap();
    enqueue(conn, "window", "a", &["REQUEUE"]);
    enqueue(conn, "paused", "a", &[]);
    call!(*conn, "MQ.PAUSE", "paused", "FOR", soon).unwrap();
    enqueue(conn, "group", "a", &["GROUP", "g"]);
    call!(*conn, "MQ.PAUSE", "group", "GROUP", "g", "FOR", soon).unwrap();
    for (queue, scope) in [("rate", &[][..]), ("group rate", &["GROUPS"])] {
        call!(*conn, "MQ.LIMIT", queue, scope, "RATE", 1, soon).unwrap();
        enqueue_many(conn, queue, "m", 2, &["GROUP", "g"]);
        let first = dequeue(conn, queue, &[]).unwrap();
        done(conn, queue, &first, &[]).unwrap();
    }
    vec![
        ("locked", "a"),
        ("extended", "a"),
        ("delayed", "a"),
        ("at", "a"),
        ("retried", "a"),
        ("window", "a"),
        ("paused", "a"),
        ("group", "a"),
        ("rate", "m1"),
        ("group rate", "m1"),
    ]
}

#[test]
fn what_was_asked_for_lasts_as_long_as_was_asked_whatever_is_done_to_the_clock() {
    for by in [HOUR_MS, -HOUR_MS] {
        let (clock, server) = with_clock();
        let mut conn = server.conn();
        let begun = Instant::now();
        let asked = ask_for_a_while(&mut conn);
        let mut wires: Vec<_> = asked
            .iter()
            .enumerate()
            .map(|(number, (queue, _))| blocked_consumer(&server, queue, number))
            .collect();
        step(&clock, &server, by);
        for ((queue, id), wire) in asked.into_iter().zip(&mut wires) {
            let got = Delivery::of(&wire.reply().unwrap());
            let passed = begun.elapsed();
            assert_eq!(got.name(), id, "{queue}");
            assert!(
                passed >= ms(SOON_MS - EXACT_MS),
                "{queue}: {passed:?}, by {by}"
            );
        }
    }
}

#[test]
fn a_time_to_live_lasts_as_long_as_was_asked_whatever_is_done_to_the_clock() {
    for by in [HOUR_MS, -HOUR_MS] {
        let (clock, server) = with_clock();
        let mut conn = server.conn();
        let begun = Instant::now();
        enqueue(&mut conn, "q", "a", &["TTL", &SOON_MS.to_string(), "BURY"]);
        enqueue(&mut conn, "q", "b", &["TTL", &LATER_MS.to_string()]);
        step(&clock, &server, by);
        wait_for_status(&mut conn, "q", "a", Some("dead"));
        assert!(begun.elapsed() >= ms(SOON_MS - EXACT_MS));
        wait_until(PATIENCE, || counter(&mut conn, "q", "total-expired") == 1);
        assert_eq!(status(&mut conn, "q", "b").as_deref(), Some("queued"));
    }
}

/// What the server tells of instants, less what its clock shows, in milliseconds.
fn told(conn: &mut Connection) -> Vec<(&'static str, i64)> {
    let (again, later) = (["BLOCK", "0", "LOCK", "1"], LATER_MS.to_string());
    let mut told = Vec::new();
    let now = server_ms(conn);
    let message = call!(*conn, "MQ.GET", "told", "a").unwrap().fields();
    for (name, meant) in [
        ("enqueued-at", 0),
        ("due-at", LATER_MS),
        ("expires-at", 2 * LATER_MS),
    ] {
        told.push((name, message[name].int() - now - meant));
    }
    let delivery = dequeue(conn, "turns", &again).unwrap();
    told.push(("delivered enqueued-at", delivery.enqueued_at - now));
    let extended = call!(*conn, "MQ.EXTEND", "turns", &delivery.id, delivery.token, 1).unwrap();
    told.push(("EXTEND", extended.int() - now));
    let paused = call!(*conn, "MQ.PAUSE", "pauses", "FOR", &later).unwrap();
    told.push(("PAUSE", paused.int() - now - LATER_MS));
    let info = call!(*conn, "MQ.INFO", "pauses").unwrap().fields();
    told.push(("paused-until", info["paused-until"].int() - now - LATER_MS));
    let options = ["GROUP", "g", "FOR", &later];
    call!(*conn, "MQ.PAUSE", "grouped", &options).unwrap();
    let groups = call!(*conn, "MQ.GROUPS", "grouped", 0).unwrap();
    let until = groups.items()[1].items()[0].items()[5].int();
    told.push(("GROUPS", until - now - LATER_MS));
    told.push((
        "next-due-ms",
        counter(conn, "told", "next-due-ms") - LATER_MS,
    ));
    told
}

#[test]
fn replies_tell_instants_of_the_clock_as_it_stands() {
    let (clock, server) = with_clock();
    let mut conn = server.conn();
    let begun = Instant::now();
    let (later, latest) = (LATER_MS.to_string(), (2 * LATER_MS).to_string());
    enqueue(&mut conn, "told", "a", &["DELAY", &later, "TTL", &latest]);
    enqueue(&mut conn, "turns", "a", &[]);
    enqueue(&mut conn, "grouped", "a", &["GROUP", "g"]);
    for offset in [0, HOUR_MS, -HOUR_MS, 0] {
        step(&clock, &server, offset);
        for (what, off) in told(&mut conn) {
            // It is right but for the time that has passed since the test began.
            let most = begun.elapsed().as_millis() as i64 + 1_000;
            assert!(off.abs() <= most, "{what} is {off} ms off at {offset}");
        }
    }
}

#[test]
fn an_instant_that_a_producer_names_is_one_of_the_clock_as_it_stands() {
    let (clock, server) = with_clock();
    let replica = Server::start();
    replica.replica_of(&server);
    let mut conn = server.conn();
    for offset in [0, HOUR_MS, -HOUR_MS] {
        step(&clock, &server, offset);
        let (queue, begun) = (format!("at {offset}"), Instant::now());
        let now = server_ms(&mut conn);
        let (soon, later) = ((now + 300).to_string(), (now + LATER_MS).to_string());
        enqueue(&mut conn, &queue, "later", &["AT", &later]);
        let message = call!(conn, "MQ.GET", &queue, "later").unwrap().fields();
        assert_eq!(message["due-at"].int().to_string(), later);
        enqueue(&mut conn, &queue, "past", &["AT", &(now - 5).to_string()]);
        assert_eq!(dequeue(&mut conn, &queue, &[]).unwrap().name(), "past");
        enqueue(&mut conn, &queue, "soon", &["AT", &soon]);
        assert_eq!(
            dequeue(&mut conn, &queue, LONG_WAIT).unwrap().name(),
            "soon"
        );
        assert!(
            begun.elapsed() >= ms(300 - EXACT_MS),
            "{:?}",
            begun.elapsed()
        );
        // For a copy that waits too.
        enqueue(&mut conn, &queue, "soon", &["REQUEUE", "AT", &later]);
        assert_same_data(&server, &[&replica]);
    }
}
#[test]
fn a_step_back_within_the_lifetime_of_a_timer_makes_nothing_late() {
    let (clock, server) = with_clock();
    let mut conn = server.conn();
    // A timer is armed for what is due first …
    enqueue(&mut conn, "q", "old", &["DELAY", "60000"]);
    let mut first = blocked_consumer(&server, "q", 0);
    step(&clock, &server, -HOUR_MS);
    // … by the server's count an hour later than that now, and this is due long before.
    enqueue(&mut conn, "q", "new", &["DELAY", "100"]);
    assert_eq!(Delivery::of(&first.reply().unwrap()).name(), "new");
    enqueue(&mut conn, "other", "another", &["DELAY", "100"]);
    assert_eq!(
        dequeue(&mut conn, "other", LONG_WAIT).unwrap().name(),
        "another"
    );
    clock.sleep_ms(70_000);
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

/// By how much a replica tells the due instant of a message wrong that is due in [`LATER_MS`], in
/// milliseconds of its own clock.
fn off_on_replica(conn: &mut Connection, queue: &str, id: &str) -> Option<i64> {
    let message = call!(*conn, "MQ.GET", queue, id).unwrap();
    if message.is_nil() {
        return None;
    }
    Some(message.fields()["due-at"].int() - server_ms(conn) - LATER_MS)
}

/// Lets the replica hear its primary until it goes by that one's time.
#[track_caller]
fn let_follow(primary: &Server, replica: &Server) {
    let (mut conn, mut here) = (primary.conn(), replica.conn());
    let later = LATER_MS.to_string();
    wait_until(PATIENCE, || {
        enqueue(&mut conn, "heard", "a", &["DELAY", &later, "UPDATE"]);
        replica.wait_for_sync(primary);
        off_on_replica(&mut here, "heard", "a").is_some_and(|off| off.abs() < 900)
    });
}

#[test]
fn a_promoted_replica_goes_on_with_its_primary_s_time_whatever_its_clock_shows() {
    for off in [HOUR_MS, -HOUR_MS] {
        let (clock, replica) = with_clock();
        step(&clock, &replica, off);
        let mut primary = Server::start();
        replica.replica_of(&primary);
        let_follow(&primary, &replica);
        let mut conn = primary.conn();
        let begun = Instant::now();
        let asked = ask_for_a_while(&mut conn);
        enqueue(&mut conn, "far", "a", &["DELAY", &LATER_MS.to_string()]);
        replica.wait_for_sync(&primary);
        primary.kill9();

        replica.promote();
        let mut wires: Vec<_> = asked
            .iter()
            .enumerate()
            .map(|(number, (queue, _))| blocked_consumer(&replica, queue, number))
            .collect();
        for ((queue, id), wire) in asked.into_iter().zip(&mut wires) {
            let got = Delivery::of(&wire.reply().unwrap());
            let passed = begun.elapsed();
            assert_eq!(got.name(), id, "{queue}");
            assert!(passed >= ms(SOON_MS - 1_000), "{queue}: {passed:?}, {off}");
        }
        let mut conn = replica.conn();
        let far = off_on_replica(&mut conn, "far", "a").unwrap();
        let passed = begun.elapsed().as_millis() as i64;
        assert!(
            (far + passed).abs() < passed + 1_000,
            "{far} after {passed}"
        );
        enqueue(&mut conn, "new", "a", &["DELAY", "100"]);
        assert_eq!(dequeue(&mut conn, "new", LONG_WAIT).unwrap().name(), "a");
    }
}

#[test]
fn a_replica_holds_and_tells_the_same_whatever_its_clock_shows() {
    let (primary_clock, primary) = with_clock();
    let (replica_clock, replica) = with_clock();
    step(&replica_clock, &replica, HOUR_MS);
    let mut conn = primary.conn();
    enqueue_many(&mut conn, "q", "before", 5, &["DELAY", "1800000"]);
    replica.replica_of(&primary);
    let_follow(&primary, &replica);
    enqueue_many(&mut conn, "q", "m", 20, &[]);
    let taken = dequeue_many(&mut conn, "q", 10, &["LOCK", "1800000"]);
    done(&mut conn, "q", &taken[0], &["BACKOFF", "1800000"]).unwrap();
    enqueue(&mut conn, "q", "last", &["ATTEMPTS", "1", "PRIORITY", "0"]);
    dequeue(&mut conn, "q", &["LOCK", "1800000"]).unwrap();
    assert_same_data(&primary, &[&replica]);
    let state = digest(&mut replica.conn(), "q");
    let mut here = replica.conn();
    for (primary_off, replica_off) in [
        (0, HOUR_MS),
        (0, -HOUR_MS),
        (0, 2 * HOUR_MS),
        (HOUR_MS, 2 * HOUR_MS),
        (-HOUR_MS, 0),
    ] {
        step(&primary_clock, &primary, primary_off);
        step(&replica_clock, &replica, replica_off);
        for (id, expected) in [
            ("last", "locked"),
            (&taken[1].name(), "locked"),
            (&taken[0].name(), "done-with-backoff"),
            ("before0", "queued-with-backoff"),
        ] {
            assert_eq!(
                status(&mut here, "q", id).as_deref(),
                Some(expected),
                "{id}"
            );
        }
        enqueue(&mut conn, "q", &format!("{primary_off} {replica_off}"), &[]);
        assert_same_data(&primary, &[&replica]);
    }
    assert_ne!(
        digest(&mut here, "q"),
        state,
        "the primary's steps still arrive"
    );
    // An hour passes for both.
    primary_clock.sleep_ms(HOUR_MS);
    replica_clock.sleep_ms(HOUR_MS);
    wait_until(PATIENCE, || counter(&mut conn, "q", "total-dead") == 1);
    wait_for_status(&mut here, "q", "last", Some("dead"));
    assert_same_data(&primary, &[&replica]);
}

#[test]
fn a_replica_that_was_held_up_takes_no_delay_for_another_clock() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.replica_of(&primary);
    let mut conn = primary.conn();
    let later = LATER_MS.to_string();
    let_follow(&primary, &replica);
    // What was written in two seconds comes in at once.
    let mut busy = replica.wire();
    busy.send(&["DEBUG", "SLEEP", "2"]);
    let begun = Instant::now();
    let mut written = 0;
    while begun.elapsed() < ms(2_000) {
        enqueue(&mut conn, "q", &format!("m{written}"), &["DELAY", &later]);
        written += 1;
    }
    busy.reply().unwrap();
    replica.wait_for_sync(&primary);
    let last = format!("m{}", written - 1);
    let off = off_on_replica(&mut replica.conn(), "q", &last).unwrap();
    assert!(off <= 0, "{off}: the replica's time is behind");
    assert_same_data(&primary, &[&replica]);
}

#[test]
fn after_a_restart_with_the_clock_set_back_nothing_lasts_longer_than_it_had_left() {
    for persistence in Persistence::DURABLE {
        let clock = Clock::new();
        clock.set_ms(HOUR_MS);
        let mut server = clock
            .for_server(Server::builder())
            .persistence(persistence)
            .start();
        let mut conn = server.conn();
        let begun = Instant::now();
        let asked = ask_for_a_while(&mut conn);
        enqueue(&mut conn, "far", "a", &["DELAY", &LATER_MS.to_string()]);
        enqueue_many(&mut conn, "q", "m", 3, &[]);
        let taken = dequeue_many(&mut conn, "q", 2, &["LOCK", "600000"]);
        server.shutdown(Shutdown::Save);
        clock.set_ms(0);
        server.start_again();

        let replica = Server::start();
        replica.replica_of(&server);
        replica.wait_for_sync(&server);
        let mut wires: Vec<_> = asked
            .iter()
            .enumerate()
            .map(|(number, (queue, _))| blocked_consumer(&server, queue, number))
            .collect();
        for ((queue, id), wire) in asked.into_iter().zip(&mut wires) {
            let got = Delivery::of(&wire.reply().unwrap());
            let passed = begun.elapsed();
            assert_eq!(got.name(), id, "{queue}, {persistence:?}");
            let least = ms(SOON_MS - EXACT_MS);
            assert!(passed >= least, "{queue}: {passed:?}, {persistence:?}");
        }
        // What is far away is told right, here and on a replica.
        let mut conn = server.conn();
        enqueue(&mut conn, "far", "b", &["DELAY", &LATER_MS.to_string()]);
        assert_same_data(&server, &[&replica]);
        for (what, server) in [("primary", &server), ("replica", &replica)] {
            for id in ["a", "b"] {
                let off = off_on_replica(&mut server.conn(), "far", id).unwrap();
                let most = begun.elapsed().as_millis() as i64 + 1_000;
                assert!(off.abs() <= most, "{id} is {off} ms off on the {what}");
            }
        }
        // Deliveries can be ended, and tokens go on.
        assert_eq!(done(&mut conn, "q", &taken[0], &[]).unwrap().text(), "done");
        let third = dequeue(&mut conn, "q", LONG_WAIT).unwrap();
        assert_eq!(third.name(), "m2");
        assert!(third.token > taken[1].token, "{persistence:?}");
        clock.sleep_ms(HOUR_MS);
        let second = dequeue(&mut conn, "q", &["BLOCK", "0"]).unwrap();
        assert_eq!((second.name(), second.attempt), ("m1".to_string(), 2));
    }
}

#[test]
fn a_dump_from_a_server_that_is_ahead_keeps_what_it_had_left_and_concerns_no_other_queue() {
    const TWO_CENTURIES_MS: i64 = 6_300_000_000_000;
    for ahead in [HOUR_MS, TWO_CENTURIES_MS] {
        let (clock, server) = (Clock::new(), Server::start());
        clock.set_ms(ahead);
        let source = clock.for_server(Server::builder()).start();
        let (mut there, mut conn) = (source.conn(), server.conn());
        let begun = Instant::now();
        let asked = ask_for_a_while(&mut there);
        for (queue, _) in &asked {
            let dump = call!(there, "DUMP", queue).unwrap();
            call!(conn, "RESTORE", queue, 0, dump.bytes()).unwrap();
        }
        call!(conn, "COPY", "locked", "copied").unwrap();
        let copied = [("copied", "a")];
        let mut wires = Vec::new();
        for (queue, _) in asked.iter().chain(&copied) {
            wires.push(blocked_consumer(&server, queue, wires.len()));
        }
        let mut tokens = Vec::new();
        for ((queue, id), wire) in asked.iter().chain(&copied).zip(&mut wires) {
            let got = Delivery::of(&wire.reply().unwrap());
            let passed = begun.elapsed();
            assert_eq!(&got.name(), id, "{queue}");
            assert!(passed >= ms(SOON_MS - EXACT_MS), "{queue}: {passed:?}");
            tokens.push(got.token);
        }
        // Without anybody who waits, time acts as well.
        enqueue(&mut there, "dead", "a", &["ATTEMPTS", "1"]);
        dequeue(&mut there, "dead", &["LOCK", "100"]).unwrap();
        let dump = call!(there, "DUMP", "dead").unwrap();
        call!(conn, "RESTORE", "dead", 0, dump.bytes()).unwrap();
        wait_until(PATIENCE, || counter(&mut conn, "dead", "total-dead") == 1);

        let now_us = server_ms(&mut conn) * 1000;
        enqueue(&mut conn, "other", "a", &[]);
        let other = dequeue(&mut conn, "other", &[]).unwrap();
        let right = now_us - 1_000_000..now_us + 60_000_000;
        assert!(right.contains(&other.token), "{} at {now_us}", other.token);
        assert!(tokens.iter().all(|token| !right.contains(token)));
    }
}
