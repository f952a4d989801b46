//! Whatever happens to the connection: the worker goes on, and nothing is lost.

mod common;
#[path = "common/survival.rs"]
mod survival;

use std::{
    io::Read,
    net::TcpListener,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc,
    },
    time::Duration,
};

use common::{all_done, client, eventually, info, queue, quick, MS, S};
use redis_mq_client::{connect, redis, EndOfQueue, Event, Message, Side, Worker};
use redis_mq_testkit::{Direction, Proxy, Server};
use survival::{all_handled, blocked, command, counting, Producer, NAME};
use tokio::sync::Semaphore;

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

/// The source of connections panics while an answer is being sent, again and again: the answer is
/// sent once it does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_panics_is_an_outage_and_loses_no_answer() {
    let server = Server::start();
    let panics = Arc::new(AtomicBool::new(false));
    let panicked = Arc::new(AtomicUsize::new(0));
    let source = connect::from_fn({
        let (panics, panicked, url) = (panics.clone(), panicked.clone(), server.url());
        move || {
            let (panics, panicked) = (panics.clone(), panicked.clone());
            let url = url.clone();
            async move {
                if panics.load(Ordering::SeqCst) {
                    panicked.fetch_add(1, Ordering::SeqCst);
                    panic!("on purpose");
                }
                redis::Client::open(url)
            }
        }
    });
    let go = Arc::new(Semaphore::new(0));
    let worker = Worker::builder(source, NAME)
        .lock(S(3_600))
        .handlers(3)
        .reconnect_backoff(MS(1), MS(20))
        .build({
            let go = go.clone();
            move |_: Message<u32>| {
                let go = go.clone();
                async move { go.acquire().await.unwrap().forget() }
            }
        })
        .unwrap();
    let mut producer = Producer::new(server.url()).await;
    producer.enqueue(3).await;
    eventually("all are begun", async || worker.running_handlers() == 3).await;
    panics.store(true, Ordering::SeqCst);
    command(&server, &["CLIENT", "KILL", "TYPE", "normal"])
        .await
        .ok();
    go.add_permits(3);
    let begun = panicked.load(Ordering::SeqCst);
    eventually("the source has panicked many times", async || {
        panicked.load(Ordering::SeqCst) >= begun + 10
    })
    .await;
    assert!(worker.is_running());
    panics.store(false, Ordering::SeqCst);
    eventually("all answers arrive", async || worker.stats().finished == 3).await;
    let mut producer = Producer::new(server.url()).await;
    producer.next = 3;
    producer.enqueue(3).await;
    go.add_permits(3);
    all_done(&producer.queue, 6).await;
    assert!(worker.stop(S(10)).await.is_clean());
}
