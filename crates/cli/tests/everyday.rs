//! Looking, adding, holding: each command on a real server.

mod common;

use common::{call_with, objects, program, run};
use redis_mq_testkit::{call, ReplyExt as _, Server};

#[test]
fn every_queue_is_listed_with_its_counts_and_nothing_else_is() {
    let server = Server::start();
    let mut conn = server.conn();
    for number in 0..1_500 {
        call!(conn, "SET", format!("other:{number}"), "x").unwrap();
    }
    call!(conn, "MQ.ENQUEUE", "a", "x", "ID", "1").unwrap();
    call!(conn, "MQ.ENQUEUE", "a", "x", "DELAY", 60_000).unwrap();
    call!(conn, "MQ.ENQUEUE", b"\xff\n", "x").unwrap();
    call!(conn, "MQ.PAUSE", "b").unwrap();
    let out = run(&server, &["ls"]).ok();
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 4, "{out}");
    assert_eq!(rows[1][..5], ["a", "1", "1", "0", "0"]);
    assert_eq!(rows[2][..3], ["b", "(paused)", "0"]);
    assert_eq!(rows[3][..2], ["\\xff\\n", "1"]);
    let listed = objects(&run(&server, &["ls", "--json", "[ab]"]).ok());
    let names: Vec<_> = listed.iter().map(|queue| &queue["queue"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(listed[0]["queued-with-backoff"], 1);
}

#[test]
fn a_message_is_shown_with_all_it_was_given() {
    let server = Server::start();
    let added = run(
        &server,
        &[
            "enqueue",
            "q",
            r#"{"to":"ada"}"#,
            "--id",
            "m",
            "--delay",
            "1h",
            "--lock",
            "5s",
            "--attempts",
            "3",
            "--priority",
            "2",
            "--group",
            "g",
            "--ttl",
            "2h",
            "--bury",
            "--header",
            "Traceparent: 00-1",
            "--header",
            "b:2",
        ],
    );
    assert_eq!(added.ok(), "added m\n");
    let out = run(&server, &["get", "q", "m"]).ok();
    for shown in [
        "queued-with-backoff",
        "max-attempts  3",
        "group         g",
        "12 bytes, JSON",
    ] {
        assert!(out.contains(shown), "{shown} in {out}");
    }
    let object = &objects(&run(&server, &["get", "q", "m", "--json"]).ok())[0];
    assert_eq!(object["headers"], "traceparent: 00-1\nb: 2");
    assert_eq!(object["lock-ms"], 5_000);
    let missing = run(&server, &["get", "q", "m", "n"]);
    assert!(missing.out.contains("to"), "{missing:?}");
    assert_eq!(missing.failed(1), "error: no such message: n\n");
}

#[test]
fn a_result_is_shown_for_as_long_as_it_is_kept() {
    let server = Server::start();
    let mut conn = server.conn();
    let enqueue = ["enqueue", "q", "x", "--id", "a", "--retain", "1h"];
    assert_eq!(run(&server, &enqueue).ok(), "added a\n");
    let line = "{\"id\":\"b\",\"payload\":1,\"retain\":3600000}\n";
    call_with(&server, &["enqueue", "q", "--jsonl"], line).ok();
    let got = call!(conn, "MQ.DEQUEUE", "q", "COUNT", 2).unwrap();
    let tokens: Vec<_> = got.items().iter().map(|got| got.items()[3].int()).collect();
    call!(conn, "MQ.DONE", "q", "a", tokens[0], "RESULT", "{\"n\":7}").unwrap();
    call!(conn, "MQ.DONE", "q", "b", tokens[1], "BACKOFF", 3_600_000, "RESULT", b"\xff").unwrap();
    let shown = run(&server, &["get", "q", "a"]).ok();
    assert!(
        shown.contains("done-at") && shown.contains("7 bytes, JSON") && shown.contains("{\"n\":7}"),
        "{shown}"
    );
    let both = objects(&run(&server, &["get", "q", "a", "b", "--json"]).ok());
    assert_eq!(
        (&both[0]["status"], &both[0]["result"]),
        (&"done".into(), &"{\"n\":7}".into())
    );
    assert_eq!(both[1]["status"], "done-with-backoff");
    assert_eq!(
        (&both[1]["payload"], &both[1]["result-base64"]),
        (&"1".into(), &"/w==".into())
    );
    run(&server, &["get", "q", "c"]).failed(1);
    run(&server, &["get", "none", "a"]).failed(1);
}

#[test]
fn lines_become_messages_and_the_counts_are_told() {
    let server = Server::start();
    let lines: String = (0..1_234).map(|n| format!("line {n}\r\n\n")).collect();
    assert_eq!(
        call_with(&server, &["enqueue", "q"], &lines).ok(),
        "1234 added\n"
    );
    let first = call!(server.conn(), "MQ.DEQUEUE", "q").unwrap();
    assert_eq!(first.items()[1].text(), "line 0");
    assert_eq!(
        call_with(&server, &["enqueue", "q"], "").ok(),
        "nothing to add\n"
    );
}

#[test]
fn repeating_lines_of_json_changes_nothing() {
    let server = Server::start();
    let file = server.dir().join("lines.jsonl");
    let lines: String = (0..700)
        .map(|n| {
            format!(r#"{{"id":"{n}","payload":{{"n":{n}}},"headers":{{"a":"b"}},"priority":1}}"#)
                + "\n"
        })
        .collect();
    std::fs::write(&file, lines).unwrap();
    let args = ["enqueue", "q", "--jsonl", "--file", file.to_str().unwrap()];
    assert_eq!(run(&server, &args).ok(), "700 added\n");
    assert_eq!(run(&server, &args).ok(), "700 queued\n");
    let got = call!(server.conn(), "MQ.GET", "q", "699").unwrap().fields();
    assert_eq!(got["payload"].text(), r#"{"n":699}"#);
    assert_eq!(got["headers"].text(), "a: b");
}

#[test]
fn what_removes_needs_a_yes() {
    let server = Server::start();
    call!(server.conn(), "MQ.ENQUEUE", "q", "x", "ID", "1").unwrap();
    let refused = run(&server, &["cancel", "q", "1"]).failed(2);
    assert!(refused.contains("--yes"), "{refused}");
    assert_eq!(
        call!(server.conn(), "MQ.STATUS", "q", "1").unwrap().text(),
        "queued"
    );
    let done = run(&server, &["cancel", "q", "1", "2", "--yes"]).ok();
    assert_eq!(done, "1 of 2 removed\n");
    assert_eq!(run(&server, &["cancel", "q", "1", "-y"]).code, 1);
}

#[test]
fn queues_and_groups_are_paused_and_resumed() {
    let server = Server::start();
    let out = run(&server, &["pause", "q"]).ok();
    assert_eq!(out, "q is paused until it is resumed\n");
    let out = run(&server, &["pause", "q", "--group", "g", "--for", "1h"]).ok();
    assert!(out.starts_with("g is paused until 20"), "{out}");
    let info = call!(server.conn(), "MQ.INFO", "q").unwrap().fields();
    assert_eq!(info["paused"].int(), 1);
    assert_eq!(run(&server, &["resume", "q"]).ok(), "q goes on\n");
    assert_eq!(
        run(&server, &["resume", "q", "--group", "g"]).ok(),
        "g goes on\n"
    );
    let again = run(&server, &["resume", "q"]);
    assert_eq!((again.code, &*again.out), (1, "q was not paused\n"));
}

#[test]
fn limits_are_set_and_shown() {
    let server = Server::start();
    let set = [
        "limit", "q", "--rate", "50/1m", "--burst", "5", "--length", "2",
    ];
    assert_eq!(run(&server, &set).ok(), "OK\n");
    let shown = run(&server, &["limit", "q"]).ok();
    for line in ["length    2", "rate      50 in 1m", "burst     5"] {
        assert!(
            shown.lines().any(|shown| shown == line),
            "{line} in {shown}"
        );
    }
    let shown = &objects(&run(&server, &["limit", "q", "--json"]).ok())[0];
    assert_eq!(shown["rate"], serde_json::json!([50, 60_000]));
    assert_eq!(
        run(&server, &["limit", "q", "--rate", "off", "--burst", "off"]).code,
        0
    );
    let full = call_with(&server, &["enqueue", "q"], "1\n2\n3\n").failed(4);
    assert!(
        full.contains("FULL") && full.contains("2 messages were sent"),
        "{full}"
    );
    assert_eq!(
        run(&server, &["limit", "none"]).failed(1),
        "error: no such queue: none\n"
    );
}

#[test]
fn groups_are_listed_by_what_waits() {
    let server = Server::start();
    let lines: String = (0..1_200)
        .map(|n| {
            format!(
                "{{\"payload\":1,\"group\":\"{}\"}}\n",
                if n < 1_000 { n } else { 7 }
            )
        })
        .collect();
    call_with(&server, &["enqueue", "q", "--jsonl"], &lines).ok();
    call!(server.conn(), "MQ.PAUSE", "q", "GROUP", "7").unwrap();
    let out = run(&server, &["groups", "q", "--most", "2"]).ok();
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[1][..3], ["7", "201", "0"]);
    assert_eq!(rows[1].last(), Some(&"paused"));
    assert_eq!(out.lines().last(), Some("… 1000 groups in all"));
    let all = objects(&run(&server, &["groups", "q", "--json"]).ok());
    let waiting: u64 = all
        .iter()
        .filter_map(|group| group["waiting"].as_u64())
        .sum();
    assert_eq!((all.len(), waiting), (1_000, 1_200));
}

#[test]
fn a_check_has_the_codes_of_monitoring_plugins() {
    let server = Server::start();
    let check = |args: &[&str]| run(&server, &[&["check"], args].concat());
    let ok = check(&[]);
    assert_eq!(
        (ok.code, &*ok.out),
        (0, "MQ OK - the server answers and has queues\n")
    );
    for number in 0..5 {
        run(&server, &["enqueue", "q", &number.to_string()]).ok();
    }
    let ok = check(&["q", "--ready", "6:10"]);
    assert!(
        ok.code == 0 && ok.out.contains("'q_ready'=5;6;10"),
        "{ok:?}"
    );
    let warning = check(&["q", "--ready", "5:6"]);
    assert!(
        warning.code == 1 && warning.out.starts_with("MQ WARNING - q: 5 ready |"),
        "{warning:?}"
    );
    let critical = check(&["q", "--ready", "1:5", "--oldest", "0"]);
    assert!(
        critical.code == 2 && critical.out.starts_with("MQ CRITICAL"),
        "{critical:?}"
    );
    call!(server.conn(), "MQ.PAUSE", "q").unwrap();
    assert_eq!(
        (check(&["q"]).code, check(&["q", "--may-be-paused"]).code),
        (1, 0)
    );
    for unknown in [
        common::call_at("redis://127.0.0.1:1/", &["check", "q"], ""),
        common::call_at(&server.url(), &["check", "q", "--ready", "6:5"], ""),
    ] {
        assert_eq!(unknown.code, 3, "{unknown:?}");
    }
}

#[test]
fn contexts_name_servers_and_keep_passwords_to_their_owner() {
    let (one, two) = (Server::start(), Server::start());
    let file = one.dir().join("deep/contexts.json");
    let contexts = |args: &[&str]| -> common::Ended {
        let output = program()
            .args(args)
            .env("REDIS_MQ_CONTEXTS", &file)
            .output();
        output.unwrap().into()
    };
    contexts(&["contexts", "set", "one", &one.url()]).ok();
    let secret = format!("redis://:secret@127.0.0.1:{}/", two.port());
    contexts(&["contexts", "set", "two", &secret]).ok();
    contexts(&["contexts", "use", "one"]).ok();
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let listed = contexts(&["contexts"]).ok();
    assert!(
        !listed.contains("secret") && listed.starts_with("* one"),
        "{listed}"
    );
    contexts(&["enqueue", "q", "x"]).ok();
    assert!(!call!(one.conn(), "MQ.INFO", "q").unwrap().is_nil());
    call!(two.conn(), "CONFIG", "SET", "requirepass", "secret").unwrap();
    contexts(&["enqueue", "q", "x", "--context", "two"]).ok();
    assert_eq!(contexts(&["ls", "--context", "three"]).code, 2);
    contexts(&["contexts", "rm", "one"]).ok();
    assert!(!contexts(&["contexts"]).ok().contains('*'));
    assert_eq!(contexts(&["contexts", "rm", "one"]).code, 2);
}

#[test]
fn completions_and_manual_pages_are_made_without_a_server() {
    for shell in ["bash", "zsh", "fish"] {
        let script: common::Ended = program()
            .args(["completions", shell])
            .output()
            .unwrap()
            .into();
        assert!(script.ok().contains("enqueue"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let made: common::Ended = program()
        .arg("man")
        .arg(folder.path())
        .output()
        .unwrap()
        .into();
    made.ok();
    let page = std::fs::read_to_string(folder.path().join("redis-mq-enqueue.1")).unwrap();
    assert!(page.contains("jsonl"), "{page}");
}

#[test]
fn schedules_are_set_listed_fired_and_removed() {
    let server = Server::start();
    let none = run(&server, &["schedules", "ls", "q"]).failed(1);
    assert_eq!(none, "error: no such queue: q\n");
    let nightly = [
        "schedules",
        "set",
        "q",
        "nightly",
        "report",
        "--cron",
        "30 2 * * 1-5",
        "--tz",
        "Europe/Zurich",
        "--overlap",
        "after",
        "--attempts",
        "3",
        "--header",
        "a: b",
    ];
    let set = run(&server, &nightly).ok();
    assert!(set.starts_with("nightly created, next run 20"), "{set}");
    let again = run(&server, &nightly).ok();
    assert!(again.starts_with("nightly same, next run 20"), "{again}");
    let every = ["schedules", "set", "q", "ping", "--every", "5m", "--json"];
    let set = &objects(&run(&server, &every).ok())[0];
    assert_eq!(set["change"], "created");
    assert!(set["next-at"].as_u64() > Some(1_700_000_000_000));
    let over = [
        "schedules",
        "set",
        "q",
        "over",
        "--every",
        "1h",
        "--until",
        "5",
    ];
    let set = run(&server, &over).ok();
    assert_eq!(set, "over created, there is no run any more\n");

    let shown = run(&server, &["schedules", "ls", "q"]).ok();
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(
        line("nightly").contains("30 2 * * 1-5 Europe/Zurich"),
        "{shown}"
    );
    assert!(line("ping").contains("every 5m"), "{shown}");
    let all = objects(&run(&server, &["schedules", "ls", "q", "--json"]).ok());
    let names: Vec<_> = all
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["nightly", "over", "ping"]);
    assert_eq!(all[0]["spec"], "CRON 30 2 * * 1-5");
    assert_eq!(
        (&all[0]["payload"], &all[0]["overlap"]),
        (&"report".into(), &"AFTER".into())
    );

    let fired = run(&server, &["schedules", "fire", "q", "nightly"]).ok();
    assert_eq!(fired, "added nightly\n");
    let message = call!(server.conn(), "MQ.GET", "q", "nightly")
        .unwrap()
        .fields();
    assert_eq!(message["max-attempts"].int(), 3);
    let fired = run(&server, &["schedules", "fire", "q", "none"]).failed(1);
    assert_eq!(fired, "error: no such schedule: none\n");
    let asked = run(&server, &["schedules", "rm", "q", "ping"]).failed(2);
    assert!(asked.contains("say --yes"), "{asked}");
    let removed = run(&server, &["schedules", "rm", "q", "ping", "none", "--yes"]).ok();
    assert_eq!(removed, "1 of 2 removed\n");
    assert_eq!(
        run(&server, &["schedules", "rm", "q", "ping", "-y"]).code,
        1
    );
    for wrong in [
        &["schedules", "set", "q", "a"][..],
        &[
            "schedules",
            "set",
            "q",
            "a",
            "--every",
            "1h",
            "--cron",
            "@daily",
        ],
        &["schedules", "set", "q", "a", "--every", "1h", "--tz", "UTC"],
        &[
            "schedules",
            "set",
            "q",
            "a",
            "--every",
            "1h",
            "--times",
            "0",
        ],
    ] {
        assert_eq!(run(&server, wrong).code, 2, "{wrong:?}");
    }
    let wrong = ["schedules", "set", "q", "a", "--cron", "every day"];
    let error = run(&server, &wrong).failed(4);
    assert!(error.contains("five fields"), "{error}");
}
