//! docs/migrating.md is right: each of its scripts brings over what lies in keys of that form.

mod common;

use std::{
    collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command,
};

use redis_mq_testkit::{call, cli_bin, redis::Connection, workspace_root, ReplyExt as _, Server};

/// The script of the page that begins with that name.
fn script(name: &str) -> String {
    let page = fs::read_to_string(workspace_root().join("docs/migrating.md")).unwrap();
    let start = format!("```sh\n# {name}\n");
    let (_, rest) = page.split_once(&start).expect("the page has it");
    rest.split("\n```").next().unwrap().to_owned()
}

/// Runs it, twice: to repeat it adds nothing. False where there is no `redis-cli`.
fn run_twice(server: &Server, name: &str) -> bool {
    let Some(cli) = cli_bin() else {
        eprintln!("left out: there is no redis-cli on this machine");
        return false;
    };
    let folder = server.dir().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let shim = folder.join("redis-cli");
    let text = format!(
        "#!/bin/sh\nexec '{}' -p {} \"$@\"\n",
        cli.display(),
        server.port()
    );
    fs::write(&shim, text).unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_redis-mq")).parent().unwrap();
    let rest = std::env::var("PATH").unwrap_or_default();
    for _ in 0..2 {
        let output = Command::new("bash")
            .args(["-c", &format!("set -o pipefail; {}", script(name))])
            .env(
                "PATH",
                format!("{}:{}:{rest}", folder.display(), program.display()),
            )
            .env("REDIS_MQ_URL", server.url())
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && err.is_empty(), "{name}: {err}");
    }
    true
}

/// A message as (id, payload, due, priority), in the order of their deliveries and then by time.
fn messages(conn: &mut Connection, queue: &str) -> Vec<(String, String, i64, i64)> {
    let mut all = Vec::new();
    for status in ["queued", "queued-with-backoff"] {
        let mut after: Vec<String> = Vec::new();
        loop {
            let found = call!(*conn, "MQ.PEEK", queue, "STATUS", status, "COUNT", 1_000, &after);
            let found = found.unwrap();
            for message in found.items() {
                let message = message.fields();
                let (id, payload) = (message["id"].text(), message["payload"].text());
                let (due, priority) = (message["due-at"].int(), message["priority"].int());
                all.push((id, payload, due, priority));
            }
            if found.items().len() < 1_000 {
                break;
            }
            after = vec!["AFTER".into(), all[all.len() - 1].0.clone()];
        }
    }
    all
}

fn plain(id: &str, payload: &str) -> (String, String, i64, i64) {
    (id.into(), payload.into(), 0, 5)
}

/// In the year 2033.
const LATER: i64 = 2_000_000_000_123;

#[test]
fn lists_and_streams_come_over_in_their_order() {
    let server = Server::start();
    let mut conn = server.conn();
    for n in 0..2_300 {
        call!(conn, "LPUSH", "jobs", format!("job \"{n}\"\n")).unwrap();
    }
    if !run_twice(&server, "list") {
        return;
    }
    let expected: Vec<_> = (0..2_300)
        .map(|n| plain(&format!("jobs:{}", n + 1), &format!("job \"{n}\"\n")))
        .collect();
    assert_eq!(messages(&mut conn, "jobs:new"), expected);

    for n in 1..=4 {
        call!(conn, "XADD", "events", format!("{n}-0"), "n", n).unwrap();
    }
    call!(conn, "XGROUP", "CREATE", "events", "workers", "0").unwrap();
    call!(conn, "XGROUP", "CREATE", "events", "others", "0").unwrap();
    let read = [
        "GROUP", "workers", "me", "COUNT", "2", "STREAMS", "events", ">",
    ];
    call!(conn, "XREADGROUP", &read).unwrap();
    call!(conn, "XACK", "events", "workers", "1-0").unwrap();
    assert!(run_twice(&server, "stream"));
    let expected: Vec<_> = (2..=4)
        .map(|n| plain(&format!("{n}-0"), &format!("{{\"n\":\"{n}\"}}")))
        .collect();
    assert_eq!(messages(&mut conn, "events:new"), expected);
}

#[test]
fn jobs_of_sidekiq_come_over_with_their_time() {
    let server = Server::start();
    let mut conn = server.conn();
    let job = |jid: &str, queue: &str| {
        format!(r#"{{"class":"Mail","args":["ada/é"],"queue":"{queue}","jid":"{jid}"}}"#)
    };
    for jid in ["a", "b"] {
        call!(conn, "LPUSH", "queue:mails", job(jid, "mails")).unwrap();
    }
    call!(
        conn,
        "ZADD",
        "schedule",
        "2000000000.1234",
        job("c", "mails")
    )
    .unwrap();
    call!(conn, "ZADD", "schedule", "2000000000.5", job("d", "other")).unwrap();
    call!(conn, "ZADD", "retry", "2000000001", job("e", "mails")).unwrap();
    if !run_twice(&server, "sidekiq") {
        return;
    }
    let expected = [
        plain("a", &job("a", "mails")),
        plain("b", &job("b", "mails")),
        ("c".into(), job("c", "mails"), LATER, 5),
        ("e".into(), job("e", "mails"), 2_000_000_001_000, 5),
    ];
    assert_eq!(messages(&mut conn, "mails"), expected);
    let limit = call!(conn, "MQ.GET", "mails", "a").unwrap().fields()["max-attempts"].int();
    assert_eq!(limit, 25);
}

#[test]
fn jobs_of_bullmq_come_over_with_time_priority_and_attempts() {
    let server = Server::start();
    let mut conn = server.conn();
    for (id, opts) in [
        ("1", r#"{"attempts":3}"#),
        ("2", r#"{"attempts":0}"#),
        ("3", r#"{"priority":2}"#),
        ("4", r#"{"delay":5000}"#),
    ] {
        let data = format!("{{\"to\": {id}}}");
        let key = format!("bull:mails:{id}");
        call!(conn, "HSET", key, "name", "send", "data", data, "opts", opts).unwrap();
    }
    for id in ["1", "2", "gone"] {
        call!(conn, "LPUSH", "bull:mails:wait", id).unwrap();
    }
    call!(conn, "ZADD", "bull:mails:prioritized", 2_i64 << 32, "3").unwrap();
    call!(conn, "ZADD", "bull:mails:delayed", LATER * 4_096 + 17, "4").unwrap();
    if !run_twice(&server, "bullmq") {
        return;
    }
    let payload = |id: &str| format!(r#"{{"name":"send","data":{{"to": {id}}}}}"#);
    let expected = [
        plain("1", &payload("1")),
        plain("2", &payload("2")),
        ("3".into(), payload("3"), 0, 7),
        ("4".into(), payload("4"), LATER, 5),
    ];
    assert_eq!(messages(&mut conn, "mails"), expected);
    let limit = call!(conn, "MQ.GET", "mails", "1").unwrap().fields()["max-attempts"].int();
    assert_eq!(limit, 3);
}

#[test]
fn messages_of_celery_come_over_with_their_eta() {
    let server = Server::start();
    let mut conn = server.conn();
    let mut due = BTreeMap::new();
    for (id, eta, at) in [
        ("a", "null", 0),
        ("b", "\"2033-05-18T03:33:20.123456+00:00\"", LATER),
        ("c", "\"2033-05-18T05:33:20.123000+02:00\"", LATER),
        ("d", "\"2033-05-17T22:03:20.123-05:30\"", LATER),
        ("e", "\"2032-02-29T00:00:00\"", 1_961_625_600_000),
        ("f", "\"2033-01-01T00:00:00Z\"", 1_988_150_400_000),
        ("g", "\"2001-01-01T00:00:00Z\"", 0),
    ] {
        let message = format!(r#"{{"body":"W10=","headers":{{"id":"{id}","eta":{eta}}}}}"#);
        call!(conn, "LPUSH", "celery", message).unwrap();
        due.insert(id.to_owned(), at);
    }
    if !run_twice(&server, "celery") {
        return;
    }
    let got: BTreeMap<_, _> = messages(&mut conn, "tasks")
        .into_iter()
        .map(|(id, _, at, _)| (id, at))
        .collect();
    assert_eq!(got, due);
}
