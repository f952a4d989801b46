//! The worker of the front page: it enqueues one message, and works until it gets SIGTERM or Ctrl-C.

use std::time::Duration;

use redis_mq_client::{connect, redis, EnqueueOptions, Message, Queue, Raw, Worker};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = redis::Client::open(url)?;

    let connection = connect::reconnecting(&client)?;
    let mails = Queue::<str>::new(connection, "mails").codec(Raw);
    let mail = EnqueueOptions::new().id("mail:2").attempts(5);
    println!("{:?}", mails.enqueue_with("to bob", mail).await?);

    let worker = Worker::builder(client, "mails")
        .codec(Raw)
        .handlers(8)
        .build(send)?;
    let report = worker.run_until_signal(Duration::from_secs(30)).await?;
    println!("left unfinished: {:?}", report.unfinished);
    Ok(())
}

async fn send(mail: Message<String>) -> Result<(), std::io::Error> {
    println!("{}, attempt {}: {}", mail.id(), mail.attempt(), mail.value);
    Ok(())
}
