//! Messages that gave up: how they die, what is kept of them, and what becomes of their id.

mod common;

use common::{args, ask, contract, contract_on, Client, Protocol, HOUR};
use redis_mq_testkit::{wait_until, ReplyExt, Server, PATIENCE};

#[test]
fn retry_of_the_last_attempt_is_dead_and_says_why() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for verdict in ["RETRY", "RETRY BACKOFF 5000", "RETRY BACKOFF EXP"] {
            client.enqueue(&queue, "p", "ID a ATTEMPTS 2");
            let delivery = client.take(&queue);
            assert_eq!(client.done(&queue, &delivery, "RETRY"), "queued");
            let delivery = client.take(&queue);
            assert_eq!(client.done(&queue, &delivery, verdict), "dead", "{verdict}");
            let letter = client.message(&queue, "a");
            assert_eq!(letter.text("status").as_deref(), Some("dead"));
            assert_eq!((letter.int("attempts"), letter.int("max-attempts")), (2, 2));
            assert!(letter.text("reason").is_some());
            assert_eq!(client.dequeue(&queue, ""), None);
        }
    });
}

#[test]
fn error_keeps_the_message_with_its_reason() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let reasons: [&[u8]; 4] = [b"bad input", b"", b"\0\r\n\xff", &[b'r'; 1024]];
        for reason in reasons {
            client.enqueue(&queue, "p", "ID a ATTEMPTS 5");
            let delivery = client.take(&queue);
            let token = delivery.token;
            let reply = ask!(client, "MQ.DONE", queue, "a", token, "ERROR", "REASON", reason);
            assert_eq!(reply.unwrap().text(), "dead");
            let letter = client.message(&queue, "a");
            assert_eq!(letter.text("status").as_deref(), Some("dead"));
            assert_eq!(letter.text("payload").as_deref(), Some("p"));
            assert_eq!(letter.int("due-at"), 0);
            assert_eq!(letter.field("reason").bytes(), reason);
        }
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, "ERROR"), "dead");
        assert_eq!(client.message(&queue, "a").text("reason"), None);
        assert_eq!(client.dequeue(&queue, ""), None);
    });
}

#[test]
fn a_waiting_copy_becomes_a_new_message_when_its_message_dies() {
    contract(|lab| {
        let mut client = lab.client();
        for death in ["ERROR REASON broken", "RETRY", "expired lock"] {
            let queue = lab.queue();
            client.enqueue(&queue, "old", "ID a ATTEMPTS 1");
            let delivery = client.take(&queue);
            client.enqueue(&queue, "new", "ID a REQUEUE ATTEMPTS 3");
            if death == "expired lock" {
                client.extend(&queue, &delivery, 1).unwrap();
                client.wait_until_due(&queue, "a");
            } else {
                assert_eq!(client.done(&queue, &delivery, death), "dead", "{death}");
            }
            assert_eq!(
                client.status(&queue, "a").as_deref(),
                Some("queued"),
                "{death}"
            );
            let info = client.info(&queue);
            assert_eq!((info.int("dead"), info.int("queued")), (1, 1), "{death}");
            let copy = client.take(&queue);
            assert_eq!(
                (copy.payload().as_str(), copy.attempt),
                ("new", 1),
                "{death}"
            );
            client.done(&queue, &copy, "");
            let letter = client.message(&queue, "a");
            assert_eq!(letter.text("payload").as_deref(), Some("old"), "{death}");
        }
    });
}

#[test]
fn the_delay_of_a_copy_counts_from_the_death_of_its_message() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "old", "ID a");
        let delivery = client.take(&queue);
        client.enqueue(&queue, "new", &format!("ID a REQUEUE DELAY {HOUR}"));
        let before = client.now();
        assert_eq!(client.done(&queue, &delivery, "ERROR"), "dead");
        let after = client.now();
        let message = client.message(&queue, "a");
        assert_eq!(
            message.text("status").as_deref(),
            Some("queued-with-backoff")
        );
        let due = message.int("due-at");
        assert!((before + HOUR..=after + HOUR).contains(&due));
    });
}

#[test]
fn the_late_success_of_the_last_attempt_counts_too() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 1");
        let delivery = client.dequeue(&queue, "LOCK 1").unwrap();
        client.wait_until_due(&queue, "a");
        assert_eq!(client.status(&queue, "a").as_deref(), Some("dead"));
        assert_eq!(client.done(&queue, &delivery, ""), "done");
        assert_eq!(client.status(&queue, "a"), None);
        assert_eq!(client.info(&queue).int("dead"), 0);
    });
}

#[test]
fn a_death_that_a_late_verdict_takes_back_is_counted_no_more() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        // The verdict, and what it adds to the totals of done, retried and dead.
        let verdicts = [
            ("", 1, 0, 0),
            ("RELEASE", 0, 0, 0),
            ("RETRY", 0, 0, 1),
            ("ERROR", 0, 0, 1),
        ];
        let (mut done, mut retried, mut dead) = (0, 0, 0);
        for (id, (verdict, is_done, is_retried, is_dead)) in verdicts.into_iter().enumerate() {
            client.enqueue(&queue, "p", &format!("ID {id} ATTEMPTS 1"));
            let delivery = client.dequeue(&queue, "LOCK 1").unwrap();
            client.wait_until_due(&queue, &id.to_string());
            assert_eq!(client.info(&queue).int("total-dead"), dead + 1);
            client.done(&queue, &delivery, verdict);
            (done, retried, dead) = (done + is_done, retried + is_retried, dead + is_dead);
            let info = client.info(&queue);
            let totals = ["total-done", "total-retried", "total-dead"].map(|name| info.int(name));
            assert_eq!(totals, [done, retried, dead], "{verdict}");
            if verdict == "RELEASE" {
                let again = client.take(&queue);
                client.done(&queue, &again, "");
                done += 1;
            }
        }
        assert_eq!(client.info(&queue).int("dead"), dead);
    });
}

#[test]
fn the_oldest_dead_letters_go_beyond_the_cap() {
    let server = Server::builder().module_args(["max-dead", "3"]);
    contract_on(server, |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for id in ["a", "b", "c"] {
            client.put(&queue, id, "dead");
        }
        client.enqueue(&queue, "alive", "ID a");
        client.enqueue(&queue, "p", "ID d PRIORITY 0");
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, "ERROR"), "dead");
        let info = client.info(&queue);
        assert_eq!((info.int("dead"), info.int("total-dead-dropped")), (3, 1));
        assert_eq!(client.status(&queue, "b").as_deref(), Some("dead"));
        // The letter of `a` went; what lives under its id keeps its place and its dedupe.
        assert_eq!(client.enqueue(&queue, "again", "ID a"), "queued");
        assert_eq!(client.take(&queue).payload(), "alive");
        assert_eq!(client.enqueue(&queue, "again", "ID a"), "locked");
    });
}

/// Waits until so many dead letters are left in all queues; no command touches one.
#[track_caller]
fn wait_for_letters(server: &Server, count: &str) {
    wait_until(PATIENCE, || {
        server.info("mq", "mq_messages_dead").as_deref() == Some(count)
    });
}

#[test]
fn where_fewer_letters_are_kept_than_before_queues_at_rest_let_go_of_the_oldest() {
    let server = Server::builder().start();
    if !server.version().offers_redis(7, 0) {
        return; // there is no CONFIG SET for modules before 7.0
    }
    let mut client = Client::connect(&server, Protocol::Resp2);
    for queue in ["a", "b"] {
        for number in 0..1_500 {
            client.enqueue(queue, "p", &format!("ID {number}"));
        }
        for delivery in client.dequeue_many(queue, 1_500, "") {
            client.done(queue, &delivery, "ERROR");
        }
    }
    client.ok("CONFIG SET mq.max-dead 1400");
    wait_for_letters(&server, "2800");
    client.ok("CONFIG SET mq.max-dead 2000");
    client.ok("CONFIG SET mq.max-dead 10");
    wait_for_letters(&server, "20");
    assert_eq!(client.status("a", "1489"), None);
    assert_eq!(client.status("a", "1490").as_deref(), Some("dead"));
    assert_eq!(client.info("a").int("total-dead-dropped"), 1_490);
    let all = server.info("mq", "mq_total_dead_dropped");
    assert_eq!(all.as_deref(), Some("2980"));
    // The same for a limit of the queue's own.
    client.ok("MQ.LIMIT b DEAD 3");
    wait_for_letters(&server, "13");
}

fn die(client: &mut Client, queue: &str, id: &str) {
    client.enqueue(queue, "p", &format!("ID {id}"));
    let delivery = client.take(queue);
    assert_eq!(client.done(queue, &delivery, "ERROR"), "dead");
}

#[test]
fn old_letters_go_by_themselves_at_their_instant() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let age = 400;
        for id in ["a", "b"] {
            client.put(&queue, id, "dead");
        }
        client.ok(&format!("MQ.LIMIT {queue} DEAD-AGE {HOUR}"));
        let shown = client.ok(&format!("MQ.LIMIT {queue}")).fields();
        assert_eq!(shown["dead-age"].int(), HOUR);
        // The letters go within the hour.
        let left = client.info(&queue).int("next-due-ms");
        assert!((1..=HOUR).contains(&left), "{left}");
        client.ok(&format!("MQ.LIMIT {queue} DEAD-AGE OFF"));
        assert_eq!(client.info(&queue).int("next-due-ms"), -1);
        client.ok(&format!("MQ.LIMIT {queue} DEAD-AGE {age}"));
        // What is older already goes at once.
        wait_until(PATIENCE, || client.status(&queue, "b").is_none());
        let before = client.now();
        die(&mut client, &queue, "c");
        let died_by = client.now();
        wait_until(PATIENCE, || {
            let info = client.info(&queue);
            let after = client.now();
            let is_there = info.int("dead") == 1;
            assert!(is_there || after >= before + age, "too early");
            !is_there
        });
        // Whoever asks behind that instant is told so.
        wait_until(PATIENCE, || client.now() > died_by + age);
        assert_eq!(client.status(&queue, "c"), None);
        assert!(client.ok(&format!("MQ.GET {queue} c")).is_nil());
        let peeked = client.ok(&format!("MQ.PEEK {queue} STATUS dead"));
        assert!(peeked.items().is_empty(), "{peeked:?}");
        let info = client.info(&queue);
        let numbers = ["total-dead", "total-dead-dropped", "messages"].map(|name| info.int(name));
        assert_eq!(numbers, [3, 3, 0]);
    });
}

#[test]
fn the_module_comes_for_old_letters_and_tells_of_it() {
    let server = Server::builder()
        .config("notify-keyspace-events", "KEA")
        .start();
    let mut client = Client::connect(&server, Protocol::Resp2);
    client.ok("MQ.LIMIT q DEAD-AGE 50");
    let mut events = Client::connect(&server, Protocol::Resp2);
    events.ok("SUBSCRIBE __keyevent@0__:mq.dead-dropped");
    die(&mut client, "q", "a");
    // No command touches the queue meanwhile.
    let event = events.reply().unwrap();
    assert_eq!(event.items()[2].text(), "q");
    wait_for_letters(&server, "0");
}

#[test]
fn old_letters_go_on_replicas_and_after_a_reload() {
    let (primary, replica) = (Server::builder().start(), Server::builder().start());
    replica.replica_of(&primary);
    replica.wait_for_sync(&primary);
    let mut client = Client::connect(&primary, Protocol::Resp2);
    let mut there = Client::connect(&replica, Protocol::Resp2);
    client.put("kept", "a", "dead");
    client.ok(&format!("MQ.LIMIT kept DEAD-AGE {HOUR}"));
    let left = client.info("kept").int("next-due-ms");
    client.ok("DEBUG RELOAD");
    let reloaded = client.info("kept").int("next-due-ms");
    assert!((1..=left).contains(&reloaded), "{reloaded} of {left}");
    client.put("q", "a", "dead");
    client.ok("MQ.LIMIT q DEAD-AGE 100");
    wait_for_letters(&primary, "1");
    replica.wait_for_sync(&primary);
    wait_until(PATIENCE, || there.info("q").int("total-dead-dropped") == 1);
    let digest = |client: &mut Client| client.ok("DEBUG DIGEST").text();
    wait_until(PATIENCE, || digest(&mut client) == digest(&mut there));
    assert_eq!(there.status("kept", "a").as_deref(), Some("dead"));
}

#[test]
fn a_replica_whose_primary_is_gone_shows_old_letters_as_gone() {
    let (primary, replica) = (Server::builder().start(), Server::builder().start());
    replica.replica_of(&primary);
    replica.wait_for_sync(&primary);
    let mut client = Client::connect(&primary, Protocol::Resp2);
    let mut there = Client::connect(&replica, Protocol::Resp2);
    client.put("q", "a", "dead");
    client.put("q", "b", "dead");
    // While the primary takes no writes its letters stay, whatever their age.
    client.ok("MQ.LIMIT q DEAD-AGE 3000");
    replica.wait_for_sync(&primary);
    client.ok("CLIENT PAUSE 600000 WRITE");
    assert_eq!(there.info("q").int("dead"), 2);
    wait_until(PATIENCE, || there.status("q", "b").is_none());
    let info = there.info("q");
    assert_eq!((info.int("dead"), info.int("total-dead-dropped")), (0, 2));
    let letters = |replica| Server::info(replica, "mq", "mq_messages_dead");
    assert_eq!(letters(&replica).as_deref(), Some("2"), "nothing has acted");
    drop(primary);
    there.ok("REPLICAOF NO ONE");
    wait_for_letters(&replica, "0");
    assert_eq!(there.info("q").int("total-dead-dropped"), 2);
}

#[test]
fn a_new_message_stands_beside_the_dead_letter_of_its_id() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "dead");
        assert_eq!(client.enqueue(&queue, "alive", "ID a"), "added");
        assert_eq!(client.status(&queue, "a").as_deref(), Some("queued"));
        assert_eq!(
            client.message(&queue, "a").text("payload").as_deref(),
            Some("alive")
        );
        let info = client.info(&queue);
        assert_eq!(
            (info.int("dead"), info.int("queued"), info.int("messages")),
            (1, 1, 2)
        );

        let delivery = client.take(&queue);
        assert_eq!(delivery.attempt, 1);
        client.done(&queue, &delivery, "");
        let letter = client.message(&queue, "a");
        assert_eq!(letter.text("status").as_deref(), Some("dead"));
        assert_eq!(letter.text("payload").as_deref(), Some("old"));

        // Per id the newest letter is kept.
        client.enqueue(&queue, "failed too", "ID a");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "ERROR REASON again");
        let letter = client.message(&queue, "a");
        assert_eq!(letter.text("payload").as_deref(), Some("failed too"));
        assert_eq!(letter.text("reason").as_deref(), Some("again"));
        assert_eq!(client.info(&queue).int("dead"), 1);
    });
}

#[test]
fn a_message_beside_a_dead_letter_is_deduplicated_like_any_other() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "dead");
        client.enqueue(&queue, "alive", "ID a");
        assert_eq!(client.enqueue(&queue, "again", "ID a"), "queued");
        let delivery = client.take(&queue);
        assert_eq!(client.enqueue(&queue, "again", "ID a"), "locked");
        client.done(&queue, &delivery, &format!("BACKOFF {HOUR}"));
        assert_eq!(client.enqueue(&queue, "again", "ID a"), "done-with-backoff");
    });
}

#[test]
fn a_retry_keeps_its_reason_until_the_message_is_dead() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 2");
        let first = client.take(&queue);
        assert_eq!(client.done(&queue, &first, "RETRY REASON first"), "queued");
        let reason = client.message(&queue, "a").text("reason");
        assert_eq!(reason.as_deref(), Some("first"));
        let second = client.take(&queue);
        assert_eq!(client.done(&queue, &second, "RETRY REASON second"), "dead");
        let reason = client.message(&queue, "a").text("reason");
        assert_eq!(reason.as_deref(), Some("no attempts left: second"));
        assert_eq!(client.dequeue(&queue, ""), None);
    });
}
