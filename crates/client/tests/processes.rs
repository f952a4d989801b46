//! Worker processes that are killed, and that are told to go.

mod common;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc, Mutex,
    },
    time::Duration,
};

use common::{client, queue, MS, S};
use redis_mq_client::{EndOfQueue, EnqueueOptions, Message, Queue, QueueInfo, Worker};
use redis_mq_testkit::{wait_until, Server, PATIENCE};

const NAME: &str = "q";
const URL: &str = "MQ_TEST_WORKER_URL";
const GRACE_MS: &str = "MQ_TEST_WORKER_GRACE_MS";
const LOCK_MS: &str = "MQ_TEST_WORKER_LOCK_MS";
const HANDLER_MS: &str = "MQ_TEST_WORKER_HANDLER_MS";

/// Not a test of its own: with these variables set, this is the worker process of the others.
#[test]
fn worker_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let ms = |name: &str| MS(std::env::var(name).unwrap().parse().unwrap());
    let (grace, lock, pause) = (ms(GRACE_MS), ms(LOCK_MS), ms(HANDLER_MS));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = runtime.block_on(async {
        let worker = Worker::builder(client(url), NAME)
            .handlers(4)
            .lock(lock)
            .end_of_queue(EndOfQueue::Block(S(5)))
            .build(move |_: Message<u32>| async move {
                if pause >= S(3_600) {
                    println!("\nbegan");
                }
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            })
            .unwrap();
        // Before that, signals still kill.
        let stop = worker.run_until_signal(grace);
        tokio::pin!(stop);
        assert!(futures_util::poll!(stop.as_mut()).is_pending());
        println!("\nready");
        // For the test with wrong clocks: how far this one is from the file system's.
        println!("\nclock {}", seconds_off());
        stop.await.unwrap()
    });
    println!(
        "\nleft {} {} {}",
        report.given_back.len(),
        report.unfinished.len(),
        report.unanswered.len()
    );
}

/// By how many seconds this process's clock is ahead of the kernel's, which dates files.
fn seconds_off() -> i64 {
    let dated = tempfile().metadata().unwrap().modified().unwrap();
    let now = std::time::SystemTime::now();
    match now.duration_since(dated) {
        Ok(ahead) => ahead.as_secs() as i64,
        Err(behind) => -(behind.duration().as_secs() as i64),
    }
}

fn tempfile() -> std::fs::File {
    let name = format!("client-clock-probe-{}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = std::fs::File::create(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// A worker process; killed if the test ends first.
struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Process {
    fn start(server: &Server, grace: Duration, lock: Duration, handler: Duration) -> Self {
        Self::start_with(server, grace, lock, handler, &[])
    }

    fn start_with(
        server: &Server,
        grace: Duration,
        lock: Duration,
        handler: Duration,
        environment: &[(&str, &Path)],
    ) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .envs(environment.iter().copied())
            .args([
                "--exact",
                "worker_process",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(URL, server.url())
            .env(GRACE_MS, grace.as_millis().to_string())
            .env(LOCK_MS, lock.as_millis().to_string())
            .env(HANDLER_MS, handler.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The rest of the next line that begins so.
    fn said(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap();
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        // A process that has ended already is none to signal.
        let _ = Command::new("kill")
            .args([name, &pid])
            .stderr(Stdio::null())
            .status()
            .unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Queues {
    runtime: tokio::runtime::Runtime,
    queue: Queue<u32>,
}

impl Queues {
    fn new(server: &Server) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let queue = runtime.block_on(queue(server.url(), NAME));
        Self { runtime, queue }
    }

    fn enqueue(&self, count: u32) {
        let values: Vec<_> = (0..count).collect();
        let messages = values.iter().map(|n| (n, EnqueueOptions::new()));
        for outcome in self
            .runtime
            .block_on(self.queue.enqueue_many(messages))
            .unwrap()
        {
            assert!(outcome.unwrap().is_accepted());
        }
    }

    fn info(&self) -> QueueInfo {
        self.runtime.block_on(common::info(&self.queue))
    }
}

/// At a thousand random points of its life, from its start to the middle of its work. Every
/// message finishes, and the server accepts no second finish of any: ids are unique, so that as
/// many finishes as messages, and no message left, is each of them once.
#[test]
fn workers_killed_at_a_thousand_random_points_lose_and_repeat_nothing() {
    const KILLS: usize = 1_000;
    const MESSAGES: u32 = 100_000;
    let server = Server::start();
    let queues = Queues::new(&server);
    queues.enqueue(MESSAGES);
    let kills = AtomicUsize::new(0);
    let seed = Mutex::new(0x9e37_79b9_7f4a_7c15_u64);
    // Any spread will do; it need not be a good one.
    let random = |below: u64| {
        let mut seed = seed.lock().unwrap();
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) % below
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while kills.fetch_add(1, Ordering::Relaxed) < KILLS {
                    let mut process = Process::start(&server, S(10), MS(300), MS(random(3)));
                    // Most are killed at work, some while they start.
                    if random(8) > 0 {
                        process.said("ready");
                    }
                    std::thread::sleep(Duration::from_micros(random(30_000)));
                    process.child.kill().unwrap();
                    process.child.wait().unwrap();
                }
            });
        }
    });
    let survivors = [(); 2].map(|()| Process::start(&server, S(10), MS(300), Duration::ZERO));
    wait_until(PATIENCE, || queues.info().messages == 0);
    let info = queues.info();
    assert_eq!(info.total_done, u64::from(MESSAGES), "{info:?}");
    assert!(
        info.total_expired_locks > 0,
        "nobody was killed at work: {info:?}"
    );
    // A lock may also end while its worker is alive but slow, and its answer still count.
    assert!(
        info.total_delivered - info.total_done <= info.total_expired_locks,
        "{info:?}"
    );
    drop(survivors);
}

#[test]
fn a_storm_of_signals_is_one_orderly_stop() {
    let server = Server::start();
    let queues = Queues::new(&server);
    queues.enqueue(2_000);
    for round in 0..10 {
        let mut process = Process::start(&server, S(60), S(60), MS(20));
        process.said("ready");
        let before = queues.info().total_delivered;
        wait_until(PATIENCE, || queues.info().total_delivered > before);
        for storm in 0..20 {
            process.signal(if (storm + round) % 2 == 0 {
                "-TERM"
            } else {
                "-INT"
            });
        }
        assert_eq!(process.said("left"), "0 0 0");
        assert!(process.child.wait().unwrap().success());
        let info = queues.info();
        assert_eq!((info.locked, info.total_expired_locks), (0, 0), "{info:?}");
        assert_eq!(info.total_done + info.queued, 2_000, "{info:?}");
    }
}

/// Handlers that take an hour, and a deployment that gives them a moment. With `MQ_SOAK=1` 640 times.
#[test]
fn a_stop_beyond_its_grace_gives_all_back_and_says_so() {
    let stops = if common::is_soaking() { 640 } else { 3 };
    let server = Server::start();
    let queues = Queues::new(&server);
    queues.enqueue(4);
    for _ in 0..stops {
        let mut process = Process::start(&server, MS(5), S(3_600), S(3_600));
        process.said("ready");
        for _ in 0..4 {
            process.said("began");
        }
        process.signal("-TERM");
        assert_eq!(process.said("left"), "4 0 0");
        assert!(process.child.wait().unwrap().success());
        let info = queues.info();
        assert_eq!((info.queued, info.total_expired_locks), (4, 0), "{info:?}");
    }
}

/// One worker's clock is an hour ahead and the other's an hour behind: delays, locks, their
/// extension and their end are what the server makes of them.
#[test]
fn worker_clocks_that_are_wrong_by_an_hour_change_nothing() {
    const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/faults/clock.c");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = scratch.join(format!("client-clock-{}.so", std::process::id()));
    let mut compile = Command::new("cc");
    compile
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(&library)
        .arg(SOURCE);
    assert!(compile.status().unwrap().success());
    let server = Server::start();
    let queues = Queues::new(&server);
    let hour = 3_600_000_000_i64;
    let clocks: Vec<_> = [hour, -hour]
        .iter()
        .map(|offset| {
            let file = scratch.join(format!("client-clock-{}-{offset}", std::process::id()));
            std::fs::write(&file, offset.to_ne_bytes()).unwrap();
            file
        })
        .collect();
    let mut workers: Vec<_> = clocks
        .iter()
        .map(|clock| {
            let environment = [("LD_PRELOAD", &*library), ("MQ_CLOCK_FILE", &**clock)];
            // Handlers that take longer than their lock.
            let worker = Process::start_with(&server, S(60), S(2), S(5), &environment);
            worker.said("ready");
            let off: i64 = worker.said("clock ").parse().unwrap();
            assert!(off.abs() > 3_000, "the clock is not wrong: {off} s");
            worker
        })
        .collect();
    let values: Vec<_> = (0..16).collect();
    let messages = values.iter().map(|n| {
        let options = EnqueueOptions::new();
        (
            n,
            if n % 2 == 0 {
                options
            } else {
                options.delay(MS(500))
            },
        )
    });
    for outcome in queues
        .runtime
        .block_on(queues.queue.enqueue_many(messages))
        .unwrap()
    {
        assert!(outcome.unwrap().is_accepted());
    }
    wait_until(PATIENCE, || queues.info().total_done == 16);
    let info = queues.info();
    assert_eq!(
        (info.total_delivered, info.total_expired_locks),
        (16, 0),
        "{info:?}"
    );
    for worker in &mut workers {
        worker.signal("-TERM");
        assert_eq!(worker.said("left"), "0 0 0");
    }
    // A killed worker's messages come back when its lock is over, not an hour later.
    queues.enqueue(4);
    let environment = [("LD_PRELOAD", &*library), ("MQ_CLOCK_FILE", &*clocks[0])];
    let mut killed = Process::start_with(&server, S(60), S(2), S(3_600), &environment);
    for _ in 0..4 {
        killed.said("began");
    }
    killed.child.kill().unwrap();
    wait_until(PATIENCE, || queues.info().queued == 4);
    for file in clocks.iter().chain([&library]) {
        std::fs::remove_file(file).unwrap();
    }
}
