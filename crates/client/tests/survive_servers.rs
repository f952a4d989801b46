//! Whatever happens to the server: the worker goes on, and nothing is lost.

mod common;
#[path = "common/survival.rs"]
mod survival;

use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc, Mutex,
};

use common::{
    all_done, connection, eventually, info, queue, quick, slow_down_the_next_load, MS, S,
};
use redis_mq_client::{connect, redis, EndOfQueue, Event, Message, Side, Worker};
use redis_mq_testkit::{Persistence, Server, Shutdown};
use survival::{all_handled, blocked, command, counting, Producer, NAME};

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
    eventually("all are begun", async || worker.running_handlers() == 5).await;
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
