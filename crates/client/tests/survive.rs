//! Whatever happens to the connection or the server: the worker goes on, and nothing is lost.

mod common;

use std::{
    collections::HashMap,
    io::Read,
    net::TcpListener,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Mutex,
    },
    time::Duration,
};

use common::{
    all_done, client, connection, eventually, info, queue, quick, slow_down_the_next_load, MS, S,
};
use redis_mq_client::{
    connect, redis, EndOfQueue, EnqueueOptions, Event, Message, Queue, Side, Worker,
};
use redis_mq_testkit::{Direction, Persistence, Proxy, Server, Shutdown};

const NAME: &str = "q";

/// Enqueues messages with ids that go on counting.
struct Producer {
    queue: Queue<u32>,
    next: u32,
}

impl Producer {
    async fn new(url: impl AsRef<str>) -> Self {
        Self {
            queue: queue(url, NAME).await,
            next: 0,
        }
    }

    async fn enqueue(&mut self, count: u32) {
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
type Runs = Arc<Mutex<HashMap<u32, usize>>>;

fn counting(builder: redis_mq_client::WorkerBuilder) -> (Worker, Runs) {
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

async fn all_handled(runs: &Runs, count: u32) {
    eventually(&format!("{count} messages are handled"), async || {
        runs.lock().unwrap().len() == count as usize
    })
    .await;
}

async fn blocked(server: &Server, clients: usize) {
    eventually("the worker waits on the server", async || {
        server.info("clients", "blocked_clients") == Some(clients.to_string())
    })
    .await;
}

async fn command(server: &Server, words: &[&str]) -> redis::RedisResult<redis::Value> {
    let mut command = redis::cmd(words[0]);
    command
        .arg(&words[1..])
        .query_async(&mut connection(server.url()).await)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_with_its_data() {
    let mut server = Server::builder()
        .persistence(Persistence::AofSnapshot)
        .start();
    let (worker, runs) = counting(quick(server.url(), NAME));
    let mut producer = Producer::new(server.url()).await;
    for round in 1..=3 {
        producer.enqueue(50).await;
        server.restart(Shutdown::NoSave);
        producer.queue = queue(server.url(), NAME).await;
        producer.enqueue(50).await;
        all_handled(&runs, round * 100).await;
    }
    all_done(&producer.queue, 300).await;
    assert!(worker.stats().outages >= 3);
    assert!(worker.stop(S(10)).await.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_without_its_data() {
    let mut server = Server::start();
    let (worker, runs) = counting(quick(server.url(), NAME));
    Producer::new(server.url()).await.enqueue(50).await;
    all_handled(&runs, 50).await;
    for _ in 0..3 {
        server.crash_and_restart();
        runs.lock().unwrap().clear();
        let mut producer = Producer::new(server.url()).await;
        producer.enqueue(50).await;
        all_handled(&runs, 50).await;
        all_done(&producer.queue, 50).await;
    }
    assert!(worker.stop(S(10)).await.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_when_the_worker_starts() {
    let mut server = Server::start();
    server.shutdown(Shutdown::NoSave);
    let (worker, runs) = counting(quick(server.url(), NAME));
    eventually("it has noticed", async || worker.stats().outages >= 1).await;
    server.start_again();
    Producer::new(server.url()).await.enqueue(10).await;
    all_handled(&runs, 10).await;
}

/// The server becomes a replica while the worker waits (UNBLOCKED, then READONLY), with a primary
/// that is not there (MASTERDOWN), and is promoted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_and_back() {
    let server = Server::start();
    let (worker, runs) =
        counting(quick(server.url(), NAME).end_of_queue(EndOfQueue::Block(S(600))));
    let mut producer = Producer::new(server.url()).await;
    for (round, stale) in (1..).zip(["yes", "no", "yes"]) {
        blocked(&server, 1).await;
        command(
            &server,
            &["CONFIG", "SET", "replica-serve-stale-data", stale],
        )
        .await
        .unwrap();
        let outages = worker.stats().outages;
        command(&server, &["REPLICAOF", "127.0.0.1", "1"])
            .await
            .unwrap();
        eventually("it has noticed", async || worker.stats().outages > outages).await;
        command(&server, &["REPLICAOF", "NO", "ONE"]).await.unwrap();
        producer.enqueue(10).await;
        all_handled(&runs, round * 10).await;
    }
    all_done(&producer.queue, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_given_during_a_failover_arrive_after_it() {
    let server = Server::start();
    let mut producer = Producer::new(server.url()).await;
    producer.enqueue(5).await;
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let worker = quick(server.url(), NAME)
        .lock(S(60))
        .build({
            let go = go.clone();
            move |_: Message<u32>| {
                let go = go.clone();
                async move { go.acquire().await.unwrap().forget() }
            }
        })
        .unwrap();
    let mut events = worker.events();
    eventually("all are begun", async || worker.stats().taken == 5).await;
    command(&server, &["REPLICAOF", "127.0.0.1", "1"])
        .await
        .unwrap();
    go.add_permits(5);
    loop {
        if let Event::Reconnecting {
            side: Side::Answer,
            error,
        } = events.recv().await.unwrap()
        {
            assert!(error.contains("ReadOnly"), "{error}");
            break;
        }
    }
    command(&server, &["REPLICAOF", "NO", "ONE"]).await.unwrap();
    all_done(&producer.queue, 5).await;
    assert_eq!(info(&producer.queue).await.total_delivered, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_still_loading() {
    let mut server = Server::builder()
        .persistence(Persistence::Rdb)
        .config("rdbcompression", "no")
        .start();
    let mut producer = Producer::new(server.url()).await;
    producer.enqueue(3).await;
    slow_down_the_next_load(&server);
    server.shutdown(Shutdown::Save);
    let (worker, runs) = counting(quick(server.url(), NAME));
    let mut events = worker.events();
    server.start_again();
    all_handled(&runs, 3).await;
    let mut errors = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let Event::Reconnecting { error, .. } = event {
            errors.push(error);
        }
    }
    assert!(!errors.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_wrong_and_later_corrected() {
    let server = Server::start();
    let mut admin = connection(server.url()).await;
    let mut set = async |password: &str| {
        let mut command = redis::cmd("CONFIG");
        command
            .arg("SET")
            .arg("requirepass")
            .arg(password)
            .exec_async(&mut admin)
            .await
            .unwrap();
    };
    set("right").await;
    let password = Arc::new(Mutex::new("wrong"));
    let port = server.port();
    let source = connect::from_fn({
        let password = password.clone();
        move || {
            let password = *password.lock().unwrap();
            async move { redis::Client::open(format!("redis://:{password}@127.0.0.1:{port}/")) }
        }
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let worker = Worker::builder(source, NAME)
        .end_of_queue(EndOfQueue::Block(MS(300)))
        .reconnect_backoff(MS(10), MS(200))
        .build({
            let runs = runs.clone();
            move |_: Message<u32>| {
                runs.fetch_add(1, Ordering::SeqCst);
                async {}
            }
        })
        .unwrap();
    eventually("it has noticed", async || worker.stats().outages >= 1).await;
    *password.lock().unwrap() = "right";
    let mut producer = Producer::new(format!("redis://:right@127.0.0.1:{port}/")).await;
    producer.enqueue(1).await;
    eventually("it works", async || runs.load(Ordering::SeqCst) == 1).await;
}

/// The connection breaks at every single byte of what the server sends, and of what the client
/// sends, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_in_the_middle_of_any_reply_or_command() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    let builder = quick(proxy.url(), NAME).lock(MS(300)).handlers(4);
    let (worker, runs) = counting(builder.reconnect_backoff(MS(1), MS(20)));
    let mut producer = Producer::new(server.url()).await;
    for direction in [Direction::ToClient, Direction::ToServer] {
        for bytes in 0..200 {
            let cuts = proxy.cuts();
            proxy.cut_after(direction, bytes);
            producer.enqueue(3).await;
            eventually("the connection is cut", async || proxy.cuts() > cuts).await;
        }
    }
    proxy.resume();
    all_handled(&runs, producer.next).await;
    all_done(&producer.queue, u64::from(producer.next)).await;
    let info = info(&producer.queue).await;
    assert_eq!(
        (info.messages, info.total_done),
        (0, u64::from(producer.next)),
        "{info:?}"
    );
    assert!(worker.stop(S(10)).await.is_clean());
}

/// Silence is found out within a bounded time, in both states that a worker can be in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_goes_silent_without_closing() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    let (worker, runs) = counting(quick(proxy.url(), NAME));
    let mut events = worker.events();
    let mut producer = Producer::new(server.url()).await;
    for round in 1..=2 {
        producer.enqueue(3).await;
        all_handled(&runs, (2 * round - 1) * 3).await;
        proxy.silence();
        // BLOCK and the response timeout, a second together: then the worker knows.
        let waited = tokio::time::timeout(S(30), async {
            loop {
                if let Event::Reconnecting {
                    side: Side::Dequeue,
                    ..
                } = events.recv().await.unwrap()
                {
                    break;
                }
            }
        });
        waited.await.expect("the silence is found out");
        proxy.resume();
        producer.enqueue(3).await;
        all_handled(&runs, 2 * round * 3).await;
    }
    all_done(&producer.queue, 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_killed_or_unblocked_by_hand() {
    let server = Server::start();
    let (worker, runs) =
        counting(quick(server.url(), NAME).end_of_queue(EndOfQueue::Block(S(600))));
    let mut producer = Producer::new(server.url()).await;
    for round in 1..=4 {
        blocked(&server, 1).await;
        if round % 2 == 0 {
            command(&server, &["CLIENT", "KILL", "TYPE", "normal"])
                .await
                .ok();
            producer.queue = queue(server.url(), NAME).await;
        } else {
            let list = command(&server, &["CLIENT", "LIST"]).await.unwrap();
            let list: String = redis::from_redis_value(list).unwrap();
            let line = list
                .lines()
                .find(|line| line.contains("name=redis-mq:dequeue"))
                .unwrap();
            let id = line.split(['=', ' ']).nth(1).unwrap();
            let how = if round == 1 { "TIMEOUT" } else { "ERROR" };
            command(&server, &["CLIENT", "UNBLOCK", id, how])
                .await
                .unwrap();
        }
        producer.enqueue(5).await;
        all_handled(&runs, round * 5).await;
    }
    all_done(&producer.queue, 20).await;
    drop(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_the_module_and_then_with_it() {
    let without = Server::builder().no_module().start();
    let with = Server::start();
    let port = Arc::new(AtomicUsize::new(usize::from(without.port())));
    let source = connect::from_fn({
        let port = port.clone();
        move || {
            let url = format!("redis://127.0.0.1:{}/", port.load(Ordering::SeqCst));
            async { redis::Client::open(url) }
        }
    });
    let builder = Worker::builder(source, NAME).reconnect_backoff(MS(10), MS(100));
    let (worker, runs) = counting(builder);
    eventually("it has noticed", async || worker.stats().outages >= 1).await;
    port.store(usize::from(with.port()), Ordering::SeqCst);
    Producer::new(with.url()).await.enqueue(2).await;
    all_handled(&runs, 2).await;
}

/// A key of another type is no reason to give up either: somebody may put it right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_no_queue_and_then_one() {
    let server = Server::start();
    command(&server, &["SET", NAME, "text"]).await.unwrap();
    let (worker, runs) = counting(quick(server.url(), NAME));
    eventually("it has noticed", async || worker.stats().outages >= 1).await;
    command(&server, &["DEL", NAME]).await.unwrap();
    Producer::new(server.url()).await.enqueue(2).await;
    all_handled(&runs, 2).await;
}

/// A server that accepts and closes at once, for two seconds: the tries are few, since each waits
/// longer than the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_does_not_make_a_worker_spin() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let tries = Arc::new(AtomicUsize::new(0));
    std::thread::spawn({
        let tries = tries.clone();
        move || {
            for stream in listener.incoming() {
                tries.fetch_add(1, Ordering::SeqCst);
                // Reads the greeting, so that the client sees an end and not a reset.
                let _ = stream.unwrap().read(&mut [0; 16]);
            }
        }
    });
    let worker = Worker::builder(client(&url), NAME)
        .reconnect_backoff(MS(50), S(5))
        .build(|_: Message<u32>| async {})
        .unwrap();
    tokio::time::sleep(S(2)).await;
    let tries = tries.load(Ordering::SeqCst);
    // 25 + 50 + 100 + 200 + 400 + 800 ms at the least: seven tries take longer than 1.5 s.
    assert!((1..=8).contains(&tries), "{tries} tries");
    assert_eq!(worker.stats().outages, 1);
    assert!(worker.is_running());
    assert!(worker.stop(Duration::ZERO).await.is_clean());
}
