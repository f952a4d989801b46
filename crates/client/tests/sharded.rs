//! One queue over several servers: producing, looking, repairing, limiting, growing.

mod common;
#[path = "common/shards.rs"]
mod shards;

use std::collections::HashMap;

use common::{connection, fresh_name, with_id, S};
use redis_mq_client::{
    redis, EnqueueOptions, Enqueued, Error, GroupSelection, LimitChanges, Peek, Rate, ShardedQueue,
    Status,
};
use shards::{across, four, Consumer};

#[tokio::test]
async fn messages_lie_by_group_or_id_and_are_found_everywhere() {
    let (name, servers) = (fresh_name(), four());
    let queue = across(&servers, &name).await;
    let values: Vec<u32> = (0..200).collect();
    let messages = values
        .iter()
        .map(|n| (n, EnqueueOptions::new().id(format!("m:{n}"))));
    for (n, outcome) in queue
        .enqueue_many(messages)
        .await
        .unwrap()
        .iter()
        .enumerate()
    {
        let id = format!("m:{n}");
        assert_eq!(
            outcome.as_ref().unwrap(),
            &Enqueued::Added {
                id: id.as_str().into()
            }
        );
        let shard = queue.shard_of(&id);
        assert_eq!(shard.status(&id).await.unwrap(), Some(Status::Queued));
        assert_eq!(queue.status(&id).await.unwrap(), Some(Status::Queued));
    }
    for info in queue.info().await.all().unwrap() {
        assert!((20..=80).contains(&info.unwrap().queued));
    }
    // The same id again, one by one and together.
    let again = queue.enqueue_with(&7, with_id("m:7")).await.unwrap();
    assert_eq!(again.refused_by(), Some(Status::Queued));
    let again = queue.enqueue_many([(&7, with_id("m:7"))]).await.unwrap();
    assert_eq!(
        again[0].as_ref().unwrap().refused_by(),
        Some(Status::Queued)
    );
    // Without an id or a group the id is made here, and decides.
    let Enqueued::Added { id } = queue.enqueue(&1_000).await.unwrap() else {
        panic!("not added")
    };
    assert_eq!(
        queue.shard_of(id.as_bytes()).status(&id).await.unwrap(),
        Some(Status::Queued)
    );
    // A group is at one place, whatever the ids, which are found there all the same.
    for n in 0..20 {
        let options = with_id(&format!("of-group:{n}")).group("customer-7");
        queue.enqueue_with(&n, options).await.unwrap();
    }
    let shard = queue.shard_of("customer-7");
    for n in 0..20 {
        let id = format!("of-group:{n}");
        assert_eq!(shard.status(&id).await.unwrap(), Some(Status::Queued));
        assert_eq!(queue.status(&id).await.unwrap(), Some(Status::Queued));
        assert_eq!(queue.get(&id).await.unwrap().unwrap().value, n);
    }
    assert_eq!(queue.info().await.total().queued, 221);
    assert!(queue.cancel("of-group:3").await.unwrap());
    assert!(!queue.cancel("of-group:3").await.unwrap());
    assert_eq!(queue.status("nobody").await.unwrap(), None);
    let many = queue.cancel_many((0..200).map(|n| format!("m:{n}"))).await;
    assert_eq!(many.sum(), 200);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_anything_is_sent() {
    let servers = four();
    let connection = connection(servers[0].url()).await;
    for (name, shards) in [("q", 0), ("q", 1_025), ("", 2), ("q{x}", 2)] {
        let refused = ShardedQueue::<u32>::new(connection.clone(), name, shards);
        assert!(
            matches!(refused, Err(Error::InvalidOption { .. })),
            "{name} {shards}"
        );
    }
    let name = fresh_name();
    let queue = across(&servers, &name).await;
    for former in [0, 4, 5] {
        assert!(queue.clone().grown_from(former).is_err());
    }
    let wrong = [(&1, with_id("a")), (&2, EnqueueOptions::new().priority(10))];
    assert!(queue.enqueue_many(wrong).await.is_err());
    assert_eq!(queue.info().await.total().messages, 0);
    let few = LimitChanges::new().in_flight(3);
    assert!(
        queue.set_limits(&few).await.is_err(),
        "less than one for each"
    );
    assert!(queue.purge_all(0).await.all().is_err());
    assert!(queue.redrive_oldest(10_001).await.all().is_err());
}

#[tokio::test]
async fn limits_pauses_and_dead_letters_are_those_of_the_whole() {
    let (name, servers) = (fresh_name(), four());
    let consumer = Consumer::new(&servers).await;
    let queue = across(&servers, &name).await;
    let limits = LimitChanges::new()
        .length(42)
        .rate(Rate::new(1_000_000, S(1)))
        .attempts(1);
    queue.set_limits(&limits).await.unwrap().all().unwrap();
    let set: Vec<_> = queue.limits().await.all().unwrap();
    let lengths: Vec<_> = set.iter().map(|one| one.as_ref().unwrap().length).collect();
    assert_eq!(lengths, [11, 11, 10, 10].map(Some));
    let rate = Some(Rate::new(1_000_000, S(4)));
    assert!(set.iter().all(|one| one.as_ref().unwrap().rate == rate));
    // However they are spread: no more than the whole may have.
    let (mut added, mut full) = (Vec::new(), 0);
    for n in 0..200 {
        let id = format!("m:{n}");
        match queue.enqueue_with(&n, with_id(&id)).await {
            Ok(outcome) if outcome.is_accepted() => added.push(id),
            Err(Error::Full(_)) => full += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((added.len(), full), (42, 158));

    // Paused as a whole, and resumed.
    queue.pause_for(S(3_600)).await.all().unwrap();
    let total = queue.info().await.total();
    assert!(total.paused && total.paused_until.is_some());
    for shard in queue.shards() {
        assert_eq!(consumer.take(shard).await, None);
    }
    assert_eq!(queue.resume().await.all().unwrap(), [true; 4]);
    queue.pause().await.all().unwrap();
    queue.resume().await.all().unwrap();

    // The rate is let go, so that what follows need not wait for it.
    let no_rate = LimitChanges::new().rate(None);
    queue.set_limits(&no_rate).await.unwrap().all().unwrap();

    // All of them die; the letters are seen, and go back in steps, each no larger than asked for.
    let mut dead = 0;
    for shard in queue.shards() {
        while let Some((id, token)) = consumer.take(shard).await {
            consumer.done(shard, &id, &token, "ERROR REASON why").await;
            dead += 1;
        }
    }
    assert_eq!((dead, queue.info().await.total().dead), (42, 42));
    let letters = queue
        .peek(&Peek::new().status(Status::Dead).count(100))
        .await;
    let letters: usize = letters.all().unwrap().iter().map(Vec::len).sum();
    assert_eq!(letters, 42);
    assert_eq!(queue.redrive([&added[0], &added[1]]).await.sum(), 2);
    assert_eq!(queue.redrive_oldest(11).await.sum(), 11);
    assert_eq!(queue.redrive_oldest(10_000).await.sum(), 29);
    assert_eq!(queue.redrive_oldest(10_000).await.sum(), 0);

    // A group is whole at its shard: nothing of its limits is shared out.
    let two = LimitChanges::new().in_flight(2);
    queue.set_group_limits("g", &two).await.all().unwrap();
    queue
        .set_group_limits(GroupSelection::Each, &two)
        .await
        .all()
        .unwrap();
    queue.pause_group("g").await.unwrap();
    assert!(queue.resume_group("g").await.unwrap());
    assert!(!queue.resume_group("g").await.unwrap());
    assert!(queue.pause_group_for("g", S(60)).await.unwrap().is_some());

    assert_eq!(queue.purge(Status::Queued, 5).await.sum(), 5);
    assert_eq!(queue.purge_all(1_000).await.sum(), 37);
    assert_eq!(queue.info().await.total().messages, 0);
}

#[tokio::test]
async fn a_shard_that_is_down_fails_its_own_messages_only() {
    let (name, mut servers) = (fresh_name(), four());
    let queue = across(&servers, &name).await;
    servers[2].kill9();
    let values: Vec<u32> = (0..100).collect();
    let messages = values.iter().map(|n| (n, with_id(&n.to_string())));
    let outcomes = queue.enqueue_many(messages).await.unwrap();
    let lost = queue.shards()[2].name().to_vec();
    let mut failed = 0;
    for (n, outcome) in outcomes.iter().enumerate() {
        let is_lost = queue.shard_of(n.to_string()).name() == lost;
        assert_eq!(outcome.is_err(), is_lost, "{n}: {outcome:?}");
        failed += usize::from(is_lost);
    }
    assert!((5..=60).contains(&failed), "{failed}");
    let info = queue.info().await;
    assert_eq!(
        info.failed().map(|(shard, _)| shard).collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(info.total().queued, 100 - failed as u64);
    for n in 0..100_u32 {
        let id = n.to_string();
        let is_lost = queue.shard_of(&id).name() == lost;
        let status = queue.status(&id).await;
        assert_eq!(
            status.ok().flatten(),
            (!is_lost).then_some(Status::Queued),
            "{id}"
        );
    }
}

/// Ids of which the former places, of two shards, are others than those of four.
fn moving(queue: &ShardedQueue<u32>, before: &ShardedQueue<u32>, count: usize) -> Vec<String> {
    (0..)
        .map(|n| format!("moving:{n}"))
        .filter(|id| queue.shard_of(id).name() != before.shard_of(id).name())
        .take(count)
        .collect()
}

#[tokio::test]
async fn a_queue_that_grows_keeps_its_ids_and_its_windows() {
    let (name, servers) = (fresh_name(), four());
    let consumer = Consumer::new(&servers).await;
    let before = across(&servers[..2], &name).await;
    let grown = across(&servers, &name).await.grown_from(2).unwrap();
    let ids = moving(&grown, &before, 4);
    let [waiting, window, done, dead] = [&ids[0], &ids[1], &ids[2], &ids[3]];
    for id in &ids {
        before.enqueue_with(&1, with_id(id)).await.unwrap();
    }
    // One has finished with a window, one without, one is dead, one waits again.
    for shard in before.shards() {
        let mut taken = Vec::new();
        while let Some(delivery) = consumer.take(shard).await {
            taken.push(delivery);
        }
        for (id, token) in taken {
            let end = match &id {
                id if id == window => "SUCCESS BACKOFF 3600000",
                id if id == done => "SUCCESS",
                id if id == dead => "ERROR",
                _ => "RELEASE",
            };
            consumer.done(shard, &id, &token, end).await;
        }
    }
    // What is in use is where it was, and refuses; an update changes it there.
    let refused = grown.enqueue_with(&2, with_id(waiting)).await.unwrap();
    assert_eq!(refused.refused_by(), Some(Status::Queued));
    let refused = grown.enqueue_many([(&2, with_id(window))]).await.unwrap();
    assert_eq!(
        refused[0].as_ref().unwrap().refused_by(),
        Some(Status::DoneWithBackoff)
    );
    let updated = grown
        .enqueue_with(&3, with_id(waiting).update())
        .await
        .unwrap();
    assert!(matches!(updated, Enqueued::Updated { .. }));
    assert_eq!(before.get(waiting).await.unwrap().unwrap().value, 3);
    assert_eq!(grown.get(waiting).await.unwrap().unwrap().value, 3);
    assert_eq!(grown.shard_of(waiting).status(waiting).await.unwrap(), None);
    // What is not is at its new place from now on, and there only.
    for id in [done, dead] {
        assert!(grown
            .enqueue_with(&4, with_id(id))
            .await
            .unwrap()
            .is_accepted());
        let again = grown.enqueue_many([(&5, with_id(id))]).await.unwrap();
        assert_eq!(
            again[0].as_ref().unwrap().refused_by(),
            Some(Status::Queued)
        );
        assert_eq!(
            grown.shard_of(id).status(id).await.unwrap(),
            Some(Status::Queued)
        );
        assert_eq!(
            grown.get(id).await.unwrap().unwrap().value,
            4,
            "not the dead letter"
        );
    }
    assert_eq!(before.status(done).await.unwrap(), None);
}

#[tokio::test]
async fn a_group_moves_when_nothing_of_it_is_left() {
    let (name, servers) = (fresh_name(), four());
    let consumer = Consumer::new(&servers).await;
    let before = across(&servers[..2], &name).await;
    let grown = across(&servers, &name).await.grown_from(2).unwrap();
    let group = moving(&grown, &before, 1).remove(0);
    let (old, new) = (before.shard_of(&group), grown.shard_of(&group));
    let of_group = |id: &str| with_id(id).group(group.as_str());
    before.enqueue_with(&1, of_group("first")).await.unwrap();
    // One waits: the next ones follow it, together and one by one.
    let two = [(&2, of_group("second")), (&3, of_group("third"))];
    assert_eq!(grown.enqueue_many(two).await.unwrap().len(), 2);
    grown.enqueue_with(&4, of_group("fourth")).await.unwrap();
    assert_eq!(new.info().await.unwrap().map_or(0, |info| info.messages), 0);
    // The last one is with a consumer, or waits for a retry: still the former place.
    let mut seen = Vec::new();
    for n in 0..4 {
        let (id, token) = consumer.take(old).await.unwrap();
        if n == 3 {
            consumer.done(old, &id, &token, "RETRY BACKOFF 60000").await;
            grown.enqueue_with(&5, of_group("fifth")).await.unwrap();
            assert_eq!(old.status("fifth").await.unwrap(), Some(Status::Queued));
            assert_eq!(consumer.take(old).await, None, "a retry keeps its place");
        } else {
            consumer.done(old, &id, &token, "SUCCESS").await;
        }
        seen.push(id);
    }
    assert_eq!(seen, ["first", "second", "third", "fourth"]);
    // Nothing is left: the next one goes to the new place, and all after it.
    assert_eq!(grown.cancel_many(["fourth", "fifth"]).await.sum(), 2);
    grown.enqueue_with(&6, of_group("sixth")).await.unwrap();
    let last = [(&7, of_group("seventh")), (&8, of_group("eighth"))];
    grown.enqueue_many(last).await.unwrap();
    for id in ["sixth", "seventh", "eighth"] {
        assert_eq!(new.status(id).await.unwrap(), Some(Status::Queued), "{id}");
    }
}

/// Producers that all know of the growth, and consumers that finish with a window meanwhile: no id
/// is accepted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_id_is_accepted_twice_while_a_queue_grows() {
    let (name, servers) = (fresh_name(), four());
    let consumer = Consumer::new(&servers).await;
    let before = across(&servers[..2], &name).await;
    for n in 0..400_u32 {
        before
            .enqueue_with(&n, with_id(&n.to_string()))
            .await
            .unwrap();
    }
    let consumers: Vec<_> = before
        .shards()
        .iter()
        .cloned()
        .map(|shard| {
            let consumer = consumer.clone();
            tokio::spawn(async move {
                while let Some((id, token)) = consumer.take(&shard).await {
                    let window = "SUCCESS BACKOFF 3600000";
                    consumer.done(&shard, &id, &token, window).await;
                }
            })
        })
        .collect();
    let grown = across(&servers, &name).await.grown_from(2).unwrap();
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let grown = grown.clone();
            tokio::spawn(async move {
                let mut accepted = HashMap::new();
                for n in 0..800_u32 {
                    let outcome = grown
                        .enqueue_with(&n, with_id(&n.to_string()))
                        .await
                        .unwrap();
                    *accepted.entry(n).or_insert(0) += usize::from(outcome.is_accepted());
                }
                accepted
            })
        })
        .collect();
    let mut accepted = HashMap::new();
    for producer in producers {
        for (n, count) in producer.await.unwrap() {
            *accepted.entry(n).or_insert(0) += count;
        }
    }
    for consumer in consumers {
        consumer.await.unwrap();
    }
    for (n, count) in accepted {
        assert_eq!(count, usize::from(n >= 400), "{n}");
    }
    let total = grown.info().await.total();
    assert_eq!((total.total_enqueued, total.dead), (800, 0));
}

/// A user needs no more than these rights to produce, and `EVAL` only for a growth.
#[tokio::test]
async fn producing_needs_the_right_to_scripts_only_while_a_queue_grows() {
    let (name, servers) = (fresh_name(), four());
    let mut connections = Vec::new();
    for server in &servers {
        let mut admin = connection(server.url()).await;
        let set = |rules: &str| {
            let mut command = redis::cmd("ACL");
            command.arg("SETUSER").arg("producer");
            rules.split(' ').for_each(|rule| {
                command.arg(rule);
            });
            command
        };
        let rules = "reset on >secret ~* +mq.enqueue";
        set(rules).exec_async(&mut admin).await.unwrap();
        let url = server.url().replace("redis://", "redis://producer:secret@");
        connections.push(connection(url).await);
    }
    let queue = ShardedQueue::<u32>::across(connections, &*name).unwrap();
    queue.enqueue_with(&1, with_id("a")).await.unwrap();
    let grown = queue.clone().grown_from(2).unwrap();
    let before = across(&servers[..2], &name).await;
    let id = moving(&queue, &before, 1).remove(0);
    let refused = grown.enqueue_with(&1, with_id(&id)).await;
    assert!(
        matches!(&refused, Err(Error::Redis(e)) if e.code() == Some("NOPERM")),
        "{refused:?}"
    );
    assert_eq!(queue.shard_of(&id).status(&id).await.ok().flatten(), None);
}
