//! A server in memory, with a clock of the test's own.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::BoxFuture;
use redis::{aio::ConnectionLike, Arg, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use redis_mq_core::Now;

use super::{commands, state::State};
use crate::{
    connect::{Connect, ConnectOptions, Connection},
    message::id::show_bytes,
};

/// A server in memory: a connection for producers, and a source of connections for workers.
///
/// It knows the commands of redis-mq as far as this crate sends them, with the rules of the module
/// itself. Its clock stands at a fixed instant, and moves only by [`advance`](Self::advance); what
/// chance decides, as the jitter of pauses, is the same in every run. It does not wait: a blocking
/// dequeue of nothing returns at once. It knows no patterns of ids. Clones are the same server.
#[derive(Clone)]
pub struct TestServer(Arc<Mutex<State>>);

/// The first reading of the clock, in microseconds: the 1st of January 2030.
const START: u64 = 1_893_456_000_000_000;

impl TestServer {
    /// An empty one, whose clock stands at the beginning of 2030.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State::at(START))))
    }

    /// What its clock shows.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.state().now_us)
    }

    /// Lets that much time pass.
    pub fn advance(&self, time: Duration) {
        let mut state = self.state();
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        state.now_us = Now::from_micros(state.now_us.saturating_add(us)).micros();
    }

    /// Lets time pass until something of any queue comes about by time alone: the end of a pause, a
    /// lock, a dedupe window, a time to live. Returns how much that was; `None` if there is nothing
    /// to wait for. With many thousands of messages far ahead it may be less.
    pub fn advance_to_next(&self) -> Option<Duration> {
        let mut state = self.state();
        let next = state.next_due()?.millis() * 1_000;
        let passed = next.saturating_sub(state.now_us);
        state.now_us = next;
        Some(Duration::from_micros(passed))
    }

    /// Nothing is half done when a step panics, which would be a fault of this crate.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply, an error of the server's included.
    fn answer(&self, command: &Cmd) -> RedisResult<Value> {
        let words = command.args_iter().map(|arg| match arg {
            Arg::Simple(bytes) => bytes.to_vec(),
            _ => b"0".to_vec(),
        });
        let words: Vec<_> = words.collect();
        match commands::run(&mut self.state(), &words) {
            Ok(value) => Ok(value),
            Err(refusal) => redis::parse_redis_value(format!("-{refusal}\r\n").as_bytes()),
        }
    }
}

impl Default for TestServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Names<'a>(&'a State);
        impl fmt::Debug for Names<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (n, name) in self.0.queues.keys().enumerate() {
                    f.write_str(if n == 0 { "" } else { ", " })?;
                    show_bytes(name, f)?;
                }
                Ok(())
            }
        }
        f.debug_tuple("TestServer")
            .field(&Names(&self.state()))
            .finish()
    }
}

impl Connect for TestServer {
    fn connect<'a>(&'a self, _: &'a ConnectOptions) -> BoxFuture<'a, RedisResult<Connection>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Connection) })
    }
}

impl ConnectionLike for TestServer {
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
        let replies = pipeline.cmd_iter().map(|command| self.answer(command));
        let replies = replies.collect();
        Box::pin(async { replies })
    }

    fn get_db(&self) -> i64 {
        0
    }
}
