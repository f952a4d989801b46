//! The queue at work: every file of a folder becomes a message, and several worker processes hash
//! them. The same files are enqueued twice, and one worker is killed while it holds messages.
//!
//! ```text
//! cargo run --example hash_files -- --dir DIR --server redis-server \
//!     --module target/release/libredis_mq.so --conf redis.conf
//! ```
//!
//! Starts a server of its own in a temporary folder and leaves nothing running. The exit status
//! says whether every file was handled.

mod files;
mod progress;
mod server;
mod worker;

use std::{
    collections::HashMap,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use redis_mq_client::{connect, redis, shutdown_signal, EnqueueOptions, Queue, QueueInfo, Status};
use server::Server;
use tokio::sync::mpsc;
use worker::{Job, News, WorkerProcess, QUEUE};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Worker processes; the first one is killed.
const WORKERS: usize = 4;

/// Without any news for so long, something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(worker::SUBCOMMAND) {
        return match worker::work(arguments).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("worker: {failure}");
                ExitCode::FAILURE
            }
        };
    }
    let outcome = async {
        let options = Options::read(first.into_iter().chain(arguments))?;
        let interrupted = shutdown_signal()?;
        tokio::select! {
            outcome = run(options) => outcome,
            () = interrupted => Err("interrupted".into()),
        }
    };
    match outcome.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    dir: PathBuf,
    server: PathBuf,
    module: PathBuf,
    conf: PathBuf,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut given = HashMap::new();
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            given.insert(name, PathBuf::from(value));
        }
        let mut take = |name: &str| given.remove(name);
        let options = Self {
            dir: take("--dir").unwrap_or_else(|| ".".into()),
            server: take("--server").unwrap_or_else(|| "redis-server".into()),
            module: take("--module").ok_or("--module is missing: the path of libredis_mq.so")?,
            conf: take("--conf").ok_or("--conf is missing: the path of redis.conf")?,
        };
        match given.into_keys().next() {
            Some(name) => Err(format!("unknown option {name}").into()),
            None => Ok(options),
        }
    }
}

async fn run(options: Options) -> Result<(), Failure> {
    let dir = options
        .dir
        .canonicalize()
        .map_err(|e| format!("{}: {e}", options.dir.display()))?;
    let files = files::below(&dir)?;
    if files.is_empty() {
        return Err(format!("there are no files in {}", dir.display()).into());
    }
    let server = Server::start(&options.server, &options.module, &options.conf).await?;
    println!(
        "Server on port {} in {}",
        server.port(),
        server.dir().display()
    );

    // The one to be killed waits first, so that it is served first.
    let (tell, news) = mpsc::unbounded_channel();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(WorkerProcess::start(
            number,
            number == 0,
            server.port(),
            &dir,
            tell.clone(),
        )?);
        server.wait_for_blocked(workers.len()).await?;
    }
    println!("{WORKERS} worker processes are blocked on the queue \"{QUEUE}\"");

    let client = redis::Client::open(server.url())?;
    let queue = Queue::<Job>::new(connect::reconnecting(&client)?, QUEUE);
    let start = Instant::now();
    enqueue(&queue, &files).await?.expect_all_added()?;
    println!("{} files enqueued, and the same ones again", files.len());
    let refused = enqueue(&queue, &files).await?;
    refused.expect_all_refused()?;

    let seen = watch(&files, &mut workers, news).await?;
    let info = drained(&queue).await?;
    let elapsed = start.elapsed();
    for worker in workers {
        worker.stop().await?;
    }
    server.stop().await?;
    report(&files, &seen, &refused, &info, elapsed)
}

/// What became of enqueueing every file.
#[derive(Default)]
struct Offered {
    accepted: usize,
    refused: HashMap<Status, usize>,
}

impl Offered {
    fn refusals(&self) -> usize {
        self.refused.values().sum()
    }

    fn expect_all_added(&self) -> Result<(), Failure> {
        match self.refusals() {
            0 => Ok(()),
            some => Err(format!("{some} files were refused by an empty queue").into()),
        }
    }

    fn expect_all_refused(&self) -> Result<(), Failure> {
        match self.accepted {
            0 => Ok(()),
            some => Err(format!("{some} duplicates were accepted").into()),
        }
    }
}

async fn enqueue(queue: &Queue<Job>, files: &[Vec<u8>]) -> Result<Offered, Failure> {
    let jobs: Vec<_> = files
        .iter()
        .map(|path| Job { path: path.clone() })
        .collect();
    let messages = jobs
        .iter()
        .map(|job| (job, EnqueueOptions::new().id(&job.path[..])));
    let mut offered = Offered::default();
    for outcome in queue.enqueue_many(messages).await? {
        match outcome?.refused_by() {
            None => offered.accepted += 1,
            Some(status) => *offered.refused.entry(status).or_default() += 1,
        }
    }
    Ok(offered)
}

/// What the workers have told.
#[derive(Default)]
struct Seen {
    /// The attempt that handled each file.
    handled: HashMap<Vec<u8>, u32>,
    lines: u64,
    bytes: u64,
    /// How many messages the killed worker held.
    held: usize,
}

/// Follows the workers until every file is handled; kills the first one once it holds messages.
async fn watch(
    files: &[Vec<u8>],
    workers: &mut [WorkerProcess],
    mut news: mpsc::UnboundedReceiver<News>,
) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    let mut bar = progress::Bar::new(files.len());
    let mut killed = false;
    while seen.handled.len() < files.len() {
        let told = tokio::time::timeout(PATIENCE, news.recv()).await;
        match told
            .map_err(|_| "no file was handled for a minute")?
            .ok_or("all workers have gone")?
        {
            News::Began { worker: 0 } => {
                seen.held += 1;
                if !killed {
                    killed = true;
                    workers[0].kill().await?;
                    bar.note("Worker 0 holds messages: killed with SIGKILL");
                }
            }
            News::Began { .. } => {}
            News::Handled {
                path,
                attempt,
                lines,
                bytes,
            } => {
                if seen.handled.insert(path, attempt).is_none() {
                    seen.lines += lines;
                    seen.bytes += bytes;
                }
                bar.show(seen.handled.len());
            }
        }
    }
    bar.end();
    Ok(seen)
}

/// Waits until the server has heard of every result, too.
async fn drained(queue: &Queue<Job>) -> Result<QueueInfo, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let info = queue.info().await?.ok_or("the queue has disappeared")?;
        if info.waiting() + info.locked + info.locked_with_requeue == 0 {
            return Ok(info);
        }
        if Instant::now() > deadline {
            return Err(format!("messages were left in the queue: {info:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn report(
    files: &[Vec<u8>],
    seen: &Seen,
    refused: &Offered,
    info: &QueueInfo,
    elapsed: Duration,
) -> Result<(), Failure> {
    let redelivered = info.total_delivered.saturating_sub(files.len() as u64);
    let mut by_status: Vec<_> = refused.refused.iter().collect();
    by_status.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let by_status: Vec<_> = by_status
        .into_iter()
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    let rate = files.len() as f64 / elapsed.as_secs_f64();
    println!();
    println!(
        "  files               {:>9}   ({} lines, {} bytes)",
        files.len(),
        seen.lines,
        seen.bytes
    );
    println!("  deliveries          {:>9}", info.total_delivered);
    println!(
        "  redeliveries        {redelivered:>9}   (held by the killed worker: {})",
        seen.held
    );
    println!(
        "  refused duplicates  {:>9}   ({})",
        refused.refusals(),
        by_status.join(", ")
    );
    println!(
        "  rate                {rate:>9.0}   files/s, over {:.1} s",
        elapsed.as_secs_f64()
    );
    println!();
    let missing = files
        .iter()
        .filter(|path| !seen.handled.contains_key(*path))
        .count();
    let checks = [
        (missing == 0, format!("{missing} files were not handled")),
        (
            info.total_done == files.len() as u64,
            format!("{} messages were finished", info.total_done),
        ),
        (info.dead == 0, format!("{} messages are dead", info.dead)),
        (
            seen.held > 0,
            "the killed worker held no message".to_owned(),
        ),
        (
            redelivered >= seen.held as u64,
            "what the killed worker held did not come back".to_owned(),
        ),
    ];
    for (holds, problem) in checks {
        if !holds {
            return Err(problem.into());
        }
    }
    println!("Check: every file was handled, and finished exactly once.");
    Ok(())
}
