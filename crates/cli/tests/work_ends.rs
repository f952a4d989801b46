//! `work`: locks that are kept or lost, workers that are told to end or are killed.

mod common;

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use common::worker::{all_gone, numbers, runs, Worker};
use redis_mq_testkit::{call, wait_until, Proxy, ReplyExt as _, Server, PATIENCE};

fn enqueue(server: &Server, id: &str) {
    call!(server.conn(), "MQ.ENQUEUE", "q", "payload", "ID", id).unwrap();
}

fn info(server: &Server, name: &str) -> i64 {
    call!(server.conn(), "MQ.INFO", "q").unwrap().fields()[name].int()
}

fn has_file(server: &Server, name: &str) {
    wait_until(PATIENCE, || server.dir().join(name).exists());
}

/// Says that it runs, and goes on until the file `go` appears.
const UNTIL_GO: &str = "echo $$ >>$FOLDER/started; until [ -e $FOLDER/go ]; do sleep 0.01; done";

#[test]
fn a_lock_is_extended_while_its_command_runs() {
    let server = Server::start();
    enqueue(&server, "1");
    let mut worker = Worker::on(
        &server,
        &["q", "--lock", "1s", "--", "bash", "-c", UNTIL_GO],
    );
    has_file(&server, "started");
    // Longer than two locks.
    let start = Instant::now();
    wait_until(PATIENCE, || {
        assert_eq!(info(&server, "locked"), 1);
        start.elapsed() > Duration::from_millis(2_500)
    });
    fs::write(server.dir().join("go"), "").unwrap();
    wait_until(PATIENCE, || info(&server, "total-done") == 1);
    assert_eq!(
        (
            info(&server, "total-delivered"),
            info(&server, "total-expired-locks")
        ),
        (1, 0)
    );
    assert_eq!(worker.stop().code, 0);
}

#[test]
fn a_command_whose_message_is_cancelled_is_ended_without_a_verdict() {
    let server = Server::start();
    enqueue(&server, "1");
    let mut worker = Worker::on(
        &server,
        &["q", "--lock", "1s", "--", "bash", "-c", UNTIL_GO],
    );
    has_file(&server, "started");
    call!(server.conn(), "MQ.CANCEL", "q", "1").unwrap();
    all_gone(server.dir(), "started");
    wait_until(PATIENCE, || {
        worker.printed("stderr").contains("lock is lost")
    });
    let ended = worker.stop();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(
        info(&server, "total-done") + info(&server, "total-retried"),
        0
    );
}

#[test]
fn a_command_whose_lock_cannot_be_extended_is_ended_before_another_worker_begins() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    enqueue(&server, "1");
    let script = "trap 'echo end >>$FOLDER/log; exit 0' TERM; echo begin >>$FOLDER/log; \
        until [ -e $FOLDER/go ]; do sleep 0.01; done";
    let args = [
        "q", "--lock", "3s", "--grace", "1s", "--", "bash", "-c", script,
    ];
    let log = || fs::read_to_string(server.dir().join("log")).unwrap_or_default();
    let mut one = Worker::start(&proxy.url(), server.dir(), &args);
    wait_until(PATIENCE, || log() == "begin\n");
    let mut two = Worker::on(&server, &args);
    proxy.silence();
    wait_until(PATIENCE, || log().lines().count() == 3);
    assert_eq!(log(), "begin\nend\nbegin\n");
    fs::write(server.dir().join("go"), "").unwrap();
    wait_until(PATIENCE, || info(&server, "total-done") == 1);
    // What was held back on the way is gone with its connection.
    proxy.cut();
    proxy.resume();
    assert_eq!((one.stop().code, two.stop().code), (0, 0));
    assert_eq!(stale(&server), 0);
}

#[test]
fn a_verdict_gets_through_after_the_connection_broke() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr());
    enqueue(&server, "1");
    let args = ["q", "--lock", "1m", "--", "bash", "-c", UNTIL_GO];
    let mut worker = Worker::start(&proxy.url(), server.dir(), &args);
    has_file(&server, "started");
    proxy.refuse();
    proxy.cut();
    fs::write(server.dir().join("go"), "").unwrap();
    all_gone(server.dir(), "started");
    proxy.resume();
    wait_until(PATIENCE, || info(&server, "total-done") == 1);
    enqueue(&server, "2");
    wait_until(PATIENCE, || info(&server, "total-done") == 2);
    assert_eq!(worker.stop().code, 0);
}

#[test]
fn sigterm_lets_commands_finish_and_takes_nothing_more() {
    let server = Server::start();
    for id in ["1", "2", "3"] {
        enqueue(&server, id);
    }
    let args = [
        "q", "-c", "2", "--grace", "1m", "--", "bash", "-c", UNTIL_GO,
    ];
    let mut worker = Worker::on(&server, &args);
    wait_until(PATIENCE, || numbers(server.dir(), "started").len() == 2);
    worker.signal("TERM");
    fs::write(server.dir().join("go"), "").unwrap();
    assert_eq!(worker.ended().code, 0);
    assert_eq!(
        (
            info(&server, "total-done"),
            info(&server, "total-delivered")
        ),
        (2, 2)
    );
}

#[test]
fn after_the_grace_time_commands_are_ended_and_their_messages_given_back() {
    let server = Server::start();
    enqueue(&server, "1");
    let script = "trap '' TERM; sleep 300 & echo $$ $! >$FOLDER/started; wait; sleep 300";
    let args = ["q", "--grace", "200ms", "--", "bash", "-c", script];
    let mut worker = Worker::on(&server, &args);
    has_file(&server, "started");
    wait_until(PATIENCE, || numbers(server.dir(), "started").len() == 2);
    assert_eq!(worker.stop().code, 0);
    all_gone(server.dir(), "started");
    let message = call!(server.conn(), "MQ.GET", "q", "1").unwrap().fields();
    assert_eq!(
        (message["status"].text(), message["attempts"].int()),
        ("queued".into(), 0)
    );
}

#[test]
fn a_second_signal_does_not_wait() {
    let server = Server::start();
    enqueue(&server, "1");
    let script = "echo $$ >$FOLDER/started; exec sleep 300";
    let mut worker = Worker::on(&server, &["q", "--grace", "1h", "--", "bash", "-c", script]);
    has_file(&server, "started");
    worker.signal("INT");
    worker.signal("TERM");
    assert_eq!(worker.ended().code, 0);
    all_gone(server.dir(), "started");
    assert_eq!(info(&server, "queued"), 1);
}

#[test]
fn a_reader_that_stops_reading_costs_no_lock_and_does_not_hold_up_the_end() {
    let server = Server::start();
    enqueue(&server, "1");
    let mut child = common::program()
        .args(["work", "q", "--lock", "1s", "--grace", "100ms", "--"])
        .args(["bash", "-c", "echo $$ >$FOLDER/started; exec yes"])
        .env("REDIS_MQ_URL", server.url())
        .env("FOLDER", server.dir())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    has_file(&server, "started");
    let start = Instant::now();
    wait_until(PATIENCE, || {
        assert_eq!(info(&server, "locked"), 1);
        start.elapsed() > Duration::from_millis(2_500)
    });
    common::worker::signal("TERM", child.id());
    wait_until(PATIENCE, || child.try_wait().unwrap().is_some());
    all_gone(server.dir(), "started");
    assert_eq!(
        (
            info(&server, "queued"),
            info(&server, "total-expired-locks")
        ),
        (1, 0)
    );
}

#[test]
fn a_watcher_that_was_killed_is_replaced() {
    let server = Server::start();
    let mut worker = Worker::on(
        &server,
        &[
            "q",
            "--",
            "bash",
            "-c",
            "(sleep 300)& echo $! >$FOLDER/started; $(cat)",
        ],
    );
    let watcher = || {
        let all = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let ours = |pid: &String| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let parent = stat
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
            words.contains("__watch") && parent == Some(worker.id())
        };
        all.filter(ours).find_map(|pid| pid.parse().ok())
    };
    let mut first = None;
    wait_until(PATIENCE, || {
        first = watcher();
        first.is_some()
    });
    common::worker::signal("KILL", first.unwrap());
    call!(server.conn(), "MQ.ENQUEUE", "q", "true").unwrap();
    wait_until(PATIENCE, || info(&server, "total-done") == 1);
    call!(server.conn(), "MQ.ENQUEUE", "q", "sleep 300").unwrap();
    let done = numbers(server.dir(), "started");
    wait_until(PATIENCE, || {
        let now = numbers(server.dir(), "started");
        !now.is_empty() && now != done
    });
    worker.signal("KILL");
    worker.ended();
    all_gone(server.dir(), "started");
}

/// How many commands the server has refused since their token was an old one.
fn stale(server: &Server) -> u64 {
    let stats = call!(server.conn(), "INFO", "errorstats").unwrap().text();
    let count = stats
        .lines()
        .find_map(|line| line.strip_prefix("errorstat_STALE:count="));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

#[test]
fn a_worker_killed_at_a_hundred_random_points_loses_nothing_and_leaves_nothing() {
    const MESSAGES: usize = 300;
    let server = Server::start();
    let mut conn = server.conn();
    for number in 0..MESSAGES {
        call!(conn, "MQ.ENQUEUE", "q", "x", "ID", number).unwrap();
    }
    // Each leaves a process of its own behind, and says what it has done at its very end.
    let script = "sleep 300 & echo $$ $! >>$FOLDER/started; sleep 0.03; echo $MQ_ID >>$FOLDER/done";
    let args = [
        "q",
        "-c",
        "4",
        "--lock",
        "1s",
        "--attempts",
        "0",
        "--grace",
        "0",
        "--",
        "bash",
        "-c",
        script,
    ];
    let mut random: u32 = 2_463_534_242;
    for _ in 0..100 {
        let worker = Worker::on(&server, &args);
        // Xorshift.
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        std::thread::sleep(Duration::from_millis(u64::from(random % 120)));
        drop(worker);
    }
    let left = numbers(server.dir(), "started");
    wait_until(PATIENCE, || !left.iter().any(|process| runs(*process)));
    let mut worker = Worker::on(&server, &args);
    wait_until(PATIENCE, || info(&server, "total-done") == MESSAGES as i64);
    assert_eq!(worker.stop().code, 0);
    let mut done = numbers(server.dir(), "done");
    done.sort_unstable();
    done.dedup();
    assert_eq!(done.len(), MESSAGES);
    assert_eq!((info(&server, "messages"), info(&server, "dead")), (0, 0));
    // No verdict came for a delivery that was another worker's by then.
    assert_eq!(stale(&server), 0);
    all_gone(server.dir(), "started");
}
