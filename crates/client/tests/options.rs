//! The options of a worker.

mod common;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use common::{all_done, client, eventually, fresh_name, info, queue, quick, shared_server, MS, S};
use redis_mq_client::{
    BuildError, EndOfQueue, EnqueueOptions, Message, Outcome, PollResult, Queue, Start, StartError,
    Worker,
};
use tokio::sync::Semaphore;

fn url() -> String {
    shared_server().url()
}

async fn enqueue(queue: &Queue<u32>, count: u32) {
    let values: Vec<_> = (0..count).collect();
    let messages = values.iter().map(|value| (value, EnqueueOptions::new()));
    for outcome in queue.enqueue_many(messages).await.unwrap() {
        assert!(outcome.unwrap().is_accepted());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_taken_without_a_free_handler() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    enqueue(&numbers, 10).await;
    let go = Arc::new(Semaphore::new(0));
    let worker = quick(url(), &name)
        .handlers(3)
        .build({
            let go = go.clone();
            move |_: Message<u32>| {
                let go = go.clone();
                async move { go.acquire().await.unwrap().forget() }
            }
        })
        .unwrap();
    for done in 0..=7 {
        eventually("three are locked", async || {
            info(&numbers).await.locked == 3
        })
        .await;
        let info = info(&numbers).await;
        assert_eq!((info.locked, info.queued), (3, 7 - done), "{info:?}");
        go.add_permits(1);
        let finished = u64::from(done as u32) + 1;
        eventually("one more is finished", async || {
            worker.stats().finished == finished
        })
        .await;
    }
    go.add_permits(2);
    all_done(&numbers, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_leaves_the_rest_in_the_queue() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    enqueue(&numbers, 12).await;
    let period = MS(400);
    let taken = Arc::new(Mutex::new(Vec::new()));
    let _worker = quick(url(), &name)
        .rate_limit(5, period)
        .build({
            let taken = taken.clone();
            move |_: Message<u32>| {
                taken.lock().unwrap().push(Instant::now());
                async {}
            }
        })
        .unwrap();
    eventually("five are taken", async || taken.lock().unwrap().len() == 5).await;
    let info = info(&numbers).await;
    // If this machine was slow, more may have been taken since; never more than are allowed.
    assert!(info.total_delivered <= 12 && info.locked <= 5, "{info:?}");
    all_done(&numbers, 12).await;
    let taken = taken.lock().unwrap();
    // The handlers run after the messages were taken, by a time that varies: the sixth one begins
    // later than the first one was taken, by a period.
    let whole = taken[11].duration_since(taken[0]);
    assert!(whole >= period, "twelve within {whole:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_may_not_block_share_the_servers_wait() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    let polls = Arc::new(Mutex::new(Vec::new()));
    let worker = quick(url(), &name)
        .end_of_queue(EndOfQueue::SharedWait(vec![MS(20), MS(40)]))
        .monitor({
            let polls = polls.clone();
            move |poll| polls.lock().unwrap().push(poll.result.clone())
        })
        .build(|_: Message<u32>| async {})
        .unwrap();
    let polled = |wanted: PollResult| polls.lock().unwrap().contains(&wanted);
    // A queue that does not exist: always the wait of a first dry run.
    eventually("it waits", async || {
        polls
            .lock()
            .unwrap()
            .iter()
            .any(|result| matches!(result, PollResult::Wait(_)))
    })
    .await;
    enqueue(&numbers, 3).await;
    all_done(&numbers, 3).await;
    assert!(worker.stop(S(10)).await.is_clean());
    let taken: usize = polls
        .lock()
        .unwrap()
        .iter()
        .map(|result| match result {
            PollResult::Taken(count) => *count,
            PollResult::Wait(wait) => {
                assert!(*wait <= MS(40), "{wait:?}");
                0
            }
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(taken, 3);
    assert!(!polled(PollResult::Nothing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttle_pauses_after_every_poll() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    enqueue(&numbers, 6).await;
    let start = Instant::now();
    let worker = quick(url(), &name)
        .handlers(2)
        .throttle(MS(100))
        .build(|_: Message<u32>| async {})
        .unwrap();
    all_done(&numbers, 6).await;
    let took = start.elapsed();
    assert!(took >= MS(200), "three polls with two pauses took {took:?}");
    assert_eq!(worker.expected_throughput(), Some(20.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttle_may_depend_on_the_poll() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    enqueue(&numbers, 2).await;
    let asked = Arc::new(Mutex::new(HashSet::new()));
    let _worker = quick(url(), &name)
        .handlers(1)
        .throttle_with({
            let asked = asked.clone();
            move |poll| {
                asked.lock().unwrap().insert(format!("{:?}", poll.result));
                MS(1)
            }
        })
        .build(|_: Message<u32>| async {})
        .unwrap();
    eventually("both kinds of poll were seen", async || {
        let asked = asked.lock().unwrap();
        asked.contains("Taken(1)") && asked.contains("Nothing")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_starts_when_it_is_told_to() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    enqueue(&numbers, 1).await;
    let built = |start| {
        quick(url(), &name)
            .start(start)
            .build(|_: Message<u32>| async {})
    };

    let manual = built(Start::Manual).unwrap();
    assert!(!manual.is_running());
    assert!(manual.stop(S(1)).await.is_clean());
    assert_eq!(info(&numbers).await.total_delivered, 0);
    assert!(manual.start().unwrap());
    assert!(!manual.start().unwrap(), "it runs already");
    all_done(&numbers, 1).await;
    assert!(manual.stop(S(10)).await.is_clean());

    let delay = MS(300);
    let start = Instant::now();
    let delayed = built(Start::Delayed(delay)).unwrap();
    assert!(delayed.is_running());
    enqueue(&numbers, 1).await;
    all_done(&numbers, 2).await;
    assert!(start.elapsed() >= delay);
    assert!(delayed.stop(S(10)).await.is_clean());

    let waiting = built(Start::Delayed(S(3_600))).unwrap();
    assert!(
        waiting.stop(S(3_600)).await.is_clean(),
        "a delay does not hold up the stop"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_can_be_started_again_and_again() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    let worker = quick(url(), &name)
        .start(Start::Manual)
        .build(|_: Message<u32>| async {})
        .unwrap();
    for round in 1..=5 {
        assert!(worker.start().unwrap());
        enqueue(&numbers, 20).await;
        all_done(&numbers, 20 * round).await;
        assert!(worker.stop(S(10)).await.is_clean());
        assert!(!worker.is_running());
    }
    assert_eq!(worker.stats().finished, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_handlers_is_off() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    enqueue(&numbers, 1).await;
    let worker = quick(url(), &name)
        .handlers(0)
        .build(|_: Message<u32>| async {})
        .unwrap();
    assert!(!worker.start().unwrap());
    assert!(!worker.is_running());
    assert!(worker.stop(S(1)).await.is_clean());
    assert_eq!(info(&numbers).await.queued, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_monitor_sees_every_poll_and_may_panic() {
    let name = fresh_name();
    let numbers = queue::<u32>(url(), &name).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker = quick(url(), &name)
        .sample_queue(MS(20))
        .monitor({
            let seen = seen.clone();
            move |poll| {
                let size = poll.info.map(|info| info.messages);
                seen.lock()
                    .unwrap()
                    .push((poll.asked, poll.result.clone(), size));
                panic!("the monitor is broken");
            }
        })
        .build(|_: Message<u32>| async { Outcome::SuccessFor(S(3_600)) })
        .unwrap();
    enqueue(&numbers, 3).await;
    all_done(&numbers, 3).await;
    eventually("a poll sees the size", async || {
        seen.lock()
            .unwrap()
            .iter()
            .any(|(_, _, size)| *size == Some(3))
    })
    .await;
    let seen = seen.lock().unwrap();
    let taken: usize = seen
        .iter()
        .filter_map(|(_, result, _)| match result {
            PollResult::Taken(count) => Some(*count),
            _ => None,
        })
        .sum();
    assert_eq!(taken, 3, "{seen:?}");
    assert!(
        seen.iter().all(|(asked, _, _)| (1..=16).contains(asked)),
        "{seen:?}"
    );
    drop(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_arrive_a_few_at_a_time() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let text = "x".repeat(1 << 20);
    for _ in 0..40 {
        assert!(texts.enqueue(&text).await.unwrap().is_accepted());
    }
    let taken = Arc::new(Mutex::new(Vec::new()));
    let worker = quick(url(), &name)
        .handlers(64)
        .response_timeout(S(60))
        .monitor({
            let taken = taken.clone();
            move |poll| {
                if let PollResult::Taken(count) = poll.result {
                    taken.lock().unwrap().push(count);
                }
            }
        })
        .build(|_: Message<String>| async {})
        .unwrap();
    all_done(&texts, 40).await;
    assert!(worker.stop(S(10)).await.is_clean());
    let taken = taken.lock().unwrap();
    assert_eq!(taken.iter().sum::<usize>(), 40);
    assert!(
        taken[0] <= 8 && taken[1..].iter().all(|count| *count <= 4),
        "{taken:?}"
    );
}

#[tokio::test]
async fn bad_values_are_errors_at_build_time() {
    let refused =
        |builder: redis_mq_client::WorkerBuilder| match builder.build(|_: Message<u32>| async {}) {
            Err(BuildError::InvalidOption { option, .. }) => option,
            other => panic!("{other:?}"),
        };
    let builder = || Worker::builder(client(url()), "q");
    assert_eq!(refused(Worker::builder(client(url()), "")), "queue");
    assert_eq!(refused(builder().lock(Duration::ZERO)), "lock");
    assert_eq!(refused(builder().rate_limit(0, S(1))), "rate_limit");
    assert_eq!(
        refused(builder().end_of_queue(EndOfQueue::Block(Duration::ZERO))),
        "end_of_queue"
    );
}

#[test]
fn a_worker_outside_of_a_runtime_is_an_error_not_a_panic() {
    let built = quick(url(), "q").build(|_: Message<u32>| async {});
    assert!(
        matches!(built, Err(BuildError::Start(StartError::NoRuntime))),
        "{built:?}"
    );
    let manual = quick(url(), "q")
        .start(Start::Manual)
        .build(|_: Message<u32>| async {})
        .unwrap();
    assert!(matches!(manual.start(), Err(StartError::NoRuntime)));
}
