//! The older queue as its keys: messages of every kind, and workers that go by its rules.

use redis_mq_testkit::{call, redis, redis::Connection, ReplyExt as _, Value};

/// What a message of the new queue shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub status: &'static str,
    pub payload: Vec<u8>,
    pub copy: Option<Vec<u8>>,
    pub attempts: i64,
    pub lock: i64,
    /// 0 is none; else it must be that instant, or with a window not before it.
    pub due: i64,
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Moves(Expected),
    Goes,
    Stays,
}

/// An old queue.
pub struct Carmine {
    name: String,
    /// The server's time when it was made.
    pub now: i64,
}

const HOUR: i64 = 3_600_000;
/// The kinds of messages that [`Carmine::put`] knows.
pub const KINDS: usize = 17;

/// The bytes of a message as the library freezes them.
pub fn frozen(text: &str) -> Vec<u8> {
    [b"\0>NPY\0", text.as_bytes(), b"\xff\n"].concat()
}

impl Carmine {
    /// One of that name, empty.
    pub fn new(conn: &mut Connection, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            now: now(conn),
        }
    }

    /// One of its keys.
    pub fn key(&self, key: &str) -> String {
        format!("carmine:mq:{}:{key}", self.name)
    }

    /// Puts a message of that kind, and tells what becomes of it.
    pub fn put(&self, pipe: &mut redis::Pipeline, id: &str, kind: usize, n: i64) -> Fate {
        let (payload, copy) = (frozen(id), frozen(&format!("{id} again")));
        let mut hash = |key: &str, value: &[u8]| {
            let key = self.key(key);
            pipe.cmd("HSET").arg(key).arg(id).arg(value).ignore();
        };
        let (due, past) = (self.now + HOUR * 24 + n * 7, self.now - HOUR);
        let instant = |at: i64| at.to_string().into_bytes();
        let mut list = "mid-circle";
        let mut sets: &[&str] = &[];
        let mut fate = Expected {
            status: "queued",
            payload: payload.clone(),
            copy: None,
            attempts: 0,
            lock: 0,
            due: 0,
        };
        hash("messages", &payload);
        if kind >= 11 {
            hash("udts", &instant(past));
        }
        let fate = match kind {
            0 => Fate::Moves(fate),
            // Its worker died; the third one.
            1 => {
                hash("locks", &instant(past));
                hash("nattempts", b"3");
                fate.attempts = 3;
                Fate::Moves(fate)
            }
            // Retried, and its backoff is over.
            2 => {
                hash("backoffs", &instant(past));
                hash("nattempts", b"1");
                fate.attempts = 1;
                Fate::Moves(fate)
            }
            // Retried.
            3 => {
                // What a program that computed it as a float has written is never early.
                hash("backoffs", format!("{}.5", due - 1).as_bytes());
                hash("nattempts", b"2");
                (fate.status, fate.due, fate.attempts) = ("queued-with-backoff", due, 2);
                Fate::Moves(fate)
            }
            // Enqueued with a delay.
            4 => {
                hash("backoffs", &instant(due));
                (fate.status, fate.due) = ("queued-with-backoff", due);
                Fate::Moves(fate)
            }
            5 | 6 => {
                hash("locks", &instant(due));
                hash("nattempts", b"1");
                sets = if kind == 6 { &["requeue"] } else { &[] };
                Fate::Stays
            }
            7 | 8 => {
                hash("backoffs", &instant(due));
                hash("nattempts", b"1");
                (fate.status, fate.due, fate.attempts) = ("done-with-backoff", due, 1);
                sets = &["done"];
                if kind == 8 {
                    (fate.status, fate.copy) = ("done-with-requeue", Some(payload));
                    sets = &["done", "requeue"];
                }
                Fate::Moves(fate)
            }
            9 => {
                sets = &["done"];
                hash("backoffs", &instant(past));
                hash("nattempts", b"4");
                Fate::Goes
            }
            // Retried while it was to run again.
            10 => {
                hash("nattempts", b"2");
                sets = &["requeue"];
                (fate.attempts, fate.copy) = (2, Some(payload));
                Fate::Moves(fate)
            }
            11 => {
                list = "mids-ready";
                hash("lock-times", b"7000");
                fate.lock = 7_000;
                Fate::Moves(fate)
            }
            // Finished, to run again, and no worker came by since.
            12 => {
                sets = &["done"];
                hash("messages-rq", &copy);
                hash("lock-times-rq", b"9000");
                hash("lock-times", b"7000");
                hash("nattempts", b"2");
                (fate.payload, fate.lock) = (copy, 9_000);
                Fate::Moves(fate)
            }
            13 => {
                hash("backoffs", &instant(due));
                hash("nattempts", b"1");
                hash("messages-rq", &copy);
                hash("lock-times", b"7000");
                (fate.status, fate.due, fate.attempts) = ("queued-with-backoff", due, 1);
                (fate.copy, fate.lock) = (Some(copy), 7_000);
                Fate::Moves(fate)
            }
            14 => {
                sets = &["done"];
                hash("backoffs", &instant(due));
                hash("messages-rq", &copy);
                // That it was worked on is known, even where how often is not.
                (fate.status, fate.due, fate.attempts) = ("done-with-requeue", due, 1);
                fate.copy = Some(copy);
                Fate::Moves(fate)
            }
            // Flagged by a run whose flag was never taken away.
            15 => {
                sets = &["requeue"];
                fate.copy = Some(payload);
                Fate::Moves(fate)
            }
            // Some part of the circle has been lost.
            16 => {
                list = "";
                Fate::Moves(fate)
            }
            other => panic!("no kind {other}"),
        };
        for set in sets {
            pipe.cmd("SADD").arg(self.key(set)).arg(id).ignore();
        }
        if !list.is_empty() {
            pipe.cmd("LPUSH").arg(self.key(list)).arg(id).ignore();
        }
        fate
    }

    /// Puts so many messages in turn of every kind, with a marker in the circle and an entry without
    /// a message.
    pub fn fill(&self, conn: &mut Connection, count: usize) -> Vec<(String, Fate)> {
        let mut fates = Vec::with_capacity(count);
        call!(*conn, "LPUSH", self.key("mid-circle"), "end-of-circle").unwrap();
        for from in (0..count).step_by(1_000) {
            let mut pipe = redis::pipe();
            for n in from..count.min(from + 1_000) {
                let id = format!("m{n}");
                let fate = self.put(&mut pipe, &id, n % KINDS, n as i64);
                fates.push((id, fate));
            }
            pipe.exec(conn).unwrap();
        }
        call!(*conn, "LPUSH", self.key("mid-circle"), "gone").unwrap();
        call!(*conn, "HSET", self.key("locks"), "gone", 1).unwrap();
        fates
    }

    /// Adds a message as producers do.
    pub fn enqueue(&self, conn: &mut Connection, id: &str) {
        let script = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
            if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('LPUSH', KEYS[2], 'end-of-circle') end
            redis.call('LPUSH', KEYS[2], ARGV[1])";
        let (messages, circle) = (self.key("messages"), self.key("mid-circle"));
        call!(*conn, "EVAL", script, 2, messages, circle, id, frozen(id)).unwrap();
    }

    /// Takes the next message as workers do, if it is ready.
    pub fn take(&self, conn: &mut Connection) -> Option<String> {
        let script = "local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[1])
            if not id or id == 'end-of-circle' then return false end
            if redis.call('SISMEMBER', KEYS[4], id) == 1 then
                redis.call('HDEL', KEYS[2], id)
                redis.call('HDEL', KEYS[3], id)
                redis.call('LPOP', KEYS[1])
                redis.call('SREM', KEYS[4], id)
                return false
            end
            if redis.call('HEXISTS', KEYS[3], id) == 1 then return false end
            redis.call('HSET', KEYS[3], id, ARGV[1])
            redis.call('HINCRBY', KEYS[5], id, 1)
            return id";
        let keys =
            ["mid-circle", "messages", "locks", "done", "nattempts"].map(|key| self.key(key));
        let until = self.now + HOUR;
        let taken = call!(*conn, "EVAL", script, keys.len(), &keys, until).unwrap();
        (!taken.is_nil()).then(|| taken.text())
    }

    /// Ends a message as workers do.
    pub fn finish(&self, conn: &mut Connection, id: &str) {
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("HDEL").arg(self.key("locks")).arg(id).ignore();
        pipe.cmd("SADD").arg(self.key("done")).arg(id).ignore();
        pipe.exec(conn).unwrap();
    }

    /// What keys it has.
    pub fn keys(&self, conn: &mut Connection) -> Vec<String> {
        let found = call!(*conn, "KEYS", self.key("*")).unwrap();
        let mut keys: Vec<_> = found.items().iter().map(Value::text).collect();
        keys.sort();
        keys
    }
}

/// The server's time.
pub fn now(conn: &mut Connection) -> i64 {
    let time = call!(*conn, "TIME").unwrap();
    let part = |at: usize| -> i64 { time.items()[at].text().parse().unwrap() };
    part(0) * 1_000 + part(1) / 1_000
}
