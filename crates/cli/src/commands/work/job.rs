//! One delivery: the command runs, its lock is kept, and the server is told the verdict.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use redis_mq_client::redis::{self, Value};
use tokio::time::{sleep, sleep_until, timeout, Instant};

use super::{
    environment,
    link::Pauses,
    output::{self, Stream, Told},
    process::{bury_strangers, Outputs, Process},
    taking::Delivery,
    verdict::{self, End, Printed, Verdict, LONGEST_RESULT},
    Phase, Shared,
};
use crate::{
    duration,
    failure::{Exit, Failure},
    reply::{self, Fields},
};

/// How long to wait for the rest of the output of a command whose processes have all ended. Others may
/// have got the pipe from it.
const REST_OF_OUTPUT: Duration = Duration::from_millis(500);
/// How long a worker that ends tries to tell a verdict to a server that does not answer.
const LAST_TRIES: Duration = Duration::from_secs(10);

/// Runs the command for this message and tells the verdict.
pub async fn run(shared: &Shared, queue: &str, delivery: Delivery) {
    if shared.phase() > Phase::Taking {
        return tell(shared, queue, &delivery, Verdict::Release).await;
    }
    // Deliveries that never came back count too: their workers may have died of the message.
    let attempts = i64::from(shared.settings.attempts);
    let over = attempts != 0 && delivery.attempt > attempts;
    if over && has_no_limit(shared, queue, &delivery).await {
        let reason = b"no attempts left".to_vec();
        return tell(shared, queue, &delivery, Verdict::Dead { reason }).await;
    }
    let (said, result) = (Mutex::default(), Mutex::default());
    let Some(end) = work(shared, queue, &delivery, &said, &result).await else {
        let told = Told {
            verdict: "none",
            reason: Some(b"its lock is lost"),
            became: "with others, or gone",
        };
        return shared
            .printer
            .verdict(queue, &delivery.id, delivery.attempt, &told)
            .await;
    };
    let printed = Printed {
        said: said.into_inner().unwrap_or_else(PoisonError::into_inner),
        result: result.into_inner().unwrap_or_else(PoisonError::into_inner),
    };
    let last_words = match &printed.said[..] {
        [] => None,
        said => Some(crate::output::name(said)),
    };
    let (mut verdict, broken) = verdict::of(end, printed, &shared.settings);
    if let Some(code) = broken {
        let why = last_words.unwrap_or_else(|| format!("the command ended with {code}"));
        if shared.broken.borrow().is_none() {
            shared.printer.notice(&format!("{why}; giving up")).await;
        }
        shared.breaks(code);
    }
    let is_last = attempts != 0 && delivery.attempt >= attempts;
    if is_last
        && matches!(verdict, Verdict::Retry { .. })
        && has_no_limit(shared, queue, &delivery).await
    {
        verdict = verdict.given_up();
    }
    tell(shared, queue, &delivery, verdict).await;
}

/// Runs the command to its end. `None`: the lock was lost meanwhile, so that nobody may be told.
async fn work(
    shared: &Shared,
    queue: &str,
    delivery: &Delivery,
    said: &Mutex<Vec<u8>>,
    result: &Mutex<Vec<u8>>,
) -> Option<End> {
    let variables = environment::variables(queue, delivery);
    let known = |group| shared.watcher.add(group);
    let started = Process::start(&shared.command, variables, &delivery.payload, known);
    let (mut process, Outputs { stdout, stderr }) = match started {
        Ok(started) => started,
        Err(error) => {
            shared
                .printer
                .notice(&format!("the command cannot be started: {error}"))
                .await;
            return Some(End::NotStarted);
        }
    };
    let group = process.group();
    let (printer, id) = (&shared.printer, &delivery.id);
    let ignored = Mutex::default();
    let from_stdout = async {
        match shared.settings.result {
            true => output::collect(stdout, LONGEST_RESULT, result).await,
            false => {
                printer
                    .follow(Stream::Out, queue, id, stdout, &ignored)
                    .await
            }
        }
    };
    let outputs = async {
        tokio::join!(
            from_stdout,
            printer.follow(Stream::Err, queue, id, stderr, said),
        );
    };
    let lock = keep_lock(shared, queue, delivery);
    tokio::pin!(outputs, lock);
    let running = run_to_end(shared, &mut process);
    let mut printed = false;
    let mut end = {
        tokio::pin!(running);
        loop {
            tokio::select! {
                biased;
                () = &mut lock => break None,
                end = &mut running => break Some(end),
                () = &mut outputs, if !printed => printed = true,
            }
        }
    };
    if end.is_none() {
        // Its output is read on, so that it can end.
        let ending = process.end(shared.settings.grace);
        tokio::pin!(ending);
        loop {
            tokio::select! {
                () = &mut ending => break,
                () = &mut outputs, if !printed => printed = true,
            }
        }
    }
    if !printed {
        let rest = timeout(REST_OF_OUTPUT, outputs);
        // A lock that was lost already has returned, and is not asked again.
        let is_held = end.is_some();
        tokio::select! {
            _ = rest => {}
            () = &mut lock, if is_held => end = None,
        }
    }
    // Where it cannot be told, it kills a group that is gone.
    let _ = shared.watcher.remove(group);
    bury_strangers(|process| shared.watcher.knows(process));
    end
}

/// Waits for the command, and ends what is left of it.
async fn run_to_end(shared: &Shared, process: &mut Process) -> End {
    let grace = shared.settings.grace;
    let time_is_over = async {
        match shared.settings.timeout {
            Some(time) => sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let end = tokio::select! {
        biased;
        ended = process.ended() => match ended {
            Ok(status) => End::Exited(status),
            Err(_) => End::NotStarted,
        },
        () = time_is_over => End::TimedOut,
        () = shared.reached(Phase::Ending) => End::Stopped,
    };
    process.end(grace).await;
    end
}

/// Extends the lock for as long as it is waited for. It returns when the lock is lost: the message has
/// gone to somebody else or is gone, or the server did not answer in time. In time is early enough for
/// the command to be ended before somebody else can begin.
async fn keep_lock(shared: &Shared, queue: &str, delivery: &Delivery) {
    let lock = delivery.lock;
    let mut deadline = delivery.deadline;
    let mut command = redis::cmd("MQ.EXTEND");
    command
        .arg(queue)
        .arg(&delivery.id)
        .arg(delivery.token)
        .arg(duration::millis(lock));
    loop {
        sleep_until(deadline - lock * 2 / 3).await;
        let mut pauses = Pauses::new();
        let give_up = deadline - shared.settings.grace.min(lock / 3);
        loop {
            let sent = Instant::now();
            let asked = tokio::select! {
                () = sleep_until(give_up) => return,
                asked = shared.link.ask(&command) => asked,
            };
            match asked {
                Ok(Value::Int(_)) => {
                    deadline = sent + lock;
                    break;
                }
                Ok(_) => return,
                Err(failure) if failure.begins_with("STALE") => return,
                Err(_) => tokio::select! {
                    () = sleep_until(give_up) => return,
                    () = pauses.pause() => {}
                },
            }
        }
    }
}

/// Whether neither the message nor its queue has a limit of attempts.
async fn has_no_limit(shared: &Shared, queue: &str, delivery: &Delivery) -> bool {
    let mut command = redis::cmd("MQ.GET");
    command.arg(queue).arg(&delivery.id);
    // A server that cannot be asked will not give up in our place either: the message comes again.
    let answer = shared.link.ask(&command).await;
    let message = answer.ok().as_ref().and_then(Fields::read);
    if message.is_none_or(|message| message.count("max-attempts") != 0) {
        return false;
    }
    let mut command = redis::cmd("MQ.LIMIT");
    command.arg(queue);
    match shared.link.ask(&command).await {
        Ok(limits) => Fields::read(&limits).is_none_or(|limits| limits.count("attempts") == 0),
        // A module without limits, or a user who may not ask.
        Err(failure) => failure.exit() == Exit::REFUSED,
    }
}

/// Tells the server, however often it takes; to repeat it is harmless.
async fn tell(shared: &Shared, queue: &str, delivery: &Delivery, verdict: Verdict) {
    let mut pauses = Pauses::new();
    let mut with_reason = true;
    let mut ending_since = None;
    let mut last = None;
    let answer = loop {
        let command = verdict.command(queue, delivery, with_reason);
        match shared.link.ask(&command).await {
            Err(failure) if failure.begins_with("STALE") => break "with others".to_owned(),
            Err(failure) if with_reason && failure.begins_with("ERR syntax") => with_reason = false,
            Err(failure) => {
                note_once(shared, &mut last, &failure).await;
                if shared.phase() > Phase::Taking {
                    let since = *ending_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > LAST_TRIES {
                        break "unknown: the server was not told".to_owned();
                    }
                }
                pauses.pause().await;
            }
            Ok(Value::Nil) => break "gone".to_owned(),
            Ok(value) => break reply::text(&value).unwrap_or_default(),
        }
    };
    let told = Told {
        verdict: verdict.name(),
        reason: match (&verdict, &*answer) {
            (Verdict::Success(_), "done" | "queued") => None,
            (Verdict::Success(_), _) => Some(&b"it took too long"[..]),
            _ => verdict.reason(),
        },
        became: &answer,
    };
    shared
        .printer
        .verdict(queue, &delivery.id, delivery.attempt, &told)
        .await;
}

/// Tells of a failure unless it is the same as the last one.
async fn note_once(shared: &Shared, last: &mut Option<(Exit, String)>, failure: &Failure) {
    let this = (
        failure.exit(),
        failure.line().unwrap_or_default().to_owned(),
    );
    if last.as_ref() != Some(&this) {
        shared.printer.notice(&this.1).await;
        *last = Some(this);
    }
}
