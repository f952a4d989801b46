//! At the memory limit a queue can be drained, what it held is given back, and MEMORY USAGE tells the
//! truth.

mod faults;

use faults::{
    builder, counter, dequeue, dequeue_many, done, enqueue, enqueue_many, rounds, server_number,
    status, Delivery, LONG_MS,
};
use redis_mq_testkit::redis::{self, Connection};
use redis_mq_testkit::{call, wait_until, ReplyExt, Server, ServerBuilder, PATIENCE};

/// What the server uses once all but one client are gone, and what is freed in the background too.
#[track_caller]
fn used_memory(server: &Server) -> i64 {
    wait_until(PATIENCE, || {
        server_number(server, "clients", "connected_clients") == 1
            && server_number(server, "memory", "lazyfree_pending_objects") == 0
    });
    server_number(server, "memory", "used_memory")
}

/// Ends deliveries in pipelines.
fn end_all(conn: &mut Connection, queue: &str, deliveries: &[Delivery], verdict: &[&str]) {
    for some in deliveries.chunks(5_000) {
        let mut pipeline = redis::pipe();
        for one in some {
            pipeline
                .cmd("MQ.DONE")
                .arg(queue)
                .arg(&one.id)
                .arg(one.token)
                .arg(verdict)
                .ignore();
        }
        pipeline.exec(conn).expect("each verdict is accepted");
    }
}

/// Takes so many messages for a long time.
fn take(conn: &mut Connection, queue: &str, count: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    while all.len() < count {
        let most = (count - all.len()).min(10_000);
        let some = dequeue_many(conn, queue, most, &["LOCK", &LONG_MS.to_string()]);
        assert!(!some.is_empty(), "{} of {count} are there", all.len());
        all.extend(some);
    }
    all
}

#[test]
fn memory_usage_is_the_truth_whatever_is_in_the_queue() {
    const COUNT: usize = 20_000;
    let long = &LONG_MS.to_string()[..];
    let reason = "r".repeat(100);
    let many_dead = || Server::builder().module_args(["max-dead", "1000000"]);
    type Fill<'a> = &'a dyn Fn(&mut Connection);
    let made: Fill = &|conn| {
        for _ in 0..COUNT / 5_000 {
            let mut pipeline = redis::pipe();
            for _ in 0..5_000 {
                pipeline
                    .cmd("MQ.ENQUEUE")
                    .arg("q")
                    .arg("some payload, not a long one")
                    .ignore();
            }
            pipeline.exec(conn).unwrap();
        }
    };
    let named: Fill = &|conn| enqueue_many(conn, "q", "a longer prefix of the id: ", COUNT, &[]);
    let delayed: Fill = &|conn| enqueue_many(conn, "q", "m", COUNT, &["DELAY", long]);
    let locked: Fill = &|conn| {
        made(conn);
        take(conn, "q", COUNT);
    };
    let windows: Fill = &|conn| {
        enqueue_many(conn, "q", "m", COUNT, &[]);
        let all = take(conn, "q", COUNT);
        end_all(conn, "q", &all, &["BACKOFF", long]);
    };
    let dead: Fill = &|conn| {
        enqueue_many(conn, "q", "m", COUNT, &[]);
        let all = take(conn, "q", COUNT);
        end_all(conn, "q", &all, &["ERROR", "REASON", &reason]);
    };
    let copies: Fill = &|conn| {
        enqueue_many(conn, "q", "m", COUNT, &[]);
        take(conn, "q", COUNT);
        enqueue_many(
            conn,
            "q",
            "m",
            COUNT,
            &["REQUEUE", "LOCK", "5000", "ATTEMPTS", "3"],
        );
    };
    let large: Fill = &|conn| {
        let payload = vec![b'x'; 50_000];
        for number in 0..400 {
            call!(*conn, "MQ.ENQUEUE", "q", &payload, "ID", number).unwrap();
        }
    };
    let mostly_gone: Fill = &|conn| {
        enqueue_many(conn, "q", "m", 4 * COUNT, &[]);
        let all = take(conn, "q", 4 * COUNT);
        // Every tenth stays, so that what stays is spread over all that was.
        let (stay, go): (Vec<_>, Vec<_>) = all
            .into_iter()
            .enumerate()
            .partition(|(number, _)| number % 10 == 0);
        assert_eq!(stay.len(), 4 * COUNT / 10);
        let go: Vec<_> = go.into_iter().map(|(_, one)| one).collect();
        end_all(conn, "q", &go, &[]);
    };
    for (what, fill) in [
        ("made ids", made),
        ("named ids", named),
        ("delayed", delayed),
        ("locked", locked),
        ("dedupe windows", windows),
        ("dead letters", dead),
        ("waiting copies", copies),
        ("large payloads", large),
        ("mostly gone", mostly_gone),
    ] {
        let server = many_dead().start();
        let before = used_memory(&server);
        fill(&mut server.conn());
        let truth = used_memory(&server) - before;
        let usage = call!(server.conn(), "MEMORY", "USAGE", "q", "SAMPLES", 0)
            .unwrap()
            .int();
        println!(
            "{what}: {usage} for {truth}, {:.3}",
            usage as f64 / truth as f64
        );
        assert_near(usage, truth, what);
        call!(server.conn(), "DEBUG", "RELOAD").unwrap();
        let truth = used_memory(&server) - before;
        let usage = call!(server.conn(), "MEMORY", "USAGE", "q", "SAMPLES", 0)
            .unwrap()
            .int();
        println!(
            "  reloaded: {usage} for {truth}, {:.3}",
            usage as f64 / truth as f64
        );
        assert_near(usage, truth, &format!("{what}, reloaded"));
        call!(server.conn(), "DEL", "q").unwrap();
        wait_until(PATIENCE, || used_memory(&server) - before < 300_000);
    }
}

#[track_caller]
fn assert_near(usage: i64, truth: i64, what: &str) {
    let error = (usage - truth).abs() as f64 / truth as f64;
    assert!(
        error < 0.15,
        "{what}: MEMORY USAGE says {usage}, the truth is {truth}"
    );
}

#[test]
fn an_empty_queue_is_small_and_says_so() {
    let server = Server::start();
    let before = used_memory(&server);
    {
        let mut conn = server.conn();
        enqueue_many(&mut conn, "q", "m", 50_000, &[]);
        let all = take(&mut conn, "q", 50_000);
        end_all(&mut conn, "q", &all, &[]);
        assert_eq!(counter(&mut conn, "q", "messages"), 0);
    }
    let usage = call!(server.conn(), "MEMORY", "USAGE", "q", "SAMPLES", 0)
        .unwrap()
        .int();
    assert!(usage < 200_000, "{usage} bytes for nothing");
    let with = used_memory(&server);
    call!(server.conn(), "DEL", "q").unwrap();
    let held = with - used_memory(&server);
    assert!((held - usage).abs() < 65_536, "says {usage}, held {held}");
    assert!(
        with - before < 500_000,
        "{} bytes are not given back",
        with - before
    );
}

#[test]
fn distinct_ids_leave_nothing_behind_whatever_removed_them() {
    const MESSAGES: usize = 12_000;
    let server = builder().module_args(["max-dead", "10"]).start();
    let mut conn = server.conn();
    let cycle = |conn: &mut Connection, round: usize, count: usize| {
        let prefix = format!("round {round}, message ");
        enqueue_many(conn, "q", &prefix, count, &["ATTEMPTS", "1"]);
        let all = take(conn, "q", count);
        let [finished, failed, windows, cancelled] =
            [0, 1, 2, 3].map(|part| &all[part * count / 4..(part + 1) * count / 4]);
        end_all(conn, "q", finished, &[]);
        end_all(
            conn,
            "q",
            failed,
            &["ERROR", "REASON", "a dead letter that is let go"],
        );
        end_all(conn, "q", windows, &["BACKOFF", "5"]);
        for some in cancelled.chunks(1_000) {
            let ids: Vec<_> = some.iter().map(|one| &one.id[..]).collect();
            call!(*conn, "MQ.CANCEL", "q", ids).unwrap();
        }
        wait_until(PATIENCE, || counter(conn, "q", "messages") == 10);
    };
    // After the first rounds all that is kept for later is there.
    (0..2).for_each(|round| cycle(&mut conn, round, MESSAGES));
    let baseline = server_number(&server, "memory", "used_memory");
    let total = rounds(3);
    for round in 2..2 + total {
        cycle(&mut conn, round, MESSAGES);
    }
    let after = server_number(&server, "memory", "used_memory");
    let left = after - baseline;
    assert!(
        left < 200_000,
        "{left} bytes are left of {} messages",
        total * MESSAGES
    );
}

/// A server that is full: enqueuing is refused. The queue holds at least `delivered + ready` messages.
fn full(delivered: usize, ready: usize) -> (Server, Vec<Delivery>) {
    let server = Server::builder()
        .config("maxmemory-policy", "noeviction")
        .start();
    let mut conn = server.conn();
    let delay = ["DELAY", "1500"];
    enqueue_many(&mut conn, "q", "m", delivered + ready, &["PRIORITY", "1"]);
    let taken = take(&mut conn, "q", delivered);
    enqueue_many(&mut conn, "later", "d", 3, &delay);
    enqueue(
        &mut conn,
        "later",
        "last",
        &["ATTEMPTS", "1", "PRIORITY", "0"],
    );
    dequeue(&mut conn, "later", &["LOCK", "1500"]).unwrap();
    call!(conn, "CONFIG", "SET", "maxmemory", 1).unwrap();
    (server, taken)
}

#[test]
fn at_the_limit_enqueuing_is_refused_and_changes_nothing() {
    let (server, _) = full(10, 10);
    let mut conn = server.conn();
    let before = redis_mq_testkit::digest(&mut conn, "q");
    for options in [&[][..], &["UPDATE"], &["REQUEUE"], &["UPDATE", "REQUEUE"]] {
        for id in ["m0", "m15", "new"] {
            let error = call!(conn, "MQ.ENQUEUE", "q", "p", "ID", id, options).unwrap_err();
            assert!(error.starts_with("OOM "), "{error}");
        }
    }
    let error = call!(conn, "MQ.ENQUEUE", "none", "p").unwrap_err();
    assert!(error.starts_with("OOM "), "{error}");
    let script = "return redis.call('MQ.ENQUEUE', KEYS[1], 'p')";
    assert!(call!(conn, "EVAL", script, 1, "q")
        .unwrap_err()
        .contains("OOM"));
    assert_eq!(redis_mq_testkit::digest(&mut conn, "q"), before);
    assert_eq!(call!(conn, "EXISTS", "none").unwrap().int(), 0);
}

#[test]
fn at_the_limit_everything_that_drains_works() {
    let (server, taken) = full(10, 300);
    let mut conn = server.conn();
    assert!(call!(conn, "MQ.ENQUEUE", "q", "p").is_err());
    let extended = call!(conn, "MQ.EXTEND", "q", &taken[0].id, taken[0].token, 60_000);
    assert!(extended.unwrap().int() > 0);
    for (delivery, verdict, became) in [
        (&taken[0], &[][..], "done"),
        (&taken[1], &["BACKOFF", "10"], "done-with-backoff"),
        (&taken[2], &["RETRY"], "queued"),
        (
            &taken[3],
            &["RETRY", "BACKOFF", "10"],
            "queued-with-backoff",
        ),
        (
            &taken[4],
            &["RETRY", "BACKOFF", "EXP"],
            "queued-with-backoff",
        ),
        (&taken[5], &["ERROR", "REASON", "the reason why"], "dead"),
        (&taken[6], &["RELEASE"], "queued"),
    ] {
        assert_eq!(
            done(&mut conn, "q", delivery, verdict).unwrap().text(),
            became
        );
    }
    assert_eq!(
        call!(conn, "MQ.CANCEL", "q", "m7", "m8", "m9")
            .unwrap()
            .int(),
        3
    );
    assert_eq!(status(&mut conn, "q", "m5").as_deref(), Some("dead"));
    assert_eq!(
        call!(conn, "MQ.GET", "q", "m5").unwrap().fields()["status"].text(),
        "dead"
    );
    let mut left = 303 + 1; // a retry with a pause is waited for
    while left > 1 {
        let some = dequeue_many(&mut conn, "q", 100, &["BLOCK", "0"]);
        left -= some.len();
        end_all(&mut conn, "q", &some, &[]);
    }
    // Time acts, and serves who waits.
    for number in 0..3 {
        let one = dequeue(&mut conn, "later", &["BLOCK", "0", "LOCK", "60000"]).unwrap();
        assert_eq!(one.name(), format!("d{number}"));
    }
    wait_until(PATIENCE, || counter(&mut conn, "later", "total-dead") == 1);
    call!(conn, "CONFIG", "SET", "maxmemory", 0).unwrap();
    assert_eq!(enqueue(&mut conn, "q", "again", &[]), "added");
}

#[test]
fn a_replica_beyond_its_own_limit_still_follows() {
    let (primary, replica) = (
        Server::start(),
        Server::builder().config("maxmemory", 1).start(),
    );
    replica.replica_of(&primary);
    let mut conn = primary.conn();
    enqueue_many(&mut conn, "q", "m", 5_000, &[]);
    let taken = take(&mut conn, "q", 2_000);
    end_all(&mut conn, "q", &taken[..1_000], &[]);
    faults::mix::assert_same_data(&primary, &[&replica]);
    assert_eq!(counter(&mut replica.conn(), "q", "messages"), 4_000);
}

#[test]
fn a_policy_that_could_evict_a_queue_is_warned_about() {
    let start = |policy: &str, limit: &str| -> Server {
        let builder: ServerBuilder = Server::builder();
        builder
            .config("maxmemory-policy", policy)
            .config("maxmemory", limit)
            .start()
    };
    let warned = |server: &Server| {
        server
            .log()
            .lines()
            .any(|line| line.contains("<mq>") && line.contains("maxmemory-policy"))
    };
    assert!(warned(&start("allkeys-lru", "100mb")));
    assert!(warned(&start("allkeys-random", "100mb")));
    assert!(!warned(&start("noeviction", "100mb")));
}

#[test]
fn unlinked_and_flushed_queues_are_freed_in_the_background() {
    let server = Server::start();
    let baseline = used_memory(&server);
    for command in [
        &["UNLINK", "q"][..],
        &["FLUSHALL", "ASYNC"],
        &["FLUSHDB", "ASYNC"],
    ] {
        enqueue_many(&mut server.conn(), "q", "m", 30_000, &[]);
        let freed = lazily_freed(&server);
        assert!(used_memory(&server) - baseline > 2_000_000);
        server.wire().call(command).unwrap();
        wait_until(PATIENCE, || used_memory(&server) - baseline < 300_000);
        assert!(
            lazily_freed(&server) > freed,
            "{command:?} freed it in the foreground"
        );
    }
}

fn lazily_freed(server: &Server) -> i64 {
    server_number(server, "memory", "lazyfreed_objects")
}
