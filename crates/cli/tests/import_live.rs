//! Importing the older queue while others use both: workers, producers, and whoever has messages in the new one.

mod common;

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use common::{
    call_at,
    carmine::{frozen, Carmine},
    run,
};
use redis_mq_testkit::{
    call, digest, redis::Connection, wait_until, ReplyExt as _, Server, PATIENCE,
};

/// The ids in the order of their deliveries.
fn deliver(conn: &mut Connection, queue: &str) -> Vec<String> {
    let got = call!(*conn, "MQ.DEQUEUE", queue, "COUNT", 100_000).unwrap();
    got.items()
        .iter()
        .map(|delivery| delivery.items()[0].text())
        .collect()
}

#[test]
fn old_workers_and_producers_go_on_meanwhile_and_new_workers_begin() {
    let server = Server::start();
    let old = Carmine::new(&mut server.conn(), "live");
    let mut conn = server.conn();
    for n in 0..300 {
        old.enqueue(&mut conn, &format!("m{n}"));
    }
    let (old_ends, new_ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let by_old = AtomicUsize::new(0);
    let handled = thread::scope(|scope| {
        let old_worker = || {
            let mut conn = server.conn();
            let mut handled = Vec::new();
            while !old_ends.load(Ordering::Relaxed) {
                if let Some(id) = old.take(&mut conn) {
                    // It takes long enough for an import to come by.
                    call!(conn, "WAIT", 1, 5).unwrap();
                    old.finish(&mut conn, &id);
                    handled.push(id);
                    by_old.fetch_add(1, Ordering::Relaxed);
                }
            }
            handled
        };
        let new_worker = || {
            let mut conn = server.conn();
            let mut handled = Vec::new();
            loop {
                let got = call!(conn, "MQ.DEQUEUE", "live", "BLOCK", 20).unwrap();
                if got.is_nil() {
                    if new_ends.load(Ordering::Relaxed) {
                        return handled;
                    }
                    continue;
                }
                let delivery = got.items();
                let (id, token) = (delivery[0].text(), delivery[3].int());
                assert_eq!(delivery[1].bytes(), frozen(&id));
                let ended = call!(conn, "MQ.DONE", "live", &id, token).unwrap();
                assert_eq!(ended.text(), "done");
                handled.push(id);
            }
        };
        let import = || {
            let ended = run(&server, &["import", "live", "--yes"]);
            assert!(ended.code <= 1 && ended.err.is_empty(), "{ended:?}");
            ended.code == 0
        };
        let old_workers = [scope.spawn(old_worker), scope.spawn(old_worker)];
        let new_worker = scope.spawn(new_worker);
        let producer = scope.spawn(|| {
            let mut conn = server.conn();
            for n in 300..590 {
                old.enqueue(&mut conn, &format!("m{n}"));
            }
        });
        wait_until(PATIENCE, || by_old.load(Ordering::Relaxed) > 0);
        while !producer.is_finished() {
            import();
        }
        // First the old workers are told to end, then what is left is brought over.
        old_ends.store(true, Ordering::Relaxed);
        let mut handled = old_workers.map(|worker| worker.join().unwrap()).concat();
        for n in 590..600 {
            old.enqueue(&mut conn, &format!("m{n}"));
        }
        assert!(import(), "nobody has any of them now");
        new_ends.store(true, Ordering::Relaxed);
        let by_new = new_worker.join().unwrap();
        assert!(!handled.is_empty() && by_new.len() >= 10);
        handled.extend(by_new);
        handled
    });
    let mut all = handled;
    all.sort();
    let mut expected: Vec<_> = (0..600).map(|n| format!("m{n}")).collect();
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(old.keys(&mut conn), Vec::<String>::new());
}

#[test]
fn the_order_stays_and_what_cannot_come_keeps_its_place() {
    let server = Server::start();
    let mut conn = server.conn();
    let old = Carmine::new(&mut conn, "old");
    for n in 0..120 {
        old.enqueue(&mut conn, &format!("m{n:03}"));
    }
    call!(conn, "HSET", old.key("nattempts"), "m007", 2, "m050", 1).unwrap();
    call!(conn, "MQ.ENQUEUE", "new", "mine", "ID", "m003").unwrap();
    call!(conn, "MQ.LIMIT", "new", "LENGTH", 41).unwrap();
    let import = ["import", "old", "new", "--yes"];
    let line = run(&server, &import).failed(4);
    assert!(
        line.contains("FULL") && line.contains("40 were imported"),
        "{line}"
    );
    call!(conn, "MQ.LIMIT", "new", "LENGTH", "OFF").unwrap();
    let ended = run(&server, &import);
    assert_eq!(
        (ended.code, ended.out.lines().next()),
        (1, Some("79 imported, 1 left")),
        "{ended:?}"
    );
    assert!(ended.out.contains("  taken  "), "{}", ended.out);
    let expected: Vec<_> = (0..120)
        .map(|n| format!("m{n:03}"))
        .filter(|id| id != "m003")
        .collect();
    let mut order = deliver(&mut conn, "new");
    assert_eq!(order.remove(0), "m003", "the one that was here already");
    assert_eq!(order, expected);
    // When that has ended the other takes its turn.
    call!(conn, "MQ.CANCEL", "new", "m003").unwrap();
    assert_eq!(run(&server, &import).ok(), "1 imported, 0 left\n");
    let got = call!(conn, "MQ.GET", "new", "m003").unwrap().fields();
    assert_eq!(got["payload"].bytes(), frozen("m003"));
}

#[test]
fn other_messages_pauses_and_limits_of_the_new_queue_stay_as_they_are() {
    let server = Server::start();
    let mut conn = server.conn();
    let old = Carmine::new(&mut conn, "old");
    for (n, id) in ["a", "b", "c"].into_iter().enumerate() {
        old.enqueue(&mut conn, id);
        call!(conn, "HSET", old.key("nattempts"), id, n + 1).unwrap();
    }
    // Before them in the new queue: of a group in its order, released, and with a limit of attempts.
    for id in ["g1", "g2"] {
        call!(
            conn,
            "MQ.ENQUEUE",
            "new",
            id,
            "ID",
            id,
            "PRIORITY",
            0,
            "GROUP",
            "g"
        )
        .unwrap();
    }
    for id in ["p1", "p2", "p3"] {
        call!(
            conn,
            "MQ.ENQUEUE",
            "new",
            id,
            "ID",
            id,
            "PRIORITY",
            0,
            "ATTEMPTS",
            1
        )
        .unwrap();
    }
    call!(conn, "MQ.PAUSE", "new").unwrap();
    let get = |conn: &mut Connection, id: &str| call!(*conn, "MQ.GET", "new", id).unwrap();
    let others = ["g1", "g2", "p1", "p2", "p3"];
    let before = others.map(|id| get(&mut conn, id));
    let mut waiter = server.conn();
    let waits = thread::spawn(move || call!(waiter, "MQ.DEQUEUE", "new", "BLOCK", 0));
    server.wait_for_blocked(1);
    // Without a right to one of the commands nothing is changed.
    call!(conn, "ACL", "SETUSER", "half", "on", "nopass", "~*", "+@all", "-srem").unwrap();
    let url = format!("redis://half:x@127.0.0.1:{}/", server.port());
    let import = ["import", "old", "new", "--yes"];
    let digests = |conn: &mut Connection| {
        [old.key("messages"), old.key("mid-circle"), "new".into()].map(|key| digest(conn, key))
    };
    let all = digests(&mut conn);
    call_at(&url, &import, "").failed(4);
    assert_eq!(digests(&mut conn), all);
    // What the new queue keeps back cannot be built there.
    call!(conn, "MQ.LIMIT", "new", "INFLIGHT", 3).unwrap();
    let line = run(&server, &import).failed(4);
    assert!(
        line.contains("INFLIGHT") && line.contains("0 were imported"),
        "{line}"
    );
    call!(conn, "MQ.LIMIT", "new", "INFLIGHT", "OFF").unwrap();

    assert_eq!(run(&server, &import).ok(), "3 imported, 0 left\n");
    assert_eq!(others.map(|id| get(&mut conn, id)), before);
    let info = call!(conn, "MQ.INFO", "new").unwrap().fields();
    assert_eq!((info["paused"].int(), info["paused-until"].int()), (1, 0));
    assert!(!waits.is_finished(), "nobody got anything meanwhile");
    call!(conn, "MQ.RESUME", "new").unwrap();
    let first = waits.join().unwrap().unwrap();
    let mut order = vec![first.items()[0].text()];
    order.extend(deliver(&mut conn, "new"));
    let of = |order: &[String], ids: &[&str]| -> Vec<String> {
        order
            .iter()
            .filter(|id| ids.contains(&id.as_str()))
            .cloned()
            .collect()
    };
    assert_eq!(of(&order, &["p1", "p2", "p3"]), ["p1", "p2", "p3"]);
    assert_eq!(of(&order, &["a", "b", "c"]), ["a", "b", "c"]);
    assert_eq!(order[order.len() - 3..], ["a", "b", "c"]);
    assert_eq!(of(&order, &["g1", "g2"]), ["g1"]);
}

#[test]
fn a_pause_that_ends_goes_on_and_dead_letters_stay() {
    let server = Server::start();
    let mut conn = server.conn();
    let old = Carmine::new(&mut conn, "{q}:old");
    call!(conn, "MQ.ENQUEUE", "{q}", "x", "ID", "plain").unwrap();
    call!(conn, "MQ.ENQUEUE", "{q}", "x", "ID", "tried").unwrap();
    let got = call!(conn, "MQ.DEQUEUE", "{q}", "COUNT", 2).unwrap();
    for delivery in got.items() {
        let (id, token) = (delivery.items()[0].text(), delivery.items()[3].int());
        call!(conn, "MQ.DONE", "{q}", id, token, "ERROR").unwrap();
    }
    for id in ["plain", "tried", "other"] {
        old.enqueue(&mut conn, id);
    }
    call!(
        conn,
        "HSET",
        old.key("nattempts"),
        "tried",
        5_000,
        "other",
        5_000
    )
    .unwrap();
    let end = call!(conn, "MQ.PAUSE", "{q}", "FOR", 3_600_000)
        .unwrap()
        .int();
    let ended = run(&server, &["import", "{q}:old", "{q}", "--yes"]);
    assert_eq!(
        (ended.code, ended.out.lines().next()),
        (1, Some("2 imported, 1 left"))
    );
    let until = call!(conn, "MQ.INFO", "{q}").unwrap().fields()["paused-until"].int();
    assert!((end..=end + 60_000).contains(&until), "{until} after {end}");
    let info = call!(conn, "MQ.INFO", "{q}").unwrap().fields();
    assert_eq!((info["queued"].int(), info["dead"].int()), (2, 2));
    let other = call!(conn, "MQ.GET", "{q}", "other").unwrap().fields();
    assert_eq!(other["attempts"].int(), 1_000, "no step is without a bound");
    call!(conn, "MQ.CANCEL", "{q}", "tried").unwrap();
    assert_eq!(
        run(&server, &["import", "{q}:old", "{q}", "--yes"]).ok(),
        "1 imported, 0 left\n"
    );
}

#[test]
fn what_is_no_such_queue_is_refused_before_anything_changes() {
    let server = Server::start();
    let mut conn = server.conn();
    let old = Carmine::new(&mut conn, "old");
    old.enqueue(&mut conn, "a");
    call!(conn, "SET", "string", "x").unwrap();
    run(&server, &["import", "old", "string", "--yes"]).failed(4);
    call!(conn, "SET", old.key("done"), "x").unwrap();
    let line = run(&server, &["import", "old", "new", "--yes"]).failed(4);
    assert!(line.contains("carmine:mq:old:done is a string"), "{line}");
    call!(conn, "DEL", old.key("done")).unwrap();
    run(
        &server,
        &["import", "old", "new", "--yes", "--prefix", "other"],
    )
    .failed(1);
    call!(conn, "CONFIG", "SET", "maxmemory", 1).unwrap();
    let line = run(&server, &["import", "old", "new", "--yes"]).failed(4);
    assert!(line.contains("OOM"), "{line}");
    call!(conn, "CONFIG", "SET", "maxmemory", 0).unwrap();
    let replica = Server::start();
    replica.replica_of(&server);
    replica.wait_for_sync(&server);
    let line = run(&replica, &["import", "old", "new", "--yes"]).failed(4);
    assert!(line.contains("READONLY"), "{line}");
    assert_eq!(call!(conn, "HLEN", old.key("messages")).unwrap().int(), 1);
    assert_eq!(
        run(&server, &["import", "old", "new", "--yes"]).ok(),
        "1 imported, 0 left\n"
    );
    replica.wait_for_sync(&server);
    assert_eq!(digest(&mut replica.conn(), "new"), digest(&mut conn, "new"));
}
