//! MQ.LIMIT: what a queue and its groups may hold, have in work and hand over in a time.

mod common;

use common::{contract, contract_on, ids, Client, Protocol, HOUR};
use redis_mq_testkit::{Persistence, ReplyExt, Server, Value};

fn limit(client: &mut Client, queue: &str, options: &str) {
    assert_eq!(
        client.ok(&format!("MQ.LIMIT {queue} {options}")),
        Value::Okay
    );
}

fn fill(client: &mut Client, queue: &str, count: usize) {
    for n in 0..count {
        client.enqueue(queue, "p", &format!("ID {n}"));
    }
}

#[test]
fn limits_are_set_shown_and_taken_away_one_by_one() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(client.ok(&format!("MQ.LIMIT {queue}")).is_nil());
        limit(
            &mut client,
            &queue,
            "LENGTH 10 BYTES 1000000 INFLIGHT 3 RATE 5 1000 BURST 2",
        );
        limit(&mut client, &queue, "DEAD 7 ATTEMPTS 4");
        limit(&mut client, &queue, "INFLIGHT OFF LENGTH 11");
        let shown = client.ok(&format!("MQ.LIMIT {queue}")).fields();
        let text = format!("{shown:?}").to_lowercase();
        for (name, value) in [
            ("length", 11),
            ("bytes", 1_000_000),
            ("burst", 2),
            ("dead", 7),
        ] {
            assert_eq!(shown[name].int(), value, "{text}");
        }
        assert_eq!(shown["attempts"].int(), 4);
        let rate: Vec<i64> = shown["rate"].items().iter().map(ReplyExt::int).collect();
        assert_eq!(rate, [5, 1000]);
        assert!(!shown.contains_key("inflight"), "{text}");
        limit(&mut client, &queue, "RATE OFF");
        let shown = client.ok(&format!("MQ.LIMIT {queue}")).fields();
        assert!(!shown.contains_key("rate") && !shown.contains_key("burst"));
    });
}

#[test]
fn limits_are_read_on_a_replica() {
    let (primary, replica) = (Server::builder().start(), Server::builder().start());
    replica.replica_of(&primary);
    replica.wait_for_sync(&primary);
    let mut client = Client::connect(&primary, Protocol::Resp2);
    let mut there = Client::connect(&replica, Protocol::Resp2);
    assert!(there.ok("MQ.LIMITS q").is_nil());
    limit(&mut client, "q", "LENGTH 3 DEAD-AGE 5000");
    limit(&mut client, "q", "GROUPS INFLIGHT 2");
    limit(&mut client, "q", "GROUP vip INFLIGHT 4");
    replica.wait_for_sync(&primary);
    for scope in ["", "GROUPS", "GROUP vip"] {
        let words = format!("q {scope}");
        let here = client.ok(format!("MQ.LIMIT {words}").trim());
        let seen = there.ok(format!("MQ.LIMITS {words}").trim());
        assert_eq!(here, seen, "{scope}");
        assert!(!seen.fields().is_empty(), "{scope}");
    }
    let refused = there.line("MQ.LIMITS q LENGTH 5").unwrap_err();
    assert!(refused.contains("syntax error"), "{refused}");
}

#[test]
fn groups_have_limits_of_their_own_and_one_s_own_win() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "GROUPS INFLIGHT 2");
        limit(&mut client, &queue, "GROUP vip INFLIGHT 3");
        let each = client.ok(&format!("MQ.LIMIT {queue} GROUPS")).fields();
        assert_eq!(each["inflight"].int(), 2);
        let vip = client.ok(&format!("MQ.LIMIT {queue} GROUP vip")).fields();
        assert_eq!(vip["inflight"].int(), 3);
        for n in 0..5 {
            client.enqueue(&queue, "p", &format!("ID v{n} GROUP vip"));
            client.enqueue(&queue, "p", &format!("ID o{n} GROUP other"));
        }
        let got = ids(&client.dequeue_many(&queue, 100, ""));
        assert_eq!(got.iter().filter(|id| id.starts_with('v')).count(), 3);
        assert_eq!(got.iter().filter(|id| id.starts_with('o')).count(), 2);
    });
}

#[test]
fn a_wrong_limit_gives_one_error_and_changes_nothing() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let out_of_range = [
            "LENGTH 0",
            "BYTES 0",
            "INFLIGHT 0",
            "RATE 0 1000",
            "RATE 1 0",
            "BURST 0",
            "DEAD x",
            "ATTEMPTS 0",
            "IDLE 0",
            "IDLE 315360000001",
            "INFLIGHT -1",
            "LENGTH 1.5",
        ];
        for options in out_of_range {
            let error = client
                .line(&format!("MQ.LIMIT {queue} {options}"))
                .unwrap_err();
            let name = options.split(' ').next().unwrap();
            assert!(
                error.starts_with(&format!("ERR {name} must be")),
                "{options}: {error}"
            );
        }
        let syntax = [
            "LENGTH",
            "RATE 1",
            "RATE 1 OFF",
            "LENGTH 1 LENGTH 2",
            "NONSENSE",
            "GROUPS GROUP a",
            "GROUPS BYTES 5",
            "GROUP a DEAD 5",
            "GROUPS ATTEMPTS 5",
            "GROUP a IDLE 5",
            "IDLE",
            "IDLE 1 IDLE OFF",
            "GROUPS GROUPS",
        ];
        for options in syntax {
            let error = client
                .line(&format!("MQ.LIMIT {queue} {options}"))
                .unwrap_err();
            assert!(error.starts_with("ERR"), "{options}: {error}");
        }
        assert!(
            client.line(&format!("MQ.LIMIT {queue} BURST 5")).is_err(),
            "without a rate"
        );
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
    });
}

#[test]
fn one_more_than_length_is_full_and_what_is_in_stays() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "LENGTH 2");
        fill(&mut client, &queue, 2);
        let error = client
            .line(&format!("MQ.ENQUEUE {queue} p ID more"))
            .unwrap_err();
        assert!(error.starts_with("FULL "), "{error}");
        assert_eq!(client.status(&queue, "more"), None);
        assert_eq!(client.info(&queue).int("total-full"), 1);
        let held = client.take(&queue);
        assert!(
            client.line(&format!("MQ.ENQUEUE {queue} p")).is_err(),
            "locked counts"
        );
        assert_eq!(
            client.done(&queue, &held, "RETRY"),
            "queued",
            "what is in stays"
        );
        let held = client.take(&queue);
        client.done(&queue, &held, "");
        assert_eq!(client.enqueue(&queue, "p", "ID more"), "added");
    });
}

#[test]
fn bytes_are_counted_when_a_message_is_enqueued() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "BYTES 100000");
        let payload = "x".repeat(10_000);
        let mut accepted = 0;
        let error = loop {
            match client.line(&format!("MQ.ENQUEUE {queue} {payload}")) {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
            assert!(accepted < 20, "no end");
        };
        assert!(error.starts_with("FULL "), "{error}");
        assert!((8..=11).contains(&accepted), "{accepted}");
        let usage = client.ok(&format!("MEMORY USAGE {queue}")).int();
        assert!(usage < 120_000, "{usage}");
    });
}

#[test]
fn so_many_are_in_flight_and_no_more() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "INFLIGHT 2");
        fill(&mut client, &queue, 5);
        let got = client.dequeue_many(&queue, 10, "");
        assert_eq!(ids(&got), ["0", "1"]);
        assert_eq!(client.dequeue(&queue, ""), None);
        let info = client.info(&queue);
        assert_eq!(info.text("limited").as_deref(), Some("inflight"));
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        client.done(&queue, &got[0], "");
        assert_eq!(waiter.delivery().id(), "2", "the freed room");
        limit(&mut client, &queue, "INFLIGHT OFF");
        assert_eq!(client.dequeue_many(&queue, 10, "").len(), 2);
    });
}

#[test]
fn taking_a_limit_away_wakes_who_waits() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "INFLIGHT 1");
        fill(&mut client, &queue, 2);
        client.take(&queue);
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        limit(&mut client, &queue, "INFLIGHT OFF");
        assert_eq!(waiter.delivery().id(), "1");
    });
}

#[test]
fn a_lock_that_runs_out_makes_room() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "INFLIGHT 1");
        fill(&mut client, &queue, 2);
        client.dequeue(&queue, "LOCK 30").unwrap();
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        assert_eq!(waiter.delivery().id(), "1", "what ran out goes behind");
    });
}

#[test]
fn a_rate_lets_one_go_each_interval_and_a_burst_after_a_pause() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "RATE 10 1000 BURST 3");
        fill(&mut client, &queue, 8);
        let burst = client.dequeue_many(&queue, 10, "");
        assert!((3..=4).contains(&burst.len()), "{}", burst.len());
        let mut started: Vec<i64> = Vec::new();
        for delivery in &burst {
            started.push(client.delivered_at(&queue, delivery));
        }
        while started.len() < 8 {
            let mut waiter = lab.waiter(&queue, "BLOCK 0");
            let delivery = waiter.delivery();
            started.push(client.delivered_at(&queue, &delivery));
        }
        // In any second at most n + b - 1 begin.
        for first in &started {
            let within = started
                .iter()
                .filter(|at| (0..1000).contains(&(*at - first)))
                .count();
            assert!(within <= 12, "{started:?}");
        }
        // Three at once, and then one each 100 ms; one that is late makes none after it late.
        for (n, at) in (0..).zip(&started) {
            let earliest = started[0] + 100 * (n - 2).max(0);
            assert!(*at >= earliest - 1, "{n} of {started:?}");
        }
    });
}

#[test]
fn polling_tells_the_time_until_the_rate_frees_one() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "RATE 1 10000");
        fill(&mut client, &queue, 2);
        client.take(&queue);
        let wait = client.poll(&queue, "EOQ");
        assert!((1..=10_000).contains(&wait), "{wait}");
        let info = client.info(&queue);
        assert_eq!(info.text("limited").as_deref(), Some("rate"));
        // The part of a millisecond that has passed counts at both ends.
        assert!((1..=10_001).contains(&info.int("limit-free-ms")));
    });
}

#[test]
fn a_limited_group_does_not_hold_others() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, &format!("GROUP slow RATE 1 {HOUR}"));
        for n in 0..5 {
            client.enqueue(&queue, "p", &format!("ID s{n} GROUP slow"));
        }
        client.enqueue(&queue, "p", "ID f0 GROUP fast");
        client.enqueue(&queue, "p", "ID n0");
        let mut got = ids(&client.dequeue_many(&queue, 10, ""));
        got.sort();
        assert_eq!(got, ["f0", "n0", "s0"]);
    });
}

#[test]
fn attempts_of_the_queue_count_for_messages_without_their_own() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "ATTEMPTS 2");
        client.enqueue(&queue, "p", "ID plain");
        client.enqueue(&queue, "p", "ID own ATTEMPTS 3");
        for expected in [("queued", "queued"), ("dead", "queued")] {
            let got = client.dequeue_many(&queue, 2, "");
            let became: Vec<_> = got
                .iter()
                .map(|one| (one.id(), client.done(&queue, one, "RETRY")))
                .collect();
            for (id, became) in became {
                let wanted = if id == "plain" {
                    expected.0
                } else {
                    expected.1
                };
                assert_eq!(became, wanted, "{id}");
            }
        }
    });
}

#[test]
fn so_many_dead_letters_are_kept() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "DEAD 2");
        for n in 0..4 {
            client.put(&queue, &format!("d{n}"), "dead");
        }
        assert_eq!(client.info(&queue).int("dead"), 2);
        assert_eq!(client.status(&queue, "d0"), None, "the oldest went");
        limit(&mut client, &queue, "DEAD OFF");
        client.put(&queue, "d4", "dead");
        assert_eq!(client.info(&queue).int("dead"), 3);
    });
}

#[test]
fn what_changes_nothing_makes_no_queue() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        limit(&mut client, &queue, "LENGTH OFF");
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 0);
        limit(&mut client, &queue, "LENGTH 5");
        assert_eq!(client.ok(&format!("EXISTS {queue}")).int(), 1);
    });
}

#[test]
fn what_changes_nothing_makes_no_queue_in_the_millisecond_of_a_delivery_either() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for round in 0..50 {
            let other = format!("{queue}:{round}");
            client.ok("MULTI");
            client.ok(&format!("MQ.ENQUEUE {queue} p"));
            client.ok(&format!("MQ.DEQUEUE {queue}"));
            client.ok(&format!("MQ.LIMIT {other} LENGTH OFF"));
            client.ok(&format!("EXISTS {other}"));
            let replies = client.ok("EXEC");
            assert_eq!(replies.items()[3].int(), 0, "round {round}");
        }
    });
}

#[test]
fn limits_work_at_maxmemory() {
    contract_on(Server::builder(), |lab| {
        let mut client = lab.client();
        client.enqueue("q", "p", "ID a");
        client.ok("CONFIG SET maxmemory 1");
        let set = client.line("MQ.LIMIT q LENGTH 5");
        let paused = client.line("MQ.PAUSE q");
        let resumed = client.line("MQ.RESUME q");
        client.ok("CONFIG SET maxmemory 0");
        assert_eq!(set, Ok(Value::Okay));
        assert_eq!(paused, Ok(Value::Int(0)));
        assert_eq!(resumed, Ok(Value::Int(1)));
    });
}

#[test]
fn limits_survive_a_restart_and_a_copy() {
    for persistence in [Persistence::AofCommands, Persistence::Rdb] {
        contract_on(Server::builder().persistence(persistence), |lab| {
            let mut client = lab.client();
            limit(&mut client, "q", "INFLIGHT 1 RATE 5 1000 BURST 2 LENGTH 9");
            limit(&mut client, "q", "GROUP g INFLIGHT 4");
            let before = (client.ok("MQ.LIMIT q"), client.ok("MQ.LIMIT q GROUP g"));
            let digest = client.digest("q");
            client.ok("DEBUG RELOAD");
            client.ok("COPY q q2 REPLACE");
            for queue in ["q", "q2"] {
                let limits = client.ok(&format!("MQ.LIMIT {queue}"));
                let group = client.ok(&format!("MQ.LIMIT {queue} GROUP g"));
                assert_eq!((limits, group), before, "{queue}");
            }
            assert_eq!(client.digest("q"), digest);
        });
    }
}
