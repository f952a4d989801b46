//! What an operator sets and sees: module configs, arguments of `loadmodule`, INFO.

mod common;

use common::{contract, contract_on, Client, Lab, Protocol, HOUR, TEN_YEARS};
use redis_mq_testkit::{wait_until, Persistence, ReplyExt, Server, Shutdown, PATIENCE};

const DEFAULTS: [(&str, &str); 7] = [
    ("mq.lock-ms", "3600000"),
    ("mq.backoff-factor-ms", "2200"),
    ("mq.backoff-max-ms", "86400000"),
    ("mq.max-dead", "10000"),
    ("mq.idle-ms", "0"),
    ("mq.retain-ms", "60000"),
    ("mq.max-schedules", "10000"),
];

#[track_caller]
fn config(lab: &Lab<'_>, name: &str) -> String {
    lab.client().ok(&format!("CONFIG GET {name}")).fields()[name].text()
}

#[test]
fn the_settings_have_their_documented_defaults() {
    contract(|lab| {
        if !lab.has(7, 0) {
            return;
        }
        let all = lab.client().ok("CONFIG GET mq.*").fields();
        for (name, default) in DEFAULTS {
            assert_eq!(all[name].text(), default, "{name}");
        }
    });
}

#[test]
fn the_default_lock_time_counts_from_the_next_delivery_on() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return;
        }
        let (mut client, queue) = (lab.client(), lab.queue());
        for (n, ms) in [1, 5000, TEN_YEARS].into_iter().enumerate() {
            client.ok(&format!("CONFIG SET mq.lock-ms {ms}"));
            assert_eq!(config(lab, "mq.lock-ms"), ms.to_string());
            client.enqueue(&queue, "p", &format!("ID {n}"));
            assert_eq!(client.dequeue(&queue, "").unwrap().lock_ms, ms);
        }
        client.enqueue(&queue, "p", "ID own LOCK 77 PRIORITY 0");
        assert_eq!(client.dequeue(&queue, "").unwrap().lock_ms, 77);
        client.ok("CONFIG SET mq.lock-ms 3600000");
    });
}

#[test]
fn factor_and_maximum_shape_the_exponential_backoff() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return;
        }
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!("CONFIG SET mq.backoff-factor-ms {}", 2 * HOUR));
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let before = client.now();
        client.done(&queue, &delivery, "RETRY BACKOFF EXP");
        let after = client.now();
        let due = client.message(&queue, "a").int("due-at");
        assert!((before + HOUR..=after + 2 * HOUR).contains(&due));

        client.ok("CONFIG SET mq.backoff-max-ms 12345");
        client.enqueue(&queue, "p", "ID a UPDATE DELAY 0");
        let delivery = client.take(&queue);
        let before = client.now();
        client.done(&queue, &delivery, "RETRY BACKOFF EXP");
        let after = client.now();
        let due = client.message(&queue, "a").int("due-at");
        assert!((before + 12_345..=after + 12_345).contains(&due));

        // Only what is drawn is limited, not what a consumer says.
        client.enqueue(&queue, "p", "ID a UPDATE DELAY 0");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, &format!("RETRY BACKOFF {HOUR}"));
        assert!(client.message(&queue, "a").int("due-at") >= after + HOUR);
        for (name, default) in DEFAULTS {
            client.ok(&format!("CONFIG SET {name} {default}"));
        }
    });
}

#[test]
fn no_dead_letters_are_kept_if_none_are_wanted() {
    contract_on(Server::builder().module_args(["max-dead", "0"]), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, "ERROR"), "dead");
        assert_eq!(client.status(&queue, "a"), None);
        let info = client.info(&queue);
        assert_eq!((info.int("dead"), info.int("total-dead")), (0, 1));
    });
}

#[test]
fn a_setting_out_of_range_is_refused_and_stays() {
    contract(|lab| {
        if !lab.has(7, 0) {
            return;
        }
        for (name, default) in DEFAULTS {
            for wrong in ["-1", "x", "", "1.5", "315360000001", "99999999999999999999"] {
                if name == "mq.max-dead" && wrong == "315360000001" {
                    continue;
                }
                let reply = lab.client().call(&["CONFIG", "SET", name, wrong]);
                assert!(reply.is_err(), "{name} {wrong}");
            }
            if ![
                "mq.max-dead",
                "mq.idle-ms",
                "mq.retain-ms",
                "mq.max-schedules",
            ]
            .contains(&name)
            {
                lab.client()
                    .line(&format!("CONFIG SET {name} 0"))
                    .unwrap_err();
            }
            assert_eq!(config(lab, name), default);
        }
    });
}

#[test]
fn settings_survive_a_rewritten_configuration() {
    contract_on(Server::builder(), |lab| {
        if !lab.has(7, 0) {
            return;
        }
        let mut client = lab.client();
        client.ok("CONFIG SET mq.lock-ms 4242");
        client.ok("CONFIG REWRITE");
        let text = std::fs::read_to_string(lab.server.dir().join("server.conf")).unwrap();
        assert!(
            text.lines().any(|line| line.trim() == "mq.lock-ms 4242"),
            "{text}"
        );
        client.ok("CONFIG SET mq.lock-ms 3600000");
    });
}

#[test]
fn arguments_of_loadmodule_set_the_settings_on_every_server() {
    let args = [
        "lock-ms",
        "1111",
        "mq.max-dead",
        "2",
        "Backoff-Factor-Ms",
        "3",
    ];
    contract_on(Server::builder().module_args(args), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(client.dequeue(&queue, "").unwrap().lock_ms, 1111);
        if lab.has(7, 0) {
            assert_eq!(config(lab, "mq.lock-ms"), "1111");
            assert_eq!(config(lab, "mq.max-dead"), "2");
            assert_eq!(config(lab, "mq.backoff-factor-ms"), "3");
            assert_eq!(config(lab, "mq.backoff-max-ms"), "86400000");
        }
    });
}

#[test]
fn wrong_arguments_of_loadmodule_stop_the_server_with_the_reason() {
    for (args, reason) in [
        (vec!["lock_ms", "5"], "lock-ms"),
        (vec!["nonsense"], "argument 1"),
        (vec!["lock-ms"], "lock-ms"),
        (vec!["lock-ms", "0"], "lock-ms"),
        (vec!["lock-ms", "-5"], "lock-ms"),
        (vec!["backoff-factor-ms", "fast"], "backoff-factor-ms"),
        (vec!["max-dead", "1", "max-dead", "1"], "max-dead"),
        (vec!["backoff-max-ms", "315360000001"], "backoff-max-ms"),
    ] {
        match Server::builder().module_args(&args).try_start() {
            Ok(_) => panic!("it started with {args:?}"),
            Err(error) => {
                let told = error.log.lines().any(|line| line.contains(reason));
                assert!(told, "{args:?}: {}", error.log);
            }
        }
    }
}

#[test]
fn a_second_loadmodule_line_stops_the_server_with_the_reason() {
    let module = redis_mq_testkit::module_path();
    let twice = Server::builder().config("loadmodule", module.display());
    match twice.try_start() {
        Ok(_) => panic!("it started with the module twice"),
        Err(error) => {
            let reason = "there is a module of this name";
            let told = error.log.lines().any(|line| line.contains(reason));
            assert!(told, "{}", error.log);
        }
    }
}

#[track_caller]
fn mq(lab: &Lab<'_>, field: &str) -> i64 {
    let text = lab.server.info("mq", &format!("mq_{field}"));
    text.unwrap_or_else(|| panic!("INFO mq has no mq_{field}"))
        .parse()
        .expect("a number")
}

#[test]
fn info_counts_queues_messages_and_consumers_of_the_whole_server() {
    let server = Server::builder();
    contract_on(server, |lab| {
        let totals = [
            "enqueued",
            "delivered",
            "done",
            "retried",
            "dead",
            "expired_locks",
        ];
        let total = |name: &str| mq(lab, &format!("total_{name}"));
        let before: Vec<i64> = totals.iter().map(|name| total(name)).collect();
        let mut client = lab.client();
        for db in [0, 3] {
            client.ok(&format!("SELECT {db}"));
            client.put("q", "dead", "dead");
            client.put("q", "held", "locked");
            client.put("q", "ready", "queued");
            let delivery = client.take("q");
            client.done("q", &delivery, "RETRY");
            let delivery = client.take("q");
            client.done("q", &delivery, "");
        }
        assert_eq!(mq(lab, "queues"), 2);
        assert_eq!(mq(lab, "blocked_consumers"), 0);
        let waiters = [
            lab.waiter("q", "BLOCK 0"),
            lab.waiter_in(7, "none", "BLOCK 0"),
        ];
        assert_eq!(mq(lab, "blocked_consumers"), 2);
        drop(waiters);
        wait_until(PATIENCE, || mq(lab, "blocked_consumers") == 0);

        client.put("q", "brief", "queued");
        let brief = client.dequeue("q", "LOCK 1").unwrap();
        client.wait_until_due("q", "brief");
        let again = client.take("q");
        assert_eq!(again.id, brief.id);
        let grown: Vec<i64> = totals
            .iter()
            .zip(before)
            .map(|(name, old)| total(name) - old)
            .collect();
        assert_eq!(grown, [7, 10, 2, 2, 2, 1], "{totals:?}");

        for (status, expected) in [("queued", 0), ("locked", 3), ("dead", 2)] {
            assert_eq!(mq(lab, &format!("messages_{status}")), expected, "{status}");
        }
        client.ok("FLUSHALL");
        wait_until(PATIENCE, || mq(lab, "queues") == 0);
        for sum in ["messages", "messages_locked", "messages_dead"] {
            assert_eq!(mq(lab, sum), 0, "{sum}");
        }
    });
}

#[test]
fn what_is_read_again_at_a_start_is_not_counted_again() {
    let mut server = Server::builder()
        .persistence(Persistence::AofCommands)
        .start();
    let mut client = Client::connect(&server, Protocol::Resp2);
    for _ in 0..3 {
        client.enqueue("q", "p", "");
        let delivery = client.take("q");
        client.done("q", &delivery, "");
    }
    client.enqueue("q", "p", "");
    server.restart(Shutdown::NoSave);
    for total in ["enqueued", "delivered", "done"] {
        let value = server.info("mq", &format!("mq_total_{total}"));
        assert_eq!(value.as_deref(), Some("0"), "{total}");
    }
    assert_eq!(
        server.info("mq", "mq_messages_queued").as_deref(),
        Some("1")
    );
}
