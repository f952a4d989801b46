//! `web`: each action, by plain HTTP.

mod common;

use common::site::{bury, Site};
use redis_mq_testkit::{call, wait_until, ReplyExt as _, Server, PATIENCE};

fn letters(conn: &mut redis_mq_testkit::redis::Connection, queue: &str) -> i64 {
    call!(*conn, "MQ.INFO", queue).unwrap().fields()["dead"].int()
}

#[test]
fn letters_are_sent_again_and_removed_after_their_number_was_told() {
    let server = Server::start();
    let mut conn = server.conn();
    for number in 0..5 {
        bury(&mut conn, "q", &format!("m{number}"), "bad");
    }
    let site = Site::start(&server, &[]);
    let body = site.get("/queue?name=q&status=dead").ok();
    assert!(
        body.find("id=m4") < body.find("id=m0"),
        "the newest first: {body}"
    );
    // Asking changes nothing.
    let some = [("do", "redrive"), ("name", "q"), ("id", "m0"), ("id", "m1")];
    site.post(&some).ok();
    assert_eq!(letters(&mut conn, "q"), 5);
    let sent = site.post_surely(&some, "Send 2 dead letters again?");
    let page = site.get(sent.header("location").unwrap()).ok();
    assert!(page.contains("2 sent again"), "{page}");
    assert_eq!(letters(&mut conn, "q"), 3);
    // A letter whose id lives again is no reason to remove what lives.
    call!(conn, "MQ.ENQUEUE", "q", "new", "ID", "m2").unwrap();
    let two = [("do", "drop"), ("name", "q"), ("id", "m2"), ("id", "m3")];
    let gone = site.post_surely(&two, "Remove 2 dead letters?");
    let page = site.get(gone.header("location").unwrap()).ok();
    assert!(page.contains("1 removed"), "{page}");
    assert_eq!(
        call!(conn, "MQ.STATUS", "q", "m2").unwrap().text(),
        "queued"
    );
    assert_eq!(letters(&mut conn, "q"), 2);
    call!(conn, "MQ.CANCEL", "q", "m2").unwrap();
    let all = [("do", "redrive-all"), ("name", "q")];
    let sent = site.post_surely(&all, "Send 1 dead letter again?");
    let page = site.get(sent.header("location").unwrap()).ok();
    assert!(page.contains("1 of 1 sent again"), "{page}");
    let nothing = [("do", "redrive"), ("name", "q")];
    assert_eq!(site.post(&nothing).status, 400);
}

#[test]
fn many_letters_are_sent_again_in_steps() {
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "MQ.LIMIT", "q", "DEAD", 100_000).unwrap();
    for _ in 0..3_500 {
        call!(conn, "MQ.ENQUEUE", "q", "x", "TTL", 1, "BURY").unwrap();
    }
    wait_until(PATIENCE, || letters(&mut conn, "q") == 3_500);
    let site = Site::start(&server, &["--budget", "100"]);
    let all = [("do", "redrive-all"), ("name", "q")];
    site.post_surely(&all, "Send 3500 dead letters again?");
    wait_until(PATIENCE, || letters(&mut conn, "q") == 0);
    let purge = [("do", "purge"), ("name", "q"), ("status", "queued")];
    site.post_surely(&purge, "Remove 3500 queued messages?");
    wait_until(PATIENCE, || {
        call!(conn, "MQ.INFO", "q").unwrap().fields()["messages"].int() == 0
    });
    // No step was a long one.
    let stats = call!(conn, "INFO", "commandstats").unwrap().text();
    for command in ["mq.redrive", "mq.purge"] {
        let calls = stats
            .split(&format!("cmdstat_{command}:calls="))
            .nth(1)
            .unwrap();
        let calls: u64 = calls.split(',').next().unwrap().parse().unwrap();
        assert!(calls >= 4, "{command}: {calls}");
    }
}

#[test]
fn queues_and_groups_are_paused_and_go_on() {
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "MQ.ENQUEUE", "q", "x", "GROUP", "shop").unwrap();
    let site = Site::start(&server, &[]);
    let mut paused = |queue: &str| call!(conn, "MQ.INFO", queue).unwrap().fields()["paused"].int();
    assert_eq!(site.post(&[("do", "pause"), ("name", "q")]).status, 303);
    assert_eq!(paused("q"), 1);
    assert!(site.get("/queue?name=q").ok().contains("Resume"));
    site.post(&[("do", "resume"), ("name", "q")]);
    assert_eq!(paused("q"), 0);
    site.post(&[("do", "pause"), ("name", "q"), ("for", "1h")]);
    let page = site.get("/queue?name=q").ok();
    assert!(
        page.contains("goes on") && page.contains("in 59m"),
        "{page}"
    );
    site.post(&[("do", "resume"), ("name", "q")]);
    assert_eq!(
        site.post(&[("do", "pause"), ("name", "q"), ("for", "soon")])
            .status,
        400
    );
    assert_eq!(paused("q"), 0);
    site.post(&[("do", "pause"), ("name", "q"), ("group", "shop")]);
    let page = site.get("/groups?name=q").ok();
    assert!(page.contains("shop") && page.contains("paused"), "{page}");
    site.post(&[("do", "resume"), ("name", "q"), ("group", "shop")]);
    assert!(!site.get("/groups?name=q").ok().contains("paused"));
}

#[test]
fn limits_are_shown_and_only_what_was_touched_is_set() {
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "MQ.LIMIT", "q", "LENGTH", 10, "RATE", 50, 60_000, "DEAD-AGE", 86_400_000).unwrap();
    let site = Site::start(&server, &[]);
    let page = site.get("/limits?name=q").ok();
    for part in [
        "name=\"length\" value=\"10\"",
        "value=\"50/1m\"",
        "value=\"1d\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Meanwhile somebody else sets another one.
    call!(conn, "MQ.LIMIT", "q", "LENGTH", 99).unwrap();
    let form = [
        ("do", "limit"),
        ("name", "q"),
        ("of", "queue"),
        ("length", "10"),
        ("was-length", "10"),
        ("rate", ""),
        ("was-rate", "50/1m"),
        ("inflight", "3"),
        ("was-inflight", ""),
    ];
    assert_eq!(site.post(&form).status, 303);
    let page = site.get("/limits?name=q").ok();
    assert!(page.contains("name=\"length\" value=\"99\""), "{page}");
    assert!(page.contains("name=\"rate\" value=\"\""), "{page}");
    assert!(page.contains("name=\"inflight\" value=\"3\""), "{page}");
    let wrong = [("do", "limit"), ("name", "q"), ("length", "many")];
    assert_eq!(site.post(&wrong).status, 400);
    let group = [
        ("do", "limit"),
        ("name", "q"),
        ("of", "group"),
        ("group", "shop"),
        ("inflight", "7"),
    ];
    assert_eq!(site.post(&group).status, 303);
    let page = site.get("/limits?name=q&of=group&group=shop").ok();
    assert!(
        page.contains("name=\"inflight\" value=\"7\"") && !page.contains("dead-age"),
        "{page}"
    );
    let each = [
        ("do", "limit"),
        ("name", "q"),
        ("of", "groups"),
        ("inflight", "2"),
    ];
    assert_eq!(site.post(&each).status, 303);
    assert!(site
        .get("/limits?name=q&of=groups")
        .ok()
        .contains("value=\"2\""));
}

#[test]
fn messages_are_removed_one_by_one_and_by_status() {
    let server = Server::start();
    let mut conn = server.conn();
    for id in ["a", "b", "c"] {
        call!(conn, "MQ.ENQUEUE", "q", "x", "ID", id).unwrap();
    }
    call!(conn, "MQ.ENQUEUE", "q", "x", "ID", "d", "DELAY", 3_600_000).unwrap();
    call!(conn, "MQ.DEQUEUE", "q").unwrap();
    let site = Site::start(&server, &[]);
    let one = [("do", "cancel"), ("name", "q"), ("id", "b")];
    site.post_surely(&one, "Remove 1 message?");
    assert_eq!(site.get("/message?name=q&id=b").status, 404);
    let delayed = [
        ("do", "purge"),
        ("name", "q"),
        ("status", "queued-with-backoff"),
    ];
    site.post_surely(&delayed, "Remove 1 queued-with-backoff message?");
    assert_eq!(site.get("/message?name=q&id=d").status, 404);
    let all = [("do", "purge"), ("name", "q"), ("status", "ALL")];
    site.post_surely(&all, "Remove 1 message?");
    assert_eq!(site.get("/message?name=q&id=c").status, 404);
    assert_eq!(site.get("/message?name=q&id=a").status, 200);
}

#[test]
fn schedules_are_shown_run_at_once_and_removed() {
    let server = Server::start();
    let mut conn = server.conn();
    let script = "<script>x</script>";
    for (name, when) in [("daily", ["CRON", "@daily"]), (script, ["EVERY", "60000"])] {
        call!(conn, "MQ.SCHEDULE", "q", name, "report", &when).unwrap();
    }
    let site = Site::start(&server, &[]);
    let page = site.get("/schedules?name=q").ok();
    for part in [
        "daily",
        "CRON @daily",
        "EVERY 60000",
        "&lt;script&gt;x",
        "report",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script>x"), "{page}");
    let daily = [("name", "q"), ("schedule", "daily")];
    let to = |what| [&[("do", what)][..], &daily].concat();
    assert_eq!(site.post(&to("fire")).status, 303);
    let status = call!(conn, "MQ.STATUS", "q", "daily").unwrap();
    assert_eq!(status.text(), "queued");
    site.post_surely(&to("unschedule"), "Remove the schedule daily?");
    let page = site.get("/schedules?name=q").ok();
    assert!(
        !page.contains("CRON @daily") && page.contains("EVERY 60000"),
        "{page}"
    );
    let looking = Site::start(&server, &["--read-only"]);
    assert_eq!(looking.post(&to("fire")).status, 403);
}
