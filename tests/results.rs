//! DONE … RESULT, RETAIN and MQ.RESULT: what became of a message, for as long as that is kept.

mod common;

use common::{contract, contract_on, Client, HOUR};
use redis_mq_testkit::{wait_until, Persistence, ReplyExt, Server, PATIENCE};

/// What MQ.RESULT tells, its time aside.
#[track_caller]
fn known(client: &mut Client, queue: &str, id: &str) -> Option<(String, Option<String>)> {
    let reply = client.ok(&format!("MQ.RESULT {queue} {id}"));
    if reply.is_nil() {
        return None;
    }
    let [word, value, at] = reply.items() else {
        panic!("{reply:?}");
    };
    assert_eq!(at.int() != 0, !value.is_nil(), "{reply:?}");
    let value = (!value.is_nil()).then(|| value.text());
    Some((word.text(), value))
}

fn done(value: &str) -> Option<(String, Option<String>)> {
    Some(("done".into(), Some(value.into())))
}

fn dead(reason: &str) -> Option<(String, Option<String>)> {
    Some(("dead".into(), Some(reason.into())))
}

fn live(status: &str) -> Option<(String, Option<String>)> {
    Some((status.into(), None))
}

/// Enqueues and takes a message `a`, and ends it so.
#[track_caller]
fn end(client: &mut Client, queue: &str, options: &str, verdict: &str) -> String {
    client.enqueue(queue, "p", &format!("ID a {options}"));
    let delivery = client.take(queue);
    client.done(queue, &delivery, verdict)
}

#[test]
fn a_result_is_kept_with_the_moment_it_came() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let before = client.now();
        assert_eq!(end(&mut client, &queue, "", "RESULT 42"), "done");
        let reply = client.ok(&format!("MQ.RESULT {queue} a"));
        let at = reply.items()[2].int();
        assert!((before..=client.now()).contains(&at), "{at}");
        assert_eq!(known(&mut client, &queue, "a"), done("42"));
        let info = client.info(&queue);
        assert_eq!((info.int("results"), info.int("messages")), (1, 0));
        assert_eq!(client.status(&queue, "a"), None, "it holds no id");
        assert_eq!(client.get(&queue, "a"), None);
        for list in ["MQ.PEEK {} STATUS dead", "MQ.PEEK {}"] {
            let page = client.ok(&list.replace("{}", &queue));
            assert!(page.items().is_empty(), "{page:?}");
        }
        let scanned = client.ok(&format!("MQ.SCAN {queue} 0"));
        assert!(scanned.items()[1].items().is_empty());
        assert_eq!(client.enqueue(&queue, "p", "ID a"), "added");
    });
}

#[test]
fn what_is_kept_is_said_by_the_verdict_then_the_message_then_the_setting() {
    contract(|lab| {
        let mut client = lab.client();
        for (options, verdict, expected) in [
            ("", "", None),
            ("", "RESULT r", done("r")),
            ("", "RESULT \"\"", done("")),
            ("RETAIN 3600000", "", done("")),
            ("RETAIN 3600000", "RESULT r", done("r")),
            ("", "RETAIN 3600000", done("")),
            ("", "RESULT r RETAIN 3600000", done("r")),
            ("", "RESULT r RETAIN 0", None),
            ("RETAIN 0", "RESULT r", None),
            ("RETAIN 0", "RESULT r RETAIN 3600000", done("r")),
            ("RETAIN 3600000", "RESULT r RETAIN 0", None),
        ] {
            let queue = lab.queue();
            client.enqueue(&queue, "p", &format!("ID a {options}"));
            let delivery = client.take(&queue);
            let token = delivery.token.to_string();
            let mut command = vec!["MQ.DONE", &queue, "a", &token];
            let words = verdict.split_ascii_whitespace();
            command.extend(words.map(|word| word.trim_matches('"')));
            assert_eq!(client.call(&command).unwrap().text(), "done");
            let context = format!("{options}, {verdict}");
            assert_eq!(known(&mut client, &queue, "a"), expected, "{context}");
        }
    });
}

#[test]
fn without_a_word_a_result_is_kept_as_the_setting_says() {
    contract_on(Server::builder().module_args(["retain-ms", "25"]), |lab| {
        let mut client = lab.client();
        end(&mut client, "q", "", "RESULT r");
        let end_of = client.now() + 25;
        client.wait_for_time(end_of);
        assert_eq!(known(&mut client, "q", "a"), None);
        assert_eq!(client.info("q").int("results"), 0);
        if lab.has(7, 0) {
            client.ok("CONFIG SET mq.retain-ms 3600000");
            end(&mut client, "q", "", "RESULT r");
            assert_eq!(known(&mut client, "q", "a"), done("r"));
            client.ok("CONFIG SET mq.retain-ms 0");
            end(&mut client, "q", "", "RESULT r");
            assert_eq!(known(&mut client, "q", "a"), None);
            client.ok("CONFIG SET mq.retain-ms 25");
        }
    });
}

#[test]
fn a_result_goes_at_its_time_and_gives_its_memory_back() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let usage = |client: &mut Client| client.ok(&format!("MEMORY USAGE {queue}")).int();
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let before = usage(&mut client);
        let result = "r".repeat(100_000);
        client.done(&queue, &delivery, &format!("RESULT {result} RETAIN 200"));
        if known(&mut client, &queue, "a").is_some() {
            let kept = usage(&mut client);
            assert!(kept > before + 100_000, "{kept} after {before}");
        }
        wait_until(PATIENCE, || usage(&mut client) < before);
        assert_eq!(known(&mut client, &queue, "a"), None);
    });
}

#[test]
fn a_message_that_is_not_finished_tells_its_status() {
    contract(|lab| {
        let mut client = lab.client();
        for status in [
            "queued",
            "queued-with-backoff",
            "locked",
            "locked-with-requeue",
        ] {
            let queue = lab.queue();
            client.put(&queue, "a", status);
            assert_eq!(known(&mut client, &queue, "a"), live(status));
            let reply = client.ok(&format!("MQ.RESULT {queue} a"));
            assert_eq!(reply.items()[2].int(), 0);
        }
        let queue = lab.queue();
        assert_eq!(known(&mut client, &queue, "a"), None, "there is no queue");
        client.put(&queue, "a", "dead");
        assert_eq!(known(&mut client, &queue, "a"), dead("why"));
        assert_eq!(known(&mut client, &queue, "b"), None);
        client.ok(&format!("SET {queue}:text 1"));
        let error = client
            .line(&format!("MQ.RESULT {queue}:text a"))
            .unwrap_err();
        assert!(error.starts_with("WRONGTYPE "), "{error}");
    });
}

#[test]
fn a_success_with_backoff_is_done_with_and_without_a_result() {
    contract(|lab| {
        let mut client = lab.client();
        for status in ["done-with-backoff", "done-with-requeue"] {
            let queue = lab.queue();
            client.put(&queue, "a", status);
            assert_eq!(known(&mut client, &queue, "a"), live("done"));
        }
        let queue = lab.queue();
        let verdict = "BACKOFF 40 RESULT r RETAIN 3600000";
        assert_eq!(end(&mut client, &queue, "", verdict), "done-with-backoff");
        assert_eq!(known(&mut client, &queue, "a"), done("r"));
        client.wait_until_due(&queue, "a");
        assert_eq!(known(&mut client, &queue, "a"), done("r"), "outlives it");
    });
}

#[test]
fn a_retry_a_release_and_a_lock_that_runs_out_keep_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let became = end(&mut client, &queue, "RETAIN 3600000", "RETRY");
        assert_eq!((became.as_str()), "queued");
        assert_eq!(known(&mut client, &queue, "a"), live("queued"));
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "RELEASE");
        assert_eq!(known(&mut client, &queue, "a"), live("queued"));
        client.dequeue(&queue, "LOCK 1").unwrap();
        client.wait_until_due(&queue, "a");
        assert_eq!(known(&mut client, &queue, "a"), live("queued"));
        assert_eq!(client.info(&queue).int("results"), 0);
    });
}

#[test]
fn a_dead_letter_is_dead_until_a_late_verdict_replaces_it() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 1");
        let delivery = client.dequeue(&queue, "LOCK 1").unwrap();
        client.wait_until_due(&queue, "a");
        let died = dead("the lock of the last attempt expired");
        assert_eq!(known(&mut client, &queue, "a"), died);
        assert_eq!(client.done(&queue, &delivery, "RESULT late"), "done");
        assert_eq!(known(&mut client, &queue, "a"), done("late"));
        let info = client.info(&queue);
        assert_eq!((info.int("dead"), info.int("results")), (0, 1));
    });
}

#[test]
fn a_message_of_that_id_comes_first_and_nothing_old_shines_through() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        end(&mut client, &queue, "", "RESULT old RETAIN 3600000");
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(known(&mut client, &queue, "a"), live("queued"));
        assert_eq!(client.cancel(&queue, "a"), 1);
        assert_eq!(known(&mut client, &queue, "a"), None);
        // Nor where the newer run leaves nothing, or dies.
        end(&mut client, &queue, "", "RESULT old RETAIN 3600000");
        end(&mut client, &queue, "", "");
        assert_eq!(known(&mut client, &queue, "a"), None);
        end(&mut client, &queue, "", "RESULT old RETAIN 3600000");
        end(&mut client, &queue, "", "ERROR REASON why");
        assert_eq!(known(&mut client, &queue, "a"), dead("why"));
        // A newer success stands before the letter, which stays.
        end(&mut client, &queue, "", "RESULT new");
        assert_eq!(known(&mut client, &queue, "a"), done("new"));
        assert_eq!(client.info(&queue).int("dead"), 1);
    });
}

#[test]
fn cancel_purge_and_the_end_of_a_ttl_leave_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        end(&mut client, &queue, "", "RESULT r");
        assert_eq!(client.cancel(&queue, "a b"), 1, "a result is something");
        assert_eq!(client.cancel(&queue, "a b"), 0);
        assert_eq!(known(&mut client, &queue, "a"), None);
        let window = format!("RESULT r BACKOFF {HOUR}");
        end(&mut client, &queue, "", &window);
        assert_eq!(known(&mut client, &queue, "a"), done("r"));
        let purge = format!("MQ.PURGE {queue} done-with-backoff");
        assert_eq!(client.ok(&purge).int(), 1);
        assert_eq!(known(&mut client, &queue, "a"), None);
        client.enqueue(&queue, "p", "ID a TTL 1 RETAIN 3600000");
        let enqueued = client.now();
        client.wait_for_time(enqueued + 1);
        assert_eq!(known(&mut client, &queue, "a"), None);
        // A dead letter is purged by itself, and so are all messages; results stay.
        client.put(&queue, "a", "dead");
        end(&mut client, &queue, "", "RESULT r");
        assert_eq!(client.ok(&format!("MQ.PURGE {queue} ALL")).int(), 1);
        assert_eq!(known(&mut client, &queue, "a"), done("r"));
    });
}

#[test]
fn a_copy_that_runs_next_has_a_retain_of_its_own() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "p", "ID a REQUEUE RETAIN 3600000");
        assert_eq!(client.done(&queue, &delivery, "RESULT first"), "queued");
        assert_eq!(known(&mut client, &queue, "a"), live("queued"));
        assert_eq!(client.info(&queue).int("results"), 0);
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "");
        assert_eq!(known(&mut client, &queue, "a"), done(""));
        // Behind a window the first result is there as long as the window is.
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "p", "ID a REQUEUE");
        let verdict = "RESULT first RETAIN 3600000 BACKOFF 100";
        assert_eq!(client.done(&queue, &delivery, verdict), "done-with-requeue");
        let until = client.get(&queue, "a").map(|message| message.int("due-at"));
        let seen = known(&mut client, &queue, "a");
        if until.is_some_and(|until| client.now() < until) {
            assert_eq!(seen, done("first"));
        }
        wait_until(PATIENCE, || {
            known(&mut client, &queue, "a") == live("queued")
        });
    });
}

#[test]
fn update_sets_retain_anew_and_redrive_keeps_it() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let retain = |client: &mut Client| client.message(&queue, "a").text("retain-ms");
        client.enqueue(&queue, "p", "ID a RETAIN 5");
        assert_eq!(client.message(&queue, "a").int("retain-ms"), 5);
        client.enqueue(&queue, "p", "ID a UPDATE");
        assert_eq!(retain(&mut client), None);
        let kept = format!("ID a UPDATE RETAIN {HOUR}");
        client.enqueue(&queue, "p", &kept);
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "ERROR REASON why");
        assert_eq!(known(&mut client, &queue, "a"), dead("why"));
        assert_eq!(client.ok(&format!("MQ.REDRIVE {queue} a")).int(), 1);
        assert_eq!(known(&mut client, &queue, "a"), live("queued"));
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "");
        assert_eq!(known(&mut client, &queue, "a"), done(""));
    });
}

#[test]
fn one_result_is_kept_for_each_of_many() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!("MQ.MENQUEUE {queue} 3 p p p IDS a b c RETAIN 0"));
        let all = client.dequeue_many(&queue, 3, "");
        let pairs: Vec<_> = all
            .iter()
            .map(|one| format!("{} {}", one.id(), one.token))
            .collect();
        let many = format!("MQ.MDONE {queue} 2 {}", pairs[..2].join(" "));
        client.ok(&format!("{many} RESULT r RETAIN {HOUR}"));
        client.ok(&format!("MQ.MDONE {queue} 1 {} RESULT r", pairs[2]));
        assert_eq!(known(&mut client, &queue, "a"), done("r"));
        assert_eq!(known(&mut client, &queue, "b"), done("r"));
        assert_eq!(known(&mut client, &queue, "c"), None);
    });
}

#[test]
fn a_result_has_up_to_a_mebibyte_of_any_bytes() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        let token = delivery.token.to_string();
        let mut result = vec![0xFF; 1024 * 1024 + 1];
        result[1] = 0;
        let mut done = |result: &[u8]| {
            client.call(&[
                b"MQ.DONE",
                queue.as_bytes(),
                b"a",
                token.as_bytes(),
                b"RESULT",
                result,
            ])
        };
        let error = done(&result).unwrap_err();
        assert_eq!(error, "ERR RESULT must be 0 to 1048576 bytes");
        assert_eq!(done(&result[1..]).unwrap().text(), "done");
        let reply = client.ok(&format!("MQ.RESULT {queue} a"));
        assert_eq!(reply.items()[1].bytes(), &result[1..]);
    });
}

#[test]
fn results_are_part_of_the_queue() {
    for persistence in [Persistence::AofCommands, Persistence::Rdb] {
        contract_on(Server::builder().persistence(persistence), |lab| {
            let mut client = lab.client();
            end(&mut client, "q", "", "RESULT r RETAIN 3600000");
            client.enqueue("q", "p", "ID b RETAIN 5");
            client.ok("MQ.LIMIT q BYTES 1");
            let error = client.line("MQ.ENQUEUE q p").unwrap_err();
            assert!(error.starts_with("FULL "), "{error}");
            let digest = client.digest("q");
            client.ok("DEBUG RELOAD");
            assert_eq!(client.digest("q"), digest);
            assert_eq!(known(&mut client, "q", "a"), done("r"));
            client.ok("COPY q copy");
            client.ok("RENAME q renamed");
            let dump = client.ok("DUMP renamed");
            let restore: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", dump.bytes()];
            client.call(&restore).unwrap();
            for queue in ["copy", "renamed", "restored"] {
                assert_eq!(known(&mut client, queue, "a"), done("r"), "{queue}");
                assert_eq!(client.digest(queue), digest, "{queue}");
                assert_eq!(client.message(queue, "b").int("retain-ms"), 5);
            }
        });
    }
}

#[test]
fn a_replica_tells_results_and_lets_none_go_by_itself() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.replica_of_port(primary.port());
    let protocol = common::Protocol::Resp3;
    let (mut client, mut reader) = (
        Client::connect(&primary, protocol),
        Client::connect(&replica, protocol),
    );
    end(&mut client, "q", "", "RESULT r RETAIN 3600000");
    client.enqueue("q", "p", "ID b RETAIN 20");
    let delivery = client.take("q");
    client.done("q", &delivery, "");
    replica.wait_for_sync(&primary);
    assert_eq!(known(&mut reader, "q", "a"), done("r"));
    wait_until(PATIENCE, || {
        client.info("q").int("results") == 1 && client.digest("q") == reader.digest("q")
    });
    assert_eq!(known(&mut reader, "q", "b"), None);
    client.cancel("q", "a");
    replica.wait_for_sync(&primary);
    assert_eq!(known(&mut reader, "q", "a"), None);
    assert_eq!(client.digest("q"), reader.digest("q"));
}

#[test]
fn a_queue_that_keeps_a_result_is_not_idle() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        end(&mut client, &queue, "", "RESULT r RETAIN 1500");
        client.ok(&format!("MQ.LIMIT {queue} IDLE 1"));
        let reply = client.ok(&format!("MQ.RESULT {queue} a"));
        let until = reply.items()[2].int() + 1500;
        loop {
            let there = client.ok(&format!("EXISTS {queue}")).int();
            if client.now() >= until {
                break;
            }
            assert_eq!(there, 1);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        wait_until(PATIENCE, || {
            client.ok(&format!("EXISTS {queue}")).int() == 0
        });
    });
}
