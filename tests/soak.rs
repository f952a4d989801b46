//! Everything at once, for seconds in the usual tests and for minutes by `make soak`: producers,
//! consumers and careless clients, while servers are killed, roles change and files are rewritten.
//! In between all must add up: nothing lost, counters equal a recount, memory flat.

mod faults;

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use faults::ledger::Kept;
use faults::mix::{assert_same_data, settle, Data, Mix};
use faults::workers::{Crew, Plan};
use faults::{counters, ms, random, server_number};
use rand::rngs::SmallRng;
use rand::Rng;
use redis_mq_testkit::redis::{Client, Connection};
use redis_mq_testkit::{call, wait_until, Persistence, ReplyExt, Server, PATIENCE};

/// How long all of it takes: `MQ_SOAK_SECONDS`; without it ten minutes by `make soak`, else a moment.
fn duration() -> Duration {
    let given = env::var("MQ_SOAK_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let usual = if faults::soaking() { 600 } else { 6 };
    Duration::from_secs(given.unwrap_or(usual))
}

/// A primary and its replica, which change places.
struct Pair {
    primary: Server,
    replica: Server,
    counts: [(&'static str, usize); 5],
}

impl Pair {
    fn start() -> Self {
        let start = || {
            faults::builder()
                .persistence(Persistence::AofSnapshot)
                .config("auto-aof-rewrite-min-size", "4mb")
                .start()
        };
        let (primary, replica) = (start(), start());
        replica.replica_of(&primary);
        let counts = [
            "kill primary",
            "kill replica",
            "failover",
            "rewrite",
            "snapshot",
        ];
        Self {
            primary,
            replica,
            counts: counts.map(|name| (name, 0)),
        }
    }

    /// Lets something happen that must not cost anything.
    fn suffer(&mut self, rng: &mut SmallRng) {
        let choice = rng.random_range(0..self.counts.len());
        self.counts[choice].1 += 1;
        match choice {
            0 => {
                self.primary.configure_next_start("replicaof", "no one");
                self.primary.crash_and_restart();
            }
            1 => {
                let primary = format!("127.0.0.1 {}", self.primary.port());
                self.replica.configure_next_start("replicaof", &primary);
                self.replica.crash_and_restart();
            }
            2 => self.change_places(),
            // One that runs already is as good.
            3 => drop(call!(self.primary.conn(), "BGREWRITEAOF")),
            _ => drop(call!(self.primary.conn(), "BGSAVE")),
        }
    }

    fn change_places(&mut self) {
        self.replica.wait_for_sync(&self.primary);
        let mut conn = self.primary.conn();
        let port = self.replica.port();
        wait_until(PATIENCE, || {
            // It takes a moment until a replica that is back counts as one.
            call!(conn, "FAILOVER", "TO", "127.0.0.1", port, "TIMEOUT", 30_000).is_ok()
        });
        let role = |server: &Server| {
            let role = call!(server.conn(), "ROLE").expect("ROLE answers");
            role.items()[0].text()
        };
        wait_until(PATIENCE, || {
            role(&self.replica) == "master" && role(&self.primary) == "slave"
        });
        std::mem::swap(&mut self.primary, &mut self.replica);
    }
}

#[test]
fn mixed_load_with_kills_and_failovers_stays_sound() {
    let mut rng = random();
    let end = Instant::now() + duration();
    let mut pair = Pair::start();
    let mut memory = Vec::new();
    let mut totals = [0; 3];
    for round in 1.. {
        let length = ms(if faults::soaking() { 20_000 } else { 2_000 });
        one_round(&mut pair, &mut rng, length, &mut totals);
        memory.push(used_memory(&pair));
        println!(
            "round {round}: {} enqueued, {} delivered, {} ended so far; {:?}; {} bytes in use",
            totals[0],
            totals[1],
            totals[2],
            pair.counts,
            memory[memory.len() - 1]
        );
        if Instant::now() >= end {
            break;
        }
    }
    // Buffers and tables have their size after the first rounds.
    if let [_, _, early, .., last] = memory[..] {
        assert!(last < early + 4_000_000, "memory grows: {memory:?}");
    }
}

/// Works and suffers for that long, then lets the queue run empty and checks that all adds up.
fn one_round(pair: &mut Pair, rng: &mut SmallRng, length: Duration, totals: &mut [usize; 3]) {
    let addrs = vec![pair.primary.addr(), pair.replica.addr()];
    let stop = AtomicBool::new(false);
    let plan = Plan {
        groups: 8,
        ..Plan::new("q", addrs.clone())
    };
    let mut crew = Crew::new(plan, rng.random());
    let ledger = thread::scope(|scope| {
        let (stop, seed) = (&stop, rng.random());
        scope.spawn(move || mix_along(addrs, seed, stop));
        (0..2).for_each(|_| crew.produce(usize::MAX));
        (0..4).for_each(|_| crew.consume());
        let started = Instant::now();
        while started.elapsed() < length {
            thread::sleep(ms(rng.random_range(20..400))); // the moment of the fault is to be random
            pair.suffer(rng);
        }
        crew.enough();
        stop.store(true, Ordering::SeqCst);
        crew.finish(PATIENCE * 2)
    });
    ledger.check(Kept::Everything);
    let seen = ledger.totals();
    totals[0] += seen.accepted;
    totals[1] += seen.delivered;
    totals[2] += seen.finished;
    let [half, most, nearly_all] = [0.5, 0.99, 0.999].map(|rank| ledger.latency(rank));
    println!("from enqueue to delivery: median {half:?}, 99 % {most:?}, 99.9 % {nearly_all:?}");

    let mut conn = pair.primary.conn();
    let all = counters(&mut conn, "q");
    assert_eq!(
        (all["messages"], all["total-done"]),
        (0, all["total-enqueued"]),
        "{all:?}"
    );
    settle(&pair.primary);
    assert_same_data(&pair.primary, &[&pair.replica]);
    // Loading counts every message anew.
    let before = Data::at_rest(&mut conn);
    call!(conn, "DEBUG", "RELOAD").expect("the data can be saved and loaded");
    assert_eq!(Data::at_rest(&mut conn), before, "counters equal a recount");
    Mix::clear(&mut conn);
}

/// Does random things on other queues, at whichever server takes them.
fn mix_along(addrs: Vec<std::net::SocketAddr>, seed: u64, stop: &AtomicBool) {
    let mut mix = Mix::new(seed).messages_only().where_servers_change();
    let connect = |number: usize| -> Option<Connection> {
        let client = Client::open(format!("redis://{}/", addrs[number % addrs.len()])).ok()?;
        let conn = client
            .get_connection_with_timeout(Duration::from_secs(2))
            .ok()?;
        conn.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        Some(conn)
    };
    for number in 0.. {
        let Some(mut conn) = connect(number) else {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(ms(5));
            continue;
        };
        mix.reconnected();
        while mix.step(&mut conn).is_ok() {
            if stop.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}

/// What the primary uses once its clients are gone and what is freed in the background too.
fn used_memory(pair: &Pair) -> i64 {
    let server = &pair.primary;
    wait_until(PATIENCE, || {
        server_number(server, "memory", "lazyfree_pending_objects") == 0
            && server_number(server, "persistence", "aof_rewrite_in_progress") == 0
    });
    server_number(server, "memory", "used_memory_dataset")
}
