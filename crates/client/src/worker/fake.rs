//! A server made of a script, and time that passes only when everybody waits.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use redis::{aio::ConnectionLike, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::time::Instant;

use crate::{
    connect::{Connect, ConnectOptions, Connection},
    test_support::words,
};

/// Answers each command with what its script says, in the protocol's own words, and remembers
/// what it was sent.
#[derive(Clone)]
pub(super) struct Fake(Arc<Inner>);

type Script = dyn Fn(&[String]) -> String + Send + Sync;

struct Inner {
    start: Instant,
    script: Box<Script>,
    seen: Mutex<Vec<(u64, Vec<String>)>>,
    connects: Mutex<Vec<u64>>,
}

impl Fake {
    /// For every command that is not of the connection's own housekeeping.
    pub(super) fn new(script: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            start: Instant::now(),
            script: Box::new(script),
            seen: Mutex::default(),
            connects: Mutex::default(),
        }))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.start.elapsed().as_millis()).unwrap()
    }

    fn answer(&self, command: &Cmd) -> RedisResult<Value> {
        let words = words(command);
        let reply = match words[0].as_str() {
            "CLIENT" | "INFO" => "+OK\r\n".to_owned(),
            _ => (self.0.script)(&words),
        };
        self.0.seen.lock().unwrap().push((self.now(), words));
        redis::parse_redis_value(reply.as_bytes())
    }

    /// The times, in milliseconds, of the commands of that name, and their words.
    pub(super) fn seen(&self, name: &str) -> Vec<(u64, Vec<String>)> {
        let seen = self.0.seen.lock().unwrap();
        seen.iter()
            .filter(|(_, words)| words[0] == name)
            .cloned()
            .collect()
    }

    /// When connections were opened, in milliseconds.
    pub(super) fn connects(&self) -> Vec<u64> {
        self.0.connects.lock().unwrap().clone()
    }
}

impl Connect for Fake {
    fn connect<'a>(&'a self, _: &'a ConnectOptions) -> BoxFuture<'a, RedisResult<Connection>> {
        self.0.connects.lock().unwrap().push(self.now());
        Box::pin(async { Ok(Box::new(self.clone()) as Connection) })
    }
}

impl ConnectionLike for Fake {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let reply = self.answer(command);
        Box::pin(async { reply })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let replies = pipeline
            .cmd_iter()
            .map(|command| self.answer(command))
            .collect();
        Box::pin(async { replies })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// Replies for one command after the other, and the last one for ever.
pub(super) fn in_turn(replies: &[&str]) -> impl Fn() -> String + Send + Sync {
    let replies: VecDeque<_> = replies.iter().map(|reply| (*reply).to_owned()).collect();
    let replies = Mutex::new(replies);
    move || {
        let mut replies = replies.lock().unwrap();
        match replies.len() {
            1 => replies[0].clone(),
            _ => replies.pop_front().expect("a script has a reply"),
        }
    }
}

/// A reply with one delivery, with this lock.
pub(super) fn delivery(id: &str, token: u64, lock_ms: u64) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let (id, payload) = (bulk(id), bulk("text"));
    format!("*1\r\n*6\r\n{id}{payload}:1\r\n:{token}\r\n:{lock_ms}\r\n:1000\r\n")
}
