//! Groups, headers, times to live, limits and pauses, on a real server, in both protocols.

mod common;

use std::time::{Duration, SystemTime};

use common::{
    all_done, connection, eventually, fresh_name, info, queue, quick, shared_server, MS, S,
};
use redis_mq_client::{
    redis, EnqueueOptions, Error, Event, GroupSelection, GroupState, Headers, InFlight,
    LimitChanges, LimitedBy, Message, Outcome, Queue, Rate, Status,
};
use tokio::sync::mpsc;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_and_group_come_with_the_delivery_and_are_shown_before() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<str>(&url, &name).await;
        let headers = Headers::from(vec![0xff, 0, b'\n']).with("tenant", "ä: b");
        let options = EnqueueOptions::new().group([0, 0xfe]).headers(&headers);
        enqueue(&texts, "all", options).await;
        enqueue(&texts, "group", EnqueueOptions::new().group("g")).await;
        enqueue(&texts, "none", EnqueueOptions::new()).await;

        let texts = queue::<String>(&url, &name).await;
        let stored = texts.get("all").await.unwrap().unwrap();
        assert_eq!(stored.headers.as_ref(), Some(&headers));
        assert_eq!(stored.group.as_deref(), Some(&[0, 0xfe][..]));
        let stored = texts.get("none").await.unwrap().unwrap();
        assert_eq!((stored.headers, stored.group), (None, None));

        let (tell, mut seen) = mpsc::unbounded_channel();
        let _worker = quick(&url, &name)
            .handlers(3)
            .build(move |message: Message<String>| {
                let told = (
                    message.id().to_string(),
                    message.headers().cloned(),
                    message.header("tenant").map(str::to_owned),
                    message.group().map(<[u8]>::to_vec),
                );
                tell.send(told).unwrap();
                async {}
            })
            .unwrap();
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(seen.recv().await.unwrap());
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let tenant = Some("ä: b".to_owned());
        assert_eq!(
            all,
            [
                ("all".into(), Some(headers), tenant, Some(vec![0, 0xfe])),
                ("group".into(), None, None, Some(b"g".to_vec())),
                ("none".into(), None, None, None),
            ]
        );
        all_done(&texts, 3).await;
    }
}

#[tokio::test]
async fn limits_are_set_shown_and_taken_away() {
    for url in urls() {
        let texts = queue::<str>(&url, &fresh_name()).await;
        assert_eq!(texts.limits().await.unwrap(), None);
        assert_eq!(texts.group_limits("g").await.unwrap(), None);
        let rate = Rate::new(5, S(1));
        let all = LimitChanges::new()
            .length(10)
            .bytes(1 << 20)
            .in_flight(3)
            .rate(rate)
            .burst(2)
            .dead(7)
            .attempts(4);
        texts.set_limits(&all).await.unwrap();
        let limits = texts.limits().await.unwrap().unwrap();
        assert_eq!((limits.length, limits.bytes), (Some(10), Some(1 << 20)));
        assert_eq!((limits.in_flight, limits.rate), (Some(3), Some(rate)));
        assert_eq!((limits.burst, limits.dead), (Some(2), Some(7)));
        assert_eq!(limits.attempts, Some(4));
        let fewer = LimitChanges::new().in_flight(None).rate(None).length(11);
        texts.set_limits(&fewer).await.unwrap();
        let limits = texts.limits().await.unwrap().unwrap();
        assert_eq!((limits.in_flight, limits.rate), (None, None));
        assert_eq!((limits.length, limits.dead), (Some(11), Some(7)));

        let each = LimitChanges::new().in_flight(2).length(100);
        texts
            .set_group_limits(GroupSelection::Each, &each)
            .await
            .unwrap();
        let one = LimitChanges::new().in_flight(None).rate(rate);
        texts
            .set_group_limits(GroupSelection::Each, &one)
            .await
            .unwrap();
        let limits = texts
            .group_limits(GroupSelection::Each)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(limits.in_flight, Some(InFlight::Unlimited));
        assert_eq!((limits.length, limits.rate), (Some(100), Some(rate)));
        let own = LimitChanges::new().in_flight(9);
        texts.set_group_limits("vip", &own).await.unwrap();
        let limits = texts.group_limits("vip").await.unwrap().unwrap();
        assert_eq!(limits.in_flight, Some(InFlight::AtMost(9)));

        let error = texts.set_limits(&LimitChanges::new()).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        let error = texts.set_group_limits("", &own).await.unwrap_err();
        let Error::InvalidOption { option, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(option, "group");
    }
}

#[tokio::test]
async fn a_full_queue_has_an_error_of_its_own() {
    for url in urls() {
        let texts = queue::<str>(&url, &fresh_name()).await;
        texts
            .set_limits(&LimitChanges::new().length(1))
            .await
            .unwrap();
        let one = texts.enqueue("a").await.unwrap();
        assert!(one.is_accepted());
        let error = texts.enqueue("b").await.unwrap_err();
        assert!(matches!(error, Error::Full(_)), "{error:?}");
        assert!(error.to_string().contains("LENGTH"), "{error}");
        let many = [("c", EnqueueOptions::new()), ("d", EnqueueOptions::new())];
        for outcome in texts.enqueue_many(many).await.unwrap() {
            assert!(matches!(outcome, Err(Error::Full(_))), "{outcome:?}");
        }
        // The two of the batch were refused together, and then one by one.
        assert_eq!(info(&texts).await.total_full, 1 + 2 + 2);
    }
}

#[tokio::test]
async fn the_queue_tells_what_keeps_its_messages() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<str>(&url, &name).await;
        for id in ["a1", "a2"] {
            enqueue(&texts, id, EnqueueOptions::new().group("a")).await;
        }
        assert!(take(&url, &name).await && !take(&url, &name).await);
        let state = info(&texts).await;
        assert_eq!((state.held, state.groups, state.limited), (1, 1, None));

        enqueue(&texts, "b", EnqueueOptions::new()).await;
        texts
            .set_limits(&LimitChanges::new().in_flight(1))
            .await
            .unwrap();
        let state = info(&texts).await;
        assert_eq!(state.limited, Some(LimitedBy::Inflight));
        assert_eq!(state.limit_free, None);

        let hourly = LimitChanges::new()
            .in_flight(None)
            .rate(Rate::new(1, S(3_600)));
        texts.set_limits(&hourly).await.unwrap();
        enqueue(&texts, "c", EnqueueOptions::new()).await;
        assert!(take(&url, &name).await);
        let state = info(&texts).await;
        assert_eq!(state.limited, Some(LimitedBy::Rate));
        let free = state.limit_free.unwrap();
        // In whole milliseconds, so that a millisecond more may be shown.
        assert!(free > S(3_000) && free <= S(3_600) + MS(1), "{free:?}");
    }
}

#[tokio::test]
async fn pauses_last_until_they_end_or_are_resumed() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<str>(&url, &name).await;
        enqueue(&texts, "a", EnqueueOptions::new()).await;
        let until = texts.pause_for(S(3_600)).await.unwrap().unwrap();
        let paused = info(&texts).await;
        assert_eq!((paused.paused, paused.paused_until), (true, Some(until)));
        assert!(until > SystemTime::now() + S(3_000));
        texts.pause().await.unwrap();
        assert_eq!(
            texts.pause_for(S(1)).await.unwrap(),
            None,
            "it lasts longer"
        );
        assert_eq!(info(&texts).await.paused_until, None);
        assert!(!take(&url, &name).await);
        assert!(texts.resume().await.unwrap());
        assert!(!texts.resume().await.unwrap());
        assert!(take(&url, &name).await);

        enqueue(&texts, "b", EnqueueOptions::new().group("g")).await;
        texts.pause_group("g").await.unwrap();
        assert!(!info(&texts).await.paused);
        assert!(!take(&url, &name).await);
        assert!(texts.resume_group("g").await.unwrap());
        assert!(texts
            .pause_group_for("g", S(3_600))
            .await
            .unwrap()
            .is_some());
        assert!(texts.resume_group("g").await.unwrap());
        assert!(take(&url, &name).await);
        let error = texts.pause_for(Duration::ZERO).await.unwrap_err();
        assert!(matches!(
            error,
            Error::InvalidOption {
                option: "pause",
                ..
            }
        ));
    }
}

#[tokio::test]
async fn all_groups_are_listed_page_by_page() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<str>(&url, &name).await;
        assert!(texts.groups(0, 10).await.unwrap().groups.is_empty());
        for n in 0..40 {
            let group = EnqueueOptions::new().group(format!("g{n}"));
            enqueue(&texts, &format!("{n}-first"), group.clone()).await;
            enqueue(&texts, &format!("{n}-second"), group).await;
        }
        assert!(take(&url, &name).await);
        texts.pause_group_for("g7", S(3_600)).await.unwrap();
        let (mut all, mut next) = (Vec::new(), Some(0));
        let mut pages = 0;
        while let Some(cursor) = next {
            let page = texts.groups(cursor, 10).await.unwrap();
            all.extend(page.groups);
            next = page.next;
            pages += 1;
        }
        assert!(pages > 3, "{pages} pages");
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup();
        assert_eq!(all.len(), 40);
        let find = |name: &str| {
            all.iter()
                .find(|group| group.name == name.as_bytes())
                .unwrap()
        };
        let busy = find("g0");
        assert_eq!((busy.waiting, busy.in_flight), (1, 1));
        assert_eq!((busy.state, busy.until), (Some(GroupState::Busy), None));
        assert!(busy.oldest.is_some());
        let paused = find("g7");
        assert_eq!(paused.state, Some(GroupState::Paused));
        assert!(paused.until.unwrap() > SystemTime::now() + S(3_000));
        assert_eq!(find("g8").state, Some(GroupState::Ready));
        assert_eq!((busy.open, paused.open), (Some(2), Some(2)));
        assert!(texts.groups(0, 0).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_longer_than_its_time_to_live_goes_or_is_buried() {
    for url in urls() {
        let texts = queue::<String>(&url, &fresh_name()).await;
        let text = "text".to_owned();
        let options = with_id("long").ttl(S(3_600));
        texts.enqueue_with(&text, options).await.unwrap();
        let stored = texts.get("long").await.unwrap().unwrap();
        let left = stored
            .expires_at
            .unwrap()
            .duration_since(stored.enqueued_at);
        assert_eq!(left.unwrap(), S(3_600));
        texts
            .enqueue_with(&text, with_id("gone").ttl(MS(1)))
            .await
            .unwrap();
        let buried = with_id("buried").ttl_bury(MS(1));
        texts.enqueue_with(&text, buried).await.unwrap();
        eventually("both have ended", async || info(&texts).await.queued == 1).await;
        assert_eq!(texts.status("gone").await.unwrap(), None);
        let letter = texts.get("buried").await.unwrap().unwrap();
        assert_eq!(letter.status, Status::Dead);
        assert_eq!(letter.reason.as_deref(), Some(&b"expired"[..]));
        assert!(info(&texts).await.total_expired >= 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_after_the_time_to_live_is_told_as_what_it_is() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<String>(&url, &name).await;
        let worker = quick(&url, &name)
            .build(|message: Message<String>| async move {
                // The time has ended when the verdict comes.
                let ms: u64 = message.value.parse().unwrap();
                tokio::time::sleep(MS(ms + 1)).await;
                Outcome::RetryNow
            })
            .unwrap();
        let mut events = worker.events();
        // Until the worker takes one in time; refused while one is there.
        let ms = "1000".to_owned();
        let both = [with_id("gone").ttl(S(1)), with_id("buried").ttl_bury(S(1))];
        for (taken, options) in (1..).zip(both) {
            eventually("it is taken", async || {
                texts.enqueue_with(&ms, options.clone()).await.unwrap();
                worker.stats().taken == taken
            })
            .await;
        }
        let (mut expired, mut dead) = (None, None);
        while expired.is_none() || dead.is_none() {
            match events.recv().await.unwrap() {
                Event::Expired { id, attempt: 1 } => expired = Some(id),
                Event::Dead { id, attempt: 1 } => dead = Some(id),
                Event::Retried { id, .. } => panic!("{id} is retried"),
                _ => {}
            }
        }
        assert_eq!(expired.unwrap(), "gone");
        assert_eq!(dead.unwrap(), "buried");
        let stats = worker.stats();
        assert_eq!((stats.expired, stats.dead, stats.retried), (1, 1, 0));
    }
}
