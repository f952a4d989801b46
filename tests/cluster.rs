//! Queues in a cluster: a queue lives in one slot, moves with it, and survives its primary.

mod faults;

use faults::{
    counters, dequeue, dequeue_many, done, enqueue, enqueue_many, scene, Delivery, LONG_MS,
};
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{
    call, digest, wait_until, Cluster, ReplyExt, Server, ServerBuilder, Wire, PATIENCE,
};

fn cluster(replicas_each: usize) -> Cluster {
    Cluster::start_with(3, replicas_each, ServerBuilder::new())
}

/// A name for each primary, with a hash tag or without.
fn names(cluster: &Cluster) -> Vec<String> {
    let owner = |name: &str| cluster.owner(name).port();
    let mut found = Vec::new();
    for server in cluster.primaries() {
        let plain = (0..).map(|number| format!("queue:{number}"));
        let tagged = (0..).map(|number| format!("queue:{{tag {number}}}:x"));
        found.extend(plain.into_iter().find(|name| owner(name) == server.port()));
        found.extend(tagged.into_iter().find(|name| owner(name) == server.port()));
    }
    found
}

#[test]
fn every_command_works_on_the_queue_s_own_node_and_is_redirected_by_the_others() {
    let cluster = cluster(0);
    let queues = names(&cluster);
    for queue in queues.clone() {
        let owner = cluster.owner(&queue);
        let mut conn = owner.conn();
        let mut everywhere = cluster.conn();
        let added = call!(everywhere, "MQ.ENQUEUE", &queue, "p", "ID", "a").unwrap();
        assert_eq!(added.items()[0].text(), "added");
        call!(everywhere, "MQ.ENQUEUE", &queue, "p", "ID", "b").unwrap();
        let first = Delivery::of(&call!(everywhere, "MQ.DEQUEUE", &queue).unwrap());
        assert_eq!(first.name(), "a");
        let second = dequeue(&mut conn, &queue, &["BLOCK", "0"]).unwrap();
        call!(everywhere, "MQ.EXTEND", &queue, "a", first.token, 60_000).unwrap();
        assert_eq!(
            call!(everywhere, "MQ.STATUS", &queue, "a").unwrap().text(),
            "locked"
        );
        let map = call!(everywhere, "MQ.GET", &queue, "b").unwrap().fields();
        assert_eq!(map["status"].text(), "locked");
        assert_eq!(
            call!(everywhere, "MQ.DONE", &queue, "a", first.token)
                .unwrap()
                .text(),
            "done"
        );
        assert_eq!(
            done(&mut conn, &queue, &second, &["RETRY"]).unwrap().text(),
            "queued"
        );
        assert_eq!(
            call!(everywhere, "MQ.CANCEL", &queue, "a", "b", "c")
                .unwrap()
                .int(),
            1
        );
        assert_eq!(counters(&mut conn, &queue)["messages"], 0);

        let token = first.token.to_string();
        let commands: &[&[&str]] = &[
            &["MQ.ENQUEUE", &queue, "p"],
            &["MQ.DEQUEUE", &queue],
            &["MQ.DEQUEUE", &queue, "BLOCK", "0"],
            &["MQ.MDEQUEUE", "2", &queue, &queue, "BLOCK", "0"],
            &["MQ.DONE", &queue, "a", &token],
            &["MQ.EXTEND", &queue, "a", &token, "5"],
            &["MQ.STATUS", &queue, "a"],
            &["MQ.GET", &queue, "a"],
            &["MQ.CANCEL", &queue, "a"],
            &["MQ.INFO", &queue],
        ];
        let elsewhere = queues
            .iter()
            .find(|other| cluster.slot(other) != cluster.slot(&queue));
        let both = ["MQ.MDEQUEUE", "2", &queue, elsewhere.unwrap()];
        let error = owner.wire().call(&both).unwrap_err();
        assert!(error.starts_with("CROSSSLOT "), "{error}");
        let moved = format!("MOVED {} 127.0.0.1:{}", cluster.slot(&queue), owner.port());
        for other in cluster
            .primaries()
            .iter()
            .filter(|one| one.port() != owner.port())
        {
            let mut wire = other.wire();
            for command in commands {
                assert_eq!(wire.call(command).unwrap_err(), moved, "{command:?}");
            }
        }
    }
}

#[test]
fn a_queue_moves_with_its_slot_and_its_waiting_consumers_are_redirected() {
    let cluster = cluster(1);
    for queue in names(&cluster) {
        let from = cluster.owner(&queue);
        let to = cluster
            .primaries()
            .iter()
            .find(|one| one.port() != from.port())
            .unwrap();
        let (mut here, mut there) = (from.conn(), to.conn());
        let ids = scene::build(&mut here, &queue);
        let before = SlotView::of(&mut here, &queue, &ids);
        let slot = cluster.slot(&queue);
        // Two of them wait on a queue in the same slot that is still to come.
        let empty = format!("{{{}}}:empty", hash_tag(&queue));
        assert_eq!(cluster.slot(&empty), slot);
        let mut waiters: Vec<_> = (0..2).map(|_| waiting(from, &empty)).collect();
        let mut several = from.wire();
        let other = format!("{{{}}}:other", hash_tag(&queue));
        several.send(&["MQ.MDEQUEUE", "2", &other, &empty, "BLOCK", "0"]);
        waiters.push(several);
        from.wait_for_blocked(3);

        begin_move(slot, from, to);
        // Half way: what is there is served there, what is not is asked for at the new place.
        let new = format!("{{{}}}:new", hash_tag(&queue));
        let asked = from.wire().call(&["MQ.ENQUEUE", &new, "p"]);
        assert_eq!(
            asked.unwrap_err(),
            format!("ASK {slot} 127.0.0.1:{}", to.port())
        );
        assert_eq!(
            call!(here, "MQ.STATUS", &queue, "locked").unwrap().text(),
            "locked"
        );
        end_move(&cluster, slot, from, to);
        let moved = format!("MOVED {slot} 127.0.0.1:{}", to.port());
        for wire in &mut waiters {
            assert_eq!(wire.reply().unwrap_err(), moved);
        }
        assert_eq!(SlotView::of(&mut there, &queue, &ids), before);
        assert_eq!(status_error(&mut here, &queue), moved);

        // A consumer that follows is served at the new place.
        let mut follower = waiting(to, &empty);
        to.wait_for_blocked(1);
        enqueue(&mut there, &empty, "served", &[]);
        assert_eq!(Delivery::of(&follower.reply().unwrap()).name(), "served");
        // For the next queue all is as it was.
        begin_move(slot, to, from);
        end_move(&cluster, slot, to, from);
        assert_eq!(SlotView::of(&mut here, &queue, &ids), before);
    }
}

#[test]
fn locks_and_delays_that_end_during_a_migration_end_at_the_new_place() {
    let cluster = cluster(0);
    let queue = &names(&cluster)[0];
    let from = cluster.owner(queue);
    let to = cluster
        .primaries()
        .iter()
        .find(|one| one.port() != from.port())
        .unwrap();
    let (mut here, mut there) = (from.conn(), to.conn());
    let slot = cluster.slot(queue);
    for end in (20..400).step_by(20) {
        enqueue(&mut here, queue, &format!("held{end}"), &["PRIORITY", "0"]);
        dequeue(&mut here, queue, &["LOCK", &end.to_string()]).unwrap();
        enqueue(
            &mut here,
            queue,
            &format!("delayed{end}"),
            &["DELAY", &end.to_string()],
        );
    }
    enqueue(
        &mut here,
        queue,
        "last",
        &["ATTEMPTS", "1", "PRIORITY", "0"],
    );
    let long = LONG_MS.to_string();
    // Whatever is ready by now goes first.
    let early = dequeue_many(&mut here, queue, 1_000, &["LOCK", &long]);
    begin_move(slot, from, to);
    end_move(&cluster, slot, from, to);
    let mut seen: Vec<_> = early.iter().map(Delivery::name).collect();
    while seen.len() < 39 {
        seen.push(
            dequeue(&mut there, queue, &["BLOCK", "0", "LOCK", &long])
                .unwrap()
                .name(),
        );
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 39, "each comes once");
    assert_eq!(dequeue(&mut there, queue, &[]), None);
}

#[test]
fn an_atomic_slot_migration_takes_the_queue_along() {
    let cluster = cluster(0);
    if !cluster.primaries()[0].version().is_valkey(9, 0) {
        return; // this server has none
    }
    let queue = &names(&cluster)[0];
    let from = cluster.owner(queue);
    let to = cluster
        .primaries()
        .iter()
        .find(|one| one.port() != from.port())
        .unwrap();
    let (mut here, mut there) = (from.conn(), to.conn());
    let ids = scene::build(&mut here, queue);
    enqueue_many(
        &mut here,
        queue,
        "many",
        5_000,
        &["DELAY", &LONG_MS.to_string()],
    );
    let before = SlotView::of(&mut here, queue, &ids);
    let slot = cluster.slot(queue);
    let empty = format!("{{{}}}:empty", hash_tag(queue));
    let mut waiter = waiting(from, &empty);
    let mut several = from.wire();
    let other = format!("{{{}}}:other", hash_tag(queue));
    several.send(&["MQ.MDEQUEUE", "2", &other, &empty, "BLOCK", "0"]);
    from.wait_for_blocked(2);
    let id = Cluster::node_id(to);
    call!(
        here,
        "CLUSTER",
        "MIGRATESLOTS",
        "SLOTSRANGE",
        slot,
        slot,
        "NODE",
        id
    )
    .unwrap();
    let moved = format!("MOVED {slot} 127.0.0.1:{}", to.port());
    assert_eq!(waiter.reply().unwrap_err(), moved);
    assert_eq!(several.reply().unwrap_err(), moved);
    wait_until(PATIENCE, || {
        call!(there, "MQ.INFO", queue).is_ok_and(|info| !info.is_nil())
    });
    assert_eq!(SlotView::of(&mut there, queue, &ids), before);
    assert_eq!(status_error(&mut here, queue), moved);
}

#[test]
fn a_killed_primary_s_queues_go_on_at_its_replica() {
    let mut cluster = cluster(1);
    let all = names(&cluster);
    let port = cluster.primaries()[0].port();
    let hit: Vec<_> = all
        .iter()
        .filter(|name| cluster.owner(name).port() == port)
        .collect();
    assert_eq!(hit.len(), 2);
    let mut taken = Vec::new();
    for queue in &hit {
        let mut conn = cluster.owner(queue).conn();
        enqueue_many(&mut conn, queue, "m", 10, &[]);
        taken.push(dequeue_many(
            &mut conn,
            queue,
            3,
            &["LOCK", &LONG_MS.to_string()],
        ));
        enqueue(&mut conn, queue, "delayed", &["DELAY", "500"]);
        let mut last = dequeue_many(&mut conn, queue, 1, &["LOCK", "500"]);
        taken.last_mut().unwrap().append(&mut last);
    }
    let mut waiter = waiting(
        &cluster.primaries()[0],
        &format!("{{{}}}:none", hash_tag(hit[0])),
    );
    cluster.primaries()[0].wait_for_blocked(1);
    let replica = &cluster.replicas()[0];
    replica.wait_for_sync(&cluster.primaries()[0]);
    cluster.primary_mut(0).kill9();
    waiter.frame().unwrap_err();
    let replica = &cluster.replicas()[0];
    wait_until(PATIENCE, || {
        call!(replica.conn(), "ROLE").unwrap().items()[0].text() == "master"
    });
    cluster.wait_until_ok();
    let mut conn = replica.conn();
    for (queue, taken) in hit.iter().zip(&taken) {
        assert_eq!(
            done(&mut conn, queue, &taken[0], &[]).unwrap().text(),
            "done"
        );
        let mut names = Vec::new();
        while names.len() < 8 {
            let one = dequeue(&mut conn, queue, &["BLOCK", "0", "LOCK", "36000000"]).unwrap();
            assert!(taken.iter().all(|old| old.token < one.token));
            names.push(one.name());
        }
        names.sort();
        let expected = ["delayed", "m3", "m4", "m5", "m6", "m7", "m8", "m9"];
        assert_eq!(names, expected, "{queue}");
    }
}

/// What a client can see of a queue whose slot has no room for copies.
#[derive(Debug, PartialEq, Eq)]
struct SlotView {
    digest: String,
    messages: Vec<String>,
    counters: String,
}

impl SlotView {
    #[track_caller]
    fn of(conn: &mut Connection, queue: &str, ids: &[Vec<u8>]) -> Self {
        let message = |id: &Vec<u8>, conn: &mut Connection| {
            let map = call!(*conn, "MQ.GET", queue, id).expect("MQ.GET answers");
            let map = if map.is_nil() {
                Default::default()
            } else {
                map.fields()
            };
            format!("{} {map:?}", id.escape_ascii())
        };
        Self {
            digest: digest(conn, queue),
            messages: ids.iter().map(|id| message(id, conn)).collect(),
            counters: format!("{:?}", faults::stable_counters(conn, queue)),
        }
    }
}

fn waiting(server: &Server, queue: &str) -> Wire {
    let mut wire = server.wire();
    wire.send(&["MQ.DEQUEUE", queue, "BLOCK", "0"]);
    wire
}

/// What makes another key share the slot.
fn hash_tag(name: &str) -> &str {
    match name
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
    {
        Some((tag, _)) => tag,
        None => name,
    }
}

#[track_caller]
fn status_error(conn: &mut Connection, queue: &str) -> String {
    call!(*conn, "MQ.STATUS", queue, "any").unwrap_err()
}

fn begin_move(slot: usize, from: &Server, to: &Server) {
    let (from_id, to_id) = (Cluster::node_id(from), Cluster::node_id(to));
    call!(to.conn(), "CLUSTER", "SETSLOT", slot, "IMPORTING", from_id).unwrap();
    call!(from.conn(), "CLUSTER", "SETSLOT", slot, "MIGRATING", to_id).unwrap();
}

fn end_move(cluster: &Cluster, slot: usize, from: &Server, to: &Server) {
    let mut conn = from.conn();
    let keys = call!(conn, "CLUSTER", "GETKEYSINSLOT", slot, 10).unwrap();
    for key in keys.items() {
        call!(
            conn,
            "MIGRATE",
            "127.0.0.1",
            to.port(),
            key.text(),
            0,
            10_000
        )
        .unwrap();
    }
    let id = Cluster::node_id(to);
    for node in cluster.primaries() {
        call!(node.conn(), "CLUSTER", "SETSLOT", slot, "NODE", &id).unwrap();
    }
}
