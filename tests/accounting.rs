//! Count in = count out: what producers were told was accepted is delivered and ended once, whatever
//! happens to connections and consumers.

mod faults;

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use faults::ledger::Kept;
use faults::workers::{Crew, Plan};
use faults::{
    aof, counter, counters, dequeue, dequeue_many, done, enqueue, enqueue_many, ms, random, rounds,
    server_number, status, Delivery, LONG_MS,
};
use rand::Rng;
use redis_mq_testkit::{call, wait_until, Direction, Proxy, ReplyExt, Server, Wire, PATIENCE};

/// The sums of MQ.INFO fit each other once a queue has run empty without dead letters.
#[track_caller]
fn assert_balanced(server: &Server, queue: &str) {
    let all = counters(&mut server.conn(), queue);
    assert_eq!(all["messages"], 0, "{all:?}");
    assert_eq!(all["total-done"], all["total-enqueued"], "{all:?}");
    let ended = all["total-done"] + all["total-retried"] + all["total-expired-locks"];
    // A release ends a delivery without a counter of its own.
    assert!(all["total-delivered"] >= ended, "{all:?}");
}

#[test]
fn without_faults_the_counters_are_exact() {
    let server = Server::start();
    let mut plan = Plan::new("q", vec![server.addr()]);
    plan.lock_ms = LONG_MS;
    (plan.vanish, plan.hang_up, plan.give_back) = (0, 0, 0);
    let mut crew = Crew::new(plan, 1);
    (0..3).for_each(|_| crew.produce(2_000));
    (0..3).for_each(|_| crew.consume());
    let ledger = crew.finish(PATIENCE);
    ledger.check(Kept::Everything);
    let totals = ledger.totals();
    assert_eq!(
        (totals.accepted, totals.delivered, totals.finished),
        (6_000, 6_000, 6_000)
    );
    let all = counters(&mut server.conn(), "q");
    for (name, expected) in [
        ("total-enqueued", 6_000),
        ("total-delivered", 6_000),
        ("total-done", 6_000),
        ("total-retried", 0),
        ("total-dead", 0),
        ("total-expired-locks", 0),
        ("messages", 0),
    ] {
        assert_eq!(all[name], expected, "{name}: {all:?}");
    }
}

#[test]
fn cut_connections_and_vanished_consumers_lose_nothing() {
    let mut rng = random();
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    let mut plan = Plan::new("q", vec![proxy.addr()]);
    plan.lock_ms = 100;
    (plan.vanish, plan.hang_up, plan.give_back) = (30, 30, 60);
    let mut crew = Crew::new(plan, rng.random());
    (0..3).for_each(|_| crew.produce(rounds(1_000)));
    (0..4).for_each(|_| crew.consume());
    let mut cuts = 0;
    while crew.is_producing() || cuts < 20 {
        thread::sleep(ms(rng.random_range(1..40))); // the moment of the fault is to be random
        match rng.random_range(0..4) {
            0 => proxy.cut(),
            1 => proxy.cut_after(Direction::ToClient, rng.random_range(0..400)),
            2 => proxy.cut_after(Direction::ToServer, rng.random_range(0..400)),
            _ => drop(call!(
                server.conn(),
                "CLIENT",
                "KILL",
                "TYPE",
                "normal",
                "SKIPME",
                "yes"
            )),
        }
        cuts += 1;
    }
    proxy.resume();
    let ledger = crew.finish(PATIENCE * 2);
    ledger.check(Kept::Everything);
    println!("{cuts} cuts, {:?}", ledger.totals());
    assert_balanced(&server, "q");
}

#[test]
fn messages_delivered_to_cut_connections_all_come_back() {
    let server = Server::start();
    let mut conn = server.conn();
    let count = rounds(2_000);
    enqueue_many(&mut conn, "q", "m", count, &[]);
    let take = aof::encode(&["MQ.DEQUEUE", "q", "LOCK", "500"]);
    let (mut cut, mut blocked) = (0, 0);
    while cut < count {
        // Sent and gone, before the reply is read.
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&take).unwrap();
        cut += 1;
        if cut % 50 == 0 {
            // Some are blocked when they go: nothing may ever be locked for those.
            let mut waiter = server.wire();
            waiter.send(&["MQ.DEQUEUE", "none", "BLOCK", "0"]);
            blocked += 1;
        }
    }
    wait_until(PATIENCE, || {
        counter(&mut conn, "q", "total-delivered") as usize >= count
    });
    let mut seen: HashMap<Vec<u8>, i64> = HashMap::new();
    while seen.len() < count {
        let some = dequeue_many(
            &mut conn,
            "q",
            1_000,
            &["BLOCK", "0", "LOCK", &LONG_MS.to_string()],
        );
        for one in some {
            assert!(one.attempt >= 2, "{one:?}");
            assert!(
                seen.insert(one.id, one.token).is_none(),
                "each is held by one only"
            );
        }
    }
    println!("{cut} cut, {blocked} blocked");
    let all = counters(&mut conn, "q");
    assert_eq!(all["locked"] as usize, count);
    assert_eq!(
        all["total-delivered"] - all["total-expired-locks"],
        count as i64
    );
    wait_until(PATIENCE, || {
        server_number(&server, "clients", "blocked_clients") == 0
    });
    enqueue(&mut conn, "none", "later", &[]);
    assert_eq!(
        dequeue(&mut conn, "none", &[]).unwrap().attempt,
        1,
        "nobody was served in between"
    );
}

#[test]
fn serve_and_timeout_in_the_same_instant_give_one_reply_each() {
    let mut rng = random();
    let server = Server::start();
    let mut conn = server.conn();
    let wires: Vec<_> = (0..8).map(|_| server.wire()).collect();
    let stop = AtomicBool::new(false);
    let (mut served, mut unserved) = (0, 0);
    thread::scope(|scope| {
        // Consumers whose time is over about when the next message comes.
        let consumers: Vec<_> = wires
            .into_iter()
            .map(|mut wire| {
                let stop = &stop;
                let seed: u64 = rng.random();
                scope.spawn(move || {
                    let (mut served, mut unserved) = (Vec::new(), 0);
                    for number in seed.. {
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                        let block = (number % 4 + 1).to_string();
                        wire.send(&["MQ.DEQUEUE", "q", "BLOCK", &block, "LOCK", "36000000"]);
                        match wire.reply().unwrap() {
                            reply if reply.is_nil() => unserved += 1,
                            reply => served.push(Delivery::of(&reply).name()),
                        }
                    }
                    // One reply each: after the last there is nothing more to read.
                    assert_eq!(wire.call(&["PING"]).unwrap().text(), "PONG");
                    (served, unserved)
                })
            })
            .collect();
        let count = rounds(4_000);
        let started = Instant::now();
        for number in 0..count {
            enqueue(&mut conn, "q", &number.to_string(), &[]);
            if number % 3 == 0 {
                thread::sleep(ms(1)); // so that they get to wait
            }
        }
        println!("enqueued in {:?}", started.elapsed());
        wait_until(PATIENCE, || counter(&mut conn, "q", "queued") == 0);
        stop.store(true, Ordering::SeqCst);
        let mut names = Vec::new();
        for consumer in consumers {
            let (mut some, none) = consumer.join().expect("the consumer's checks hold");
            names.append(&mut some);
            unserved += none;
        }
        served += names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "each message went to one consumer");
    });
    println!("{served} served, {unserved} timed out");
    let all = counters(&mut conn, "q");
    assert_eq!(
        all["total-delivered"], served as i64,
        "nothing is locked without a delivery"
    );
    assert_eq!(all["locked"], served as i64);
}

#[test]
fn the_loser_of_a_race_for_the_last_attempt_gets_nothing_and_harms_nobody() {
    let server = Server::start();
    for round in 0..rounds(50) {
        let queue = format!("q{round}");
        let mut conn = server.conn();
        enqueue(&mut conn, &queue, "m", &["ATTEMPTS", "1"]);
        let mut wires: Vec<Wire> = (0..4).map(|_| server.wire()).collect();
        for wire in &mut wires {
            wire.send(&["MQ.DEQUEUE", &queue, "LOCK", "36000000"]);
        }
        let replies: Vec<_> = wires.iter_mut().map(|wire| wire.reply().unwrap()).collect();
        let won: Vec<_> = replies.iter().filter(|reply| !reply.is_nil()).collect();
        assert_eq!(won.len(), 1);
        let winner = Delivery::of(won[0]);
        assert_eq!(status(&mut conn, &queue, "m").as_deref(), Some("locked"));
        assert_eq!(
            done(&mut conn, &queue, &winner, &[]).unwrap().text(),
            "done"
        );
        assert_eq!(counter(&mut conn, &queue, "total-dead"), 0);
    }
}

#[test]
fn a_dead_holder_s_message_goes_to_who_waits_when_its_lock_ends_not_before() {
    let server = Server::start();
    let mut conn = server.conn();
    enqueue(&mut conn, "q", "m", &[]);
    {
        let mut holder = server.wire();
        let reply = holder.call(&["MQ.DEQUEUE", "q", "LOCK", "200"]).unwrap();
        assert_eq!(Delivery::of(&reply).attempt, 1);
    }
    let due = call!(conn, "MQ.GET", "q", "m").unwrap().fields()["due-at"].int();
    let again = dequeue(&mut conn, "q", &["BLOCK", "0"]).unwrap();
    assert_eq!((again.name(), again.attempt), ("m".to_string(), 2));
    // The token is the instant of the delivery in µs.
    assert!(
        again.token / 1000 >= due,
        "{} before {due}",
        again.token / 1000
    );
}

#[test]
fn the_unserved_of_two_consumers_keeps_its_own_deadline() {
    let server = Server::start();
    let mut conn = server.conn();
    let (mut first, mut second) = (server.wire(), server.wire());
    first.send(&["MQ.DEQUEUE", "q", "BLOCK", "0"]);
    server.wait_for_blocked(1);
    let asked = Instant::now();
    second.send(&["MQ.DEQUEUE", "q", "BLOCK", "1500"]);
    server.wait_for_blocked(2);
    enqueue(&mut conn, "q", "m", &[]);
    assert_eq!(Delivery::of(&first.reply().unwrap()).name(), "m");
    // Woken in vain a few more times.
    for _ in 0..5 {
        enqueue(&mut conn, "q", "other", &["DELAY", &LONG_MS.to_string()]);
        call!(conn, "MQ.CANCEL", "q", "other").unwrap();
    }
    assert!(second.reply().unwrap().is_nil());
    assert!(
        asked.elapsed() >= ms(1_499),
        "not before its time: {:?}",
        asked.elapsed()
    );
    assert_eq!(counter(&mut conn, "q", "total-delivered"), 1);
}

#[test]
fn a_verdict_whose_reply_was_lost_can_be_sent_again() {
    let server = Server::start();
    let mut conn = server.conn();
    let cases: &[(&[&str], &str)] = &[
        (&[], "total-done"),
        (&["RETRY", "BACKOFF", "36000000"], "total-retried"),
        (&["ERROR"], "total-dead"),
    ];
    for (number, (verdict, counted)) in cases.iter().enumerate() {
        let queue = format!("q{number}");
        enqueue(&mut conn, &queue, "m", &[]);
        let taken = dequeue(&mut conn, &queue, &[]).unwrap();
        let token = taken.token.to_string();
        let mut words = vec!["MQ.DONE", &queue[..], "m", &token];
        words.extend_from_slice(verdict);
        {
            let mut stream = TcpStream::connect(server.addr()).unwrap();
            stream.write_all(&aof::encode(&words)).unwrap();
        }
        wait_until(PATIENCE, || counter(&mut conn, &queue, counted) == 1);
        let before = redis_mq_testkit::digest(&mut conn, &queue);
        match done(&mut conn, &queue, &taken, verdict) {
            Ok(reply) => assert!(reply.is_nil(), "{verdict:?}: {reply:?}"),
            Err(error) => assert!(error.starts_with("STALE "), "{verdict:?}: {error}"),
        }
        assert_eq!(
            redis_mq_testkit::digest(&mut conn, &queue),
            before,
            "{verdict:?}"
        );
    }
}

#[test]
fn a_requeue_with_newer_content_runs_exactly_once_more() {
    let server = Server::start();
    let mut conn = server.conn();
    enqueue(&mut conn, "q", "m", &[]);
    let first = dequeue(&mut conn, "q", &[]).unwrap();
    for (payload, options, outcome) in [
        ("second", &["REQUEUE"][..], "requeued"),
        ("newest", &["REQUEUE", "UPDATE"], "updated"),
    ] {
        let reply = call!(conn, "MQ.ENQUEUE", "q", payload, "ID", "m", options).unwrap();
        assert_eq!(reply.items()[0].text(), outcome);
    }
    assert_eq!(done(&mut conn, "q", &first, &[]).unwrap().text(), "queued");
    let second = dequeue(&mut conn, "q", &[]).unwrap();
    assert_eq!((&second.payload[..], second.attempt), (&b"newest"[..], 1));
    assert_eq!(done(&mut conn, "q", &second, &[]).unwrap().text(), "done");
    assert_eq!(dequeue(&mut conn, "q", &[]), None);
    assert_eq!(counter(&mut conn, "q", "messages"), 0);
}
