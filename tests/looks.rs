//! The module looks at queues by itself when something falls due, wherever they have come to be, and
//! costs nothing for queues that are gone.

mod faults;

use std::thread;

use faults::{builder, counter, dequeue, done, enqueue, ms, server_number};
use redis_mq_testkit::redis::{self, Connection};
use redis_mq_testkit::{
    call, wait_until, Cluster, Persistence, ReplyExt, Server, ServerBuilder, Shutdown, PATIENCE,
};

const HOUR: &str = "3600000";

/// A queue with a message whose last lock ends after `lock_ms`: only a look makes it dead.
fn losing(conn: &mut Connection, queue: &str, lock_ms: u64) {
    enqueue(conn, queue, "m", &["ATTEMPTS", "1"]);
    let lock = lock_ms.to_string();
    dequeue(conn, queue, &["LOCK", &lock]).expect("it was just enqueued");
}

/// Waits until a look has been there; nothing but MQ.INFO is sent, which changes nothing.
#[track_caller]
fn wait_for_look(conn: &mut Connection, queue: &str) {
    wait_until(PATIENCE, || counter(conn, queue, "total-dead") == 1);
}

fn processor_ms(server: &Server) -> i64 {
    ["used_cpu_user", "used_cpu_sys"]
        .iter()
        .map(|field| {
            let seconds = server.info("cpu", field).expect("each server tells");
            (seconds.parse::<f64>().expect("a number") * 1000.0) as i64
        })
        .sum()
}

#[test]
fn a_server_at_rest_does_not_work_for_what_is_due_in_an_hour() {
    let server = builder().start();
    let mut conn = server.conn();
    enqueue(&mut conn, "q", "held", &[]);
    dequeue(&mut conn, "q", &["LOCK", HOUR]).unwrap();
    // The timer fires, and is set anew by its own tick.
    losing(&mut conn, "soon", 20);
    wait_for_look(&mut conn, "soon");
    // A server that spins uses all of the second, one that shares its processor a part of it.
    let before = processor_ms(&server);
    thread::sleep(ms(1_000));
    let used = processor_ms(&server) - before;
    assert!(used < 200, "{used} ms");
}

#[test]
fn a_queue_is_looked_after_under_the_name_that_it_was_given() {
    let server = builder().start();
    let mut conn = server.conn();
    losing(&mut conn, "renamed", 50);
    call!(conn, "RENAME", "renamed", "new name").unwrap();
    losing(&mut conn, "moved", 50);
    call!(conn, "MOVE", "moved", 3).unwrap();
    losing(&mut conn, "copied", 50);
    call!(conn, "COPY", "copied", "copy").unwrap();
    losing(&mut conn, "dumped", 50);
    let dump = call!(conn, "DUMP", "dumped").unwrap();
    call!(conn, "DEL", "dumped").unwrap();
    call!(conn, "RESTORE", "restored", 0, dump.bytes()).unwrap();
    call!(conn, "SELECT", 7).unwrap();
    losing(&mut conn, "swapped", 50);
    call!(conn, "SWAPDB", 7, 8).unwrap();
    for (db, queue) in [
        (0, "new name"),
        (3, "moved"),
        (0, "copied"),
        (0, "copy"),
        (0, "restored"),
        (8, "swapped"),
    ] {
        call!(conn, "SELECT", db).unwrap();
        wait_for_look(&mut conn, queue);
    }
}

#[test]
fn a_consumer_is_woken_in_time_at_a_queue_that_was_renamed_with_a_look_to_come() {
    let server = builder().start();
    let mut conn = server.conn();
    for round in 0..3 {
        let (old, new) = (format!("old {round}"), format!("new {round}"));
        enqueue(&mut conn, &old, "m", &[]);
        let first = dequeue(&mut conn, &old, &["LOCK", "300"]).unwrap();
        call!(conn, "RENAME", &old, &new).unwrap();
        // The look is noted under the old name, or was already missed there.
        if round == 1 {
            wait_until(PATIENCE, || {
                faults::status(&mut conn, &new, "m").as_deref() == Some("queued")
            });
        }
        let again = dequeue(&mut conn, &new, &["BLOCK", "0", "LOCK", "200"]).unwrap();
        assert_eq!(again.attempt, first.attempt + 1);
        let third = dequeue(&mut conn, &new, &["BLOCK", "0"]).unwrap();
        assert_eq!(third.attempt, first.attempt + 2);
        done(&mut conn, &new, &third, &[]).unwrap();
    }
}

#[test]
fn queues_that_came_from_a_file_or_a_primary_are_found_without_a_command() {
    for persistence in Persistence::DURABLE {
        let mut server = builder().persistence(persistence).start();
        let mut conn = server.conn();
        call!(conn, "SELECT", 9).unwrap();
        losing(&mut conn, "q", 400);
        server.restart(Shutdown::Save);
        let mut conn = server.conn();
        call!(conn, "SELECT", 9).unwrap();
        wait_for_look(&mut conn, "q");
    }
    let (primary, replica) = (builder().start(), builder().start());
    let mut conn = primary.conn();
    losing(&mut conn, "before", 3_000);
    replica.replica_of(&primary);
    losing(&mut conn, "after", 3_000);
    replica.wait_for_sync(&primary);
    replica.promote();
    let mut conn = replica.conn();
    wait_for_look(&mut conn, "before");
    wait_for_look(&mut conn, "after");
}

#[test]
fn queues_that_came_and_went_leave_nothing_on_primary_and_replica() {
    const COUNT: usize = 10_000;
    const ROUNDS: usize = 4;
    // The names are long, so that whoever keeps them is found out.
    let name = |number: usize| format!("{number:06}{}", "x".repeat(300));
    let small_backlog = || builder().config("repl-backlog-size", "16kb");
    let (primary, replica) = (small_backlog().start(), small_backlog().start());
    replica.replica_of(&primary);
    let mut conn = primary.conn();
    let mut come_and_go = |round: usize| {
        for number in 0..COUNT {
            let (queue, mut pipeline) = (name(round * COUNT + number), redis::pipe());
            pipeline.cmd("MQ.ENQUEUE").arg(&queue).arg("p").ignore();
            pipeline.cmd("MQ.DEQUEUE").arg(&queue).ignore();
            pipeline.cmd("UNLINK").arg(&queue).ignore();
            pipeline.exec(&mut conn).unwrap();
        }
        replica.wait_for_sync(&primary);
    };
    let used = |server: &Server| {
        wait_until(PATIENCE, || {
            server_number(server, "memory", "lazyfree_pending_objects") == 0
        });
        server_number(server, "memory", "used_memory")
    };
    come_and_go(0);
    let before = [used(&primary), used(&replica)];
    (1..=ROUNDS).for_each(come_and_go);
    let after = [used(&primary), used(&replica)];
    // A name kept for each would be 12 MB.
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before < 4_000_000, "{} bytes more", after - before);
    }
}

#[test]
fn a_queue_whose_slot_was_still_moving_in_when_it_fell_due_is_looked_after() {
    let cluster = Cluster::start_with(3, 0, ServerBuilder::new());
    let from = cluster.owner("q");
    if !from.version().is_valkey(9, 0) {
        return; // this server has no atomic migration
    }
    let to = cluster
        .primaries()
        .iter()
        .find(|one| one.port() != from.port())
        .expect("there are three");
    let (mut here, mut there) = (from.conn(), to.conn());
    let hold = |conn: &mut Connection, on: i32| {
        call!(*conn, "DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", on).unwrap();
    };
    hold(&mut here, 1);
    hold(&mut there, 1);
    losing(&mut here, "q", 1_000);
    let (slot, target) = (cluster.slot("q"), Cluster::node_id(to));
    call!(
        here,
        "CLUSTER",
        "MIGRATESLOTS",
        "SLOTSRANGE",
        slot,
        slot,
        "NODE",
        target
    )
    .unwrap();
    // The old owner lets its time act while the slot moves; the new one must find the queue later.
    let due = call!(here, "MQ.GET", "q", "m").unwrap().fields()["due-at"].int();
    let now = || {
        let time = redis::cmd("TIME").query::<(i64, i64)>(&mut to.conn());
        time.map_or(0, |(seconds, _)| seconds * 1000)
    };
    wait_until(PATIENCE, || now() > due + 1_000);
    hold(&mut here, 0);
    hold(&mut there, 0);
    wait_until(PATIENCE, || call!(there, "MQ.INFO", "q").is_ok());
    wait_for_look(&mut there, "q");
    // And from then on as any other.
    call!(there, "MQ.CANCEL", "q", "m").unwrap();
    enqueue(&mut there, "q", "n", &["ATTEMPTS", "1"]);
    dequeue(&mut there, "q", &["LOCK", "50"]).unwrap();
    wait_until(PATIENCE, || counter(&mut there, "q", "total-dead") == 2);
}
