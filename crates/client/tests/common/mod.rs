//! What the tests of the client share.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        OnceLock,
    },
    time::{Duration, Instant},
};

use redis_mq_client::{
    redis, EndOfQueue, EnqueueOptions, Message, Outcome, Queue, QueueInfo, Status, Worker,
    WorkerBuilder,
};
use redis_mq_testkit::{Server, PATIENCE};
use tokio::sync::mpsc;

pub const MS: fn(u64) -> Duration = Duration::from_millis;
pub const S: fn(u64) -> Duration = Duration::from_secs;

/// One server for the tests of a file that leave it as it is.
pub fn shared_server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// Whether the long versions are wanted.
pub fn is_soaking() -> bool {
    std::env::var_os("MQ_SOAK").is_some_and(|value| value == "1")
}

/// A queue's name that no other test of this file uses.
pub fn fresh_name() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("queue-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub fn client(url: impl AsRef<str>) -> redis::Client {
    redis::Client::open(url.as_ref()).unwrap()
}

pub async fn connection(url: impl AsRef<str>) -> redis::aio::MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    client(url)
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap()
}

/// A producer with its own connection.
pub async fn queue<T: ?Sized>(url: impl AsRef<str>, name: &str) -> Queue<T> {
    Queue::new(connection(url).await, name)
}

/// A worker that notices everything soon: short waits, short locks, quick reconnects.
pub fn quick(url: impl AsRef<str>, name: &str) -> WorkerBuilder {
    quick_from(client(url), name)
}

pub fn quick_from(client: redis::Client, name: &str) -> WorkerBuilder {
    Worker::builder(client, name)
        .lock(S(1))
        .end_of_queue(EndOfQueue::Block(MS(300)))
        .response_timeout(MS(700))
        .connect_timeout(MS(700))
        .reconnect_backoff(MS(10), MS(200))
}

/// Waits until the condition holds; panics if it does not in a time that means "never".
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(
            start.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(MS(5)).await;
    }
}

/// The queue's state; an empty one if there is no queue yet.
pub async fn info<T: ?Sized, C>(queue: &Queue<T, C>) -> QueueInfo {
    queue.info().await.unwrap().unwrap_or_default()
}

/// Waits until so many messages were finished and none is open.
pub async fn all_done<T: ?Sized, C>(queue: &Queue<T, C>, count: u64) {
    eventually(&format!("{count} messages finished"), async || {
        let info = info(queue).await;
        info.total_done == count && info.waiting() + info.locked == 0
    })
    .await;
}

/// Makes the server load for two seconds when it is started the next time with its snapshot. It
/// answers LOADING after every 2 MB, so that there have to be some.
pub fn slow_down_the_next_load(server: &Server) {
    let mut fill = redis::pipe();
    for n in 0..400 {
        fill.cmd("SET")
            .arg(format!("key-{n}"))
            .arg("x".repeat(50_000))
            .ignore();
    }
    fill.exec(&mut server.conn()).unwrap();
    server.configure_next_start("key-load-delay", "5000");
}

pub fn with_id(id: &str) -> EnqueueOptions {
    EnqueueOptions::new().id(id)
}

/// Adds a message with that id.
pub async fn enqueue(queue: &Queue<String>, id: &str, value: &str) {
    assert!(queue
        .enqueue_with(&value.to_owned(), with_id(id))
        .await
        .unwrap()
        .is_accepted());
}

/// Waits until the message has that status; `None` is gone.
pub async fn becomes(queue: &Queue<String>, id: &str, status: Option<Status>) {
    eventually(&format!("{id} becomes {status:?}"), async || {
        queue.status(id).await.unwrap() == status
    })
    .await;
}

/// A worker whose handler returns what `decide` says, and the attempts that it has seen.
pub fn deciding(
    name: &str,
    decide: impl Fn(u32) -> Outcome + Send + Sync + 'static,
) -> (Worker, mpsc::UnboundedReceiver<u32>) {
    let (tell, seen) = mpsc::unbounded_channel();
    let worker = quick(shared_server().url(), name).build(move |message: Message<String>| {
        tell.send(message.attempt()).unwrap();
        let outcome = decide(message.attempt());
        async move { outcome }
    });
    (worker.unwrap(), seen)
}
