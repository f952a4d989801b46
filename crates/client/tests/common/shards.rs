//! Queues over several servers, for the tests of shards.
#![allow(dead_code, reason = "every test file uses a part of it")]

use redis_mq_client::{
    redis::{self, aio::MultiplexedConnection},
    Queue, ShardedQueue,
};
use redis_mq_testkit::Server;

use crate::common::connection;

/// Servers that know nothing of each other.
pub fn four() -> Vec<Server> {
    (0..4).map(|_| Server::start()).collect()
}

/// The queue of that name over these servers.
pub async fn across(servers: &[Server], name: &str) -> ShardedQueue<u32> {
    ShardedQueue::across(Consumer::new(servers).await.0, name).unwrap()
}

/// Takes messages and ends them, by the bare commands.
#[derive(Clone)]
pub struct Consumer(Vec<MultiplexedConnection>);

impl Consumer {
    pub async fn new(servers: &[Server]) -> Self {
        let mut connections = Vec::new();
        for server in servers {
            connections.push(connection(server.url()).await);
        }
        Self(connections)
    }

    /// The connection to that shard's server, which its key tells: `name:{2}`.
    fn of(&self, shard: &Queue<u32>) -> MultiplexedConnection {
        let name = std::str::from_utf8(shard.name()).unwrap();
        let (_, number) = name.trim_end_matches('}').rsplit_once('{').unwrap();
        self.0[number.parse::<usize>().unwrap()].clone()
    }

    /// The id and the token of the next delivery.
    pub async fn take(&self, shard: &Queue<u32>) -> Option<(String, String)> {
        let mut command = redis::cmd("MQ.DEQUEUE");
        command.arg(shard.name()).arg("LOCK").arg(60_000);
        type Delivery = (String, redis::Value, i64, i64);
        let reply: redis::Value = command.query_async(&mut self.of(shard)).await.unwrap();
        let redis::Value::Array(mut fields) = reply else {
            return None;
        };
        fields.truncate(4);
        let taken: Delivery = redis::from_redis_value(redis::Value::Array(fields)).unwrap();
        Some((taken.0, taken.3.to_string()))
    }

    /// Ends the delivery so.
    pub async fn done(&self, shard: &Queue<u32>, id: &str, token: &str, how: &str) {
        let mut command = redis::cmd("MQ.DONE");
        command.arg(shard.name()).arg(id).arg(token);
        command.arg(how.split(' ').collect::<Vec<_>>());
        command.exec_async(&mut self.of(shard)).await.unwrap();
    }
}
