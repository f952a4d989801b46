//! `exporter`: what Prometheus gets.

mod common;

use std::collections::BTreeSet;

use common::{
    exporter::{promtool, value, Exporter},
    run,
    worker::signal,
};
use redis_mq_testkit::{call, wait_until, Cluster, ReplyExt as _, Server, PATIENCE};

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
        ("results{queue=\"a\"}", 0.0),
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
    assert!(value(&metrics, "redis_mq_server_memory_bytes").unwrap() > 1_000.0);
    assert!(value(&metrics, "redis_mq_server_memory_limit_bytes").is_none());
    assert!(!metrics.contains("\"other\""), "{metrics}");
    call!(conn, "CONFIG", "SET", "maxmemory", 1_000_000_000).unwrap();
    let limit = value(&exporter.metrics(), "redis_mq_server_memory_limit_bytes");
    assert_eq!(limit, Some(1e9));
}

/// A queue whose every number but those of limits is above zero.
fn busy(server: &Server) {
    let mut conn = server.conn();
    for _ in 0..4 {
        call!(conn, "MQ.ENQUEUE", "a", "x").unwrap();
    }
    for verdict in ["SUCCESS", "RETRY", "ERROR"] {
        let delivery = call!(conn, "MQ.DEQUEUE", "a").unwrap();
        let delivery = delivery.items();
        let (id, token) = (delivery[0].bytes(), delivery[3].int());
        call!(conn, "MQ.DONE", "a", id, token, verdict).unwrap();
    }
}

#[test]
fn both_formats_are_sound_and_tell_the_same() {
    let server = Server::start();
    busy(&server);
    let exporter = Exporter::start(&server.url(), &[]);
    let text = exporter.metrics();
    let checked = promtool(server.dir(), &["check", "metrics"], &text);
    assert_eq!((checked.code, &*checked.err, &*checked.out), (0, "", ""));
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3\r\n";
    let (head, open) = exporter.get("/metrics", accept);
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(open.ends_with("# EOF\n"), "{open}");
    let names = |metrics: &str| -> BTreeSet<String> {
        // The order of a bucket's labels means nothing.
        let samples = metrics
            .lines()
            .filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
        let name = |line: &str| line.rsplit_once(' ').map(|(name, _)| name.to_owned());
        samples.filter_map(name).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&text), names(&open));
    // A counter is called one, and only a counter is called a total.
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        let is_counter = line.ends_with(" counter");
        assert_eq!(line.contains("_total "), is_counter, "{line}");
    }
    let once = run(&server, &["exporter", "--once"]).ok();
    assert_eq!(names(&once), names(&text));
}

/// Waits until the server's clock is 20 ms further.
fn wait_a_little(conn: &mut redis_mq_testkit::redis::Connection) {
    let mut now = || {
        let time = call!(*conn, "TIME").unwrap();
        let part = |at: usize| time.items()[at].text().parse::<u64>().unwrap();
        part(0) * 1_000 + part(1) / 1_000
    };
    let begin = now();
    wait_until(PATIENCE, || now() > begin + 20);
}

#[test]
fn histograms_are_those_of_the_server() {
    let server = Server::start();
    busy(&server);
    let mut conn = server.conn();
    // One that waits for at least 20 ms before its delivery, and is worked on for as long.
    wait_a_little(&mut conn);
    let delivery = call!(conn, "MQ.DEQUEUE", "a").unwrap();
    let delivery = delivery.items();
    let (id, token) = (delivery[0].bytes(), delivery[3].int());
    wait_a_little(&mut conn);
    call!(conn, "MQ.DONE", "a", id, token).unwrap();
    let metrics = Exporter::start(&server.url(), &[]).metrics();
    let of = |sample: &str| value(&metrics, &format!("redis_mq_{sample}")).unwrap();
    let told = call!(conn, "MQ.LATENCY", "a").unwrap();
    for (name, count) in [("wait", 4.0), ("work", 4.0)] {
        let sum = told.fields()[name].fields()["sum-ms"].int() as f64 / 1_000.0;
        assert_eq!(of(&format!("{name}_seconds_sum{{queue=\"a\"}}")), sum);
        assert_eq!(of(&format!("{name}_seconds_count{{queue=\"a\"}}")), count);
        let below = |bound: &str| {
            of(&format!(
                "{name}_seconds_bucket{{queue=\"a\",le=\"{bound}\"}}"
            ))
        };
        assert_eq!(below("+Inf"), count);
        assert!(below("0.016") < count, "{metrics}");
        assert!(below("0.001") <= below("0.016") && below("8388.608") <= count);
    }
}

#[test]
fn a_user_without_all_rights_gets_what_it_may_see_and_is_told_of_the_rest() {
    let server = Server::start();
    busy(&server);
    let mut conn = server.conn();
    let rights =
        "on >secret ~* +info +scan +cluster|slots +memory|usage +mq.info +mq.latency +mq.schedules";
    let rights: Vec<_> = rights.split(' ').collect();
    call!(conn, "ACL", "SETUSER", "exporter", rights).unwrap();
    let url = server.url().replace("//", "//exporter:secret@");
    let exporter = Exporter::start(&url, &[]);
    let refused = || value(&exporter.metrics(), "redis_mq_scrape_refusals");
    assert_eq!(refused(), Some(0.0));
    call!(conn, "ACL", "SETUSER", "exporter", "-mq.latency").unwrap();
    assert_eq!(refused(), Some(1.0));
    assert!(exporter.metrics().contains("redis_mq_messages"));
}

#[test]
fn a_server_without_the_module_is_not_up() {
    let server = Server::builder().no_module().start();
    let ended = run(&server, &["exporter", "--once"]);
    assert_eq!(ended.code, 3);
    assert!(ended.err.contains("not loaded") && ended.err.lines().count() == 1);
    assert_eq!(value(&ended.out, "redis_mq_up"), Some(0.0));
    assert_eq!(
        value(&ended.out, "redis_mq_scrape_failures_total"),
        Some(1.0)
    );
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
    assert!(exporter.get("/", "").1.contains("/metrics"));
    assert!(exporter.get("/other", "").0.starts_with("HTTP/1.1 404"));
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
