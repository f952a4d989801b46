//! Waiters that are taken away: nothing is locked for a client that has gone, and every call gets one
//! reply.

mod common;

use common::{contract_of_waiting, contract_of_waiting_on, words, Client, Lab, HOUR};
use redis_mq_testkit::{wait_until, ReplyExt, Server, PATIENCE};

/// After the waiter has gone a message stays for the next consumer.
fn nothing_is_locked_for_the_gone(lab: &Lab<'_>, db: u32, queue: &str) {
    let mut client = lab.client();
    client.ok(&format!("SELECT {db}"));
    client.enqueue(queue, "p", "ID a");
    assert_eq!(client.status(queue, "a").as_deref(), Some("queued"));
    let delivery = client.take(queue);
    assert_eq!(delivery.attempt, 1);
    assert_eq!(client.done(queue, &delivery, ""), "done");
}

#[test]
fn unblocked_by_timeout_gets_null() {
    contract_of_waiting(|lab| {
        for db in [0, 5] {
            for how in ["", "TIMEOUT"] {
                let (mut client, queue) = (lab.client(), lab.queue());
                let mut waiter = lab.waiter_in(db, &queue, "BLOCK 0");
                let id = waiter.id;
                assert_eq!(client.ok(&format!("CLIENT UNBLOCK {id} {how}")).int(), 1);
                waiter.null();
                nothing_is_locked_for_the_gone(lab, db, &queue);
                assert_eq!(waiter.ok("PING").text(), "PONG");
            }
        }
    });
}

#[test]
fn unblocked_by_error_gets_the_servers_error() {
    contract_of_waiting(|lab| {
        for db in [0, 5] {
            let (mut client, queue) = (lab.client(), lab.queue());
            let mut waiter = lab.waiter_in(db, &queue, "BLOCK 0");
            let id = waiter.id;
            assert_eq!(client.ok(&format!("CLIENT UNBLOCK {id} ERROR")).int(), 1);
            let error = waiter.reply().unwrap_err();
            assert!(error.starts_with("UNBLOCKED "), "{error}");
            nothing_is_locked_for_the_gone(lab, db, &queue);
            assert_eq!(waiter.ok("PING").text(), "PONG");
        }
    });
}

#[test]
fn a_killed_waiter_gets_nothing() {
    contract_of_waiting(|lab| {
        for db in [0, 5] {
            let (mut client, queue) = (lab.client(), lab.queue());
            let mut waiter = lab.waiter_in(db, &queue, "BLOCK 0");
            let id = waiter.id;
            assert_eq!(client.ok(&format!("CLIENT KILL ID {id}")).int(), 1);
            waiter.frame().unwrap_err();
            lab.wait_until_gone(id);
            nothing_is_locked_for_the_gone(lab, db, &queue);
        }
    });
}

#[test]
fn a_waiter_that_disconnects_gets_nothing() {
    contract_of_waiting(|lab| {
        for db in [0, 5] {
            let queue = lab.queue();
            let waiter = lab.waiter_in(db, &queue, "BLOCK 0");
            let id = waiter.id;
            drop(waiter);
            lab.wait_until_gone(id);
            nothing_is_locked_for_the_gone(lab, db, &queue);
        }
    });
}

#[test]
fn when_the_first_waiter_goes_the_second_is_served() {
    contract_of_waiting(|lab| {
        for how in ["drop", "kill", "unblock"] {
            let (mut client, queue) = (lab.client(), lab.queue());
            let first = lab.waiter(&queue, "BLOCK 0");
            let mut second = lab.waiter(&queue, &format!("BLOCK 0 LOCK {HOUR}"));
            let id = first.id;
            let mut kept = None;
            match how {
                "drop" => drop(first),
                "kill" => drop(client.ok(&format!("CLIENT KILL ID {id}"))),
                _ => {
                    client.ok(&format!("CLIENT UNBLOCK {id}"));
                    kept = Some(first);
                }
            }
            if kept.is_none() {
                lab.wait_until_gone(id);
            }
            client.enqueue(&queue, "p", "ID a");
            let delivery = second.delivery();
            assert_eq!(
                (delivery.id().as_str(), delivery.attempt),
                ("a", 1),
                "{how}"
            );
        }
    });
}

#[test]
fn a_client_that_goes_right_after_its_command_leaves_no_trace() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        for _ in 0..50 {
            let mut waiter = lab.client();
            let id = waiter.id;
            waiter.send(&words(&lab.wait(&queue, "BLOCK 0")));
            drop(waiter);
            lab.wait_until_gone(id);
        }
        client.enqueue(&queue, "p", "ID a");
        assert_eq!(client.take(&queue).attempt, 1);
    });
}

#[test]
fn a_waiter_whose_user_is_deleted_gets_nothing() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.ok(&format!("ACL SETUSER {queue} on nopass ~* +@all"));
        let mut waiter = lab.client();
        waiter.ok(&format!("AUTH {queue} any"));
        lab.block(&mut waiter, &lab.wait(&queue, "BLOCK 0"));
        client.ok(&format!("ACL DELUSER {queue}"));
        waiter.frame().unwrap_err();
        lab.wait_until_gone(waiter.id);
        nothing_is_locked_for_the_gone(lab, 0, &queue);
    });
}

#[test]
fn the_blocked_consumers_are_counted_back_to_none() {
    contract_of_waiting_on(Server::builder(), |lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        let blocked = || lab.server.info("mq", "mq_blocked_consumers");
        let waiters: Vec<Client> = (0..8).map(|_| lab.waiter(&queue, "BLOCK 0")).collect();
        let timed: Vec<Client> = (0..2).map(|_| lab.waiter(&queue, "BLOCK 50")).collect();
        let mut waiters = waiters.into_iter();
        let mut next = || waiters.next().unwrap();
        let (mut served, unblocked, refused, killed, gone) =
            (next(), next(), next(), next(), next());
        client.ok(&format!("CLIENT UNBLOCK {}", unblocked.id));
        client.ok(&format!("CLIENT UNBLOCK {} ERROR", refused.id));
        client.ok(&format!("CLIENT KILL ID {}", killed.id));
        drop(gone);
        client.enqueue(&queue, "p", "ID a");
        served.delivery();
        for mut waiter in timed {
            waiter.null();
        }
        wait_until(PATIENCE, || blocked().as_deref() == Some("3"));
        drop(waiters);
        wait_until(PATIENCE, || blocked().as_deref() == Some("0"));
    });
}
