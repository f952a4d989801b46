//! The client crate's queue over several servers: all messages, whatever their shard.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use redis_mq_client::{
    codec::Raw, connect, redis::Client, EnqueueOptions, Message, ShardedQueue, Start, Worker,
};
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::sync::Notify;

use crate::systems::QUEUE;

/// Enqueues so many messages, and then has them worked on, each step as fast as it goes.
#[derive(Debug, Deserialize)]
pub struct Sharded {
    /// The servers, one for each shard.
    ports: Vec<u16>,
    count: u64,
    handlers: usize,
    /// Threads of the runtime.
    threads: usize,
}

impl Sharded {
    pub fn run(self) -> Value {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(self.fill_and_drain())
    }

    async fn fill_and_drain(self) -> Value {
        let address = |port: &u16| format!("redis://127.0.0.1:{port}/");
        let open = |port| Client::open(address(port)).expect("a valid address");
        let clients: Vec<_> = self.ports.iter().map(open).collect();
        let mut connections = Vec::new();
        for client in &clients {
            let connection = client.get_multiplexed_async_connection().await;
            connections.push(connection.expect("a server"));
        }
        let queue = ShardedQueue::<Vec<u8>>::across(connections, QUEUE)
            .expect("servers")
            .codec(Raw);

        let start = Instant::now();
        let payload = vec![b'x'; 40];
        let mut left = self.count;
        while left > 0 {
            let now = left.min(4_000);
            let batch = (0..now).map(|_| (&payload, EnqueueOptions::new()));
            queue.enqueue_many(batch).await.expect("an enqueue");
            left -= now;
        }
        let filled = start.elapsed().as_secs_f64();

        let (handled, finished) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let (counter, signal, count) = (handled.clone(), finished.clone(), self.count);
        let worker = Worker::builder(connect::shards(clients), QUEUE)
            .codec(Raw)
            .handlers(self.handlers)
            .start(Start::Manual)
            .build_sharded(self.ports.len(), move |_message: Message<Vec<u8>>| {
                if counter.fetch_add(1, Ordering::Relaxed) + 1 == count {
                    signal.notify_one();
                }
                std::future::ready(())
            })
            .expect("a valid worker");
        let start = Instant::now();
        worker.start().expect("a worker that starts");
        finished.notified().await;
        // The last acknowledgements are on their way.
        while queue.info().await.total().locked > 0 {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let drained = start.elapsed().as_secs_f64();
        let report = worker.stop(Duration::from_secs(10)).await;
        assert!(report.is_clean(), "the worker left messages: {report:?}");
        let count = handled.load(Ordering::Relaxed);
        json!({ "count": count, "filled": filled, "seconds": drained })
    }
}
