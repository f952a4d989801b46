//! MQ.LATENCY: how long messages wait and how long the work on them takes, by the server's clock.

mod common;

use common::{contract, Client, Fields, Protocol};
use redis_mq_testkit::{ReplyExt, Server};

fn latency(client: &mut Client, queue: &str, of: &str) -> Fields {
    let all = client.ok(&format!("MQ.LATENCY {queue}")).fields();
    Fields(all[of].fields())
}

#[test]
fn waiting_and_work_are_measured_once_a_delivery() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        assert!(client.ok(&format!("MQ.LATENCY {queue}")).is_nil());
        for n in 0..3 {
            client.enqueue(&queue, "p", &format!("ID {n}"));
        }
        let enqueued = client.message(&queue, "2").int("enqueued-at");
        client.wait_for_time(enqueued + 50);
        let got = client.dequeue_many(&queue, 3, "");
        client.wait_for_time(enqueued + 120);
        for delivery in &got[..2] {
            client.done(&queue, delivery, "");
        }
        let wait = latency(&mut client, &queue, "wait");
        assert_eq!(wait.int("count"), 3);
        assert!(wait.int("sum-ms") >= 150, "{wait:?}");
        assert!(wait.int("p50-ms") >= 50, "{wait:?}");
        let work = latency(&mut client, &queue, "work");
        assert_eq!(work.int("count"), 2);
        let buckets = work.field("buckets").items();
        let last = buckets.last().expect("a bucket").items();
        assert_eq!(last[1].int(), 2, "cumulative");
        let pairs: Vec<_> = buckets
            .iter()
            .map(|pair| (pair.items()[0].int(), pair.items()[1].int()))
            .collect();
        assert!(pairs
            .windows(2)
            .all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1));
    });
}

#[test]
fn a_delay_is_not_waiting() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a DELAY 300");
        client.wait_until_due(&queue, "a");
        let delivery = client.take(&queue);
        let delivered = client.delivered_at(&queue, &delivery);
        let wait = latency(&mut client, &queue, "wait");
        let since_due = delivered - delivery.enqueued_at - 300;
        assert!(wait.int("sum-ms") <= since_due + 1, "{wait:?}");
    });
}

#[test]
fn a_retry_is_not_waited_for_again_but_worked_on() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        for verdict in ["RETRY", ""] {
            let delivery = client.take(&queue);
            client.done(&queue, &delivery, verdict);
        }
        assert_eq!(latency(&mut client, &queue, "wait").int("count"), 1);
        assert_eq!(latency(&mut client, &queue, "work").int("count"), 2);
    });
}

#[test]
fn what_is_given_back_unworked_is_not_work() {
    contract(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "RELEASE");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "ERROR");
        // It did not count, so the message waits for its first delivery again.
        assert_eq!(latency(&mut client, &queue, "wait").int("count"), 2);
        assert_eq!(latency(&mut client, &queue, "work").int("count"), 1);
        let info = client.info(&queue);
        let wait = latency(&mut client, &queue, "wait");
        assert_eq!(info.int("wait-p99-ms"), wait.int("p99-ms"));
    });
}

#[test]
fn the_numbers_survive_a_copy_and_are_those_of_a_replica() {
    let (primary, replica) = (Server::builder().start(), Server::builder().start());
    replica.replica_of(&primary);
    replica.wait_for_sync(&primary);
    let mut client = Client::connect(&primary, Protocol::Resp2);
    for number in 0..50 {
        client.enqueue("q", "p", &format!("ID {number}"));
        let delivery = client.take("q");
        if number % 7 == 0 {
            let later = client.delivered_at("q", &delivery) + 5;
            client.wait_for_time(later);
        }
        client.done("q", &delivery, "");
    }
    let before = client.ok("MQ.LATENCY q");
    client.ok("COPY q copied");
    assert_eq!(client.ok("MQ.LATENCY copied"), before);
    replica.wait_for_sync(&primary);
    let mut there = Client::connect(&replica, Protocol::Resp2);
    assert_eq!(there.ok("MQ.LATENCY q"), before);
    client.ok("DEBUG RELOAD");
    assert_eq!(client.ok("MQ.LATENCY q"), before);
}
