//! What a client or an operator can find out about the commands from the server itself.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{args, ask, contract, Lab};
use redis_mq_testkit::{ReplyExt, Value};

/// The commands for clients with arity and first key.
const COMMANDS: [(&str, i64, i64); 27] = [
    ("mq.enqueue", -3, 1),
    ("mq.dequeue", -2, 1),
    ("mq.done", -4, 1),
    ("mq.extend", 5, 1),
    ("mq.status", 3, 1),
    ("mq.get", 3, 1),
    ("mq.cancel", -3, 1),
    ("mq.info", 2, 1),
    ("mq.limit", -2, 1),
    ("mq.pause", -2, 1),
    ("mq.resume", -2, 1),
    ("mq.groups", -3, 1),
    ("mq.peek", -2, 1),
    ("mq.latency", 2, 1),
    ("mq.limits", -2, 1),
    ("mq.scan", -3, 1),
    ("mq.redrive", -3, 1),
    ("mq.mdone", -5, 1),
    ("mq.menqueue", -4, 1),
    ("mq.mdequeue", -3, 0),
    ("mq.purge", -3, 1),
    ("mq.result", -3, 1),
    ("mq.schedule", -6, 1),
    ("mq.unschedule", -3, 1),
    ("mq.schedules", -3, 1),
    ("mq.fire", 3, 1),
    ("mq.help", 1, 0),
];

fn command_info(lab: &Lab<'_>, name: &str) -> Vec<Value> {
    let reply = lab.client().ok(&format!("COMMAND INFO {name}"));
    assert!(!reply.items()[0].is_nil(), "there is no {name}");
    reply.items()[0].items().to_vec()
}

fn words(value: &Value) -> BTreeSet<String> {
    value.items().iter().map(ReplyExt::text).collect()
}

#[test]
fn the_module_and_its_type_have_their_names() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let modules = client.ok("MODULE LIST");
        let names: Vec<_> = modules
            .items()
            .iter()
            .map(|one| one.fields()["name"].text())
            .collect();
        assert!(names.contains(&"mq".to_string()), "{names:?}");
        client.put(&queue, "a", "queued");
        assert_eq!(client.ok(&format!("TYPE {queue}")).text(), "mq-circle");
    });
}

#[test]
fn arity_and_keys_are_as_in_the_contract() {
    contract(|lab| {
        for (name, arity, first_key) in COMMANDS {
            let info = command_info(lab, name);
            assert_eq!(info[0].text(), name);
            // Older servers leave the arity of modules' commands to the modules.
            if lab.has(7, 0) {
                assert_eq!(info[1].int(), arity, "{name}");
            }
            let keys: Vec<_> = info[3..6].iter().map(ReplyExt::int).collect();
            assert_eq!(keys, [first_key; 3], "{name}");
        }
    });
}

#[test]
fn flags_tell_who_writes_and_who_may_when_memory_is_short() {
    contract(|lab| {
        for (name, ..) in COMMANDS {
            let flags = words(&command_info(lab, name)[2]);
            let has = |flag: &str| flags.contains(flag);
            let reads = matches!(
                name,
                "mq.status"
                    | "mq.get"
                    | "mq.info"
                    | "mq.groups"
                    | "mq.latency"
                    | "mq.limits"
                    | "mq.peek"
                    | "mq.result"
                    | "mq.scan"
                    | "mq.schedules"
                    | "mq.help"
            );
            assert_eq!(
                (has("write"), has("readonly")),
                (!reads, reads),
                "{name}: {flags:?}"
            );
            let adds = ["mq.enqueue", "mq.menqueue", "mq.schedule", "mq.fire"].contains(&name);
            assert_eq!(has("denyoom"), adds, "{name}: {flags:?}");
            assert!(!has("noscript") && !has("admin"), "{name}: {flags:?}");
            if ["mq.dequeue", "mq.mdequeue", "mq.result"].contains(&name) && lab.has(7, 0) {
                assert!(has("blocking"), "{flags:?}");
            }
        }
        let flags = words(&command_info(lab, "mq.enqueue")[2]);
        assert!(flags.contains("fast"));
    });
}

#[test]
fn the_keys_of_a_command_can_be_asked_for() {
    contract(|lab| {
        let mut client = lab.client();
        for line in [
            "MQ.ENQUEUE q payload ID id DELAY 5 REQUEUE",
            "MQ.MENQUEUE q 2 p p IDS id id DELAY 5",
            "MQ.DEQUEUE q COUNT 5 BLOCK 0",
            "MQ.DEQUEUE q EOQ 1 2 3 4 5",
            "MQ.MDEQUEUE 1 q COUNT 5 BLOCK 0",
            "MQ.MDEQUEUE 2 q q COUNT 5",
            "MQ.DONE q id 5 ERROR REASON why",
            "MQ.MDONE q 2 id 5 id 6 RETRY BACKOFF 5",
            "MQ.EXTEND q id 5 5",
            "MQ.STATUS q id",
            "MQ.GET q id",
            "MQ.CANCEL q id id id",
            "MQ.INFO q",
            "MQ.LATENCY q",
            "MQ.LIMITS q GROUP g",
            "MQ.PEEK q STATUS dead COUNT 5 AFTER id REV",
            "MQ.SCAN q 0 MATCH id COUNT 5",
            "MQ.REDRIVE q COUNT 5",
            "MQ.PURGE q dead COUNT 5",
            "MQ.REDRIVE q id id",
            "MQ.RESULT q id",
            "MQ.RESULT q id BLOCK 5",
            "MQ.SCHEDULE q name p EVERY 1000",
            "MQ.UNSCHEDULE q name name",
            "MQ.SCHEDULES q 0 COUNT 5",
            "MQ.FIRE q name",
        ] {
            let keys = client.ok(&format!("COMMAND GETKEYS {line}"));
            assert_eq!(words(&keys), BTreeSet::from(["q".to_string()]), "{line}");
            if lab.has(7, 0) {
                let reply = client.ok(&format!("COMMAND GETKEYSANDFLAGS {line}"));
                let flags = words(&reply.items()[0].items()[1]);
                let expected: &[&str] = match line.split(' ').next().unwrap() {
                    "MQ.STATUS" | "MQ.GET" | "MQ.INFO" | "MQ.LATENCY" | "MQ.LIMITS" | "MQ.PEEK"
                    | "MQ.SCAN" | "MQ.RESULT" | "MQ.SCHEDULES" => &["RO", "access"],
                    "MQ.ENQUEUE" | "MQ.MENQUEUE" | "MQ.FIRE" => &["RW", "insert"],
                    "MQ.DEQUEUE" | "MQ.MDEQUEUE" => &["RW", "access", "update"],
                    "MQ.EXTEND" | "MQ.REDRIVE" | "MQ.SCHEDULE" => &["RW", "update"],
                    _ => &["RW", "delete"],
                };
                let expected: BTreeSet<_> = expected.iter().map(|flag| flag.to_string()).collect();
                assert_eq!(flags, expected, "{line}");
            }
        }
    });
}

/// All tokens and names of a command's arguments, nested ones included.
fn collect(arguments: &Value, into: &mut BTreeSet<String>) {
    for argument in arguments.items() {
        let fields = argument.fields();
        into.insert(fields["name"].text());
        if let Some(token) = fields.get("token") {
            into.insert(token.text());
        }
        if let Some(nested) = fields.get("arguments") {
            collect(nested, into);
        }
    }
}

#[test]
fn the_documentation_names_every_option() {
    contract(|lab| {
        if !lab.has(7, 0) {
            return;
        }
        let options = BTreeMap::from([
            (
                "mq.enqueue",
                "queue payload ID DELAY AT LOCK ATTEMPTS PRIORITY TTL BURY GROUP HEADERS RETAIN JOIN REQUEUE UPDATE",
            ),
            (
                "mq.menqueue",
                "queue count payload IDS DELAY AT LOCK ATTEMPTS PRIORITY TTL BURY GROUP HEADERS RETAIN JOIN REQUEUE UPDATE THEN THENID THENHEADERS",
            ),
            ("mq.dequeue", "queue COUNT LOCK BLOCK EOQ"),
            ("mq.mdequeue", "numqueues queue COUNT LOCK BLOCK"),
            (
                "mq.done",
                "queue id token SUCCESS RETRY ERROR REASON RELEASE BACKOFF EXP RESULT RETAIN",
            ),
            (
                "mq.mdone",
                "queue count id token SUCCESS RETRY ERROR REASON RELEASE BACKOFF EXP RESULT RETAIN",
            ),
            ("mq.extend", "queue id token ms"),
            ("mq.status", "queue id"),
            ("mq.get", "queue id"),
            ("mq.cancel", "queue id"),
            ("mq.info", "queue"),
            (
                "mq.limit",
                "queue GROUPS GROUP LENGTH BYTES INFLIGHT RATE BURST DEAD DEAD-AGE ATTEMPTS IDLE OFF",
            ),
            ("mq.pause", "queue GROUP FOR"),
            ("mq.resume", "queue GROUP"),
            ("mq.groups", "queue cursor COUNT GROUP"),
            ("mq.latency", "queue"),
            ("mq.limits", "queue GROUPS GROUP"),
            ("mq.peek", "queue status STATUS COUNT AFTER id REV"),
            ("mq.redrive", "queue id n COUNT"),
            ("mq.purge", "queue status ALL COUNT n"),
            ("mq.scan", "queue cursor STATUS MATCH pattern COUNT"),
            ("mq.result", "queue id BLOCK"),
            (
                "mq.schedule",
                "queue name payload EVERY CRON TZ FROM UNTIL TIMES OVERLAP SKIP AFTER ALLOW LOCK ATTEMPTS \
                 PRIORITY TTL BURY GROUP HEADERS RETAIN",
            ),
            ("mq.unschedule", "queue name"),
            ("mq.schedules", "queue cursor COUNT"),
            ("mq.fire", "queue name"),
            ("mq.help", ""),
        ]);
        for (name, ..) in COMMANDS {
            let docs = lab.client().ok(&format!("COMMAND DOCS {name}")).fields();
            let docs = docs[name].fields();
            for field in ["summary", "since", "complexity"] {
                assert!(!docs[field].text().is_empty(), "{name} {field}");
            }
            assert_eq!(docs["group"].text(), "module");
            assert_eq!(docs["module"].text(), "mq");
            let mut found = BTreeSet::new();
            if let Some(arguments) = docs.get("arguments") {
                collect(arguments, &mut found);
            }
            for option in options[name].split_ascii_whitespace() {
                assert!(found.contains(option), "{name} {option}: {found:?}");
            }
        }
    });
}

#[test]
fn all_commands_of_the_module_can_be_listed() {
    contract(|lab| {
        if !lab.has(7, 0) {
            return;
        }
        let listed = words(&lab.client().ok("COMMAND LIST FILTERBY MODULE mq"));
        for (name, ..) in COMMANDS {
            assert!(listed.contains(name), "{name}: {listed:?}");
        }
        assert!(
            listed.iter().all(|name| name.starts_with("mq.")),
            "{listed:?}"
        );
    });
}

#[test]
fn help_shows_each_command_as_it_is_written() {
    contract(|lab| {
        let reply = lab.client().ok("MQ.HELP");
        let lines: Vec<_> = reply.items().iter().map(ReplyExt::text).collect();
        for syntax in [
            "MQ.ENQUEUE queue payload [ID id] [DELAY ms | AT unix-ms] [LOCK ms] [ATTEMPTS n] \
             [PRIORITY p] [TTL ms [BURY]] [GROUP g] [HEADERS bytes] [RETAIN ms] [JOIN id] [REQUEUE] \
             [UPDATE]",
            "MQ.DONE queue id token [SUCCESS | RETRY [REASON text] | ERROR [REASON text] | RELEASE] \
             [BACKOFF ms | BACKOFF EXP] [RESULT bytes] [RETAIN ms]",
            "MQ.MDONE queue count id token [id token ...] \
             [SUCCESS | RETRY [REASON text] | ERROR [REASON text] | RELEASE] [BACKOFF ms | BACKOFF EXP] \
             [RESULT bytes] [RETAIN ms]",
            "MQ.RESULT queue id [BLOCK ms]",
            "MQ.EXTEND queue id token ms",
            "MQ.STATUS queue id",
            "MQ.GET queue id",
            "MQ.CANCEL queue id [id ...]",
            "MQ.INFO queue",
            "MQ.LATENCY queue",
            "MQ.LIMITS queue [GROUPS | GROUP g]",
            "MQ.REDRIVE queue id [id ...] | COUNT n",
            "MQ.PURGE queue status | ALL [COUNT n]",
            "MQ.PEEK queue [STATUS status] [COUNT n] [AFTER id] [REV]",
            "MQ.SCAN queue cursor [STATUS status] [MATCH pattern] [COUNT n]",
            "MQ.SCHEDULE queue name payload EVERY ms | CRON expression [TZ zone] [FROM unix-ms] \
             [UNTIL unix-ms] [TIMES n] [OVERLAP SKIP | AFTER | ALLOW] [LOCK ms] [ATTEMPTS n] \
             [PRIORITY p] [TTL ms [BURY]] [GROUP g] [HEADERS bytes] [RETAIN ms]",
            "MQ.UNSCHEDULE queue name [name ...]",
            "MQ.SCHEDULES queue cursor [COUNT n]",
            "MQ.FIRE queue name",
        ] {
            assert!(
                lines.iter().any(|line| line.trim() == syntax),
                "{syntax}: {lines:#?}"
            );
        }
        let dequeue = "MQ.DEQUEUE queue [COUNT n] [LOCK ms] [BLOCK ms | EOQ [ms ...]]";
        assert!(
            lines.iter().any(|line| line.trim() == dequeue),
            "{lines:#?}"
        );
        assert!(lab.client().line("MQ.HELP me").is_err());
    });
}

#[test]
fn queues_are_found_by_their_type() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "queued");
        client.ok(&format!("SET {queue}:not text"));
        let (mut cursor, mut found) = ("0".to_string(), BTreeSet::new());
        loop {
            let pattern = format!("{queue}*");
            let reply = ask!(
                client,
                "SCAN",
                cursor,
                "MATCH",
                pattern,
                "TYPE",
                "mq-circle"
            )
            .unwrap();
            found.extend(words(&reply.items()[1]));
            cursor = reply.items()[0].text();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, BTreeSet::from([queue]));
    });
}
