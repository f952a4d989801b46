//! ACL: a user reaches only the queues of its key patterns, and changes only what it may.

mod common;

use std::collections::BTreeSet;

use common::{contract, contract_on, Client, Lab};
use redis_mq_testkit::{ReplyExt, Server};

const WRITES: [&str; 14] = [
    "MQ.ENQUEUE {} p",
    "MQ.MENQUEUE {} 2 p p",
    "MQ.DEQUEUE {}",
    "MQ.DEQUEUE {} BLOCK 1",
    "MQ.MDEQUEUE 1 {}",
    "MQ.DONE {} id 5",
    "MQ.MDONE {} 1 id 5",
    "MQ.EXTEND {} id 5 5",
    "MQ.CANCEL {} id",
    "MQ.REDRIVE {} id",
    "MQ.PURGE {} dead",
    "MQ.SCHEDULE {} name p EVERY 1000",
    "MQ.FIRE {} name",
    "MQ.UNSCHEDULE {} name",
];
const READS: [&str; 11] = [
    "MQ.STATUS {} id",
    "MQ.GET {} id",
    "MQ.INFO {}",
    "MQ.PEEK {}",
    "MQ.LATENCY {}",
    "MQ.LIMITS {}",
    "MQ.SCAN {} 0",
    "MQ.GROUPS {} 0",
    "MQ.RESULT {} id",
    "MQ.RESULT {} id BLOCK 1",
    "MQ.SCHEDULES {} 0",
];

/// A connection of a user with these rules.
fn user(lab: &Lab<'_>, rules: &str) -> Client {
    let mut admin = lab.client();
    admin.ok(&format!("ACL SETUSER someone reset on nopass {rules}"));
    let mut client = lab.client();
    client.ok("AUTH someone any");
    client
}

#[track_caller]
fn may(client: &mut Client, command: &str, queue: &str, allowed: bool) {
    let line = command.replace("{}", queue);
    match client.line(&line) {
        Ok(_) => assert!(allowed, "{line} is allowed"),
        Err(error) => {
            // STALE is an answer, not a refusal.
            let refused = error.starts_with("NOPERM ");
            assert_eq!(refused, !allowed, "{line}: {error}");
        }
    }
}

#[test]
fn a_key_pattern_limits_every_command() {
    contract_on(Server::builder(), |lab| {
        lab.client().put("other", "id", "queued");
        let before = lab.client().digest("other");
        let mut client = user(lab, "~own:* +@all");
        for command in WRITES.into_iter().chain(READS) {
            may(&mut client, command, "own:1", true);
            may(&mut client, command, "other", false);
        }
        // Nor through a transaction or a script.
        client.ok("MULTI");
        client.line("MQ.STATUS other id").unwrap_err();
        client.line("EXEC").unwrap_err();
        let script = "return redis.call('MQ.STATUS', 'other', 'id')";
        client.call(&["EVAL", script, "0"]).unwrap_err();
        client
            .call(&["EVAL", "return 1", "1", "other"])
            .unwrap_err();
        assert_eq!(lab.client().digest("other"), before);
    });
}

#[test]
fn ids_and_payloads_are_no_keys() {
    contract_on(Server::builder(), |lab| {
        let mut client = user(lab, "~own:* +@all");
        assert_eq!(client.enqueue("own:1", "other", "ID other"), "added");
        assert_eq!(client.status("own:1", "other").as_deref(), Some("queued"));
        assert_eq!(client.cancel("own:1", "x y other"), 1);
    });
}

#[test]
fn a_pattern_for_reading_does_not_allow_changes() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return;
        }
        lab.client().put("q", "id", "queued");
        let mut client = user(lab, "%R~q +@all");
        for command in READS {
            may(&mut client, command, "q", true);
        }
        for command in WRITES {
            may(&mut client, command, "q", false);
        }
        assert_eq!(lab.client().status("q", "id").as_deref(), Some("queued"));
    });
}

#[test]
fn a_pattern_for_writing_does_not_let_read_what_is_in_the_queue() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return;
        }
        lab.client().put("q", "id", "queued");
        let mut client = user(lab, "%W~q +@all");
        for command in READS
            .into_iter()
            .chain(["MQ.DEQUEUE {}", "MQ.DEQUEUE {} EOQ"])
        {
            may(&mut client, command, "q", false);
        }
        for command in ["MQ.ENQUEUE {} p", "MQ.DONE {} id 5", "MQ.CANCEL {} id"] {
            may(&mut client, command, "q", true);
        }
    });
}

#[test]
fn the_categories_for_reading_and_writing_fit() {
    contract_on(Server::builder(), |lab| {
        // Older servers put no command of a module into any category.
        if !lab.has(7, 2) {
            return;
        }
        let mut reader = user(lab, "~* +@read");
        for command in READS {
            may(&mut reader, command, "q", true);
        }
        for command in WRITES {
            may(&mut reader, command, "q", false);
        }
        let mut writer = user(lab, "~* +@all -@read");
        for command in READS {
            may(&mut writer, command, "q", false);
        }
        for command in WRITES {
            may(&mut writer, command, "q", true);
        }
    });
}

#[test]
fn a_single_command_can_be_granted() {
    contract_on(Server::builder(), |lab| {
        let mut producer = user(lab, "~* +mq.enqueue");
        may(&mut producer, "MQ.ENQUEUE {} p ID a", "q", true);
        for command in ["MQ.DEQUEUE {}", "MQ.STATUS {} a", "MQ.CANCEL {} a"] {
            may(&mut producer, command, "q", false);
        }
    });
}

#[test]
fn the_modules_own_category_holds_its_commands() {
    contract(|lab| {
        let mut client = lab.client();
        let categories = client.ok("ACL CAT");
        let has = categories
            .items()
            .iter()
            .any(|category| category.text() == "mq");
        // Redis has categories of modules from 7.4 on, and every Valkey.
        if !has {
            assert!(!lab.has(8, 0), "no category mq");
            return;
        }
        let commands: BTreeSet<_> = client
            .ok("ACL CAT mq")
            .items()
            .iter()
            .map(ReplyExt::text)
            .collect();
        for command in WRITES.into_iter().chain(READS) {
            let name = command.split(' ').next().unwrap().to_lowercase();
            assert!(commands.contains(&name), "{name}: {commands:?}");
        }
    });
}

#[test]
fn only_the_command_of_the_replication_is_dangerous() {
    contract(|lab| {
        if !lab.has(7, 2) {
            return;
        }
        let mut client = lab.client();
        let dangerous: BTreeSet<_> = client
            .ok("ACL CAT dangerous")
            .items()
            .iter()
            .map(ReplyExt::text)
            .collect();
        let info = client.ok("COMMAND INFO mq.apply");
        if !info.items()[0].is_nil() {
            assert!(dangerous.contains("mq.apply"), "{dangerous:?}");
        }
        assert!(dangerous
            .iter()
            .all(|name| name == "mq.apply" || !name.starts_with("mq.")));
    });
}
