//! A cluster: producers use the redis crate's cluster connection, and a worker finds the node of
//! its queue by itself, also when the slot moves or the node fails.
//!
//! A queue is one key and lives on one node; several queues spread over the cluster by their
//! names.

use std::time::Duration;

use redis_mq_client::{redis, ClusterNodes, EnqueueOptions, Message, Queue, Worker};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = std::env::var("REDIS_CLUSTER").unwrap_or("redis://127.0.0.1:7000/".into());
    let nodes: Vec<_> = nodes.split(',').collect();

    let client = redis::cluster::ClusterClient::new(nodes.clone())?;
    let connection = client.get_async_connection().await?;
    for name in ["mails", "invoices", "images"] {
        let worker = Worker::builder(ClusterNodes::new(nodes.clone())?, name).build(handle)?;
        let mut finished = worker.events();

        let queue = Queue::<String>::new(connection.clone(), name);
        let options = EnqueueOptions::new().id("first");
        println!(
            "{name}: {:?}",
            queue.enqueue_with(&"hello".into(), options).await?
        );

        while !matches!(
            finished.recv().await?,
            redis_mq_client::Event::Finished { .. }
        ) {}
        let left = worker.stop(Duration::from_secs(10)).await;
        println!("{name}: left {}", left.unfinished.len());
    }
    Ok(())
}

async fn handle(message: Message<String>) {
    println!("{}: {}", message.id(), message.value);
}
