//! Through Sentinel, and in a cluster.

mod common;

use common::{all_done, eventually, fresh_name, MS, S};
use redis_mq_client::{
    redis, ClusterNodes, EndOfQueue, EnqueueOptions, Message, Queue, Worker, WorkerBuilder,
};
use redis_mq_testkit::{Cluster, Sentinels, Server};

fn quick(source: impl redis_mq_client::Connect, name: &str) -> WorkerBuilder {
    Worker::builder(source, name)
        .end_of_queue(EndOfQueue::Block(MS(300)))
        .response_timeout(MS(700))
        .reconnect_backoff(MS(10), MS(200))
}

async fn enqueue(queue: &Queue<u32>, values: std::ops::Range<u32>) {
    for n in values {
        eventually("it is accepted", async || {
            let options = EnqueueOptions::new().id(n.to_string());
            // Repeated with its id, an enqueue that failed on the way is not a second message.
            queue.enqueue_with(&n, options).await.is_ok()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_follows_sentinel_to_the_new_primary() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.replica_of(&primary);
    let sentinels = Sentinels::start(3, &primary, 1);
    let addresses = sentinels
        .servers()
        .iter()
        .map(|server| server.url())
        .collect::<Vec<_>>();
    let client = |addresses: Vec<String>| {
        redis::sentinel::SentinelClient::build(
            addresses,
            String::from(Sentinels::NAME),
            None,
            redis::sentinel::SentinelServerType::Master,
        )
        .unwrap()
    };
    let source = tokio::sync::Mutex::new(client(addresses.clone()));
    let name = fresh_name();
    let worker = quick(source, &name)
        .connect_timeout(S(3))
        .build(|_: Message<u32>| async {})
        .unwrap();
    let numbers = Queue::new(
        client(addresses.clone())
            .get_async_connection()
            .await
            .unwrap(),
        &*name,
    );
    enqueue(&numbers, 0..20).await;
    all_done(&numbers, 20).await;

    sentinels.failover().unwrap();
    sentinels.wait_for_failover(&primary);
    let numbers = Queue::new(
        client(addresses).get_async_connection().await.unwrap(),
        &*name,
    );
    enqueue(&numbers, 20..40).await;
    eventually("the new primary's messages are handled", async || {
        worker.stats().finished >= 40
    })
    .await;
    assert!(worker.stop(S(10)).await.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_producers_find_the_node_of_their_queue() {
    let cluster = Cluster::start(3, 0);
    let nodes = || cluster.primaries().iter().map(|server| server.url());
    let connection = redis::cluster::ClusterClient::new(nodes())
        .unwrap()
        .get_async_connection()
        .await
        .unwrap();
    for _ in 0..6 {
        let name = fresh_name();
        let worker = quick(ClusterNodes::new(nodes()).unwrap(), &name)
            .build(|_: Message<u32>| async {})
            .unwrap();
        let numbers = Queue::new(connection.clone(), &*name);
        enqueue(&numbers, 0..5).await;
        let many: Vec<_> = (5..10).collect();
        let messages = many.iter().map(|n| (n, EnqueueOptions::new()));
        assert_eq!(numbers.enqueue_many(messages).await.unwrap().len(), 5);
        all_done(&numbers, 10).await;
        assert!(worker.stop(S(10)).await.is_clean());
        assert_eq!(worker.stats().outages, 0);
    }
}

/// The queue's slot moves to another node while the worker waits: MOVED, and on to the new owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_follows_its_slot() {
    let cluster = Cluster::start(3, 0);
    let nodes = || cluster.primaries().iter().map(|server| server.url());
    let name = fresh_name();
    let worker = quick(ClusterNodes::new(nodes()).unwrap(), &name)
        .build(|_: Message<u32>| async {})
        .unwrap();
    let connect = async || {
        let client = redis::cluster::ClusterClient::new(nodes()).unwrap();
        Queue::new(client.get_async_connection().await.unwrap(), &*name)
    };
    enqueue(&connect().await, 0..5).await;
    eventually("they are handled", async || worker.stats().finished == 5).await;

    let slot = cluster.slot(&name);
    let owner = cluster.owner(&name);
    let target = cluster
        .primaries()
        .iter()
        .find(|node| node.port() != owner.port())
        .unwrap();
    let target_id = Cluster::node_id(target);
    redis::cmd("DEL")
        .arg(&name)
        .exec(&mut owner.conn())
        .unwrap();
    for node in cluster.primaries() {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SETSLOT").arg(slot).arg("NODE").arg(&target_id);
        command.exec(&mut node.conn()).unwrap();
    }
    enqueue(&connect().await, 5..10).await;
    eventually("they are handled by the new owner", async || {
        worker.stats().finished == 10
    })
    .await;
    assert!(worker.stats().outages >= 1);
    assert!(worker.stop(S(10)).await.is_clean());
}

/// The slot is on its way to another node, which has the queue already: ASK.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_where_its_queue_has_gone_before_its_slot() {
    let cluster = Cluster::start(3, 0);
    let nodes = || cluster.primaries().iter().map(|server| server.url());
    let name = fresh_name();
    let worker = quick(ClusterNodes::new(nodes()).unwrap(), &name)
        .build(|_: Message<u32>| async {})
        .unwrap();
    let client = redis::cluster::ClusterClient::new(nodes()).unwrap();
    let numbers = Queue::new(client.get_async_connection().await.unwrap(), &*name);
    enqueue(&numbers, 0..5).await;
    all_done(&numbers, 5).await;

    let slot = cluster.slot(&name);
    let owner = cluster.owner(&name);
    let target = cluster
        .primaries()
        .iter()
        .find(|node| node.port() != owner.port())
        .unwrap();
    let (owner_id, target_id) = (Cluster::node_id(owner), Cluster::node_id(target));
    let set_slot = |node: &Server, how: &str, id: &str| {
        let mut command = redis::cmd("CLUSTER");
        command
            .arg("SETSLOT")
            .arg(slot)
            .arg(how)
            .arg(id)
            .exec(&mut node.conn())
            .unwrap();
    };
    set_slot(target, "IMPORTING", &owner_id);
    set_slot(owner, "MIGRATING", &target_id);
    let mut migrate = redis::cmd("MIGRATE");
    migrate
        .arg("127.0.0.1")
        .arg(target.port())
        .arg(&name)
        .arg(0)
        .arg(5_000);
    migrate.exec(&mut owner.conn()).unwrap();
    enqueue(&numbers, 5..10).await;
    eventually("they are handled before the slot has moved", async || {
        worker.stats().finished == 10
    })
    .await;
    for node in cluster.primaries() {
        set_slot(node, "NODE", &target_id);
    }
    enqueue(&numbers, 10..15).await;
    all_done(&numbers, 15).await;
    assert!(worker.stop(S(10)).await.is_clean());
}

/// A primary of the cluster fails (CLUSTERDOWN on the others until its replica takes over).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_survives_the_failure_of_its_node() {
    let mut cluster = Cluster::start(3, 1);
    let urls: Vec<_> = cluster
        .primaries()
        .iter()
        .chain(cluster.replicas())
        .map(Server::url)
        .collect();
    let name = fresh_name();
    let worker = quick(ClusterNodes::new(urls.clone()).unwrap(), &name)
        .build(|_: Message<u32>| async {})
        .unwrap();
    let connect = async || {
        let client = redis::cluster::ClusterClient::new(urls.clone()).unwrap();
        Queue::new(client.get_async_connection().await.unwrap(), &*name)
    };
    enqueue(&connect().await, 0..5).await;
    eventually("they are handled", async || worker.stats().finished == 5).await;
    let port = cluster.owner(&name).port();
    let index = cluster
        .primaries()
        .iter()
        .position(|node| node.port() == port)
        .unwrap();
    cluster.primary_mut(index).kill9();
    cluster.wait_until_ok();
    enqueue(&connect().await, 5..10).await;
    eventually("they are handled by the new primary", async || {
        worker.stats().finished >= 10
    })
    .await;
    assert!(worker.stop(S(10)).await.is_clean());
}
