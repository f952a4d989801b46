//! What a command must not do, counted instead of timed: look a key up twice, or tell its replicas more
//! than once.

use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{call, ReplyExt, Server};

const COMMANDS: i64 = 50;

fn number(server: &Server, section: &str, field: &str) -> i64 {
    let text = server.info(section, field);
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("INFO {section} has no number {field}"))
}

#[test]
fn a_command_that_looks_looks_its_key_up_once() {
    let server = Server::start();
    let mut conn = server.conn();
    call!(conn, "MQ.ENQUEUE", "q", "payload", "ID", "a").unwrap();
    let mut hits_of = |look: &dyn Fn(&mut Connection)| {
        let before = number(&server, "stats", "keyspace_hits");
        for _ in 0..COMMANDS {
            look(&mut conn);
        }
        number(&server, "stats", "keyspace_hits") - before
    };
    let status = hits_of(&|conn| {
        assert_eq!(
            call!(*conn, "MQ.STATUS", "q", "a").unwrap().text(),
            "queued"
        )
    });
    let get = hits_of(&|conn| assert!(!call!(*conn, "MQ.GET", "q", "a").unwrap().is_nil()));
    let info = hits_of(&|conn| assert!(!call!(*conn, "MQ.INFO", "q").unwrap().is_nil()));
    assert_eq!((status, get, info), (COMMANDS, COMMANDS, COMMANDS));
}

/// A write key is not counted by the server; what it sends on is.
#[test]
fn a_message_s_life_is_three_commands_to_replicas_and_a_refusal_none() {
    let primary = Server::start();
    let replica = Server::start();
    replica.replica_of(&primary);
    let mut conn = primary.conn();
    let applied = || {
        replica.wait_for_sync(&primary);
        let stats = call!(replica.conn(), "INFO", "commandstats")
            .unwrap()
            .text();
        let calls = |line: &str| {
            let calls = line.strip_prefix("cmdstat_mq.")?.split("calls=").nth(1)?;
            calls.split(',').next()?.parse::<i64>().ok()
        };
        stats.lines().filter_map(calls).sum::<i64>()
    };
    let before = applied();
    for number in 0..COMMANDS {
        let id = format!("m{number}");
        call!(conn, "MQ.ENQUEUE", "q", "payload", "ID", &id).unwrap();
        let refused = call!(conn, "MQ.ENQUEUE", "q", "payload", "ID", &id).unwrap();
        assert_eq!(refused.items()[0].text(), "queued");
        let delivery = call!(conn, "MQ.DEQUEUE", "q").unwrap();
        let token = delivery.items()[3].int();
        assert!(call!(conn, "MQ.DEQUEUE", "q").unwrap().is_nil());
        call!(conn, "MQ.DONE", "q", &id, token - 1).unwrap_err();
        let done = call!(conn, "MQ.DONE", "q", &id, token).unwrap();
        assert_eq!(done.text(), "done");
        assert!(call!(conn, "MQ.DONE", "q", &id, token).unwrap().is_nil());
    }
    assert_eq!(applied() - before, 3 * COMMANDS);
}
