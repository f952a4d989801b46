//! `redis-mq work`.

mod environment;
mod job;
mod link;
mod output;
mod process;
pub mod start;
mod taking;
mod verdict;
pub mod watch;

use std::{ffi::OsString, io, sync::Arc, time::Duration};

use redis_mq_client::redis;
use tokio::{
    signal::unix::{signal, SignalKind},
    sync::watch as phase_watch,
    task::JoinSet,
    time::sleep,
};

use self::{link::Link, output::Printer, watch::Watcher};
use crate::{
    connect::Source,
    duration,
    failure::{Exit, Failure},
};

/// Work on queues with a command: it is run once for each message, with the payload on its standard
/// input.
///
/// The command learns more from the variables MQ_QUEUE, MQ_ID, MQ_ATTEMPT, MQ_TOKEN, MQ_ENQUEUED_AT,
/// MQ_GROUP, MQ_SCHEDULED_AT, MQ_HEADERS, TRACEPARENT, TRACESTATE and BAGGAGE. Its exit code is the
/// verdict: 0 is a success, 65 (or one of --dead-on) makes the message a dead letter, 126 and 127 give
/// it back and end the worker with that code, everything else tries it again later.
///
/// SIGTERM or Ctrl-C: nothing more is taken, running commands have --grace to end, then they are ended
/// and their messages given back; a second signal ends them at once. docs/tools.md has it all.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queues; each has its own --concurrency
    #[arg(required = true)]
    queues: Vec<String>,
    /// The command and its arguments, behind --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    settings: Settings,
}

/// How the command is run, and what its end means.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// How many commands may run at once for each queue
    #[arg(long, short, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// How long a message stays away if this worker dies; while its command runs the lock is extended
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lock)]
    lock: Duration,
    /// How long a command may run; then it is ended, and its message tried again
    #[arg(long, value_name = "TIME", value_parser = duration::parse_above_zero)]
    timeout: Option<Duration>,
    /// How long a command may take to end after SIGTERM, before SIGKILL
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    grace: Duration,
    /// How many deliveries a message gets that has no limit of its own; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20)]
    attempts: u32,
    /// Try again after this time, not after one that grows with the attempt
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    retry_after: Option<Duration>,
    /// Exit codes that make the message a dead letter, beside 65
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = verdict::dead_on)]
    dead_on: Vec<i32>,
    /// What the command prints is the message's result, for MQ.RESULT, and is not printed here
    #[arg(long)]
    result: bool,
    /// How long results are kept, whatever their messages say
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "result")]
    retain: Option<Duration>,
    /// End when nothing is ready and all commands have ended
    #[arg(long)]
    until_empty: bool,
}

fn lock(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        time if time < Duration::from_millis(100) => Err("has to be 100 ms or more".into()),
        time => Ok(time),
    }
}

/// How far the end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Messages are taken.
    Taking,
    /// No more, but what runs goes on.
    Draining,
    /// What runs is ended.
    Ending,
}

/// What all queues of the worker share.
struct Shared {
    settings: Settings,
    command: Vec<OsString>,
    link: Link,
    watcher: Watcher,
    printer: Printer,
    phase: phase_watch::Sender<Phase>,
    /// The exit code of a command that cannot be run.
    broken: phase_watch::Sender<Option<u8>>,
}

impl Shared {
    /// Goes to that phase, never back.
    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let on = *phase < to;
            *phase = (*phase).max(to);
            on
        });
        if to == Phase::Ending {
            self.printer.hurry();
        }
    }

    fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns when that phase has come.
    async fn reached(&self, wanted: Phase) {
        let mut phase = self.phase.subscribe();
        // The sender lives as long as this.
        let _ = phase.wait_for(|phase| *phase >= wanted).await;
    }

    /// The command cannot be run: to go on would only spoil more messages.
    fn breaks(&self, code: u8) {
        self.broken.send_if_modified(|broken| {
            let first = broken.is_none();
            broken.get_or_insert(code);
            first
        });
        self.advance(Phase::Draining);
    }
}

/// Works until it is told to end.
///
/// All of it runs on the calling thread: processes are bound to the thread that started them, and
/// are killed when it ends.
pub async fn run(args: Args, source: Source, json: bool) -> Result<Exit, Failure> {
    let no_signals = |error: io::Error| Failure::local("signals", &error);
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    // What is wrong with the address shows now; later outages are waited for.
    let link = Link::new(source.clone());
    link.connect().await?;
    if args.settings.result {
        knows_results(&link, &args.queues[0]).await?;
    }
    process::adopt_orphans().map_err(|error| Failure::local("orphans", &error))?;
    let shared = Arc::new(Shared {
        settings: args.settings,
        command: args.command,
        link,
        watcher: Watcher::start().map_err(|error| Failure::local("the watcher", &error))?,
        printer: Printer::start(json),
        phase: phase_watch::Sender::new(Phase::Taking),
        broken: phase_watch::Sender::new(None),
    });
    let mut queues = JoinSet::new();
    for queue in args.queues {
        queues.spawn(taking::run(Arc::clone(&shared), source.clone(), queue));
    }
    let grace = shared.settings.grace;
    let drained = async {
        shared.reached(Phase::Draining).await;
        sleep(grace).await;
    };
    tokio::pin!(drained);
    let mut failed = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => shared.next_phase(),
            _ = interrupt.recv() => shared.next_phase(),
            () = &mut drained, if shared.phase() < Phase::Ending => shared.advance(Phase::Ending),
            ended = queues.join_next() => match ended {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(failure))) => {
                    failed.get_or_insert(failure);
                    shared.advance(Phase::Draining);
                }
                Some(Err(error)) => {
                    failed.get_or_insert(Failure::local("a queue", &error));
                    shared.advance(Phase::Draining);
                }
            },
        }
    }
    let broken = *shared.broken.borrow();
    shared.watcher.end();
    shared.printer.end();
    match (failed, broken) {
        (_, Some(code)) => Ok(Exit::of_command(code)),
        (Some(failure), None) => Err(failure),
        (None, None) => Ok(Exit::OK),
    }
}

/// An older module would refuse the verdicts, once the work is done. Whoever may not ask may still tell.
async fn knows_results(link: &Link, queue: &str) -> Result<(), Failure> {
    let asked = link.ask(redis::cmd("MQ.RESULT").arg(queue).arg("?")).await;
    match asked {
        Err(failure) if failure.begins_with(Failure::UNKNOWN_COMMAND) => Err(failure),
        _ => Ok(()),
    }
}

impl Shared {
    /// A signal came.
    fn next_phase(&self) {
        self.advance(match self.phase() {
            Phase::Taking => Phase::Draining,
            _ => Phase::Ending,
        });
    }
}
