//! A server that is killed at any moment loses no step that it had acknowledged under
//! `appendfsync always`, and comes back with a queue that is whole.

mod faults;

use std::fs;
use std::thread;

use faults::ledger::Kept;
use faults::mix::{assert_same_data, settle, Data, Mix};
use faults::workers::{Crew, Plan};
use faults::{counter, dequeue, dequeue_many, done, enqueue_many, ms, random, rounds, LONG_MS};
use rand::rngs::SmallRng;
use rand::Rng;
use redis_mq_testkit::redis::cmd;
use redis_mq_testkit::{
    call, digest, wait_until, Persistence, ReplyExt, Server, ServerBuilder, PATIENCE,
};

fn messages(usual: usize) -> usize {
    if faults::soaking() {
        usual * 100
    } else {
        usual
    }
}

/// Works a queue with producers and consumers while `fault` strikes, at least `times` times, and
/// checks that nothing was lost.
fn survive(
    server: &mut Server,
    times: usize,
    rng: &mut SmallRng,
    mut fault: impl FnMut(&mut Server),
) {
    let mut crew = Crew::new(Plan::new("q", vec![server.addr()]), rng.random());
    (0..2).for_each(|_| crew.produce(messages(1_200)));
    (0..3).for_each(|_| crew.consume());
    let mut count = 0;
    while crew.is_producing() || count < times {
        thread::sleep(ms(rng.random_range(20..200))); // the moment of the fault is to be random
        fault(server);
        count += 1;
    }
    let ledger = crew.finish(PATIENCE * 2);
    ledger.check(Kept::Everything);
    let totals = ledger.totals();
    println!("{count} faults, {totals:?}");
    let mut conn = server.conn();
    let enqueued = counter(&mut conn, "q", "total-enqueued") as usize;
    assert!(
        (totals.accepted..=totals.attempted).contains(&enqueued),
        "{enqueued}, {totals:?}"
    );
    assert!(counter(&mut conn, "q", "total-delivered") as usize >= totals.delivered);
    assert_eq!(counter(&mut conn, "q", "total-done") as usize, enqueued);
}

#[test]
fn kill_9_at_any_moment_loses_no_acknowledged_step() {
    let mut rng = random();
    for persistence in [Persistence::AofCommands, Persistence::AofSnapshot] {
        let mut server = Server::builder().persistence(persistence).start();
        survive(&mut server, rounds(6), &mut rng, Server::crash_and_restart);
    }
}

#[test]
fn kill_9_during_rewrites_and_snapshots_loses_no_acknowledged_step() {
    let mut rng = random();
    let mut server = slow_to_save(Server::builder().persistence(Persistence::AofCommands)).start();
    enqueue_many(
        &mut server.conn(),
        "ballast",
        "b",
        20_000,
        &["DELAY", &LONG_MS.to_string()],
    );
    let ballast = digest(&mut server.conn(), "ballast");
    fill_with_keys(&server);
    let mut turn = 0;
    survive(&mut server, rounds(6), &mut rng, |server| {
        turn += 1;
        let (command, running) = match turn % 2 {
            0 => ("BGREWRITEAOF", "aof_rewrite_in_progress"),
            _ => ("BGSAVE", "rdb_bgsave_in_progress"),
        };
        call!(server.conn(), command).unwrap();
        wait_until(PATIENCE, || {
            server.info("persistence", running).as_deref() == Some("1")
        });
        server.crash_and_restart();
    });
    assert_eq!(digest(&mut server.conn(), "ballast"), ballast);
}

#[test]
fn a_snapshot_taken_during_work_is_one_moment_of_it() {
    let mut rng = random();
    for _ in 0..rounds(3) {
        let mut server = slow_to_save(faults::builder()).start();
        fill_with_keys(&server);
        let mut conn = server.conn();
        let mut mix = Mix::new(rng.random()).messages_only();
        mix.run(&mut conn, 400);
        call!(conn, "CLIENT", "PAUSE", 60_000, "WRITE").unwrap();
        let moment = Data::of(&mut conn);
        call!(conn, "BGSAVE").unwrap();
        call!(conn, "CLIENT", "UNPAUSE").unwrap();
        // What happens from here on is not in it.
        while server
            .info("persistence", "rdb_bgsave_in_progress")
            .as_deref()
            == Some("1")
        {
            mix.run(&mut conn, 50);
        }
        assert_eq!(
            server
                .info("persistence", "rdb_last_bgsave_status")
                .as_deref(),
            Some("ok")
        );
        let saved = server.dir().join("dump.rdb");
        server.kill9();
        // A replica does not let time act, so it shows the file as it is.
        let unreachable = format!("127.0.0.1 {}", server.port());
        let reader = faults::builder().config("replicaof", unreachable).start();
        let mut reader = replace_dump(reader, &saved);
        assert_eq!(Data::of(&mut reader.conn()), moment);
        reader.kill9();
    }
}

/// Restarts a server from another one's snapshot.
fn replace_dump(mut server: Server, dump: &std::path::Path) -> Server {
    server.kill9();
    fs::copy(dump, server.dir().join("dump.rdb")).expect("the snapshot was written");
    server.start_again();
    server
}

#[test]
fn a_replica_killed_during_a_full_resync_starts_over() {
    let mut rng = random();
    for diskless in ["no", "yes"] {
        let slow = |builder: ServerBuilder| {
            slow_to_save(builder)
                .config("repl-diskless-sync", diskless)
                .config(
                    "repl-diskless-load",
                    if diskless == "yes" {
                        "swapdb"
                    } else {
                        "disabled"
                    },
                )
                .config("key-load-delay", 500)
        };
        let primary = slow(faults::builder()).start();
        let mut replica = slow(faults::builder()).start();
        fill_with_keys(&primary);
        let mut conn = primary.conn();
        let mut mix = Mix::new(rng.random());
        mix.run(&mut conn, 300);
        for _ in 0..rounds(3) {
            replica.replica_of_port(primary.port());
            mix.run(&mut conn, rng.random_range(1..80));
            replica.kill9();
            replica.start_again();
        }
        replica.replica_of(&primary);
        assert_same_data(&primary, &[&replica]);
        settle(&primary);
        assert_same_data(&primary, &[&replica]);
    }
}

#[test]
fn a_primary_killed_during_a_full_resync_comes_back_whole() {
    let mut rng = random();
    let mut primary = slow_to_save(faults::builder().persistence(Persistence::AofSnapshot)).start();
    fill_with_keys(&primary);
    let mut mix = Mix::new(rng.random());
    for _ in 0..rounds(3) {
        let replica = faults::builder().start();
        replica.replica_of_port(primary.port());
        mix.run(&mut primary.conn(), 100);
        primary.kill9();
        primary.start_again();
        replica.wait_for_sync(&primary);
        assert_same_data(&primary, &[&replica]);
    }
}

#[test]
fn everysec_keeps_a_prefix_of_what_was_done() {
    let mut rng = random();
    let mut server = Server::builder()
        .persistence(Persistence::AofCommands)
        .config("appendfsync", "everysec")
        .start();
    for round in 0..rounds(3) {
        let queue = format!("q{round}");
        let mut conn = server.conn();
        // The position in the queue tells what came before what.
        for number in 0..rng.random_range(200..600) {
            cmd("MQ.ENQUEUE")
                .arg(&queue)
                .arg("p")
                .arg("ID")
                .arg(number)
                .exec(&mut conn)
                .unwrap();
        }
        server.crash_and_restart();
        let mut conn = server.conn();
        let kept = dequeue_many(&mut conn, &queue, 1_000, &[]);
        for (number, delivery) in kept.iter().enumerate() {
            assert_eq!(
                delivery.name(),
                number.to_string(),
                "what is kept is a prefix"
            );
        }
    }
}

#[test]
fn a_message_that_kills_its_consumer_every_time_is_dead_after_its_attempts() {
    let mut server = Server::builder()
        .persistence(Persistence::AofCommands)
        .start();
    let mut conn = server.conn();
    call!(conn, "MQ.ENQUEUE", "q", "poison", "ID", "m", "ATTEMPTS", 3).unwrap();
    let mut tokens = Vec::new();
    for attempt in 1..=3 {
        let mut conn = server.conn();
        let taken = dequeue(&mut conn, "q", &["LOCK", "30", "BLOCK", "0"]).unwrap();
        assert_eq!(taken.attempt, attempt);
        tokens.push(taken);
        // The consumer is gone; once, the server too.
        drop(conn);
        if attempt == 2 {
            server.crash_and_restart();
        }
    }
    let mut conn = server.conn();
    faults::wait_for_status(&mut conn, "q", "m", Some("dead"));
    let letter = call!(conn, "MQ.GET", "q", "m").unwrap().fields();
    assert_eq!(
        (letter["attempts"].int(), letter["payload"].text()),
        (3, "poison".to_string())
    );
    assert!(
        !letter["reason"].is_nil(),
        "a dead letter says why: {letter:?}"
    );
    assert!(
        dequeue(&mut conn, "q", &["BLOCK", "100"]).is_none(),
        "never one delivery more"
    );
    let early = done(&mut conn, "q", &tokens[0], &[]);
    assert!(early.unwrap_err().starts_with("STALE "));
}

/// Makes saving take long enough to be hit in the middle.
fn slow_to_save(builder: ServerBuilder) -> ServerBuilder {
    builder
        .config("rdb-key-save-delay", 300)
        .config("rdbcompression", "no")
}

/// Something for a slow save to take its time over.
fn fill_with_keys(server: &Server) {
    let mut pipeline = redis_mq_testkit::redis::pipe();
    for number in 0..1_000 {
        pipeline
            .cmd("SET")
            .arg(format!("key-{number}"))
            .arg(number)
            .ignore();
    }
    pipeline
        .exec(&mut server.conn())
        .expect("the server takes keys");
}
