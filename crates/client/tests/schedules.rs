//! Schedules: set again and again, fired, listed and removed, on a real server, in both protocols.

mod common;

use std::time::{Duration, SystemTime};

use common::{fresh_name, queue, quick, shared_server, S};
use redis_mq_client::{
    testing::{TestServer, TestWorker},
    Enqueued, Error, Message, Overlap, Queue, RunOutcome, Schedule, ScheduleChange, ScheduleTimes,
    Status, Worker,
};
use tokio::sync::mpsc;

fn urls() -> [String; 2] {
    [shared_server().url(), shared_server().url_resp3()]
}

fn hourly() -> Schedule {
    Schedule::every(S(3_600))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_comes_to_the_worker_with_the_instant_that_was_meant() {
    for url in urls() {
        let name = fresh_name();
        let texts = queue::<str>(&url, &name).await;
        // Whole milliseconds, as the server has them.
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let first = SystemTime::UNIX_EPOCH + Duration::from_millis(since.as_millis() as u64 + 100);
        let once = hourly().from(first).times(1).header("of", "schedule");
        let set = texts.schedule("tick", "hello", &once).await.unwrap();
        assert_eq!(
            (set.change, set.next),
            (ScheduleChange::Created, Some(first))
        );
        let (tell, mut seen) = mpsc::unbounded_channel();
        let _worker = quick(&url, &name)
            .build(move |message: Message<String>| {
                let of = message.header("of").map(str::to_owned);
                let told = (message.id().to_string(), message.scheduled_at(), of);
                tell.send((told, message.value.clone())).unwrap();
                async {}
            })
            .unwrap();
        let (told, value) = seen.recv().await.unwrap();
        assert_eq!(told, ("tick".into(), Some(first), Some("schedule".into())));
        assert_eq!(value, "hello");
        let again = texts.schedule("tick", "hello", &once).await.unwrap();
        assert_eq!((again.change, again.next), (ScheduleChange::Same, None));
        let listed = &texts.schedules(0, 10).await.unwrap().schedules[0];
        assert_eq!((listed.runs, listed.skipped, listed.most), (1, 0, Some(1)));
        assert_eq!((listed.from, listed.last), (Some(first), Some(first)));
        assert_eq!(listed.last_outcome, Some(RunOutcome::Added));
    }
}

#[tokio::test]
async fn schedules_are_listed_fired_and_removed() {
    for url in urls() {
        let texts = queue::<str>(&url, &fresh_name()).await;
        assert_eq!(texts.schedules(0, 10).await.unwrap(), Default::default());
        assert_eq!(texts.fire("none").await.unwrap(), None);
        let cron = Schedule::cron("30 2 * * MON-FRI")
            .time_zone("Europe/Zurich")
            .overlap(Overlap::After);
        for (name, schedule) in [
            ("a", hourly()),
            ("b", cron),
            ("c", Schedule::cron("@daily")),
        ] {
            let set = texts.schedule(name, "text", &schedule).await.unwrap();
            assert_eq!(set.change, ScheduleChange::Created);
            assert!(set.next > Some(SystemTime::now()));
        }
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(cursor) = next {
            let page = texts.schedules(cursor, 1).await.unwrap();
            all.extend(page.schedules);
            next = page.next;
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].times, Some(ScheduleTimes::Every(S(3_600))));
        assert_eq!(all[0].overlap, Some(Overlap::Skip));
        let expected = ScheduleTimes::Cron {
            expression: "30 2 * * MON-FRI".into(),
            time_zone: Some("Europe/Zurich".into()),
        };
        assert_eq!(all[1].times, Some(expected));
        assert_eq!(all[1].overlap, Some(Overlap::After));
        assert_eq!((all[1].last, all[1].last_outcome), (None, None));
        assert_eq!(texts.info().await.unwrap().unwrap().schedules, 3);

        let fired = texts.fire("a").await.unwrap().unwrap();
        assert!(matches!(fired, Enqueued::Added { .. }), "{fired:?}");
        let fired = texts.fire("a").await.unwrap().unwrap();
        let status = Status::Queued;
        let id = "a".into();
        assert_eq!(fired, Enqueued::Refused { id, status });
        assert_eq!(texts.unschedule(["a", "x"]).await.unwrap(), 1);
        assert_eq!(texts.unschedule([""; 0]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn what_the_code_does_not_know_any_more_is_removed() {
    for url in urls() {
        let texts = queue::<str>(&url, &fresh_name()).await;
        for name in ["old", "kept"] {
            texts.schedule(name, "text", &hourly()).await.unwrap();
        }
        let all = || [("kept", "text", hourly()), ("new", "text", hourly())];
        let synced = texts.sync_schedules(all()).await.unwrap();
        let changes: Vec<_> = synced.set.iter().map(|set| set.change).collect();
        assert_eq!(changes, [ScheduleChange::Same, ScheduleChange::Created]);
        assert_eq!(synced.removed, [b"old"]);
        let again = texts.sync_schedules(all()).await.unwrap();
        assert!(again.removed.is_empty());
        let none: [(&str, &str, Schedule); 0] = [];
        assert_eq!(texts.sync_schedules(none).await.unwrap().removed.len(), 2);
    }
}

#[tokio::test]
async fn what_is_wrong_is_an_error_and_nothing_is_set() {
    let url = shared_server().url();
    let texts = queue::<str>(&url, &fresh_name()).await;
    for schedule in [
        Schedule::cron("every day"),
        Schedule::cron("0 0 30 2 *"),
        Schedule::cron("@daily").time_zone("Mars/Base"),
    ] {
        let error = texts.schedule("a", "", &schedule).await.unwrap_err();
        assert!(matches!(error, Error::Redis(_)), "{error:?}");
    }
    let twice = [("a", "", hourly()), ("a", "", hourly())];
    let wrong = [("a", "", hourly()), ("b", "", hourly().times(0))];
    for schedules in [twice, wrong] {
        let error = texts.sync_schedules(schedules).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
    }
    assert_eq!(texts.info().await.unwrap(), None);
}

#[tokio::test]
async fn in_memory_runs_come_when_the_test_lets_time_pass() {
    let server = TestServer::new();
    let texts = Queue::<str>::new(server.clone(), "q");
    let worker = TestWorker::new(
        Worker::builder(server.clone(), "q"),
        |message: Message<String>| {
            assert!(message.scheduled_at().is_some());
            async {}
        },
    )
    .unwrap();
    texts.schedule("a", "text", &hourly()).await.unwrap();
    let nightly = Schedule::cron("0 3 * * *");
    texts.schedule("nightly", "text", &nightly).await.unwrap();
    assert!(worker.run_until_idle().await.unwrap().is_empty());
    assert_eq!(server.advance_to_next(), Some(S(3_600)));
    assert_eq!(worker.run_until_idle().await.unwrap().len(), 1);
    server.advance(S(24 * 3_600));
    assert_eq!(
        worker.run_until_idle().await.unwrap().len(),
        1,
        "missed runs are one"
    );
    // Expressions are for the module: such a schedule is fired by hand.
    texts.fire("nightly").await.unwrap().unwrap();
    let runs = worker.run_until_idle().await.unwrap();
    assert_eq!(runs[0].id.as_str(), Some("nightly"));
}
