//! A debounce: many changes of the same document in a short time are indexed once, with the newest
//! content.
//!
//! The document is the message's id. Each change replaces the waiting message (UPDATE) and starts
//! its delay anew; a change that comes while the document is being indexed is kept as a copy that
//! runs afterwards (REQUEUE).

use std::time::Duration;

use redis_mq_client::{connect, redis, EnqueueOptions, Message, Queue, Worker};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = redis::Client::open(url)?;
    let changes = Queue::<String>::new(connect::reconnecting(&client)?, "changes");

    let (tell, mut indexed) = mpsc::unbounded_channel();
    let worker = Worker::builder(client, "changes").build(move |change: Message<String>| {
        let tell = tell.clone();
        async move { tell.send(change.into_value()) }
    })?;

    for revision in 1..=20 {
        let options = EnqueueOptions::new()
            .id("document:7")
            .delay(Duration::from_millis(500))
            .update()
            .requeue();
        let outcome = changes
            .enqueue_with(&format!("revision {revision}"), options)
            .await?;
        println!("revision {revision}: {outcome:?}");
    }
    let content = indexed.recv().await.ok_or("the worker has gone")?;
    println!("indexed: {content}");

    let left = worker.stop(Duration::from_secs(10)).await;
    println!("left: {}", left.unfinished.len());
    Ok(())
}
