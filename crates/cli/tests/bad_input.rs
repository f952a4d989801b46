//! Wrong addresses, wrong rights, wrong input: one clear line, its exit code, and nothing changed.

mod common;

use common::{call_at, call_with, run};
use redis_mq_testkit::{call, digest, FreePort, ReplyExt as _, Server};

#[test]
fn a_server_that_is_not_there_is_told() {
    let port = FreePort::claim();
    let url = format!("redis://127.0.0.1:{}/", port.number());
    for args in [&["ls"][..], &["enqueue", "q", "x"], &["get", "q", "x"]] {
        let line = call_at(&url, args, "").failed(3);
        assert!(
            line.contains("127.0.0.1") && line.contains("refused"),
            "{line}"
        );
    }
}

#[test]
fn a_wrong_address_is_told_without_its_password() {
    for url in [
        "http://:secret@h/",
        "secret",
        "redis://:secret@h:x/",
        "redis+sentinel://:secret@h",
    ] {
        let line = call_at(url, &["ls"], "").failed(2);
        assert!(
            line.contains("address") && !line.contains("secret"),
            "{line}"
        );
    }
}

#[test]
fn a_password_that_is_wrong_or_missing_is_told() {
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "CONFIG", "SET", "requirepass", "right").unwrap();
    let port = server.port();
    for url in [format!("redis://:wrong@127.0.0.1:{port}/"), server.url()] {
        let line = call_at(&url, &["ls"], "").failed(3);
        assert!(
            line.contains("password") && !line.contains("wrong@"),
            "{line}"
        );
    }
    call_at(&format!("redis://:right@127.0.0.1:{port}/"), &["ls"], "").ok();
}

#[test]
fn tls_to_a_server_without_it_is_told() {
    // The server waits for more of what is no command; its patience decides how long that takes.
    let server = Server::builder().config("timeout", 1).start();
    let url = format!("rediss://127.0.0.1:{}/", server.port());
    call_at(&url, &["ls"], "").failed(3);
}

#[test]
fn a_server_without_the_module_is_told() {
    let server = Server::builder().no_module().start();
    for args in [
        &["info", "q"][..],
        &["enqueue", "q", "x"],
        &["pause", "q"],
        &["limit", "q"],
    ] {
        let line = run(&server, args).failed(4);
        assert!(line.contains("module is not loaded"), "{line}");
    }
}

#[test]
fn a_key_of_another_type_is_told_and_stays() {
    let server = Server::start();
    call!(server.conn(), "SET", "q", "text").unwrap();
    for args in [
        &["enqueue", "q", "x"][..],
        &["info", "q"],
        &["get", "q", "x"],
        &["cancel", "q", "x", "--yes"],
        &["groups", "q"],
        &["schedules", "ls", "q"],
        &["schedules", "fire", "q", "x"],
        &["limit", "q", "--length", "5"],
        &["pause", "q"],
    ] {
        let line = run(&server, args).failed(4);
        assert!(line.contains("another type"), "{args:?}: {line}");
    }
    assert_eq!(call!(server.conn(), "GET", "q").unwrap().text(), "text");
}

#[test]
fn a_user_without_rights_is_told() {
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "ACL", "SETUSER", "eve", "on", ">pw", "~q", "+mq.info", "+client").unwrap();
    let url = format!("redis://eve:pw@127.0.0.1:{}/", server.port());
    let line = call_at(&url, &["enqueue", "q", "x"], "").failed(4);
    assert!(line.contains("may not"), "{line}");
    call_at(&url, &["info", "other"], "").failed(4);
    call_at(&url, &["info", "q"], "").failed(1);
}

#[test]
fn half_a_line_of_json_changes_nothing() {
    let server = Server::start();
    run(&server, &["enqueue", "q", "x", "--id", "0"]).ok();
    let before = digest(&mut server.conn(), "q");
    let mut lines: String = (1..2_000)
        .map(|n| format!("{{\"id\":\"{n}\",\"payload\":\"x\"}}\n"))
        .collect();
    lines += "{\"id\":\"9\",\"pay";
    let line = call_with(&server, &["enqueue", "q", "--jsonl"], &lines).failed(2);
    assert!(
        line.contains("line 2000") && line.contains("nothing was sent"),
        "{line}"
    );
    assert_eq!(digest(&mut server.conn(), "q"), before);
    let line = call_with(&server, &["enqueue", "q", "--jsonl", "--stream"], &lines).failed(2);
    assert!(line.contains("1999 messages before it were sent"), "{line}");
}

#[test]
fn wrong_arguments_are_told_before_the_server_is_asked() {
    for args in [
        &["enqueue", "q", "a", "b", "--id", "1"][..],
        &["enqueue", "q", "a", "--delay", "soon"],
        &["enqueue", "q", "a", "--bury"],
        &["enqueue", "q", "a", "--header", "nothing"],
        &["enqueue", "q", "--jsonl", "a"],
        &["limit", "q", "--length", "0"],
        &["limit", "q", "--rate", "5"],
        &["pause", "q", "--for", "0"],
        &["nonsense"],
        &["ls", "--url", "redis://h/", "--context", "c"],
    ] {
        let ended = call_at("redis://127.0.0.1:1/", args, "");
        assert_eq!(ended.code, 2, "{ended:?}");
    }
    let line = call_at(
        "redis://127.0.0.1:1/",
        &["enqueue", "q", "--file", "/nonexistent"],
        "",
    );
    assert!(line.failed(5).contains("/nonexistent"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let server = Server::start();
    let lines: String = (0..3_000)
        .map(|n| format!("{{\"id\":\"{n}\",\"payload\":\"x\"}}\n"))
        .collect();
    call_with(&server, &["enqueue", "q", "--jsonl"], &lines).ok();
    let program = env!("CARGO_BIN_EXE_redis-mq");
    let script = format!(
        "{program} get q --json $(seq 0 2999) | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .env("REDIS_MQ_URL", server.url())
        .output()
        .unwrap();
    let ended = common::Ended::from(output);
    assert_eq!(ended.ok(), "0\n");
}
