//! Replicas hold what the primary holds, whenever they join and whatever the link does; and what is
//! sent to them is what changed, no more.

mod faults;

use std::thread;

use faults::clock::Clock;
use faults::mix::{assert_same_data, settle, Data, Mix};
use faults::{
    aof, counter, dataset_digest, dequeue, dequeue_many, done, enqueue, enqueue_many, random,
    rounds, scene, server_number, status, LONG_MS,
};
use rand::Rng;
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{
    call, digest, wait_until, Persistence, Proxy, ReplyExt, Server, ServerBuilder, Shutdown,
    PATIENCE,
};

fn primary() -> ServerBuilder {
    faults::builder()
        .config("repl-diskless-sync", "no")
        .config("repl-ping-replica-period", 3600)
        .config("repl-backlog-size", "64mb")
}

fn diskless() -> ServerBuilder {
    faults::builder()
        .config("repl-diskless-sync", "yes")
        .config("repl-diskless-sync-delay", 0)
        .config("repl-diskless-load", "swapdb")
        .config("repl-backlog-size", "64mb")
}

/// Lets several clients do random things at once.
fn mix_at_once(server: &Server, seeds: &[u64], steps: usize) {
    thread::scope(|scope| {
        for seed in seeds {
            let mut conn = server.conn();
            scope.spawn(move || Mix::new(*seed).run(&mut conn, steps));
        }
    });
}

#[test]
fn replicas_that_join_midway_hold_the_same() {
    let mut rng = random();
    for _ in 0..rounds(2) {
        for builder in [primary(), diskless()] {
            let servers: Vec<_> = (0..3).map(|_| builder.clone().start()).collect();
            let [primary, replica, late] = &servers[..] else {
                unreachable!()
            };
            mix_at_once(primary, &[rng.random()], 300);
            replica.replica_of_port(primary.port());
            mix_at_once(primary, &[rng.random(), rng.random()], 300);
            replica.wait_for_sync(primary);
            late.replica_of_port(primary.port());
            mix_at_once(primary, &[rng.random(), rng.random()], 300);
            assert_same_data(primary, &[replica, late]);
            settle(primary);
            assert_same_data(primary, &[replica, late]);
        }
    }
}

#[test]
fn a_replica_of_a_replica_holds_the_same() {
    let mut rng = random();
    let servers: Vec<_> = (0..3).map(|_| primary().start()).collect();
    let [primary, middle, last] = &servers[..] else {
        unreachable!()
    };
    mix_at_once(primary, &[rng.random()], 200);
    middle.replica_of(primary);
    mix_at_once(primary, &[rng.random()], 200);
    last.replica_of_port(middle.port());
    mix_at_once(primary, &[rng.random(), rng.random()], rounds(400));
    assert_same_data(primary, &[middle, last]);
    settle(primary);
    assert_same_data(primary, &[middle, last]);
}

#[test]
fn a_cut_link_resumes_from_the_backlog_with_the_same_data() {
    let mut rng = random();
    let (primary, replica) = (primary().start(), primary().start());
    let proxy = Proxy::start(primary.addr());
    replica.replica_of_port(proxy.addr().port());
    replica.wait_for_sync(&primary);
    let mut conn = primary.conn();
    let mut mix = Mix::new(rng.random());
    let cuts = rounds(6);
    for _ in 0..cuts {
        mix.run(&mut conn, 60);
        proxy.cut();
        mix.run(&mut conn, 60);
        replica.wait_for_sync(&primary);
        assert_same_data(&primary, &[&replica]);
    }
    assert_eq!(server_number(&primary, "stats", "sync_full"), 1);
    assert!(server_number(&primary, "stats", "sync_partial_ok") >= cuts as i64);
}

#[test]
fn a_replica_with_an_append_only_file_of_its_own_can_be_restarted_alone() {
    let mut rng = random();
    let primary = primary().start();
    for persistence in [Persistence::AofCommands, Persistence::AofSnapshot] {
        let mut replica = faults::builder().persistence(persistence).start();
        replica.replica_of(&primary);
        mix_at_once(&primary, &[rng.random(), rng.random()], 300);
        settle(&primary);
        assert_same_data(&primary, &[&replica]);
        let expected = Data::at_rest(&mut primary.conn());
        // Some versions refuse to end while they write their first append-only file.
        wait_until(PATIENCE, || {
            replica
                .info("persistence", "aof_rewrite_in_progress")
                .as_deref()
                == Some("0")
        });
        replica.restart(Shutdown::NoSave);
        assert_eq!(
            Data::at_rest(&mut replica.conn()),
            expected,
            "{persistence:?}"
        );
    }
}

#[test]
fn a_whole_scene_looks_the_same_on_a_replica_and_after_its_promotion() {
    let (primary, replica) = (primary().start(), primary().start());
    replica.replica_of(&primary);
    let ids = scene::build(&mut primary.conn(), "q");
    let before = scene::view(&mut primary.conn(), "q", &ids);
    replica.wait_for_sync(&primary);
    let mut conn = replica.conn();
    for id in &ids {
        for command in ["MQ.STATUS", "MQ.GET"] {
            assert_eq!(
                call!(conn, command, "q", id),
                call!(primary.conn(), command, "q", id),
                "{command} {}",
                id.escape_ascii()
            );
        }
    }
    replica.promote();
    assert_eq!(scene::view(&mut conn, "q", &ids), before);
}

/// A primary whose append-only file shows what it replicates, command by command.
fn recorded() -> Server {
    // Nothing that time does by itself may come in between.
    faults::builder()
        .persistence(Persistence::AofCommands)
        .start()
}

#[test]
fn nothing_is_replicated_where_nothing_changed() {
    let (server, replica) = (recorded(), Server::start());
    let mut conn = server.conn();
    replica.replica_of(&server);
    call!(conn, "CONFIG", "SET", "repl-ping-replica-period", 3600).unwrap();
    enqueue(&mut conn, "q", "queued", &["PRIORITY", "9"]);
    enqueue(&mut conn, "q", "delayed", &["DELAY", &LONG_MS.to_string()]);
    enqueue(&mut conn, "q", "locked", &[]);
    let taken = dequeue(&mut conn, "q", &[]).unwrap();
    enqueue(&mut conn, "q", "finished", &[]);
    let finished = dequeue(&mut conn, "q", &[]).unwrap();
    done(&mut conn, "q", &finished, &[]).unwrap();
    call!(conn, "SET", "string", "value").unwrap();
    enqueue(&mut conn, "empty", "only", &[]);
    dequeue(&mut conn, "empty", &[]).unwrap();
    call!(conn, "MQ.CANCEL", "empty", "only").unwrap();
    replica.wait_for_sync(&server);
    // A link that has just come up is still talked about for a moment.
    wait_until(PATIENCE, || {
        server.info("replication", "connected_slaves").as_deref() == Some("1")
    });

    let file = aof::path(&server);
    let written = aof::commands(&file);
    let offset = server_number(&server, "replication", "master_repl_offset");
    let state = dataset_digest(&mut conn);
    let token = taken.token.to_string();
    let stale = (taken.token + 1).to_string();
    let long = "x".repeat(513);
    let quiet: &[&[&str]] = &[
        &["MQ.ENQUEUE", "q", "p", "ID", "queued"],
        &["MQ.ENQUEUE", "q", "p", "ID", "delayed", "REQUEUE"],
        &["MQ.ENQUEUE", "q", "p", "ID", "locked"],
        &["MQ.ENQUEUE", "q", "p", "ID", "locked", "UPDATE"],
        &["MQ.ENQUEUE", "q", "p", "ID", &long],
        &["MQ.ENQUEUE", "new", "p", "DELAY", "-1"],
        &["MQ.ENQUEUE", "string", "p"],
        &["MQ.DEQUEUE", "empty"],
        &["MQ.DEQUEUE", "empty", "COUNT", "10"],
        &["MQ.DEQUEUE", "empty", "BLOCK", "5"],
        &["MQ.DEQUEUE", "empty", "EOQ"],
        &["MQ.DEQUEUE", "empty", "EOQ", "0", "5"],
        &["MQ.DEQUEUE", "none"],
        &["MQ.DEQUEUE", "none", "BLOCK", "5"],
        &["MQ.DEQUEUE", "none", "EOQ"],
        &["MQ.DEQUEUE", "string"],
        &["MQ.DONE", "q", "locked", &stale],
        &["MQ.DONE", "q", "locked", &token, "RELEASE", "BACKOFF", "5"],
        &["MQ.DONE", "q", "finished", &token],
        &["MQ.DONE", "q", "never", &token],
        &["MQ.DONE", "none", "never", &token],
        &["MQ.EXTEND", "q", "locked", &stale, "5"],
        &["MQ.EXTEND", "q", "never", &token, "5"],
        &["MQ.CANCEL", "q", "never", "nor"],
        &["MQ.CANCEL", "none", "never"],
        &["MQ.STATUS", "q", "locked"],
        &["MQ.GET", "q", "locked"],
        &["MQ.INFO", "q"],
        &["MQ.HELP"],
    ];
    let mut wire = server.wire();
    for command in quiet {
        let _ = wire.call(command); // errors are among them
    }
    let after = aof::commands(&file);
    assert_eq!(
        after.len(),
        written.len(),
        "{:?}",
        shown(&after[written.len()..])
    );
    assert_eq!(
        server_number(&server, "replication", "master_repl_offset"),
        offset
    );
    for command in quiet.iter().filter(|command| command.len() > 1) {
        let script = "return redis.pcall(unpack(ARGV))";
        let mut words = vec!["EVAL", script, "1", command[1]];
        words.extend_from_slice(command);
        let _ = wire.call(&words);
    }
    for command in quiet {
        wire.call(&["MULTI"]).unwrap();
        let _ = wire.call(command);
        let _ = wire.call(&["EXEC"]);
    }
    // Before 7.0 the server writes the frame of transactions and scripts, whatever is in it.
    let after = without_transactions(&aof::commands(&file)[written.len()..]);
    assert!(after.is_empty(), "{:?}", shown(&after));
    assert_eq!(dataset_digest(&mut conn), state);
    assert_eq!(call!(conn, "EXISTS", "none", "new").unwrap().int(), 0);
}

#[test]
fn each_step_is_replicated_as_one_command_with_its_queue_as_key() {
    let server = recorded();
    let mut conn = server.conn();
    let long = LONG_MS.to_string();
    let mut lone = |steps: usize, what: &str, step: &mut dyn FnMut(&mut Connection)| {
        let file = aof::path(&server);
        let before = aof::commands(&file).len();
        step(&mut conn);
        let all = aof::commands(&file);
        let new = without_transactions(&all[before..]);
        assert_eq!(new.len(), steps, "{what}: {:?}", shown(&new));
        for command in &new {
            assert!(
                command[0].to_ascii_uppercase().starts_with(b"MQ."),
                "{what}"
            );
            assert_eq!(command[1], b"q", "{what}");
        }
    };
    let mut taken = Vec::new();
    lone(1, "ENQUEUE", &mut |conn| drop(enqueue(conn, "q", "a", &[])));
    lone(1, "ENQUEUE without id", &mut |conn| {
        drop(call!(*conn, "MQ.ENQUEUE", "q", "p").unwrap())
    });
    lone(1, "DELAY", &mut |conn| {
        drop(enqueue(conn, "q", "b", &["DELAY", &long]))
    });
    lone(1, "UPDATE", &mut |conn| {
        drop(enqueue(conn, "q", "b", &["UPDATE"]))
    });
    lone(1, "DEQUEUE COUNT", &mut |conn| {
        taken = dequeue_many(conn, "q", 10, &["LOCK", &long])
    });
    assert_eq!(taken.len(), 2);
    lone(1, "REQUEUE", &mut |conn| {
        drop(enqueue(conn, "q", "a", &["REQUEUE"]))
    });
    lone(1, "EXTEND", &mut |conn| {
        call!(*conn, "MQ.EXTEND", "q", "a", taken[0].token, LONG_MS).unwrap();
    });
    lone(1, "DONE", &mut |conn| {
        drop(done(conn, "q", &taken[0], &[]).unwrap())
    });
    lone(1, "RETRY", &mut |conn| {
        drop(done(conn, "q", &taken[1], &["RETRY", "BACKOFF", "EXP"]))
    });
    lone(1, "CANCEL", &mut |conn| {
        let made = &taken[1].id;
        assert_eq!(
            call!(*conn, "MQ.CANCEL", "q", "a", "b", "c", made)
                .unwrap()
                .int(),
            3
        );
    });
    lone(2, "a served waiter", &mut |conn| {
        let mut wire = server.wire();
        wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0", "LOCK", &long]);
        server.wait_for_blocked(1);
        enqueue(conn, "q", "woken", &[]);
        wire.reply().unwrap();
    });
    lone(3, "in a transaction", &mut |conn| {
        let mut pipeline = redis_mq_testkit::redis::pipe();
        pipeline.atomic();
        pipeline
            .cmd("MQ.ENQUEUE")
            .arg("q")
            .arg("p")
            .arg("ID")
            .arg("x");
        pipeline
            .cmd("MQ.ENQUEUE")
            .arg("q")
            .arg("p")
            .arg("ID")
            .arg("y");
        pipeline
            .cmd("MQ.DEQUEUE")
            .arg("q")
            .arg("LOCK")
            .arg(&long)
            .arg("BLOCK")
            .arg(0);
        pipeline.cmd("MQ.DEQUEUE").arg("none").arg("BLOCK").arg(0);
        pipeline.exec(conn).unwrap();
    });
    let before = digest(&mut conn, "q");
    call!(conn, "DEBUG", "LOADAOF").unwrap();
    assert_eq!(digest(&mut conn, "q"), before);
}

#[test]
fn what_time_does_to_many_is_few_commands() {
    let server = recorded();
    let mut conn = server.conn();
    enqueue_many(&mut conn, "q", "m", 2_000, &[]);
    let file = aof::path(&server);
    let before = aof::commands(&file).len();
    // One command, so one deadline.
    assert_eq!(
        dequeue_many(&mut conn, "q", 2_000, &["LOCK", "100"]).len(),
        2_000
    );
    wait_until(PATIENCE, || {
        counter(&mut conn, "q", "total-expired-locks") == 2_000
    });
    let mut taken = 0;
    while taken < 2_000 {
        // Time does a bounded number of things per command, so this may take a few.
        let some = dequeue_many(&mut conn, "q", 2_000, &["LOCK", &LONG_MS.to_string()]);
        assert!(!some.is_empty(), "null only if nothing is ready");
        taken += some.len();
    }
    let new = without_transactions(&aof::commands(&file)[before..]).len();
    assert!((3..=50).contains(&new), "{new} commands");
    let state = digest(&mut conn, "q");
    call!(conn, "DEBUG", "LOADAOF").unwrap();
    assert_eq!(digest(&mut conn, "q"), state);
}

#[test]
fn a_waiter_that_is_woken_in_vain_leaves_what_time_did_in_the_stream() {
    let server = recorded();
    let mut conn = server.conn();
    let mut other = server.conn();
    call!(other, "SELECT", 5).unwrap();
    for (id, options, over, verdict) in [
        (
            "window",
            &[][..],
            "done-awaiting-gc",
            Some(&["BACKOFF", "20"][..]),
        ),
        ("last", &["ATTEMPTS", "1"], "dead", None),
    ] {
        for by in ["RENAME", "SWAPDB"] {
            call!(conn, "FLUSHALL").unwrap();
            let (maker, queue) = if by == "RENAME" {
                (&mut conn, "p")
            } else {
                (&mut other, "q")
            };
            enqueue(maker, queue, id, options);
            let taken = dequeue(maker, queue, &["LOCK", "20"]).unwrap();
            if let Some(verdict) = verdict {
                done(maker, queue, &taken, verdict).unwrap();
            }
            // The waiter is woken by a queue in which time has something to do that makes nothing
            // ready. Nobody has waited so far, so time has taken its time.
            faults::wait_for_status(maker, queue, id, Some(over));
            let mut wire = server.wire();
            wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0"]);
            server.wait_for_blocked(1);
            match by {
                "RENAME" => call!(conn, "RENAME", "p", "q"),
                _ => call!(conn, "SWAPDB", 0, 5),
            }
            .unwrap();
            call!(conn, "PING").unwrap();
            enqueue(&mut conn, "q", "served", &[]);
            let served = faults::Delivery::of(&wire.reply().unwrap());
            assert_eq!(served.name(), "served");
            faults::let_time_act(&mut conn, "q");
            let state = digest(&mut conn, "q");
            call!(conn, "DEBUG", "LOADAOF").unwrap();
            assert_eq!(digest(&mut conn, "q"), state, "{id}, {by}");
        }
    }
}

#[test]
fn a_replica_refuses_every_step_at_once() {
    let (primary, replica) = (primary().start(), primary().start());
    let mut conn = primary.conn();
    enqueue(&mut conn, "q", "there", &[]);
    let taken = dequeue(&mut conn, "q", &[]).unwrap();
    enqueue(&mut conn, "q", "ready", &[]);
    replica.replica_of(&primary);
    let token = taken.token.to_string();
    let mut wire = replica.wire();
    let steps: &[&[&str]] = &[
        &["MQ.ENQUEUE", "q", "p"],
        &["MQ.DEQUEUE", "q"],
        &["MQ.DEQUEUE", "q", "BLOCK", "0"],
        &["MQ.DEQUEUE", "none", "BLOCK", "0"],
        &["MQ.DEQUEUE", "none", "EOQ"],
        &["MQ.DONE", "q", "there", &token],
        &["MQ.EXTEND", "q", "there", &token, "5"],
        &["MQ.CANCEL", "q", "there"],
    ];
    for command in steps {
        let error = wire.call(command).unwrap_err();
        assert!(error.starts_with("READONLY "), "{command:?}: {error}");
    }
    assert_eq!(
        wire.call(&["MQ.STATUS", "q", "there"]).unwrap().text(),
        "locked"
    );
    assert_same_data(&primary, &[&replica]);
}

#[test]
fn a_replica_whose_primary_is_gone_tells_what_holds_now_and_changes_nothing() {
    let clock = Clock::new();
    let (mut primary, replica) = (primary().start(), clock.for_server(primary()).start());
    replica.replica_of(&primary);
    let mut conn = primary.conn();
    for (id, options) in [
        ("held", &[][..]),
        ("held-last", &["ATTEMPTS", "1"]),
        ("held-copy", &[]),
        ("window", &[]),
        ("window-copy", &[]),
    ] {
        enqueue(&mut conn, "q", id, options);
    }
    let taken = dequeue_many(&mut conn, "q", 5, &["LOCK", "1800000"]);
    enqueue(&mut conn, "q", "delayed", &["DELAY", "1800000"]);
    enqueue(&mut conn, "q", "held-copy", &["REQUEUE"]);
    done(&mut conn, "q", &taken[3], &["BACKOFF", "1800000"]).unwrap();
    done(&mut conn, "q", &taken[4], &["BACKOFF", "1800000"]).unwrap();
    enqueue(&mut conn, "q", "window-copy", &["REQUEUE"]);
    replica.wait_for_sync(&primary);
    primary.kill9();

    let mut conn = replica.conn();
    let state = dataset_digest(&mut conn);
    let mut expected = Vec::new();
    for (id, now, later) in [
        ("held", "locked", "queued"),
        ("held-last", "locked", "dead"),
        ("held-copy", "locked-with-requeue", "queued"),
        ("window", "done-with-backoff", "done-awaiting-gc"),
        ("window-copy", "done-with-requeue", "queued"),
        ("delayed", "queued-with-backoff", "queued"),
    ] {
        assert_eq!(status(&mut conn, "q", id).as_deref(), Some(now), "{id}");
        expected.push((id, later));
    }
    clock.sleep_ms(3_600_000);
    for (id, later) in expected {
        wait_until(PATIENCE, || {
            status(&mut conn, "q", id).as_deref() == Some(later)
        });
    }
    let counts = faults::counters(&mut conn, "q");
    assert_eq!(
        ["queued", "dead", "done-awaiting-gc", "locked", "messages"].map(|name| counts[name]),
        [4, 1, 1, 0, 6],
        "{counts:?}"
    );
    assert_eq!(
        counts["next-due-ms"], -1,
        "time alone moves nothing any more"
    );
    assert_eq!(
        dataset_digest(&mut conn),
        state,
        "nothing acts on a replica"
    );

    // Promoted, it lets time act.
    replica.promote();
    faults::wait_for_status(&mut conn, "q", "window", None);
    let all = dequeue_many(&mut conn, "q", 10, &[]);
    let mut got: Vec<_> = all.iter().map(|one| (one.name(), one.attempt)).collect();
    got.sort();
    let expected = [
        ("delayed", 1),
        ("held", 2),
        ("held-copy", 2),
        ("window-copy", 1),
    ];
    assert_eq!(got, expected.map(|(id, attempt)| (id.to_string(), attempt)));
    let newest = taken.iter().map(|one| one.token).max();
    assert!(all.iter().all(|one| Some(one.token) > newest));
}

/// The commands themselves, where the server wraps them.
fn without_transactions(commands: &[aof::Written]) -> Vec<aof::Written> {
    let wrapper = |command: &aof::Written| {
        command[0].eq_ignore_ascii_case(b"MULTI") || command[0].eq_ignore_ascii_case(b"EXEC")
    };
    commands
        .iter()
        .filter(|command| !wrapper(command))
        .cloned()
        .collect()
}

fn shown(commands: &[aof::Written]) -> Vec<String> {
    let words = |command: &aof::Written| {
        let words: Vec<_> = command
            .iter()
            .map(|word| word.escape_ascii().to_string())
            .collect();
        words.join(" ")
    };
    commands.iter().map(words).collect()
}
