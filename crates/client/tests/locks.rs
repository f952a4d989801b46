//! Locks: extended while a handler runs, and never lost without its being told.

mod common;

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use common::{
    all_done, connection, eventually, fresh_name, info, queue, quick, shared_server, MS, S,
};
use redis_mq_client::{
    blocking, redis, EnqueueOptions, Event, LostLock, Message, Outcome, Queue, Status,
};
use redis_mq_testkit::{Proxy, Server};
use tokio::sync::mpsc;

fn url() -> String {
    shared_server().url()
}

async fn enqueue(queue: &Queue<String>, id: &str) {
    let options = EnqueueOptions::new().id(id);
    assert!(queue
        .enqueue_with(&id.to_owned(), options)
        .await
        .unwrap()
        .is_accepted());
}

/// The token of the one delivery that another consumer gets.
async fn take(conn: &mut redis::aio::MultiplexedConnection, name: &str) -> Option<i64> {
    let command = redis::cmd("MQ.DEQUEUE")
        .arg(name)
        .arg("LOCK")
        .arg(60_000)
        .take();
    let delivery: Option<(String, Vec<u8>, i64, i64)> =
        match command.query_async::<redis::Value>(conn).await.unwrap() {
            redis::Value::Nil => None,
            redis::Value::Array(mut fields) => {
                fields.truncate(4);
                Some(redis::from_redis_value(redis::Value::Array(fields)).unwrap())
            }
            other => panic!("{other:?}"),
        };
    delivery.map(|(_, _, _, token)| token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_take_many_times_its_lock() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for id in ["async", "also-async"] {
        enqueue(&texts, id).await;
    }
    let worker = quick(url(), &name)
        .lock(S(2))
        .build(|message: Message<String>| async move {
            let first = message.lock_deadline();
            tokio::time::sleep(S(7)).await;
            assert!(message.lock_deadline() > first + S(4));
            assert!(!message.is_cancelled());
        })
        .unwrap();
    all_done(&texts, 2).await;
    let (info, stats) = (info(&texts).await, worker.stats());
    assert_eq!(
        (
            info.total_delivered,
            info.total_expired_locks,
            stats.lost_locks
        ),
        (2, 0, 0)
    );
}

/// The handlers block the only thread of their runtime, as nobody should, and the heartbeat is no
/// worse for it.
#[test]
fn a_handler_that_blocks_its_runtime_keeps_its_lock() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let name = fresh_name();
    let worker = runtime.block_on(async {
        let texts = queue::<String>(url(), &name).await;
        for n in 0..2 {
            enqueue(&texts, &n.to_string()).await;
        }
        let worker = quick(url(), &name)
            .lock(S(2))
            .build(|_: Message<String>| {
                std::thread::sleep(S(4));
                async {}
            })
            .unwrap();
        all_done(&texts, 2).await;
        assert_eq!(info(&texts).await.total_expired_locks, 0);
        worker
    });
    // What could not even be begun was given back meanwhile, for others to take.
    let stats = worker.stats();
    assert_eq!(
        (stats.taken - stats.released, stats.lost_locks),
        (2, 0),
        "{stats:?}"
    );
    runtime.block_on(async { assert!(worker.stop(S(10)).await.is_clean()) });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_is_told_when_its_message_is_cancelled() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a").await;
    let worker = quick(url(), &name)
        .build(|message: Message<String>| async move { message.cancelled().await })
        .unwrap();
    let mut events = worker.events();
    eventually("it is begun", async || worker.running_handlers() == 1).await;
    assert!(texts.cancel("a").await.unwrap());
    loop {
        if let Event::LostLock { id, how, .. } = events.recv().await.unwrap() {
            assert_eq!((id.as_str(), how), (Some("a"), LostLock::Gone));
            break;
        }
    }
    // Its handler has returned, and nothing was reported: there is nothing to report about.
    assert!(worker.stop(S(10)).await.is_clean());
    let stats = worker.stats();
    assert_eq!(
        (stats.lost_locks, stats.finished, stats.answers_refused),
        (1, 0, 0)
    );
}

/// Cut off from the server for longer than its lock, while another consumer takes the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_cut_off_tells_its_handler_in_time_and_reports_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    let name = fresh_name();
    let texts = queue::<String>(server.url(), &name).await;
    enqueue(&texts, "a").await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = quick(proxy.url(), &name)
        .build(move |message: Message<String>| {
            let tell = tell.clone();
            async move {
                tell.send(()).unwrap();
                message.cancelled().await;
                tell.send(()).unwrap();
                Outcome::error("not the holder's business any more")
            }
        })
        .unwrap();
    told.recv().await.unwrap();
    proxy.silence();
    let cut = Instant::now();
    told.recv().await.unwrap();
    // The lock is a second; whatever was extended last was extended before the cut.
    assert!(cut.elapsed() < S(30), "{:?}", cut.elapsed());
    let mut conn = connection(server.url()).await;
    let mut token = None;
    eventually("another consumer gets it", async || {
        token = take(&mut conn, &name).await;
        token.is_some()
    })
    .await;
    proxy.resume();
    eventually("the worker is back", async || {
        enqueue_if_free(&texts, "b").await;
        worker.stats().taken >= 2
    })
    .await;
    assert_eq!(texts.status("a").await.unwrap(), Some(Status::Locked));
    let done = redis::cmd("MQ.DONE")
        .arg(&name)
        .arg("a")
        .arg(token.unwrap())
        .take();
    let became: String = done.query_async(&mut conn).await.unwrap();
    assert_eq!(became, "done");
    assert!(worker.stats().lost_locks >= 1);
}

async fn enqueue_if_free(texts: &Queue<String>, id: &str) {
    let _ = texts
        .enqueue_with(&id.into(), EnqueueOptions::new().id(id))
        .await
        .unwrap();
}

/// A success of a handler that was only feared to have lost its lock still counts, if nobody else
/// has taken the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_was_done_through_an_outage_is_not_done_again() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    let name = fresh_name();
    let texts = queue::<String>(server.url(), &name).await;
    enqueue(&texts, "a").await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let worker = quick(proxy.url(), &name)
        // The worker is the only consumer: it must not take the message again by itself.
        .handlers(1)
        .build({
            let go = go.clone();
            move |message: Message<String>| {
                let (tell, go) = (tell.clone(), go.clone());
                async move {
                    tell.send(()).unwrap();
                    message.cancelled().await;
                    tell.send(()).unwrap();
                    go.acquire().await.unwrap().forget();
                }
            }
        })
        .unwrap();
    told.recv().await.unwrap();
    proxy.refuse();
    told.recv().await.unwrap();
    proxy.resume();
    go.add_permits(1);
    all_done(&texts, 1).await;
    let (info, stats) = (info(&texts).await, worker.stats());
    assert_eq!(
        (info.total_delivered, stats.finished, stats.lost_locks),
        (1, 1, 1)
    );
}

/// The class of false alarm that comes from extending a lock after the answer is out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_handlers_racing_the_heartbeat_raise_no_alarm() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let values: Vec<_> = (0..3_000).map(|n| n.to_string()).collect();
    let messages = values.iter().map(|value| (value, EnqueueOptions::new()));
    for outcome in texts.enqueue_many(messages).await.unwrap() {
        assert!(outcome.unwrap().is_accepted());
    }
    // Each heartbeat of the one meets some of its many handlers at their end. The other's end just
    // when their first extension, after a third of the lock, is out.
    let worker = quick(url(), &name)
        .handlers(64)
        .lock(S(3))
        .build(|message: Message<String>| async move {
            let n: u64 = message.value.parse().unwrap();
            tokio::time::sleep(Duration::from_micros(18_000 + n % 4_000)).await;
        })
        .unwrap();
    let racing = quick(url(), &name)
        .handlers(64)
        .lock(S(3))
        .build(blocking(|_: Message<String>| std::thread::sleep(MS(1_000))))
        .unwrap();
    all_done(&texts, 3_000).await;
    for worker in [worker, racing] {
        assert!(worker.stop(S(10)).await.is_clean());
        let stats = worker.stats();
        assert_eq!(
            (stats.lost_locks, stats.answers_refused),
            (0, 0),
            "{stats:?}"
        );
    }
    assert_eq!(info(&texts).await.total_expired_locks, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_messages_own_lock_time_is_extended_by_its_own_measure() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let options = EnqueueOptions::new().id("a").lock(S(2));
    assert!(texts
        .enqueue_with(&"a".into(), options)
        .await
        .unwrap()
        .is_accepted());
    let runs = Arc::new(AtomicUsize::new(0));
    let _worker = quick(url(), &name)
        .lock(S(3_600))
        .build({
            let runs = runs.clone();
            move |_: Message<String>| {
                runs.fetch_add(1, Ordering::SeqCst);
                async { tokio::time::sleep(S(7)).await }
            }
        })
        .unwrap();
    all_done(&texts, 1).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(info(&texts).await.total_expired_locks, 0);
}

/// Locks, delays and ages are the server's business and the monotonic clock's: a process whose
/// wall clock is wrong by an hour works as any other, since nothing here ever reads it.
#[test]
fn the_wall_clock_is_never_read() {
    fn look(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Spans begin and end at instants of the wall clock, and nothing else depends on them.
                if !path.ends_with("telemetry") {
                    look(&path, found);
                }
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("SystemTime::now") || text.contains("UNIX_EPOCH.elapsed") {
                found.push(path.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert!(sources.join("message/mod.rs").is_file());
    look(&sources, &mut found);
    assert!(found.is_empty(), "{found:?}");
}
