//! The worker against a scripted server, in time that is not real.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{sleep, timeout, Instant},
};

use super::{
    fake::{delivery, in_turn, Fake},
    run::{self, core::Core},
    Worker,
};
use crate::{test_support::Log, Message, Outcome, Raw, Start, WorkerBuilder};

const MS: fn(u64) -> Duration = Duration::from_millis;
const S: fn(u64) -> Duration = Duration::from_secs;
const NIL: &str = "*-1\r\n";

fn builder(fake: &Fake) -> WorkerBuilder<Raw> {
    Worker::builder(fake.clone(), "q")
        .codec(Raw)
        .start(Start::Manual)
}

/// Runs the worker on this runtime, whose time is not real, for that long.
async fn run_for(worker: &Worker, time: Duration) {
    let core = Arc::new(Core::new(Arc::clone(&worker.spec), None));
    let mut slots = JoinSet::new();
    for _ in 0..worker.spec.settings.handlers {
        let runner = Arc::clone(&worker.runner);
        slots.spawn(runner.slot(Arc::clone(&core)));
    }
    let engine = tokio::spawn(run::run(Arc::clone(&core), Duration::ZERO, slots));
    sleep(time).await;
    core.begin_to_stop(Instant::now() + S(1));
    timeout(S(60), engine)
        .await
        .expect("the engine ends")
        .expect("the engine does not panic");
}

/// A script: nothing to take after the given replies, and everything else by `others`.
fn server(
    deliveries: &[&str],
    others: impl Fn(&[String]) -> String + Send + Sync + 'static,
) -> Fake {
    let dequeue = in_turn(&[deliveries, &[NIL]].concat());
    Fake::new(move |words| match words[0].as_str() {
        "MQ.DEQUEUE" => dequeue(),
        _ => others(words),
    })
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_does_not_wait_does_not_make_a_worker_spin() {
    let fake = server(&[], |_| NIL.into());
    let worker = builder(&fake).build(|_: Message<String>| async {}).unwrap();
    run_for(&worker, S(60)).await;
    // Pauses from 10 ms to the 5 s of the wait: nine while they grow, then every 2.5 to 5 s.
    let polls = fake.seen("MQ.DEQUEUE").len();
    assert!((12..60).contains(&polls), "{polls} polls in a minute");
    assert_eq!(worker.stats().outages, 0);
}

#[tokio::test(start_paused = true)]
async fn the_first_poll_does_not_wait_and_later_ones_do() {
    let fake = server(&[], |_| NIL.into());
    let worker = builder(&fake)
        .handlers(3)
        .build(|_: Message<String>| async {})
        .unwrap();
    run_for(&worker, S(1)).await;
    let polls = fake.seen("MQ.DEQUEUE");
    assert_eq!(
        polls[0].1,
        ["MQ.DEQUEUE", "q", "COUNT", "3", "LOCK", "30000"]
    );
    let waits = [
        "MQ.DEQUEUE",
        "q",
        "COUNT",
        "3",
        "LOCK",
        "30000",
        "BLOCK",
        "5000",
    ];
    assert_eq!(polls[1].1, waits);
}

#[tokio::test(start_paused = true)]
async fn whatever_the_server_says_it_is_tried_again_with_growing_pauses() {
    for error in [
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-UNBLOCKED force unblock from blocking operation\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-ASK 1 127.0.0.1:1\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-NOPERM no permissions\r\n",
        "-WRONGTYPE another type\r\n",
        "-ERR unknown command 'MQ.DEQUEUE'\r\n",
        "-BUSY a script is running\r\n",
        "-SOMETHING new\r\n",
        "+what\r\n",
        "*1\r\n:7\r\n",
    ] {
        let fake = Fake::new(move |_| error.into());
        let worker = builder(&fake).build(|_: Message<String>| async {}).unwrap();
        run_for(&worker, S(60)).await;
        let connects = fake.connects();
        // 100 ms, doubling to 5 s, each at least by half: six while they grow, then 10 to 24.
        assert!((14..34).contains(&connects.len()), "{error}: {connects:?}");
        assert_eq!(worker.stats().outages, 1, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_extended_after_each_third_and_never_after_the_answer() {
    let fake = server(&[&delivery("a", 7, 3_000)], |words| {
        match words[0].as_str() {
            "MQ.EXTEND" => ":1\r\n".into(),
            _ => "+done\r\n".into(),
        }
    });
    let worker = builder(&fake)
        .build(|message: Message<String>| async move {
            sleep(MS(10_500)).await;
            assert!(!message.is_cancelled());
        })
        .unwrap();
    run_for(&worker, S(30)).await;
    let extensions = fake.seen("MQ.EXTEND");
    assert!(extensions
        .iter()
        .all(|(_, words)| *words == ["MQ.EXTEND", "q", "a", "7", "3000"]));
    let times: Vec<_> = extensions.iter().map(|(time, _)| *time).collect();
    assert_eq!(times.len(), 10, "{times:?}");
    for (n, time) in (1..).zip(times) {
        assert!((n * 1_000..n * 1_000 + 100).contains(&time), "{n}: {time}");
    }
    let done = fake.seen("MQ.DONE");
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].1, ["MQ.DONE", "q", "a", "7"]);
    assert_eq!((worker.stats().finished, worker.stats().lost_locks), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_somebody_else_has_cancels_the_handler_at_once_and_is_not_reported() {
    let fake = server(&[&delivery("a", 7, 3_000)], |words| {
        match words[0].as_str() {
            "MQ.EXTEND" => "-STALE the token is not the newest\r\n".into(),
            _ => "+done\r\n".into(),
        }
    });
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let start = tokio::time::Instant::now();
    let worker = builder(&fake)
        .build(move |message: Message<String>| {
            let tell = tell.clone();
            async move {
                message.cancelled().await;
                tell.send(start.elapsed()).unwrap();
                Outcome::Success
            }
        })
        .unwrap();
    run_for(&worker, S(30)).await;
    let after = told.recv().await.unwrap();
    assert!(after >= S(1) && after < MS(1_100), "{after:?}");
    assert!(fake.seen("MQ.DONE").is_empty());
    assert_eq!(fake.seen("MQ.EXTEND").len(), 1);
    assert_eq!((worker.stats().finished, worker.stats().lost_locks), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_learns_within_two_seconds_that_its_message_was_cancelled() {
    let replies = in_turn(&[":1\r\n", ":1\r\n", NIL]);
    let fake = server(&[&delivery("a", 7, 30_000)], move |_| replies());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let start = tokio::time::Instant::now();
    let worker = builder(&fake)
        .build(move |message: Message<String>| {
            let tell = tell.clone();
            async move {
                message.cancelled().await;
                tell.send(start.elapsed()).unwrap();
            }
        })
        .unwrap();
    run_for(&worker, S(30)).await;
    let (confirmed, told) = (S(3), told.recv().await.unwrap());
    assert!(
        told > confirmed && told <= confirmed + S(2),
        "last confirmed after {confirmed:?}, told after {told:?}"
    );
    assert_eq!(fake.seen("MQ.EXTEND").len(), 3);
}

/// An ACL without MQ.EXTEND: answers go on over the same connection, and the log is told once.
#[tokio::test(start_paused = true)]
async fn extensions_that_are_refused_cost_no_connection() {
    let log = Log::default();
    let _logged = log.listen();
    for refusal in ["-NOPERM no permissions\r\n", "-WRONGTYPE\r\n"] {
        let deliveries = [delivery("a", 7, 30_000), delivery("b", 8, 30_000)];
        let deliveries: Vec<_> = deliveries.iter().map(String::as_str).collect();
        let fake = server(&deliveries, move |words| match words[0].as_str() {
            "MQ.EXTEND" => refusal.into(),
            _ => "+done\r\n".into(),
        });
        let worker = builder(&fake)
            .build(|message: Message<String>| async move {
                sleep(S(if message.id().as_str() == Some("a") {
                    10
                } else {
                    20
                }))
                .await;
            })
            .unwrap();
        run_for(&worker, S(25)).await;
        assert_eq!(worker.stats().finished, 2, "{refusal}");
        assert_eq!((fake.connects().len(), worker.stats().outages), (2, 0));
        let asked = fake.seen("MQ.EXTEND").len();
        assert!((10..60).contains(&asked), "asked {asked} times");
    }
    assert_eq!(log.count(&["WARN", "does not extend locks"]), 2);
}

/// Nobody runs the handlers, as when one blocks their runtime.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_begins_nothing_is_warned_of() {
    let log = Log::default();
    let _logged = log.listen();
    let fake = server(&[&delivery("a", 7, 3_000)], |_| "+queued\r\n".into());
    let worker = builder(&fake).build(|_: Message<String>| async {}).unwrap();
    let core = Arc::new(Core::new(Arc::clone(&worker.spec), None));
    let mut slots = JoinSet::new();
    slots.spawn(std::future::pending());
    let engine = tokio::spawn(run::run(Arc::clone(&core), Duration::ZERO, slots));
    sleep(S(10)).await;
    assert_eq!(worker.stats().released, 1);
    assert_eq!(
        log.count(&["WARN", "is its runtime blocked?", "given_back=1"]),
        1
    );
    core.begin_to_stop(Instant::now());
    engine.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_lock_cancels_the_handler_when_it_ends() {
    let fake = server(&[&delivery("a", 7, 3_000)], |_| "-LOADING\r\n".into());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let start = tokio::time::Instant::now();
    let worker = builder(&fake)
        .build(move |message: Message<String>| {
            let tell = tell.clone();
            async move {
                message.cancelled().await;
                tell.send(start.elapsed()).unwrap();
                Outcome::error("too late")
            }
        })
        .unwrap();
    run_for(&worker, S(30)).await;
    let after = told.recv().await.unwrap();
    assert!(after >= S(3) && after < MS(3_100), "{after:?}");
    assert!(
        fake.seen("MQ.DONE").is_empty(),
        "only a success is worth reporting then"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_repeated_until_it_is_known() {
    let answers = in_turn(&[
        "-LOADING\r\n",
        "-READONLY\r\n",
        "-MASTERDOWN\r\n",
        "-CLUSTERDOWN\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-NOAUTH\r\n",
        "-OOM\r\n",
        "-MISCONF\r\n",
        "-ERR unknown command 'MQ.DONE'\r\n",
        "+done\r\n",
    ]);
    let fake = server(&[&delivery("a", 7, 3_600_000)], move |_| answers());
    let worker = builder(&fake).build(|_: Message<String>| async {}).unwrap();
    run_for(&worker, S(120)).await;
    assert_eq!(fake.seen("MQ.DONE").len(), 10);
    assert_eq!(
        (worker.stats().finished, worker.stats().answers_refused),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_can_never_count_is_given_up() {
    for refusal in ["-WRONGTYPE\r\n", "-ERR syntax error\r\n", "-STALE\r\n", NIL] {
        let fake = server(&[&delivery("a", 7, 3_600_000)], move |_| refusal.into());
        let worker = builder(&fake).build(|_: Message<String>| async {}).unwrap();
        run_for(&worker, S(60)).await;
        assert_eq!(fake.seen("MQ.DONE").len(), 1, "{refusal}");
        assert_eq!(
            (worker.stats().finished, worker.stats().answers_refused),
            (0, 1)
        );
        assert_eq!(worker.stats().outages, 0, "{refusal}");
    }
}

/// A reply with deliveries `m0` and so on, whose tokens begin at 7.
fn deliveries(count: usize) -> String {
    let each = (0..count).map(|n| delivery(&format!("m{n}"), 7 + n as u64, 3_600_000));
    let each = each.map(|reply| reply["*1\r\n".len()..].to_owned());
    format!("*{count}\r\n{}", each.collect::<String>())
}

#[tokio::test(start_paused = true)]
async fn successes_that_end_together_are_sent_together_and_each_has_its_own_outcome() {
    let fake = server(&[&deliveries(3)], |words| match words[0].as_str() {
        "MQ.MDONE" => "*3\r\n+done\r\n+stale\r\n$-1\r\n".into(),
        _ => "-ERR unexpected\r\n".into(),
    });
    let worker = builder(&fake)
        .handlers(3)
        .build(|_: Message<String>| async {})
        .unwrap();
    run_for(&worker, S(5)).await;
    assert!(fake.seen("MQ.DONE").is_empty());
    let sent: Vec<_> = fake
        .seen("MQ.MDONE")
        .into_iter()
        .map(|(_, it)| it)
        .collect();
    let words = ["MQ.MDONE", "q", "3", "m0", "7", "m1", "8", "m2", "9"];
    assert_eq!(sent, [words.map(str::to_owned).to_vec()]);
    let stats = worker.stats();
    assert_eq!((stats.finished, stats.answers_refused), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn where_many_answers_are_refused_as_such_they_go_one_by_one() {
    for refusal in [
        "-ERR unknown command 'MQ.MDONE'\r\n",
        "-NOPERM this user has no permissions to run the 'mq.mdone' command\r\n",
    ] {
        let fake = server(&[&deliveries(3)], |words| match words[0].as_str() {
            "MQ.MDONE" => refusal.into(),
            _ => "+done\r\n".into(),
        });
        let worker = builder(&fake)
            .handlers(3)
            .build(|_: Message<String>| async {})
            .unwrap();
        run_for(&worker, S(5)).await;
        assert_eq!(fake.seen("MQ.MDONE").len(), 1, "{refusal}");
        assert_eq!(fake.seen("MQ.DONE").len(), 3, "{refusal}");
        assert_eq!(worker.stats().finished, 3, "{refusal}");
        assert_eq!(fake.connects().len(), 2, "no new connection");
    }
}

#[tokio::test(start_paused = true)]
async fn many_answers_are_repeated_until_they_are_known() {
    let refusals = in_turn(&[
        "-READONLY You can't write against a read only replica.\r\n",
        "*1\r\n+done\r\n",
        "*3\r\n+done\r\n+done\r\n+done\r\n",
    ]);
    let fake = server(&[&deliveries(3)], move |words| match words[0].as_str() {
        "MQ.MDONE" => refusals(),
        _ => "-ERR unexpected\r\n".into(),
    });
    let worker = builder(&fake)
        .handlers(3)
        .build(|_: Message<String>| async {})
        .unwrap();
    run_for(&worker, S(30)).await;
    assert_eq!(fake.seen("MQ.MDONE").len(), 3);
    assert_eq!(worker.stats().finished, 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_reasons_of_retries_is_asked_once() {
    let deliveries = [delivery("a", 7, 3_600_000), delivery("b", 8, 3_600_000)];
    let deliveries: Vec<_> = deliveries.iter().map(String::as_str).collect();
    let fake = server(&deliveries, |words| {
        match words.iter().any(|word| word == "REASON") {
            true => "-ERR syntax error\r\n".into(),
            false => "+queued-with-backoff\r\n".into(),
        }
    });
    let worker = builder(&fake)
        .build(|message: Message<String>| async move {
            // One after the other.
            sleep(S(if message.id().as_bytes() == b"a" {
                1
            } else {
                3
            }))
            .await;
            Err::<(), _>("down")
        })
        .unwrap();
    run_for(&worker, S(30)).await;
    let sent: Vec<_> = fake.seen("MQ.DONE").into_iter().map(|(_, it)| it).collect();
    let plain = |id: &str, token: &str| {
        let words = ["MQ.DONE", "q", id, token, "RETRY", "BACKOFF", "EXP"];
        words.map(str::to_owned).to_vec()
    };
    let mut first = plain("a", "7");
    first.extend(["REASON".to_owned(), "down".to_owned()]);
    assert_eq!(sent, [first, plain("a", "7"), plain("b", "8")]);
    assert_eq!(fake.connects().len(), 2, "no new connection");
    let stats = worker.stats();
    assert_eq!((stats.retried, stats.answers_refused), (2, 0));
}

/// What the server is told of a retry of the last attempt that the worker allows, where it answers
/// the questions about other limits like that.
async fn told_of_the_last_attempt(of_queue: &str, of_message: &[&str]) -> Vec<String> {
    let (of_queue, of_message) = (of_queue.to_owned(), in_turn(of_message));
    let fake = server(&[&delivery("a", 7, 3_600_000)], move |words| {
        match words[0].as_str() {
            "MQ.LIMIT" => of_queue.clone(),
            "MQ.GET" => of_message(),
            _ => "+queued\r\n".into(),
        }
    });
    let worker = builder(&fake)
        .attempts(1)
        .build(|_: Message<String>| async { Err::<(), _>("down") })
        .unwrap();
    run_for(&worker, S(60)).await;
    let mut done = fake.seen("MQ.DONE");
    assert_eq!(done.len(), 1, "{done:?}");
    done.remove(0).1.split_off(4)
}

const RETRY: [&str; 5] = ["RETRY", "BACKOFF", "EXP", "REASON", "down"];
const DEAD: [&str; 3] = ["ERROR", "REASON", "no attempts left: down"];

/// `MQ.GET`'s reply for a message with that limit.
fn stored(most: u32) -> String {
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let pairs = [("id", "a"), ("status", "locked"), ("payload", "")];
    let pairs: String = pairs
        .map(|(name, value)| text(name) + &text(value))
        .concat();
    format!("*8\r\n{pairs}{}:{most}\r\n", text("max-attempts"))
}

#[tokio::test(start_paused = true)]
async fn the_workers_limit_of_attempts_holds_where_there_is_no_other() {
    let none = stored(0);
    for of_queue in [NIL, "*0\r\n", "-ERR unknown command 'MQ.LIMIT'\r\n"] {
        let told = told_of_the_last_attempt(of_queue, &[&none]).await;
        assert_eq!(told, DEAD, "{of_queue}");
    }
    let of_queue = "*2\r\n$8\r\nattempts\r\n:30\r\n";
    assert_eq!(told_of_the_last_attempt(of_queue, &[&none]).await, RETRY);
    assert_eq!(told_of_the_last_attempt(NIL, &[&stored(30)]).await, RETRY);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_may_not_be_known_is_the_servers() {
    let log = Log::default();
    let _logged = log.listen();
    let refused = "-NOPERM no permissions\r\n";
    let none = stored(0);
    assert_eq!(told_of_the_last_attempt(refused, &[&none]).await, RETRY);
    assert_eq!(told_of_the_last_attempt(NIL, &[refused]).await, RETRY);
    assert_eq!(log.count(&["WARN", "does not tell their limits"]), 2);
    assert_eq!(told_of_the_last_attempt(NIL, &[NIL]).await, RETRY, "gone");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_tell_the_limit_now_is_asked_again() {
    let replies = ["-LOADING\r\n", "-MASTERDOWN\r\n", &stored(0)];
    assert_eq!(told_of_the_last_attempt(NIL, &replies).await, DEAD);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_while_answers_cannot_be_sent() {
    let one = delivery("a", 7, 3_600_000);
    let fake = server(&[&one], |_| "-READONLY\r\n".into());
    let worker = builder(&fake)
        .handlers(1)
        .build(|_: Message<String>| async {})
        .unwrap();
    run_for(&worker, S(60)).await;
    assert_eq!(fake.seen("MQ.DEQUEUE").len(), 1);
    assert!(fake.seen("MQ.DONE").len() > 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_goes_on_is_logged_each_minute() {
    let log = Log::default();
    let _logged = log.listen();
    let fake = Fake::new(|_| "-LOADING\r\n".into());
    let worker = builder(&fake).build(|_: Message<String>| async {}).unwrap();
    run_for(&worker, S(600)).await;
    let first = log.count(&["WARN", "connection failed, retrying", "dequeue"]);
    let later = log.count(&["WARN", "still not connected", "dequeue", "outage_ms"]);
    assert_eq!(first, 1);
    // Each at the first try after a full minute, and tries are at most 5 s apart.
    assert!(
        (9..=10).contains(&later),
        "{later} reminders in ten minutes"
    );
}

#[tokio::test]
async fn building_a_worker_sends_nothing() {
    let fake = server(&[], |_| NIL.into());
    let worker = builder(&fake).build(|_: Message<String>| async {}).unwrap();
    assert!(fake.connects().is_empty());
    drop(worker);
}
