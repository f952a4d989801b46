//! The feature `testing`: a server in memory is like a real one, and a test decides when what
//! happens.

mod common;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{connection, eventually, fresh_name, shared_server, MS, S};
use redis_mq_client::{
    redis::{self, aio::ConnectionLike},
    testing::{self, Run, TestServer, TestWorker},
    Connect, EndOfQueue, EnqueueOptions, Enqueued, Error, FollowUp, GroupSelection, LimitChanges,
    Message, Outcome, Peek, Queue, Rate, RetryPolicy, Scan, Schedule, Status, Worker,
};

fn with_id(id: &str) -> EnqueueOptions {
    EnqueueOptions::new().id(id)
}

/// Does what its message says.
async fn obey(message: Message<String>) -> Result<Outcome, std::io::Error> {
    let text = message.value.as_str();
    let (order, more) = text.split_once(' ').unwrap_or((text, ""));
    match (order, message.attempt()) {
        ("fail", _) => Err(std::io::Error::other(more.to_owned())),
        ("fail-once", 1) => Ok(Outcome::RetryNow),
        ("keep", _) => Ok(Outcome::SuccessFor(S(3_600))),
        ("bury", _) => Ok(Outcome::error(more)),
        ("panic", _) => panic!("{more}"),
        _ => Ok(Outcome::Success),
    }
}

/// All that can be told of a story, on whatever server.
async fn tell<S>(server: S, source: impl Connect, name: &str) -> String
where
    S: ConnectionLike + Clone + Send + Sync + 'static,
{
    let queue = Queue::<String>::new(server, name);
    let worker = TestWorker::new(
        Worker::builder(source, name)
            .attempts(3)
            .retry_policy(RetryPolicy::fixed(Duration::ZERO)),
        obey,
    )
    .unwrap();
    let (member, next) = ("fine".to_owned(), "next".to_owned());
    let mut story = Vec::new();
    let limits = LimitChanges::new()
        .length(12)
        .burst(2)
        .rate(Rate::new(1_000_000, MS(1)));
    queue.set_limits(&limits).await.unwrap();
    let several = LimitChanges::new().in_flight(None);
    queue
        .set_group_limits(GroupSelection::Each, &several)
        .await
        .unwrap();
    story.push(format!("{:?}", queue.limits().await));
    story.push(format!(
        "{:?}",
        queue.group_limits(GroupSelection::Each).await
    ));
    // Which of two deliveries a rate lets go is a matter of clocks.
    let no_rate = LimitChanges::new().rate(None);
    queue.set_limits(&no_rate).await.unwrap();
    for (id, text) in [
        ("a", "fine"),
        ("b", "fail no route"),
        ("c", "fail-once"),
        ("d", "keep"),
        ("e", "bury me"),
        ("f", "panic now"),
        ("a", "again"),
    ] {
        let options = with_id(id).header("for", id).priority(4).group("g");
        story.push(format!(
            "{:?}",
            queue.enqueue_with(&text.to_owned(), options).await
        ));
    }
    let own = with_id("own").attempts(5);
    story.push(format!(
        "{:?}",
        queue.enqueue_with(&"fail own".to_owned(), own).await
    ));
    let later = with_id("later")
        .delay(S(3_600))
        .ttl_bury(S(7_200))
        .lock(S(5));
    story.push(format!(
        "{:?}",
        queue.enqueue_with(&"later".to_owned(), later).await
    ));
    let update = with_id("later").update().priority(9);
    story.push(format!(
        "{:?}",
        queue.enqueue_with(&"sooner".to_owned(), update).await
    ));
    for run in worker.run_until_idle().await.unwrap() {
        story.push(format!("{run:?}"));
    }
    for id in ["a", "b", "c", "d", "e", "f", "own", "later", "none"] {
        let mut stored = queue.get(id).await.unwrap();
        if let Some(stored) = &mut stored {
            // Clocks differ.
            let start = std::mem::replace(&mut stored.enqueued_at, std::time::UNIX_EPOCH);
            let due = stored.due_at.take();
            let until = stored.expires_at.take();
            // The window of a success begins with its verdict.
            let since =
                |at: std::time::SystemTime| at.duration_since(start).unwrap().as_secs() / 60;
            story.push(format!("{:?} {:?}", due.map(since), until.map(since)));
        }
        story.push(format!("{id}: {:?} {stored:?}", queue.status(id).await));
    }
    queue
        .enqueue_with(&"copy".into(), with_id("d").requeue())
        .await
        .unwrap();
    story.push(format!("{:?}", queue.status("d").await));
    story.push(format!("{:?}", queue.cancel_many(["d", "e", "none"]).await));
    let mut info = queue.info().await.unwrap().unwrap();
    info.next_due = None;
    info.oldest_queued = None;
    story.push(format!("{info:?}"));
    queue.pause().await.unwrap();
    story.push(format!(
        "{:?} {:?}",
        queue.resume().await,
        queue.resume().await
    ));
    let page = queue.groups(0, 100).await.unwrap();
    story.push(format!("{page:?}"));
    let one = queue
        .enqueue_with(&"".into(), EnqueueOptions::new().group("g2").id("held"))
        .await;
    story.push(format!("{one:?}"));
    for peek in [
        Peek::new(),
        Peek::new().status(Status::Dead).count(2).reverse(),
    ] {
        let page = queue.peek(&peek).await.unwrap();
        let shown = page
            .iter()
            .map(|it| (&it.id, it.status, it.attempts, it.value.as_ref().ok()));
        story.push(format!("{:?}", shown.collect::<Vec<_>>()));
    }
    let found = queue.scan(0, &Scan::new()).await.unwrap();
    story.push(format!("{found:?}"));
    let found = queue
        .scan(0, &Scan::new().status(Status::Dead))
        .await
        .unwrap();
    story.push(format!("{found:?}"));
    story.push(format!(
        "{:?} {:?}",
        queue.redrive(["b", "a"]).await,
        queue.redrive_oldest(1).await
    ));
    for text in ["one", "one", "two"] {
        let hourly = Schedule::every(S(3_600)).priority(0);
        let set = queue.schedule("tick", &text.to_owned(), &hourly).await;
        story.push(format!("{:?}", set.map(|set| set.change)));
    }
    for name in ["tick", "tick", "tock"] {
        story.push(format!("{:?}", queue.fire(name).await));
    }
    story.push(format!("{:?}", worker.run_one().await));
    let page = queue.schedules(0, 10).await.unwrap();
    let mut schedule = page.schedules[0].clone();
    schedule.next = None; // clocks differ
    story.push(format!("{schedule:?} {:?}", page.next));
    story.push(format!("{:?}", queue.unschedule(["tick", "tock"]).await));
    queue.pause_group("g2").await.unwrap();
    let page = queue.groups(0, 100).await.unwrap();
    let states = page.groups.iter().map(|group| (&group.name, group.state));
    story.push(format!("{:?}", states.collect::<Vec<_>>()));
    story.push(format!("{:?}", worker.run_one().await));
    story.push(format!("{:?}", queue.purge(Status::Dead, 1).await));
    let members = ["m1", "m2", "m1"].map(|id| (&member, Some(id.into())));
    let follow_up = FollowUp::new(&next).id("f").headers("after: all\n");
    let batch = queue.enqueue_batch(members, EnqueueOptions::new().priority(0), follow_up);
    story.push(format!("{:?}", batch.await));
    let joins = with_id("m3").priority(0).join("f");
    story.push(format!("{:?}", queue.enqueue_with(&member, joins).await));
    let nobody = EnqueueOptions::new().join("nobody");
    story.push(format!(
        "{:?}",
        queue.enqueue_with(&member, nobody).await.is_err()
    ));
    let info = queue.info().await.unwrap().unwrap();
    story.push(format!(
        "{:?} {:?}",
        info.follow_ups,
        queue.cancel_many(["m1", "m3"]).await
    ));
    story.push(format!("{:?}", worker.run_one().await));
    let follows = queue.get("f").await.unwrap().unwrap();
    story.push(format!("{:?} {:?}", follows.status, follows.batch));
    story.push(format!(
        "{:?} {:?}",
        queue.purge_all(1_000).await,
        queue.purge_all(1_000).await
    ));
    story.join("\n")
}

#[tokio::test]
async fn the_server_in_memory_tells_the_same_story_as_a_real_one() {
    let memory = TestServer::new();
    let in_memory = tell(memory.clone(), memory, "q").await;
    for url in [shared_server().url(), shared_server().url_resp3()] {
        let name = fresh_name();
        let client = redis::Client::open(url.as_str()).unwrap();
        let real = tell(connection(&url).await, client, &name).await;
        assert_eq!(in_memory, real);
    }
    assert!(
        in_memory.contains("no attempts left: no route"),
        "{in_memory}"
    );
    assert!(in_memory.contains("panic: now"), "{in_memory}");
}

fn ids(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.id.as_str().unwrap()).collect()
}

#[tokio::test]
async fn time_passes_when_the_test_says_so() {
    let server = TestServer::new();
    let texts = Queue::<str>::new(server.clone(), "q");
    let worker = TestWorker::new(Worker::builder(server.clone(), "q"), obey).unwrap();
    assert_eq!(server.advance_to_next(), None);
    let start = server.now();
    for (id, delay) in [("hour", S(3_600)), ("second", S(1)), ("now", S(0))] {
        texts
            .enqueue_with("", with_id(id).delay(delay))
            .await
            .unwrap();
    }
    texts
        .enqueue_with("", with_id("short").delay(S(2)).ttl(S(3)))
        .await
        .unwrap();
    assert_eq!(ids(&worker.run_until_idle().await.unwrap()), ["now"]);
    assert_eq!(server.advance_to_next(), Some(S(1)));
    assert_eq!(ids(&worker.run_until_idle().await.unwrap()), ["second"]);
    server.advance(S(3));
    assert_eq!(
        texts.status("short").await.unwrap(),
        None,
        "nobody took it in time"
    );
    assert!(worker.run_until_idle().await.unwrap().is_empty());
    assert_eq!(server.advance_to_next(), Some(S(3_596)));
    assert_eq!(ids(&worker.run_until_idle().await.unwrap()), ["hour"]);
    assert_eq!(server.now(), start + S(3_600));
    assert_eq!(server.advance_to_next(), None);
}

#[tokio::test]
async fn every_run_of_a_test_is_the_same() {
    let mut stories = Vec::new();
    for _ in 0..2 {
        let server = TestServer::new();
        let texts = Queue::<String>::new(server.clone(), "q");
        let worker = TestWorker::new(Worker::builder(server.clone(), "q").attempts(6), obey);
        let worker = worker.unwrap();
        let id = match texts.enqueue(&"fail".into()).await.unwrap() {
            Enqueued::Added { id } => id,
            other => panic!("{other:?}"),
        };
        let mut pauses = Vec::new();
        loop {
            let runs = worker.run_until_idle().await.unwrap();
            assert_eq!(runs.len(), 1);
            if runs[0].status == Some(Status::Dead) {
                assert_eq!((runs[0].attempt, runs[0].counted), (6, true));
                break;
            }
            pauses.push(server.advance_to_next().unwrap());
        }
        assert!(pauses.is_sorted(), "they grow: {pauses:?}");
        stories.push((id, pauses));
    }
    assert_eq!(stories[0], stories[1]);
}

#[tokio::test]
async fn a_message_that_is_cancelled_meanwhile_is_told_to_be() {
    let server = TestServer::new();
    let texts = Queue::<str>::new(server.clone(), "q");
    texts.enqueue_with("", with_id("a")).await.unwrap();
    let worker = TestWorker::new(
        Worker::builder(server, "q"),
        move |message: Message<String>| {
            let texts = texts.clone();
            async move { assert!(texts.cancel(message.id()).await.unwrap()) }
        },
    );
    let run = worker.unwrap().run_one().await.unwrap().unwrap();
    assert_eq!(
        (run.outcome, run.status, run.counted),
        (Outcome::Success, None, false)
    );
}

#[tokio::test]
async fn a_message_is_made_with_all_that_a_handler_may_ask() {
    let at = std::time::UNIX_EPOCH + S(5);
    let message = testing::message(7_u32)
        .id("a")
        .queue("q")
        .attempt(3)
        .token(9)
        .lock(S(4))
        .enqueued_at(at)
        .headers("tenant: b\n")
        .group("g")
        .build();
    assert_eq!(
        (message.value, message.attempt(), message.token()),
        (7, 3, 9)
    );
    assert_eq!(
        (message.id().as_str(), message.queue()),
        (Some("a"), &b"q"[..])
    );
    assert_eq!((message.lock(), message.enqueued_at()), (S(4), at));
    assert_eq!(
        (message.header("tenant"), message.group()),
        (Some("b"), Some(&b"g"[..]))
    );
    let cancellation = message.cancellation();
    assert!(!message.is_cancelled());
    testing::cancel(&cancellation);
    assert!(message.is_cancelled());
    let plain = testing::message("x").build();
    assert_eq!(
        (plain.attempt(), plain.headers(), plain.group()),
        (1, None, None)
    );
}

#[tokio::test]
async fn what_a_server_in_memory_refuses_it_refuses_as_a_server_does() {
    let mut server = TestServer::new();
    let unknown = redis::cmd("SET")
        .arg("a")
        .arg("b")
        .exec_async(&mut server)
        .await;
    assert!(unknown.unwrap_err().to_string().contains("unknown command"));
    let mut bad = redis::cmd("MQ.ENQUEUE");
    bad.arg("q").arg("p").arg("WHAT");
    let bad = bad.exec_async(&mut server).await;
    assert!(bad.unwrap_err().to_string().contains("syntax error"));
    let texts = Queue::<str>::new(server.clone(), "q");
    texts
        .set_limits(&LimitChanges::new().length(1))
        .await
        .unwrap();
    texts.enqueue("").await.unwrap();
    assert!(matches!(texts.enqueue("").await, Err(Error::Full(_))));
    assert!(format!("{server:?}").contains("q"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_worker_works_on_a_server_in_memory() {
    let server = TestServer::new();
    let texts = Queue::<String>::new(server.clone(), "q");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker = Worker::builder(server, "q")
        .end_of_queue(EndOfQueue::Block(MS(20)))
        .build({
            let seen = seen.clone();
            move |message: Message<String>| {
                seen.lock().unwrap().push(message.into_value());
                async {}
            }
        })
        .unwrap();
    for n in 0..20 {
        texts.enqueue(&n.to_string()).await.unwrap();
    }
    eventually("all are done", async || worker.stats().finished == 20).await;
    assert_eq!(seen.lock().unwrap().len(), 20);
    assert!(worker.stop(S(10)).await.is_clean());
}
