//! `work`: what the end of a command means, and what the command is told.

mod common;

use std::fs;

use common::{
    call_with, objects, run,
    worker::{all_gone, numbers, runs, work, Worker},
};
use redis_mq_testkit::{call, wait_until, ReplyExt as _, Server, PATIENCE};

fn enqueue(server: &Server, id: &str, payload: &str) {
    call!(server.conn(), "MQ.ENQUEUE", "q", payload, "ID", id).unwrap();
}

fn field(server: &Server, id: &str, name: &str) -> String {
    let message = call!(server.conn(), "MQ.GET", "q", id).unwrap();
    if message.is_nil() {
        return String::new();
    }
    match message.fields().get(name) {
        Some(redis_mq_testkit::Value::Int(number)) => number.to_string(),
        Some(value) if !value.is_nil() => value.text(),
        _ => String::new(),
    }
}

fn status(server: &Server, id: &str) -> String {
    let status = call!(server.conn(), "MQ.STATUS", "q", id).unwrap();
    if status.is_nil() {
        "none".into()
    } else {
        status.text()
    }
}

/// The payload is the script.
const PAYLOAD: &str = r#"eval "$(cat)""#;

#[test]
fn the_exit_code_is_the_verdict() {
    let server = Server::start();
    for (id, script) in [
        ("good", "echo fine"),
        ("data", "echo noise >&2; echo 'bad address' >&2; exit 65"),
        ("own", "exit 9"),
        ("temporary", "echo 'try later' >&2; exit 75"),
        ("other", "exit 1"),
        ("signal", "kill -9 $$"),
    ] {
        enqueue(&server, id, script);
    }
    let ended = work(&server, &["--dead-on", "9"], PAYLOAD);
    assert_eq!(ended.code, 0, "{ended:?}");
    for (id, expected, reason) in [
        ("good", "none", ""),
        ("data", "dead", "bad address"),
        ("own", "dead", "exit code 9"),
        ("temporary", "queued-with-backoff", "try later"),
        ("other", "queued-with-backoff", "exit code 1"),
        ("signal", "queued-with-backoff", "killed by signal 9"),
    ] {
        assert_eq!(status(&server, id), expected, "{id}: {ended:?}");
        assert_eq!(field(&server, id, "reason"), reason, "{id}");
    }
    assert_eq!(ended.out, "[good] fine\n");
    assert!(ended.err.contains("[data] bad address\n"), "{}", ended.err);
}

#[test]
fn a_retry_comes_after_the_time_that_was_given() {
    let server = Server::start();
    enqueue(&server, "1", "exit 1");
    work(&server, &["--retry-after", "1h"], PAYLOAD);
    let due: u64 = field(&server, "1", "due-at").parse().unwrap();
    let enqueued: u64 = field(&server, "1", "enqueued-at").parse().unwrap();
    assert!(
        (3_600_000..3_700_000).contains(&(due - enqueued)),
        "{due} {enqueued}"
    );
}

#[test]
fn a_message_without_a_limit_of_its_own_gets_the_workers() {
    let server = Server::start();
    enqueue(&server, "1", "echo no luck >&2; exit 1");
    call!(
        server.conn(),
        "MQ.ENQUEUE",
        "q",
        "exit 1",
        "ID",
        "2",
        "ATTEMPTS",
        4
    )
    .unwrap();
    work(&server, &["--attempts", "2", "--retry-after", "0"], PAYLOAD);
    assert_eq!(status(&server, "1"), "dead");
    assert_eq!(field(&server, "1", "reason"), "no attempts left: no luck");
    assert_eq!(field(&server, "1", "attempts"), "2");
    assert_eq!(status(&server, "2"), "dead");
    assert_eq!(field(&server, "2", "attempts"), "4");
}

#[test]
fn the_limit_of_the_queue_wins_over_the_workers() {
    let server = Server::start();
    call!(server.conn(), "MQ.LIMIT", "q", "ATTEMPTS", 3).unwrap();
    enqueue(&server, "1", "exit 1");
    work(&server, &["--attempts", "2", "--retry-after", "0"], PAYLOAD);
    assert_eq!(status(&server, "1"), "dead");
    assert_eq!(field(&server, "1", "attempts"), "3");
}

#[test]
fn a_message_whose_workers_never_answered_is_not_run_for_ever() {
    let server = Server::start();
    enqueue(&server, "1", "touch $FOLDER/ran");
    for _ in 0..3 {
        let mut conn = server.conn();
        call!(conn, "MQ.DEQUEUE", "q", "LOCK", 1, "BLOCK", 5_000).unwrap();
        wait_until(PATIENCE, || status(&server, "1") == "queued");
    }
    work(&server, &["--attempts", "3"], PAYLOAD);
    assert_eq!(status(&server, "1"), "dead");
    assert!(!server.dir().join("ran").exists());
}

#[test]
fn the_command_gets_the_payload_and_what_is_known_of_the_message() {
    let server = Server::start();
    let payload: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    let headers = "traceparent: 00-1-2-01\ntracestate: a=b\nbaggage: c=d\nother: e";
    let mut conn = server.conn();
    call!(
        conn,
        "MQ.ENQUEUE",
        "q",
        &payload[..],
        "ID",
        b"i\0d",
        "GROUP",
        "g",
        "HEADERS",
        headers
    )
    .unwrap();
    let script = r#"cat >$FOLDER/payload; printf '%s|' "$MQ_QUEUE" "$MQ_ID" "$MQ_ATTEMPT" "$MQ_GROUP" \
        "$TRACEPARENT" "$TRACESTATE" "$BAGGAGE" "$MQ_HEADERS" "${#MQ_TOKEN}" "${#MQ_ENQUEUED_AT}" \
        "${MQ_SCHEDULED_AT-none}" >$FOLDER/told"#;
    assert_eq!(work(&server, &[], script).code, 0);
    assert_eq!(fs::read(server.dir().join("payload")).unwrap(), payload);
    let told = fs::read_to_string(server.dir().join("told")).unwrap();
    assert_eq!(told, "q|i\\0d|1|g|00-1-2-01|a=b|c=d|other: e|16|13|none|");
}

#[test]
fn a_command_that_closes_its_input_is_no_failure() {
    let server = Server::start();
    enqueue(&server, "1", &"x".repeat(5_000_000));
    assert_eq!(work(&server, &[], "exec <&-; exit 0").code, 0);
    assert_eq!(status(&server, "1"), "none");
}

#[test]
fn megabytes_of_output_come_through_and_long_lines_in_pieces() {
    let server = Server::start();
    enqueue(&server, "1", "");
    let script = "seq 200000; head -c 3000000 /dev/zero | tr '\\0' x >&2; printf '\\xff\\n'";
    let ended = work(&server, &[], script);
    assert_eq!(status(&server, "1"), "none");
    assert_eq!(ended.out.lines().count(), 200_001);
    assert!(ended.out.lines().all(|line| line.starts_with("[1] ")));
    assert_eq!(ended.err.matches('x').count(), 3_000_000);
}

#[test]
fn json_tells_lines_and_verdicts() {
    let server = Server::start();
    enqueue(&server, "1", "echo out; echo err >&2; exit 65");
    let ended = work(&server, &["--json"], PAYLOAD);
    let mut lines = objects(&ended.out);
    let verdict = lines.pop().unwrap();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines
        .iter()
        .any(|line| line["stdout"] == "out" && line["id"] == "1"));
    assert!(lines
        .iter()
        .any(|line| line["stderr"] == "err" && line["queue"] == "q"));
    assert_eq!(
        verdict,
        serde_json::json!({"queue": "q", "id": "1", "attempt": 1, "verdict": "error",
            "became": "dead", "reason": "err"})
    );
}

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let server = Server::start();
    enqueue(&server, "1", "");
    let script = "trap '' TERM; sleep 300 & echo $$ $! >$FOLDER/started; wait; sleep 300";
    work(&server, &["--timeout", "200ms", "--grace", "200ms"], script);
    assert_eq!(field(&server, "1", "reason"), "timeout");
    all_gone(server.dir(), "started");
}

#[test]
fn a_command_that_heeds_sigterm_has_the_grace_time() {
    let server = Server::start();
    enqueue(&server, "1", "");
    let script = "trap 'touch $FOLDER/heeded; exit 0' TERM; sleep 300 & wait";
    work(&server, &["--timeout", "200ms", "--grace", "1m"], script);
    assert!(server.dir().join("heeded").exists());
    assert_eq!(field(&server, "1", "reason"), "timeout");
}

#[test]
fn what_a_command_leaves_behind_is_ended() {
    let server = Server::start();
    enqueue(&server, "1", "");
    let script = "(trap '' TERM; sleep 300) & (sleep 300) & jobs -p >$FOLDER/started; exit 0";
    work(&server, &["--grace", "100ms"], script);
    assert_eq!(status(&server, "1"), "none");
    all_gone(server.dir(), "started");
}

#[test]
fn a_command_that_is_not_there_ends_the_worker_and_no_message_is_dead() {
    let server = Server::start();
    let lines: String = (0..1_000).map(|n| format!("{n}\n")).collect();
    call_with(&server, &["enqueue", "q", "--attempts", "1"], &lines).ok();
    let plain = server.dir().join("plain");
    fs::write(&plain, "no program").unwrap();
    for (command, code) in [
        ("nonsense-that-is-not-there", 127),
        (plain.to_str().unwrap(), 126),
        ("nonsense-that-is-not-there", 127),
    ] {
        let args = ["q", "--concurrency", "20", "--grace", "0", "--", command];
        let ended = Worker::on(&server, &args).ended();
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.err.contains("redis-mq: "), "{ended:?}");
        let info = call!(server.conn(), "MQ.INFO", "q").unwrap().fields();
        assert_eq!((info["queued"].int(), info["dead"].int()), (1_000, 0));
    }
    // The first one comes first, and no attempt counted.
    let first = call!(server.conn(), "MQ.DEQUEUE", "q").unwrap();
    assert_eq!(
        (first.items()[1].text(), first.items()[2].int()),
        ("0".into(), 1)
    );
}

#[test]
fn what_leaves_its_group_is_left_alone_and_leaves_no_zombie() {
    let server = Server::start();
    let script =
        "setsid sh -c 'echo $$ >$FOLDER/daemon; until [ -e $FOLDER/go ]; do sleep 0.01; done' \
        <&- >&- 2>&- & until [ -s $FOLDER/daemon ]; do sleep 0.01; done";
    enqueue(&server, "1", script);
    let mut worker = Worker::on(&server, &["q", "--", "bash", "-c", PAYLOAD]);
    wait_until(PATIENCE, || status(&server, "1") == "none");
    let daemon = numbers(server.dir(), "daemon")[0];
    assert!(runs(daemon));
    fs::write(server.dir().join("go"), "").unwrap();
    wait_until(PATIENCE, || !runs(daemon));
    // The next message's end is the time to look.
    enqueue(&server, "2", "true");
    let entry = format!("/proc/{daemon}");
    wait_until(PATIENCE, || !std::path::Path::new(&entry).exists());
    assert_eq!(worker.stop().code, 0);
}

#[test]
fn several_queues_are_worked_on_at_once() {
    let server = Server::start();
    for number in 0..10 {
        run(&server, &["enqueue", "a", &number.to_string()]).ok();
        run(&server, &["enqueue", "b", &number.to_string()]).ok();
    }
    let args = [
        "a",
        "b",
        "-c",
        "3",
        "--until-empty",
        "--",
        "sh",
        "-c",
        "echo $MQ_QUEUE",
    ];
    let ended = Worker::on(&server, &args).ended();
    let count = |queue: &str| {
        ended
            .out
            .lines()
            .filter(|line| line.ends_with(queue))
            .count()
    };
    assert_eq!((ended.code, count("a"), count("b")), (0, 10, 10));
}

#[test]
fn what_a_command_prints_can_be_the_result() {
    let server = Server::start();
    let result = |id: &str| {
        let known = call!(server.conn(), "MQ.RESULT", "q", id).unwrap();
        (!known.is_nil()).then(|| (known.items()[0].text(), known.items()[1].clone()))
    };
    for (id, script) in [
        ("binary", r"printf 'a\xff\n\0b'"),
        ("nothing", "echo noise >&2"),
        ("again", "echo half; exit 1"),
        ("full", "head -c 1048576 /dev/zero"),
        ("over", "head -c 1048577 /dev/zero"),
    ] {
        enqueue(&server, id, script);
    }
    let ended = work(&server, &["--result", "--retain", "1h"], PAYLOAD);
    assert_eq!((ended.code, &*ended.out), (0, ""), "{}", ended.err);
    let bytes = |id| match result(id) {
        Some((what, value)) if what == "done" => value.bytes().to_vec(),
        other => panic!("{id}: {other:?}"),
    };
    assert_eq!(bytes("binary"), b"a\xff\n\0b");
    assert_eq!(bytes("nothing"), b"");
    assert_eq!(bytes("full"), vec![0; 1 << 20]);
    assert_eq!(status(&server, "again"), "queued-with-backoff");
    assert_eq!(status(&server, "over"), "dead");
    let reason = "its result is longer than 1 MiB";
    assert_eq!(field(&server, "over", "reason"), reason);
    // Without the option it is printed, and nothing is kept.
    enqueue(&server, "plain", "echo fine");
    assert_eq!(work(&server, &[], PAYLOAD).out, "[plain] fine\n");
    assert_eq!(result("plain"), None);
}

#[test]
fn wrong_calls_end_at_once() {
    let server = Server::start();
    call!(server.conn(), "SET", "text", "x").unwrap();
    let line = run(&server, &["work", "text", "--", "true"]).failed(4);
    assert!(line.contains("another type"), "{line}");
    let url = "redis://127.0.0.1:1/";
    common::call_at(url, &["work", "q", "--", "true"], "").failed(3);
    for args in [
        &["work", "q"][..],
        &["work", "--", "true"],
        &["work", "q", "--dead-on", "127", "--", "true"],
        &["work", "q", "--lock", "1ms", "--", "true"],
        &["work", "q", "--concurrency", "0", "--", "true"],
    ] {
        assert_eq!(common::call_at(url, args, "").code, 2, "{args:?}");
    }
    let bare = Server::builder().no_module().start();
    let line = run(&bare, &["work", "q", "--", "true"]).failed(4);
    assert!(line.contains("module is not loaded"), "{line}");
}
