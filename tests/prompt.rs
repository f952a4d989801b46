//! Waiters are served within milliseconds of the instant that a message becomes ready.
//!
//! How late the machine makes it is not the module's affair, so each way may try often: the best of
//! many must be prompt. What waits for a tick of some clock never is.

mod common;

use common::{contract_of_waiting, Client, Lab, HOUR};
use redis_mq_testkit::ReplyExt;

/// Late, in milliseconds. Any tick that would be cheap enough for a server is longer.
const PROMPT_MS: i64 = 10;
const TRIES: usize = 40;

fn best_of_many(mut lateness: impl FnMut() -> i64) {
    let mut best = i64::MAX;
    for _ in 0..TRIES {
        let late = lateness();
        assert!(late >= 0, "{} ms early", -late);
        best = best.min(late);
        if best <= PROMPT_MS {
            return;
        }
    }
    panic!("{best} ms late at best");
}

/// How much later than `due` the lock of the waiter's delivery began.
fn late(lab: &Lab<'_>, waiter: &mut Client, queue: &str, due: i64) -> i64 {
    let delivery = waiter.delivery();
    lab.client().delivered_at(queue, &delivery) - due
}

fn wait(lab: &Lab<'_>, queue: &str) -> Client {
    lab.waiter(queue, &format!("BLOCK {HOUR} LOCK {HOUR}"))
}

#[test]
fn at_the_end_of_a_delay_begun_before_the_wait() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        best_of_many(|| {
            let queue = lab.queue();
            let at = client.now() + 30;
            client.enqueue(&queue, "p", &format!("ID a AT {at}"));
            late(lab, &mut wait(lab, &queue), &queue, at)
        });
    });
}

#[test]
fn at_the_end_of_a_delay_begun_during_the_wait() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        best_of_many(|| {
            let queue = lab.queue();
            let mut waiter = wait(lab, &queue);
            let at = client.now() + 30;
            client.enqueue(&queue, "p", &format!("ID a AT {at}"));
            late(lab, &mut waiter, &queue, at)
        });
    });
}

#[test]
fn at_the_end_of_a_delay_that_is_sooner_than_all_others() {
    contract_of_waiting(|lab| {
        let (mut client, queue) = (lab.client(), lab.queue());
        client.enqueue(&queue, "p", &format!("DELAY {HOUR}"));
        best_of_many(|| {
            let mut waiter = wait(lab, &queue);
            let at = client.now() + 30;
            client.enqueue(&queue, "p", &format!("AT {at}"));
            late(lab, &mut waiter, &queue, at)
        });
    });
}

#[test]
fn at_the_end_of_a_lock_and_of_one_that_was_set_anew() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        for before_the_wait in [true, false] {
            best_of_many(|| {
                let queue = lab.queue();
                client.enqueue(&queue, "p", "ID a");
                let delivery = client.take(&queue);
                let mut extend = || client.extend(&queue, &delivery, 30).unwrap().int();
                let (due, mut waiter) = if before_the_wait {
                    (extend(), wait(lab, &queue))
                } else {
                    let waiter = wait(lab, &queue);
                    (extend(), waiter)
                };
                late(lab, &mut waiter, &queue, due)
            });
        }
    });
}

#[test]
fn at_the_end_of_a_backoff_and_of_a_window() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        for verdict in ["RETRY BACKOFF 30", "SUCCESS BACKOFF 30"] {
            best_of_many(|| {
                let queue = lab.queue();
                client.enqueue(&queue, "p", "ID a");
                let delivery = client.take(&queue);
                client.enqueue(&queue, "copy", "ID a REQUEUE");
                let begin = client.now();
                client.done(&queue, &delivery, verdict);
                // The waiting copy of a message that is tried again is still there when it is locked.
                let mut waiter = wait(lab, &queue);
                let got = waiter.delivery();
                let due = client.message(&queue, &got.id).int("due-at");
                due - got.lock_ms - (begin + 30)
            });
        }
    });
}

#[test]
fn at_an_enqueue_and_a_release() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        best_of_many(|| {
            let queue = lab.queue();
            let mut waiter = wait(lab, &queue);
            client.enqueue(&queue, "p", "ID a");
            let first = waiter.delivery();
            let late_one = client.delivered_at(&queue, &first) - first.enqueued_at;
            let mut waiter = wait(lab, &queue);
            let now = client.now();
            client.done(&queue, &first, "RELEASE");
            late_one.max(late(lab, &mut waiter, &queue, now))
        });
    });
}

#[test]
fn when_a_queue_that_is_due_soon_is_put_in_place() {
    contract_of_waiting(|lab| {
        let mut client = lab.client();
        best_of_many(|| {
            let (source, queue) = (lab.queue(), lab.queue());
            let at = client.now() + 40;
            client.enqueue(&source, "p", &format!("ID a AT {at}"));
            let mut waiter = wait(lab, &queue);
            client.ok(&format!("RENAME {source} {queue}"));
            late(lab, &mut waiter, &queue, at)
        });
    });
}
