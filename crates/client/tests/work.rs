//! What a worker does with what its handler returns.

mod common;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{
    all_done, becomes, connection, deciding, enqueue, fresh_name, queue, quick, shared_server,
    with_id, MS, S,
};
use redis_mq_client::{blocking, redis, service, EnqueueOptions, Message, Outcome, Status};
use tokio::sync::mpsc;

fn url() -> String {
    shared_server().url()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_handler_gets_the_message_and_what_is_known_of_it() {
    for url in [shared_server().url(), shared_server().url_resp3()] {
        let name = fresh_name();
        let texts = queue::<String>(&url, &name).await;
        let options = with_id("a").lock(S(3));
        assert!(texts
            .enqueue_with(&"text".into(), options)
            .await
            .unwrap()
            .is_accepted());
        let (tell, mut seen) = mpsc::unbounded_channel();
        let worker = quick(&url, &name)
            .build(move |message: Message<String>| {
                tell.send(message).unwrap();
                async {}
            })
            .unwrap();
        let message = seen.recv().await.unwrap();
        assert_eq!(
            (message.value.as_str(), message.id().as_str()),
            ("text", Some("a"))
        );
        assert_eq!((message.attempt(), message.lock()), (1, S(3)));
        assert_eq!(message.queue(), name.as_bytes());
        let stored = texts.get("a").await.unwrap().unwrap();
        assert_eq!(message.enqueued_at(), stored.enqueued_at);
        assert!(!message.is_cancelled());
        let left = message
            .lock_deadline()
            .saturating_duration_since(std::time::Instant::now());
        assert!(left <= S(3), "{left:?}");
        all_done(&texts, 1).await;
        assert!(worker.stop(S(10)).await.is_clean());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_with_a_dedupe_window_keeps_the_id_taken() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let (_worker, _seen) = deciding(&name, |_| Outcome::SuccessFor(S(3_600)));
    enqueue(&texts, "a", "").await;
    becomes(&texts, "a", Some(Status::DoneWithBackoff)).await;
    let again = texts.enqueue_with(&"".into(), with_id("a")).await.unwrap();
    assert_eq!(again.refused_by(), Some(Status::DoneWithBackoff));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requeued_copy_is_handled_after_its_predecessor() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let (tell, mut seen) = mpsc::unbounded_channel();
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let worker = quick(url(), &name)
        .build({
            let go = go.clone();
            move |message: Message<String>| {
                let (tell, go) = (tell.clone(), go.clone());
                async move {
                    tell.send((message.attempt(), message.into_value()))
                        .unwrap();
                    go.acquire().await.unwrap().forget();
                }
            }
        })
        .unwrap();
    enqueue(&texts, "a", "old").await;
    assert_eq!(seen.recv().await, Some((1, "old".into())));
    assert_eq!(worker.running_handlers(), 1);
    let copy = texts
        .enqueue_with(&"new".into(), with_id("a").requeue())
        .await
        .unwrap();
    assert!(copy.is_accepted());
    go.add_permits(2);
    assert_eq!(seen.recv().await, Some((1, "new".into())));
    all_done(&texts, 2).await;
    assert_eq!(worker.running_handlers(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_handlers_and_tower_services_are_handlers() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    for id in ["fine", "panics"] {
        enqueue(&texts, id, id).await;
    }
    let worker = quick(url(), &name)
        .build(blocking(|message: Message<String>| {
            std::thread::sleep(MS(1));
            assert!(message.value == "fine", "not fine");
        }))
        .unwrap();
    becomes(&texts, "fine", None).await;
    becomes(&texts, "panics", Some(Status::Dead)).await;
    assert!(worker.stop(S(10)).await.is_clean());

    let slow = tower::service_fn(|message: Message<String>| async move {
        if message.value == "slow" {
            std::future::pending::<()>().await;
        }
        Ok::<_, std::io::Error>(Outcome::Success)
    });
    let limited = tower::ServiceBuilder::new().timeout(MS(30)).service(slow);
    let _worker = quick(url(), &name)
        .on_failure(|failure| Outcome::error(failure.cause.to_string()))
        .build(service(limited))
        .unwrap();
    for id in ["quick", "slow"] {
        enqueue(&texts, id, id).await;
    }
    becomes(&texts, "quick", None).await;
    becomes(&texts, "slow", Some(Status::Dead)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_share_a_queue_and_each_message_goes_to_one_of_them() {
    let name = fresh_name();
    let texts = queue::<String>(url(), &name).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let build = |_| {
        let seen = seen.clone();
        quick(url(), &name)
            .handlers(3)
            .build(move |message: Message<String>| {
                let seen = seen.clone();
                async move {
                    tokio::task::yield_now().await;
                    seen.lock().unwrap().push(message.value);
                }
            })
    };
    let workers: Vec<_> = (0..4).map(|n| build(n).unwrap()).collect();
    let values: Vec<_> = (0..2_000).map(|n| n.to_string()).collect();
    let messages = values.iter().map(|value| (value, EnqueueOptions::new()));
    for outcome in texts.enqueue_many(messages).await.unwrap() {
        assert!(outcome.unwrap().is_accepted());
    }
    all_done(&texts, 2_000).await;
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort_by_key(|value| value.parse::<u32>().unwrap());
    assert_eq!(seen, values);
    for worker in workers {
        assert!(worker.stop(Duration::from_secs(10)).await.is_clean());
    }
    let mut conn = connection(url()).await;
    let locked: redis::Value = redis::cmd("MQ.DEQUEUE")
        .arg(&name)
        .query_async(&mut conn)
        .await
        .unwrap();
    assert_eq!(locked, redis::Value::Nil);
}
