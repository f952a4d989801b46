//! MQ.SCHEDULE, MQ.UNSCHEDULE, MQ.SCHEDULES and MQ.FIRE: what a queue enqueues by itself.

mod common;

use common::{args, ask, contract, contract_on, ids, Client, HOUR, TEN_YEARS};
use redis_mq_testkit::{wait_until, ReplyExt, Server, Value, PATIENCE};

/// When a schedule of one run ran, and as what.
fn one_run(client: &mut Client, queue: &str, words: &str) -> (i64, common::Delivery) {
    let from = client.now() + 60;
    let (change, next) = client.schedule(queue, &format!("{words} FROM {from} TIMES 1"));
    assert_eq!((change.as_str(), next), ("created", from));
    let reply = client.ok(&format!("MQ.DEQUEUE {queue} BLOCK 0"));
    (from, common::Delivery::read(&reply))
}

#[test]
fn a_run_comes_at_its_instant_to_whoever_waits() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (from, run) = one_run(&mut client, &queue, "tick hello EVERY 1000");
        assert_eq!(
            (run.id().as_str(), run.payload().as_str()),
            ("tick", "hello")
        );
        assert_eq!(run.scheduled_at(), Some(from));
        assert!(run.enqueued_at >= from);
        assert_eq!(client.message(&queue, "tick").int("scheduled-at"), from);
        client.done(&queue, &run, "");
        let schedule = &client.schedules(&queue)[0];
        assert_eq!((schedule.int("runs"), schedule.int("skipped")), (1, 0));
        assert_eq!(schedule.int("last-at"), from);
        assert_eq!(schedule.text("last-outcome").as_deref(), Some("added"));
        assert_eq!(schedule.int("next-at"), 0, "it was one");
    });
}

#[test]
fn runs_come_though_nobody_works_or_asks() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let from = client.now() + 30;
        client.schedule(
            &queue,
            &format!("a p EVERY 1000 FROM {from} OVERLAP ALLOW TIMES 2"),
        );
        // Nothing but looks that let no time act.
        wait_until(PATIENCE, || client.info(&queue).int("queued") == 2);
        let got = ids(&client.dequeue_many(&queue, 5, ""));
        assert_eq!(got, [format!("a@{from}"), format!("a@{}", from + 1000)]);
    });
}

#[test]
fn the_first_run_is_a_period_from_now_or_the_next_match() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let before = client.now();
        let (change, next) = client.schedule(&queue, &format!("a p EVERY {HOUR}"));
        assert_eq!(change, "created");
        assert!((before + HOUR..=client.now() + HOUR).contains(&next));
        let before = client.now();
        let (_, next) = client.schedule(&queue, "b p CRON @yearly");
        assert!(next > before && next <= before + 366 * 24 * HOUR);
        assert_eq!(next % HOUR, 0);
        let (_, next) = client.schedule(&queue, &format!("c p EVERY {HOUR} FROM 7"));
        assert_eq!(next % HOUR, 7, "in step with a FROM that has passed");
        let cron = args![
            "MQ.SCHEDULE",
            &queue,
            "d",
            "p",
            "CRON",
            "0 12 * * *",
            "TZ",
            "Europe/Zurich"
        ];
        let next = client.call(&cron).unwrap().items()[1].int();
        assert!(
            [10, 11].contains(&(next / HOUR % 24)),
            "in Zurich it is noon"
        );
    });
}

#[test]
fn what_is_said_again_leaves_the_next_run_where_it_is() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (_, next) = client.schedule(&queue, &format!("a old EVERY {HOUR}"));
        let before = client.now();
        wait_until(PATIENCE, || client.now() > before);
        let again = client.schedule(&queue, &format!("a old EVERY {HOUR}"));
        assert_eq!(again, ("same".to_owned(), next));
        let updated = client.schedule(&queue, &format!("a new EVERY {HOUR} PRIORITY 1"));
        assert_eq!(updated, ("updated".to_owned(), next));
        assert_eq!(
            client.schedules(&queue)[0].text("payload").as_deref(),
            Some("new")
        );
        let (change, other) = client.schedule(&queue, &format!("a new EVERY {}", HOUR + 1));
        assert_eq!(change, "updated");
        assert!(other > next, "other times begin anew");
        assert_eq!(client.info(&queue).int("schedules"), 1);
    });
}

#[test]
fn a_run_that_waits_gets_the_new_content_and_one_that_is_worked_on_does_not() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.schedule(&queue, &format!("a old EVERY {HOUR}"));
        client.ok(&format!("MQ.FIRE {queue} a"));
        client.schedule(&queue, &format!("a new EVERY {HOUR}"));
        let run = client.take(&queue);
        assert_eq!(run.payload(), "new");
        client.schedule(&queue, &format!("a newer EVERY {HOUR}"));
        assert_eq!(client.done(&queue, &run, "RETRY"), "queued");
        assert_eq!(
            client.take(&queue).payload(),
            "new",
            "it was delivered already"
        );
    });
}

#[test]
fn overlap_is_what_ids_do() {
    contract(|lab| {
        for (overlap, second, third) in [
            ("SKIP", "locked", "locked"),
            ("AFTER", "requeued", "locked-with-requeue"),
        ] {
            let (mut client, queue) = (lab.client(), lab.queue());
            client.schedule(&queue, &format!("a p EVERY {HOUR} OVERLAP {overlap}"));
            let mut fire = || {
                let fired = client.ok(&format!("MQ.FIRE {queue} a"));
                assert_eq!(fired.items()[1].text(), "a");
                fired.items()[0].text()
            };
            assert_eq!(fire(), "added");
            assert_eq!(fire(), "queued", "one that waits is enough");
            let run = lab.client().take(&queue);
            assert_eq!((fire(), fire()), (second.to_owned(), third.to_owned()));
            client.done(&queue, &run, "ERROR");
            let fired = client.ok(&format!("MQ.FIRE {queue} a"));
            let expected = if overlap == "AFTER" {
                "queued"
            } else {
                "added"
            };
            assert_eq!(
                fired.items()[0].text(),
                expected,
                "a dead letter blocks nothing"
            );
        }
        let (mut client, queue) = (lab.client(), lab.queue());
        client.schedule(&queue, &format!("a p EVERY {HOUR} OVERLAP ALLOW"));
        let before = client.now();
        let fired = client.ok(&format!("MQ.FIRE {queue} a"));
        let id = fired.items()[1].text();
        let at: i64 = id.strip_prefix("a@").unwrap().parse().unwrap();
        assert!((before..=client.now()).contains(&at));
        assert_eq!(client.take(&queue).scheduled_at(), Some(at));
    });
}

#[test]
fn a_run_that_is_still_there_makes_the_next_one_skipped() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let from = client.now() + 20;
        client.enqueue(&queue, "p", "ID a");
        client.schedule(&queue, &format!("a p EVERY {HOUR} FROM {from}"));
        wait_until(PATIENCE, || client.schedules(&queue)[0].int("skipped") == 1);
        let schedule = &client.schedules(&queue)[0];
        assert_eq!(schedule.text("last-outcome").as_deref(), Some("skipped"));
        assert_eq!(schedule.int("next-at"), from + HOUR);
        assert_eq!(client.info(&queue).int("messages"), 1);
    });
}

#[test]
fn firing_leaves_times_counts_and_the_next_run_alone() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (_, next) = client.schedule(&queue, &format!("a p EVERY {HOUR} TIMES 1"));
        client.ok(&format!("MQ.FIRE {queue} a"));
        let schedule = &client.schedules(&queue)[0];
        assert_eq!(schedule.int("next-at"), next);
        assert_eq!((schedule.int("runs"), schedule.int("last-at")), (0, 0));
        assert!(client.ok(&format!("MQ.FIRE {queue} b")).is_nil());
        assert!(client.ok("MQ.FIRE nowhere a").is_nil());
        assert_eq!(client.ok("EXISTS nowhere"), Value::Int(0));
    });
}

#[test]
fn what_would_pass_a_limit_is_left_out_and_fire_says_so() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "");
        client.ok(&format!("MQ.LIMIT {queue} LENGTH 1"));
        let from = client.now() + 20;
        client.schedule(&queue, &format!("a p EVERY {HOUR} FROM {from}"));
        wait_until(PATIENCE, || client.schedules(&queue)[0].int("skipped") == 1);
        let schedule = &client.schedules(&queue)[0];
        assert_eq!(schedule.text("last-outcome").as_deref(), Some("full"));
        let error = client.line(&format!("MQ.FIRE {queue} a")).unwrap_err();
        assert!(error.starts_with("FULL "), "{error}");
    });
}

#[test]
fn a_paused_queue_gets_its_runs() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!("MQ.PAUSE {queue}"));
        let from = client.now() + 20;
        client.schedule(&queue, &format!("a p EVERY {HOUR} FROM {from}"));
        wait_until(PATIENCE, || client.info(&queue).int("queued") == 1);
        assert_eq!(client.dequeue(&queue, ""), None);
    });
}

#[test]
fn a_run_has_the_options_that_were_given() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let words = "a p EVERY 1000 LOCK 7000 ATTEMPTS 3 PRIORITY 2 TTL 60000 BURY GROUP g \
                     HEADERS h RETAIN 5";
        let (_, run) = one_run(&mut client, &queue, words);
        assert_eq!((run.lock_ms, &run.more["group"][..]), (7000, &b"g"[..]));
        assert_eq!(run.more["headers"], b"h");
        let message = client.message(&queue, "a");
        assert_eq!(message.int("max-attempts"), 3);
        assert_eq!((message.int("priority"), message.int("retain-ms")), (2, 5));
        assert_eq!(message.int("expires-at"), run.enqueued_at + 60_000);
    });
}

#[test]
fn schedules_are_listed_page_by_page_with_all_there_is_to_know() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(client.ok(&format!("MQ.SCHEDULES {queue} 0")).is_nil());
        let until = client.now() + HOUR;
        for name in ["c", "a", "e", "b"] {
            client.schedule(&queue, &format!("{name} p EVERY {HOUR}"));
        }
        let cron = args![
            "MQ.SCHEDULE",
            &queue,
            "d",
            "",
            "CRON",
            "5 4 * * SUN",
            "TZ",
            "Asia/Tokyo",
            "UNTIL",
            until + TEN_YEARS,
            "FROM",
            9,
            "TIMES",
            4,
            "OVERLAP",
            "AFTER"
        ];
        client.call(&cron).unwrap();
        let all = client.schedules(&queue);
        let names: Vec<_> = all.iter().filter_map(|one| one.text("name")).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        let text = |at: usize, name: &str| all[at].text(name);
        assert_eq!(text(0, "spec"), Some(format!("EVERY {HOUR}")));
        assert_eq!((text(0, "tz"), text(0, "last-outcome")), (None, None));
        assert_eq!(text(0, "overlap").as_deref(), Some("SKIP"));
        assert_eq!(
            (all[0].int("times"), all[0].int("from"), all[0].int("until")),
            (0, 0, 0)
        );
        assert_eq!(text(3, "spec").as_deref(), Some("CRON 5 4 * * SUN"));
        assert_eq!(text(3, "tz").as_deref(), Some("Asia/Tokyo"));
        assert_eq!((all[3].int("times"), all[3].int("from")), (4, 9));
        assert_eq!(all[3].int("until"), until + TEN_YEARS);
        assert_eq!(text(3, "overlap").as_deref(), Some("AFTER"));
        assert_eq!(text(3, "payload").as_deref(), Some(""));
    });
}

#[test]
fn what_is_removed_runs_no_more_and_what_was_enqueued_stays() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for name in ["a", "b"] {
            client.schedule(&queue, &format!("{name} p EVERY {HOUR}"));
            client.ok(&format!("MQ.FIRE {queue} {name}"));
        }
        let removed = client.ok(&format!("MQ.UNSCHEDULE {queue} a x a"));
        assert_eq!(removed, Value::Int(1));
        let info = client.info(&queue);
        assert_eq!((info.int("schedules"), info.int("queued")), (1, 2));
        assert_eq!(
            client.ok(&format!("MQ.UNSCHEDULE {queue} b")),
            Value::Int(1)
        );
        assert_eq!(client.ok("MQ.UNSCHEDULE nowhere b"), Value::Int(0));
        let (change, _) = client.schedule(&queue, &format!("a p EVERY {HOUR}"));
        assert_eq!(change, "created");
    });
}

#[test]
fn a_schedule_ends_and_stays_to_tell_what_it_did() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (_, run) = one_run(&mut client, &queue, "a p EVERY 1000");
        client.done(&queue, &run, "");
        let said = format!(
            "a p EVERY 1000 FROM {} TIMES 1",
            run.scheduled_at().unwrap()
        );
        assert_eq!(client.schedule(&queue, &said), ("same".to_owned(), 0));
        let past = client.schedule(&queue, "b p EVERY 1000 UNTIL 5");
        assert_eq!(
            past,
            ("created".to_owned(), 0),
            "last year's is no error this year"
        );
        assert_eq!(client.info(&queue).int("schedules"), 2);
    });
}

#[test]
fn polls_do_not_sleep_through_a_run() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let (_, next) = client.schedule(&queue, "a p EVERY 1000");
        let wait = client.poll(&queue, "EOQ 3600000");
        assert!(client.now() + wait <= next + 50 && wait <= 1000, "{wait}");
    });
}

#[test]
fn a_queue_holds_so_many_schedules() {
    let server = Server::builder().module_args(["max-schedules", "2"]);
    contract_on(server, |lab| {
        let mut client = lab.client();
        for name in ["a", "b", "b"] {
            client.schedule("q", &format!("{name} p EVERY {HOUR}"));
        }
        let line = format!("MQ.SCHEDULE q c p EVERY {HOUR}");
        let error = client.line(&line).unwrap_err();
        assert_eq!(
            error,
            "ERR the queue has as many schedules as mq.max-schedules allows"
        );
        client.schedule("other", &format!("c p EVERY {HOUR}"));
        client.ok("MQ.UNSCHEDULE q a");
        client.ok(&line);
    });
}

#[test]
fn names_and_payloads_are_any_bytes() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let name: Vec<u8> = (0..=u8::MAX).chain(0..=u8::MAX).collect();
        let payload = b"\0\r\n\xFF";
        let every = HOUR.to_string();
        let set = ask!(
            client,
            "MQ.SCHEDULE",
            &queue,
            &name[..],
            &payload[..],
            "EVERY",
            &every
        );
        assert_eq!(set.unwrap().items()[0].text(), "created");
        let fired = ask!(client, "MQ.FIRE", &queue, &name[..]).unwrap();
        assert_eq!(fired.items()[1].bytes(), name);
        let run = client.take(&queue);
        assert_eq!((run.id, run.payload), (name.clone(), payload.to_vec()));
        let removed = ask!(client, "MQ.UNSCHEDULE", &queue, &name[..]).unwrap();
        assert_eq!(removed, Value::Int(1));
    });
}

#[test]
fn a_wrong_schedule_is_one_clear_error_and_changes_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let times = "ERR EVERY must be an integer from 1000 to 315360000000";
        let cron = "ERR CRON must be five fields, or six with seconds first";
        for (options, error) in [
            (vec!["EVERY", "999"], times),
            (vec!["EVERY", "-1"], times),
            (vec!["CRON", "* * * *"], cron),
            (vec!["CRON", "@reboot"], cron),
            (vec!["CRON", ""], "ERR CRON must be 1 to 512 bytes"),
            (
                vec!["CRON", "0 0 30 2 *"],
                "ERR CRON matches no time in the next ten years",
            ),
            (
                vec!["CRON", "@daily", "TZ", "Mars/Base"],
                "ERR TZ is no time zone that this server knows",
            ),
            (
                vec!["EVERY", "1000", "TIMES", "0"],
                "ERR TIMES must be an integer from 1 to 4294967295",
            ),
            (vec!["EVERY", "1000", "TZ", "UTC"], "ERR syntax error"),
            (vec!["EVERY", "1000", "CRON", "@daily"], "ERR syntax error"),
            (vec!["EVERY", "1000", "OVERLAP", "NO"], "ERR syntax error"),
            (vec!["EVERY", "1000", "ID", "a"], "ERR syntax error"),
            (vec!["TIMES", "1"], "ERR syntax error"),
        ] {
            let mut command = vec!["MQ.SCHEDULE", &queue, "a", "p"];
            command.extend(&options);
            let is = client.call(&command).unwrap_err();
            assert!(is.starts_with(error), "{options:?}: {is}");
        }
        let far = (client.now() + TEN_YEARS + 60_000).to_string();
        let line = format!("MQ.SCHEDULE {queue} a p EVERY 1000 FROM {far}");
        let is = client.line(&line).unwrap_err();
        assert!(
            is.starts_with("ERR FROM must be an integer from 0 to "),
            "{is}"
        );
        let long = "n".repeat(513);
        for line in [
            format!("MQ.SCHEDULE {queue} {long} p EVERY 1000"),
            format!("MQ.FIRE {queue} {long}"),
            format!("MQ.UNSCHEDULE {queue} a {long}"),
        ] {
            assert_eq!(
                client.line(&line).unwrap_err(),
                "ERR name must be 1 to 512 bytes"
            );
        }
        let line = format!(
            "MQ.SCHEDULE {queue} {} p EVERY 1000 OVERLAP ALLOW",
            &long[16..]
        );
        assert_eq!(
            client.line(&line).unwrap_err(),
            "ERR name must be 1 to 496 bytes"
        );
        assert_eq!(client.ok(&format!("EXISTS {queue}")), Value::Int(0));
    });
}

#[test]
fn schedules_go_where_the_queue_goes() {
    contract(|lab| {
        let mut client = lab.client();
        for way in ["RENAME", "COPY", "DUMP", "MOVE"] {
            let (queue, to) = (lab.queue(), lab.queue());
            let from = client.now() + 80;
            client.schedule(
                &queue,
                &format!("a p EVERY {HOUR} FROM {from} OVERLAP ALLOW"),
            );
            client.ok("SELECT 0");
            match way {
                "RENAME" => drop(client.ok(&format!("RENAME {queue} {to}"))),
                "COPY" => drop(client.ok(&format!("COPY {queue} {to}"))),
                "MOVE" => drop(client.ok(&format!("MOVE {queue} 5"))),
                _ => {
                    let dump = client.ok(&format!("DUMP {queue}"));
                    client.ok(&format!("DEL {queue}"));
                    let restore = ask!(client, "RESTORE", &to, 0, dump.bytes());
                    assert_eq!(restore.unwrap(), Value::Okay);
                }
            }
            // A copy fires too.
            let places = match way {
                "MOVE" => vec![(5, &queue)],
                "COPY" => vec![(0, &to), (0, &queue)],
                _ => vec![(0, &to)],
            };
            for (db, queue) in places {
                client.ok(&format!("SELECT {db}"));
                let reply = client.ok(&format!("MQ.DEQUEUE {queue} BLOCK 0"));
                let run = common::Delivery::read(&reply);
                assert_eq!(
                    (run.id(), run.scheduled_at()),
                    (format!("a@{from}"), Some(from))
                );
            }
            client.ok("SELECT 0");
        }
    });
}

#[test]
fn in_a_transaction_and_a_script_it_is_as_alone() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok("MULTI");
        client.ok(&format!("MQ.SCHEDULE {queue} a p EVERY {HOUR}"));
        client.ok(&format!("MQ.FIRE {queue} a"));
        client.ok(&format!("MQ.UNSCHEDULE {queue} a"));
        let replies = client.ok("EXEC");
        assert_eq!(replies.items()[0].items()[0].text(), "created");
        assert_eq!(replies.items()[1].items()[0].text(), "added");
        assert_eq!(replies.items()[2], Value::Int(1));
        let script = "return redis.call('MQ.SCHEDULE', KEYS[1], 'a', 'p', 'CRON', '@daily')[1]";
        let said = ask!(client, "EVAL", script, 1, &queue).unwrap();
        assert_eq!(said.text(), "created");
    });
}
