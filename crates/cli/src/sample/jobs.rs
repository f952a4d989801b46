//! What takes many steps goes on beside what is shown.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis_mq_client::redis::Cmd;

use super::Link;
use crate::{failure::Failure, reply};

/// How many messages one step is about.
const STEP: u64 = 1_000;
/// How long an answer waits for a short job to end.
const SHORT: Duration = Duration::from_secs(2);

/// How far a job is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// As in `sent again`.
    pub what: &'static str,
    /// How many messages it has done.
    pub done: u64,
    /// How many there were at its start.
    pub of: u64,
    /// It has ended.
    pub over: bool,
    /// Why it ended too early.
    pub error: Option<String>,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} {}", self.done, self.of, self.what)?;
        if !self.over {
            f.write_str(" …")?;
        }
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// At most one for each queue; the last one of a queue is kept to be shown.
#[derive(Default)]
pub struct Jobs(Arc<Mutex<BTreeMap<Vec<u8>, Progress>>>);

impl Jobs {
    /// The last job of that queue.
    pub fn of(&self, queue: &[u8]) -> Option<Progress> {
        lock(&self.0).get(queue).cloned()
    }

    /// Takes the last job of that queue away, if it has ended.
    pub fn forget(&self, queue: &[u8]) {
        let mut jobs = lock(&self.0);
        if jobs.get(queue).is_some_and(|job| job.over) {
            jobs.remove(queue);
        }
    }

    /// Begins to do something to `of` messages, with one command for each step, and waits a
    /// little for its end.
    pub async fn start(
        &self,
        queue: &[u8],
        what: &'static str,
        of: u64,
        link: Arc<Link>,
        command: impl Fn(u64) -> Cmd + Send + 'static,
    ) -> Result<(), Failure> {
        {
            let mut jobs = lock(&self.0);
            if jobs.get(queue).is_some_and(|job| !job.over) {
                return Err(Failure::refused(
                    "something is being done to this queue already; wait for its end",
                ));
            }
            let job = Progress {
                what,
                done: 0,
                of,
                over: false,
                error: None,
            };
            jobs.insert(queue.to_vec(), job);
        }
        let (all, queue) = (self.0.clone(), queue.to_vec());
        let running = tokio::spawn(async move {
            let mut done = 0;
            let mut error = None;
            while done < of {
                let step = link.change(&command(STEP.min(of - done))).await;
                let step = step.map(|answer| reply::unsigned(&answer).unwrap_or(0));
                match step {
                    Ok(0) => break,
                    Ok(some) => done += some,
                    Err(failure) => {
                        error = Some(failure.line().unwrap_or_default().to_owned());
                        break;
                    }
                }
                note(&all, &queue, |job| job.done = done);
            }
            note(&all, &queue, |job| {
                job.over = true;
                job.error = error;
            });
        });
        // It goes on behind this if it takes longer.
        let _ = tokio::time::timeout(SHORT, running).await;
        Ok(())
    }
}

type All = Mutex<BTreeMap<Vec<u8>, Progress>>;

fn lock(all: &All) -> std::sync::MutexGuard<'_, BTreeMap<Vec<u8>, Progress>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(all: &All, queue: &[u8], change: impl FnOnce(&mut Progress)) {
    if let Some(job) = lock(all).get_mut(queue) {
        change(job);
    }
}
