//! Queues that nobody uses go by themselves, where an operator wants it so.

mod common;
mod faults;

use std::time::Duration;

use common::{args, ask, contract, contract_on, Client, Lab, Protocol, HOUR};
use faults::clock::Clock;
use redis_mq_testkit::{
    wait_until, Persistence, ReplyExt, Server, ServerBuilder, Shutdown, Value, PATIENCE,
};

fn exists(client: &mut Client, queue: &str) -> bool {
    client.ok(&format!("EXISTS {queue}")).int() == 1
}

#[track_caller]
fn wait_until_gone(client: &mut Client, queue: &str) {
    wait_until(PATIENCE, || !exists(client, queue));
}

/// Makes an empty queue that goes after so long; gives the token of its only delivery.
fn emptied(client: &mut Client, queue: &str, idle_ms: i64) -> i64 {
    client.ok(&format!("MQ.LIMIT {queue} IDLE {idle_ms}"));
    client.enqueue(queue, "p", "ID only");
    let delivery = client.take(queue);
    client.done(queue, &delivery, "");
    delivery.token
}

fn idled(server: &Server) -> u64 {
    let total = server.info("mq", "mq_total_idled_queues").unwrap();
    total.parse().unwrap()
}

#[test]
fn an_empty_queue_goes_when_its_time_is_over_and_not_before() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let before = idled(lab.server);
        emptied(&mut client, &queue, 60_000);
        let since = client.now();
        client.ok(&format!("MQ.LIMIT {queue} IDLE 400"));
        assert_eq!(
            client.ok(&format!("MQ.LIMIT {queue}")).fields()["idle"].int(),
            400
        );
        // Asking for messages in vain, and looking, is no use.
        wait_until(PATIENCE, || {
            let there = exists(&mut client, &queue);
            let now = client.now();
            assert!(there || now >= since + 400, "{now} since {since}");
            client.dequeue(&queue, "");
            client.ok(&format!("MQ.INFO {queue}"));
            !there
        });
        assert!(idled(lab.server) > before);
        assert_eq!(client.dequeue(&queue, ""), None);
    });
}

#[test]
fn every_use_begins_the_time_anew() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        emptied(&mut client, &queue, 400);
        let mut last = client.now();
        let end = last + 900;
        while last < end {
            if !exists(&mut client, &queue) {
                assert!(client.now() >= last + 400, "it was used just now");
                return; // the machine stood still
            }
            last = client.now();
            client.enqueue(&queue, "p", "");
            let delivery = client.take(&queue);
            client.done(&queue, &delivery, "");
        }
        wait_until_gone(&mut client, &queue);
        assert!(client.now() >= last + 400);
    });
}

#[test]
fn what_holds_something_or_has_other_settings_stays_until_it_does_not() {
    contract(|lab| {
        let mut client = lab.client();
        let cases = [
            (format!("MQ.ENQUEUE Q p ID x DELAY {HOUR}"), "MQ.CANCEL Q x"),
            ("MQ.ENQUEUE Q p ID x".into(), "MQ.CANCEL Q x"),
            ("MQ.LIMIT Q LENGTH 5".into(), "MQ.LIMIT Q LENGTH OFF"),
            ("MQ.LIMIT Q DEAD-AGE 5".into(), "MQ.LIMIT Q DEAD-AGE OFF"),
            (
                "MQ.LIMIT Q GROUPS INFLIGHT 2".into(),
                "MQ.LIMIT Q GROUPS INFLIGHT 1",
            ),
            (
                "MQ.LIMIT Q GROUP g LENGTH 2".into(),
                "MQ.LIMIT Q GROUP g LENGTH OFF",
            ),
            ("MQ.PAUSE Q".into(), "MQ.RESUME Q"),
            (format!("MQ.PAUSE Q FOR {HOUR}"), "MQ.RESUME Q"),
            (
                format!("MQ.PAUSE Q GROUP g FOR {HOUR}"),
                "MQ.RESUME Q GROUP g",
            ),
        ];
        let mut queues = Vec::new();
        for (keep, _) in &cases {
            let queue = lab.queue();
            client.ok(&keep.replace(" Q", &format!(" {queue}")));
            queues.push(queue);
        }
        for status in ["locked", "done-with-backoff", "dead"] {
            let queue = lab.queue();
            client.put(&queue, "x", status);
            queues.push(queue);
        }
        for queue in &queues {
            client.ok(&format!("MQ.LIMIT {queue} IDLE 1"));
        }
        // One with nothing shows when the others would have gone.
        for _ in 0..2 {
            let bare = lab.queue();
            client.ok(&format!("MQ.LIMIT {bare} IDLE 200"));
            wait_until_gone(&mut client, &bare);
        }
        for queue in &queues {
            assert!(exists(&mut client, queue), "{}", queue);
        }
        for (queue, (_, release)) in queues.iter().zip(&cases) {
            client.ok(&release.replace(" Q", &format!(" {queue}")));
            wait_until(PATIENCE, || !exists(&mut client, queue));
        }
        for queue in &queues[cases.len()..] {
            client.ok(&format!("MQ.PURGE {queue} ALL"));
            client.ok(&format!("MQ.PURGE {queue} locked"));
            wait_until_gone(&mut client, queue);
        }
    });
}

#[test]
fn a_pause_that_ends_by_itself_keeps_the_queue_until_then() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let paused = client.now();
        client.ok("MULTI");
        client.ok(&format!("MQ.PAUSE {queue} FOR 700"));
        client.ok(&format!("MQ.LIMIT {queue} IDLE 100"));
        client.ok("EXEC");
        wait_until_gone(&mut client, &queue);
        assert!(client.now() >= paused + 800);
    });
}

#[test]
fn the_server_s_setting_is_for_all_queues_and_their_own_limit_wins() {
    contract_on(Server::builder().module_args(["idle-ms", "300"]), |lab| {
        let mut client = lab.client();
        client.ok(&format!("MQ.LIMIT stays IDLE {HOUR}"));
        client.put("plain", "x", "dead");
        client.ok("MQ.PURGE plain ALL");
        wait_until_gone(&mut client, "plain");
        assert!(exists(&mut client, "stays"));
        client.ok("MQ.LIMIT stays IDLE OFF");
        assert!(client.ok("MQ.LIMIT stays").fields().is_empty());
        wait_until_gone(&mut client, "stays");
    });
}

#[test]
fn a_new_setting_reaches_queues_that_are_at_rest_already() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return;
        }
        let mut client = lab.client();
        for number in 0..500 {
            client.put(&format!("q{number}"), "x", "dead");
            client.ok(&format!("MQ.PURGE q{number} ALL"));
        }
        client.enqueue("used", "p", "");
        let at_rest = |client: &mut Client| client.ok("MEMORY USAGE q499").int() <= 400;
        wait_until(PATIENCE, || at_rest(&mut client));
        assert_eq!(client.ok("DBSIZE").int(), 501, "by default all stay");
        client.ok(&format!("CONFIG SET mq.idle-ms {HOUR}"));
        client.ok("CONFIG SET mq.idle-ms 1");
        wait_until(PATIENCE, || client.ok("DBSIZE").int() == 1);
        assert!(exists(&mut client, "used"));
        client.ok("CONFIG SET mq.idle-ms 0");
    });
}

#[test]
fn whoever_waits_at_a_queue_that_goes_waits_on() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        emptied(&mut client, &queue, 100);
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        let mut hasty = lab.waiter(&queue, "BLOCK 800");
        wait_until_gone(&mut client, &queue);
        assert!(!waiter.has_reply_within(Duration::from_millis(20)));
        client.enqueue(&queue, "p", "ID next");
        assert_eq!(waiter.delivery().id(), "next");
        hasty.null();
    });
}

#[test]
fn a_later_queue_gives_none_of_its_tokens_again() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID only");
        let first = client.dequeue(&queue, "LOCK 1").unwrap();
        client.wait_until_due(&queue, "only");
        client.cancel(&queue, "only");
        client.ok(&format!("MQ.LIMIT {queue} IDLE 1"));
        wait_until_gone(&mut client, &queue);
        client.enqueue(&queue, "p", "ID only");
        let second = client.take(&queue);
        assert!(second.token > first.token);
        let late = client.try_done(&queue, &first, "").unwrap_err();
        assert!(late.starts_with("STALE "), "{late}");
        assert_eq!(client.done(&queue, &second, ""), "done");
    });
}

/// A primary with a replica in step.
fn pair(builder: impl Fn() -> ServerBuilder) -> (Server, Server, Client, Client) {
    let (primary, replica) = (builder().start(), builder().start());
    replica.replica_of(&primary);
    replica.wait_for_sync(&primary);
    let here = Client::connect(&primary, Protocol::Resp2);
    let there = Client::connect(&replica, Protocol::Resp2);
    (primary, replica, here, there)
}

#[test]
fn it_goes_as_if_it_were_deleted() {
    let builder = || {
        Server::builder()
            .config("notify-keyspace-events", "KEA")
            .persistence(Persistence::AofCommands)
    };
    let (mut primary, replica, mut client, mut there) = pair(builder);
    let mut events = Client::connect(&primary, Protocol::Resp2);
    events.ok("SUBSCRIBE __keyevent@0__:del");
    let mut watcher = Client::connect(&primary, Protocol::Resp2);
    emptied(&mut client, "q", 800);
    client.enqueue("used", "p", "");
    watcher.ok("WATCH q");
    let was_watched = exists(&mut watcher, "q");
    wait_until_gone(&mut client, "q");
    assert_eq!(events.reply().unwrap().items()[2].text(), "q");
    watcher.ok("MULTI");
    watcher.ok("PING");
    let executed = watcher.ok("EXEC");
    assert!(executed.is_nil() || !was_watched, "it was deleted");
    replica.wait_for_sync(&primary);
    assert!(!exists(&mut there, "q"));
    assert!(exists(&mut there, "used"));
    primary.crash_and_restart();
    let mut client = Client::connect(&primary, Protocol::Resp2);
    assert!(!exists(&mut client, "q"));
    assert!(exists(&mut client, "used"));
}

#[test]
fn where_deletions_cannot_be_told_to_replicas_it_stays() {
    let renamed = Server::builder().config("rename-command", "DEL remove");
    let both = Server::builder()
        .config("rename-command", "DEL remove")
        .config("rename-command", "UNLINK \"\"");
    let (renamed, both) = (renamed.start(), both.start());
    for server in [&renamed, &both] {
        let mut client = Client::connect(server, Protocol::Resp2);
        client.ok("MQ.LIMIT q IDLE 1");
    }
    let mut client = Client::connect(&renamed, Protocol::Resp2);
    wait_until_gone(&mut client, "q");
    let mut client = Client::connect(&both, Protocol::Resp2);
    let since = client.now();
    client.wait_for_time(since + 300);
    assert!(exists(&mut client, "q"));
}

#[test]
fn a_replica_lets_nothing_go_until_it_is_promoted() {
    let (primary, replica, mut client, mut there) = pair(Server::builder);
    emptied(&mut client, "q", HOUR);
    replica.wait_for_sync(&primary);
    client.ok("MULTI");
    client.ok("MQ.LIMIT q IDLE 300");
    client.ok("CLIENT PAUSE 600000 WRITE");
    client.ok("EXEC");
    let since = client.now();
    let limit = |client: &mut Client| client.ok("MQ.LIMITS q").fields()["idle"].int();
    wait_until(PATIENCE, || limit(&mut there) == 300);
    there.wait_for_time(since + 1_000);
    assert!(exists(&mut there, "q"));
    assert_eq!((idled(&primary), idled(&replica)), (0, 0));
    drop(primary);
    there.ok("REPLICAOF NO ONE");
    wait_until_gone(&mut there, "q");
    assert_eq!(idled(&replica), 1);
}

#[test]
fn nothing_goes_while_the_server_takes_no_writes() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        client.ok("MULTI");
        client.ok("MQ.LIMIT q IDLE 100");
        client.ok("CONFIG SET min-replicas-to-write 1");
        client.ok("EXEC");
        let since = client.now();
        client.wait_for_time(since + 700);
        assert!(exists(&mut client, "q"));
        client.ok("CONFIG SET min-replicas-to-write 0");
        wait_until_gone(&mut client, "q");
    });
}

fn moves(lab: &Lab<'_>) {
    let mut client = lab.client();
    for queue in ["renamed", "moved", "copied", "dumped"] {
        emptied(&mut client, queue, 500);
    }
    let dump = ask!(client, "DUMP", "dumped").unwrap();
    client.ok("RENAME renamed elsewhere");
    client.ok("MOVE moved 1");
    client.ok("COPY copied copy");
    assert_eq!(
        ask!(client, "RESTORE", "restored", 0, dump.bytes()),
        Ok(Value::Okay)
    );
    client.ok("MQ.PAUSE copied");
    for queue in ["elsewhere", "copy", "dumped", "restored"] {
        wait_until_gone(&mut client, queue);
    }
    assert!(exists(&mut client, "copied"));
    client.ok("SELECT 1");
    wait_until_gone(&mut client, "moved");
}

#[test]
fn wherever_it_is_put_it_goes_from_there() {
    contract_on(Server::builder(), moves);
}

#[test]
fn its_time_goes_on_over_a_restart() {
    for persistence in [Persistence::Rdb, Persistence::AofCommands] {
        let mut server = Server::builder().persistence(persistence).start();
        let mut client = Client::connect(&server, Protocol::Resp2);
        emptied(&mut client, "stays", HOUR);
        emptied(&mut client, "q", 1_000);
        let since = client.now();
        server.restart(Shutdown::Save);
        let mut client = Client::connect(&server, Protocol::Resp2);
        wait_until_gone(&mut client, "q");
        assert!(client.now() >= since + 950, "{persistence:?}");
        assert!(exists(&mut client, "stays"));
    }
}

#[test]
fn while_the_clock_is_behind_its_tokens_it_stays() {
    let clock = Clock::new();
    let builder = Server::builder().persistence(Persistence::Rdb);
    let mut server = clock.for_server(builder).start();
    let mut client = Client::connect(&server, Protocol::Resp2);
    let token = emptied(&mut client, "q", HOUR);
    clock.set_ms(-HOUR);
    server.restart(Shutdown::Save);
    let mut client = Client::connect(&server, Protocol::Resp2);
    client.ok("MQ.LIMIT q IDLE 1");
    // One without a past shows when it would have gone.
    for other in ["other", "another"] {
        client.ok(&format!("MQ.LIMIT {other} IDLE 200"));
        wait_until_gone(&mut client, other);
    }
    assert!(exists(&mut client, "q"));
    client.enqueue("q", "p", "");
    let next = client.take("q");
    assert!(next.token > token);
    client.done("q", &next, "");
    clock.set_ms(0);
    server.restart(Shutdown::Save);
    let mut client = Client::connect(&server, Protocol::Resp2);
    wait_until_gone(&mut client, "q");
    client.enqueue("q", "p", "");
    assert!(client.take("q").token > next.token);
}
