//! Keyspace notifications of class `d`.

mod common;

use common::{contract_on, Client, Lab, Protocol};
use redis_mq_testkit::{ReplyExt, Server, Value};

/// A client that hears of every event in database 0.
struct Listener {
    client: Client,
}

impl Listener {
    fn start(lab: &Lab<'_>, classes: &str) -> Self {
        let mut client = lab.client();
        client.ok(&format!("CONFIG SET notify-keyspace-events {classes}"));
        client.ok("PSUBSCRIBE __keyevent@0__:*");
        Self { client }
    }

    /// The events of `queue` up to now, in their order.
    #[track_caller]
    fn events(&mut self, lab: &Lab<'_>, queue: &str) -> Vec<String> {
        // A message of our own marks where now is.
        lab.client().ok("PUBLISH __keyevent@0__:now now");
        let mut events = Vec::new();
        loop {
            let parts = match self.client.reply().unwrap() {
                Value::Array(parts) => parts,
                Value::Push { data, .. } => data,
                other => panic!("not a message: {other:?}"),
            };
            // In RESP3 the kind is not among the data.
            let (channel, key) = (&parts[parts.len() - 2], &parts[parts.len() - 1]);
            let event = channel.text().replace("__keyevent@0__:", "");
            if event == "now" {
                return events;
            }
            if key.text() == queue {
                events.push(event);
            }
        }
    }

    #[track_caller]
    fn expect(&mut self, lab: &Lab<'_>, queue: &str, expected: &[&str]) {
        assert_eq!(self.events(lab, queue), expected);
    }
}

#[test]
fn every_change_of_a_message_is_an_event() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut listener = Listener::start(lab, "Ed");
        client.enqueue(&queue, "p", "ID a");
        listener.expect(lab, &queue, &["mq.enqueue"]);
        let delivery = client.take(&queue);
        listener.expect(lab, &queue, &["mq.dequeue"]);
        client.done(&queue, &delivery, "RETRY");
        listener.expect(lab, &queue, &["mq.retry"]);
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "");
        listener.expect(lab, &queue, &["mq.dequeue", "mq.done"]);
        client.enqueue(&queue, "p", "ID a");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "ERROR");
        listener.expect(lab, &queue, &["mq.enqueue", "mq.dequeue", "mq.dead"]);
    });
}

#[test]
fn updates_and_requeues_are_events_and_refusals_are_not() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.put(&queue, "a", "locked");
        let mut listener = Listener::start(lab, "Ed");
        client.enqueue(&queue, "p", "ID a");
        client.line(&format!("MQ.DONE {queue} a 5")).unwrap_err();
        client.ok(&format!("MQ.DONE {queue} none 5"));
        client.ok(&format!("MQ.CANCEL {queue} none"));
        client.dequeue(&queue, "");
        client.poll(&queue, "EOQ");
        client.dequeue(&queue, "BLOCK 1");
        client.status(&queue, "a");
        client.info(&queue);
        listener.expect(lab, &queue, &[]);
        client.enqueue(&queue, "p", "ID a REQUEUE");
        let events = listener.events(lab, &queue);
        assert_eq!(events.len(), 1, "{events:?}");
        client.cancel(&queue, "a");
        let events = listener.events(lab, &queue);
        assert_eq!(events.len(), 1, "{events:?}");
    });
}

#[test]
fn a_message_that_dies_of_its_last_lock_is_an_event_by_itself() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut listener = Listener::start(lab, "Ed");
        client.enqueue(&queue, "p", "ID a ATTEMPTS 1");
        client.dequeue(&queue, "LOCK 20").unwrap();
        // Nobody sends anything any more.
        let mut events = listener.events(lab, &queue);
        while !events.contains(&"mq.dead".to_string()) {
            listener
                .client
                .has_reply_within(std::time::Duration::from_secs(60));
            events.extend(listener.events(lab, &queue));
        }
        assert_eq!(events[..2], ["mq.enqueue", "mq.dequeue"]);
        assert_eq!(events.iter().filter(|event| *event == "mq.dead").count(), 1);
    });
}

#[test]
fn a_waiter_that_is_served_is_an_event_after_the_enqueue() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut listener = Listener::start(lab, "Ed");
        let mut waiter = lab.waiter(&queue, "BLOCK 0");
        client.enqueue(&queue, "p", "ID a");
        waiter.delivery();
        listener.expect(lab, &queue, &["mq.enqueue", "mq.dequeue"]);
    });
}

#[test]
fn other_classes_do_not_have_them() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut listener = Listener::start(lab, "Eg$lshzxet");
        client.put(&queue, "a", "dead");
        listener.expect(lab, &queue, &[]);
        client.ok(&format!("DEL {queue}"));
        listener.expect(lab, &queue, &["del"]);
    });
}

#[test]
fn a_replica_tells_of_the_same_events_as_its_primary() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.replica_of(&primary);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let lab = |server| Lab::new(server, protocol);
        let (there, here) = (lab(&primary), lab(&replica));
        let (mut client, queue) = (there.client(), there.queue());
        let mut listeners = [Listener::start(&there, "Ed"), Listener::start(&here, "Ed")];
        client.enqueue(&queue, "p", "ID a");
        client.enqueue(&queue, "p", "ID a UPDATE");
        let delivery = client.take(&queue);
        client.extend(&queue, &delivery, 5000).unwrap();
        client.done(&queue, &delivery, "RELEASE");
        let delivery = client.take(&queue);
        client.done(&queue, &delivery, "ERROR");
        client.cancel(&queue, "a");
        replica.wait_for_sync(&primary);
        let expected = [
            "mq.enqueue",
            "mq.update",
            "mq.dequeue",
            "mq.extend",
            "mq.release",
            "mq.dequeue",
            "mq.dead",
            "mq.cancel",
        ];
        listeners[0].expect(&there, &queue, &expected);
        listeners[1].expect(&here, &queue, &expected);
    }
}

#[test]
fn schedules_are_events_when_they_are_set_and_removed_and_their_runs_as_any_message() {
    contract_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let mut listener = Listener::start(lab, "Ed");
        client.schedule(&queue, "a p EVERY 3600000");
        client.schedule(&queue, "a p EVERY 3600000");
        listener.expect(lab, &queue, &["mq.schedule"]);
        client.ok(&format!("MQ.FIRE {queue} a"));
        listener.expect(lab, &queue, &["mq.enqueue"]);
        client.ok(&format!("MQ.FIRE {queue} a"));
        client.ok(&format!("MQ.UNSCHEDULE {queue} none"));
        client.ok(&format!("MQ.SCHEDULES {queue} 0"));
        listener.expect(lab, &queue, &[]);
        client.ok(&format!("MQ.UNSCHEDULE {queue} a"));
        listener.expect(lab, &queue, &["mq.schedule"]);
        client.cancel(&queue, "a");
        listener.expect(lab, &queue, &["mq.cancel"]);
        let before = lab.server.info("mq", "mq_total_runs");
        let from = client.now() + 20;
        client.schedule(&queue, &format!("b p EVERY 3600000 FROM {from}"));
        client.ok(&format!("MQ.DEQUEUE {queue} BLOCK 0"));
        let expected = ["mq.schedule", "mq.enqueue", "mq.dequeue"];
        listener.expect(lab, &queue, &expected);
        assert_ne!(lab.server.info("mq", "mq_total_runs"), before);
        let tzdata = lab.server.info("mq", "mq_tzdata").unwrap();
        assert!(tzdata.starts_with("20"), "{tzdata}");
    });
}
