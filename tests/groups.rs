//! MQ.ENQUEUE … GROUP: turns between groups, and one message of an in-order group at a time.

mod common;

use common::{contract, ids, Client, Delivery, Lab, HOUR};
use redis_mq_testkit::{ReplyExt, Value};

/// Enqueues one message for each word `id:group`, or `id` for none.
fn fill(client: &mut Client, queue: &str, words: &str) {
    for word in words.split(' ') {
        match word.split_once(':') {
            Some((id, group)) => client.enqueue(queue, "p", &format!("ID {id} GROUP {group}")),
            None => client.enqueue(queue, "p", &format!("ID {word}")),
        };
    }
}

/// The ids that come next, without a gap, each finished before the next is asked for.
fn one_by_one(client: &mut Client, queue: &str) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(delivery) = client.dequeue(queue, "") {
        all.push(delivery.id());
        client.done(queue, &delivery, "");
    }
    all
}

#[test]
fn groups_take_turns_and_those_without_one_are_a_turn_together() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:a a2:a a3:a b1:b b2:b n1 n2 n3");
        let order = one_by_one(&mut client, &queue);
        assert_eq!(order, ["a1", "b1", "n1", "a2", "b2", "n2", "a3", "n3"]);
    });
}

#[test]
fn a_group_of_many_does_not_make_one_of_few_wait() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for n in 0..500 {
            client.enqueue(&queue, "p", &format!("ID many{n} GROUP many"));
        }
        client.enqueue(&queue, "p", "ID few GROUP few");
        let first = client.take(&queue);
        assert_eq!(first.id(), "many0");
        assert_eq!(client.take(&queue).id(), "few", "the second turn");
    });
}

#[test]
fn a_delivery_tells_its_group() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:tenant-7");
        let message = client.message(&queue, "a1");
        assert_eq!(message.text("group").as_deref(), Some("tenant-7"));
        assert_eq!(client.take(&queue).more["group"], b"tenant-7");
    });
}

#[test]
fn in_order_a_group_has_one_message_in_flight() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:a a2:a");
        let first = client.take(&queue);
        assert_eq!(client.dequeue(&queue, ""), None, "a2 is held");
        assert_eq!(client.status(&queue, "a2").as_deref(), Some("queued"));
        let info = client.info(&queue);
        assert_eq!((info.int("held"), info.int("groups")), (1, 1));
        client.done(&queue, &first, "");
        assert_eq!(client.take(&queue).id(), "a2");
    });
}

#[test]
fn with_count_an_in_order_group_gives_one() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:a a2:a a3:a b1:b");
        let got = client.dequeue_many(&queue, 10, "");
        assert_eq!(ids(&got), ["a1", "b1"]);
    });
}

/// Does something to the one message in flight of group `a`, and says who of the group comes next.
fn next_after(lab: &Lab<'_>, end: impl Fn(&mut Client, &str, &Delivery)) -> Option<Delivery> {
    let (mut client, queue) = (lab.client(), lab.queue());
    fill(&mut client, &queue, "a1:a a2:a a3:a");
    let holder = client.take(&queue);
    assert_eq!(holder.id(), "a1");
    end(&mut client, &queue, &holder);
    client.dequeue(&queue, "")
}

#[test]
fn retries_and_releases_keep_the_group_and_its_order() {
    contract(|lab| {
        for verdict in ["RETRY", "RELEASE"] {
            let next = next_after(lab, |client, queue, holder| {
                client.done(queue, holder, verdict);
            });
            assert_eq!(next.unwrap().id(), "a1", "{verdict}");
        }
        let next = next_after(lab, |client, queue, holder| {
            client.done(queue, holder, "RETRY BACKOFF 3600000");
        });
        assert_eq!(next, None, "the group waits for its first");
    });
}

#[test]
fn a_lock_that_ran_out_keeps_the_group_and_its_order() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:a a2:a");
        client.dequeue(&queue, "LOCK 1").unwrap();
        client.wait_until_due(&queue, "a1");
        let again = client.take(&queue);
        assert_eq!((again.id().as_str(), again.attempt), ("a1", 2));
        assert_eq!(client.dequeue(&queue, ""), None);
    });
}

#[test]
fn whatever_ends_the_holder_the_group_goes_on() {
    contract(|lab| {
        type End = fn(&mut Client, &str, &Delivery);
        let ends: [(&str, End); 4] = [
            ("done", |client, queue, holder| {
                client.done(queue, holder, "");
            }),
            ("a dedupe window", |client, queue, holder| {
                client.done(queue, holder, "BACKOFF 3600000");
            }),
            ("dead", |client, queue, holder| {
                client.done(queue, holder, "ERROR");
            }),
            ("cancelled", |client, queue, _| {
                assert_eq!(client.cancel(queue, "a1"), 1);
            }),
        ];
        for (what, end) in ends {
            let next = next_after(lab, end);
            assert_eq!(next.map(|next| next.id()).as_deref(), Some("a2"), "{what}");
        }
    });
}

#[test]
fn whatever_ends_the_holder_while_it_waits_for_its_retry_the_group_goes_on() {
    contract(|lab| {
        type End = fn(&mut Client, &str);
        let ends: [(&str, End); 2] = [
            ("cancelled", |client, queue| {
                assert_eq!(client.cancel(queue, "a1"), 1);
            }),
            ("moved to another group", |client, queue| {
                client.enqueue(queue, "p", "ID a1 GROUP b UPDATE");
            }),
        ];
        for (what, end) in ends {
            let next = next_after(lab, |client, queue, holder| {
                client.done(queue, holder, "RETRY BACKOFF 3600000");
                end(client, queue);
            });
            assert_eq!(next.map(|next| next.id()).as_deref(), Some("a2"), "{what}");
        }
    });
}

#[test]
fn a_delay_or_a_window_holds_nobody() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", &format!("ID later GROUP a DELAY {HOUR}"));
        fill(&mut client, &queue, "a1:a a2:a");
        assert_eq!(one_by_one(&mut client, &queue), ["a1", "a2"]);
    });
}

#[test]
fn with_an_inflight_above_one_groups_are_fair_shares() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!("MQ.LIMIT {queue} GROUPS INFLIGHT 2"));
        fill(&mut client, &queue, "a1:a a2:a a3:a");
        let got = client.dequeue_many(&queue, 10, "");
        assert_eq!(ids(&got), ["a1", "a2"]);
        client.done(&queue, &got[0], "RETRY");
        assert_eq!(client.take(&queue).id(), "a3", "retries go behind");
        client.ok(&format!("MQ.LIMIT {queue} GROUPS INFLIGHT OFF"));
        assert_eq!(client.take(&queue).id(), "a1");
    });
}

#[test]
fn priorities_go_first_and_groups_take_turns_within_one() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:a b1:b");
        client.enqueue(&queue, "p", "ID a0 GROUP a PRIORITY 1");
        assert_eq!(one_by_one(&mut client, &queue), ["a0", "b1", "a1"]);
    });
}

#[test]
fn a_waiter_gets_what_its_group_held_as_soon_as_it_is_free() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:a a2:a");
        let holder = client.take(&queue);
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        client.done(&queue, &holder, "");
        assert_eq!(waiter.delivery().id(), "a2");
    });
}

#[test]
fn mq_groups_lists_every_group_with_its_state() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(client.ok(&format!("MQ.GROUPS {queue} 0")).is_nil());
        fill(&mut client, &queue, "a1:busy b1:ready c1:paused");
        let first = client.take(&queue);
        assert_eq!(first.id(), "a1");
        fill(&mut client, &queue, "a2:busy");
        client.ok(&format!("MQ.PAUSE {queue} GROUP paused"));
        client.ok(&format!("MQ.LIMIT {queue} GROUP idle INFLIGHT 4"));
        let mut states = Vec::new();
        let mut cursor = "0".to_string();
        loop {
            let page = client.ok(&format!("MQ.GROUPS {queue} {cursor} COUNT 1"));
            let [next, groups] = page.items() else {
                panic!("not a page: {page:?}")
            };
            for group in groups.items() {
                let [name, waiting, in_flight, _oldest, state, _until, open] = group.items() else {
                    panic!("not a group: {group:?}")
                };
                let counts = [waiting, in_flight, open].map(Value::int);
                states.push((name.text(), counts, state.text()));
            }
            cursor = match next {
                Value::Int(number) => number.to_string(),
                text => text.text(),
            };
            if cursor == "0" {
                break;
            }
        }
        states.sort();
        let expected = [
            ("busy", [1, 1, 2], "busy"),
            ("idle", [0, 0, 0], "idle"),
            ("paused", [1, 0, 1], "paused"),
            ("ready", [1, 0, 1], "ready"),
        ];
        let expected = expected.map(|(name, counts, state)| (name.into(), counts, state.into()));
        assert_eq!(states, expected);
    });
}

#[test]
fn mq_groups_shows_one_group_and_how_many_of_its_messages_are_open() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let open = |client: &mut Client, group: &str| {
            let page = client.ok(&format!("MQ.GROUPS {queue} 0 GROUP {group}"));
            let [next, groups] = page.items() else {
                panic!("not a page: {page:?}")
            };
            assert_eq!(next.text(), "0");
            let [group] = groups.items() else {
                assert!(groups.items().is_empty(), "{groups:?}");
                return None;
            };
            Some((group.items()[0].text(), group.items()[6].int()))
        };
        fill(&mut client, &queue, "a1:a b1:b a2:a");
        client.enqueue(&queue, "p", "ID a3 GROUP a DELAY 600000");
        assert_eq!(open(&mut client, "a"), Some(("a".into(), 3)));
        assert_eq!(open(&mut client, "none"), None);
        let first = client.take(&queue);
        assert_eq!(first.id(), "a1");
        assert_eq!(
            open(&mut client, "a"),
            Some(("a".into(), 3)),
            "with a consumer"
        );
        // One whose dedupe window runs is finished; so is a dead letter, which is no member any more.
        client.done(&queue, &first, "SUCCESS BACKOFF 600000");
        assert_eq!(open(&mut client, "a"), Some(("a".into(), 2)));
        let second = client.take(&queue);
        assert_eq!(second.id(), "b1");
        client.done(&queue, &second, "ERROR");
        let left = open(&mut client, "b").map_or(0, |(_, open)| open);
        assert_eq!(left, 0);
        for wrong in ["GROUP", "GROUP a GROUP b", "GROUP a COUNT"] {
            let error = client.line(&format!("MQ.GROUPS {queue} 0 {wrong}"));
            assert!(error.unwrap_err().starts_with("ERR "), "{wrong}");
        }
    });
}

#[test]
fn a_group_has_1_to_128_bytes() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let longest = "g".repeat(128);
        assert_eq!(
            client.enqueue(&queue, "p", &format!("ID a GROUP {longest}")),
            "added"
        );
        let too_long = "g".repeat(129);
        let error = client.line(&format!("MQ.ENQUEUE {queue} p GROUP {too_long}"));
        assert_eq!(error, Err("ERR GROUP must be 1 to 128 bytes".into()));
        for wrong in ["GROUP", "GROUP a GROUP b"] {
            let error = client
                .line(&format!("MQ.ENQUEUE {queue} p {wrong}"))
                .unwrap_err();
            assert!(error.starts_with("ERR syntax error"), "{error}");
        }
        assert_eq!(client.info(&queue).int("messages"), 1);
    });
}

#[test]
fn groups_and_their_holders_survive_a_reload_and_a_copy() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        fill(&mut client, &queue, "a1:a a2:a b1:b n1");
        let holder = client.take(&queue);
        client.done(&queue, &holder, "RETRY BACKOFF 3600000");
        let copied = lab.queue();
        client.ok(&format!("COPY {queue} {copied}"));
        for queue in [&queue, &copied] {
            assert_eq!(one_by_one(&mut client, queue), ["b1", "n1"]);
            assert_eq!(client.status(queue, "a2").as_deref(), Some("queued"));
        }
    });
}
