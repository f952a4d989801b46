//! MQ.DEQUEUE: order, locks, attempts and tokens.

mod common;

use common::{args, ask, contract, ids, Client, Delivery, HOUR, TEN_YEARS};
use redis_mq_testkit::ReplyExt;

#[test]
fn a_delivery_tells_all_there_is_to_know() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "payload", "ID a");
        let enqueued_at = client.message(&queue, "a").int("enqueued-at");
        let before = client.now();
        let delivery = client.dequeue(&queue, "LOCK 5000").unwrap();
        let after = client.now();
        assert_eq!(delivery.id(), "a");
        assert_eq!(delivery.payload(), "payload");
        assert_eq!(delivery.attempt, 1);
        assert_eq!(delivery.lock_ms, 5000);
        assert_eq!(delivery.enqueued_at, enqueued_at);
        // The token of a queue's first delivery is the instant in µs.
        assert!((before..=after).contains(&(delivery.token / 1000)));
        let due = client.message(&queue, "a").int("due-at");
        assert!((before + 5000..=after + 5000).contains(&due));
    });
}

#[test]
fn messages_come_in_the_order_of_enqueuing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..100 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        for n in 0..100 {
            assert_eq!(client.take(&queue).id(), n.to_string());
        }
    });
}

#[test]
fn a_lower_priority_number_goes_first_and_equals_in_their_order() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for round in 0..3 {
            for priority in [9, 0, 5, 3, 7, 1, 8, 2, 6, 4] {
                let options = format!("ID {priority}:{round} PRIORITY {priority}");
                client.enqueue(&queue, "p", &options);
            }
        }
        client.enqueue(&queue, "p", "ID default");
        let mut expected: Vec<String> = (0..10)
            .flat_map(|priority| (0..3).map(move |round| format!("{priority}:{round}")))
            .collect();
        expected.insert(18, "default".into());
        let mut got = ids(&client.dequeue_many(&queue, 7, ""));
        got.extend((0..4).map(|_| client.take(&queue).id()));
        got.extend(ids(&client.dequeue_many(&queue, 100, "")));
        assert_eq!(got, expected);
    });
}

#[test]
fn a_delayed_message_takes_its_place_when_it_becomes_ready() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        // In one go, so that the pauses between the commands do not count.
        client.ok("MULTI");
        for options in ["ID second DELAY 40", "ID first DELAY 5", "ID ready"] {
            client.ok(&format!("MQ.ENQUEUE {queue} p {options}"));
        }
        client.ok("EXEC");
        let due = client.message(&queue, "second").int("due-at");
        client.wait_for_time(due);
        client.enqueue(&queue, "p", "ID late");
        client.enqueue(&queue, "p", "ID urgent PRIORITY 0");
        let got = ids(&client.dequeue_many(&queue, 10, ""));
        assert_eq!(got, ["urgent", "ready", "first", "second", "late"]);
    });
}

#[test]
fn count_gives_an_array_of_at_most_that_many() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..5 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        assert_eq!(ids(&client.dequeue_many(&queue, 1, "")), ["0"]);
        assert_eq!(ids(&client.dequeue_many(&queue, 2, "")), ["1", "2"]);
        assert_eq!(
            ids(&client.dequeue_many(&queue, 4_294_967_295, "")),
            ["3", "4"]
        );
        assert!(ask!(client, "MQ.DEQUEUE", queue, "COUNT", 3)
            .unwrap()
            .is_nil());
    });
}

#[test]
fn all_deliveries_of_a_count_have_their_own_token_and_lock() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..1000 {
            let lock = if n % 2 == 0 { "" } else { "LOCK 777" };
            client.enqueue(&queue, "p", &format!("ID {n} {lock}"));
        }
        let all = client.dequeue_many(&queue, 1000, "LOCK 55555");
        assert_eq!(all.len(), 1000);
        for (n, pair) in all.windows(2).enumerate() {
            assert!(pair[0].token < pair[1].token);
            assert_eq!(pair[0].lock_ms, if n % 2 == 0 { 55555 } else { 777 });
        }
        for delivery in all.iter().step_by(2) {
            assert_eq!(client.done(&queue, delivery, ""), "done");
        }
    });
}

#[test]
fn nothing_ready_is_null_and_creates_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for options in ["", "COUNT 1", "LOCK 5", "BLOCK 1"] {
            let reply = client.ok(&format!("MQ.DEQUEUE {queue} {options}"));
            assert!(reply.is_nil(), "{options}");
        }
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);

        client.put(&queue, "a", "locked");
        client.enqueue(&queue, "p", &format!("ID b DELAY {HOUR}"));
        let before = client.digest(&queue);
        for options in ["", "COUNT 1", "LOCK 5", "BLOCK 1"] {
            let reply = client.ok(&format!("MQ.DEQUEUE {queue} {options}"));
            assert!(reply.is_nil(), "{options}");
        }
        assert_eq!(client.digest(&queue), before);
    });
}

#[test]
fn the_lock_is_the_messages_own_then_the_consumers_then_the_default() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID own LOCK 2000");
        client.enqueue(&queue, "p", "ID consumers");
        client.enqueue(&queue, "p", "ID default");
        assert_eq!(client.dequeue(&queue, "LOCK 3000").unwrap().lock_ms, 2000);
        assert_eq!(client.dequeue(&queue, "LOCK 3000").unwrap().lock_ms, 3000);
        assert_eq!(client.dequeue(&queue, "").unwrap().lock_ms, HOUR);
        client.enqueue(&queue, "p", "ID longest");
        let options = format!("LOCK {TEN_YEARS}");
        let delivery = client.dequeue(&queue, &options).unwrap();
        assert_eq!(delivery.lock_ms, TEN_YEARS);
        client.delivered_at(&queue, &delivery);
    });
}

#[test]
fn an_expired_lock_gives_the_message_back_with_the_next_attempt() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let mut last = client.dequeue(&queue, "LOCK 1").unwrap();
        for attempt in 2..6 {
            client.wait_until_due(&queue, "a");
            assert_eq!(client.status(&queue, "a").as_deref(), Some("queued"));
            let next = client.dequeue(&queue, "LOCK 1").unwrap();
            assert_eq!(next.attempt, attempt);
            assert!(next.token > last.token);
            assert_eq!(next.enqueued_at, last.enqueued_at);
            last = next;
        }
        client.wait_until_due(&queue, "a");
        let info = client.info(&queue);
        assert_eq!(info.int("total-expired-locks"), 5);
        assert_eq!(info.int("total-delivered"), 5);
    });
}

#[test]
fn a_locked_message_goes_to_nobody_else_before_its_deadline() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let deadline = client.now() + 40;
        client.dequeue(&queue, "LOCK 40").unwrap();
        let second = loop {
            if let Some(delivery) = client.dequeue(&queue, &format!("LOCK {HOUR}")) {
                break delivery;
            }
            assert!(client.now() < deadline + 5000, "never given back");
        };
        assert!(client.delivered_at(&queue, &second) >= deadline);
        assert_eq!(second.attempt, 2);
    });
}

#[test]
fn an_expired_lock_of_the_last_attempt_makes_it_dead_by_itself() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a ATTEMPTS 2");
        for attempt in 1..=2 {
            let delivery = client.dequeue(&queue, "LOCK 1").unwrap();
            assert_eq!(delivery.attempt, attempt);
            client.wait_until_due(&queue, "a");
        }
        assert_eq!(client.status(&queue, "a").as_deref(), Some("dead"));
        assert_eq!(client.dequeue(&queue, ""), None, "never one delivery more");
        let letter = client.message(&queue, "a");
        assert_eq!(letter.int("attempts"), 2);
        assert!(letter.text("reason").is_some(), "it says why");
        let info = client.info(&queue);
        assert_eq!((info.int("dead"), info.int("total-dead")), (1, 1));
        assert_eq!(info.int("total-expired-locks"), 2);
        assert_eq!(
            client.enqueue(&queue, "p", "ID a"),
            "added",
            "its id is free"
        );
    });
}

#[test]
fn with_one_attempt_left_the_loser_of_a_race_gets_nothing() {
    contract(|lab| {
        let (mut winner, mut loser, queue) = (lab.client(), lab.client(), lab.queue());
        winner.enqueue(&queue, "p", "ID a ATTEMPTS 1");
        let delivery = winner.take(&queue);
        assert_eq!(loser.dequeue(&queue, ""), None);
        assert_eq!(winner.status(&queue, "a").as_deref(), Some("locked"));
        assert_eq!(winner.done(&queue, &delivery, ""), "done");
    });
}

#[test]
fn two_consumers_never_hold_the_same_message() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        const MESSAGES: usize = 2000;
        for n in 0..MESSAGES {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        let taken: Vec<Vec<Delivery>> = std::thread::scope(|scope| {
            let consumers: Vec<_> = (0..4)
                .map(|n| {
                    let (mut client, queue) = (lab.client(), queue.clone());
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        loop {
                            let some = client.dequeue_many(&queue, n + 1, "");
                            if some.is_empty() {
                                return mine;
                            }
                            mine.extend(some);
                        }
                    })
                })
                .collect();
            consumers
                .into_iter()
                .map(|consumer| consumer.join().unwrap())
                .collect()
        });
        let mut all: Vec<String> = taken.iter().flat_map(|some| ids(some)).collect();
        assert_eq!(all.len(), MESSAGES);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), MESSAGES);
        let mut tokens: Vec<i64> = taken.iter().flatten().map(|one| one.token).collect();
        tokens.sort();
        tokens.dedup();
        assert_eq!(tokens.len(), MESSAGES);
    });
}

#[test]
fn tens_of_thousands_of_locks_that_end_at_once_all_come_back_once() {
    contract(|lab| {
        let mut client = lab.client();
        for (messages, lock) in [(50_000, 1), (3000, 100), (3000, 700)] {
            let queue = lab.queue();
            fill(&mut client, &queue, messages);
            let first = client.dequeue_many(&queue, messages, &format!("LOCK {lock}"));
            assert_eq!(first.len(), messages as usize);
            client.wait_until_due(&queue, &first[0].id());
            assert_eq!(client.info(&queue).int("queued"), i64::from(messages));
            // The server may move them on in several steps; none is lost and none comes twice, and
            // as long as one is ready the reply is not null.
            let mut second = Vec::new();
            while second.len() < messages as usize {
                let some = client.dequeue_many(&queue, messages, &format!("LOCK {HOUR}"));
                assert!(
                    !some.is_empty(),
                    "null after {} of {messages}",
                    second.len()
                );
                second.extend(some);
            }
            assert!(second.iter().all(|delivery| delivery.attempt == 2));
            let (mut old, mut new) = (ids(&first), ids(&second));
            old.sort();
            new.sort();
            assert!(old == new);
            let expired = client.info(&queue).int("total-expired-locks");
            assert_eq!(expired, i64::from(messages));
        }
    });
}

/// Enqueues this many messages.
fn fill(client: &mut Client, queue: &str, messages: u32) {
    let command = format!("MQ.ENQUEUE {queue} p\r\n");
    client.send_bytes(command.repeat(messages as usize).as_bytes());
    for _ in 0..messages {
        assert_eq!(client.frame().unwrap()[0], b'*');
    }
}
