//! Batches: a follow-up that is delivered once all messages of its batch have ended, never before and
//! never not.

mod common;

use common::{contract, contract_on, Client, Delivery, HOUR};
use redis_mq_testkit::{Persistence, ReplyExt, Server, Value};

/// MQ.MENQUEUE; outcome and id of each message, and of the follow-up.
#[track_caller]
fn enqueue_many(client: &mut Client, queue: &str, rest: &str) -> Vec<(String, String)> {
    let reply = client.ok(&format!("MQ.MENQUEUE {queue} {rest}"));
    let pairs = reply.items().iter();
    pairs
        .map(|pair| (pair.items()[0].text(), pair.items()[1].text()))
        .collect()
}

/// How many have ended and how many are dead, as the delivery of a follow-up tells.
#[track_caller]
fn batch(reply: &Value) -> (i64, i64) {
    let more = reply.items()[6].fields();
    let batch = more["batch"].items();
    assert_eq!(batch.len(), 2);
    (batch[0].int(), batch[1].int())
}

/// The follow-up is ready: takes it, and gives its id and how the batch has ended.
#[track_caller]
fn follow_up(client: &mut Client, queue: &str) -> (String, (i64, i64)) {
    let reply = client.ok(&format!("MQ.DEQUEUE {queue} LOCK {HOUR}"));
    let delivery = Delivery::plain(&reply);
    (delivery.id(), batch(&reply))
}

#[test]
fn the_follow_up_is_ready_when_all_have_ended_however_they_did() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let rest = "6 p p p p p p IDS done window dead cancelled purged expired \
                    THEN next THENID f THENHEADERS h";
        let replies = enqueue_many(&mut client, &queue, rest);
        assert!(replies.iter().all(|(outcome, _)| outcome == "added"));
        assert_eq!(replies[6].1, "f");
        // One of the batch has a time to live.
        client.enqueue(&queue, "p", "ID expired UPDATE PRIORITY 9 TTL 400");
        let expires = client.message(&queue, "expired").int("expires-at");
        assert_eq!(client.status(&queue, "f").as_deref(), Some("waiting"));
        assert_eq!(client.info(&queue).int("waiting"), 1);
        let taken = client.dequeue_many(&queue, 4, &format!("LOCK {HOUR}"));
        assert_eq!(client.done(&queue, &taken[0], ""), "done");
        let window = client.done(&queue, &taken[1], "BACKOFF 3600000");
        assert_eq!(window, "done-with-backoff");
        assert_eq!(client.done(&queue, &taken[2], "ERROR"), "dead");
        assert_eq!(client.done(&queue, &taken[3], "RETRY"), "queued");
        assert_eq!(client.cancel(&queue, "cancelled"), 1);
        assert_eq!(client.status(&queue, "f").as_deref(), Some("waiting"));
        let purged = client.ok(&format!("MQ.PURGE {queue} queued COUNT 1"));
        assert_eq!(purged.int(), 1, "the one of that name");
        client.wait_for_time(expires);
        let reply = client.ok(&format!("MQ.DEQUEUE {queue} BLOCK 0 LOCK {HOUR}"));
        assert_eq!(batch(&reply), (6, 1));
        let delivery = Delivery::plain(&reply);
        assert_eq!((&*delivery.id(), &*delivery.payload()), ("f", "next"));
        // It is told so at each attempt, and shown.
        assert_eq!(client.done(&queue, &delivery, "RETRY"), "queued");
        let shown = client.message(&queue, "f");
        assert_eq!(shown.field("batch").items()[1].int(), 1);
        assert_eq!(follow_up(&mut client, &queue), ("f".into(), (6, 1)));
    });
}

#[test]
fn a_batch_of_nothing_new_is_followed_at_once() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "held", "locked");
        let replies = enqueue_many(
            &mut client,
            &queue,
            "2 p p IDS held held THEN next THENID f",
        );
        assert_eq!(replies[0].0, "locked");
        assert_eq!(follow_up(&mut client, &queue), ("f".into(), (0, 0)));
        // What is sent again finds all there: nothing is added twice.
        let rest = "2 p p IDS a b THEN next THENID g";
        enqueue_many(&mut client, &queue, rest);
        let again: Vec<_> = enqueue_many(&mut client, &queue, rest);
        let again: Vec<_> = again.iter().map(|(outcome, _)| &outcome[..]).collect();
        assert_eq!(again, ["queued", "queued", "waiting"]);
        for id in ["a", "b"] {
            let delivery = client.take(&queue);
            assert_eq!(delivery.id(), id);
            assert_eq!(client.done(&queue, &delivery, ""), "done");
        }
        assert_eq!(follow_up(&mut client, &queue), ("g".into(), (2, 0)));
    });
}

#[test]
fn a_delivery_may_enlarge_the_batch_while_the_follow_up_waits() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        enqueue_many(&mut client, &queue, "1 p IDS a THEN next THENID f");
        let first = client.take(&queue);
        assert_eq!(client.enqueue(&queue, "p", "ID b JOIN f"), "added");
        enqueue_many(&mut client, &queue, "2 p p IDS c b JOIN f");
        assert_eq!(client.done(&queue, &first, ""), "done");
        for _ in 0..2 {
            assert_eq!(client.status(&queue, "f").as_deref(), Some("waiting"));
            let delivery = client.take(&queue);
            client.done(&queue, &delivery, "");
        }
        assert_eq!(follow_up(&mut client, &queue), ("f".into(), (3, 0)));
        for line in ["MQ.ENQUEUE {} p JOIN f", "MQ.MENQUEUE {} 1 p JOIN nobody"] {
            let error = client.line(&line.replace("{}", &queue)).unwrap_err();
            assert_eq!(error, "ERR no follow-up waits under the id to JOIN");
        }
    });
}

#[test]
fn what_lives_again_counts_once_and_a_cancelled_follow_up_does_no_harm() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        enqueue_many(&mut client, &queue, "2 p p IDS a b THEN next THENID f");
        let taken = client.dequeue_many(&queue, 2, &format!("LOCK {HOUR}"));
        assert_eq!(client.done(&queue, &taken[0], "ERROR"), "dead");
        assert_eq!(client.ok(&format!("MQ.REDRIVE {queue} a")).int(), 1);
        let again = client.take(&queue);
        assert_eq!(client.done(&queue, &again, ""), "done");
        assert_eq!(client.status(&queue, "f").as_deref(), Some("waiting"));
        assert_eq!(client.done(&queue, &taken[1], ""), "done");
        assert_eq!(follow_up(&mut client, &queue), ("f".into(), (2, 1)));

        enqueue_many(&mut client, &queue, "1 p IDS c THEN next THENID g");
        assert_eq!(client.cancel(&queue, "g"), 1);
        let delivery = client.take(&queue);
        assert_eq!(client.done(&queue, &delivery, ""), "done");
        assert_eq!(client.dequeue(&queue, ""), None);
        enqueue_many(&mut client, &queue, "2 p p THEN next");
        let purged = client.ok(&format!("MQ.PURGE {queue} ALL")).int();
        assert_eq!(purged, 3, "the follow-up goes with the others");
        assert_eq!(client.info(&queue).int("waiting"), 0);
    });
}

#[test]
fn a_batch_is_made_and_joined_in_a_transaction_and_in_a_script() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok("MULTI");
        client.ok(&format!("MQ.MENQUEUE {queue} 1 p IDS a THEN next THENID f"));
        client.ok(&format!("MQ.ENQUEUE {queue} p ID b JOIN f"));
        client.ok(&format!("MQ.CANCEL {queue} a b"));
        client.ok(&format!("MQ.STATUS {queue} f"));
        let replies = client.ok("EXEC");
        assert_eq!(replies.items()[3].text(), "queued");
        assert_eq!(follow_up(&mut client, &queue), ("f".into(), (2, 0)));
        let script = "redis.call('MQ.MENQUEUE', KEYS[1], 1, 'p', 'IDS', 'c', 'THEN', 'next', 'THENID', 'g') \
                      redis.call('MQ.ENQUEUE', KEYS[1], 'p', 'ID', 'd', 'JOIN', 'g') \
                      return redis.call('MQ.PURGE', KEYS[1], 'queued')";
        let purged = client.call(&["EVAL", script, "1", &queue]).unwrap();
        assert_eq!(purged.int(), 2, "the follow-up was ready only then");
        assert_eq!(follow_up(&mut client, &queue), ("g".into(), (2, 0)));
    });
}

#[test]
fn a_follow_up_that_died_tells_its_batch_when_it_is_sent_again() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        enqueue_many(&mut client, &queue, "1 p IDS a THEN next THENID f");
        assert_eq!(client.cancel(&queue, "a"), 1);
        let reply = client.ok(&format!("MQ.DEQUEUE {queue}"));
        let delivery = Delivery::plain(&reply);
        assert_eq!(client.done(&queue, &delivery, "ERROR"), "dead");
        assert_eq!(client.ok(&format!("MQ.REDRIVE {queue} f")).int(), 1);
        assert_eq!(follow_up(&mut client, &queue), ("f".into(), (1, 0)));
    });
}

#[test]
fn a_limit_counts_the_follow_up_and_refuses_the_whole() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!("MQ.LIMIT {queue} LENGTH 3"));
        let error = client
            .line(&format!("MQ.MENQUEUE {queue} 3 p p p THEN next"))
            .unwrap_err();
        assert!(error.starts_with("FULL "), "{error}");
        assert_eq!(client.info(&queue).int("messages"), 0);
        enqueue_many(&mut client, &queue, "2 p p THEN next");
        assert!(client
            .line(&format!("MQ.ENQUEUE {queue} p"))
            .unwrap_err()
            .starts_with("FULL "));
    });
}

#[test]
fn a_batch_goes_with_its_queue_to_replicas_copies_and_files() {
    let builder = Server::builder().persistence(Persistence::AofCommands);
    contract_on(builder, |lab| {
        let replica = Server::start();
        replica.replica_of(lab.server);
        let mut client = lab.client();
        enqueue_many(
            &mut client,
            "q",
            "3 p p p IDS a b c ATTEMPTS 1 THEN next THENID f",
        );
        let taken = client.dequeue_many("q", 2, &format!("LOCK {HOUR}"));
        client.done("q", &taken[0], "ERROR");
        replica.wait_for_sync(lab.server);
        let mut there = Client::connect(&replica, lab.protocol);
        assert_eq!(there.digest("q"), client.digest("q"));
        assert_eq!(there.status("q", "f").as_deref(), Some("waiting"));
        let digest = client.digest("q");
        for reload in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
            client.ok(reload);
            assert_eq!(client.digest("q"), digest, "{reload}");
        }
        client.ok("COPY q copied");
        client.ok("RENAME q renamed");
        replica.wait_for_sync(lab.server);
        replica.promote();
        let mut there = Client::connect(&replica, lab.protocol);
        for (is_there, queue) in [(false, "renamed"), (true, "renamed"), (true, "copied")] {
            let client = if is_there { &mut there } else { &mut client };
            assert_eq!(client.done(queue, &taken[1], ""), "done");
            let last = client.take(queue);
            assert_eq!(client.done(queue, &last, "RETRY"), "dead");
            assert_eq!(follow_up(client, queue), ("f".into(), (3, 2)), "{queue}");
        }
    });
}

#[test]
fn a_large_batch_with_locks_that_end_is_followed_once() {
    contract_on(Server::builder(), |lab| {
        const MANY: i64 = 2000;
        let mut client = lab.client();
        let payloads = "p ".repeat(MANY as usize);
        let rest = format!("{MANY} {payloads} ATTEMPTS 2 THEN next THENID f");
        assert_eq!(enqueue_many(&mut client, "q", &rest).len(), 2001);
        let (mut ended, mut dead) = (0, 0);
        loop {
            // A third is done, a third fails for good, and of a third nobody says anything.
            let reply = client.ok("MQ.DEQUEUE q COUNT 300 LOCK 20 BLOCK 0");
            let last = reply.items().last().unwrap();
            let follow_up = Delivery::plain(last);
            if follow_up.id() == "f" {
                assert_eq!(reply.items().len(), 1, "never before the others");
                let (all, died) = batch(last);
                assert_eq!(all, MANY);
                // A late verdict may have met a letter, which had ended by then.
                assert!(
                    died >= MANY - ended && died >= dead,
                    "{died} {ended} {dead}"
                );
                // A machine that is busy elsewhere may let its lock run out: then it comes again.
                match client.try_done("q", &follow_up, "") {
                    Ok(became) if !became.is_nil() => break,
                    _ => continue,
                }
            }
            for (n, one) in reply.items().iter().map(Delivery::plain).enumerate() {
                let verdict = match n % 3 {
                    0 => "",
                    1 => "ERROR",
                    _ => continue,
                };
                match client.try_done("q", &one, verdict) {
                    Ok(Value::Nil) | Err(_) => {}
                    Ok(became) if became.text() == "done" => ended += 1,
                    Ok(_) => dead += 1,
                }
            }
        }
        assert!(client.ok("MQ.DEQUEUE q BLOCK 50").is_nil(), "it comes once");
        let info = client.info("q");
        assert_eq!(info.int("messages"), info.int("dead"));
    });
}
