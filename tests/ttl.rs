//! MQ.ENQUEUE … TTL: a message that was not handed over in time is not handed over.

mod common;

use common::{contract, contract_on, Client, HOUR};
use redis_mq_testkit::{wait_until, Persistence, ReplyExt, Server, PATIENCE};

/// Lets a message with a TTL of a moment pass away and says what is left under its id.
fn status_after_ttl(client: &mut Client, queue: &str, options: &str) -> Option<String> {
    client.enqueue(queue, "p", &format!("ID a TTL 20 {options}"));
    let accepted = client.message(queue, "a").int("enqueued-at");
    client.wait_for_time(accepted + 20);
    client.status(queue, "a")
}

#[test]
fn past_its_ttl_a_message_is_gone_counted_and_its_id_free() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert_eq!(status_after_ttl(&mut client, &queue, ""), None);
        assert_eq!(client.dequeue(&queue, ""), None);
        let info = client.info(&queue);
        assert_eq!((info.int("messages"), info.int("total-expired")), (0, 1));
        assert_eq!(client.enqueue(&queue, "p", "ID a"), "added");
    });
}

#[test]
fn with_bury_it_is_a_dead_letter_that_says_so() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let status = status_after_ttl(&mut client, &queue, "BURY");
        assert_eq!(status.as_deref(), Some("dead"));
        let letter = client.message(&queue, "a");
        assert_eq!(letter.text("reason").as_deref(), Some("expired"));
        let info = client.info(&queue);
        assert_eq!((info.int("dead"), info.int("total-expired")), (1, 1));
    });
}

#[test]
fn ttl_ends_waiting_not_work() {
    contract(|lab| {
        for (verdict, became) in [("", "done"), ("BACKOFF 3600000", "done-with-backoff")] {
            let (mut client, queue) = (lab.client(), lab.queue());
            client.enqueue(&queue, "p", "ID a TTL 30");
            let delivery = client.take(&queue);
            client.wait_for_time(delivery.enqueued_at + 30);
            assert_eq!(client.status(&queue, "a").as_deref(), Some("locked"));
            assert_eq!(client.done(&queue, &delivery, verdict), became);
            assert_eq!(client.info(&queue).int("total-expired"), 0);
        }
    });
}

#[test]
fn a_retry_or_a_release_past_the_ttl_is_the_end() {
    contract(|lab| {
        for verdict in ["RETRY", "RETRY BACKOFF 1000", "RELEASE"] {
            let (mut client, queue) = (lab.client(), lab.queue());
            client.enqueue(&queue, "p", "ID a TTL 30");
            let delivery = client.take(&queue);
            client.wait_for_time(delivery.enqueued_at + 30);
            client.done(&queue, &delivery, verdict);
            assert_eq!(client.status(&queue, "a"), None, "{verdict}");
            assert_eq!(client.info(&queue).int("total-expired"), 1, "{verdict}");
        }
    });
}

#[test]
fn a_retry_before_the_ttl_counts_on() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a TTL 400");
        let delivery = client.take(&queue);
        let became = client.done(&queue, &delivery, "RETRY");
        if client.now() < delivery.enqueued_at + 400 {
            assert_eq!(became, "queued");
        }
        client.wait_for_time(delivery.enqueued_at + 400);
        assert_eq!(client.status(&queue, "a"), None);
    });
}

#[test]
fn a_lock_that_ends_past_the_ttl_is_the_end() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a TTL 20");
        let delivery = client.dequeue(&queue, "LOCK 40").unwrap();
        client.wait_for_time(delivery.enqueued_at + 200);
        assert_eq!(client.status(&queue, "a"), None);
        assert_eq!(client.dequeue(&queue, ""), None);
        let info = client.info(&queue);
        assert_eq!(info.int("total-expired-locks"), 1);
        assert_eq!(info.int("total-expired"), 1);
    });
}

#[test]
fn a_delay_as_long_as_the_ttl_is_refused() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for options in ["DELAY 50 TTL 50", "TTL 50 DELAY 51", "DELAY 3600000 TTL 1"] {
            let error = client
                .line(&format!("MQ.ENQUEUE {queue} p {options}"))
                .unwrap_err();
            assert!(
                error.starts_with("ERR ") && error.contains("TTL"),
                "{error}"
            );
        }
        assert_eq!(client.enqueue(&queue, "p", "DELAY 50 TTL 51"), "added");
        for options in ["TTL 0", "TTL -1", "TTL x", "TTL 315360000001"] {
            let error = client
                .line(&format!("MQ.ENQUEUE {queue} p {options}"))
                .unwrap_err();
            assert_eq!(error, "ERR TTL must be an integer from 1 to 315360000000");
        }
        for options in ["TTL", "BURY", "TTL 5 TTL 5", "TTL 5 BURY BURY"] {
            let error = client
                .line(&format!("MQ.ENQUEUE {queue} p {options}"))
                .unwrap_err();
            assert!(error.starts_with("ERR syntax error"), "{options}: {error}");
        }
        assert_eq!(client.info(&queue).int("messages"), 1);
    });
}

#[test]
fn an_update_sets_the_ttl_anew_or_takes_it_away() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a TTL 30");
        client.enqueue(&queue, "p", "ID b TTL 30");
        if client.enqueue(&queue, "p", "ID a UPDATE") == "updated"
            && client.enqueue(&queue, "p", &format!("ID b TTL {HOUR} UPDATE")) == "updated"
        {
            let accepted = client.message(&queue, "b").int("enqueued-at");
            client.wait_for_time(accepted + 100);
            assert_eq!(client.status(&queue, "a").as_deref(), Some("queued"));
            assert_eq!(client.status(&queue, "b").as_deref(), Some("queued"));
        }
    });
}

#[test]
fn messages_go_exactly_where_they_are_in_the_middle_of_others() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..200 {
            let ttl = if n % 10 == 5 { "TTL 50" } else { "" };
            client.enqueue(&queue, "p", &format!("ID {n} {ttl}"));
        }
        let last = client.now();
        client.wait_for_time(last + 50);
        assert_eq!(client.info(&queue).int("queued"), 180);
        let got = client.dequeue_many(&queue, 1000, "");
        let ids: Vec<i64> = got.iter().map(|one| one.id().parse().unwrap()).collect();
        let expected: Vec<i64> = (0..200).filter(|n| n % 10 != 5).collect();
        assert_eq!(ids, expected);
        assert_eq!(client.info(&queue).int("total-expired"), 20);
    });
}

#[test]
fn what_has_expired_goes_by_itself() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..1000 {
            client.enqueue(&queue, "payload of some length", &format!("ID {n} TTL 20"));
        }
        let before = client.ok(&format!("MEMORY USAGE {queue}")).int();
        wait_until(PATIENCE, || {
            client.ok(&format!("MEMORY USAGE {queue}")).int() < before
        });
        wait_until(PATIENCE, || {
            client.info(&queue).int("total-expired") == 1000
        });
    });
}

#[test]
fn a_ttl_holds_over_a_restart() {
    for persistence in [Persistence::AofCommands, Persistence::Rdb] {
        contract_on(Server::builder().persistence(persistence), |lab| {
            let mut client = lab.client();
            client.enqueue("q", "p", &format!("ID long TTL {HOUR}"));
            client.enqueue("q", "p", "ID short TTL 40 BURY");
            let digest = client.digest("q");
            client.ok("DEBUG RELOAD");
            assert_eq!(client.digest("q"), digest);
            let accepted = client.message("q", "long").int("enqueued-at");
            client.wait_for_time(accepted + 200);
            assert_eq!(client.status("q", "short").as_deref(), Some("dead"));
            assert_eq!(client.status("q", "long").as_deref(), Some("queued"));
        });
    }
}
