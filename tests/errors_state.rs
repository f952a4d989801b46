//! Errors that come from the state of the key or the server: another type, a replica, no memory, and
//! a command that is not for clients.

mod common;

use common::{args, ask, contract, contract_on, HOUR};
use redis_mq_testkit::{ReplyExt, Server, Value};

/// Each command with its key at `Q`; the first six write.
const COMMANDS: [&str; 9] = [
    "MQ.ENQUEUE Q p",
    "MQ.DEQUEUE Q",
    "MQ.DONE Q id 5",
    "MQ.EXTEND Q id 5 5",
    "MQ.CANCEL Q id",
    "MQ.DEQUEUE Q BLOCK 0",
    "MQ.STATUS Q id",
    "MQ.GET Q id",
    "MQ.INFO Q",
];

#[test]
fn a_key_of_another_type_is_refused_and_left_alone() {
    contract(|lab| {
        let (mut client, key) = (lab.client(), lab.queue());
        for value in [
            "SET {} text",
            "RPUSH {} element",
            "HSET {} field value",
            "XADD {} * a b",
        ] {
            client.ok(&value.replace("{}", &key));
            let before = client.digest(&key);
            for command in COMMANDS.into_iter().chain(["MQ.DEQUEUE Q EOQ"]) {
                let line = command.replace(" Q", &format!(" {key}"));
                let error = client.line(&line).unwrap_err();
                assert!(error.starts_with("WRONGTYPE "), "{line}: {error}");
            }
            assert_eq!(client.digest(&key), before, "{value}");
            client.ok(&format!("DEL {key}"));
        }
    });
}

#[test]
fn commands_of_other_types_refuse_a_queue() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "queued");
        let before = client.digest(&queue);
        for command in [
            "GET Q",
            "LPUSH Q x",
            "HGETALL Q",
            "XLEN Q",
            "APPEND Q x",
            "SADD Q x",
        ] {
            let line = command.replace(" Q", &format!(" {queue}"));
            let error = client.line(&line).unwrap_err();
            assert!(error.starts_with("WRONGTYPE "), "{line}: {error}");
        }
        assert_eq!(client.digest(&queue), before);
    });
}

#[test]
fn a_replica_reads_and_refuses_to_write_at_once() {
    let primary = Server::start();
    contract_on(Server::builder(), |lab| {
        let mut writer = common::Client::connect(&primary, lab.protocol);
        writer.ok("FLUSHALL");
        writer.put("q", "held", "locked");
        writer.put("q", "a", "queued");
        lab.server.replica_of(&primary);
        let mut client = lab.client();
        for command in &COMMANDS[..6] {
            let line = command.replace(" Q", " q");
            let error = client.line(&line).unwrap_err();
            assert!(error.starts_with("READONLY "), "{line}: {error}");
        }
        assert_eq!(client.status("q", "a").as_deref(), Some("queued"));
        assert_eq!(client.status("q", "held").as_deref(), Some("locked"));
        assert_eq!(
            client.message("q", "a").text("payload").as_deref(),
            Some("old")
        );
        assert_eq!(client.info("q").int("messages"), 2);
        lab.server.promote();
        assert_eq!(client.take("q").id(), "a");
    });
}

#[test]
fn without_memory_only_enqueue_is_refused_and_the_rest_drains() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for id in ["a", "b", "c", "d", "e", "f"] {
            client.enqueue(&queue, "p", &format!("ID {id}"));
        }
        client.enqueue(&queue, "p", "ID later DELAY 30");
        let held = client.take(&queue);
        client.ok("CONFIG SET maxmemory 1");
        let before = client.digest(&queue);
        for options in ["", "ID new", "ID b UPDATE", "ID a REQUEUE"] {
            let error = client
                .line(&format!("MQ.ENQUEUE {queue} p {options}"))
                .unwrap_err();
            assert!(error.starts_with("OOM "), "{options}: {error}");
        }
        assert_eq!(client.digest(&queue), before);

        client.extend(&queue, &held, HOUR).unwrap();
        assert_eq!(client.done(&queue, &held, "RETRY"), "queued");
        for (id, verdict, became) in [
            ("b", "", "done"),
            ("c", "BACKOFF 3600000", "done-with-backoff"),
            ("d", "ERROR REASON why", "dead"),
            ("e", "RELEASE", "queued"),
        ] {
            let delivery = client.take(&queue);
            assert_eq!(delivery.id(), id);
            assert_eq!(client.done(&queue, &delivery, verdict), became);
        }
        assert_eq!(client.cancel(&queue, "e f c d a"), 5);
        assert_eq!(client.dequeue(&queue, "BLOCK 60000").unwrap().id(), "later");
        assert_eq!(client.info(&queue).int("messages"), 1);
        client.ok("CONFIG SET maxmemory 0");
        assert_eq!(client.enqueue(&queue, "p", ""), "added");
    });
}

#[test]
fn the_command_of_the_replication_is_refused_to_clients() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "queued");
        let before = client.digest(&queue);
        for effects in [&b""[..], b"x", &[0; 64], &[0xff; 4096]] {
            let error = ask!(client, "MQ.APPLY", queue, effects).unwrap_err();
            assert!(error.starts_with("ERR "), "{error}");
            let script = "return redis.call('MQ.APPLY', KEYS[1], ARGV[1])";
            ask!(client, "EVAL", script, 1, queue, effects).unwrap_err();
        }
        client.ok("MULTI");
        let queued = ask!(client, "MQ.APPLY", queue, "x");
        let executed = client.line("EXEC");
        let refused = match executed {
            Err(_) => queued.is_err(),
            Ok(replies) => matches!(replies.items(), [Value::ServerError(_)]),
        };
        assert!(refused);
        assert_eq!(client.digest(&queue), before);
    });
}
