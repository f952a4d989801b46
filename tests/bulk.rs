//! MQ.MENQUEUE and MQ.MDONE: many messages in one step.

mod common;

use common::{contract, contract_on, ids, Client, Delivery};
use redis_mq_testkit::{Persistence, ReplyExt, Server, Value};

/// MQ.MDONE of these deliveries; what each became, `null` for null.
#[track_caller]
fn done_many(client: &mut Client, queue: &str, of: &[Delivery], verdict: &str) -> Vec<String> {
    words_of(&client.ok(&mdone(queue, of, verdict)))
}

fn mdone(queue: &str, of: &[Delivery], verdict: &str) -> String {
    let pairs = of.iter().map(|one| format!("{} {}", one.id(), one.token));
    let pairs: Vec<_> = pairs.collect();
    let (count, pairs) = (of.len(), pairs.join(" "));
    format!("MQ.MDONE {queue} {count} {pairs} {verdict}")
}

fn words_of(reply: &Value) -> Vec<String> {
    let words = reply.items().iter().map(|word| match word {
        Value::Nil => "null".to_string(),
        word => word.text(),
    });
    words.collect()
}

/// The next event that a subscriber to patterns hears of.
#[track_caller]
fn event(listener: &mut Client) -> String {
    match listener.reply().unwrap() {
        Value::Push { data, .. } => data[1].text(),
        told => told.items()[2].text(),
    }
}

/// Adds messages with these ids and takes them all.
#[track_caller]
fn take_all(client: &mut Client, queue: &str, names: &[&str], options: &str) -> Vec<Delivery> {
    for name in names {
        client.enqueue(queue, "p", &format!("ID {name} {options}"));
    }
    let taken = client.dequeue_many(queue, names.len() as u32, "LOCK 3600000");
    assert_eq!(ids(&taken), names);
    taken
}

#[test]
fn each_verdict_ends_all_deliveries() {
    contract(|lab| {
        let mut client = lab.client();
        for (verdict, became, status) in [
            ("", "done", None),
            (
                "SUCCESS BACKOFF 60000",
                "done-with-backoff",
                Some("done-with-backoff"),
            ),
            ("RETRY", "queued", Some("queued")),
            (
                "RETRY BACKOFF EXP",
                "queued-with-backoff",
                Some("queued-with-backoff"),
            ),
            ("ERROR REASON why", "dead", Some("dead")),
            ("RELEASE", "queued", Some("queued")),
        ] {
            let queue = lab.queue();
            let taken = take_all(&mut client, &queue, &["a", "b", "c"], "");
            let reply = done_many(&mut client, &queue, &taken, verdict);
            assert_eq!(reply, [became; 3], "{verdict}");
            for id in ["a", "b", "c"] {
                assert_eq!(client.status(&queue, id).as_deref(), status, "{verdict}");
            }
        }
    });
}

#[test]
fn what_cannot_be_ended_is_told_in_its_place_and_the_rest_is_ended() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut taken = take_all(&mut client, &queue, &["a", "b", "c", "d"], "ATTEMPTS 1");
        client.cancel(&queue, "a");
        taken[1].token += 1;
        client.enqueue(&queue, "copy", "ID c REQUEUE");
        let twice = taken[3].clone();
        taken.push(twice);
        let reply = done_many(&mut client, &queue, &taken, "");
        assert_eq!(reply, ["null", "stale", "queued", "done", "null"]);
        assert_eq!(client.status(&queue, "b").as_deref(), Some("locked"));
        // A verdict that has been given is over, and the next message dies of its own.
        taken[1].token -= 1;
        let reply = done_many(&mut client, &queue, &taken[..3], "RETRY");
        assert_eq!(reply, ["null", "dead", "stale"]);
        let nobody = lab.queue();
        let reply = done_many(&mut client, &nobody, &taken[..2], "");
        assert_eq!(reply, ["null", "null"]);
        assert_eq!(client.ok(&format!("EXISTS {nobody}")), Value::Int(0));
    });
}

#[test]
fn each_message_draws_its_own_exponential_backoff() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let names: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let taken = take_all(&mut client, &queue, &names, "");
        done_many(&mut client, &queue, &taken, "RETRY BACKOFF EXP");
        let due = names
            .iter()
            .map(|id| client.message(&queue, id).int("due-at"));
        let mut due: Vec<i64> = due.collect();
        due.sort_unstable();
        // From 1.1 to 2.2 seconds, evenly.
        assert!(
            due.windows(2).all(|pair| pair[1] - pair[0] < 100),
            "{due:?}"
        );
        let spread = due[49] - due[0];
        assert!((900..=1100).contains(&spread), "{spread}");
    });
}

#[test]
fn a_step_of_many_is_the_same_on_a_replica_and_after_a_reload() {
    contract_on(
        Server::builder().persistence(Persistence::AofCommands),
        |lab| {
            let replica = Server::start();
            replica.replica_of(lab.server);
            let mut client = lab.client();
            client.ok("CONFIG SET notify-keyspace-events Ed");
            let taken = take_all(&mut client, "q", &["a", "b", "c", "d", "e", "f"], "");
            let mut listener = lab.client();
            listener.ok("PSUBSCRIBE __keyevent@0__:mq.*");
            done_many(&mut client, "q", &taken[..2], "");
            assert_eq!(event(&mut listener), "__keyevent@0__:mq.done");
            // In a transaction and from a script, too.
            client.ok("MULTI");
            client.ok(&mdone("q", &taken[2..4], "RETRY BACKOFF EXP"));
            let reply = client.ok("EXEC");
            assert_eq!(words_of(&reply.items()[0]), ["queued-with-backoff"; 2]);
            assert_eq!(event(&mut listener), "__keyevent@0__:mq.retry");
            let script =
                "return redis.call('MQ.MDONE', KEYS[1], 2, ARGV[1], ARGV[2], ARGV[3], ARGV[4])";
            let tokens = [taken[4].token.to_string(), taken[5].token.to_string()];
            let reply = client.call(&["EVAL", script, "1", "q", "e", &tokens[0], "f", &tokens[1]]);
            assert_eq!(words_of(&reply.unwrap()), ["done"; 2]);
            replica.wait_for_sync(lab.server);
            let mut there = Client::connect(&replica, lab.protocol);
            assert_eq!(there.digest("q"), client.digest("q"));
            let line = mdone("q", &taken[..1], "");
            assert!(there.line(&line).unwrap_err().starts_with("READONLY"));
            let digest = client.digest("q");
            client.ok("DEBUG LOADAOF");
            assert_eq!(client.digest("q"), digest);
            client.ok("DEBUG RELOAD");
            assert_eq!(client.digest("q"), digest);
        },
    );
}

#[test]
fn ending_many_lets_groups_go_on_and_serves_who_waits() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for group in ["g", "h"] {
            for n in 0..2 {
                client.enqueue(&queue, "p", &format!("ID {group}{n} GROUP {group}"));
            }
        }
        let taken = client.dequeue_many(&queue, 10, "LOCK 3600000");
        assert_eq!(ids(&taken), ["g0", "h0"], "one message of each");
        let mut waiters = [(); 2].map(|()| lab.waiter(&queue, "BLOCK 0"));
        let reply = done_many(&mut client, &queue, &taken, "");
        assert_eq!(reply, ["done", "done"]);
        let served = waiters.each_mut().map(|waiter| waiter.delivery());
        assert_eq!(ids(&served), ["g1", "h1"]);
    });
}

/// MQ.MENQUEUE; outcome and id of each message.
#[track_caller]
fn enqueue_many(client: &mut Client, queue: &str, rest: &str) -> Vec<(String, String)> {
    let reply = client.ok(&format!("MQ.MENQUEUE {queue} {rest}"));
    let pairs = reply.items().iter().map(|pair| {
        assert_eq!(pair.items().len(), 2);
        (pair.items()[0].text(), pair.items()[1].text())
    });
    pairs.collect()
}

#[track_caller]
fn assert_outcomes(reply: &[(String, String)], expected: &[(&str, &str)]) {
    let reply: Vec<_> = reply.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    assert_eq!(reply, expected);
}

#[test]
fn a_batch_is_added_in_its_order_with_its_options() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let options = "LOCK 7777 ATTEMPTS 3 HEADERS h";
        let made = enqueue_many(&mut client, &queue, &format!("3 x y z {options}"));
        assert!(made.iter().all(|(outcome, _)| outcome == "added"));
        let named = enqueue_many(&mut client, &queue, "2 v w IDS b a PRIORITY 0");
        assert_outcomes(&named, &[("added", "b"), ("added", "a")]);
        let taken = client.dequeue_many(&queue, 10, "");
        let payloads: Vec<_> = taken.iter().map(Delivery::payload).collect();
        assert_eq!(payloads, ["v", "w", "x", "y", "z"]);
        for (delivery, (_, id)) in taken[2..].iter().zip(&made) {
            assert_eq!((&delivery.id(), delivery.lock_ms), (id, 7777));
            assert_eq!(delivery.more["headers"], b"h");
        }
    });
}

#[test]
fn each_message_of_a_batch_has_its_own_outcome() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        client.enqueue(&queue, "old", "ID waits");
        let rest = "4 p q r s IDS held waits new new";
        let plain = enqueue_many(&mut client, &queue, rest);
        let expected = [
            ("locked", "held"),
            ("queued", "waits"),
            ("added", "new"),
            ("queued", "new"),
        ];
        assert_outcomes(&plain, &expected);
        let both = enqueue_many(&mut client, &queue, &format!("{rest} UPDATE REQUEUE"));
        let expected = [
            ("requeued", "held"),
            ("updated", "waits"),
            ("updated", "new"),
            ("updated", "new"),
        ];
        assert_outcomes(&both, &expected);
        let taken = client.dequeue_many(&queue, 9, "");
        let payloads: Vec<_> = taken.iter().map(Delivery::payload).collect();
        assert_eq!(payloads, ["q", "s"]);
    });
}

#[test]
fn a_batch_that_passes_a_limit_is_refused_as_a_whole() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let full = |client: &mut Client, rest: &str| {
            let before = client.digest(&queue);
            let error = client
                .line(&format!("MQ.MENQUEUE {queue} {rest}"))
                .unwrap_err();
            assert!(error.starts_with("FULL "), "{error}");
            assert_eq!(client.digest(&queue), before, "{rest}");
        };
        client.enqueue(&queue, "p", "ID a");
        client.ok(&format!("MQ.LIMIT {queue} LENGTH 3"));
        full(&mut client, "3 p p p");
        assert_eq!(client.info(&queue).int("total-full"), 3);
        full(&mut client, "4 p p p p IDS a b c d");
        // What is taken, or comes twice, needs no room.
        let reply = enqueue_many(&mut client, &queue, "4 p p p p IDS a b c c");
        assert_outcomes(
            &reply,
            &[
                ("queued", "a"),
                ("added", "b"),
                ("added", "c"),
                ("queued", "c"),
            ],
        );
        let reply = enqueue_many(&mut client, &queue, "2 p p IDS a b");
        assert_outcomes(&reply, &[("queued", "a"), ("queued", "b")]);
        client.ok(&format!("MQ.LIMIT {queue} LENGTH OFF"));
        client.ok(&format!("MQ.LIMIT {queue} GROUP g LENGTH 2"));
        full(&mut client, "3 p p p GROUP g");
        full(&mut client, "3 p p p IDS a b c GROUP g UPDATE");
        let reply = enqueue_many(&mut client, &queue, "2 p p IDS a b GROUP g UPDATE");
        assert_outcomes(&reply, &[("updated", "a"), ("updated", "b")]);
        full(&mut client, "1 p GROUP g");
        client.ok(&format!("MQ.LIMIT {queue} BYTES 100000"));
        let large = "x".repeat(30_000);
        full(
            &mut client,
            &format!("5 {large} {large} {large} {large} {large}"),
        );
        let reply = enqueue_many(&mut client, &queue, &format!("3 {large} {large} {large}"));
        assert_eq!(reply.len(), 3);
    });
}

#[test]
fn a_batch_is_the_same_on_a_replica_and_serves_who_waits() {
    contract_on(Server::builder(), |lab| {
        let replica = Server::start();
        replica.replica_of(lab.server);
        let mut client = lab.client();
        let mut waiters = [(); 3].map(|()| lab.waiter("q", "BLOCK 0 LOCK 3600000"));
        let added = enqueue_many(&mut client, "q", "5 a b c d e");
        let served = waiters.each_mut().map(|waiter| waiter.delivery());
        let served: Vec<_> = served.iter().map(Delivery::payload).collect();
        assert_eq!(served, ["a", "b", "c"], "first come, first served");
        assert_eq!(added.len(), 5);
        client.ok("MULTI");
        client.ok("MQ.MENQUEUE q 2 f g IDS f g GROUP h TTL 3600000");
        assert_eq!(client.ok("EXEC").items()[0].items().len(), 2);
        replica.wait_for_sync(lab.server);
        let mut there = Client::connect(&replica, lab.protocol);
        assert_eq!(there.digest("q"), client.digest("q"));
        let digest = client.digest("q");
        client.ok("DEBUG RELOAD");
        assert_eq!(client.digest("q"), digest);
        client.ok("CONFIG SET maxmemory 1");
        let error = client.line("MQ.MENQUEUE q 1 p").unwrap_err();
        assert!(error.starts_with("OOM "), "{error}");
        client.ok("CONFIG SET maxmemory 0");
    });
}
