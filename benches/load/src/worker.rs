//! The client crate's worker, with a handler that does nothing.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use redis_mq_client::{codec::Raw, redis::Client, EnqueueOptions, Message, Queue, Start, Worker};
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::sync::Notify;

use crate::systems::QUEUE;

/// Works until `count` messages were handled and acknowledged. They are in the queue already, or
/// are enqueued meanwhile by a producer in the same process.
#[derive(Debug, Deserialize)]
pub struct Drain {
    count: u64,
    handlers: usize,
    #[serde(default)]
    produce: bool,
    /// Threads of the runtime.
    threads: usize,
}

impl Drain {
    pub fn run(self, port: u16) -> Value {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(self.drain(port))
    }

    async fn drain(self, port: u16) -> Value {
        let client = Client::open(format!("redis://127.0.0.1:{port}/")).expect("a valid address");
        let connection = client
            .get_multiplexed_async_connection()
            .await
            .expect("a server");
        let queue = Queue::<Vec<u8>, Raw>::with_codec(connection, QUEUE, Raw);

        let (handled, finished) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let (counter, signal, count) = (handled.clone(), finished.clone(), self.count);
        let worker = Worker::builder(client, QUEUE)
            .codec(Raw)
            .handlers(self.handlers)
            .start(Start::Manual)
            .build(move |_message: Message<Vec<u8>>| {
                if counter.fetch_add(1, Ordering::Relaxed) + 1 == count {
                    signal.notify_one();
                }
                std::future::ready(())
            })
            .expect("a valid worker");

        let start = Instant::now();
        worker.start().expect("a worker that starts");
        if self.produce {
            let payload = vec![b'x'; 40];
            let mut left = self.count;
            while left > 0 {
                let now = left.min(1_000);
                let batch = (0..now).map(|_| (&payload, EnqueueOptions::new()));
                queue.enqueue_many(batch).await.expect("an enqueue");
                left -= now;
            }
        }
        finished.notified().await;
        // The last acknowledgements are on their way.
        while queue
            .info()
            .await
            .expect("an answer")
            .is_some_and(|info| info.locked > 0)
        {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let seconds = start.elapsed().as_secs_f64();
        let report = worker.stop(Duration::from_secs(10)).await;
        assert!(report.is_clean(), "the worker left messages: {report:?}");
        json!({ "count": handled.load(Ordering::Relaxed), "seconds": seconds })
    }
}
