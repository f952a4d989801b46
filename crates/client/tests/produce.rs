//! Producing and asking, on a real server, in both protocols.

mod common;

use common::{connection, eventually, fresh_name, queue, shared_server, S};
use redis_mq_client::{
    codec::Json, connect, redis, EnqueueOptions, Enqueued, Error, FollowUp, LimitChanges, Message,
    MessageId, Outcome, Queue, Raw, Status, Worker,
};
use redis_mq_testkit::{Persistence, Server, Shutdown};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u64,
    note: Option<String>,
}

fn order(number: u64) -> Order {
    Order {
        number,
        note: Some("é\0".into()),
    }
}

fn with_id(id: &str) -> EnqueueOptions {
    EnqueueOptions::new().id(id)
}

fn urls() -> [String; 2] {
    [shared_server().url(), shared_server().url_resp3()]
}

#[tokio::test]
async fn every_outcome_of_an_enqueue_has_its_type() {
    for url in urls() {
        let name = fresh_name();
        let orders = queue::<Order>(&url, &name).await;
        let added = orders.enqueue(&order(1)).await.unwrap();
        assert!(
            matches!(&added, Enqueued::Added { id } if id.as_bytes().len() == 36),
            "{added:?}"
        );

        let id = MessageId::from("a");
        let order_of_a = order(2);
        let enqueue_a = |options: EnqueueOptions| orders.enqueue_with(&order_of_a, options.id("a"));
        let options = EnqueueOptions::new;
        assert_eq!(
            enqueue_a(options()).await.unwrap(),
            Enqueued::Added { id: id.clone() }
        );
        let refused = enqueue_a(options()).await.unwrap();
        assert_eq!(
            refused,
            Enqueued::Refused {
                id: id.clone(),
                status: Status::Queued
            }
        );
        assert!(!refused.is_accepted());
        let updated = enqueue_a(options().update().priority(0)).await.unwrap();
        assert_eq!(updated, Enqueued::Updated { id: id.clone() });

        let mut conn = connection(&url).await;
        let _: redis::Value = redis::cmd("MQ.DEQUEUE")
            .arg(&name)
            .query_async(&mut conn)
            .await
            .unwrap();
        let refused = enqueue_a(options()).await.unwrap();
        assert_eq!(refused.refused_by(), Some(Status::Locked));
        let requeued = enqueue_a(options().requeue()).await.unwrap();
        assert_eq!(requeued, Enqueued::Requeued { id: id.clone() });
        assert_eq!(
            orders.status("a").await.unwrap(),
            Some(Status::LockedWithRequeue)
        );
    }
}

#[tokio::test]
async fn a_message_is_read_back_with_its_options() {
    for url in urls() {
        let orders = queue::<Order>(&url, &fresh_name()).await;
        assert_eq!(orders.get("a").await.unwrap(), None);
        assert_eq!(orders.status("a").await.unwrap(), None);
        assert_eq!(orders.info().await.unwrap(), None);
        let options = with_id("a")
            .delay(S(3_600))
            .lock(S(7))
            .attempts(4)
            .priority(9);
        assert!(orders
            .enqueue_with(&order(1), options)
            .await
            .unwrap()
            .is_accepted());
        let stored = orders.get("a").await.unwrap().unwrap();
        assert_eq!(
            (stored.id.as_str(), stored.status),
            (Some("a"), Status::QueuedWithBackoff)
        );
        assert_eq!((stored.value, stored.requeue), (order(1), None));
        assert_eq!(
            (stored.attempts, stored.max_attempts, stored.priority),
            (0, 4, 9)
        );
        assert_eq!((stored.lock, stored.reason), (Some(S(7)), None));
        let delay = stored
            .due_at
            .unwrap()
            .duration_since(stored.enqueued_at)
            .unwrap();
        assert_eq!(delay, S(3_600));
        let info = orders.info().await.unwrap().unwrap();
        assert_eq!(
            (info.messages, info.queued_with_backoff, info.waiting()),
            (1, 1, 1)
        );
        assert_eq!(info.total_enqueued, 1);
        assert!(
            info.next_due
                .is_some_and(|due| due > S(3_000) && due <= S(3_600)),
            "{info:?}"
        );
    }
}

#[tokio::test]
async fn many_are_enqueued_in_order_and_refused_one_by_one() {
    for url in urls() {
        let orders = queue::<Order>(&url, &fresh_name()).await;
        assert!(orders
            .enqueue_with(&order(7), with_id("id-1234"))
            .await
            .unwrap()
            .is_accepted());
        let values: Vec<_> = (0..2_500).map(order).collect();
        let ids: Vec<_> = (0..2_500).map(|n| format!("id-{n}")).collect();
        let messages = values
            .iter()
            .zip(&ids)
            .map(|(value, id)| (value, with_id(id)));
        let outcomes = orders.enqueue_many(messages).await.unwrap();
        assert_eq!(outcomes.len(), 2_500);
        for (n, outcome) in outcomes.iter().enumerate() {
            let outcome = outcome.as_ref().unwrap();
            assert_eq!(outcome.id(), &ids[n].as_str());
            assert_eq!(outcome.refused_by().is_some(), n == 1_234, "{outcome:?}");
        }
        assert_eq!(orders.info().await.unwrap().unwrap().queued, 2_500);
        assert_eq!(orders.enqueue_many([]).await.unwrap().len(), 0);
    }
}

#[tokio::test]
async fn what_a_limit_refuses_as_a_whole_is_taken_as_far_as_there_is_room() {
    let orders = queue::<Order>(urls()[0].clone(), &fresh_name()).await;
    let limits = LimitChanges::new().length(3);
    orders.set_limits(&limits).await.unwrap();
    let values: Vec<_> = (0..5).map(order).collect();
    let messages = values.iter().map(|value| (value, EnqueueOptions::new()));
    let outcomes = orders.enqueue_many(messages).await.unwrap();
    let taken = outcomes.iter().map(Result::is_ok);
    assert_eq!(taken.collect::<Vec<_>>(), [true, true, true, false, false]);
    assert!(matches!(&outcomes[4], Err(Error::Full(_))), "{outcomes:?}");
}

#[tokio::test]
async fn those_with_other_options_go_in_their_order_with_their_own() {
    let orders = queue::<Order>(urls()[0].clone(), &fresh_name()).await;
    let (a, b) = (order(1), order(2));
    let messages = [
        (&a, with_id("a").priority(1)),
        (&b, with_id("b").priority(2)),
        (&b, EnqueueOptions::new()),
    ];
    let outcomes = orders.enqueue_many(messages).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let stored = orders.get("b").await.unwrap().unwrap();
    assert_eq!((stored.priority, stored.value), (2, b));
}

#[tokio::test]
async fn a_follow_up_waits_for_its_batch_and_tells_how_it_ended() {
    for url in urls() {
        let name = fresh_name();
        let orders = queue::<Order>(&url, &name).await;
        let (member, next) = (order(1), order(2));
        let many = ["a", "b"].map(|id| (&member, Some(MessageId::from(id))));
        let options = EnqueueOptions::new().attempts(1);
        let follow_up = FollowUp::new(&next).id("f").headers("after: all\n");
        let batch = orders
            .enqueue_batch(many.clone(), options.clone(), follow_up.clone())
            .await
            .unwrap();
        assert!(batch.messages.iter().all(Enqueued::is_accepted));
        assert_eq!(batch.follow_up, Enqueued::Added { id: "f".into() });
        // Sent again, it finds all there.
        let batch = orders.enqueue_batch(many, options.clone(), follow_up.clone());
        let batch = batch.await.unwrap();
        assert_eq!(batch.follow_up.refused_by(), Some(Status::Waiting));
        let joins = with_id("c").join("f");
        let joined = orders.enqueue_with(&member, joins).await.unwrap();
        assert!(joined.is_accepted());
        assert_eq!(orders.info().await.unwrap().unwrap().follow_ups, 1);

        let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
        let worker = Worker::builder(redis::Client::open(&*url).unwrap(), &*name)
            .build(move |message: Message<Order>| {
                let told = told.clone();
                async move {
                    if let Some(batch) = message.batch() {
                        let header = message.header("after").map(str::to_owned);
                        let _ = told.send((message.value, header, batch.ended, batch.dead));
                        return Outcome::Success;
                    }
                    match message.id().as_bytes() {
                        b"b" => Outcome::error("no"),
                        _ => Outcome::Success,
                    }
                }
            })
            .unwrap();
        let all = Some("all".to_owned());
        assert_eq!(tells.recv().await, Some((next.clone(), all, 3, 1)));
        assert!(worker.stop(S(10)).await.is_clean());
        assert_eq!(orders.status("f").await.unwrap(), None);

        let none = orders.enqueue_batch([], options.clone(), FollowUp::new(&next));
        assert!(matches!(none.await, Err(Error::InvalidOption { .. })));
        let some = [(&member, None), (&member, Some("x".into()))];
        let some = orders.enqueue_batch(some, options, FollowUp::new(&next));
        assert!(matches!(some.await, Err(Error::InvalidOption { .. })));
    }
}

#[tokio::test]
async fn cancelled_messages_are_gone() {
    let orders = queue::<Order>(urls()[0].clone(), &fresh_name()).await;
    for id in ["a", "b", "c"] {
        assert!(orders
            .enqueue_with(&order(1), with_id(id))
            .await
            .unwrap()
            .is_accepted());
    }
    assert!(orders.cancel("a").await.unwrap());
    assert!(!orders.cancel("a").await.unwrap());
    assert_eq!(orders.cancel_many(["a", "b", "c"]).await.unwrap(), 2);
    assert_eq!(orders.cancel_many(Vec::<String>::new()).await.unwrap(), 0);
    assert_eq!(orders.info().await.unwrap().unwrap().messages, 0);
}

#[tokio::test]
async fn ids_and_payloads_are_any_bytes() {
    let conn = connection(shared_server().url()).await;
    let raw = Queue::<[u8], Raw>::with_codec(conn.clone(), fresh_name(), Raw);
    let id: Vec<u8> = (0..=255).collect();
    let payload: Vec<u8> = (0..=255).rev().collect();
    let added = raw
        .enqueue_with(&payload, EnqueueOptions::new().id(&id[..]))
        .await
        .unwrap();
    assert_eq!(added.id().as_bytes(), id);
    let stored = Queue::<Vec<u8>, Raw>::with_codec(conn, raw.name(), Raw)
        .get(&id[..])
        .await;
    assert_eq!(stored.unwrap().unwrap().value, payload);
}

#[tokio::test]
async fn json_is_readable_by_everyone() {
    let conn = connection(shared_server().url()).await;
    let name = fresh_name();
    let orders = Queue::<Order, Json>::with_codec(conn.clone(), name.clone(), Json);
    let plain = Order {
        number: 1,
        note: None,
    };
    assert!(orders
        .enqueue_with(&plain, with_id("a"))
        .await
        .unwrap()
        .is_accepted());
    let text = Queue::<String, Raw>::with_codec(conn, name, Raw);
    assert_eq!(
        text.get("a").await.unwrap().unwrap().value,
        r#"{"number":1,"note":null}"#
    );
    assert_eq!(orders.get("a").await.unwrap().unwrap().value, plain);
}

#[tokio::test]
async fn the_servers_errors_keep_their_code() {
    let mut conn = connection(shared_server().url()).await;
    let name = fresh_name();
    redis::cmd("SET")
        .arg(&name)
        .arg("text")
        .exec_async(&mut conn)
        .await
        .unwrap();
    let orders = Queue::<Order>::new(conn, name);
    match orders.enqueue(&order(1)).await {
        Err(Error::Redis(error)) => assert_eq!(error.code(), Some("WRONGTYPE")),
        other => panic!("{other:?}"),
    }
    let outcomes = orders
        .enqueue_many([(&order(1), EnqueueOptions::new())])
        .await
        .unwrap();
    assert!(
        matches!(&outcomes[..], [Err(Error::Redis(_))]),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn bad_options_and_payloads_are_errors_before_anything_is_sent() {
    let orders = queue::<Order>(urls()[0].clone(), &fresh_name()).await;
    let outcome = orders
        .enqueue_with(&order(1), EnqueueOptions::new().priority(10))
        .await;
    assert!(
        matches!(
            outcome,
            Err(Error::InvalidOption {
                option: "priority",
                ..
            })
        ),
        "{outcome:?}"
    );
    let two = [(&order(1), EnqueueOptions::new()), (&order(2), with_id(""))];
    assert!(orders.enqueue_many(two).await.is_err());
    assert_eq!(orders.info().await.unwrap(), None);

    let text = queue::<String>(urls()[0].clone(), "of-other-type").await;
    assert!(text
        .enqueue_with(&"text".into(), with_id("a"))
        .await
        .unwrap()
        .is_accepted());
    let wrong = queue::<Order>(urls()[0].clone(), "of-other-type")
        .await
        .get("a")
        .await;
    assert!(matches!(wrong, Err(Error::Decode(_))), "{wrong:?}");
}

#[tokio::test]
async fn a_connection_manager_serves_as_well() {
    let manager = common::client(&urls()[0])
        .get_connection_manager()
        .await
        .unwrap();
    let orders = Queue::<Order>::new(manager, fresh_name());
    assert!(orders
        .clone()
        .enqueue(&order(1))
        .await
        .unwrap()
        .is_accepted());
}

/// A producer that lives for a year sees restarts: calls fail while the server is away, and work
/// again afterwards, on the same queue. It may even be there before the server.
#[tokio::test]
async fn a_producer_outlives_a_restart_of_the_server() {
    let mut server = Server::builder().persistence(Persistence::Rdb).start();
    let client = redis::Client::open(server.url()).unwrap();
    let texts = Queue::<str>::new(connect::reconnecting(&client).unwrap(), fresh_name());
    for round in 0..2 {
        assert!(texts.enqueue("text").await.unwrap().is_accepted());
        server.shutdown(Shutdown::Save);
        let failed = texts.enqueue("text").await.unwrap_err();
        assert!(matches!(&failed, Error::Redis(_)), "{failed}");
        server.start_again();
        let options = || with_id("once");
        eventually("the producer is connected again", async || {
            texts.enqueue_with("text", options()).await.is_ok()
        })
        .await;
        assert_eq!(texts.info().await.unwrap().unwrap().queued, round + 2);
    }
}
