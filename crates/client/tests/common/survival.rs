//! What the tests of survival share.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use redis_mq_client::{redis, EnqueueOptions, Message, Queue, Worker};
use redis_mq_testkit::Server;

use crate::common::{connection, eventually, queue};

pub const NAME: &str = "q";

/// Enqueues messages with ids that go on counting.
pub struct Producer {
    pub queue: Queue<u32>,
    pub next: u32,
}

impl Producer {
    pub async fn new(url: impl AsRef<str>) -> Self {
        Self {
            queue: queue(url, NAME).await,
            next: 0,
        }
    }

    pub async fn enqueue(&mut self, count: u32) {
        let values: Vec<_> = (self.next..self.next + count).collect();
        self.next += count;
        let messages = values
            .iter()
            .map(|n| (n, EnqueueOptions::new().id(n.to_string())));
        for outcome in self.queue.enqueue_many(messages).await.unwrap() {
            assert!(outcome.unwrap().is_accepted());
        }
    }
}

/// How often each message was handled.
pub type Runs = Arc<Mutex<HashMap<u32, usize>>>;

pub fn counting(builder: redis_mq_client::WorkerBuilder) -> (Worker, Runs) {
    let runs = Runs::default();
    let worker = builder.build({
        let runs = runs.clone();
        move |message: Message<u32>| {
            *runs.lock().unwrap().entry(message.value).or_default() += 1;
            async {}
        }
    });
    (worker.unwrap(), runs)
}

pub async fn all_handled(runs: &Runs, count: u32) {
    eventually(&format!("{count} messages are handled"), async || {
        runs.lock().unwrap().len() == count as usize
    })
    .await;
}

pub async fn blocked(server: &Server, clients: usize) {
    eventually("the worker waits on the server", async || {
        server.info("clients", "blocked_clients") == Some(clients.to_string())
    })
    .await;
}

pub async fn command(server: &Server, words: &[&str]) -> redis::RedisResult<redis::Value> {
    let mut command = redis::cmd(words[0]);
    command
        .arg(&words[1..])
        .query_async(&mut connection(server.url()).await)
        .await
}
