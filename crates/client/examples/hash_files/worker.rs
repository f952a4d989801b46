//! A worker process, from the inside and from the outside.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use redis_mq_client::{blocking, redis, Message, Outcome, Worker};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    task::JoinHandle,
};

use crate::Failure;

pub const QUEUE: &str = "files";
pub const SUBCOMMAND: &str = "--work";

/// So long after a worker has died, others get what it held.
const LOCK: Duration = Duration::from_secs(2);

/// So long after a file was handled, its id stays taken.
const DEDUPE: Duration = Duration::from_secs(600);

#[derive(Serialize, Deserialize)]
pub struct Job {
    /// Relative to the folder; bytes, since not every path is text.
    pub path: Vec<u8>,
}

/// What a worker process tells, one line each.
pub enum News {
    Began {
        worker: usize,
    },
    Handled {
        path: Vec<u8>,
        attempt: u32,
        lines: u64,
        bytes: u64,
    },
}

/// The worker process: works until its standard input ends.
pub async fn work(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut next = || arguments.next().ok_or("an argument is missing");
    let (url, dir, stalls) = (next()?, PathBuf::from(next()?), next()? == "stall");
    let worker = Worker::builder(redis::Client::open(url)?, QUEUE)
        .handlers(4)
        .lock(LOCK)
        .build(blocking(move |message: Message<Job>| {
            handle(&message, &dir, stalls)
        }))?;
    // The starter keeps it open, and when it dies it is closed.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    let left = worker.stop(Duration::from_secs(10)).await;
    if left.is_clean() {
        Ok(())
    } else {
        Err(format!("left behind: {left:?}").into())
    }
}

fn handle(message: &Message<Job>, dir: &Path, stalls: bool) -> Result<Outcome, Failure> {
    println!("began");
    while stalls && !message.is_cancelled() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let path = &message.value.path;
    let content = std::fs::read(dir.join(OsStr::from_bytes(path)))?;
    let hash = hex(&Sha256::digest(&content));
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    let (attempt, bytes) = (message.attempt(), content.len());
    println!("handled {} {attempt} {lines} {bytes} {hash}", hex(path));
    Ok(Outcome::SuccessFor(DEDUPE))
}

/// A worker process, seen from the one that started it.
pub struct WorkerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    reader: JoinHandle<()>,
}

impl WorkerProcess {
    /// `stalls` is a worker that begins messages and never finishes them.
    pub fn start(
        number: usize,
        stalls: bool,
        port: u16,
        dir: &Path,
        tell: mpsc::UnboundedSender<News>,
    ) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SUBCOMMAND)
            .arg(format!("redis://127.0.0.1:{port}/"))
            .arg(dir)
            .arg(if stalls { "stall" } else { "work" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("the worker has no output")?;
        let reader = tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // A line that was cut by SIGKILL tells nothing.
                if let Some(news) = read(&line, number) {
                    // Nobody listens any more once all files are handled.
                    let _ = tell.send(news);
                }
            }
        });
        Ok(Self {
            child,
            stdin,
            reader,
        })
    }

    /// SIGKILL.
    pub async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Lets it finish, and waits for its end.
    pub async fn stop(mut self) -> Result<(), Failure> {
        let killed = self.stdin.take().is_some() && self.child.try_wait()?.is_some();
        let status = self.child.wait().await?;
        self.reader.await?;
        match status.success() || killed {
            true => Ok(()),
            false => Err(format!("a worker ended with {status}").into()),
        }
    }
}

fn read(line: &str, worker: usize) -> Option<News> {
    let words: Vec<_> = line.split(' ').collect();
    match words[..] {
        ["began"] => Some(News::Began { worker }),
        ["handled", path, attempt, lines, bytes, hash] if hash.len() == 64 => Some(News::Handled {
            path: unhex(path)?,
            attempt: attempt.parse().ok()?,
            lines: lines.parse().ok()?,
            bytes: bytes.parse().ok()?,
        }),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pair = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}
