//! Peeking, finding, and repairing: dead letters, purges, moves.

mod common;

use common::{call_with, objects, run};
use redis_mq_testkit::{call, digest, ReplyExt as _, Server};

fn enqueue(server: &Server, count: usize) {
    let lines: String = (0..count)
        .map(|n| format!("{{\"id\":\"m{n}\",\"payload\":{{\"n\":{n}}}}}\n"))
        .collect();
    call_with(server, &["enqueue", "q", "--jsonl"], &lines).ok();
}

/// Makes dead letters of the first ones.
fn kill(server: &Server, count: usize) {
    let mut conn = server.conn();
    for delivery in call!(conn, "MQ.DEQUEUE", "q", "COUNT", count)
        .unwrap()
        .items()
    {
        let delivery = delivery.items();
        let (id, token) = (delivery[0].bytes(), delivery[3].int());
        call!(
            conn,
            "MQ.DONE",
            "q",
            id,
            token,
            "ERROR",
            "REASON",
            "no such user"
        )
        .unwrap();
    }
}

fn counts(server: &Server, queue: &str) -> [i64; 4] {
    let info = call!(server.conn(), "MQ.INFO", queue).unwrap().fields();
    ["queued", "queued-with-backoff", "locked", "dead"].map(|name| info[name].int())
}

#[test]
fn peeking_shows_what_comes_next_and_takes_nothing() {
    let server = Server::start();
    enqueue(&server, 30);
    call!(
        server.conn(),
        "MQ.ENQUEUE",
        "q",
        "first",
        "ID",
        "p",
        "PRIORITY",
        0
    )
    .unwrap();
    let before = digest(&mut server.conn(), "q");
    let out = run(&server, &["peek", "q", "-n", "3"]).ok();
    let ids: Vec<_> = out
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(ids, ["ID", "p", "m0", "m1"]);
    assert!(out.lines().nth(2).unwrap().ends_with(r#"{"n":0}"#), "{out}");
    let after = [
        "peek", "q", "--status", "queued", "--after", "m27", "--json",
    ];
    let listed = objects(&run(&server, &after).ok());
    assert_eq!(
        listed
            .iter()
            .map(|message| &message["id"])
            .collect::<Vec<_>>(),
        ["m28", "m29"]
    );
    assert_eq!(digest(&mut server.conn(), "q"), before);
    assert_eq!(run(&server, &["peek", "q", "--status", "dead"]).code, 1);
    run(&server, &["peek", "none"]).failed(1);
    run(&server, &["peek", "q", "--status", "nonsense"]).failed(4);
}

#[test]
fn messages_are_found_by_id_payload_and_status() {
    let server = Server::start();
    enqueue(&server, 2_500);
    kill(&server, 2);
    let found = |args: &[&str]| {
        let out = run(&server, &[&["find", "q"], args].concat()).out;
        let mut ids: Vec<String> = out
            .lines()
            .map(|line| line.split(' ').next().unwrap().into())
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(found(&["m249?"]).len(), 10);
    assert_eq!(found(&["--text", "\"n\":2499}"]), ["m2499"]);
    assert_eq!(found(&["m1*", "--text", ":1}"]), ["m1"]);
    assert_eq!(found(&["--status", "dead"]), ["m0", "m1"]);
    assert_eq!(found(&["*"]).len(), 2_500);
    assert_eq!(found(&["*", "-n", "7"]).len(), 7);
    assert_eq!(run(&server, &["find", "q", "x*"]).code, 1);
    let one = &objects(&run(&server, &["find", "q", "m0", "--json"]).ok())[0];
    assert_eq!(
        (&one["reason"], &one["payload"]),
        (&"no such user".into(), &"{\"n\":0}".into())
    );
}

#[test]
fn ten_thousand_dead_letters_are_looked_at_and_sent_again() {
    let server = Server::start();
    enqueue(&server, 10_000);
    kill(&server, 10_000);
    let listed = run(&server, &["dead", "list", "q", "-n", "2"]).ok();
    assert!(
        listed.contains("m9999") && listed.contains("no such user"),
        "{listed}"
    );
    assert!(run(&server, &["dead", "show", "q", "m5"])
        .ok()
        .contains("no such user"));
    let refused = run(&server, &["dead", "redrive", "q", "--all"]).failed(2);
    assert!(refused.contains("10000 dead letters"), "{refused}");
    let sent = run(
        &server,
        &["dead", "redrive", "q", "m7", "m8", "none", "--yes"],
    )
    .ok();
    assert_eq!(sent, "2 of 3 sent again\n");
    let sent = run(
        &server,
        &["dead", "redrive", "q", "--count", "1500", "--yes"],
    )
    .ok();
    assert_eq!(sent, "1500 of 1500 sent again\n");
    assert_eq!(counts(&server, "q"), [1_502, 0, 0, 8_498]);
    let sent = run(&server, &["dead", "redrive", "q", "--all", "--yes"]).ok();
    assert_eq!(sent, "8498 of 8498 sent again\n");
    assert_eq!(counts(&server, "q"), [10_000, 0, 0, 0]);
    assert_eq!(run(&server, &["dead", "redrive", "q"]).code, 2);
}

#[test]
fn purging_tells_how_many_before_and_takes_only_what_was_named() {
    let server = Server::start();
    enqueue(&server, 3_000);
    kill(&server, 5);
    call!(server.conn(), "MQ.DEQUEUE", "q", "COUNT", 10).unwrap();
    call!(server.conn(), "MQ.ENQUEUE", "q", "x", "DELAY", 60_000).unwrap();
    let refused = run(&server, &["purge", "q", "--status", "queued"]).failed(2);
    assert!(refused.contains("2985 queued messages"), "{refused}");
    assert_eq!(
        run(&server, &["dead", "purge", "q", "--yes"]).ok(),
        "5 removed\n"
    );
    assert_eq!(counts(&server, "q"), [2_985, 1, 10, 0]);
    assert_eq!(
        run(&server, &["purge", "q", "--status", "queued", "-y"]).ok(),
        "2985 removed\n"
    );
    assert_eq!(
        run(&server, &["purge", "q", "--all", "-y"]).ok(),
        "1 removed\n"
    );
    assert_eq!(counts(&server, "q"), [0, 0, 10, 0]);
    assert_eq!(
        run(&server, &["purge", "q", "--status", "locked", "-y"]).ok(),
        "10 removed\n"
    );
    run(&server, &["purge", "q", "--status", "total-done", "-y"]).failed(4);
    run(&server, &["purge", "none", "--all", "-y"]).failed(1);
}

#[test]
fn messages_move_with_all_they_have_and_in_their_order() {
    let server = Server::start();
    let mut conn = server.conn();
    enqueue(&server, 250);
    call!(
        conn,
        "MQ.ENQUEUE",
        "q",
        b"\xff\0",
        "ID",
        "all",
        "PRIORITY",
        9,
        "GROUP",
        "g",
        "LOCK",
        7_000,
        "ATTEMPTS",
        3,
        "TTL",
        3_600_000,
        "HEADERS",
        "a: b"
    )
    .unwrap();
    call!(
        conn,
        "MQ.ENQUEUE",
        "q",
        "later",
        "ID",
        "later",
        "DELAY",
        3_600_000
    )
    .unwrap();
    call!(conn, "MQ.ENQUEUE", "to", "other", "ID", "m3").unwrap();
    run(&server, &["move", "q", "to"]).failed(2);
    let before = call!(conn, "MQ.GET", "q", "all").unwrap().fields();
    assert_eq!(
        run(&server, &["move", "q", "to", "--yes"]).ok(),
        "250 moved, 1 stayed\n"
    );
    let after = call!(conn, "MQ.GET", "to", "all").unwrap().fields();
    for field in [
        "payload",
        "priority",
        "group",
        "lock-ms",
        "max-attempts",
        "headers",
    ] {
        assert_eq!(before[field], after[field], "{field}");
    }
    let drift = before["expires-at"].int() - after["expires-at"].int();
    assert!(drift.abs() < 60_000, "{drift}");
    // What has that id already was there first, and the rest comes in its order.
    let next = call!(conn, "MQ.DEQUEUE", "to", "COUNT", 4).unwrap();
    let ids: Vec<_> = next
        .items()
        .iter()
        .map(|delivery| delivery.items()[0].text())
        .collect();
    assert_eq!(ids, ["m3", "m0", "m1", "m2"]);
    assert_eq!(counts(&server, "q"), [1, 1, 0, 0]);
    let again = run(&server, &["move", "q", "to", "--yes"]);
    assert_eq!((again.code, &*again.out), (1, "0 moved, 1 stayed\n"));
    let delayed = [
        "move",
        "q",
        "to",
        "--status",
        "queued-with-backoff",
        "--yes",
    ];
    let due = call!(conn, "MQ.GET", "q", "later").unwrap().fields()["due-at"].int();
    assert_eq!(run(&server, &delayed).ok(), "1 moved, 0 stayed\n");
    let moved = call!(conn, "MQ.GET", "to", "later").unwrap().fields();
    assert_eq!(moved["due-at"].int(), due);
}

#[test]
fn a_move_to_a_full_queue_stops_and_says_so() {
    let server = Server::start();
    enqueue(&server, 20);
    call!(server.conn(), "MQ.LIMIT", "to", "LENGTH", 5).unwrap();
    let line = run(&server, &["move", "q", "to", "--yes"]).failed(4);
    assert!(
        line.contains("FULL") && line.contains("5 were moved"),
        "{line}"
    );
    assert_eq!((counts(&server, "q")[0], counts(&server, "to")[0]), (15, 5));
    assert_eq!(run(&server, &["move", "q", "q", "--yes"]).code, 2);
    let named = run(&server, &["move", "q", "third", "m5", "m9", "--yes"]).ok();
    assert_eq!(named, "2 moved, 0 stayed\n");
}

#[test]
fn a_benchmark_measures_and_leaves_nothing() {
    let server = Server::start();
    let out = run(&server, &["bench", "-n", "1200", "--json"]).ok();
    let measured = &objects(&out)[0];
    for name in [
        "enqueue-per-second",
        "dequeue-per-second",
        "done-per-second",
        "wait-p50-us",
    ] {
        assert!(measured[name].as_f64().unwrap() > 0.0, "{out}");
    }
    assert_eq!(call!(server.conn(), "DBSIZE").unwrap().int(), 0);
    assert!(run(&server, &["bench", "-n", "600"])
        .ok()
        .contains("a second"));
}
