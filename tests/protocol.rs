//! The replies byte for byte, in both protocols.

mod common;

use common::{args, contract, words, Client, Lab, Protocol, HOUR};

/// Sends a command line and gives the bytes of the reply as text.
#[track_caller]
fn bytes(client: &mut Client, line: &str) -> String {
    client.send(&words(line));
    frame(client)
}

#[track_caller]
fn frame(client: &mut Client) -> String {
    String::from_utf8(client.frame().unwrap()).unwrap()
}

/// The plain null, and the null of an array.
fn nulls(protocol: Protocol) -> (&'static str, &'static str) {
    match protocol {
        Protocol::Resp2 => ("$-1\r\n", "*-1\r\n"),
        Protocol::Resp3 => ("_\r\n", "_\r\n"),
    }
}

/// The first bytes of a map. Before 7.0 modules cannot reply with one.
fn map(lab: &Lab<'_>, fields: usize) -> String {
    if lab.protocol == Protocol::Resp3 && lab.has(7, 0) {
        format!("%{fields}\r\n")
    } else {
        format!("*{}\r\n", 2 * fields)
    }
}

#[test]
fn an_enqueue_is_an_array_of_outcome_and_id() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for outcome in ["added", "queued"] {
            let reply = bytes(&mut client, &format!("MQ.ENQUEUE {queue} p ID order:42"));
            let simple = format!("*2\r\n+{outcome}\r\n$8\r\norder:42\r\n");
            let bulk = format!(
                "*2\r\n${}\r\n{outcome}\r\n$8\r\norder:42\r\n",
                outcome.len()
            );
            assert!(reply == simple || reply == bulk, "{reply:?}");
        }
    });
}

#[test]
fn a_delivery_is_an_array_of_two_strings_and_four_integers() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "payload", "ID a");
        let reply = bytes(&mut client, &format!("MQ.DEQUEUE {queue} LOCK 5000"));
        let lines: Vec<&str> = reply.split("\r\n").collect();
        assert_eq!(
            lines[..6],
            ["*6", "$1", "a", "$7", "payload", ":1"],
            "{reply:?}"
        );
        assert!(
            lines[6].starts_with(':') && lines[6].len() >= 17,
            "the token: {reply:?}"
        );
        assert_eq!(lines[7], ":5000");
        assert!(
            lines[8].starts_with(':') && lines[8].len() == 14,
            "the time: {reply:?}"
        );
        assert_eq!(lines[9..], [""]);

        client.enqueue(&queue, "x", "ID b");
        client.enqueue(&queue, "", "ID c");
        let reply = bytes(&mut client, &format!("MQ.DEQUEUE {queue} COUNT 3"));
        assert!(
            reply.starts_with("*2\r\n*6\r\n$1\r\nb\r\n$1\r\nx\r\n:1\r\n"),
            "{reply:?}"
        );
        assert!(
            reply.contains("\r\n*6\r\n$1\r\nc\r\n$0\r\n\r\n:1\r\n"),
            "{reply:?}"
        );
    });
}

#[test]
fn nothing_ready_is_the_null_array() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (_, null) = nulls(lab.protocol);
        for existing in [false, true] {
            for options in [
                "",
                "COUNT 1",
                "COUNT 5",
                "BLOCK 1",
                "COUNT 5 BLOCK 1",
                "LOCK 5",
            ] {
                let reply = bytes(&mut client, &format!("MQ.DEQUEUE {queue} {options}"));
                assert_eq!(reply, null, "{options}, existing: {existing}");
            }
            client.put(
                &queue,
                "held",
                if existing {
                    "locked-with-requeue"
                } else {
                    "locked"
                },
            );
            client.cancel(&queue, "none");
            if existing {
                break;
            }
            client.cancel(&queue, "held");
        }
        let id = client.id;
        client.send(&words(&format!("MQ.DEQUEUE {queue} BLOCK 0")));
        let mut other = lab.client();
        while !lab.is_blocked(&client) {}
        other.ok(&format!("CLIENT UNBLOCK {id}"));
        assert_eq!(frame(&mut client), null, "unblocked");
    });
}

#[test]
fn an_end_of_queue_wait_is_an_integer() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let reply = bytes(&mut client, &format!("MQ.DEQUEUE {queue} EOQ 42"));
        assert_eq!(reply, ":42\r\n");
        let reply = bytes(&mut client, &format!("MQ.DEQUEUE {queue} COUNT 5 EOQ 0"));
        assert_eq!(reply, ":0\r\n");
    });
}

#[test]
fn verdicts_and_statuses_are_strings_and_missing_ones_null() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (null, _) = nulls(lab.protocol);
        for line in ["MQ.STATUS Q a", "MQ.DONE Q a 5", "MQ.EXTEND Q a 5 5"] {
            let line = line.replace(" Q", &format!(" {queue}"));
            assert_eq!(bytes(&mut client, &line), null, "{line}");
        }
        client.enqueue(&queue, "p", "ID a");
        let status = bytes(&mut client, &format!("MQ.STATUS {queue} a"));
        assert!(
            ["+queued\r\n", "$6\r\nqueued\r\n"].contains(&status.as_str()),
            "{status:?}"
        );
        let token = client.take(&queue).token;
        let reply = bytes(&mut client, &format!("MQ.EXTEND {queue} a {token} {HOUR}"));
        assert!(reply.starts_with(':') && reply.len() == 16, "{reply:?}");
        let reply = bytes(&mut client, &format!("MQ.DONE {queue} a {token} RETRY"));
        assert!(
            ["+queued\r\n", "$6\r\nqueued\r\n"].contains(&reply.as_str()),
            "{reply:?}"
        );
        let reply = bytes(&mut client, &format!("MQ.DONE {queue} a {token}"));
        assert!(
            reply.starts_with("-STALE ") && reply.lines().count() == 1,
            "{reply:?}"
        );
        assert_eq!(
            bytes(&mut client, &format!("MQ.CANCEL {queue} a b")),
            ":1\r\n"
        );
    });
}

#[test]
fn get_is_a_map_with_its_fields_in_their_order() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (null, null_array) = nulls(lab.protocol);
        let reply = bytes(&mut client, &format!("MQ.GET {queue} a"));
        assert!([null, null_array].contains(&reply.as_str()), "{reply:?}");
        client.enqueue(&queue, "payload", "ID a LOCK 5000 ATTEMPTS 3");
        let enqueued_at = client.message(&queue, "a").int("enqueued-at");
        let reply = bytes(&mut client, &format!("MQ.GET {queue} a"));
        let head = map(lab, 16);
        assert!(reply.starts_with(&head), "{reply:?}");
        let strings = reply.replacen("+queued\r\n", "$6\r\nqueued\r\n", 1);
        let names = strings.replace("\r\n+", "\r\n$_");
        let expected = [
            "$2\r\nid\r\n$1\r\na\r\n".to_string(),
            "$6\r\nstatus\r\n$6\r\nqueued\r\n".to_string(),
            "$7\r\npayload\r\n$7\r\npayload\r\n".to_string(),
            "$8\r\nattempts\r\n:0\r\n".to_string(),
            "$12\r\nmax-attempts\r\n:3\r\n".to_string(),
            "$8\r\npriority\r\n:5\r\n".to_string(),
            format!("$11\r\nenqueued-at\r\n:{enqueued_at}\r\n"),
            "$6\r\ndue-at\r\n:0\r\n".to_string(),
            "$7\r\nlock-ms\r\n:5000\r\n".to_string(),
            format!("$7\r\nrequeue\r\n{null}"),
            format!("$6\r\nreason\r\n{null}"),
            format!("$7\r\nheaders\r\n{null}"),
            format!("$5\r\ngroup\r\n{null}"),
            "$10\r\nexpires-at\r\n:0\r\n".to_string(),
            format!("$9\r\nretain-ms\r\n{null}"),
            "$12\r\nscheduled-at\r\n:0\r\n".to_string(),
        ];
        assert_eq!(plain(&names[head.len()..]), plain(&expected.concat()));
    });
}

/// Field names may be simple or bulk strings: the same text without their heads.
fn plain(reply: &str) -> String {
    reply
        .split("\r\n")
        .filter(|line| {
            let length = line.strip_prefix('$');
            !length.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        })
        .map(|line| line.trim_start_matches("$_").trim_start_matches('+'))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn info_is_a_map_with_its_fields_in_their_order() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (null, null_array) = nulls(lab.protocol);
        let reply = bytes(&mut client, &format!("MQ.INFO {queue}"));
        assert!([null, null_array].contains(&reply.as_str()), "{reply:?}");
        client.put(&queue, "a", "locked");
        let reply = bytes(&mut client, &format!("MQ.INFO {queue}"));
        let fields = [
            "queued",
            "queued-with-backoff",
            "locked",
            "locked-with-requeue",
            "done-with-backoff",
            "done-with-requeue",
            "done-awaiting-gc",
            "dead",
            "waiting",
            "messages",
            "next-mid",
            "last-mid",
            "next-due-ms",
            "oldest-queued-ms",
            "eoq-backoff-ms",
            "ndry-runs",
            "paused",
            "total-enqueued",
            "total-delivered",
            "total-done",
            "total-retried",
            "total-dead",
            "total-expired-locks",
            "held",
            "groups",
            "limited",
            "limit-free-ms",
            "paused-until",
            "total-full",
            "total-expired",
            "total-redriven",
            "total-dead-dropped",
            "wait-p50-ms",
            "wait-p95-ms",
            "wait-p99-ms",
            "work-p50-ms",
            "work-p95-ms",
            "work-p99-ms",
            "results",
            "schedules",
        ];
        assert!(reply.starts_with(&map(lab, fields.len())), "{reply:?}");
        let mut at = 0;
        for field in fields {
            let place = reply[at..].find(&format!("{field}\r\n"));
            at += place.unwrap_or_else(|| panic!("{field} is not in its place: {reply:?}"));
            let value = reply[at + field.len() + 2..].split("\r\n").next().unwrap();
            let expected = match field {
                "next-mid" | "last-mid" => null.trim_end(),
                "locked" | "messages" | "total-enqueued" | "total-delivered" => ":1",
                "next-due-ms" | "oldest-queued-ms" => ":",
                "wait-p50-ms" | "wait-p95-ms" | "wait-p99-ms" => ":",
                "limited" => "$0",
                _ => ":0",
            };
            assert!(value.starts_with(expected), "{field}: {value}");
            at += field.len();
        }
    });
}

#[test]
fn help_is_an_array_of_strings() {
    contract(|lab| {
        let reply = bytes(&mut lab.client(), "MQ.HELP");
        assert!(reply.starts_with('*'), "{reply:?}");
    });
}

#[test]
fn commands_and_options_are_understood_in_any_case() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!(
            "mq.enqueue {queue} p iD a pRiOrItY 1 Delay 0 lock 9 attempts 2"
        ));
        let reply = client.ok(&format!("Mq.DeQueue {queue} cOunt 1 lOck 5 eoq 7"));
        let token = common::Delivery::read(&redis_mq_testkit::ReplyExt::items(&reply)[0]).token;
        let reply = client.ok(&format!("mq.Done {queue} a {token} rEtRy BackOff 3600000"));
        assert_eq!(
            redis_mq_testkit::ReplyExt::text(&reply),
            "queued-with-backoff"
        );
        client.call(&args!["mq.cancel", queue, "a"]).unwrap();
    });
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut all = String::new();
        for n in 0..200 {
            all += &format!("MQ.ENQUEUE {queue} {n} ID {n}\r\nMQ.STATUS {queue} {n}\r\n");
            all += &format!("MQ.STATUS {queue} none\r\nMQ.DEQUEUE {queue} COUNT 0\r\n");
        }
        client.send_bytes(all.as_bytes());
        let (null, _) = nulls(lab.protocol);
        for n in 0..200 {
            assert!(frame(&mut client).ends_with(&format!("\r\n{n}\r\n")));
            assert!(frame(&mut client).ends_with("queued\r\n"));
            assert_eq!(frame(&mut client), null);
            assert!(frame(&mut client).starts_with("-ERR COUNT "));
        }
    });
}
