//! `redis-mq enqueue`.

mod line;
mod source;

use std::{collections::BTreeMap, future::Future, path::PathBuf, time::Duration};

use redis_mq_client::redis::Value;
use serde_json::{Map, Value as Json};

pub use self::line::header;
use self::{line::Message, source::Source};
use crate::{
    connect::{Server, PIPELINE},
    duration,
    failure::{Exit, Failure},
    output::{self, Out},
    reply,
};

/// Add messages: from arguments, from the lines of standard input, or from JSON lines.
///
/// Prints what became of each message: `added`, `updated`, `requeued`, or the status of the message
/// that has the id already, which is no error: to repeat an enqueue with ids is harmless.
///
/// With --jsonl each line is an object of `payload` (a string is sent as it is, any other value as
/// JSON) or `payload-base64`, and, if wanted, `id`, `at` or `delay`, `lock`, `ttl`,
/// `retain` (milliseconds), `bury`, `attempts`, `priority`, `group` and `headers` (an object, or
/// lines). All lines are read and checked before the first message is sent, unless --stream is given.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// The payloads; without any, each line of standard input that is not empty is one
    payloads: Vec<String>,
    /// Lines are JSON objects
    #[arg(long, conflicts_with = "payloads")]
    jsonl: bool,
    /// Send JSON lines as they come; what was sent before a wrong line stays
    #[arg(long, requires = "jsonl")]
    stream: bool,
    /// Read lines from there in place of standard input
    #[arg(long, value_name = "FILE", conflicts_with = "payloads")]
    file: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// What every message gets that does not say so itself.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// The id, 1 to 512 bytes; only with one payload
    #[arg(long)]
    id: Option<String>,
    /// Ready after that time
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Ready at that instant: Unix milliseconds, or as in 2030-01-31T08:00:00Z
    #[arg(long, value_name = "INSTANT", value_parser = duration::parse_instant)]
    at: Option<u64>,
    /// How long a delivery is locked, whatever the consumer asks for
    #[arg(long, value_name = "TIME", value_parser = duration::parse_above_zero)]
    lock: Option<Duration>,
    /// How many deliveries before it is dead; 0 is no limit
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// 0 (first) to 9 (last); 5 if not given
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// The group it belongs to, 1 to 128 bytes
    #[arg(long)]
    group: Option<String>,
    /// Not handed over after that time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_above_zero)]
    ttl: Option<Duration>,
    /// With --ttl: it becomes a dead letter then
    #[arg(long, requires = "ttl")]
    bury: bool,
    /// How long it is kept that the message was done, with the result that its worker gave
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    retain: Option<Duration>,
    /// A header, as in 'traceparent: 00-…'; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = line::header)]
    header: Vec<String>,
    /// Replace a message of that id that still waits
    #[arg(long)]
    update: bool,
    /// If the id is being worked on, or finished but still taken, run a copy afterwards
    #[arg(long)]
    requeue: bool,
}

/// Adds the messages.
pub async fn run(
    args: Args,
    server: impl Future<Output = Result<Server, Failure>>,
    json: bool,
) -> Result<Exit, Failure> {
    let single = args.payloads.len() == 1;
    if args.options.id.is_some() && !single {
        return Err(Failure::usage("--id goes with exactly one payload"));
    }
    let mut report = Report::new(json);
    if !args.payloads.is_empty() {
        let messages: Vec<_> = args.payloads.iter().map(Message::plain).collect();
        send(&args, &messages, &mut server.await?, &mut report).await?;
        return Ok(Exit::OK);
    }
    report.counts_only = !json;
    // What is wrong with the input is found before anything is sent, or even connected.
    let mut source = Source::open(args.file.as_deref(), args.jsonl, !args.stream)?;
    let mut server = server.await?;
    let bar = source.progress();
    loop {
        let (messages, broken) = source.next_batch(PIPELINE);
        send(&args, &messages, &mut server, &mut report).await?;
        bar.set_position(source.position());
        if let Some(failure) = broken {
            let sent = report.sent;
            let line = failure.line().unwrap_or_default();
            let line = format!("{line}; {sent} messages before it were sent");
            return Err(failure.with_line(&line));
        }
        if messages.is_empty() {
            break;
        }
    }
    bar.finish_and_clear();
    report.finish()?;
    Ok(Exit::OK)
}

async fn send(
    args: &Args,
    messages: &[Message],
    server: &mut Server,
    report: &mut Report,
) -> Result<(), Failure> {
    let commands: Vec<_> = messages
        .iter()
        .map(|message| message.command(args.queue.as_bytes(), &args.options))
        .collect();
    // All have been carried out, whatever became of one of them.
    let mut refused = None;
    for answer in server.call_all(&commands).await? {
        match answer {
            Ok(answer) => report.add(&answer)?,
            Err(failure) => refused = refused.or(Some(failure)),
        }
    }
    let Some(failure) = refused else {
        return Ok(());
    };
    let line = failure.line().unwrap_or_default();
    let line = format!("{line} ({} messages were sent)", report.sent);
    Err(failure.with_line(&line))
}

/// Tells what became of the messages.
struct Report {
    out: Out,
    json: bool,
    /// Only how many of each outcome, at the end.
    counts_only: bool,
    sent: u64,
    outcomes: BTreeMap<String, u64>,
}

impl Report {
    fn new(json: bool) -> Self {
        Self {
            out: Out::new(),
            json,
            counts_only: false,
            sent: 0,
            outcomes: BTreeMap::new(),
        }
    }

    fn add(&mut self, answer: &Value) -> Result<(), Failure> {
        let (outcome, id) = reply::items(answer)
            .and_then(|items| Some((reply::text(items.first()?)?, reply::bytes(items.get(1)?)?)))
            .ok_or_else(|| Failure::unexpected("MQ.ENQUEUE"))?;
        self.sent += 1;
        if self.json {
            let mut object = Map::new();
            object.insert("outcome".into(), outcome.into());
            output::put_bytes(&mut object, "id", id);
            return self.out.line(Json::Object(object));
        }
        if self.counts_only {
            *self.outcomes.entry(outcome).or_default() += 1;
            return Ok(());
        }
        let id = output::name(id);
        self.out.line(format_args!("{outcome} {id}"))
    }

    fn finish(mut self) -> Result<(), Failure> {
        if !self.counts_only {
            return Ok(());
        }
        if self.sent == 0 {
            return self.out.line("nothing to add");
        }
        for (outcome, count) in &self.outcomes {
            self.out.line(format_args!("{count} {outcome}"))?;
        }
        Ok(())
    }
}
