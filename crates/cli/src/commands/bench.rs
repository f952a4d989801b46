//! `redis-mq bench`.

use std::time::{Duration, Instant};

use redis_mq_client::redis::{self, Cmd, Value};
use serde_json::json;

use crate::{
    connect::{Server, Source, PIPELINE, RESPONSE},
    failure::{Exit, Failure},
    output::Out,
    reply,
};

/// How many messages are timed one by one.
const SINGLE: u32 = 500;

/// Measure how fast it is here, in a queue of its own.
///
/// From this machine over this connection to that server: one connection, pipelines of 500 messages,
/// then single messages to a consumer that waits. The queue is removed in the end, or goes by itself
/// after an hour.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many messages
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    messages: u32,
    /// How many bytes each has
    #[arg(long, value_name = "BYTES", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    size: u32,
}

/// Measures.
pub async fn run(args: Args, source: Source, json: bool) -> Result<Exit, Failure> {
    let mut server = source.connect(RESPONSE).await?;
    let mut consumer = source.connect(RESPONSE).await?;
    let queue = format!("redis-mq-bench:{}:{}", std::process::id(), fastrand());
    let measured = measure(&args, &queue, &mut server, &mut consumer).await;
    let removed = server.call(redis::cmd("DEL").arg(&queue)).await;
    let measured = measured?;
    removed?;
    let rate = |time: Duration| f64::from(args.messages) / time.as_secs_f64();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let [enqueue, dequeue, done] = measured.pipelined.map(rate);
    let [half, most, worst] = [50, 99, 100].map(|part| {
        let at = measured.waits.len() * part / 100;
        micros(measured.waits[at.saturating_sub(1)])
    });
    let mut out = Out::new();
    if json {
        out.line(json!({
            "messages": args.messages, "size": args.size,
            "enqueue-per-second": enqueue.round(), "dequeue-per-second": dequeue.round(),
            "done-per-second": done.round(), "wait-p50-us": half.round(),
            "wait-p99-us": most.round(), "wait-max-us": worst.round(),
        }))?;
        return Ok(Exit::OK);
    }
    out.line(format_args!(
        "{} messages of {} bytes",
        args.messages, args.size
    ))?;
    for (name, rate) in [("enqueue", enqueue), ("dequeue", dequeue), ("done", done)] {
        out.line(format_args!("{name:8} {rate:>10.0} a second, pipelined"))?;
    }
    out.line(format_args!(
        "wait     {half:>10.0} µs from enqueue to a waiting consumer; 99 %: {most:.0} µs, all: {worst:.0} µs"
    ))?;
    Ok(Exit::OK)
}

struct Measured {
    /// Enqueue, dequeue, done.
    pipelined: [Duration; 3],
    /// From before an enqueue to after its delivery, the shortest first.
    waits: Vec<Duration>,
}

async fn measure(
    args: &Args,
    queue: &str,
    server: &mut Server,
    consumer: &mut Server,
) -> Result<Measured, Failure> {
    let payload = vec![b'x'; args.size as usize];
    let enqueue = || {
        let mut command = redis::cmd("MQ.ENQUEUE");
        command.arg(queue).arg(&payload);
        command
    };
    all(server, &[enqueue()]).await?;
    // Whatever happens to this process, the queue goes.
    server
        .call(redis::cmd("EXPIRE").arg(queue).arg(3_600))
        .await?;
    let start = Instant::now();
    let mut left = args.messages as usize - 1;
    while left > 0 {
        let some = left.min(PIPELINE);
        all(server, &vec![enqueue(); some]).await?;
        left -= some;
    }
    let enqueued = start.elapsed();
    let mut verdicts = Vec::new();
    let start = Instant::now();
    loop {
        let mut command = redis::cmd("MQ.DEQUEUE");
        command.arg(queue).arg("COUNT").arg(100);
        let batch = server.call(&command).await?;
        let Some(batch) = reply::items(&batch) else {
            break;
        };
        verdicts.extend(batch.iter().filter_map(|delivery| done(queue, delivery)));
    }
    let dequeued = start.elapsed();
    let start = Instant::now();
    for some in verdicts.chunks(PIPELINE) {
        all(server, some).await?;
    }
    let ended = start.elapsed();
    let mut waits = Vec::new();
    for _ in 0..SINGLE.min(args.messages) {
        let mut command = redis::cmd("MQ.DEQUEUE");
        command.arg(queue).arg("BLOCK").arg(10_000);
        let start = Instant::now();
        let one = enqueue();
        let (delivery, sent) = tokio::join!(consumer.call(&command), server.call(&one));
        sent?;
        let delivery = delivery?;
        waits.push(start.elapsed());
        let verdict = done(queue, &delivery).ok_or_else(|| Failure::unexpected("MQ.DEQUEUE"))?;
        server.call(&verdict).await?;
    }
    waits.sort_unstable();
    Ok(Measured {
        pipelined: [enqueued, dequeued, ended],
        waits,
    })
}

async fn all(server: &mut Server, commands: &[Cmd]) -> Result<(), Failure> {
    for answer in server.call_all(commands).await? {
        answer?;
    }
    Ok(())
}

fn done(queue: &str, delivery: &Value) -> Option<Cmd> {
    let fields = reply::items(delivery)?;
    let mut command = redis::cmd("MQ.DONE");
    command
        .arg(queue)
        .arg(reply::bytes(fields.first()?)?)
        .arg(reply::int(fields.get(3)?)?);
    Some(command)
}

/// So that no queue of an earlier process of the same id is met.
fn fastrand() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(Instant::now())
}
