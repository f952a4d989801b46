//! Wherever the queues are: a unix socket, a cluster, what Sentinel names, RESP3.

mod common;

use common::{call_at, objects, worker::Worker};
use redis_mq_testkit::{call, wait_until, Cluster, ReplyExt as _, Sentinels, Server, PATIENCE};

#[test]
fn a_unix_socket_is_a_server_too() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let server = Server::builder()
        .config("unixsocket", socket.display())
        .start();
    let url = format!("unix://{}", socket.display());
    call_at(&url, &["enqueue", "q", "x", "--id", "1"], "").ok();
    assert_eq!(
        call!(server.conn(), "MQ.STATUS", "q", "1").unwrap().text(),
        "queued"
    );
}

#[test]
fn resp3_reads_as_resp2() {
    let server = Server::start();
    call_at(
        &server.url(),
        &["enqueue", "q", "x", "--id", "1", "--group", "g"],
        "",
    )
    .ok();
    call_at(&server.url(), &["limit", "q", "--rate", "5/1h"], "").ok();
    let daily = ["schedules", "set", "q", "a", "--cron", "@daily"];
    call_at(&server.url(), &daily, "").ok();
    for args in [
        &["get", "q", "1", "--json"][..],
        &["limit", "q", "--json"],
        &["groups", "q", "--most", "5"],
        &["schedules", "ls", "q", "--json"],
        &["ls", "*"],
    ] {
        let told = |url: &str| {
            let text = call_at(url, args, "").ok();
            // What waits gets older between the two calls.
            text.split_whitespace()
                .filter(|word| !word.ends_with("ms"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(told(&server.url()), told(&server.url_resp3()), "{args:?}");
    }
}

#[test]
fn queues_of_all_nodes_of_a_cluster_are_found() {
    let cluster = Cluster::start(3, 0);
    let nodes: Vec<_> = cluster
        .primaries()
        .iter()
        .map(|node| node.addr().to_string())
        .collect();
    let url = format!("redis+cluster://{}", nodes.join(","));
    for number in 0..20 {
        call_at(&url, &["enqueue", &format!("q{number}"), "x"], "").ok();
    }
    let found = objects(&call_at(&url, &["ls", "--json"], "").ok());
    assert_eq!(found.len(), 20);
    assert!(found.iter().all(|queue| queue["queued"] == 1), "{found:?}");
}

#[test]
fn sentinels_name_the_server() {
    let primary = Server::start();
    let sentinels = Sentinels::start(1, &primary, 0);
    let places: Vec<_> = sentinels
        .servers()
        .iter()
        .map(|one| one.addr().to_string())
        .collect();
    let url = format!("redis+sentinel://{}/mq", places.join(","));
    let ended = call_at(&url, &["enqueue", "q", "x", "--id", "1"], "");
    ended.ok();
    assert_eq!(
        call!(primary.conn(), "MQ.STATUS", "q", "1").unwrap().text(),
        "queued"
    );
    let wrong = format!("redis+sentinel://{}/other", places.join(","));
    call_at(&wrong, &["ls"], "").failed(3);
}

#[test]
fn a_worker_works_in_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let url = format!("redis+cluster://{}", cluster.primaries()[0].addr());
    let mut workers = Vec::new();
    for queue in ["a", "b", "c"] {
        call_at(&url, &["enqueue", queue, "x"], "").ok();
        let folder = cluster.owner(queue).dir();
        workers.push(Worker::start(&url, folder, &[queue, "--", "true"]));
    }
    let mut conn = cluster.conn();
    for queue in ["a", "b", "c"] {
        wait_until(PATIENCE, || {
            let info = call!(conn, "MQ.INFO", queue).unwrap().fields();
            info["total-done"].int() == 1
        });
    }
    for worker in &mut workers {
        assert_eq!(worker.stop().code, 0);
    }
}
