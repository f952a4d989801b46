//! Whatever is sent, restored or found in a file: an error or a sound queue, never the end of the
//! server.

mod faults;

use std::io::Write;
use std::net::TcpStream;

use faults::{
    aof, dequeue_many, done, enqueue, enqueue_many, random, rounds, scene, server_number, Delivery,
    LONG_MS,
};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::Rng;
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{
    call, digest, wait_until, Persistence, Reply, ReplyExt, Server, ServerBuilder, Value, Wire,
    PATIENCE,
};

/// In every id, payload and reason here; must never appear in the log.
const MARK: &str = "%s%n-user-bytes";
/// The version and the checksum at the end of a dump.
const FOOTER: usize = 10;

/// A server that believes every dump.
fn credulous() -> Server {
    let builder = Server::builder().config("rdbcompression", "no");
    let server = builder.config("sanitize-dump-payload", "no").start();
    call!(server.conn(), "DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1).unwrap();
    server
}

/// A small queue with a message of each kind. Gives its ids.
fn small_scene(conn: &mut Connection, queue: &str) -> Vec<String> {
    let long = &LONG_MS.to_string()[..];
    let name = |what: &str| format!("{what} {MARK}");
    let take = [
        "locked",
        "copy",
        "window",
        "window copy",
        "dead",
        "retried",
        "expired",
        "attempts",
    ];
    for what in take {
        let options: &[&str] = match what {
            "expired" => &["LOCK", "1"],
            "attempts" => &["ATTEMPTS", "1", "LOCK", "1"],
            _ => &[],
        };
        enqueue(conn, queue, &name(what), options);
    }
    let taken = dequeue_many(conn, queue, take.len(), &["LOCK", long]);
    done(conn, queue, &taken[2], &["BACKOFF", long]).unwrap();
    done(conn, queue, &taken[3], &["BACKOFF", long]).unwrap();
    done(conn, queue, &taken[4], &["ERROR", "REASON", MARK]).unwrap();
    done(conn, queue, &taken[5], &["RETRY", "BACKOFF", long]).unwrap();
    enqueue(
        conn,
        queue,
        &name("copy"),
        &["REQUEUE", "DELAY", "5", "LOCK", "6", "ATTEMPTS", "7"],
    );
    enqueue(conn, queue, &name("window copy"), &["REQUEUE"]);
    enqueue(conn, queue, &name("queued"), &["PRIORITY", "2"]);
    enqueue(
        conn,
        queue,
        "0193f5c8-7a3e-7c4d-9b2a-5f6e7d8c9b0a",
        &["DELAY", long],
    );
    call!(*conn, "MQ.ENQUEUE", queue, "").unwrap();
    let daily = ["CRON", "0 3 * * *", "TZ", "Asia/Tokyo"];
    call!(*conn, "MQ.SCHEDULE", queue, "schedule", "p", &daily).unwrap();
    let every = ["EVERY", long, "OVERLAP", "ALLOW", "TIMES", "3"];
    call!(*conn, "MQ.SCHEDULE", queue, "every", MARK, &every).unwrap();
    scene::wait_for_nothing_due(conn, queue);
    faults::let_time_act(conn, queue);
    let mut all: Vec<_> = take.iter().map(|what| name(what)).collect();
    all.push("0193f5c8-7a3e-7c4d-9b2a-5f6e7d8c9b0a".to_string());
    all
}

/// Does everything with a queue that may hold anything; each command must get some reply. What can
/// be stored must be loadable, and be the same then.
#[track_caller]
fn use_everything(wire: &mut Wire, queue: &str, ids: &[String]) {
    // In transactions, so that time does not act in between.
    let found = atomically(wire, &[&[b"DUMP", queue.as_bytes()], &digest_of(queue)]);
    let dump = &found[0];
    let words: [&[u8]; 5] = [b"RESTORE", b"again", b"0", dump.bytes(), b"REPLACE"];
    let again = atomically(wire, &[&words, &digest_of("again")]);
    assert_eq!(again[0].text(), "OK", "what was dumped can be restored");
    assert_eq!(again[1], found[1], "the same after a dump");
    let size = wire
        .call(&["MEMORY", "USAGE", queue])
        .expect("MEMORY answers")
        .int();
    assert!(size < 1_000_000, "{size} bytes for a small dump");

    let some = &ids[dump.bytes().len() % ids.len()][..];
    let commands: &[&[&str]] = &[
        &["MQ.INFO", queue],
        &["MQ.STATUS", queue, some],
        &["MQ.GET", queue, some],
        &["MQ.PEEK", queue],
        &["MQ.LATENCY", queue],
        &["MQ.RESULT", queue, some],
        &["MQ.LIMITS", queue],
        &["MQ.GROUPS", queue, "0"],
        &["MQ.GROUPS", queue, "0", "GROUP", some],
        &["MQ.PEEK", queue, "STATUS", "dead", "REV"],
        &["MQ.SCAN", queue, "0"],
        &["MQ.REDRIVE", queue, some],
        &["MQ.REDRIVE", queue, "COUNT", "2"],
        &["MQ.PURGE", queue, "locked", "COUNT", "1"],
        &["MQ.PURGE", queue, "ALL", "COUNT", "3"],
        &["MQ.ENQUEUE", queue, "p", "ID", some, "REQUEUE", "UPDATE"],
        &["MQ.DEQUEUE", queue, "COUNT", "3", "LOCK", "1"],
        &["MQ.DEQUEUE", queue, "EOQ"],
        &["MQ.MDEQUEUE", "2", queue, queue, "COUNT", "3", "LOCK", "1"],
        &["MQ.DONE", queue, some, "1", "RETRY", "BACKOFF", "EXP"],
        &["MQ.MENQUEUE", queue, "2", "p", "p", "IDS", some, "new"],
        &[
            "MQ.MENQUEUE",
            queue,
            "1",
            "p",
            "THEN",
            "p",
            "THENID",
            "then",
        ],
        &["MQ.ENQUEUE", queue, "p", "JOIN", "then"],
        &["MQ.MDONE", queue, "2", some, "1", some, "2", "RETRY"],
        &["MQ.DONE", queue, some, "2", "RESULT", "r", "RETAIN", "5000"],
        &["MQ.EXTEND", queue, some, "1", "1"],
        &["MQ.CANCEL", queue, some],
        &["MQ.SCHEDULES", queue, "0"],
        &["MQ.FIRE", queue, "schedule"],
        &["MQ.SCHEDULE", queue, "schedule", "p", "CRON", "* * * * *"],
        &["MQ.SCHEDULE", queue, some, "p", "EVERY", "1000"],
        &["MQ.UNSCHEDULE", queue, "schedule"],
        &["COPY", queue, "copy", "REPLACE"],
        &["MQ.DEQUEUE", queue, "COUNT", "100"],
        &["MQ.INFO", queue],
        &["DEL", queue, "copy"],
    ];
    commands.iter().for_each(|command| wire.send(command));
    commands.iter().for_each(|_| drop(wire.reply()));
}

fn digest_of(queue: &str) -> [&[u8]; 3] {
    [b"DEBUG", b"DIGEST-VALUE", queue.as_bytes()]
}

/// Runs commands as one transaction and gives their replies.
#[track_caller]
fn atomically(wire: &mut Wire, commands: &[&[&[u8]]]) -> Vec<Value> {
    wire.send(&["MULTI"]);
    commands.iter().for_each(|command| wire.send(command));
    wire.send(&["EXEC"]);
    for _ in 0..=commands.len() {
        wire.reply().expect("the command is taken");
    }
    wire.reply().expect("the transaction runs").items().to_vec()
}

/// Saves and loads everything, with nothing else going on.
#[track_caller]
fn assert_survives_a_reload(conn: &mut Connection) {
    call!(*conn, "CLIENT", "PAUSE", 120_000, "WRITE").unwrap();
    let before = faults::dataset_digest(conn);
    call!(*conn, "DEBUG", "RELOAD").unwrap();
    assert_eq!(faults::dataset_digest(conn), before);
    call!(*conn, "CLIENT", "UNPAUSE").unwrap();
}

/// What became of mutated input.
#[derive(Debug, Default)]
struct Tally {
    refused: usize,
    accepted: usize,
}

/// Restores one mutated dump and uses what came of it.
#[track_caller]
fn restore(wire: &mut Wire, dump: &[u8], ids: &[String], tally: &mut Tally) {
    let words: [&[u8]; 5] = [b"RESTORE", b"mutant", b"0", dump, b"REPLACE"];
    match wire.call(&words) {
        Err(error) => {
            assert!(error.starts_with("ERR "), "{error}");
            tally.refused += 1;
        }
        Ok(_) => {
            tally.accepted += 1;
            let kind = wire.call(&["TYPE", "mutant"]).expect("TYPE answers").text();
            assert_eq!(kind, "mq-circle");
            use_everything(wire, "mutant", ids);
        }
    }
}

#[test]
fn every_truncation_and_bit_flip_of_a_dump_is_an_error_or_a_sound_queue() {
    let server = credulous();
    let mut conn = server.conn();
    let ids = small_scene(&mut conn, "q");
    let dump = call!(conn, "DUMP", "q").unwrap();
    let (body, footer) = dump.bytes().split_at(dump.bytes().len() - FOOTER);
    let mut wire = server.wire();
    let mut tally = Tally::default();
    for cut in 1..body.len() {
        restore(
            &mut wire,
            &[&body[..cut], footer].concat(),
            &ids,
            &mut tally,
        );
    }
    assert_eq!(tally.accepted, 0, "a truncated dump is never a queue");
    // The first byte says what kind of value it is: another kind is another type's affair.
    for at in 1..body.len() {
        for bit in 0..8 {
            let mut mutant = dump.bytes().to_vec();
            mutant[at] ^= 1 << bit;
            restore(&mut wire, &mutant, &ids, &mut tally);
        }
    }
    println!("{} bytes: {tally:?}", body.len());
    assert!(
        tally.accepted > 0,
        "a flipped bit in a payload is another payload"
    );
    assert_no_user_bytes(&server);
}

#[test]
fn mangled_dumps_are_errors_or_sound_queues_and_can_be_saved() {
    let mut rng = random();
    let server = credulous();
    let mut conn = server.conn();
    let ids = small_scene(&mut conn, "q");
    let mut dumps = vec![call!(conn, "DUMP", "q").unwrap().bytes().to_vec()];
    enqueue_many(&mut conn, "large", MARK, 3_000, &[]);
    dumps.push(call!(conn, "DUMP", "large").unwrap().bytes().to_vec());
    call!(conn, "CONFIG", "SET", "rdbcompression", "yes").unwrap();
    dumps.push(call!(conn, "DUMP", "q").unwrap().bytes().to_vec());
    let mut wire = server.wire();
    let mut tally = Tally::default();
    for _ in 0..rounds(3_000) {
        let dump = dumps.choose(&mut rng).expect("there are three");
        let mutant = mangle(&mut rng, dump);
        restore(&mut wire, &mutant, &ids, &mut tally);
        if rng.random_ratio(1, 20) {
            // Some stay, to be saved and loaded with all others.
            let name = format!("kept {}", tally.accepted);
            wire.send(&[b"RESTORE", name.as_bytes(), b"0", &mutant, b"REPLACE"]);
            drop(wire.reply());
        }
    }
    println!("{tally:?}");
    assert_survives_a_reload(&mut conn);
    assert_no_user_bytes(&server);
}

/// Changes a few bytes behind the first in some way; the footer stays.
fn mangle(rng: &mut SmallRng, dump: &[u8]) -> Vec<u8> {
    let (body, footer) = dump.split_at(dump.len() - FOOTER);
    let mut body = body.to_vec();
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(1..body.len());
        match rng.random_range(0..6) {
            0 => body[at] = rng.random(),
            1 => {
                body[at] = *[0, 1, 0x7F, 0x80, 0xFF]
                    .choose(rng)
                    .expect("there are some")
            }
            2 => body.insert(at, rng.random()),
            3 => drop(body.remove(at)),
            4 => {
                let end = rng.random_range(at..body.len().min(at + 40));
                let piece = body[at..end].to_vec();
                let to = rng.random_range(1..body.len());
                body.splice(to..to, piece);
            }
            _ => {
                let end = rng.random_range(at..body.len().min(at + 40));
                body.drain(at..end);
            }
        }
        if body.len() < 2 {
            break;
        }
    }
    body.extend_from_slice(footer);
    body
}

#[test]
fn damaged_effects_in_an_append_only_file_do_not_end_the_server() {
    let mut rng = random();
    let recorder = Server::builder()
        .persistence(Persistence::AofCommands)
        .start();
    if !recorder.version().offers_redis(7, 0) {
        return; // it has no way to go on after a command of its file that failed
    }
    let mut conn = recorder.conn();
    // Every command of the scene, with the queue before it.
    small_scene(&mut conn, "q");
    let steps: Vec<_> = aof::commands(&aof::path(&recorder))
        .into_iter()
        .filter(|command| command[0].to_ascii_uppercase().starts_with(b"MQ."))
        .collect();
    assert!(steps.len() > 15);
    let replayed = Server::builder()
        .persistence(Persistence::AofCommands)
        .config("propagation-error-behavior", "ignore")
        .config("rdbcompression", "no");
    let mut before = vec![Vec::new()];
    for length in 1..steps.len() {
        before.push(state_after(&replayed, &steps[..length]));
    }

    let mut file = Vec::new();
    let mut count = 0;
    for (step, dump) in steps.iter().zip(&before) {
        let effects = step.last().expect("a command has words");
        let mut mutants = Vec::new();
        for at in 0..effects.len() {
            mutants.push(effects[..at].to_vec());
            for bit in 0..8 {
                let mut mutant = effects.clone();
                mutant[at] ^= 1 << bit;
                mutants.push(mutant);
            }
        }
        if !faults::soaking() {
            let share = mutants.len() as u32 / 150 + 1;
            mutants.retain(|_| rng.random_ratio(1, share));
        }
        for mutant in mutants {
            let key = format!("k{count}").into_bytes();
            if !dump.is_empty() {
                file.extend(aof::encode(&[b"RESTORE", &key[..], b"0", dump]));
            }
            let mut command = step.clone();
            command[1] = key;
            *command.last_mut().expect("a command has words") = mutant;
            file.extend(aof::encode(&command));
            count += 1;
        }
    }
    let server = with_file(&replayed, &file);
    println!("{count} damaged steps");
    // Whatever came of them: queues that can be used, dumped and saved.
    let mut conn = server.conn();
    assert_survives_a_reload(&mut conn);
    let ids: Vec<_> = small_scene(&mut conn, "fresh");
    let mut wire = server.wire();
    for number in 0..count {
        let key = format!("k{number}");
        if wire.call(&["EXISTS", &key]).unwrap().int() == 1 {
            use_everything(&mut wire, &key, &ids);
        }
    }
    assert_no_user_bytes(&server);
}

/// The dump of the queue that these commands make.
fn state_after(builder: &ServerBuilder, steps: &[aof::Written]) -> Vec<u8> {
    let file: Vec<_> = steps.iter().flat_map(|step| aof::encode(step)).collect();
    let server = with_file(builder, &file);
    call!(server.conn(), "DUMP", "q").unwrap().bytes().to_vec()
}

/// A server that has read this append-only file.
#[track_caller]
fn with_file(builder: &ServerBuilder, file: &[u8]) -> Server {
    let mut server = builder.clone().start();
    server.kill9();
    std::fs::write(aof::path(&server), file).expect("the file can be written");
    server.start_again();
    server
}

#[test]
fn the_command_of_the_replication_is_refused_to_everyone_else() {
    let (primary, replica) = (Server::start(), Server::start());
    let mut conn = primary.conn();
    let recorder = Server::builder()
        .persistence(Persistence::AofCommands)
        .start();
    enqueue(&mut recorder.conn(), "q", "forged", &[]);
    let written = aof::commands(&aof::path(&recorder))
        .into_iter()
        .find(|command| command[0].eq_ignore_ascii_case(b"MQ.APPLY"))
        .expect("the first step on a queue is replicated as effects");
    let effects = &written[2];
    enqueue(&mut conn, "q", "real", &[]);
    replica.replica_of(&primary);
    let state = digest(&mut conn, "q");

    for server in [&primary, &replica] {
        let mut wire = server.wire();
        for blob in [&effects[..], b"", b"\0", &[0xFF; 100]] {
            for key in ["q", "new"] {
                refused(wire.call(&[b"MQ.APPLY", key.as_bytes(), blob]));
                wire.call(&["MULTI"]).unwrap();
                let _ = wire.call(&[b"MQ.APPLY", key.as_bytes(), blob]);
                if let Ok(replies) = wire.call(&["EXEC"]) {
                    let all = replies.items().iter();
                    assert!(all
                        .clone()
                        .all(|reply| matches!(reply, Value::ServerError(_))));
                }
                let script = b"return redis.call('MQ.APPLY', KEYS[1], ARGV[1])";
                refused(wire.call(&[b"EVAL", &script[..], b"1", key.as_bytes(), blob]));
            }
        }
    }
    if primary.version().offers_redis(7, 0) {
        let library = "#!lua name=forge\nredis.register_function('forge', function(keys, args) \
                       return redis.call('MQ.APPLY', keys[1], args[1]) end)";
        call!(conn, "FUNCTION", "LOAD", library).unwrap();
        refused(call!(conn, "FCALL", "forge", 1, "q", effects));
    }
    call!(conn, "ACL", "SETUSER", "all", "on", "nopass", "~*", "&*", "+@all").unwrap();
    let mut wire = primary.wire();
    wire.call(&["AUTH", "all", "x"]).unwrap();
    refused(wire.call(&[&b"MQ.APPLY"[..], b"q", effects]));
    wire.call(&["REPLCONF", "listening-port", "1"]).unwrap();
    refused(wire.call(&[&b"MQ.APPLY"[..], b"q", effects]));

    for server in [&primary, &replica] {
        assert_eq!(digest(&mut server.conn(), "q"), state);
        assert_eq!(call!(server.conn(), "EXISTS", "new").unwrap().int(), 0);
    }
}

#[track_caller]
fn refused(reply: Reply) {
    let error = reply.unwrap_err();
    assert!(!error.contains(MARK), "{error}");
}

#[test]
fn random_words_get_one_clear_reply_each() {
    let mut rng = random();
    let server = Server::start();
    let mut conn = server.conn();
    small_scene(&mut conn, "q");
    let long = "x".repeat(600);
    let words = [
        "ID",
        "DELAY",
        "AT",
        "LOCK",
        "ATTEMPTS",
        "PRIORITY",
        "REQUEUE",
        "UPDATE",
        "COUNT",
        "BLOCK",
        "EOQ",
        "SUCCESS",
        "RETRY",
        "ERROR",
        "REASON",
        "RELEASE",
        "BACKOFF",
        "EXP",
        "id",
        "",
        "q",
        MARK,
        &long,
        "0",
        "1",
        "-1",
        "00",
        "+1",
        " 1",
        "1 ",
        "1.5",
        "1e3",
        "9",
        "10",
        "1796100704179000",
        "315360000000",
        "315360000001",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "\0",
        "\r\n",
        "nan",
    ];
    let commands = [
        "MQ.ENQUEUE",
        "MQ.DEQUEUE",
        "MQ.MDEQUEUE",
        "MQ.DONE",
        "MQ.MDONE",
        "MQ.MENQUEUE",
        "MQ.EXTEND",
        "MQ.STATUS",
        "MQ.GET",
        "MQ.PEEK",
        "MQ.LATENCY",
        "MQ.RESULT",
        "MQ.LIMITS",
        "MQ.SCAN",
        "MQ.REDRIVE",
        "MQ.PURGE",
        "MQ.CANCEL",
        "MQ.INFO",
        "MQ.SCHEDULE",
        "MQ.UNSCHEDULE",
        "MQ.SCHEDULES",
        "MQ.FIRE",
        "MQ.HELP",
        "MQ.APPLY",
    ];
    let mut wire = server.wire();
    let (mut fine, mut errors) = (0, 0);
    for _ in 0..rounds(60) {
        let mut batch = Vec::new();
        for _ in 0..200 {
            let mut command = vec![*commands.choose(&mut rng).expect("there are some"), "q"];
            for _ in 0..rng.random_range(0..7) {
                command.push(words.choose(&mut rng).expect("there are some"));
            }
            // For ever is longer than this test.
            if let Some(at) = command.iter().position(|word| *word == "BLOCK") {
                command.truncate(at + 1);
                command.push("1");
            }
            if rng.random_ratio(1, 30) {
                command.truncate(rng.random_range(1..=command.len()));
            }
            batch.push(command);
        }
        batch.iter().for_each(|command| wire.send(command));
        for command in &batch {
            match wire.reply() {
                Ok(_) => fine += 1,
                Err(error) => {
                    errors += 1;
                    if error.starts_with("ERR unknown command 'MQ.APPLY'") {
                        continue; // where the server itself hides it
                    }
                    let code = error.split(' ').next().expect("there is a first word");
                    let clear = code.bytes().all(|byte| byte.is_ascii_uppercase());
                    assert!(clear && code.len() > 2, "{command:?}: {error}");
                    assert!(
                        !error.contains(MARK) && !error.contains(&long),
                        "{command:?}: {error}"
                    );
                }
            }
        }
    }
    println!("{fine} accepted, {errors} refused");
    assert!(fine > 0 && errors > 0);
    call!(conn, "DEBUG", "RELOAD").unwrap();
    assert_counts_add_up(&mut conn, "q");
    assert_no_user_bytes(&server);
}

#[track_caller]
fn assert_counts_add_up(conn: &mut Connection, queue: &str) {
    let all = faults::counters(conn, queue);
    let statuses = [
        "queued",
        "queued-with-backoff",
        "locked",
        "locked-with-requeue",
        "done-with-backoff",
        "done-with-requeue",
        "done-awaiting-gc",
        "dead",
        "waiting",
    ];
    let sum: i64 = statuses.iter().map(|name| all[*name]).sum();
    assert_eq!(sum, all["messages"], "{all:?}");
}

#[test]
fn huge_arguments_are_refused_or_stored_whole_and_given_back() {
    let server = Server::start();
    let mut wire = server.wire();
    wire.call(&["MQ.ENQUEUE", "q", "p", "ID", "small"]).unwrap();
    wait_until(PATIENCE, || {
        server_number(&server, "clients", "connected_clients") == 2
    });
    let baseline = server_number(&server, "memory", "used_memory");
    let huge = vec![b'x'; 100 << 20];
    {
        let mut sender = server.wire();
        let taken = wire.call(&["MQ.DEQUEUE", "q"]).unwrap();
        let taken = Delivery::of(&taken);
        let token = taken.token.to_string().into_bytes();
        for command in [
            &[&b"MQ.ENQUEUE"[..], b"q", b"p", b"ID", &huge][..],
            &[b"MQ.STATUS", b"q", &huge],
            &[b"MQ.CANCEL", b"q", b"small", &huge],
            &[
                b"MQ.DONE", b"q", b"small", &token, b"ERROR", b"REASON", &huge,
            ],
            &[b"MQ.DONE", b"q", &huge, &token],
            &[b"MQ.ENQUEUE", b"q", b"p", &huge],
            &[b"MQ.DEQUEUE", b"q", b"COUNT", &huge],
        ] {
            let error = sender.call(command).unwrap_err();
            assert!(error.starts_with("ERR ") && error.len() < 200, "{error}");
        }
        sender
            .call(&[&b"MQ.ENQUEUE"[..], b"q", &huge, b"ID", b"large"])
            .unwrap();
        let large = Delivery::of(&sender.call(&["MQ.DEQUEUE", "q"]).unwrap());
        assert!(large.payload == huge, "the payload comes back whole");
        let token = large.token.to_string();
        assert_eq!(
            sender
                .call(&["MQ.DONE", "q", "large", &token])
                .unwrap()
                .text(),
            "done"
        );
    }
    wait_until(PATIENCE, || {
        server_number(&server, "memory", "used_memory") < baseline + (4 << 20)
    });
    assert_eq!(
        wire.call(&["MQ.STATUS", "q", "small"]).unwrap().text(),
        "locked"
    );
    // Beyond the server's own limit it is the server's error, and the connection's end.
    wire.call(&["CONFIG", "SET", "proto-max-bulk-len", "1mb"])
        .unwrap();
    let mut sender = server.wire();
    sender.send_bytes(b"*3\r\n$10\r\nMQ.ENQUEUE\r\n$1\r\nq\r\n$1048577\r\n");
    assert!(sender.reply().unwrap_err().contains("Protocol error"));
}

#[test]
fn clients_that_break_off_midway_leave_nothing_behind() {
    let mut rng = random();
    let server = Server::start();
    let mut conn = server.conn();
    small_scene(&mut conn, "q");
    let state = digest(&mut conn, "q");
    let token = (i64::MAX).to_string();
    let whole = [
        aof::encode(&["MQ.ENQUEUE", "q", MARK, "ID", "never there", "DELAY", "5"]),
        aof::encode(&[
            "MQ.DONE",
            "q",
            "never there",
            &token,
            "ERROR",
            "REASON",
            MARK,
        ]),
        aof::encode(&["MQ.CANCEL", "q", "queued", MARK]),
        aof::encode(&["MQ.DEQUEUE", "q", "COUNT", "100"]),
    ];
    for number in 0..rounds(400) {
        let command = &whole[number % whole.len()];
        // At least a byte of the last argument is missing, besides the end of its line.
        let cut = rng.random_range(1..command.len() - 2);
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&command[..cut]).unwrap();
        if rng.random() {
            // No protocol at all; nor digits, which might complete the command.
            let mut junk = [0u8; 64];
            rng.fill(&mut junk);
            let junk = junk.map(|byte| byte | 0x80);
            let _ = stream.write_all(&junk); // the server may have hung up
        }
    }
    wait_until(PATIENCE, || {
        call!(conn, "PING").unwrap();
        let clients = call!(conn, "CLIENT", "LIST").unwrap().text();
        clients.lines().count() == 1
    });
    assert_eq!(
        digest(&mut conn, "q"),
        state,
        "a broken command took effect"
    );
    assert_no_user_bytes(&server);
}

#[track_caller]
fn assert_no_user_bytes(server: &Server) {
    let log = server.log();
    let own = log
        .lines()
        .filter(|line| line.contains("<mq>"))
        .collect::<Vec<_>>();
    assert!(!log.contains(MARK), "bytes of a user in the log: {own:?}");
    assert!(
        !log.contains("user-bytes"),
        "bytes of a user in the log: {own:?}"
    );
}
