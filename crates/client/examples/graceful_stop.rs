//! A graceful stop: at SIGTERM or Ctrl-C the worker takes nothing new, gives back what it has not
//! begun, lets its handlers finish for up to ten seconds, and says what it had to leave.
//!
//! A handler that watches its cancellation can put its work down: after the grace time it is told, and
//! has two seconds to answer. One that does not look is dropped, and its message given back.

use std::time::Duration;

use redis_mq_client::{connect, redis, EnqueueOptions, Message, Outcome, Queue, Worker};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = redis::Client::open(url)?;
    let queue = Queue::<u32>::new(connect::reconnecting(&client)?, "videos");
    let videos: Vec<u32> = (1..=20).collect();
    for outcome in queue
        .enqueue_many(videos.iter().map(|n| (n, EnqueueOptions::new())))
        .await?
    {
        let _ = outcome?;
    }

    let worker = Worker::builder(client, "videos")
        .handlers(4)
        .build(convert)?;
    println!("working, stop me with Ctrl-C");
    let report = worker.run_until_signal(Duration::from_secs(10)).await?;

    let stats = worker.stats();
    println!("finished {}, given back {}", stats.finished, stats.released);
    println!("given back past the grace: {:?}", report.given_back);
    println!("left unfinished: {:?}", report.unfinished);
    println!("left unanswered: {:?}", report.unanswered);
    Ok(())
}

async fn convert(video: Message<u32>) -> Outcome {
    println!("converting video {}", video.value);
    for _frame in 0..50 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
            () = video.cancelled() => return Outcome::RetryNow,
        }
    }
    Outcome::Success
}
