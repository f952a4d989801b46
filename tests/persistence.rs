//! A queue is the same after every way of keeping it: snapshots, append-only files of both kinds,
//! copies and dumps.

mod faults;

use std::fs;

use faults::clock::Clock;
use faults::mix::{settle, Data, Mix};
use faults::scene::{self, View};
use faults::{aof, counter, dequeue, dequeue_many, done, enqueue, random, rounds, status};
use rand::Rng;
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{
    call, digest, wait_until, Persistence, ReplyExt, Server, ServerBuilder, Shutdown, PATIENCE,
};

fn kept(persistence: Persistence) -> ServerBuilder {
    faults::builder().persistence(persistence)
}

#[track_caller]
fn rewrite_aof(server: &Server) {
    call!(server.conn(), "BGREWRITEAOF").unwrap();
    wait_until(PATIENCE, || {
        server
            .info("persistence", "aof_rewrite_in_progress")
            .as_deref()
            == Some("0")
            && server
                .info("persistence", "aof_rewrite_scheduled")
                .as_deref()
                == Some("0")
    });
    assert_eq!(
        server
            .info("persistence", "aof_last_bgrewrite_status")
            .as_deref(),
        Some("ok")
    );
}

#[test]
fn three_restarts_in_three_modes_change_nothing_that_a_client_can_see() {
    for persistence in Persistence::DURABLE {
        let mut server = kept(persistence).start();
        let ids = scene::build(&mut server.conn(), "q");
        let before = scene::view(&mut server.conn(), "q", &ids);
        for restart in 1..=3 {
            server.restart(Shutdown::Save);
            let after = scene::view(&mut server.conn(), "q", &ids);
            assert_eq!(after, before, "{persistence:?}, restart {restart}");
        }
    }
}

#[test]
fn a_crash_and_a_replayed_append_only_file_change_nothing() {
    let mut server = kept(Persistence::AofCommands).start();
    let ids = scene::build(&mut server.conn(), "q");
    let before = scene::view(&mut server.conn(), "q", &ids);
    for _ in 0..2 {
        server.crash_and_restart();
        assert_eq!(scene::view(&mut server.conn(), "q", &ids), before);
    }
}

#[test]
fn a_rewritten_append_only_file_of_either_kind_changes_nothing() {
    for persistence in [Persistence::AofCommands, Persistence::AofSnapshot] {
        let mut server = kept(persistence).start();
        let mut conn = server.conn();
        let ids = scene::build(&mut conn, "q");
        let before = scene::view(&mut conn, "q", &ids);
        rewrite_aof(&server);
        // What comes after the rewrite continues from what it wrote.
        let unchanged = scene::view(&mut conn, "q", &ids);
        assert_eq!(unchanged, before, "{persistence:?}, while running");
        enqueue(&mut conn, "q", "after the rewrite", &["PRIORITY", "0"]);
        let taken = dequeue(&mut conn, "q", &["LOCK", "36000000"]).unwrap();
        done(&mut conn, "q", &taken, &["RETRY"]).unwrap();
        let expected = scene::view(&mut conn, "q", &ids);
        server.crash_and_restart();
        let found = scene::view(&mut server.conn(), "q", &ids);
        assert_eq!(found, expected, "{persistence:?}");
    }
}

#[test]
fn a_rewrite_of_a_large_queue_is_read_back_whole() {
    let mut server = kept(Persistence::AofCommands).start();
    let mut conn = server.conn();
    faults::enqueue_many(&mut conn, "q", "m", 20_000, &[]);
    faults::enqueue_many(
        &mut conn,
        "q",
        "d",
        5_000,
        &["DELAY", "36000000", "PRIORITY", "3"],
    );
    for delivery in dequeue_many(&mut conn, "q", 5_000, &[]) {
        done(&mut conn, "q", &delivery, &["BACKOFF", "36000000"]).unwrap();
    }
    let expected = digest(&mut conn, "q");
    rewrite_aof(&server);
    server.crash_and_restart();
    let mut conn = server.conn();
    assert_eq!(digest(&mut conn, "q"), expected);
    assert_eq!(dequeue(&mut conn, "q", &[]).unwrap().name(), "m5000");
}

#[test]
fn copies_and_dumps_are_the_same_queue() {
    let server = Server::start();
    let mut conn = server.conn();
    let ids = scene::build(&mut conn, "q");
    let before = scene::view(&mut conn, "q", &ids);
    let same = |conn: &mut Connection, key: &str| -> View { scene::view(conn, key, &ids) };

    assert_eq!(call!(conn, "COPY", "q", "copy").unwrap().int(), 1);
    assert_eq!(same(&mut conn, "copy"), before);
    let dump = call!(conn, "DUMP", "q").unwrap();
    call!(conn, "RESTORE", "restored", 0, dump.bytes()).unwrap();
    assert_eq!(same(&mut conn, "restored"), before);
    assert_eq!(
        call!(conn, "DUMP", "restored").unwrap(),
        dump,
        "a dump of the same is the same"
    );
    call!(conn, "RENAME", "restored", "renamed").unwrap();
    assert_eq!(same(&mut conn, "renamed"), before);
    assert_eq!(call!(conn, "MOVE", "renamed", 5).unwrap().int(), 1);
    call!(conn, "SELECT", 5).unwrap();
    assert_eq!(same(&mut conn, "renamed"), before);
    call!(conn, "SELECT", 0).unwrap();
    call!(conn, "DEBUG", "RELOAD").unwrap();
    assert_eq!(same(&mut conn, "copy"), before);

    // They are independent of each other from here on.
    let taken = dequeue(&mut conn, "copy", &[]).unwrap();
    assert_eq!(same(&mut conn, "q"), before);
    assert!(done(&mut conn, "q", &taken, &[])
        .unwrap_err()
        .starts_with("STALE "));
    call!(conn, "DEL", "copy").unwrap();
    assert_eq!(same(&mut conn, "q"), before);
}

#[test]
fn a_dump_is_understood_by_another_server() {
    let (one, other) = (Server::start(), Server::start());
    let ids = scene::build(&mut one.conn(), "q");
    let before = scene::view(&mut one.conn(), "q", &ids);
    let dump = call!(one.conn(), "DUMP", "q").unwrap();
    call!(other.conn(), "RESTORE", "q", 0, dump.bytes()).unwrap();
    assert_eq!(scene::view(&mut other.conn(), "q", &ids), before);
}

#[test]
fn an_empty_queue_keeps_its_counters() {
    for persistence in Persistence::DURABLE {
        let mut server = kept(persistence).start();
        let mut conn = server.conn();
        enqueue(&mut conn, "q", "only", &[]);
        let taken = dequeue(&mut conn, "q", &[]).unwrap();
        done(&mut conn, "q", &taken, &[]).unwrap();
        let before = scene::view(&mut conn, "q", &[]);
        server.restart(Shutdown::Save);
        let mut conn = server.conn();
        assert_eq!(scene::view(&mut conn, "q", &[]), before, "{persistence:?}");
        assert_eq!(counter(&mut conn, "q", "total-done"), 1);
        enqueue(&mut conn, "q", "next", &[]);
        let next = dequeue(&mut conn, "q", &[]).unwrap();
        assert!(next.token > taken.token, "a token must not come twice");
    }
}

#[test]
fn random_operations_survive_every_way_of_keeping_them() {
    let mut rng = random();
    for _ in 0..rounds(3) {
        for persistence in Persistence::DURABLE {
            let mut server = kept(persistence).start();
            let mut conn = server.conn();
            let mut mix = Mix::new(rng.random());
            mix.run(&mut conn, 700);
            if persistence != Persistence::Rdb && rng.random() {
                rewrite_aof(&server);
                mix.run(&mut conn, 300);
            }
            settle(&server);
            let expected = Data::at_rest(&mut conn);
            call!(conn, "DEBUG", "RELOAD").unwrap();
            assert_eq!(
                Data::at_rest(&mut conn),
                expected,
                "{persistence:?}, DEBUG RELOAD"
            );
            if persistence != Persistence::Rdb {
                call!(conn, "DEBUG", "LOADAOF").unwrap();
                assert_eq!(
                    Data::at_rest(&mut conn),
                    expected,
                    "{persistence:?}, DEBUG LOADAOF"
                );
                rewrite_aof(&server);
            }
            server.restart(Shutdown::Save);
            assert_eq!(
                Data::at_rest(&mut server.conn()),
                expected,
                "{persistence:?}, restart"
            );
        }
    }
}

#[test]
fn an_append_only_file_cut_anywhere_gives_a_state_that_there_was() {
    let mut rng = random();
    let mut server = kept(Persistence::AofCommands).start();
    let mut conn = server.conn();
    scene::build(&mut conn, "q");
    let file = aof::path(&server);
    let mut mix = Mix::new(rng.random()).messages_only();
    let mut states = vec![(file.metadata().unwrap().len(), Data::of(&mut conn))];
    for _ in 0..60 {
        mix.run(&mut conn, 1);
        states.push((file.metadata().unwrap().len(), Data::of(&mut conn)));
    }
    server.kill9();
    // What was written is to be seen, before time acts on it anew.
    server.configure_next_start("min-replicas-to-write", "1");
    let whole = fs::read(&file).unwrap();
    for _ in 0..rounds(30) {
        let cut = rng.random_range(states[0].0..=whole.len() as u64);
        fs::write(&file, &whole[..cut as usize]).unwrap();
        server.start_again();
        let found = Data::of(&mut server.conn());
        server.kill9();
        // Time may have acted between two looks: what it did is a state of its own, within the
        // commands that were written between the same two.
        let at = states.partition_point(|(length, _)| *length <= cut);
        let known = states[..at].iter().any(|(_, state)| *state == found);
        assert!(
            known || is_between(&mut server, &file, &whole, &found, states[at - 1].0, cut),
            "cut at {cut} of {}",
            whole.len()
        );
    }
}

/// Whether some whole number of the commands between two lengths of the file gives that digest.
fn is_between(
    server: &mut Server,
    file: &std::path::Path,
    whole: &[u8],
    expected: &Data,
    from: u64,
    to: u64,
) -> bool {
    let mut length = from as usize;
    while length <= to as usize {
        fs::write(file, &whole[..length]).unwrap();
        server.start_again();
        let found = Data::of(&mut server.conn());
        server.kill9();
        if found == *expected {
            return true;
        }
        let Some(next) = aof::length_of_first(&whole[length..]) else {
            break;
        };
        length += next;
    }
    false
}

#[test]
fn a_lone_delayed_message_reaches_a_blocked_consumer_after_a_restart() {
    for persistence in Persistence::DURABLE {
        let mut server = kept(persistence).start();
        let mut conn = server.conn();
        enqueue(&mut conn, "q", "later", &["DELAY", "400"]);
        let due = call!(conn, "MQ.GET", "q", "later").unwrap().fields()["due-at"].int();
        server.restart(Shutdown::Save);
        let mut wire = server.wire();
        let reply = wire.call(&["MQ.DEQUEUE", "q", "BLOCK", "0"]).unwrap();
        let delivery = faults::Delivery::of(&reply);
        assert_eq!(
            (delivery.name(), delivery.attempt),
            ("later".to_string(), 1)
        );
        assert!(server_time_ms(&mut server.conn()) >= due, "never early");
    }
}

#[test]
fn a_lock_that_ends_while_the_server_is_down_gives_the_message_back() {
    for persistence in Persistence::DURABLE {
        let mut server = kept(persistence).start();
        let mut conn = server.conn();
        enqueue(&mut conn, "q", "held", &[]);
        enqueue(&mut conn, "q", "last", &["ATTEMPTS", "1"]);
        enqueue(&mut conn, "q", "window", &[]);
        let taken = dequeue_many(&mut conn, "q", 3, &["LOCK", "150"]);
        done(&mut conn, "q", &taken[2], &["BACKOFF", "150"]).unwrap();
        server.shutdown(Shutdown::Save);
        let over = unix_ms() + 160;
        wait_until(PATIENCE, || unix_ms() >= over);
        server.start_again();
        let mut conn = server.conn();
        assert_eq!(status(&mut conn, "q", "held").as_deref(), Some("queued"));
        assert_eq!(status(&mut conn, "q", "last").as_deref(), Some("dead"));
        assert!(matches!(
            status(&mut conn, "q", "window").as_deref(),
            None | Some("done-awaiting-gc")
        ));
        let again = dequeue(&mut conn, "q", &[]).unwrap();
        assert_eq!((again.name(), again.attempt), ("held".to_string(), 2));
        assert!(again.token > taken[0].token);
        assert_eq!(dequeue(&mut conn, "q", &[]), None);
        faults::wait_for_status(&mut conn, "q", "window", None);
    }
}

#[test]
fn a_blocked_consumer_is_served_by_a_reload() {
    let clock = Clock::new();
    let server = clock.for_server(Server::builder()).start();
    let mut conn = server.conn();
    enqueue(&mut conn, "q", "there", &[]);
    let dump = call!(conn, "DUMP", "q").unwrap();
    call!(conn, "DEL", "q").unwrap();
    let mut wire = server.wire();
    // Locked for longer than the machine sleeps, or it would be the next one itself.
    wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0", "LOCK", "36000000"]);
    server.wait_for_blocked(1);
    call!(conn, "DEBUG", "RELOAD").unwrap();
    call!(conn, "RESTORE", "q", 0, dump.bytes()).unwrap();
    assert_eq!(faults::Delivery::of(&wire.reply().unwrap()).name(), "there");
    // What is due later is looked after also when it was loaded.
    enqueue(&mut conn, "q", "later", &["DELAY", "3600000"]);
    wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0", "LOCK", "36000000"]);
    server.wait_for_blocked(1);
    call!(conn, "DEBUG", "RELOAD").unwrap();
    clock.sleep_ms(3_600_000);
    assert_eq!(faults::Delivery::of(&wire.reply().unwrap()).name(), "later");
}

fn unix_ms() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("the clock is past 1970").as_millis()
}

fn server_time_ms(conn: &mut Connection) -> i64 {
    let time = call!(*conn, "TIME").unwrap();
    let number = |index: usize| time.items()[index].text().parse::<i64>().unwrap();
    number(0) * 1000 + number(1) / 1000
}
