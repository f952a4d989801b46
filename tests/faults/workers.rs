//! Producers and consumers on threads of their own that put up with everything: restarts, failovers,
//! cut connections. What they are told goes into a ledger.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use redis_mq_testkit::redis::{Client, Connection, RedisResult};
use redis_mq_testkit::{call, Reply, ReplyExt, Value};

use super::aof::encode;
use super::ledger::Ledger;
use super::Delivery;

/// Producers wait while so many messages are not ended.
const AHEAD: usize = 5_000;

/// What all of a crew have in common.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where servers may be; the one that takes writes is looked for.
    pub addrs: Vec<SocketAddr>,
    /// The queue.
    pub queue: String,
    /// How long a delivery is locked.
    pub lock_ms: u64,
    /// Whether a step counts as acknowledged only when a replica has it.
    pub confirm: bool,
    /// In so many groups, each in order, a producer sends most of its messages; 0 for none.
    pub groups: usize,
    /// Out of a thousand deliveries, so many never get a verdict.
    pub vanish: u32,
    /// Out of a thousand requests for messages, so many end with the connection before the reply.
    pub hang_up: u32,
    /// Out of a thousand deliveries, so many are given back by RETRY or RELEASE.
    pub give_back: u32,
}

impl Plan {
    /// Consumers that do their work, with a few that do not.
    pub fn new(queue: &str, addrs: Vec<SocketAddr>) -> Self {
        Self {
            addrs,
            queue: queue.to_string(),
            lock_ms: 400,
            confirm: false,
            groups: 0,
            vanish: 10,
            hang_up: 10,
            give_back: 30,
        }
    }
}

/// Running producers and consumers.
#[derive(Debug)]
pub struct Crew {
    plan: Plan,
    ledger: Arc<Ledger>,
    producing: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    seed: u64,
}

impl Crew {
    /// Nobody yet.
    pub fn new(plan: Plan, seed: u64) -> Self {
        Self {
            plan,
            ledger: Arc::default(),
            producing: Arc::default(),
            enough: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
            seed,
        }
    }

    /// What was promised.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Adds a producer that sends so many messages, or fewer if that is enough.
    pub fn produce(&mut self, messages: usize) {
        let number = self.threads.len();
        let (producing, enough) = (Arc::clone(&self.producing), Arc::clone(&self.enough));
        producing.fetch_add(1, Ordering::SeqCst);
        self.start(move |worker| {
            for count in 0..messages {
                while worker.ledger.unfinished() >= AHEAD && !enough.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
                if enough.load(Ordering::SeqCst) {
                    break;
                }
                let is_plain = worker.plan.groups == 0 || count % 4 == 0;
                let group = (!is_plain).then(|| count % worker.plan.groups);
                let group = group.map(|group| format!("p{number}:{group}"));
                worker.send(&format!("p{number}-{count}"), group.as_deref());
            }
            producing.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// Adds a consumer that takes messages until it is told to stop.
    pub fn consume(&mut self) {
        let stop = Arc::clone(&self.stop);
        self.start(move |worker| {
            while !stop.load(Ordering::SeqCst) {
                worker.receive();
            }
        });
    }

    /// Lets the producers send no more.
    pub fn enough(&self) {
        self.enough.store(true, Ordering::SeqCst);
    }

    /// Whether any producer still has messages to send.
    pub fn is_producing(&self) -> bool {
        self.producing.load(Ordering::SeqCst) > 0
    }

    /// Waits until the producers are through and the consumers have emptied the queue; then all stop.
    ///
    /// # Panics
    ///
    /// If the queue is not empty after `deadline`, or a worker was told something it should not be.
    #[track_caller]
    pub fn finish(self, deadline: Duration) -> Arc<Ledger> {
        let started = Instant::now();
        let mut peer = Peer::new(&self.plan.addrs);
        loop {
            let left = match peer.conn() {
                Some(conn) => call!(*conn, "MQ.INFO", &self.plan.queue),
                None => Ok(Value::Nil), // the next try is at the next server
            };
            let left = match left {
                Ok(info) if info.is_nil() => Err("no such queue".to_string()),
                Ok(info) => Ok(info.fields()["messages"].int()),
                Err(error) => {
                    peer.next();
                    Err(error)
                }
            };
            if !self.is_producing() && left == Ok(0) {
                break;
            }
            if self.threads.iter().any(JoinHandle::is_finished) && started.elapsed() > deadline {
                break; // the reason comes with the joined thread
            }
            assert!(
                started.elapsed() < deadline,
                "not empty after {deadline:?}: {left:?}"
            );
            thread::sleep(Duration::from_millis(10));
        }
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.ledger
    }

    fn start(&mut self, work: impl FnOnce(&mut Worker) + Send + 'static) {
        let mut worker = Worker {
            peer: Peer::new(&self.plan.addrs),
            plan: self.plan.clone(),
            ledger: Arc::clone(&self.ledger),
            rng: SmallRng::seed_from_u64(self.seed.wrapping_add(self.threads.len() as u64)),
        };
        self.threads.push(thread::spawn(move || work(&mut worker)));
    }
}

/// A connection to whichever server answers.
pub struct Peer {
    addrs: Vec<SocketAddr>,
    at: usize,
    conn: Option<Connection>,
}

impl Peer {
    /// Servers to look at, the first of them first.
    pub fn new(addrs: &[SocketAddr]) -> Self {
        Self {
            addrs: addrs.to_vec(),
            at: 0,
            conn: None,
        }
    }

    /// The connection; none if the server is away at the moment.
    pub fn conn(&mut self) -> Option<&mut Connection> {
        if self.conn.is_none() {
            let addr = self.addrs[self.at % self.addrs.len()];
            let connect = || {
                let client = Client::open(format!("redis://{addr}/"))?;
                let conn = client.get_connection_with_timeout(Duration::from_secs(2))?;
                conn.set_read_timeout(Some(Duration::from_secs(10)))?;
                RedisResult::Ok(conn)
            };
            match connect() {
                Ok(conn) => self.conn = Some(conn),
                Err(_) => {
                    self.at += 1;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        self.conn.as_mut()
    }

    /// Sends a command from a connection of its own that ends before the reply: what it delivers,
    /// nobody gets.
    fn send_and_go(&self, command: &[u8]) {
        let stream = TcpStream::connect(self.addrs[self.at % self.addrs.len()]);
        // A server that is away at the moment delivers nothing either.
        let _ = stream.and_then(|mut stream| stream.write_all(command));
    }

    /// Gives up this connection; the next is to the next server.
    pub fn next(&mut self) {
        self.conn = None;
        self.at += 1;
        thread::sleep(Duration::from_millis(2));
    }
}

struct Worker {
    peer: Peer,
    plan: Plan,
    ledger: Arc<Ledger>,
    rng: SmallRng,
}

impl Worker {
    /// Enqueues one message, once.
    fn send(&mut self, id: &str, group: Option<&str>) {
        let confirm = self.plan.confirm;
        let queue = self.plan.queue.clone();
        let conn = loop {
            if let Some(conn) = self.peer.conn() {
                break conn;
            }
        };
        self.ledger.enqueuing(id, group);
        let group: Vec<_> = group.into_iter().flat_map(|name| ["GROUP", name]).collect();
        match call!(
            *conn,
            "MQ.ENQUEUE",
            &queue,
            format!("payload of {id}"),
            "ID",
            id,
            group
        ) {
            Ok(reply) => {
                assert_eq!(reply.items()[0].text(), "added", "{id}");
                if !confirm || confirmed(conn) {
                    self.ledger.accepted(id);
                }
            }
            Err(error) => self.put_up_with(&error),
        }
    }

    /// Takes messages and ends their deliveries, or does not.
    fn receive(&mut self) {
        let (queue, lock) = (self.plan.queue.clone(), self.plan.lock_ms);
        let hang_up = self.rng.random_ratio(self.plan.hang_up, 1000);
        let count = self.rng.random_range(1..5);
        if hang_up {
            let words = ["MQ.DEQUEUE", &queue, "LOCK", &lock.to_string()];
            return self.peer.send_and_go(&encode(&words));
        }
        let Some(conn) = self.peer.conn() else { return };
        let asked = Instant::now();
        let reply = call!(
            *conn,
            "MQ.DEQUEUE",
            &queue,
            "COUNT",
            count,
            "LOCK",
            lock,
            "BLOCK",
            50
        );
        match reply {
            Ok(reply) if reply.is_nil() => {}
            Ok(reply) => {
                let all: Vec<_> = reply.items().iter().map(Delivery::of).collect();
                all.iter()
                    .for_each(|delivery| self.ledger.handed(delivery, asked));
                all.iter().for_each(|delivery| self.answer(delivery));
            }
            Err(error) => self.put_up_with(&error),
        }
    }

    fn answer(&mut self, delivery: &Delivery) {
        let choice = self.rng.random_range(0..1000);
        let (vanish, give_back) = (self.plan.vanish, self.plan.give_back);
        let verdict: &[&str] = match choice {
            _ if choice < vanish => return,
            _ if choice < vanish + give_back / 3 => &["RELEASE"],
            _ if choice < vanish + give_back * 2 / 3 => &["RETRY", "BACKOFF", "20"],
            _ if choice < vanish + give_back => &["RETRY"],
            _ => &[],
        };
        if !verdict.is_empty() {
            self.ledger.giving_back(delivery);
        }
        // A verdict whose reply is lost is sent again, which must be harmless.
        for _ in 0..50 {
            let Some(conn) = self.peer.conn() else {
                continue;
            };
            let queue = &self.plan.queue;
            match call!(
                *conn,
                "MQ.DONE",
                queue,
                &delivery.id,
                delivery.token,
                verdict
            ) {
                Ok(reply) if reply.is_nil() => return,
                Ok(reply) => {
                    let became = reply.text();
                    if verdict.is_empty() {
                        assert_eq!(became, "done", "{delivery:?}");
                        if !self.plan.confirm || confirmed(conn) {
                            self.ledger.finished(delivery);
                        }
                    } else {
                        assert!(became.starts_with("queued"), "{delivery:?}: {became}");
                    }
                    return;
                }
                Err(error) if error.starts_with("STALE ") => return self.ledger.stale(),
                Err(error) => self.put_up_with(&error),
            }
        }
    }

    /// Reconnects after an error that a fault explains.
    ///
    /// # Panics
    ///
    /// At any other.
    fn put_up_with(&mut self, error: &str) {
        let explained = [
            "READONLY",
            "LOADING",
            "MASTERDOWN",
            "UNBLOCKED",
            "NOREPLICAS",
            "NOREPL",
        ];
        let code = error.split(' ').next().unwrap_or_default();
        let from_server = code.len() > 2
            && code
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        assert!(!from_server || explained.contains(&code), "{error}");
        self.peer.next();
    }
}

/// Whether a replica has everything that this connection wrote.
fn confirmed(conn: &mut Connection) -> bool {
    let reply: Reply = call!(*conn, "WAIT", 1, 200);
    reply.is_ok_and(|replicas| replicas.int() >= 1)
}
