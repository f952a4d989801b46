//! Looking at messages, sending dead letters again, and removing messages, on a real server, in both
//! protocols.

mod common;

use common::{connection, eventually, fresh_name, info, queue, quick, shared_server, S};
use redis_mq_client::{
    redis, EnqueueOptions, Error, Message, MessageId, Outcome, Peek, Queue, Raw, Scan, ScanPage,
    Status,
};

fn urls() -> [String; 2] {
    [shared_server().url(), shared_server().url_resp3()]
}

fn with_id(id: &str) -> EnqueueOptions {
    EnqueueOptions::new().id(id)
}

async fn enqueue(queue: &Queue<str>, id: &str, options: EnqueueOptions) {
    let enqueued = queue.enqueue_with("text", options.id(id)).await.unwrap();
    assert!(enqueued.is_accepted(), "{enqueued:?}");
}

/// Takes one message, as a consumer that never answers.
async fn take(url: &str, name: &str) -> bool {
    let mut conn = connection(url).await;
    let mut command = redis::cmd("MQ.DEQUEUE");
    let taken: redis::Value = command.arg(name).query_async(&mut conn).await.unwrap();
    taken != redis::Value::Nil
}

#[tokio::test]
async fn dead_letters_are_shown_page_by_page_and_one_that_does_not_decode_stops_nobody() {
    for url in urls() {
        let name = fresh_name();
        let numbers = queue::<u32>(&url, &name).await;
        let bytes = queue::<[u8]>(&url, &name).await.codec(Raw);
        let page = numbers.peek(&Peek::new()).await.unwrap();
        assert!(page.is_empty(), "there is no queue");
        for n in 0..5_u32 {
            numbers
                .enqueue_with(&n, with_id(&n.to_string()))
                .await
                .unwrap();
        }
        bytes.enqueue_with(&[0xc1], with_id("bad")).await.unwrap();

        let next = numbers.peek(&Peek::new().count(2)).await.unwrap();
        let ids: Vec<_> = next.iter().map(|message| message.id.to_string()).collect();
        assert_eq!(ids, ["0", "1"]);
        assert_eq!(next[1].value.as_ref().unwrap(), &1);

        let worker = quick(&url, &name).codec(Raw).handlers(1);
        let _worker = worker
            .build(|_: Message<Vec<u8>>| async { Outcome::error("why not") })
            .unwrap();
        eventually("all are dead", async || info(&numbers).await.dead == 6).await;
        let letters = Peek::new().status(Status::Dead).count(4);
        let mut page = numbers.peek(&letters).await.unwrap();
        let mut all = Vec::new();
        while let Some(last) = page.last() {
            let next = letters.clone().after(&last.id);
            all.append(&mut page);
            page = numbers.peek(&next).await.unwrap();
        }
        let ids: Vec<_> = all.iter().map(|letter| letter.id.to_string()).collect();
        assert_eq!(ids, ["0", "1", "2", "3", "4", "bad"]);
        let (bad, good) = all.split_last().unwrap();
        assert!(bad.value.is_err() && good.iter().all(|letter| letter.value.is_ok()));
        assert_eq!(bad.reason.as_deref(), Some(&b"why not"[..]));
        let newest = letters.clone().reverse().count(1);
        assert_eq!(numbers.peek(&newest).await.unwrap()[0].id, "bad");
        let error = numbers
            .peek(&letters.clone().after("none"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no such message"), "{error}");
        let error = numbers.peek(&letters.count(0)).await.unwrap_err();
        assert!(matches!(
            error,
            Error::InvalidOption {
                option: "count",
                ..
            }
        ));
    }
}

#[tokio::test]
async fn all_messages_are_found_by_their_ids() {
    for url in urls() {
        let texts = queue::<str>(&url, &fresh_name()).await;
        assert_eq!(
            texts.scan(0, &Scan::new()).await.unwrap(),
            ScanPage::default()
        );
        for n in 0..250 {
            enqueue(&texts, &format!("order:{n}"), EnqueueOptions::new()).await;
        }
        enqueue(&texts, "later", EnqueueOptions::new().delay(S(3_600))).await;
        let found = async |scan: Scan| {
            let (mut all, mut next) = (Vec::new(), Some(0));
            while let Some(cursor) = next {
                let page = texts.scan(cursor, &scan).await.unwrap();
                all.extend(page.messages);
                next = page.next;
            }
            all.sort_by_key(|(id, _): &(MessageId, Status)| id.clone());
            all.dedup();
            all
        };
        assert_eq!(found(Scan::new().count(10)).await.len(), 251);
        let later = vec![("later".into(), Status::QueuedWithBackoff)];
        assert_eq!(
            found(Scan::new().status(Status::QueuedWithBackoff)).await,
            later
        );
        assert_eq!(found(Scan::new().pattern("order:1?")).await.len(), 10);
        let error = texts.scan(77, &Scan::new()).await.unwrap_err();
        assert!(error.to_string().contains("cursor"), "{error}");
        assert!(texts.scan(0, &Scan::new().count(0)).await.is_err());
        assert!(texts.scan(0, &Scan::new().pattern("")).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_sent_again() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<String>(&url, &name).await;
        assert_eq!(texts.redrive(["a"]).await.unwrap(), 0, "there is no queue");
        let ids = ["count", "a", "b", "c", "d"];
        for id in ids {
            texts
                .enqueue_with(&"text".into(), with_id(id).attempts(1))
                .await
                .unwrap();
        }
        let worker = quick(&url, &name).handlers(1);
        let worker = worker
            .build(|_: Message<String>| async { Outcome::error("why not") })
            .unwrap();
        eventually("all are dead", async || info(&texts).await.dead == 5).await;
        assert!(worker.stop(S(10)).await.is_clean());

        assert_eq!(texts.redrive(["count"]).await.unwrap(), 1);
        assert_eq!(texts.redrive(["none", "b", "count"]).await.unwrap(), 1);
        assert_eq!(texts.redrive(Vec::<MessageId>::new()).await.unwrap(), 0);
        let stored = texts.get("b").await.unwrap().unwrap();
        assert_eq!((stored.status, stored.attempts), (Status::Queued, 0));
        assert_eq!(stored.reason, None);
        assert_eq!(texts.redrive_oldest(2).await.unwrap(), 2);
        assert_eq!(texts.status("d").await.unwrap(), Some(Status::Dead));
        assert_eq!(texts.redrive_oldest(10_000).await.unwrap(), 1);
        assert_eq!(info(&texts).await.queued, 5);
        assert!(texts.redrive_oldest(0).await.is_err());
    }
}

#[tokio::test]
async fn messages_are_removed_by_their_status() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<str>(&url, &name).await;
        assert_eq!(
            texts.purge_all(1_000).await.unwrap(),
            0,
            "there is no queue"
        );
        for n in 0..5 {
            enqueue(&texts, &n.to_string(), EnqueueOptions::new()).await;
            let later = EnqueueOptions::new().delay(S(3_600));
            enqueue(&texts, &format!("later-{n}"), later).await;
        }
        assert!(take(&url, &name).await);
        assert_eq!(texts.purge(Status::Queued, 3).await.unwrap(), 3);
        assert_eq!(texts.status("4").await.unwrap(), Some(Status::Queued));
        assert_eq!(texts.purge_all(100_000).await.unwrap(), 6);
        let left = info(&texts).await;
        assert_eq!((left.messages, left.locked), (1, 1));
        assert_eq!(texts.purge(Status::Locked, 1).await.unwrap(), 1);
        assert_eq!(texts.purge_all(1).await.unwrap(), 0);
        assert!(texts.purge_all(0).await.is_err());
    }
}
