//! What a change of roles does to queues and to those who wait: promotion, FAILOVER, paused writes, a
//! demoted primary, sentinels.

mod faults;

use std::collections::HashSet;
use std::thread;
use std::time::Instant;

use faults::ledger::Kept;
use faults::mix::assert_same_data;
use faults::roles::{fail_over, kill_and_promote};
use faults::workers::{Crew, Plan};
use faults::{
    counter, counters, dataset_digest, dequeue, dequeue_many, done, enqueue, enqueue_many, ms,
    random, rounds, server_number, status, Delivery, LONG_MS,
};
use rand::Rng;
use redis_mq_testkit::{
    call, wait_until, Proxy, ReplyExt, Sentinels, Server, ServerBuilder, PATIENCE,
};

fn server() -> ServerBuilder {
    // The tests read offsets and need no talk between the servers while nothing happens.
    Server::builder().config("repl-ping-replica-period", 3600)
}

fn pair() -> (Server, Server) {
    let (primary, replica) = (server().start(), server().start());
    replica.replica_of(&primary);
    (primary, replica)
}

#[test]
fn a_promoted_replica_goes_on_where_the_primary_was() {
    let (mut primary, replica) = pair();
    let mut conn = primary.conn();
    for (id, options) in [
        ("a", &["PRIORITY", "0"]),
        ("b", &["PRIORITY", "0"]),
        ("c", &["DELAY", "300"]),
    ] {
        enqueue(&mut conn, "q", id, options);
    }
    let held = dequeue(&mut conn, "q", &["LOCK", "300"]).unwrap();
    replica.wait_for_sync(&primary);
    primary.kill9();
    replica.promote();

    let mut conn = replica.conn();
    let ready = dequeue(&mut conn, "q", &[]).unwrap();
    assert_eq!((ready.name(), ready.attempt), ("b".to_string(), 1));
    assert!(ready.token > held.token);
    // Both the lock and the delay end by themselves, for a consumer that waits.
    let mut rest: Vec<_> = (0..2)
        .map(|_| dequeue(&mut conn, "q", &["BLOCK", "0"]).unwrap())
        .map(|one| (one.name(), one.attempt))
        .collect();
    rest.sort();
    assert_eq!(rest, [("a".to_string(), 2), ("c".to_string(), 1)]);
    assert!(done(&mut conn, "q", &held, &[])
        .unwrap_err()
        .starts_with("STALE "));
}

#[test]
fn a_verdict_reaches_the_new_primary_with_the_old_token() {
    let (mut primary, replica) = pair();
    let mut conn = primary.conn();
    enqueue_many(&mut conn, "q", "m", 4, &[]);
    let taken = dequeue_many(&mut conn, "q", 4, &["LOCK", &LONG_MS.to_string()]);
    replica.wait_for_sync(&primary);
    primary.kill9();
    replica.promote();
    let mut conn = replica.conn();
    for (delivery, verdict, became) in [
        (&taken[0], &[][..], "done"),
        (&taken[1], &["RETRY"], "queued"),
        (&taken[2], &["ERROR"], "dead"),
        (&taken[3], &["BACKOFF", "60000"], "done-with-backoff"),
    ] {
        assert_eq!(
            done(&mut conn, "q", delivery, verdict).unwrap().text(),
            became
        );
    }
    assert!(done(&mut conn, "q", &taken[0], &[]).unwrap().is_nil());
}

#[test]
fn tokens_never_repeat_even_when_the_newest_deliveries_were_lost() {
    for _ in 0..rounds(3) {
        let (mut primary, replica) = (server().start(), server().start());
        let proxy = Proxy::start(primary.addr());
        replica.replica_of_port(proxy.addr().port());
        replica.wait_for_sync(&primary);
        let mut conn = primary.conn();
        enqueue_many(&mut conn, "q", "m", 500, &[]);
        let known = dequeue_many(&mut conn, "q", 50, &[]);
        replica.wait_for_sync(&primary);
        // From here on the replica learns nothing more.
        proxy.refuse();
        let lost = dequeue_many(&mut conn, "q", 200, &[]);
        let finished_too_late = done(&mut conn, "q", &lost[0], &[]).unwrap();
        assert_eq!(finished_too_late.text(), "done");
        primary.kill9();
        replica.promote();

        let mut conn = replica.conn();
        let new = dequeue_many(&mut conn, "q", 500, &["LOCK", &LONG_MS.to_string()]);
        assert_eq!(new.len(), 450, "the lost deliveries are made again");
        let tokens = |all: &[Delivery]| all.iter().map(|one| one.token).collect::<HashSet<_>>();
        let all = [tokens(&known), tokens(&lost), tokens(&new)];
        assert_eq!(all[0].len() + all[1].len() + all[2].len(), 700);
        assert!(all[2].is_disjoint(&all[0]) && all[2].is_disjoint(&all[1]));
        // A consumer of a lost delivery cannot end that of another.
        for delivery in &lost {
            let error = done(&mut conn, "q", delivery, &[]).unwrap_err();
            assert!(error.starts_with("STALE "), "{error}");
        }
        let holders = new.iter().map(|one| status(&mut conn, "q", &one.id));
        assert!(holders
            .into_iter()
            .all(|status| status.as_deref() == Some("locked")));
    }
}

#[test]
fn nothing_is_served_and_nothing_dies_while_writes_are_paused() {
    for mode in ["WRITE", "ALL"] {
        // A machine that is busy elsewhere may take too long over the preparations.
        let in_time = (0..20).any(|_| everything_falls_due_while_paused(mode));
        assert!(in_time, "{mode}");
    }
}

/// Lets all that time can do fall due within a pause; false if some of it was done before.
fn everything_falls_due_while_paused(mode: &str) -> bool {
    let (primary, replica) = pair();
    let mut conn = primary.conn();
    for (id, options) in [
        ("held", &[][..]),
        ("held-last", &["ATTEMPTS", "1"]),
        ("window", &[]),
        ("window-copy", &[]),
    ] {
        enqueue(&mut conn, "q", id, options);
    }
    let taken = dequeue_many(&mut conn, "q", 4, &["LOCK", "1000"]);
    done(&mut conn, "q", &taken[2], &["BACKOFF", "1000"]).unwrap();
    done(&mut conn, "q", &taken[3], &["BACKOFF", "1000"]).unwrap();
    enqueue(&mut conn, "q", "window-copy", &["REQUEUE"]);
    enqueue(&mut conn, "q", "delayed", &["DELAY", "1000"]);
    enqueue(&mut conn, "idle", "last", &["ATTEMPTS", "1"]);
    dequeue(&mut conn, "idle", &["LOCK", "1000"]).unwrap();
    let mut waiters: Vec<_> = (0..3).map(|_| primary.wire()).collect();
    for wire in &mut waiters {
        wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0", "LOCK", "36000000"]);
    }
    // PAUSE ALL holds up also the client that would end it.
    let length = if mode == "ALL" { 2_500 } else { 120_000 };
    wait_until(PATIENCE, || {
        let blocked = server_number(&primary, "clients", "blocked_clients");
        blocked == 3 || counter(&mut conn, "q", "total-delivered") > 4
    });
    replica.wait_for_sync(&primary);
    let begun = Instant::now();
    call!(conn, "CLIENT", "PAUSE", length, mode).unwrap();
    // Its writes before the pause have arrived, or they would in the middle of it.
    let before = dataset_digest_at_rest(&replica);
    let mut here = replica.conn();
    let early = counters(&mut here, "q")["total-expired-locks"] > 0
        || status(&mut here, "q", "window").as_deref() != Some("done-with-backoff")
        || status(&mut here, "q", "window-copy").as_deref() != Some("done-with-requeue")
        || counter(&mut here, "q", "total-delivered") > 4
        || counter(&mut here, "idle", "total-dead") > 0;
    if early {
        return false;
    }

    wait_until(PATIENCE, || begun.elapsed() > ms(1_300));
    if mode == "WRITE" {
        // Reads go on, and tell that everything is over.
        let mut reader = primary.conn();
        assert_eq!(status(&mut reader, "q", "held").as_deref(), Some("queued"));
        assert_eq!(
            status(&mut reader, "q", "held-last").as_deref(),
            Some("dead")
        );
        assert_eq!(dataset_digest(&mut reader), before, "time has acted");
    }
    let served = waiters.iter_mut().any(|wire| wire.has_reply_within(ms(5)));
    let after = dataset_digest(&mut here);
    if begun.elapsed() > ms(length) {
        return false; // slept over the end of the pause
    }
    assert!(!served, "{mode}: served while paused");
    assert_eq!(after, before, "{mode}: time has acted");

    call!(primary.conn(), "CLIENT", "UNPAUSE").unwrap();
    let mut served: Vec<_> = waiters
        .iter_mut()
        .map(|wire| Delivery::of(&wire.reply().unwrap()))
        .map(|one| (one.name(), one.attempt))
        .collect();
    served.sort();
    let expected = [("delayed", 1), ("held", 2), ("window-copy", 1)];
    assert_eq!(
        served,
        expected.map(|(id, attempt)| (id.to_string(), attempt)),
        "{mode}"
    );
    faults::wait_for_status(&mut conn, "q", "window", None);
    wait_until(PATIENCE, || counter(&mut conn, "idle", "total-dead") == 1);
    assert_same_data(&primary, &[&replica]);
    true
}

/// The replica's digest once nothing arrives any more.
#[track_caller]
fn dataset_digest_at_rest(replica: &Server) -> String {
    let mut conn = replica.conn();
    let mut last = dataset_digest(&mut conn);
    let mut same = 0;
    wait_until(PATIENCE, || {
        let now = dataset_digest(&mut conn);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 5
    });
    last
}

#[test]
fn a_blocked_consumer_gets_its_null_while_writes_are_paused() {
    let (primary, _replica) = pair();
    let mut conn = primary.conn();
    enqueue(&mut conn, "q", "a", &["DELAY", &LONG_MS.to_string()]);
    let mut wire = primary.wire();
    wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "1000"]);
    primary.wait_for_blocked(1);
    call!(conn, "CLIENT", "PAUSE", 60_000, "WRITE").unwrap();
    assert!(wire.reply().unwrap().is_nil(), "its own deadline holds");
    call!(conn, "CLIENT", "UNPAUSE").unwrap();
    assert_eq!(counter(&mut conn, "q", "total-delivered"), 0);
}

#[test]
fn a_demoted_primary_lets_its_consumers_go_and_locks_nothing_for_them() {
    let (primary, other) = (server().start(), server().start());
    let mut conn = primary.conn();
    enqueue(&mut conn, "q", "later", &["DELAY", "200"]);
    enqueue(&mut other.conn(), "q", "there", &[]);
    let mut waiters: Vec<_> = (0..5)
        .map(|_| {
            let mut wire = primary.wire();
            wire.send(&["MQ.DEQUEUE", "q", "BLOCK", "0"]);
            wire
        })
        .collect();
    let mut several = primary.wire();
    several.send(&["MQ.MDEQUEUE", "2", "none", "q", "BLOCK", "0"]);
    waiters.push(several);
    primary.wait_for_blocked(6);
    primary.replica_of(&other);
    for wire in &mut waiters {
        let error = wire.reply().unwrap_err();
        assert!(error.starts_with("UNBLOCKED "), "{error}");
    }
    let mut wire = primary.wire();
    let error = wire.call(&["MQ.DEQUEUE", "q", "BLOCK", "0"]).unwrap_err();
    assert!(error.starts_with("READONLY "), "{error}");
    assert_eq!(
        dequeue(&mut other.conn(), "q", &[]).unwrap().name(),
        "there"
    );
    assert_eq!(counter(&mut other.conn(), "q", "total-delivered"), 1);
    assert_same_data(&other, &[&primary]);
}

#[test]
fn locks_and_delays_that_end_during_a_failover_end_on_the_new_primary() {
    for _ in 0..rounds(2) {
        let (first, second) = pair();
        let mut conn = first.conn();
        for number in 1..20 {
            enqueue(&mut conn, "q", &format!("held-{number}"), &[]);
        }
        // At once, so that none is back before the last is taken.
        let mut pipeline = redis_mq_testkit::redis::pipe();
        pipeline.atomic();
        for number in 1..20 {
            pipeline
                .cmd("MQ.DEQUEUE")
                .arg("q")
                .arg("LOCK")
                .arg(number * 50);
        }
        pipeline.exec(&mut conn).unwrap();
        for number in 1..20 {
            let delay = (number * 50).to_string();
            enqueue(
                &mut conn,
                "q",
                &format!("delayed-{number}"),
                &["DELAY", &delay],
            );
        }
        let mut waiter = first.wire();
        waiter.send(&["MQ.DEQUEUE", "none", "BLOCK", "0"]);
        first.wait_for_blocked(1);
        fail_over(&first, &second);
        assert!(waiter.reply().unwrap_err().starts_with("UNBLOCKED "));
        let mut conn = second.conn();
        let mut seen = HashSet::new();
        while seen.len() < 38 {
            let one = dequeue(
                &mut conn,
                "q",
                &["BLOCK", "0", "LOCK", &LONG_MS.to_string()],
            )
            .unwrap();
            assert_eq!(
                one.attempt,
                if one.name().starts_with("held") { 2 } else { 1 }
            );
            assert!(seen.insert(one.name()), "{} comes twice", one.name());
        }
        assert_eq!(dequeue(&mut conn, "q", &[]), None);
        assert_same_data(&second, &[&first]);
    }
}

#[test]
fn handing_the_role_to_and_fro_loses_nothing_and_delivers_nothing_twice() {
    let mut rng = random();
    let (first, second) = pair();
    let plan = Plan::new("q", vec![first.addr(), second.addr()]);
    let mut crew = Crew::new(plan, rng.random());
    (0..2).for_each(|_| crew.produce(if faults::soaking() { 200_000 } else { 3_000 }));
    (0..4).for_each(|_| crew.consume());
    let mut servers = [&first, &second];
    let mut times = 0;
    while crew.is_producing() || times < 4 {
        thread::sleep(ms(rng.random_range(50..250))); // the moment of the fault is to be random
        fail_over(servers[0], servers[1]);
        servers.reverse();
        times += 1;
    }
    let ledger = crew.finish(PATIENCE * 2);
    // FAILOVER waits until the other has everything: nothing at all may be lost.
    ledger.check(Kept::Everything);
    let totals = ledger.totals();
    println!("{times} failovers, {totals:?}");
    let mut conn = servers[0].conn();
    let enqueued = counter(&mut conn, "q", "total-enqueued") as usize;
    assert!((totals.accepted..=totals.attempted).contains(&enqueued));
    assert_same_data(servers[0], &[servers[1]]);
}

#[test]
fn a_killed_primary_costs_nothing_that_its_replica_confirmed() {
    let mut rng = random();
    let (mut first, mut second) = pair();
    let mut plan = Plan::new("q", vec![first.addr(), second.addr()]);
    plan.confirm = true;
    let mut crew = Crew::new(plan, rng.random());
    (0..2).for_each(|_| crew.produce(if faults::soaking() { 100_000 } else { 1_500 }));
    (0..3).for_each(|_| crew.consume());
    let mut kills = 0;
    while crew.is_producing() || kills < 4 {
        thread::sleep(ms(rng.random_range(100..300))); // the moment of the fault is to be random
        kill_and_promote(&mut first, &mut second);
        kills += 1;
    }
    let ledger = crew.finish(PATIENCE * 2);
    ledger.check(Kept::Confirmed);
    println!("{kills} kills, {:?}", ledger.totals());
    assert_same_data(&first, &[&second]);
}

#[test]
fn sentinels_move_consumers_to_another_primary_without_loss() {
    let mut rng = random();
    let (mut primary, replica) = pair();
    let sentinels = Sentinels::start(3, &primary, 1);
    let mut plan = Plan::new("q", vec![primary.addr(), replica.addr()]);
    plan.confirm = true;
    let mut crew = Crew::new(plan, rng.random());
    (0..2).for_each(|_| crew.produce(usize::MAX));
    (0..3).for_each(|_| crew.consume());
    let ledger = std::sync::Arc::clone(crew.ledger());
    wait_until(PATIENCE, || ledger.totals().finished > 200);
    primary.kill9();
    assert_eq!(sentinels.wait_for_failover(&primary), replica.addr());
    let before = ledger.totals();
    wait_until(PATIENCE, || {
        ledger.totals().delivered > before.delivered + 10
    });
    crew.enough();
    crew.finish(PATIENCE * 2).check(Kept::Confirmed);
    println!("{before:?}, {:?}", ledger.totals());
}
