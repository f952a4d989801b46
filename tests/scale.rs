//! What groups, limits and times to live promise, among very many messages, groups and consumers. With
//! MQ_SOAK=1 in the sizes of docs/performance.md, which the figures come from that are printed; else
//! in smaller ones. Checked for being right: what depends on the machine is only told.

mod faults;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use faults::{
    counter, dequeue, dequeue_many, done, enqueue, enqueue_many, ms, random, server_number,
    soaking, Delivery,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use redis_mq_testkit::redis::{self, Connection};
use redis_mq_testkit::{call, wait_until, ReplyExt, Server, PATIENCE};

/// The large size by `make soak`, else the small one.
fn size(small: usize, large: usize) -> usize {
    if soaking() {
        large
    } else {
        small
    }
}

/// Microseconds of the server's own count that a command has taken since the last question.
fn microseconds(conn: &mut Connection, command: &str) -> f64 {
    let text = call!(*conn, "INFO", "commandstats").unwrap().text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let per_call = line
        .and_then(|line| line.split("usec_per_call=").nth(1))
        .and_then(|rest| rest.split(',').next());
    call!(*conn, "CONFIG", "RESETSTAT").unwrap();
    per_call.map_or(0.0, |number| number.parse().unwrap())
}

/// What the server's processor time is in a second in which nobody asks for anything, in milliseconds.
fn processor_ms_of_a_second(server: &Server) -> f64 {
    let used = || -> f64 {
        let fields = ["used_cpu_user", "used_cpu_sys"].map(|field| server.info("cpu", field));
        fields
            .iter()
            .flatten()
            .map(|text| text.parse::<f64>().unwrap())
            .sum()
    };
    let before = used();
    thread::sleep(ms(1_000));
    (used() - before) * 1000.0
}

/// Takes and ends so many messages, one by one; the ids in their order.
fn work_off(conn: &mut Connection, queue: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        let delivery = dequeue(conn, queue, &[]).expect("enough are ready");
        ids.push(delivery.name());
        done(conn, queue, &delivery, &[]).unwrap();
    }
    ids
}

fn named(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}{number}"))
        .collect()
}

#[test]
fn messages_that_a_group_holds_back_are_never_looked_at() {
    let (held, free) = (size(20_000, 1_000_000), size(300, 10_000));
    let server = Server::start();
    let mut conn = server.conn();
    for queue in ["without", "paused", "limited", "in order"] {
        if queue != "without" {
            enqueue_many(&mut conn, queue, "held", held, &["GROUP", "g"]);
        }
        match queue {
            "paused" => drop(call!(conn, "MQ.PAUSE", queue, "GROUP", "g").unwrap()),
            "limited" => {
                call!(conn, "MQ.LIMIT", queue, "GROUP", "g", "RATE", 1, 36_000_000).unwrap();
                assert_eq!(dequeue(&mut conn, queue, &[]).unwrap().name(), "held0");
            }
            "in order" => assert_eq!(dequeue(&mut conn, queue, &[]).unwrap().name(), "held0"),
            _ => {}
        }
        enqueue_many(&mut conn, queue, "free", free, &[]);
        microseconds(&mut conn, "mq.dequeue");
        assert_eq!(
            work_off(&mut conn, queue, free),
            named("free", free),
            "{queue}"
        );
        let us = microseconds(&mut conn, "mq.dequeue");
        println!("{queue}: {us:.2} us for a dequeue beside {held} held messages");
        assert!(dequeue(&mut conn, queue, &[]).is_none());
        let us = microseconds(&mut conn, "mq.dequeue");
        println!("{queue}: {us:.0} us for a dequeue that finds nothing");
        let expected = match queue {
            "without" => 0,
            "paused" => held,
            _ => held - 1,
        };
        assert_eq!(
            counter(&mut conn, queue, "held"),
            expected as i64,
            "{queue}"
        );
    }
    let mut waiter = server.wire();
    waiter.send(&["MQ.DEQUEUE", "paused", "BLOCK", "0"]);
    server.wait_for_blocked(1);
    let used = processor_ms_of_a_second(&server);
    println!("{used:.0} ms of a second while all is held");
    // A server that spins uses all of it.
    assert!(used < 500.0, "{used} ms");
}

#[test]
fn a_dequeue_does_not_search_among_groups() {
    let groups = size(2_000, 100_000);
    let server = Server::start();
    let mut conn = server.conn();
    let mut costs = Vec::new();
    for (queue, count) in [("one", 1), ("many", groups)] {
        for start in (0..groups).step_by(1_000) {
            let mut pipeline = redis::pipe();
            for number in start..(start + 1_000).min(groups) {
                let group = format!("g{}", number % count);
                let enqueue = pipeline.cmd("MQ.ENQUEUE").arg(queue).arg("payload");
                enqueue
                    .arg("ID")
                    .arg(number)
                    .arg("GROUP")
                    .arg(group)
                    .ignore();
            }
            pipeline.exec(&mut conn).unwrap();
        }
        microseconds(&mut conn, "mq.dequeue");
        let ids = work_off(&mut conn, queue, groups);
        assert_eq!(ids, named("", groups), "{queue}");
        costs.push(["mq.dequeue", "mq.done"].map(|command| microseconds(&mut conn, command)));
        println!(
            "{count} groups: {:.2} us for a dequeue",
            costs[costs.len() - 1][0]
        );
    }
    assert_eq!(counter(&mut conn, "many", "groups"), 0);
}

#[test]
fn a_group_of_one_message_is_served_next_however_long_the_others_wait() {
    let many = size(50_000, 5_000_000);
    let server = Server::start();
    let mut conn = server.conn();
    enqueue_many(&mut conn, "q", "big", many, &["GROUP", "big"]);
    enqueue_many(&mut conn, "fair", "big", 10, &["GROUP", "big"]);
    for queue in ["q", "fair"] {
        call!(conn, "MQ.LIMIT", queue, "GROUPS", "INFLIGHT", "OFF").unwrap();
        assert_eq!(dequeue(&mut conn, queue, &[]).unwrap().name(), "big0");
        enqueue(&mut conn, queue, "small", &["GROUP", "small"]);
        let next = [(); 3].map(|()| dequeue(&mut conn, queue, &[]).unwrap().name());
        assert_eq!(next, ["big1", "small", "big2"], "{queue}");
    }
}

#[test]
fn messages_expire_in_the_midst_of_very_many_that_do_not() {
    let (others, few) = (size(20_000, 500_000), 1_000);
    let server = Server::start();
    let mut conn = server.conn();
    enqueue_many(&mut conn, "q", "before", others, &[]);
    let usage = |conn: &mut Connection| call!(*conn, "MEMORY", "USAGE", "q").unwrap().int();
    let before = usage(&mut conn);
    // Longer than the others take to enqueue.
    let ttl = size(1_500, 20_000) as u64;
    let begun = Instant::now();
    enqueue_many(&mut conn, "q", "few", few, &["TTL", &ttl.to_string()]);
    let full = usage(&mut conn);
    enqueue_many(&mut conn, "q", "after", others, &[]);
    let with_others = usage(&mut conn) - (full - before);
    let there = |conn: &mut Connection, id: &str| {
        let status = call!(*conn, "MQ.STATUS", "q", id).unwrap();
        (!status.is_nil(), begun.elapsed())
    };
    wait_until(PATIENCE, || {
        let (is_there, elapsed) = there(&mut conn, "few0");
        assert!(is_there || elapsed >= ms(ttl - 1), "gone after {elapsed:?}");
        !is_there
    });
    println!(
        "gone {:?} after {ttl} ms",
        begun.elapsed().saturating_sub(ms(ttl))
    );
    wait_until(PATIENCE, || {
        counter(&mut conn, "q", "total-expired") == few as i64
    });
    assert_eq!(counter(&mut conn, "q", "queued"), 2 * others as i64);
    wait_until(PATIENCE, || {
        usage(&mut conn) <= with_others + with_others / 50
    });
    let mut left = others;
    for prefix in ["before", "after"] {
        left = others;
        while left > 0 {
            let batch = dequeue_many(&mut conn, "q", left.min(10_000), &[]);
            for delivery in &batch {
                assert_eq!(delivery.name(), format!("{prefix}{}", others - left));
                left -= 1;
            }
        }
    }
    assert_eq!(left, 0);
    assert!(dequeue(&mut conn, "q", &[]).is_none());
}

/// Who holds what in each group, as consumers know for sure.
#[derive(Default)]
struct Holders(Mutex<HashMap<String, Vec<(i64, Instant)>>>);

impl Holders {
    /// A delivery arrived whose lock ends after `until`; gives how many of the group run at this moment.
    fn begin(&self, group: &str, token: i64, until: Instant) -> usize {
        let mut groups = self.0.lock().unwrap();
        let holders = groups.entry(group.to_string()).or_default();
        let now = Instant::now();
        holders.push((token, until));
        holders.retain(|(_, until)| *until > now);
        holders.len()
    }

    /// The verdict is about to be sent.
    fn end(&self, group: &str, token: i64) {
        let mut groups = self.0.lock().unwrap();
        let holders = groups.entry(group.to_string()).or_default();
        holders.retain(|(held, _)| *held != token);
    }
}

#[test]
fn no_group_has_more_in_flight_than_it_may_whoever_is_killed() {
    const MOST: usize = 3;
    let (consumers, groups) = (size(40, 1_000), size(8, 50));
    let (messages, lock) = (size(3_000, 200_000), 300);
    let server = Server::builder().config("maxclients", 10_000).start();
    let mut conn = server.conn();
    call!(conn, "MQ.LIMIT", "q", "GROUPS", "INFLIGHT", MOST).unwrap();
    for start in (0..messages).step_by(1_000) {
        let mut pipeline = redis::pipe();
        for number in start..(start + 1_000).min(messages) {
            let enqueue = pipeline
                .cmd("MQ.ENQUEUE")
                .arg("q")
                .arg(format!("g{}", number % groups));
            enqueue
                .arg("GROUP")
                .arg(format!("g{}", number % groups))
                .ignore();
        }
        pipeline.exec(&mut conn).unwrap();
    }
    let (holders, stop) = (Holders::default(), AtomicBool::new(false));
    let seeds = AtomicU64::new(random().random());
    let most_seen = thread::scope(|scope| {
        let consume = || {
            let mut rng = SmallRng::seed_from_u64(seeds.fetch_add(1, Ordering::SeqCst));
            let mut most = 0;
            'connection: loop {
                let mut conn = server.conn();
                while !stop.load(Ordering::SeqCst) {
                    let asked = Instant::now();
                    let reply = call!(conn, "MQ.DEQUEUE", "q", "LOCK", lock, "BLOCK", 100).unwrap();
                    if reply.is_nil() {
                        continue;
                    }
                    let delivery = Delivery::of(&reply);
                    let group = String::from_utf8(delivery.payload.clone()).unwrap();
                    // A lock lasts to the end of a whole millisecond of the server's.
                    let until = asked + ms(lock - 1);
                    most = most.max(holders.begin(&group, delivery.token, until));
                    match rng.random_range(0..100) {
                        // It dies with the message.
                        0 => continue 'connection,
                        1..5 => thread::sleep(Duration::from_millis(rng.random_range(0..20))),
                        _ => {}
                    }
                    holders.end(&group, delivery.token);
                    let _ = done(&mut conn, "q", &delivery, &[]); // its lock may have run out
                }
                return most;
            }
        };
        let crew: Vec<_> = (0..consumers).map(|_| scope.spawn(consume)).collect();
        let mut watched = 0;
        wait_until(PATIENCE * 10, || {
            let page = call!(conn, "MQ.GROUPS", "q", 0, "COUNT", 1_000).unwrap();
            for group in page.items()[1].items() {
                watched = watched.max(group.items()[2].int());
            }
            counter(&mut conn, "q", "messages") == 0
        });
        stop.store(true, Ordering::SeqCst);
        let seen: Vec<usize> = crew.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(watched <= MOST as i64, "{watched} by MQ.GROUPS");
        seen.into_iter().max().unwrap()
    });
    println!("{consumers} consumers, {messages} messages of {groups} groups: {most_seen} at once");
    assert!((2..=MOST).contains(&most_seen), "{most_seen} at once");
    assert_eq!(counter(&mut conn, "q", "total-done"), messages as i64);
}

#[test]
fn a_rate_holds_over_many_deliveries_to_consumers_that_wait() {
    let (messages, consumers) = (size(3_000, 100_000), size(4, 50));
    let (rate, window_ms, burst) = (2_000, 1_000, 20);
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "MQ.LIMIT", "q", "RATE", rate, window_ms, "BURST", burst).unwrap();
    enqueue_many(&mut conn, "q", "m", messages, &[]);
    // A token is the instant of its delivery in microseconds.
    let tokens = Mutex::new(Vec::with_capacity(messages));
    thread::scope(|scope| {
        for _ in 0..consumers {
            scope.spawn(|| {
                let mut conn = server.conn();
                loop {
                    let reply = call!(conn, "MQ.DEQUEUE", "q", "BLOCK", 1_000).unwrap();
                    if reply.is_nil() {
                        break;
                    }
                    let delivery = Delivery::of(&reply);
                    tokens.lock().unwrap().push(delivery.token);
                    done(&mut conn, "q", &delivery, &[]).unwrap();
                }
            });
        }
    });
    let mut tokens = tokens.into_inner().unwrap();
    tokens.sort_unstable();
    assert_eq!(tokens.len(), messages);
    let (first, last) = (tokens[0], tokens[messages - 1]);
    // Equal instants are told apart by the microseconds that follow, and servers before 7.2 count
    // milliseconds.
    let exact_us = 1_000;
    let most = rate + burst - 1;
    for (at, token) in tokens.iter().enumerate() {
        if let Some(beyond) = tokens.get(at + most) {
            let apart = beyond - token;
            assert!(
                apart >= window_ms * 1000 - exact_us,
                "{most} and one more in {apart} us"
            );
        }
    }
    let seconds = (last - first) as f64 / 1e6;
    println!(
        "{messages} deliveries to {consumers} consumers in {seconds:.2} s, {rate} a second allowed"
    );
}

#[test]
fn consumers_that_wait_for_the_rate_are_served_at_its_instants() {
    let messages = size(20, 500);
    let (every_ms, server) = (20, Server::start());
    let mut conn = server.conn();
    call!(conn, "MQ.LIMIT", "q", "RATE", 1, every_ms).unwrap();
    enqueue_many(&mut conn, "q", "m", messages, &[]);
    let mut instants = Vec::new();
    for _ in 0..messages {
        let delivery = dequeue(&mut conn, "q", &["BLOCK", "0"]).unwrap();
        instants.push(delivery.token);
        done(&mut conn, "q", &delivery, &[]).unwrap();
    }
    let gaps = instants
        .windows(2)
        .map(|pair| pair[1] - pair[0] - every_ms * 1000);
    let mut late: Vec<i64> = gaps.collect();
    late.sort_unstable();
    assert!(late[0] >= -1_000, "{} us too early", -late[0]);
    let rank = |rank: usize| late[(late.len() - 1) * rank / 1000];
    println!(
        "late by {} us (median), {} (99 %), {} (most)",
        rank(500),
        rank(990),
        rank(1000)
    );
}

#[test]
fn very_many_queues_that_nobody_uses_go_while_others_are_served() {
    let queues = size(2_000, 100_000);
    let server = Server::start();
    if !server.version().offers_redis(7, 0) {
        return; // the setting changes while the server runs from then on
    }
    let mut conn = server.conn();
    let before = server_number(&server, "memory", "used_memory");
    for start in (0..queues).step_by(1_000) {
        let mut pipeline = redis::pipe();
        for number in start..(start + 1_000).min(queues) {
            let queue = format!("customer:{number}");
            pipeline
                .cmd("MQ.ENQUEUE")
                .arg(&queue)
                .arg("payload")
                .arg("ID")
                .arg("a")
                .ignore();
            pipeline.cmd("MQ.CANCEL").arg(&queue).arg("a").ignore();
        }
        pipeline.exec(&mut conn).unwrap();
    }
    enqueue(&mut conn, "used", "a", &[]);
    let usage = |conn: &mut Connection, number: usize| {
        let queue = format!("customer:{number}");
        call!(*conn, "MEMORY", "USAGE", queue).unwrap().int()
    };
    for number in [0, queues / 2, queues - 1] {
        wait_until(PATIENCE, || usage(&mut conn, number) <= 400);
    }
    let bytes = |server: &Server| server_number(server, "memory", "used_memory") - before;
    println!(
        "{} bytes for an empty queue at rest",
        bytes(&server) / queues as i64
    );
    let at_rest = usage(&mut conn, 0);
    // The round over all queues notes when each of them goes: in an hour.
    call!(conn, "CONFIG", "SET", "mq.idle-ms", 3_600_000).unwrap();
    for number in 0..queues {
        wait_until(PATIENCE, || usage(&mut conn, number) > at_rest);
    }
    println!(
        "{} bytes once it is noted when it goes",
        bytes(&server) / queues as i64
    );
    call!(conn, "CONFIG", "SET", "mq.idle-ms", 1).unwrap();
    let begun = Instant::now();
    let (mut pings, mut left) = (Vec::new(), queues);
    while left > 1 {
        assert!(begun.elapsed() < PATIENCE, "{left} queues are left");
        let asked = Instant::now();
        left = call!(conn, "DBSIZE").unwrap().int() as usize;
        pings.push(asked.elapsed());
    }
    println!("{queues} queues went within {:?}", begun.elapsed());
    pings.sort_unstable();
    let rank = |rank: usize| pings[(pings.len() - 1) * rank / 1000];
    let [half, most, longest] = [500, 999, 1000].map(rank);
    println!("replies meanwhile: median {half:?}, 99.9 % {most:?}, longest {longest:?}");
    assert_eq!(counter(&mut conn, "used", "queued"), 1);
    assert_eq!(
        server_number(&server, "mq", "mq_total_idled_queues"),
        queues as i64
    );
    let used = processor_ms_of_a_second(&server);
    println!("{used:.0} ms of a second afterwards");
    assert!(used < 500.0, "{used} ms");
}
