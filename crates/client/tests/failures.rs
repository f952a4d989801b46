//! What a worker does with messages that were not handled: retries, limits of attempts, dead letters.

mod common;

use common::{
    all_done, becomes, connection, deciding, enqueue, eventually, fresh_name, info, queue, quick,
    shared_server, with_id, MS, S,
};
use redis_mq_client::{
    policy::Cause, redis, EnqueueOptions, Event, Message, Outcome, Queue, Raw, RetryPolicy, Start,
    Status,
};
use tokio::sync::mpsc;

fn url() -> String {
    shared_server().url()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_comes_at_once_or_after_its_pause() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let (worker, mut seen) = deciding(&name, |attempt| match attempt {
        1 | 2 => Outcome::RetryNow,
        _ => Outcome::RetryAfter(S(3_600)),
    });
    enqueue(&texts, "a", "").await;
    for attempt in 1..=3 {
        assert_eq!(seen.recv().await, Some(attempt));
    }
    becomes(&texts, "a", Some(Status::QueuedWithBackoff)).await;
    let stored = texts.get("a").await.unwrap().unwrap();
    let pause = stored
        .due_at
        .unwrap()
        .duration_since(stored.enqueued_at)
        .unwrap();
    assert!(pause >= S(3_600) && pause < S(3_700), "{pause:?}");
    eventually("the retries are counted", async || {
        worker.stats().retried == 3
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_any_type_are_retried_exponentially() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a", "").await;
    let worker = quick(url(), &name)
        .build(|message: Message<String>| async move {
            message.value.parse::<u32>()?;
            Ok::<_, std::num::ParseIntError>(())
        })
        .unwrap();
    becomes(&texts, "a", Some(Status::QueuedWithBackoff)).await;
    // After the first attempt: 1100 to 2200 ms by the server's default.
    let info = info(&texts).await;
    assert!(info.next_due.unwrap() <= MS(2_200), "{info:?}");
    eventually("it is counted", async || worker.stats().failed == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_makes_a_dead_letter_with_its_reason() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a", "").await;
    let (_worker, _seen) = deciding(&name, |_| Outcome::error("no such é customer"));
    becomes(&texts, "a", Some(Status::Dead)).await;
    let stored = texts.get("a").await.unwrap().unwrap();
    assert_eq!(
        stored.reason.as_deref(),
        Some("no such é customer".as_bytes())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_of_the_worker_decides_until_it_gives_up() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a", "").await;
    let (tell, mut seen) = mpsc::unbounded_channel();
    let _worker = quick(url(), &name)
        .retry_policy(RetryPolicy::schedule([MS(1), MS(30)]))
        .build(move |message: Message<String>| {
            tell.send(message.attempt()).unwrap();
            async { Err::<(), _>("down") }
        })
        .unwrap();
    becomes(&texts, "a", Some(Status::Dead)).await;
    for attempt in 1..=3 {
        assert_eq!(seen.recv().await, Some(attempt));
    }
    let stored = texts.get("a").await.unwrap().unwrap();
    assert_eq!(
        stored.reason.as_deref(),
        Some(&b"gave up after 3 attempts: down"[..])
    );
}

/// Sets a limit of the whole queue.
async fn limit_attempts(name: &str, attempts: u32) {
    let mut limit = redis::cmd("MQ.LIMIT");
    limit.arg(name).arg("ATTEMPTS").arg(attempts);
    let mut conn = connection(url()).await;
    limit.exec_async(&mut conn).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_gives_up_after_its_attempts_where_nobody_else_has_a_limit() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let worker = quick(url(), &name)
        .attempts(3)
        .retry_policy(RetryPolicy::fixed(MS(1)))
        .build(|_: Message<String>| async { Err::<(), _>("down") })
        .unwrap();
    enqueue(&texts, "none", "").await;
    let own = with_id("own").attempts(5);
    assert!(texts
        .enqueue_with(&"".into(), own)
        .await
        .unwrap()
        .is_accepted());
    for (id, attempts) in [("none", 3), ("own", 5)] {
        becomes(&texts, id, Some(Status::Dead)).await;
        let letter = texts.get(id).await.unwrap().unwrap();
        assert_eq!(letter.attempts, attempts, "{id}");
        assert_eq!(
            letter.reason.as_deref(),
            Some(&b"no attempts left: down"[..])
        );
    }
    limit_attempts(&name, 4).await;
    enqueue(&texts, "of the queue", "").await;
    becomes(&texts, "of the queue", Some(Status::Dead)).await;
    assert_eq!(
        texts.get("of the queue").await.unwrap().unwrap().attempts,
        4
    );
    eventually("all are counted", async || worker.stats().dead == 3).await;
}

/// As the page on security has it for consumers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_may_not_ask_for_limits_leaves_them_to_the_server() {
    let name = fresh_name();
    let mut acl = redis::cmd("ACL");
    acl.arg(&[
        "SETUSER",
        "post",
        "on",
        ">secret",
        "~*",
        "+mq.dequeue",
        "+mq.done",
        "+mq.extend",
    ]);
    acl.exec_async(&mut connection(url()).await).await.unwrap();
    let as_post = url().replace("redis://", "redis://post:secret@");
    let texts = queue::<String>(url(), &name).await;
    let worker = quick(as_post, &name)
        .attempts(1)
        .retry_policy(RetryPolicy::fixed(MS(1)))
        .build(|message: Message<String>| async move {
            match message.attempt() {
                1 | 2 => Err("down"),
                _ => Ok(()),
            }
        })
        .unwrap();
    enqueue(&texts, "a", "").await;
    all_done(&texts, 1).await;
    eventually("they are counted", async || worker.stats().retried == 2).await;
    assert_eq!(worker.stats().outages, 0);
}

#[tokio::test]
async fn the_limit_of_attempts_is_shown_and_25_by_default() {
    let worker = |name: &str| quick(url(), name).start(Start::Manual);
    let handler = |_: Message<String>| async {};
    let by_default = format!("{:?}", worker("q").build(handler).unwrap());
    assert!(by_default.contains("attempts: 25"), "{by_default}");
    let changed = format!("{:?}", worker("q").attempts(7).build(handler).unwrap());
    assert!(changed.contains("attempts: 7"), "{changed}");
}

#[derive(Debug, thiserror::Error)]
#[error("cannot send")]
struct CannotSend(#[source] std::io::Error);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_tells_the_error_with_its_sources() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let long = "é".repeat(1_000);
    let _worker = quick(url(), &name)
        .build(|message: Message<String>| async move {
            let text = message.into_value();
            Err::<(), _>(CannotSend(std::io::Error::other(text)))
        })
        .unwrap();
    enqueue(&texts, "short", "no é route").await;
    enqueue(&texts, "long", &long).await;
    for (id, reason) in [
        ("short", "cannot send: no é route".to_owned()),
        ("long", format!("cannot send: {}", "é".repeat(505))),
    ] {
        becomes(&texts, id, Some(Status::QueuedWithBackoff)).await;
        let stored = texts.get(id).await.unwrap().unwrap();
        let told = String::from_utf8(stored.reason.unwrap()).unwrap();
        assert_eq!(told, reason);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_matched_by_their_type_wherever_it_is_in_the_chain() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let _worker = quick(url(), &name)
        .on_failure(|failure| match failure.downcast_ref::<std::io::Error>() {
            Some(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Outcome::error(failure.cause.to_string())
            }
            _ => Outcome::RetryAfter(S(3_600)),
        })
        .build(|message: Message<String>| async move {
            let kind = match message.value.as_str() {
                "lost" => std::io::ErrorKind::NotFound,
                _ => std::io::ErrorKind::TimedOut,
            };
            match message.value.as_str() {
                "lost" | "late" => Err(redis_mq_client::BoxError::from(CannotSend(kind.into()))),
                _ => Err("no error of a type".into()),
            }
            .map(|()| Outcome::Success)
        })
        .unwrap();
    for id in ["lost", "late", "other"] {
        enqueue(&texts, id, id).await;
    }
    becomes(&texts, "lost", Some(Status::Dead)).await;
    becomes(&texts, "late", Some(Status::QueuedWithBackoff)).await;
    becomes(&texts, "other", Some(Status::QueuedWithBackoff)).await;
    let reason = texts.get("lost").await.unwrap().unwrap().reason.unwrap();
    assert_eq!(reason, b"cannot send: entity not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_an_error_of_that_message_only() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for id in ["good-1", "bad", "worse", "good-2"] {
        enqueue(&texts, id, id).await;
    }
    let worker = quick(url(), &name)
        .handlers(1)
        .build(|message: Message<String>| {
            // Before the future exists, too.
            assert!(message.value != "worse", "worse than bad");
            async move { assert!(message.value != "bad", "it is {}", message.value) }
        })
        .unwrap();
    for id in ["good-1", "good-2"] {
        becomes(&texts, id, None).await;
    }
    for (id, reason) in [
        ("bad", "panic: it is bad"),
        ("worse", "panic: worse than bad"),
    ] {
        becomes(&texts, id, Some(Status::Dead)).await;
        let stored = texts.get(id).await.unwrap().unwrap();
        assert_eq!(stored.reason.as_deref(), Some(reason.as_bytes()));
    }
    eventually("they are counted", async || worker.stats().panicked == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_does_not_decode_is_a_dead_letter_unless_a_policy_says_otherwise() {
    let raw = |name: &str, conn| Queue::<[u8], Raw>::with_codec(conn, name, Raw);
    let conn = connection(url()).await;
    let handle = |_: Message<String>| async { Outcome::error("there was a value") };

    let name = fresh_name();
    let bytes = raw(&name, conn.clone());
    assert!(bytes
        .enqueue_with(&[0xc1, 0xff], with_id("a"))
        .await
        .unwrap()
        .is_accepted());
    let _worker = quick(url(), &name).build(handle).unwrap();
    let stored = Queue::<Vec<u8>, Raw>::with_codec(conn.clone(), name, Raw);
    eventually("it is dead", async || {
        stored.status("a").await.unwrap() == Some(Status::Dead)
    })
    .await;
    let reason = stored.get("a").await.unwrap().unwrap().reason.unwrap();
    assert!(
        reason.starts_with(b"decode error: "),
        "{:?}",
        String::from_utf8_lossy(&reason)
    );

    let name = fresh_name();
    let bytes = raw(&name, conn);
    assert!(bytes
        .enqueue_with(&[0xc1, 0xff], with_id("a"))
        .await
        .unwrap()
        .is_accepted());
    let policy = |failure: &redis_mq_client::policy::Failure<'_>| match failure.cause {
        Cause::Undecodable(_) if failure.payload == [0xc1, 0xff] => Outcome::Success,
        _ => Outcome::error("another"),
    };
    let _worker = quick(url(), &name)
        .on_failure(policy)
        .build(handle)
        .unwrap();
    all_done(&bytes, 1).await;
}

/// What producers of today write, and what those of next year do.
#[derive(serde::Serialize, serde::Deserialize)]
enum Job {
    Sweep,
}

#[derive(serde::Serialize)]
enum JobOfNextYear {
    Polish,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variant_of_a_producer_that_was_deployed_first_waits_for_a_worker_that_knows_it() {
    let name = fresh_name();
    let newer = queue::<JobOfNextYear>(url(), &name).await;
    newer
        .enqueue_with(&JobOfNextYear::Polish, with_id("a"))
        .await
        .unwrap();
    let _worker = quick(url(), &name).build(|message: Message<Job>| async {
        let (Job::Sweep, delivery) = message.into_parts();
        Outcome::error(format!("attempt {}", delivery.attempt()))
    });
    let texts = queue::<String>(url(), &name).await;
    becomes(&texts, "a", Some(Status::QueuedWithBackoff)).await;
    let info = info(&texts).await;
    assert_eq!((info.total_retried, info.dead), (1, 0));
    let jobs = queue::<Job>(url(), &name).await;
    jobs.enqueue_with(&Job::Sweep, with_id("b")).await.unwrap();
    becomes(&texts, "b", Some(Status::Dead)).await;
    let letter = jobs.get("b").await.unwrap().unwrap();
    assert_eq!(letter.reason.as_deref(), Some(&b"attempt 1"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_panics_leaves_the_decision_to_the_default() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    enqueue(&texts, "a", "").await;
    let _worker = quick(url(), &name)
        .on_failure(|_| panic!("I cannot decide"))
        .build(|_: Message<String>| async { Err::<(), _>("down") })
        .unwrap();
    becomes(&texts, "a", Some(Status::QueuedWithBackoff)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_out_of_attempts_is_dead_and_said_to_be() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let (worker, _seen) = deciding(&name, |_| Outcome::RetryNow);
    let mut events = worker.events();
    let options = with_id("a").attempts(2);
    assert!(texts
        .enqueue_with(&"".into(), options)
        .await
        .unwrap()
        .is_accepted());
    let mut story = Vec::new();
    while !matches!(story.last(), Some(Event::Dead { .. })) {
        match events.recv().await.unwrap() {
            Event::Connected { .. } => {}
            event => story.push(event),
        }
    }
    // The two connections tell independently: the second delivery may be known before the retry.
    let story = format!("{story:?}");
    for (event, attempt) in [("Taken", 1), ("Retried", 1), ("Taken", 2), ("Dead", 2)] {
        let told = format!("{event} {{ id: MessageId(a), attempt: {attempt} }}");
        assert_eq!(story.matches(&told).count(), 1, "{told} in {story}");
    }
    let stats = worker.stats();
    assert_eq!((stats.taken, stats.retried, stats.dead), (2, 1, 1));
}

/// An error as no error should be.
struct Hostile;

impl std::fmt::Debug for Hostile {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("Debug, on purpose")
    }
}

impl std::fmt::Display for Hostile {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("Display, on purpose")
    }
}

impl std::error::Error for Hostile {}

impl Drop for Hostile {
    fn drop(&mut self) {
        panic!("Drop, on purpose")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_and_panics_that_panic_cost_no_handler() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let worker = quick(url(), &name)
        .handlers(2)
        .build(|message: Message<String>| async move {
            match message.value.as_str() {
                "error" => Err(Hostile),
                "panic" => std::panic::panic_any(Hostile),
                _ => Ok(()),
            }
        })
        .unwrap();
    for n in 0..4 {
        for what in ["error", "panic"] {
            let options = EnqueueOptions::new().id(format!("{what}-{n}"));
            let enqueued = texts.enqueue_with(&what.to_owned(), options).await;
            assert!(enqueued.unwrap().is_accepted());
        }
    }
    eventually("all are answered", async || {
        let stats = worker.stats();
        (stats.retried, stats.dead) == (4, 4)
    })
    .await;
    assert!(texts.enqueue(&"fine".into()).await.unwrap().is_accepted());
    eventually("it works on", async || worker.stats().finished == 1).await;
    let stored = texts.get("error-0").await.unwrap().unwrap();
    assert_eq!(
        (stored.status, stored.attempts),
        (redis_mq_client::Status::QueuedWithBackoff, 1)
    );
    assert!(worker.stop(S(10)).await.is_clean());
}
