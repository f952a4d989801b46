//! One worker on all shards of a queue: several servers, and a cluster.

mod common;
#[path = "common/shards.rs"]
mod shards;

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Mutex,
    },
};

use common::{client, eventually, fresh_name, with_id, MS, S};
use redis_mq_client::{
    connect, redis, BuildError, ClusterNodes, Connect, EndOfQueue, EnqueueOptions, Message,
    ShardedQueue, Start, Worker, WorkerBuilder,
};
use redis_mq_testkit::{Cluster, Persistence, Server};
use shards::{across, four};
use tokio::sync::{broadcast::error::TryRecvError, Semaphore};

fn quick(source: impl Connect, name: &str) -> WorkerBuilder {
    Worker::builder(source, name)
        .lock(S(2))
        .end_of_queue(EndOfQueue::Block(MS(300)))
        .response_timeout(MS(700))
        .connect_timeout(MS(700))
        .reconnect_backoff(MS(10), MS(200))
}

fn on(servers: &[Server], name: &str) -> WorkerBuilder {
    let clients = servers.iter().map(|server| client(server.url()));
    quick(connect::shards(clients), name)
}

/// How often each value was handled.
type Runs = Arc<Mutex<HashMap<u32, usize>>>;

async fn enqueue(queue: &ShardedQueue<u32>, values: std::ops::Range<u32>) {
    let values: Vec<_> = values.collect();
    let messages = values.iter().map(|n| (n, with_id(&n.to_string())));
    for outcome in queue.enqueue_many(messages).await.unwrap() {
        assert!(outcome.unwrap().is_accepted());
    }
}

async fn all_handled(runs: &Runs, count: usize) {
    eventually(&format!("{count} are handled"), async || {
        runs.lock().unwrap().len() == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_handles_what_is_on_all_shards_with_one_set_of_handlers() {
    let (name, servers) = (fresh_name(), four());
    let queue = across(&servers, &name).await;
    enqueue(&queue, 0..2_000).await;
    let (runs, now, most) = (
        Runs::default(),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let worker = on(&servers, &name)
        .handlers(6)
        .start(Start::Manual)
        .build_sharded(4, {
            let (runs, now, most) = (runs.clone(), now.clone(), most.clone());
            move |message: Message<u32>| {
                let (runs, now, most) = (runs.clone(), now.clone(), most.clone());
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    *runs.lock().unwrap().entry(message.value).or_default() += 1;
                    now.fetch_sub(1, Ordering::SeqCst);
                }
            }
        })
        .unwrap();
    assert!(!worker.is_running() && !worker.is_connected());
    let mut events = worker.events();
    assert!(worker.start().unwrap());
    assert!(!worker.start().unwrap(), "it runs already");
    all_handled(&runs, 2_000).await;
    enqueue(&queue, 2_000..2_400).await;
    all_handled(&runs, 2_400).await;
    assert!(runs.lock().unwrap().values().all(|runs| *runs == 1));
    let most = most.load(Ordering::SeqCst);
    assert!((2..=6).contains(&most), "{most} at the same time");
    // There were more events than a listener may be behind.
    assert!(!matches!(events.try_recv(), Err(TryRecvError::Empty)));
    eventually("all shards are connected", async || worker.is_connected()).await;
    assert!(worker.stop(S(10)).await.is_clean());
    assert!(!worker.is_running());
    let stats = worker.stats();
    assert_eq!((stats.finished, stats.outages), (2_400, 0));
    assert!(worker
        .shard_stats()
        .iter()
        .all(|shard| shard.finished > 200));
    let total = queue.info().await.total();
    assert_eq!(
        (total.total_done, total.locked, total.queued),
        (2_400, 0, 0)
    );
    // And again, with what came meanwhile.
    enqueue(&queue, 2_400..2_500).await;
    assert!(worker.start().unwrap());
    all_handled(&runs, 2_500).await;
    assert!(worker.stop(S(10)).await.is_clean());
}

/// A backlog of one shard, whose handlers do not end, leaves a handler for each other shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_shard_takes_the_handlers_of_the_others() {
    let (name, servers) = (fresh_name(), four());
    let queue = across(&servers, &name).await;
    let gate = Arc::new(Semaphore::new(0));
    let (slow, quick) = (Arc::new(AtomicUsize::new(0)), Runs::default());
    let worker = on(&servers, &name)
        .handlers(8)
        .build_sharded(4, {
            let (gate, slow, quick) = (gate.clone(), slow.clone(), quick.clone());
            move |message: Message<u32>| {
                let (gate, slow, quick) = (gate.clone(), slow.clone(), quick.clone());
                async move {
                    if message.group() == Some(b"slow") {
                        slow.fetch_add(1, Ordering::SeqCst);
                        gate.acquire().await.unwrap().forget();
                    } else {
                        *quick.lock().unwrap().entry(message.value).or_default() += 1;
                    }
                }
            }
        })
        .unwrap();
    eventually("all shards are connected", async || worker.is_connected()).await;
    let unlimited = redis_mq_client::LimitChanges::new().in_flight(100);
    let limited = queue.set_group_limits("slow", &unlimited).await;
    limited.all().unwrap();
    let backlog = queue.shard_of("slow").name().to_vec();
    for n in 0..100 {
        let options = EnqueueOptions::new().group("slow");
        queue.enqueue_with(&n, options).await.unwrap();
    }
    eventually("the backlog has all handlers but three", async || {
        slow.load(Ordering::SeqCst) == 5
    })
    .await;
    let others: Vec<u32> = (0..200)
        .filter(|n: &u32| queue.shard_of(n.to_string()).name() != backlog)
        .collect();
    for n in &others {
        queue
            .enqueue_with(n, with_id(&n.to_string()))
            .await
            .unwrap();
    }
    all_handled(&quick, others.len()).await;
    assert_eq!(slow.load(Ordering::SeqCst), 5);
    gate.add_permits(100);
    eventually("the backlog is handled", async || {
        worker.stats().finished == 100 + others.len() as u64
    })
    .await;
    assert!(worker.stop(S(10)).await.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_down_delays_its_own_messages_only() {
    let name = fresh_name();
    let mut servers: Vec<_> = (0..4)
        .map(|_| {
            Server::builder()
                .persistence(Persistence::AofCommands)
                .start()
        })
        .collect();
    let queue = across(&servers, &name).await;
    let runs = Runs::default();
    let worker = on(&servers, &name)
        .handlers(4)
        .build_sharded(4, {
            let runs = runs.clone();
            move |message: Message<u32>| {
                *runs.lock().unwrap().entry(message.value).or_default() += 1;
                async {}
            }
        })
        .unwrap();
    enqueue(&queue, 0..100).await;
    all_handled(&runs, 100).await;
    eventually("all answers have arrived", async || {
        worker.stats().finished == 100
    })
    .await;
    servers[1].kill9();
    eventually("three shards are left", async || {
        worker.connected_shards() == 3
    })
    .await;
    assert!(worker.is_running() && !worker.is_connected());
    let lost = queue.shards()[1].name().to_vec();
    let mut accepted = 100;
    for n in 100..300_u32 {
        let id = n.to_string();
        let is_lost = queue.shard_of(&id).name() == lost;
        let outcome = queue.enqueue_with(&n, with_id(&id)).await;
        assert_eq!(outcome.is_err(), is_lost, "{outcome:?}");
        accepted += usize::from(!is_lost);
    }
    all_handled(&runs, accepted).await;
    servers[1].start_again();
    eventually("all four are back", async || worker.is_connected()).await;
    let queue = across(&servers, &name).await;
    for n in 100..300_u32 {
        if queue.shard_of(n.to_string()).name() == lost {
            queue
                .enqueue_with(&n, with_id(&n.to_string()))
                .await
                .unwrap();
        }
    }
    all_handled(&runs, 300).await;
    assert!(worker.stop(S(10)).await.is_clean());
    assert!(runs.lock().unwrap().values().all(|runs| *runs == 1));
}

/// From two shards to four under load: workers first, then producers. No id runs twice, and each
/// group runs in its order, one at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_grows_under_load_without_a_double_or_a_step_out_of_order() {
    let (name, servers) = (fresh_name(), four());
    let before = across(&servers[..2], &name).await;
    let grown = across(&servers, &name).await.grown_from(2).unwrap();
    let seen: Arc<Mutex<HashMap<Vec<u8>, Vec<u32>>>> = Arc::default();
    let busy: Arc<Mutex<HashMap<Vec<u8>, usize>>> = Arc::default();
    let overlaps = Arc::new(AtomicUsize::new(0));
    let worker = on(&servers, &name)
        .handlers(8)
        .build_sharded(4, {
            let (seen, busy, overlaps) = (seen.clone(), busy.clone(), overlaps.clone());
            move |message: Message<u32>| {
                let (seen, busy, overlaps) = (seen.clone(), busy.clone(), overlaps.clone());
                async move {
                    let group = message.group().unwrap().to_vec();
                    let others = {
                        let mut busy = busy.lock().unwrap();
                        let count = busy.entry(group.clone()).or_default();
                        *count += 1;
                        *count - 1
                    };
                    overlaps.fetch_add(others, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    seen.lock()
                        .unwrap()
                        .entry(group.clone())
                        .or_default()
                        .push(message.value);
                    *busy.lock().unwrap().get_mut(&group).unwrap() -= 1;
                }
            }
        })
        .unwrap();
    let (groups, each) = (24, 40);
    let produce = async |queue: &ShardedQueue<u32>, numbers: std::ops::Range<u32>| {
        for n in numbers {
            for group in 0..groups {
                let group = format!("group-{group}");
                let options = with_id(&format!("{group}:{n}")).group(group.as_str());
                let outcome = queue.enqueue_with(&n, options).await.unwrap();
                assert!(outcome.is_accepted(), "{outcome:?}");
            }
        }
    };
    produce(&before, 0..each / 2).await;
    produce(&grown, each / 2..each).await;
    let count = u64::from(groups * each);
    eventually("all are finished", async || {
        worker.stats().finished == count
    })
    .await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    for group in 0..groups {
        let order = &seen[format!("group-{group}").as_bytes()];
        assert_eq!(order, &(0..each).collect::<Vec<_>>(), "group {group}");
    }
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
    let moved = grown.info().await.all().unwrap();
    assert!(
        moved[2].is_some() && moved[3].is_some(),
        "nothing has moved"
    );
    assert!(worker.stop(S(10)).await.is_clean());
}

#[tokio::test]
async fn a_worker_that_cannot_work_is_refused() {
    let servers = four();
    let build = |builder: WorkerBuilder, shards| {
        builder
            .start(Start::Manual)
            .build_sharded(shards, |_: Message<u32>| async {})
    };
    let refused = |builder, shards| match build(builder, shards) {
        Err(BuildError::InvalidOption { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(on(&servers, "q"), 0), "shards");
    assert_eq!(refused(on(&servers, "q"), 1_025), "shards");
    assert_eq!(refused(on(&servers, ""), 4), "queue");
    assert_eq!(refused(on(&servers, "q{a}"), 4), "queue");
    assert_eq!(refused(on(&servers, "q").handlers(3), 4), "handlers");
    assert_eq!(
        refused(on(&servers, "q").rate_limit(3, S(1)), 4),
        "rate_limit"
    );
    let off = build(on(&servers, "q").handlers(0), 4).unwrap();
    assert!(!off.start().unwrap());
}

/// A primary fails and its replica takes over; the slot of another shard moves; the messages of
/// all shards are handled, and each accepted id at least once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_shards_survive_failovers_and_moves_of_slots() {
    let nodes = Server::builder().config("cluster-require-full-coverage", "no");
    let mut cluster = Cluster::start_with(3, 1, nodes);
    let urls: Vec<_> = cluster
        .primaries()
        .iter()
        .chain(cluster.replicas())
        .map(Server::url)
        .collect();
    let name = fresh_name();
    let connect = async || {
        let client = redis::cluster::ClusterClient::builder(urls.clone())
            .response_timeout(S(2))
            .connection_timeout(S(1))
            .retries(3)
            .build()
            .unwrap();
        let connection = client.get_async_connection().await.unwrap();
        ShardedQueue::<u32>::new(connection, &*name, 4).unwrap()
    };
    let runs = Runs::default();
    let worker = quick(ClusterNodes::new(urls.clone()).unwrap(), &name)
        .handlers(8)
        .build_sharded(4, {
            let runs = runs.clone();
            move |message: Message<u32>| {
                *runs.lock().unwrap().entry(message.value).or_default() += 1;
                async {}
            }
        })
        .unwrap();
    let queue = connect().await;
    enqueue(&queue, 0..200).await;
    all_handled(&runs, 200).await;
    let owners: std::collections::HashSet<_> = queue
        .shards()
        .iter()
        .map(|shard| cluster.owner(shard.name()).port())
        .collect();
    assert_eq!(owners.len(), 3, "four shards are on all three nodes");

    // The slot of the last shard moves, with its queue.
    let key = queue.shards()[3].name().to_vec();
    let (slot, owner) = (cluster.slot(&key), cluster.owner(&key));
    let target = cluster.owner(queue.shards()[0].name());
    assert_ne!(owner.port(), target.port());
    let (owner_id, target_id) = (Cluster::node_id(owner), Cluster::node_id(target));
    let set_slot = |node: &Server, how: &str, id: &str| {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SETSLOT").arg(slot).arg(how).arg(id);
        command.exec(&mut node.conn()).unwrap();
    };
    set_slot(target, "IMPORTING", &owner_id);
    set_slot(owner, "MIGRATING", &target_id);
    let mut migrate = redis::cmd("MIGRATE");
    migrate
        .arg("127.0.0.1")
        .arg(target.port())
        .arg(&key)
        .arg(0)
        .arg(5_000);
    migrate.exec(&mut owner.conn()).unwrap();
    let values: Vec<u32> = (200..400).collect();
    let repeated = async |values: &[u32]| {
        // Repeated with its id, an enqueue that failed on the way is not a second message.
        let mut queue = connect().await;
        for n in values {
            eventually("it is accepted", async || {
                let accepted = queue.enqueue_with(n, with_id(&n.to_string())).await.is_ok();
                if !accepted {
                    queue = connect().await;
                }
                accepted
            })
            .await;
        }
    };
    repeated(&values).await;
    all_handled(&runs, 400).await;
    for node in [target, owner] {
        set_slot(node, "NODE", &target_id);
    }
    for node in cluster.primaries() {
        set_slot(node, "NODE", &target_id);
    }
    let values: Vec<u32> = (400..600).collect();
    repeated(&values).await;
    all_handled(&runs, 600).await;

    // The node of the second shard fails. What is on the others goes on at once.
    let port = cluster.owner(queue.shards()[1].name()).port();
    let failing = cluster
        .primaries()
        .iter()
        .position(|node| node.port() == port);
    cluster.primary_mut(failing.unwrap()).kill9();
    cluster.wait_until_ok();
    let values: Vec<u32> = (600..800).collect();
    repeated(&values).await;
    all_handled(&runs, 800).await;
    assert!(worker.stop(S(10)).await.is_clean());
    let info = connect().await.info().await;
    assert_eq!(info.total().queued, 0);
}
