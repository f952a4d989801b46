//! Retries with a policy: three pauses of growing length, and then the dead letters.
//!
//! The handler says what it knows (a number that is no number will never be one) and leaves the
//! rest to the policy of the worker.

use std::time::Duration;

use redis_mq_client::{
    connect, redis, EnqueueOptions, Event, Message, Outcome, Queue, RetryPolicy, Worker,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = redis::Client::open(url)?;
    let queue = Queue::<String>::new(connect::reconnecting(&client)?, "invoices");

    let worker = Worker::builder(client, "invoices")
        .retry_policy(RetryPolicy::schedule(
            [10, 100, 1_000].map(Duration::from_millis),
        ))
        .build(send_invoice)?;

    let mut events = worker.events();
    for (id, number) in [
        ("fine", "42"),
        ("flaky", "43"),
        ("hopeless", "forty-four"),
        ("down", "0"),
    ] {
        let options = EnqueueOptions::new().id(id);
        println!(
            "{:?}",
            queue.enqueue_with(&number.to_owned(), options).await?
        );
    }
    let mut open = 4;
    while open > 0 {
        match events.recv().await? {
            Event::Finished { id, attempt, .. } => {
                println!("{id} was sent at attempt {attempt}");
                open -= 1;
            }
            Event::Dead { id, attempt } => {
                let letter = queue.get(&id).await?.ok_or("the dead letter is gone")?;
                let reason = letter.reason.unwrap_or_default();
                println!(
                    "{id} is dead after {attempt}: {}",
                    String::from_utf8_lossy(&reason)
                );
                open -= 1;
            }
            _ => {}
        }
    }
    let left = worker.stop(Duration::from_secs(10)).await;
    println!("left: {}", left.unfinished.len());
    Ok(())
}

async fn send_invoice(message: Message<String>) -> Result<Outcome, std::io::Error> {
    let Ok(number) = message.value.parse::<u32>() else {
        return Ok(Outcome::error(format!("{} is no number", message.value)));
    };
    match (number, message.attempt()) {
        (0, _) => Err(std::io::Error::other("the mail server is down")),
        (43, 1) => Ok(Outcome::RetryNow),
        _ => Ok(Outcome::Success),
    }
}
