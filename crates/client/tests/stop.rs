//! Stopping loses nothing, and says what it leaves.

mod common;

use std::{
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use common::{all_done, eventually, fresh_name, info, queue, quick, shared_server, MS, S};
use redis_mq_client::{
    blocking, EndOfQueue, EnqueueOptions, Message, MessageId, Outcome, Queue, Status,
};
use redis_mq_testkit::{Proxy, Server};
use tokio::sync::Semaphore;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_stops_long_before_its_wait_ends() {
    let wait = S(600);
    let server = shared_server();
    let worker = quick(server.url(), &fresh_name())
        .end_of_queue(EndOfQueue::Block(wait))
        .build(|_: Message<String>| async {})
        .unwrap();
    eventually("it is blocked", async || {
        server.info("clients", "blocked_clients") != Some("0".into())
    })
    .await;
    let start = Instant::now();
    assert!(worker.stop(wait).await.is_clean());
    assert!(start.elapsed() < wait / 4, "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_handlers_and_takes_nothing_new() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "first").await;
    let go = Arc::new(Semaphore::new(0));
    let worker = quick(url(), &name)
        .lock(S(2))
        .build({
            let go = go.clone();
            move |_: Message<String>| {
                let go = go.clone();
                async move { go.acquire().await.unwrap().forget() }
            }
        })
        .unwrap();
    eventually("it is begun", async || worker.running_handlers() == 1).await;
    let stopping = worker.stop(S(60));
    tokio::pin!(stopping);
    // Polled once, it has begun.
    assert!(futures_util::poll!(stopping.as_mut()).is_pending());
    assert!(!worker.is_running());
    enqueue(&texts, "second").await;
    // Longer than the lock: it is extended while the stop waits.
    tokio::select! {
        report = stopping.as_mut() => panic!("{report:?}"),
        () = tokio::time::sleep(S(5)) => {}
    }
    assert_eq!(texts.status("first").await.unwrap(), Some(Status::Locked));
    eventually("the other is left", async || {
        texts.status("second").await.unwrap() == Some(Status::Queued)
    })
    .await;
    go.add_permits(1);
    assert!(stopping.await.is_clean());
    assert_eq!(texts.status("first").await.unwrap(), None);
    assert_eq!(texts.get("second").await.unwrap().unwrap().attempts, 0);
    assert_eq!(info(&texts).await.total_expired_locks, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_beyond_the_deadline_is_cancelled_dropped_and_reported() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a").await;
    // What was taken and not begun is given back without being cancelled.
    let begun = Arc::new(AtomicBool::new(false));
    let (told, dropped) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    struct SetOnDrop(Arc<AtomicBool>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let worker = quick(url(), &name)
        .build({
            let (told, dropped, begun) = (told.clone(), dropped.clone(), begun.clone());
            move |message: Message<String>| {
                let (told, dropped) = (told.clone(), SetOnDrop(dropped.clone()));
                let cancellation = message.cancellation();
                tokio::spawn(async move {
                    cancellation.cancelled().await;
                    told.store(true, Ordering::SeqCst);
                });
                let begun = begun.clone();
                async move {
                    let _dropped = dropped;
                    begun.store(true, Ordering::SeqCst);
                    std::future::pending::<()>().await;
                }
            }
        })
        .unwrap();
    eventually("it is begun", async || begun.load(Ordering::SeqCst)).await;
    let report = worker.stop(MS(50)).await;
    assert_eq!(report.given_back, [MessageId::from("a")]);
    assert!(report.unfinished.is_empty() && report.unanswered.is_empty() && !report.is_clean());
    assert!(dropped.load(Ordering::SeqCst));
    eventually("it is told", async || told.load(Ordering::SeqCst)).await;
    let stored = texts.get("a").await.unwrap().unwrap();
    assert_eq!((stored.status, stored.attempts), (Status::Queued, 0));
}

/// As deployments do, again and again: neither the message nor its attempts are used up. With
/// `MQ_SOAK=1` three hundred times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_past_the_grace_burn_no_attempt_and_keep_the_order() {
    const MESSAGES: u64 = 60;
    let stops = if common::is_soaking() { 300 } else { 6 };
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for n in 0..MESSAGES {
        let options = EnqueueOptions::new().id(n.to_string()).attempts(2);
        let enqueued = texts.enqueue_with(&n.to_string(), options).await;
        assert!(enqueued.unwrap().is_accepted());
    }
    for stop in 0..stops {
        let handlers = 5 + stop * 9 % 46;
        let worker = quick(url(), &name)
            .handlers(handlers)
            .cancel_timeout(MS(10))
            .build(|_: Message<String>| std::future::pending::<()>())
            .unwrap();
        eventually("all handlers are busy", async || {
            worker.running_handlers() == handlers
        })
        .await;
        eventually("all have begun", async || {
            info(&texts).await.locked == handlers as u64
        })
        .await;
        let report = worker.stop(Duration::ZERO).await;
        assert!(report.unfinished.is_empty() && report.unanswered.is_empty());
        let info = info(&texts).await;
        assert_eq!((info.queued, info.locked, info.dead), (MESSAGES, 0, 0));
    }
    for n in 0..MESSAGES {
        let stored = texts.get(n.to_string()).await.unwrap().unwrap();
        assert_eq!(stored.attempts, 0, "{stored:?}");
    }
    let (tell, told) = std::sync::mpsc::channel();
    let last = quick(url(), &name)
        .handlers(1)
        .build(move |message: Message<String>| {
            tell.send(message.value).unwrap();
            async {}
        })
        .unwrap();
    eventually("all are done", async || info(&texts).await.messages == 0).await;
    drop(last);
    let order: Vec<_> = told.try_iter().collect();
    let sent: Vec<_> = (0..MESSAGES).map(|n| n.to_string()).collect();
    assert_eq!(order, sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_looks_at_its_cancellation_can_put_its_work_down() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for n in 0..30 {
        enqueue(&texts, &n.to_string()).await;
    }
    let begun = Arc::new(AtomicUsize::new(0));
    let worker = quick(url(), &name)
        .handlers(30)
        .cancel_timeout(S(60))
        .build({
            let begun = begun.clone();
            move |message: Message<String>| {
                begun.fetch_add(1, Ordering::SeqCst);
                async move {
                    message.cancelled().await;
                    // Longer than the lock, which is still extended.
                    tokio::time::sleep(S(2)).await;
                    Outcome::RetryAfter(S(3_600))
                }
            }
        })
        .unwrap();
    eventually("all have begun", async || {
        begun.load(Ordering::SeqCst) == 30
    })
    .await;
    let report = worker.stop(Duration::ZERO).await;
    assert!(report.is_clean(), "{report:?}");
    let info = info(&texts).await;
    assert_eq!(
        (info.queued_with_backoff, info.total_expired_locks),
        (30, 0)
    );
    assert_eq!((worker.stats().retried, worker.stats().lost_locks), (30, 0));
}

/// A thread cannot be stopped from outside: its message must not go to another worker at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_on_a_blocking_thread_keeps_its_lock_and_is_reported() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a").await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let begun = Arc::new(AtomicBool::new(false));
    let worker = quick(url(), &name)
        .lock(S(60))
        .cancel_timeout(MS(10))
        .build(blocking({
            let begun = begun.clone();
            move |message: Message<String>| {
                drop(message.into_value());
                begun.store(true, Ordering::SeqCst);
                // Until the end of the test.
                let _ = held.lock().unwrap().recv();
            }
        }))
        .unwrap();
    eventually("it is begun", async || begun.load(Ordering::SeqCst)).await;
    let report = worker.stop(Duration::ZERO).await;
    assert_eq!(report.unfinished, [MessageId::from("a")]);
    assert!(report.given_back.is_empty());
    assert_eq!(texts.status("a").await.unwrap(), Some(Status::Locked));
    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_does_not_hold_up_the_stop() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a").await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let begun = Arc::new(AtomicBool::new(false));
    let worker = quick(url(), &name)
        .build({
            let begun = begun.clone();
            move |_: Message<String>| {
                begun.store(true, Ordering::SeqCst);
                // Until the end of the test.
                let _ = held.lock().unwrap().recv();
                async {}
            }
        })
        .unwrap();
    eventually("it is begun", async || begun.load(Ordering::SeqCst)).await;
    let report = worker.stop(MS(10)).await;
    assert_eq!(report.unfinished, [MessageId::from("a")]);
    eventually("it comes back", async || {
        texts.status("a").await.unwrap() == Some(Status::Queued)
    })
    .await;
    drop(release);
}

/// Nobody drives the runtime of the handlers: what was taken is given back, and nothing is taken
/// until it runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_begins_is_given_back_to_others() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for id in ["a", "b", "c"] {
        enqueue(&texts, id).await;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let worker = {
        let _entered = runtime.enter();
        quick(url(), &name)
            .build(|_: Message<String>| async {})
            .unwrap()
    };
    eventually("they are taken", async || worker.stats().taken == 3).await;
    // A wait that was under way gets some of them again, and gives them back too.
    eventually("they are given back", async || {
        let stats = worker.stats();
        stats.released >= 3 && stats.released == stats.taken && info(&texts).await.queued == 3
    })
    .await;
    let taken = worker.stats().taken;
    // As long as three waits of the worker.
    tokio::time::sleep(S(1)).await;
    assert_eq!(
        (worker.stats().taken, info(&texts).await.queued),
        (taken, 3)
    );
    assert_eq!(texts.get("a").await.unwrap().unwrap().attempts, 0);
    let driven = std::thread::spawn(move || {
        runtime.block_on(async {
            eventually("they are handled", async || worker.stats().finished == 3).await;
            assert!(worker.stop(S(10)).await.is_clean());
        });
    });
    tokio::task::spawn_blocking(|| driven.join().unwrap())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_begun_is_given_back_without_counting_the_attempt() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for n in 0..500 {
        enqueue(&texts, &n.to_string()).await;
    }
    // One thread for all handlers, which blocks it: most of what was taken is not begun.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let worker = {
        let _entered = runtime.enter();
        let begun = begun.clone();
        quick(url(), &name)
            .handlers(100)
            .build(move |_: Message<String>| {
                begun.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(MS(20));
                async { Outcome::SuccessFor(S(3_600)) }
            })
            .unwrap()
    };
    eventually("a batch is taken", async || worker.stats().taken >= 100).await;
    let report = worker.stop(S(60)).await;
    assert!(report.is_clean(), "{report:?}");
    let (begun, stats, info) = (
        begun.load(Ordering::SeqCst) as u64,
        worker.stats(),
        info(&texts).await,
    );
    assert_eq!(stats.finished, begun);
    assert_eq!(stats.taken, begun + stats.released);
    assert!(stats.released > 0, "{stats:?}");
    assert_eq!(
        (info.locked, info.queued, info.done_with_backoff),
        (0, 500 - begun, begun)
    );
    for n in 0..500 {
        let stored = texts.get(n.to_string()).await.unwrap().unwrap();
        let expected = u32::from(stored.status == Status::DoneWithBackoff);
        assert_eq!(stored.attempts, expected, "{stored:?}");
    }
    tokio::task::spawn_blocking(move || drop(runtime))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_without_a_server_ends_in_time_and_says_what_is_unknown() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    let name = fresh_name();
    let texts = queue::<String>(server.url(), &name).await;
    enqueue(&texts, "a").await;
    let go = Arc::new(Semaphore::new(0));
    let worker = quick(proxy.url(), &name)
        .lock(S(3_600))
        .build({
            let go = go.clone();
            move |_: Message<String>| {
                let go = go.clone();
                async move { go.acquire().await.unwrap().forget() }
            }
        })
        .unwrap();
    eventually("it is begun", async || worker.running_handlers() == 1).await;
    proxy.refuse();
    go.add_permits(1);
    let report = worker.stop(S(3)).await;
    assert_eq!(report.unanswered, [MessageId::from("a")]);
    assert!(report.unfinished.is_empty());
    assert_eq!(texts.status("a").await.unwrap(), Some(Status::Locked));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_worker_finishes_what_it_has_and_takes_nothing_new() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a").await;
    // What was taken and not begun would be given back.
    let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let worker = quick(url(), &name)
        .build({
            let (begun, go) = (begun.clone(), go.clone());
            move |_: Message<String>| {
                let (begun, go) = (begun.clone(), go.clone());
                async move {
                    begun.add_permits(1);
                    go.acquire().await.unwrap().forget();
                }
            }
        })
        .unwrap();
    eventually("it is begun", async || begun.available_permits() == 1).await;
    drop(worker);
    enqueue(&texts, "b").await;
    go.add_permits(1);
    eventually("it is finished", async || {
        texts.status("a").await.unwrap().is_none()
    })
    .await;
    // The wait that was under way may have got it; then it was given back.
    eventually("the other is left", async || {
        texts.status("b").await.unwrap() == Some(Status::Queued)
    })
    .await;
    assert_eq!(texts.get("b").await.unwrap().unwrap().attempts, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_runtime_has_ended_holds_nothing() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a").await;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let worker = {
        let _entered = runtime.enter();
        quick(url(), &name)
            .build(|_: Message<String>| std::future::pending::<()>())
            .unwrap()
    };
    eventually("it is begun", async || worker.running_handlers() == 1).await;
    runtime.shutdown_background();
    eventually("it comes back", async || {
        texts.status("a").await.unwrap() == Some(Status::Queued)
    })
    .await;
    assert_eq!(texts.get("a").await.unwrap().unwrap().attempts, 0);
    eventually("it knows", async || !worker.is_running()).await;
    // A wait that was under way may have got it again, and gives it back too.
    eventually("all is given back", async || {
        let stats = worker.stats();
        stats.released == stats.taken && info(&texts).await.queued == 1
    })
    .await;
    let delivered = info(&texts).await.total_delivered;
    // Longer than any wait of this worker: it takes nothing without handlers.
    tokio::time::sleep(MS(700)).await;
    assert_eq!(info(&texts).await.total_delivered, delivered);
    // On a runtime that lives it begins anew.
    assert!(worker.start().unwrap() && worker.is_running());
    eventually("it is begun again", async || {
        worker.stats().taken == delivered + 1
    })
    .await;
    let report = worker.stop(Duration::ZERO).await;
    assert_eq!(report.given_back, [MessageId::from("a")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_runtime_has_ended_reports_what_it_left() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for n in 0..20 {
        enqueue(&texts, &n.to_string()).await;
    }
    let keep = Arc::new(std::sync::Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let worker = {
        let _entered = runtime.enter();
        let keep = keep.clone();
        quick(url(), &name)
            .lock(S(60))
            .handlers(20)
            .build(move |message: Message<String>| {
                keep.lock().unwrap().push(message);
                std::future::pending::<()>()
            })
            .unwrap()
    };
    eventually("all are begun", async || keep.lock().unwrap().len() == 20).await;
    runtime.shutdown_background();
    eventually("it knows", async || !worker.is_running()).await;
    let report = worker.stop(S(1)).await;
    assert_eq!((report.unfinished.len(), report.given_back.len()), (20, 0));
    assert_eq!(info(&texts).await.locked, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_at_the_same_time_are_one() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let worker = quick(url(), &name)
        .build(|_: Message<String>| async {})
        .unwrap();
    enqueue(&texts, "a").await;
    all_done(&texts, 1).await;
    let reports = futures_util::join!(worker.stop(S(9)), worker.stop(S(9)), worker.stop(S(9)));
    assert!(reports.0.is_clean() && reports.1.is_clean() && reports.2.is_clean());
}
