//! Importing the older queue: nothing lost, doubled or early, whatever happens meanwhile.

mod common;

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use common::{
    call_at,
    carmine::{Carmine, Fate, KINDS},
    objects, program, run,
};
use redis_mq_testkit::{
    call, digest, redis::Connection, wait_until, Direction, Persistence, Proxy, ReplyExt as _,
    Server, Value, PATIENCE,
};

const HEADERS: &str = "content-type: application/x-carmine-nippy";

/// Checks every message of both queues.
#[track_caller]
fn check(conn: &mut Connection, old: &Carmine, new: &str, fates: &[(String, Fate)]) {
    let messages = old.key("messages");
    for (id, fate) in fates {
        let there = call!(*conn, "HEXISTS", &messages, id).unwrap().int() == 1;
        assert_eq!(there, *fate == Fate::Stays, "{id}: {fate:?}");
        let got = call!(*conn, "MQ.GET", new, id);
        let Fate::Moves(expected) = fate else {
            // An id that is too long is an error.
            assert!(got.is_err() || got == Ok(Value::Nil), "{id}: {got:?}");
            continue;
        };
        let got = got.unwrap().fields();
        let copy = (!got["requeue"].is_nil()).then(|| got["requeue"].bytes().to_vec());
        assert_eq!(
            (
                got["status"].text().as_str(),
                got["payload"].bytes(),
                copy.as_ref()
            ),
            (expected.status, &*expected.payload, expected.copy.as_ref()),
            "{id}"
        );
        assert_eq!(got["attempts"].int(), expected.attempts, "{id}");
        assert_eq!(got["headers"].text(), HEADERS, "{id}");
        let due = got["due-at"].int();
        if expected.status.starts_with("done") {
            // It is as long as the rest of the window was when the server did it.
            assert!(
                due >= expected.due && due <= expected.due + 60_000,
                "{id}: {due}"
            );
            continue;
        }
        assert_eq!(
            (due, got["lock-ms"].int()),
            (expected.due, expected.lock),
            "{id}"
        );
        assert_eq!(
            (got["priority"].int(), got["max-attempts"].int()),
            (5, 0),
            "{id}"
        );
    }
    let moved = fates
        .iter()
        .filter(|(_, fate)| matches!(fate, Fate::Moves(_)));
    let info = call!(*conn, "MQ.INFO", new).unwrap().fields();
    assert_eq!(
        info["messages"].int(),
        moved.count() as i64,
        "nothing is doubled"
    );
}

#[test]
fn every_kind_of_message_becomes_what_it_was() {
    let server = Server::start();
    let mut conn = server.conn();
    let old = Carmine::new(&mut conn, "mails");
    let mut fates = old.fill(&mut conn, 10 * KINDS);
    // The older library never hands this one over.
    let mut pipe = redis_mq_testkit::redis::pipe();
    fates.push((
        "end-of-circle".into(),
        old.put(&mut pipe, "end-of-circle", 0, 0),
    ));
    fates.push(("x".repeat(513), old.put(&mut pipe, &"x".repeat(513), 0, 0)));
    fates.last_mut().unwrap().1 = Fate::Stays;
    pipe.exec(&mut conn).unwrap();

    let before: Vec<_> = old
        .keys(&mut conn)
        .iter()
        .map(|key| digest(&mut conn, key))
        .collect();
    let shown = run(&server, &["import", "mails", "--dry-run"]).ok();
    assert!(shown.contains("10  locked-with-requeue  "), "{shown}");
    let told = objects(&run(&server, &["import", "mails", "-n", "--json"]).ok());
    let told: BTreeMap<_, _> = told
        .iter()
        .map(|kind| {
            (
                kind["kind"].as_str().unwrap(),
                kind["messages"].as_u64().unwrap(),
            )
        })
        .collect();
    let known = [
        ("queued", 51),
        ("queued-and-copy", 20),
        ("queued-with-backoff", 20),
        ("queued-with-backoff-and-copy", 10),
        ("done-with-backoff", 10),
        ("done-with-requeue", 20),
        ("requeued", 10),
        ("done-awaiting-gc", 10),
        ("locked", 10),
        ("locked-with-requeue", 10),
        ("no-id", 1),
    ];
    assert_eq!(told, BTreeMap::from(known));
    let line = run(&server, &["import", "mails"]).failed(2);
    assert!(
        line.contains("import 141 messages of mails into mails?"),
        "{line}"
    );
    let after: Vec<_> = old
        .keys(&mut conn)
        .iter()
        .map(|key| digest(&mut conn, key))
        .collect();
    assert_eq!(before, after);
    assert!(call!(conn, "MQ.INFO", "mails").unwrap().is_nil());

    let ended = run(&server, &["import", "mails", "--yes"]);
    assert_eq!((ended.code, &*ended.err), (1, ""), "{ended:?}");
    assert!(
        ended.out.starts_with("141 imported, 21 left\n"),
        "{}",
        ended.out
    );
    check(&mut conn, &old, "mails", &fates);
    let rest = call!(conn, "HLEN", old.key("nattempts")).unwrap().int();
    assert_eq!(rest, 20, "of those that stay");
    assert_eq!(call!(conn, "SCARD", old.key("done")).unwrap().int(), 0);

    // What a worker had is taken when its lock is over, and when all have gone so does the rest.
    call!(conn, "DEL", old.key("locks")).unwrap();
    call!(conn, "HDEL", old.key("messages"), "x".repeat(513)).unwrap();
    let last = run(&server, &["import", "mails", "--yes", "--json"]).ok();
    let last = &objects(&last)[0];
    assert_eq!((&last["imported"], &last["left"]), (&20.into(), &0.into()));
    assert_eq!(old.keys(&mut conn), Vec::<String>::new());
    let again = run(&server, &["import", "mails", "--yes"]).ok();
    assert_eq!(again, "0 imported, 0 left\n");
    run(&server, &["import", "mail"]).failed(1);
    run(&server, &["import", "mails", "-n"]).failed(1);
}

/// `--yes` on that address, to be ended by others.
fn start(url: &str) -> std::process::Child {
    let mut command = program();
    command
        .args(["import", "old", "new", "--yes"])
        .env("REDIS_MQ_URL", url);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn an_import_that_is_killed_again_and_again_is_exact() {
    let soak = std::env::var("MQ_SOAK").is_ok_and(|value| value == "1");
    let count = if soak { 100_000 } else { 2_000 };
    let mut server = Server::builder()
        .persistence(Persistence::AofCommands)
        .start();
    let mut conn = server.conn();
    let old = Carmine::new(&mut conn, "old");
    let fates = old.fill(&mut conn, count);
    let proxy = Proxy::start(server.addr());
    // A step sends 11 kB and takes some 25 messages.
    let part = count / 25 * 11_000 / 20;
    let mut left = Vec::new();
    for kill in 0..10 {
        // First it looks at all there is: that is 5 kB for each 100 messages, and 13 bytes for each one.
        let there = call!(server.conn(), "HLEN", old.key("messages")).unwrap();
        let there = usize::try_from(there.int()).unwrap();
        let (asked, told) = ((there / 100 + 1) * 5_000, there * 13);
        let passed = proxy.passed(Direction::ToServer);
        match kill % 5 {
            0 => {
                // The reply to a step gets lost.
                proxy.cut_after(Direction::ToClient, told + 2_000 + kill * 101);
                assert_eq!(start(&proxy.url()).wait().unwrap().code(), Some(3));
            }
            1 | 2 => {
                proxy.cut_after(Direction::ToServer, asked + part + kill * 1_013);
                assert_eq!(start(&proxy.url()).wait().unwrap().code(), Some(3));
            }
            end => {
                // Slow enough for this thread to come in time.
                proxy.delay(Duration::from_millis(10));
                let mut child = start(&proxy.url());
                let enough = passed + asked + part;
                wait_until(PATIENCE, || {
                    proxy.passed(Direction::ToServer) > enough
                        || child.try_wait().unwrap().is_some()
                });
                match end {
                    3 => drop(child.kill()),
                    _ => server.crash_and_restart(),
                }
                child.wait().unwrap();
                proxy.resume();
            }
        }
        let messages = call!(server.conn(), "HLEN", old.key("messages"));
        left.push(messages.unwrap().int());
    }
    let mut conn = server.conn();
    left.dedup();
    assert!(left.len() > 5, "kills in the middle: {left:?}");
    let stay = fates
        .iter()
        .filter(|(_, fate)| *fate == Fate::Stays)
        .count() as i64;
    assert!(
        left[left.len() - 1] > stay,
        "the last run has something to do: {left:?}"
    );
    let ended = call_at(&proxy.url(), &["import", "old", "new", "--yes"], "");
    assert_eq!((ended.code, &*ended.err), (1, ""), "{ended:?}");
    check(&mut conn, &old, "new", &fates);
    // It is in the append-only file and on replicas as it is here.
    let before = digest(&mut conn, "new");
    server.crash_and_restart();
    assert_eq!(digest(&mut server.conn(), "new"), before);
}
