//! Takes the messages of one queue.

use std::{sync::Arc, time::Duration};

use redis_mq_client::redis::{self, Value};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::{
    job,
    link::{broken, Pauses},
    Phase, Shared,
};
use crate::{
    connect::{Server, Source},
    duration,
    failure::{Exit, Failure},
    output,
    reply::{self, Fields},
};

/// How long the server may keep a poll waiting. It is also how long a worker with nothing to do takes
/// to end: a poll is never cut off, since a message may be on its way.
const BLOCK: Duration = Duration::from_millis(1_000);
/// How long a reply may take, the wait included.
const RESPONSE: Duration = Duration::from_secs(6);

/// A message handed over.
#[derive(Debug)]
pub struct Delivery {
    pub id: Vec<u8>,
    pub payload: Vec<u8>,
    pub attempt: i64,
    pub token: i64,
    /// How long its lock is, each time.
    pub lock: Duration,
    /// When the lock ends, as far as is known.
    pub deadline: Instant,
    pub enqueued_at: i64,
    pub headers: Option<Vec<u8>>,
    pub group: Option<Vec<u8>>,
    pub scheduled_at: Option<Vec<u8>>,
}

/// Takes messages, and has a command run for each, until the worker ends; then waits for the commands.
/// An error before the first success, as of a queue that is none, is the result.
pub async fn run(shared: Arc<Shared>, source: Source, queue: String) -> Result<(), Failure> {
    let slots = shared.settings.concurrency as usize;
    let free = Arc::new(Semaphore::new(slots));
    let mut jobs = JoinSet::new();
    let mut server: Option<Server> = None;
    let mut pauses = Pauses::new();
    let mut works = false;
    let mut result = Ok(());
    while shared.phase() == Phase::Taking {
        let slot = tokio::select! {
            () = shared.reached(Phase::Draining) => break,
            slot = Arc::clone(&free).acquire_owned() => slot,
        };
        let Ok(mut slot) = slot else {
            break;
        };
        let more = free.available_permits();
        if let Ok(others) = Arc::clone(&free).try_acquire_many_owned(more as u32) {
            slot.merge(others);
        }
        while jobs.try_join_next().is_some() {}
        let polled = poll(&shared, &source, &mut server, &queue, slot.num_permits()).await;
        let deliveries = match polled {
            Ok(deliveries) => deliveries,
            Err(failure) if !works && failure.exit() == Exit::REFUSED && !broken(&failure) => {
                result = Err(failure);
                break;
            }
            Err(failure) => {
                server = None;
                let shown = output::name(queue.as_bytes());
                let line = failure.line().unwrap_or_default();
                shared.printer.notice(&format!("{shown}: {line}")).await;
                tokio::select! {
                    () = shared.reached(Phase::Draining) => break,
                    () = pauses.pause() => continue,
                }
            }
        };
        works = true;
        pauses = Pauses::new();
        if deliveries.is_empty() && shared.settings.until_empty && jobs.is_empty() {
            break;
        }
        if deliveries.is_empty() && shared.settings.until_empty {
            // What runs may add more.
            drop(slot);
            jobs.join_next().await;
            continue;
        }
        for delivery in deliveries {
            let own = slot.split(1);
            let (shared, queue) = (Arc::clone(&shared), queue.clone());
            jobs.spawn(async move {
                job::run(&shared, &queue, delivery).await;
                drop(own);
            });
        }
    }
    while jobs.join_next().await.is_some() {}
    result
}

async fn poll(
    shared: &Shared,
    source: &Source,
    server: &mut Option<Server>,
    queue: &str,
    count: usize,
) -> Result<Vec<Delivery>, Failure> {
    let server = match server {
        Some(server) => server,
        None => server.insert(source.connect(RESPONSE).await?),
    };
    let mut command = redis::cmd("MQ.DEQUEUE");
    let lock = duration::millis(shared.settings.lock);
    command
        .arg(queue)
        .arg("COUNT")
        .arg(count)
        .arg("LOCK")
        .arg(lock);
    if !shared.settings.until_empty {
        command.arg("BLOCK").arg(duration::millis(BLOCK));
    }
    let reply = server.call(&command).await?;
    if reply == Value::Nil {
        return Ok(Vec::new());
    }
    let deliveries = reply::items(&reply).and_then(|all| all.iter().map(read).collect());
    deliveries.ok_or_else(|| Failure::unexpected("MQ.DEQUEUE"))
}

fn read(delivery: &Value) -> Option<Delivery> {
    let [id, payload, attempt, token, lock, enqueued_at, more @ ..] = reply::items(delivery)?
    else {
        return None;
    };
    let lock = Duration::from_millis(reply::unsigned(lock)?);
    let more = more.first().and_then(Fields::read).unwrap_or_default();
    let bytes = |name: &str| more.bytes(name).map(<[u8]>::to_vec);
    let scheduled_at = more.value("scheduled-at").and_then(reply::int);
    Some(Delivery {
        id: reply::bytes(id)?.to_vec(),
        payload: reply::bytes(payload)?.to_vec(),
        attempt: reply::int(attempt)?,
        token: reply::int(token)?,
        lock,
        deadline: Instant::now() + lock,
        enqueued_at: reply::int(enqueued_at)?,
        headers: bytes("headers"),
        group: bytes("group"),
        scheduled_at: scheduled_at.map(|at| at.to_string().into_bytes()),
    })
}
