//! `exporter`: what Prometheus gets.

mod common;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
};

use common::{program, run, worker::signal};
use redis_mq_testkit::{call, wait_until, Cluster, ReplyExt as _, Server, PATIENCE};

struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(url: &str, args: &[&str]) -> Self {
        let mut child = program()
            .args(["exporter", "--listen", "127.0.0.1:0", "--discover", "1ms"])
            .args(args)
            .env("REDIS_MQ_URL", url)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stderr = child.stderr.as_mut().unwrap();
        BufReader::new(stderr).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("metrics at http://").unwrap();
        let address = address.strip_suffix("/metrics").unwrap().to_owned();
        Self { child, address }
    }

    /// The head and the body of an answer.
    fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn metrics(&self) -> String {
        let (head, body) = self.get("/metrics");
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("openmetrics-text"),
            "{head}"
        );
        body
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of that sample.
fn value(metrics: &str, sample: &str) -> Option<f64> {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[test]
fn the_numbers_of_every_queue_are_told() {
    let server = Server::start();
    let mut conn = server.conn();
    for _ in 0..3 {
        call!(conn, "MQ.ENQUEUE", "a", "x", "GROUP", "g").unwrap();
    }
    let delivery = call!(conn, "MQ.DEQUEUE", "a").unwrap();
    let delivery = delivery.items();
    let (id, token) = (delivery[0].bytes(), delivery[3].int());
    call!(conn, "MQ.DONE", "a", id, token, "ERROR").unwrap();
    call!(conn, "MQ.DEQUEUE", "a").unwrap();
    call!(conn, "MQ.ENQUEUE", "b\"\n", "x", "DELAY", 3_600_000).unwrap();
    call!(conn, "MQ.LIMIT", "b\"\n", "LENGTH", 1).unwrap();
    call!(conn, "MQ.ENQUEUE", "b\"\n", "x").unwrap_err();
    call!(conn, "MQ.PAUSE", "c").unwrap();
    call!(conn, "SET", "other", "x").unwrap();
    let exporter = Exporter::start(&server.url(), &[]);
    let metrics = exporter.metrics();
    for (sample, expected) in [
        ("up", 1.0),
        ("messages{queue=\"a\",status=\"queued\"}", 1.0),
        ("messages{queue=\"a\",status=\"locked\"}", 1.0),
        ("messages{queue=\"a\",status=\"dead\"}", 1.0),
        ("held_messages{queue=\"a\"}", 1.0),
        ("groups{queue=\"a\"}", 1.0),
        ("enqueued_total{queue=\"a\"}", 3.0),
        ("delivered_total{queue=\"a\"}", 2.0),
        ("dead_total{queue=\"a\"}", 1.0),
        ("refused_total{queue=\"b\\\"\\\\n\"}", 1.0),
        ("paused{queue=\"c\"}", 1.0),
        ("paused{queue=\"a\"}", 0.0),
        ("blocked_consumers", 0.0),
    ] {
        let found = value(&metrics, &format!("redis_mq_{sample}"));
        assert_eq!(found, Some(expected), "{sample} in\n{metrics}");
    }
    let due = value(&metrics, "redis_mq_next_due_seconds{queue=\"b\\\"\\\\n\"}").unwrap();
    assert!((3_000.0..=3_600.0).contains(&due), "{due}");
    assert!(value(&metrics, "redis_mq_next_due_seconds{queue=\"c\"}").is_none());
    assert!(value(&metrics, "redis_mq_memory_bytes{queue=\"a\"}").unwrap() > 100.0);
    assert!(value(&metrics, "redis_mq_scrape_seconds").unwrap() > 0.0);
    assert!(
        metrics.ends_with("# EOF\n") && !metrics.contains("other"),
        "{metrics}"
    );
    for line in metrics.lines().filter(|line| line.starts_with("# TYPE")) {
        let is_gauge_total = line.ends_with("_total gauge");
        assert!(
            !is_gauge_total && line.starts_with("# TYPE redis_mq_"),
            "{line}"
        );
    }
}

#[test]
fn new_queues_appear_and_only_those_that_were_named() {
    let server = Server::start();
    let exporter = Exporter::start(&server.url(), &["--queue", "a*", "--queue", "late"]);
    let has = |queue: &str| {
        let sample = format!("redis_mq_paused{{queue=\"{queue}\"}}");
        value(&exporter.metrics(), &sample).is_some()
    };
    assert!(!has("late"));
    for queue in ["ab", "b", "late"] {
        run(&server, &["enqueue", queue, "x"]).ok();
    }
    wait_until(PATIENCE, || has("ab") && has("late"));
    assert!(!has("b"));
}

#[test]
fn a_server_that_is_down_is_told_and_waited_for() {
    let mut server = Server::start();
    run(&server, &["enqueue", "q", "x"]).ok();
    let exporter = Exporter::start(&server.url(), &[]);
    let up = || value(&exporter.metrics(), "redis_mq_up");
    assert_eq!(up(), Some(1.0));
    server.kill9();
    wait_until(PATIENCE, || up() == Some(0.0));
    assert!(!exporter.metrics().contains("redis_mq_messages"));
    server.start_again();
    wait_until(PATIENCE, || up() == Some(1.0));
}

#[test]
fn a_cluster_is_told_as_one() {
    let cluster = Cluster::start(3, 0);
    let mut conn = cluster.conn();
    for queue in ["a", "b", "c", "d"] {
        call!(conn, "MQ.ENQUEUE", queue, "x").unwrap();
    }
    let url = format!("redis+cluster://{}", cluster.primaries()[0].addr());
    let metrics = Exporter::start(&url, &[]).metrics();
    for queue in ["a", "b", "c", "d"] {
        let sample = format!("redis_mq_messages{{queue=\"{queue}\",status=\"queued\"}}");
        assert_eq!(value(&metrics, &sample), Some(1.0), "{metrics}");
        assert!(value(
            &metrics,
            &format!("redis_mq_memory_bytes{{queue=\"{queue}\"}}")
        )
        .is_some());
    }
}

#[test]
fn it_ends_when_it_is_told_to_and_knows_no_other_path() {
    let server = Server::start();
    let mut exporter = Exporter::start(&server.url(), &[]);
    assert!(exporter.get("/").1.contains("/metrics"));
    assert!(exporter.get("/other").0.starts_with("HTTP/1.1 404"));
    let taken = run(&server, &["exporter", "--listen", &exporter.address]).failed(5);
    assert!(taken.contains(&exporter.address), "{taken}");
    signal("TERM", exporter.child.id());
    let mut code = None;
    wait_until(PATIENCE, || {
        code = exporter.child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.and_then(|status| status.code()), Some(0));
}
