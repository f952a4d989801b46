//! A batch among deaths, cancels, lives and locks that end, kills and failovers: its follow-up is delivered
//! once all have ended, never before and never not.

mod faults;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use faults::mix::assert_same_data;
use faults::roles::{fail_over, kill_and_promote};
use faults::workers::Peer;
use faults::{counters, done, ms, random, status, Delivery, LONG_MS};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use redis_mq_testkit::redis::{pipe, Value as Raw};
use redis_mq_testkit::{call, wait_until, ReplyExt, Server, PATIENCE};

/// What the newest delivery of the follow-up told: how many have ended, and how many are dead.
type Told = Arc<Mutex<Option<(i64, i64)>>>;

/// A consumer that puts up with every fault, and checks the follow-up whenever that comes.
struct Consumer {
    peer: Peer,
    rng: SmallRng,
    many: usize,
    told: Told,
}

impl Consumer {
    /// Takes some messages and ends them one way or another, or not.
    fn step(&mut self) -> Result<(), String> {
        let Some(conn) = self.peer.conn() else {
            return Ok(());
        };
        if self.rng.random_ratio(1, 20) {
            let some = format!("m{}", self.rng.random_range(0..self.many));
            call!(*conn, "MQ.CANCEL", "q", some)?;
        }
        // What the queue looks like at the very moment of the delivery.
        let lock = self.rng.random_range(50..400);
        let mut transaction = pipe();
        transaction.atomic();
        let take = transaction.cmd("MQ.DEQUEUE").arg("q");
        take.arg(&["COUNT", "5", "LOCK"]).arg(lock);
        transaction.cmd("MQ.INFO").arg("q");
        let replies: Vec<Raw> = transaction.query(conn).map_err(|error| error.to_string())?;
        let (taken, info) = (&replies[0], replies[1].fields());
        if taken.is_nil() {
            thread::sleep(ms(2)); // nothing is ready at the moment
            return Ok(());
        }
        for reply in taken.items() {
            let delivery = Delivery::of(reply);
            if delivery.name() == "f" {
                assert_eq!(taken.items().len(), 1, "with others that it waits for");
                let open = ["queued", "queued-with-backoff", "locked", "waiting"];
                let open: i64 = open.iter().map(|name| info[*name].int()).sum();
                assert_eq!(open, 1, "before all have ended: {info:?}");
                let more = reply.items()[6].fields();
                let batch = more["batch"].items();
                let told = (batch[0].int(), batch[1].int());
                assert_eq!(told.1, info["total-dead"].int());
                *self.told.lock().unwrap() = Some(told);
                call!(*conn, "MQ.EXTEND", "q", "f", delivery.token, LONG_MS)?;
                done(conn, "q", &delivery, &[])?;
                continue;
            }
            let verdict: &[&str] = match self.rng.random_range(0..100) {
                0..10 => continue, // nobody says anything
                10..20 => &["ERROR", "REASON", "for good"],
                20..30 => &["RETRY", "BACKOFF", "20"],
                30..40 => &["RELEASE"],
                40..50 => &["BACKOFF", "36000000"],
                _ => &[],
            };
            match done(conn, "q", &delivery, verdict) {
                Err(error) if !error.starts_with("STALE ") => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn consumer(
    addrs: &[SocketAddr],
    seed: u64,
    many: usize,
    told: &Told,
    stop: &Arc<AtomicBool>,
) -> thread::JoinHandle<()> {
    let mut consumer = Consumer {
        peer: Peer::new(addrs),
        rng: SmallRng::seed_from_u64(seed),
        many,
        told: Arc::clone(told),
    };
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        while !stop.load(Ordering::SeqCst) {
            if consumer.step().is_err() {
                consumer.peer.next();
            }
        }
    })
}

#[test]
fn the_follow_up_comes_when_all_have_ended_through_kills_and_failovers() {
    let many = if faults::soaking() { 10_000 } else { 400 };
    let mut rng = random();
    let server = || Server::builder().config("repl-ping-replica-period", 3600);
    let (mut first, mut second) = (server().start(), server().start());
    second.replica_of(&first);
    let mut conn = first.conn();
    let ids: Vec<_> = (0..many).map(|number| format!("m{number}")).collect();
    let payloads = vec!["p"; many];
    let replies = call!(
        conn,
        "MQ.MENQUEUE",
        "q",
        many,
        payloads,
        "IDS",
        ids,
        &["ATTEMPTS", "3", "THEN", "next", "THENID", "f"]
    );
    assert_eq!(replies.unwrap().items().len(), many + 1);
    // These keep it open for as long as the first faults take, and two end by time alone.
    for (id, options) in [
        ("late", ["DELAY", "1500"]),
        ("later", ["DELAY", "2500"]),
        ("expires", ["TTL", "300"]),
        ("buried", ["TTL", "400"]),
    ] {
        let bury = (id == "buried").then_some("BURY");
        let added = call!(
            conn,
            "MQ.ENQUEUE",
            "q",
            "p",
            "ID",
            id,
            &options,
            bury,
            &["PRIORITY", "9", "JOIN", "f"]
        );
        assert_eq!(added.unwrap().items()[0].text(), "added");
    }
    second.wait_for_sync(&first);

    let (told, stop) = (Told::default(), Arc::new(AtomicBool::new(false)));
    let addrs = [first.addr(), second.addr()];
    let crew: Vec<_> = (0..3)
        .map(|_| consumer(&addrs, rng.random(), many, &told, &stop))
        .collect();
    let mut faults = 0;
    while faults < 4 || (faults::soaking() && told.lock().unwrap().is_none()) {
        thread::sleep(ms(rng.random_range(50..250))); // the moment of the fault is to be random
        if rng.random() {
            fail_over(&first, &second);
            std::mem::swap(&mut first, &mut second);
        } else {
            kill_and_promote(&mut first, &mut second);
        }
        faults += 1;
    }
    let mut conn = first.conn();
    // A kill may have taken back that it was done: then it comes again.
    wait_until(PATIENCE * 2, || {
        assert!(!crew.iter().any(thread::JoinHandle::is_finished));
        status(&mut conn, "q", "f").is_none()
    });
    stop.store(true, Ordering::SeqCst);
    crew.into_iter().for_each(|thread| thread.join().unwrap());
    let told = told.lock().unwrap().expect("it has come");
    let info = counters(&mut conn, "q");
    println!("{faults} faults, told {told:?}, {info:?}");
    assert_eq!(told.0, many as i64 + 4, "each has counted once");
    assert_eq!(info["total-dead"], told.1);
    assert_eq!(info["waiting"] + info["queued"] + info["locked"], 0);
    assert_same_data(&first, &[&second]);
}
