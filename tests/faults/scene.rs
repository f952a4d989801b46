//! A queue with everything in it that a queue can hold, and all that a client can see of it.

use std::collections::BTreeMap;

use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{call, digest, wait_until, ReplyExt, PATIENCE};

use super::{
    counter, dequeue, dequeue_many, done, enqueue, let_time_act, stable_counters, status, LONG_MS,
};

/// What a client can see of a queue, and the server's digest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    digest: String,
    messages: BTreeMap<Vec<u8>, String>,
    counters: BTreeMap<String, String>,
    order: Vec<(Vec<u8>, Vec<u8>, i64)>,
}

/// Fills a queue with messages of every status, every option and odd bytes. Nothing in it moves within
/// the next hours. Gives the ids.
#[track_caller]
pub fn build(conn: &mut Connection, queue: &str) -> Vec<Vec<u8>> {
    let mut ids: Vec<Vec<u8>> = Vec::new();
    let long = &LONG_MS.to_string()[..];

    // Made first so that they can be taken without taking others.
    for (id, options) in [
        ("locked", &[][..]),
        ("locked-own", &["LOCK", "72000000"]),
        ("locked-requeue", &[]),
        ("locked-requeue-rich", &[]),
        ("extended", &["ATTEMPTS", "7"]),
        ("retried-later", &[]),
        ("retried-now", &["ATTEMPTS", "3"]),
        ("retried-twice", &["PRIORITY", "9"]),
        ("requeued-ran", &[]),
        ("requeued-runs", &[]),
        ("requeued-retried", &[]),
        ("window", &[]),
        ("window-requeue", &[]),
        ("dead-reason", &[]),
        ("dead-bytes", &[]),
        ("dead-silent", &[]),
        ("dead-attempts", &["ATTEMPTS", "1"]),
        ("dead-and-queued", &[]),
        ("dead-with-copy", &[]),
        ("dead-forgotten", &[]),
        ("finished", &[]),
        ("cancelled", &[]),
    ] {
        assert_eq!(enqueue(conn, queue, id, options), "added", "{id}");
        ids.push(id.into());
    }
    let taken: BTreeMap<_, _> = dequeue_many(conn, queue, 100, &["LOCK", long])
        .into_iter()
        .map(|delivery| (delivery.name(), delivery))
        .collect();
    assert_eq!(taken.len(), ids.len());
    let mut end = |id: &str, verdict: &[&str], expected: &str| {
        let reply = done(conn, queue, &taken[id], verdict).unwrap();
        assert_eq!(reply.text(), expected, "{id}");
    };
    end(
        "retried-later",
        &["RETRY", "BACKOFF", long],
        "queued-with-backoff",
    );
    let with_result = ["BACKOFF", long, "RESULT", "r", "RETAIN", long];
    end("window", &with_result, "done-with-backoff");
    end("window-requeue", &["BACKOFF", long], "done-with-backoff");
    end(
        "dead-reason",
        &["ERROR", "REASON", "no such customer"],
        "dead",
    );
    end("dead-silent", &["ERROR"], "dead");
    end("dead-attempts", &["RETRY"], "dead");
    end(
        "dead-and-queued",
        &["ERROR", "REASON", "the older one"],
        "dead",
    );
    end("dead-forgotten", &["ERROR"], "dead");
    end("finished", &[], "done");
    end("retried-now", &["RETRY"], "queued");
    end("retried-twice", &["RETRY"], "queued");
    let reason: &[u8] = b"\0\r\n%s%n\xFF";
    let dead = &taken["dead-bytes"];
    call!(
        *conn,
        "MQ.DONE",
        queue,
        "dead-bytes",
        dead.token,
        "ERROR",
        "REASON",
        reason
    )
    .unwrap();
    call!(
        *conn,
        "MQ.EXTEND",
        queue,
        "extended",
        taken["extended"].token,
        2 * LONG_MS
    )
    .unwrap();

    for (id, options) in [
        ("locked-requeue", &["REQUEUE"][..]),
        (
            "locked-requeue-rich",
            &[
                "REQUEUE", "DELAY", "5", "LOCK", "7", "ATTEMPTS", "2", "PRIORITY", "1",
            ],
        ),
        ("window-requeue", &["REQUEUE"]),
        ("requeued-ran", &["REQUEUE", "PRIORITY", "8"]),
        ("requeued-runs", &["REQUEUE", "DELAY", long]),
        ("requeued-retried", &["REQUEUE", "DELAY", long]),
        ("dead-with-copy", &["REQUEUE"]),
    ] {
        assert_eq!(enqueue(conn, queue, id, options), "requeued", "{id}");
    }
    assert_eq!(
        done(conn, queue, &taken["requeued-ran"], &[])
            .unwrap()
            .text(),
        "queued"
    );
    let runs = done(conn, queue, &taken["requeued-runs"], &[]);
    assert_eq!(runs.unwrap().text(), "queued-with-backoff");
    let retried = done(conn, queue, &taken["requeued-retried"], &["RETRY"]);
    assert_eq!(retried.unwrap().text(), "queued");
    done(
        conn,
        queue,
        &taken["dead-with-copy"],
        &["ERROR", "REASON", "its copy runs"],
    )
    .unwrap();
    assert_eq!(
        enqueue(conn, queue, "dead-and-queued", &["DELAY", long]),
        "added"
    );

    // Locks that run out: the first was on its last attempt, the second is ready again.
    for (id, options) in [
        (
            "expired-last",
            &["PRIORITY", "0", "LOCK", "1", "ATTEMPTS", "1"][..],
        ),
        ("expired", &["PRIORITY", "0", "LOCK", "1"]),
    ] {
        enqueue(conn, queue, id, options);
        assert_eq!(dequeue(conn, queue, &[]).unwrap().name(), id);
        wait_until(PATIENCE, || {
            status(conn, queue, id).as_deref() != Some("locked")
        });
        ids.push(id.into());
    }
    assert_eq!(status(conn, queue, "expired-last").as_deref(), Some("dead"));
    enqueue(
        conn,
        queue,
        "expired-finished",
        &["PRIORITY", "0", "LOCK", "1"],
    );
    let late = dequeue_many(conn, queue, 2, &[])
        .pop()
        .expect("two are ready");
    assert_eq!(late.name(), "expired-finished");
    wait_for_nothing_due(conn, queue);
    done(conn, queue, &late, &["RELEASE"]).unwrap();
    ids.push("expired-finished".into());

    for priority in 0..10 {
        for number in 0..3 {
            let id = format!("ready-{priority}-{number}");
            enqueue(conn, queue, &id, &["PRIORITY", &priority.to_string()]);
            ids.push(id.into());
        }
        let id = format!("delayed-{priority}");
        enqueue(
            conn,
            queue,
            &id,
            &["PRIORITY", &priority.to_string(), "DELAY", long],
        );
        ids.push(id.into());
    }
    enqueue(conn, queue, "delayed-first", &["DELAY", "7200000"]);
    enqueue(
        conn,
        queue,
        "updated",
        &["DELAY", long, "LOCK", "5", "ATTEMPTS", "5"],
    );
    enqueue(conn, queue, "updated", &["UPDATE", "PRIORITY", "3"]);
    ids.extend(["delayed-first".into(), "updated".into()]);

    let big = vec![b'x'; 1 << 20];
    let odd: [(&[u8], &[u8]); 6] = [
        (b"\0", b""),
        (b"\xFF\xFE\r\n%n", b"\0\r\n*3\r\n$"),
        (&[b'i'; 512], b"the longest id"),
        (b"big", &big),
        (
            b"0193f5c8-7a3e-7c4d-9b2a-5f6e7d8c9b0a",
            b"an id that looks made by the server",
        ),
        (
            b"0193F5C8-7A3E-7C4D-9B2A-5F6E7D8C9B0A",
            b"the same in capitals",
        ),
    ];
    for (id, payload) in odd {
        call!(*conn, "MQ.ENQUEUE", queue, payload, "ID", id).unwrap();
        ids.push(id.to_vec());
    }
    for number in 0..5 {
        let reply = call!(*conn, "MQ.ENQUEUE", queue, format!("made {number}")).unwrap();
        ids.push(reply.items()[1].bytes().to_vec());
    }
    assert_eq!(
        call!(*conn, "MQ.CANCEL", queue, "cancelled", "dead-forgotten")
            .unwrap()
            .int(),
        2
    );
    wait_for_nothing_due(conn, queue);
    let_time_act(conn, queue);
    ids
}

/// Waits until time has nothing to do in a queue for minutes.
#[track_caller]
pub fn wait_for_nothing_due(conn: &mut Connection, queue: &str) {
    wait_until(PATIENCE, || {
        let next = counter(conn, queue, "next-due-ms");
        !(0..=300_000).contains(&next)
    });
}

/// All that a client can see of a queue, the order of its next deliveries included.
#[track_caller]
pub fn view(conn: &mut Connection, queue: &str, ids: &[Vec<u8>]) -> View {
    let of_id = |conn: &mut Connection, id: &Vec<u8>| {
        let status = call!(*conn, "MQ.STATUS", queue, id).expect("MQ.STATUS answers");
        let map = call!(*conn, "MQ.GET", queue, id).expect("MQ.GET answers");
        let map = if map.is_nil() {
            BTreeMap::new()
        } else {
            map.fields()
        };
        (id.clone(), format!("{status:?} {map:?}"))
    };
    let messages = ids.iter().map(|id| of_id(conn, id)).collect();
    let counters = stable_counters(conn, queue);
    View {
        digest: digest(conn, queue),
        messages,
        counters,
        order: order(conn, queue),
    }
}

/// Who would be delivered next, with the attempt, found out with a copy.
#[track_caller]
fn order(conn: &mut Connection, queue: &str) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
    let twin = format!("{queue}:twin");
    assert_eq!(
        call!(*conn, "COPY", queue, &twin, "REPLACE").unwrap().int(),
        1
    );
    let all = dequeue_many(conn, &twin, 100_000, &["LOCK", "36000000"]);
    call!(*conn, "DEL", &twin).unwrap();
    all.into_iter()
        .map(|delivery| (delivery.id, delivery.payload, delivery.attempt))
        .collect()
}
