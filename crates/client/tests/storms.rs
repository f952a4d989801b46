//! Storms: a worker with many handlers, in the middle of its messages, and what can happen to its
//! server, its connections and its rights. Each message is finished, none twice, and the log stays
//! short. With MQ_SOAK=1 with 50 handlers and 4,000 messages each, and long storms.

mod common;
#[path = "common/survival.rs"]
mod survival;

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use common::{all_done, connection, eventually, info, is_soaking, slow_down_the_next_load, MS, S};
use redis_mq_client::{connect, redis, EndOfQueue, Worker};
use redis_mq_testkit::{Persistence, Server, Shutdown};
use survival::{all_handled, Producer, NAME};
use tokio::time::sleep;

/// What the client has logged as a warning or worse.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// How long something lasts: in the normal run, and in the long one.
fn long(normal: Duration, soak: Duration) -> Duration {
    if is_soaking() {
        soak
    } else {
        normal
    }
}

/// The password with which the worker connects; empty is none.
type Password = Arc<Mutex<String>>;

/// Sends one command, over a connection of its own.
async fn order(url: &str, words: &[&str]) -> redis::RedisResult<redis::Value> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection(url).await).await
}

/// What the worker's connections notice of a storm.
#[derive(Debug, PartialEq)]
enum Felt {
    /// They fail.
    AsOutages,
    /// Nothing.
    Not,
}

/// Takes the messages through a storm, with so many lines of warnings at most.
async fn weather(felt: Felt, most_lines: usize, storm: impl AsyncFnOnce(&mut Server, &Password)) {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(move || writer.clone())
        .init();
    let (handlers, count) = if is_soaking() { (50, 4_000) } else { (20, 800) };
    let mut server = Server::builder()
        .persistence(Persistence::AofSnapshot)
        .start();
    let mut producer = Producer::new(server.url()).await;
    producer.enqueue(count).await;
    let password = Password::default();
    let port = server.port();
    let source = connect::from_fn({
        let password = password.clone();
        move || {
            let password = password.lock().unwrap().clone();
            async move {
                let at = if password.is_empty() {
                    String::new()
                } else {
                    format!(":{password}@")
                };
                redis::Client::open(format!("redis://{at}127.0.0.1:{port}/"))
            }
        }
    });
    let runs = survival::Runs::default();
    let worker = Worker::builder(source, NAME)
        .handlers(handlers)
        .lock(S(2))
        .end_of_queue(EndOfQueue::Block(MS(300)))
        .response_timeout(MS(700))
        .connect_timeout(MS(700))
        .reconnect_backoff(MS(10), MS(200))
        .build({
            let runs = runs.clone();
            move |message: redis_mq_client::Message<u32>| {
                let runs = runs.clone();
                async move {
                    sleep(long(MS(50), MS(200))).await;
                    *runs.lock().unwrap().entry(message.value).or_default() += 1;
                }
            }
        })
        .unwrap();
    eventually("some are handled", async || {
        runs.lock().unwrap().len() > count as usize / 8
    })
    .await;
    let began = Instant::now();
    let open = info(&producer.queue).await.messages;
    assert!(open > u64::from(count) / 2, "the storm comes too late");
    storm(&mut server, &password).await;
    all_handled(&runs, count).await;
    let mut last = Producer::new(server.url()).await;
    all_done(&last.queue, u64::from(count)).await;
    // What comes after the storm is handled as ever.
    last.next = count;
    last.enqueue(50).await;
    all_handled(&runs, count + 50).await;
    all_done(&last.queue, u64::from(count) + 50).await;
    let info = info(&last.queue).await;
    assert_eq!((info.messages, info.dead), (0, 0), "{info:?}");
    assert_eq!(
        info.total_done,
        u64::from(count) + 50,
        "none is finished twice"
    );
    assert!(worker.is_running());
    let outages = worker.stats().outages;
    assert_eq!(outages > 0, felt == Felt::AsOutages, "{outages} outages");
    assert!(worker.stop(S(10)).await.is_clean());
    let lines = log.lines();
    let warned = lines.lines().count();
    println!("{warned} lines of warnings in {:?}", began.elapsed());
    assert!(warned <= most_lines, "{warned} lines:\n{lines}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_killed() {
    weather(Felt::AsOutages, 60, async |server, _| {
        server.crash_and_restart()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_killed_again_and_again() {
    let kills = if is_soaking() { 25 } else { 8 };
    // A line for each connection that fails, and one for each lock that could not be confirmed.
    weather(Felt::AsOutages, 4 * kills + 60, async |server, _| {
        for _ in 0..kills {
            order(
                &server.url(),
                &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
            )
            .await
            .unwrap();
            sleep(MS(200)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_paused() {
    let pause = long(MS(1_500), S(5));
    weather(Felt::AsOutages, 60, async |server, _| {
        order(
            &server.url(),
            &["CLIENT", "PAUSE", &pause.as_millis().to_string()],
        )
        .await
        .unwrap();
        sleep(pause).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_stopped_and_goes_on() {
    let pause = long(S(3), S(10));
    weather(Felt::AsOutages, 60, async |server, _| {
        let signal = |name: &str| {
            let pid = server.pid().to_string();
            let sent = std::process::Command::new("kill")
                .args([name, &pid])
                .status();
            assert!(sent.unwrap().success());
        };
        signal("-STOP");
        sleep(pause).await;
        signal("-CONT");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_read_only_for_a_time() {
    let time = long(MS(1_500), S(5));
    weather(Felt::AsOutages, 60, async |server, _| {
        // A primary that nobody is: what is there stays there.
        order(&server.url(), &["REPLICAOF", "127.0.0.1", "1"])
            .await
            .unwrap();
        sleep(time).await;
        order(&server.url(), &["REPLICAOF", "NO", "ONE"])
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_is_rotated() {
    let time = long(MS(1_500), S(5));
    weather(Felt::AsOutages, 60, async |server, password| {
        let mut admin = connection(server.url()).await;
        let mut set = async |to: &str| {
            let mut command = redis::cmd("CONFIG");
            command.arg("SET").arg("requirepass").arg(to);
            command.exec_async(&mut admin).await.unwrap();
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL")
                .arg("TYPE")
                .arg("normal")
                .arg("SKIPME")
                .arg("yes");
            kill.exec_async(&mut admin).await.unwrap();
        };
        set("rotated").await;
        sleep(time).await;
        "rotated".clone_into(&mut password.lock().unwrap());
        sleep(time).await;
        password.lock().unwrap().clear();
        set("").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_are_revoked_and_given_back() {
    let time = long(MS(1_500), S(5));
    weather(Felt::AsOutages, 60, async |server, _| {
        for right in ["mq.done", "mq.extend", "mq.dequeue"] {
            let user = |sign: &str| {
                [
                    "ACL".to_owned(),
                    "SETUSER".into(),
                    "default".into(),
                    format!("{sign}{right}"),
                ]
            };
            let words = user("-");
            order(&server.url(), &words.each_ref().map(String::as_str))
                .await
                .unwrap();
            sleep(time).await;
            let words = user("+");
            order(&server.url(), &words.each_ref().map(String::as_str))
                .await
                .unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_takes_no_more_clients() {
    let time = long(MS(1_500), S(5));
    weather(Felt::AsOutages, 60, async |server, _| {
        let mut admin = connection(server.url()).await;
        let mut set = async |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            command
                .arg(&words[1..])
                .exec_async(&mut admin)
                .await
                .unwrap();
        };
        set(&["CONFIG", "SET", "maxclients", "1"]).await;
        set(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        sleep(time).await;
        set(&["CONFIG", "SET", "maxclients", "1000"]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_loads_for_a_long_time() {
    weather(Felt::AsOutages, 60, async |server, _| {
        slow_down_the_next_load(server);
        server.restart(Shutdown::Save);
    })
    .await;
}

/// Every thread of the handlers' runtime does something else for longer than a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runtime_is_blocked() {
    let time = long(S(3), S(10));
    weather(Felt::Not, 60, async |_, _| {
        let blocked: Vec<_> = (0..2)
            .map(|_| tokio::spawn(async move { std::thread::sleep(time) }))
            .collect();
        for task in blocked {
            task.await.unwrap();
        }
    })
    .await;
}
