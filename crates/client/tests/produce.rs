//! Producing and asking, on a real server, in both protocols.

mod common;

use common::{connection, eventually, fresh_name, queue, shared_server, S};
use redis_mq_client::{
    codec::Json, connect, redis, EnqueueOptions, Enqueued, Error, MessageId, Queue, Raw, Status,
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
