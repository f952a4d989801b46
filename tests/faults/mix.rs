//! Random operations on a few queues in two databases, the way careless clients would send them.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use redis_mq_testkit::redis::{self, cmd, Cmd, Connection, RedisResult};
use redis_mq_testkit::{call, digest, error_text, wait_until, ReplyExt, Server, Value, PATIENCE};

use super::{dataset_digest, let_time_act, stable_counters, Delivery, LONG_MS};

const QUEUES: [&str; 3] = ["orders", "mail", "{tag}bills"];
const DATABASES: [i64; 2] = [0, 5];
const IDS: u32 = 60;
/// Replies that careless clients earn.
const EARNED: [&str; 5] = [
    "STALE",
    "FULL",
    "WRONGTYPE",
    "no such key",
    "source and destination objects",
];

/// What is purged.
const PURGED: [&str; 4] = ["queued", "queued-with-backoff", "dead", "done-with-backoff"];

/// Replies of a server that is not, or not now, the one to talk to.
const AWAY: [&str; 5] = [
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "UNBLOCKED",
    "EXECABORT",
];

/// A client that does random things.
#[derive(Debug)]
pub struct Mix {
    rng: SmallRng,
    database: i64,
    open: Vec<(&'static str, Delivery)>,
    whole_keys: bool,
    servers_change: bool,
}

impl Mix {
    /// A client that repeats itself for the same seed and the same replies.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            database: 0,
            open: Vec::new(),
            whole_keys: true,
            servers_change: false,
        }
    }

    /// One that leaves the queues themselves in place: no DEL, RENAME and the like.
    #[must_use]
    pub fn messages_only(mut self) -> Self {
        self.whole_keys = false;
        self
    }

    /// One whose server may go away or take no more writes; [`Self::step`] tells by an error.
    #[must_use]
    pub fn where_servers_change(mut self) -> Self {
        self.servers_change = true;
        self
    }

    /// The connection is a new one.
    pub fn reconnected(&mut self) {
        self.database = 0;
    }

    /// Removes all that such clients have made.
    #[track_caller]
    pub fn clear(conn: &mut Connection) {
        for database in DATABASES.into_iter().rev() {
            call!(*conn, "SELECT", database).expect("the database exists");
            call!(*conn, "UNLINK", &QUEUES).expect("keys can be removed");
        }
    }

    /// Does so many random things; each may be several commands.
    ///
    /// # Panics
    ///
    /// At an error that nothing explains, or if the connection ends.
    #[track_caller]
    pub fn run(&mut self, conn: &mut Connection, steps: usize) {
        for _ in 0..steps {
            self.step(conn).expect("the server answers");
        }
    }

    /// Does one random thing.
    ///
    /// # Errors
    ///
    /// Those of the connection, and those of a server that is no longer the right one if that may be.
    pub fn step(&mut self, conn: &mut Connection) -> RedisResult<()> {
        if self.rng.random_ratio(1, 40) {
            self.database = *DATABASES.choose(&mut self.rng).expect("there are two");
            cmd("SELECT").arg(self.database).exec(conn)?;
        }
        match self.rng.random_range(0..100) {
            0..85 => {
                let (queue, command) = self.command();
                let reply = self.tolerate(command.query(conn), &[command])?;
                self.learn(queue, &reply);
            }
            85..93 => {
                let count = self.rng.random_range(1..6);
                let (queues, commands): (Vec<_>, Vec<_>) =
                    (0..count).map(|_| self.command()).unzip();
                let mut pipeline = redis::pipe();
                pipeline.atomic();
                for command in &commands {
                    pipeline.add_command(command.clone());
                }
                let replies = self.tolerate(pipeline.query(conn), &commands)?;
                // None if one of them failed: the crate keeps the others' replies to itself.
                if let Value::Array(replies) = replies {
                    let pairs = queues.iter().zip(&replies);
                    pairs.for_each(|(queue, reply)| self.learn(queue, reply));
                }
            }
            _ => {
                let (queue, command) = self.command();
                let mut script = cmd("EVAL");
                script
                    .arg("return redis.call(unpack(ARGV))")
                    .arg(1)
                    .arg(queue);
                for word in command.args_iter() {
                    if let redis::Arg::Simple(word) = word {
                        script.arg(word);
                    }
                }
                let reply = self.tolerate(script.query(conn), &[script])?;
                self.learn(queue, &reply);
            }
        }
        Ok(())
    }

    /// Nil for an error that a careless client earns.
    #[track_caller]
    fn tolerate(&self, reply: RedisResult<Value>, sent: &[Cmd]) -> RedisResult<Value> {
        let Err(error) = reply else { return reply };
        let text = format!("{} {error}", error_text(&error));
        if EARNED.iter().any(|earned| text.contains(earned)) {
            return Ok(Value::Nil);
        }
        let moved = AWAY.iter().any(|away| text.contains(away));
        if self.servers_change && (moved || error.is_io_error() || error.is_connection_dropped()) {
            return Err(error);
        }
        let sent: Vec<_> = sent
            .iter()
            .map(|command| command.get_packed_command())
            .collect();
        let shown: Vec<_> = sent
            .iter()
            .map(|bytes| bytes.escape_ascii().to_string())
            .collect();
        assert!(error.is_io_error(), "{text}\nto {}", shown.join("\n"));
        Err(error)
    }

    /// Remembers the deliveries among the replies, to end them later.
    fn learn(&mut self, queue: &'static str, reply: &Value) {
        let Value::Array(items) = reply else { return };
        match items.first() {
            Some(Value::Array(_)) => items.iter().for_each(|item| self.learn(queue, item)),
            Some(Value::BulkString(_)) if items.len() >= 6 => {
                if matches!(
                    items[2..6],
                    [Value::Int(_), Value::Int(_), Value::Int(_), Value::Int(_)]
                ) {
                    self.open.push((queue, Delivery::of(reply)));
                }
            }
            _ => {}
        }
    }

    fn command(&mut self) -> (&'static str, Cmd) {
        let queue = *QUEUES.choose(&mut self.rng).expect("there are some");
        match self.rng.random_range(0..100) {
            0..40 => (queue, self.enqueue(queue)),
            40..65 => (queue, self.dequeue(queue)),
            65..88 => self.verdict(queue),
            88..91 => (queue, self.with_ids("MQ.CANCEL", queue, 3)),
            91..94 => (queue, self.with_ids("MQ.STATUS", queue, 1)),
            94..96 => (queue, self.with_ids("MQ.GET", queue, 1)),
            96..97 => (queue, named("MQ.INFO", queue)),
            97..98 => (queue, self.operate(queue)),
            _ if self.whole_keys => (queue, self.whole_key(queue)),
            _ => (queue, self.operate(queue)),
        }
    }

    fn enqueue(&mut self, queue: &str) -> Cmd {
        let mut command = named("MQ.ENQUEUE", queue);
        let length = match self.rng.random_range(0..100) {
            0..5 => 0,
            5..80 => self.rng.random_range(1..64),
            80..99 => self.rng.random_range(64..3_000),
            _ => self.rng.random_range(60_000..140_000),
        };
        let mut payload = vec![0u8; length];
        self.rng.fill(&mut payload[..]);
        command.arg(payload);
        if self.rng.random_ratio(9, 10) {
            command.arg("ID").arg(self.id());
        }
        let is_delayed = self.rng.random_ratio(1, 4);
        if is_delayed {
            command.arg("DELAY").arg(self.span(0));
        }
        if self.rng.random_ratio(1, 5) {
            command.arg("LOCK").arg(self.span(1));
        }
        if self.rng.random_ratio(1, 3) {
            command.arg("ATTEMPTS").arg(self.rng.random_range(0..4));
        }
        if self.rng.random_ratio(1, 3) {
            command.arg("PRIORITY").arg(self.rng.random_range(0..10));
        }
        if self.rng.random_ratio(1, 4) {
            command.arg("GROUP").arg(self.group());
        }
        if self.rng.random_ratio(1, 3) {
            // It must be longer than the delay.
            let least = if is_delayed { 2 * LONG_MS } else { 1 };
            command.arg("TTL").arg(least + self.span(0));
            if self.rng.random() {
                command.arg("BURY");
            }
        }
        if self.rng.random_ratio(1, 3) {
            command.arg("REQUEUE");
        }
        if self.rng.random_ratio(1, 4) {
            command.arg("UPDATE");
        }
        command
    }

    fn dequeue(&mut self, queue: &str) -> Cmd {
        let mut command = named("MQ.DEQUEUE", queue);
        if self.rng.random_ratio(1, 3) {
            command.arg("COUNT").arg(self.rng.random_range(1..30));
        }
        if self.rng.random_ratio(3, 4) {
            command.arg("LOCK").arg(self.span(1));
        }
        match self.rng.random_range(0..10) {
            0..2 => drop(command.arg("EOQ")),
            2..4 => drop(command.arg("BLOCK").arg(self.rng.random_range(1..4))),
            _ => {}
        }
        command
    }

    fn verdict(&mut self, queue: &'static str) -> (&'static str, Cmd) {
        let forget = self.rng.random_ratio(9, 10);
        let chosen = match self.open.len() {
            0 => None,
            count if forget => Some(self.open.swap_remove(self.rng.random_range(0..count))),
            count => Some(self.open[self.rng.random_range(0..count)].clone()),
        };
        let Some((queue, delivery)) = chosen else {
            return (queue, self.dequeue(queue));
        };
        let name = if self.rng.random_ratio(1, 10) {
            "MQ.EXTEND"
        } else {
            "MQ.DONE"
        };
        let mut command = named(name, queue);
        command.arg(&delivery.id).arg(delivery.token);
        if name == "MQ.EXTEND" {
            command.arg(self.span(1));
            return (queue, command);
        }
        match self.rng.random_range(0..10) {
            0..1 => {}
            1..3 => {
                command.arg("RESULT").arg("random\r\n%s");
                command.arg("RETAIN").arg(self.span(0));
            }
            3..5 => drop(command.arg("BACKOFF").arg(self.span(0))),
            5..6 => drop(command.arg("RETRY").arg("BACKOFF").arg("EXP")),
            6..7 => drop(command.arg("RETRY")),
            7..8 => drop(command.arg("RETRY").arg("BACKOFF").arg(self.span(0))),
            8..9 => drop(command.arg("ERROR").arg("REASON").arg("random\r\n%s")),
            _ => drop(command.arg("RELEASE")),
        }
        (queue, command)
    }

    /// What an operator does: limits, pauses, repairs.
    fn operate(&mut self, queue: &str) -> Cmd {
        let off = |on: Option<u64>| on.map_or("OFF".to_string(), |number| number.to_string());
        let number = |mix: &mut Self, most| off(mix.maybe(most));
        match self.rng.random_range(0..14) {
            0 => named("MQ.LIMIT", queue)
                .arg("INFLIGHT")
                .arg(number(self, 6))
                .take(),
            1 => {
                let (count, ms) = (self.rng.random_range(1..40), self.rng.random_range(1..20));
                let burst = self.rng.random_range(1..5);
                let mut limit = named("MQ.LIMIT", queue);
                limit
                    .arg("RATE")
                    .arg(count)
                    .arg(ms)
                    .arg("BURST")
                    .arg(burst)
                    .take()
            }
            2..4 => named("MQ.LIMIT", queue)
                .arg(&["RATE", "OFF", "INFLIGHT", "OFF"])
                .take(),
            4 => {
                let mut limit = named("MQ.LIMIT", queue);
                limit
                    .arg("LENGTH")
                    .arg(off(self.maybe(40).map(|more| 20 + more)));
                limit.arg("ATTEMPTS").arg(number(self, 5)).take()
            }
            5 => {
                let mut limit = named("MQ.LIMIT", queue);
                limit.arg("DEAD").arg(number(self, 20));
                limit.arg("DEAD-AGE").arg(number(self, 30)).take()
            }
            6 => {
                let mut limit = named("MQ.LIMIT", queue);
                limit.arg("GROUPS").arg("INFLIGHT").arg(number(self, 4));
                limit.arg("LENGTH").arg(number(self, 20)).take()
            }
            7 => {
                let mut limit = named("MQ.LIMIT", queue);
                limit
                    .arg("GROUP")
                    .arg(self.group())
                    .arg("INFLIGHT")
                    .arg(number(self, 3));
                if self.rng.random() {
                    limit.arg("RATE").arg(1).arg(self.rng.random_range(1..10));
                } else {
                    limit.arg("RATE").arg("OFF");
                }
                limit
            }
            8..10 => {
                let mut pause = self.of_queue_or_group("MQ.PAUSE", queue);
                if self.rng.random_ratio(3, 4) {
                    pause.arg("FOR").arg(self.rng.random_range(1..25));
                }
                pause
            }
            10..12 => self.of_queue_or_group("MQ.RESUME", queue),
            12 if self.rng.random() => self.with_ids("MQ.REDRIVE", queue, 3),
            12 => {
                let count = self.rng.random_range(1..20);
                named("MQ.REDRIVE", queue).arg("COUNT").arg(count).take()
            }
            _ => {
                let status = *PURGED.choose(&mut self.rng).expect("there are some");
                let count = self.rng.random_range(1..30);
                named("MQ.PURGE", queue)
                    .arg(status)
                    .arg("COUNT")
                    .arg(count)
                    .take()
            }
        }
    }

    fn of_queue_or_group(&mut self, name: &str, queue: &str) -> Cmd {
        let mut command = named(name, queue);
        if self.rng.random() {
            command.arg("GROUP").arg(self.group());
        }
        command
    }

    /// From 1 on, or none.
    fn maybe(&mut self, most: u64) -> Option<u64> {
        self.rng
            .random_ratio(2, 3)
            .then(|| self.rng.random_range(1..=most))
    }

    fn group(&mut self) -> String {
        format!("g{}", self.rng.random_range(0..5))
    }

    fn with_ids(&mut self, name: &str, queue: &str, most: usize) -> Cmd {
        let mut command = named(name, queue);
        for _ in 0..self.rng.random_range(1..=most) {
            command.arg(self.id());
        }
        command
    }

    fn whole_key(&mut self, queue: &str) -> Cmd {
        let other = *QUEUES.choose(&mut self.rng).expect("there are some");
        match self.rng.random_range(0..12) {
            0..2 => named("RENAME", queue).arg(other).take(),
            2..5 => named("COPY", queue).arg(other).arg("REPLACE").take(),
            5..6 => named("COPY", queue)
                .arg(other)
                .arg("DB")
                .arg(5 - self.database)
                .take(),
            6..7 => named("MOVE", queue).arg(5 - self.database).take(),
            7..8 => named("UNLINK", queue),
            8..9 => cmd("SWAPDB").arg(0).arg(5).take(),
            9..10 => named("SET", queue).arg("not a queue").take(),
            10..11 => named("PEXPIRE", queue)
                .arg(self.rng.random_range(1..50))
                .take(),
            _ => named("DEL", queue),
        }
    }

    fn id(&mut self) -> Vec<u8> {
        match self.rng.random_range(0..IDS) {
            // A text that is stored in the form of the server's own ids.
            number @ 0..8 => format!("0193f5c8-7a3e-7c4d-9b2a-5f6e7d8c9b{number:02x}").into_bytes(),
            number @ 8..10 => vec![number as u8; 300],
            number => format!("id-{number}").into_bytes(),
        }
    }

    /// Either over in a moment or far away.
    fn span(&mut self, least: u64) -> u64 {
        if self.rng.random_ratio(2, 3) {
            self.rng.random_range(least..25)
        } else {
            LONG_MS + self.rng.random_range(0..LONG_MS)
        }
    }
}

fn named(name: &str, queue: &str) -> Cmd {
    cmd(name).arg(queue).take()
}

/// Lets a builder chain end in an owned command.
trait Take {
    fn take(&mut self) -> Self;
}

impl Take for Cmd {
    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// Waits until time has done all there is to do in any of the queues for minutes.
#[track_caller]
pub fn settle(server: &Server) {
    let mut conn = server.conn();
    for database in DATABASES {
        call!(conn, "SELECT", database).expect("the database exists");
        for queue in QUEUES {
            wait_until(PATIENCE, || {
                let ttl = call!(conn, "PTTL", queue).expect("PTTL answers").int();
                let reply = call!(conn, "MQ.INFO", queue);
                let Ok(info) = reply else { return ttl < 0 };
                let next = if info.is_nil() {
                    -1
                } else {
                    info.fields()["next-due-ms"].int()
                };
                !(0..=300_000).contains(&next) && ttl < 0
            });
            // MQ.INFO tells what holds, whether it has been done or not.
            if call!(conn, "TYPE", queue).expect("TYPE answers").text() == "mq-circle" {
                call!(conn, "MQ.LIMIT", queue, "LENGTH", "OFF").expect("MQ.LIMIT answers");
                let_time_act(&mut conn, queue);
            }
        }
    }
}

/// Stops writes on the primary and checks that each replica holds exactly the same. Replicas come in
/// an order in which each follows the primary or one before it.
#[track_caller]
pub fn assert_same_data(primary: &Server, replicas: &[&Server]) {
    let mut there = primary.conn();
    call!(there, "CLIENT", "PAUSE", 120_000, "WRITE").expect("writes can be paused");
    let expected = Data::of(&mut there);
    for (index, replica) in replicas.iter().enumerate() {
        replica.wait_for_sync(primary);
        assert_eq!(
            Data::of(&mut replica.conn()),
            expected,
            "replica {index} on the left"
        );
    }
    call!(there, "CLIENT", "UNPAUSE").expect("writes can go on");
}

/// What a server holds, in digests, and what MQ.INFO says of it.
#[derive(Clone)]
pub struct Data {
    digest: String,
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    name: String,
    digest: String,
    counters: String,
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        let counters =
            |data: &Self| -> Vec<_> { data.keys.iter().map(|key| key.counters.clone()).collect() };
        // The keys' own digests are only for the eye: a key may expire while they are collected.
        self.digest == other.digest && counters(self) == counters(other)
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.digest)?;
        self.keys
            .iter()
            .try_for_each(|key| write!(f, "\n    {} {} {}", key.name, key.digest, key.counters))
    }
}

impl Data {
    /// What the server holds now. The connection ends up in database 0.
    #[track_caller]
    pub fn of(conn: &mut Connection) -> Self {
        Self::with(conn, |_, _| String::new())
    }

    /// The same with the counters, of queues in which time has nothing to do at the moment.
    #[track_caller]
    pub fn at_rest(conn: &mut Connection) -> Self {
        Self::with(conn, |conn, queue| {
            format!("{:?}", stable_counters(conn, queue))
        })
    }

    #[track_caller]
    fn with(conn: &mut Connection, counters: impl Fn(&mut Connection, &str) -> String) -> Self {
        let mut keys = Vec::new();
        for database in DATABASES.into_iter().rev() {
            call!(*conn, "SELECT", database).expect("the database exists");
            for queue in QUEUES {
                let kind = call!(*conn, "TYPE", queue).expect("TYPE answers").text();
                let (digest, counters) = match &kind[..] {
                    "mq-circle" => (digest(conn, queue), counters(conn, queue)),
                    _ => Default::default(),
                };
                keys.push(Key {
                    name: format!("{database}/{queue} {kind}"),
                    digest,
                    counters,
                });
            }
        }
        Self {
            digest: dataset_digest(conn),
            keys,
        }
    }
}
