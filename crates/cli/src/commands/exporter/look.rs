//! What a scrape asks the server for.

use std::time::{Duration, Instant};

use redis_mq_client::redis::{self, Cmd, Value};
use tokio::sync::Mutex;

use super::metrics::{Node, Queue, Schedule, Snapshot};
use crate::{
    commands::ls,
    connect::{Server, Source},
    failure::Failure,
    output,
    reply::{self, Fields},
};

/// How long a reply may take. A scrape has to end before Prometheus gives up, after ten seconds.
const RESPONSE: Duration = Duration::from_secs(4);
/// The questions about each queue.
const QUESTIONS: usize = 3;
/// Schedules that one reply tells of.
const PAGE: usize = 1_000;

/// Looks at the queues of one server, or of one cluster.
pub struct Scraper {
    source: Source,
    queues: Vec<String>,
    discover: Duration,
    state: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    server: Option<Server>,
    names: Vec<Vec<u8>>,
    found_at: Option<Instant>,
    failed: u64,
}

impl Scraper {
    /// Names, with patterns among them, or none for all queues; they are looked for that often.
    pub fn new(source: Source, queues: Vec<String>, discover: Duration) -> Self {
        Self {
            source,
            queues,
            discover,
            state: Mutex::default(),
        }
    }

    /// One scrape at a time: to ask the server twice at once would tell no more.
    pub async fn scrape(&self) -> Snapshot {
        let mut known = self.state.lock().await;
        let start = Instant::now();
        let mut snapshot = match self.look(&mut known).await {
            Ok(snapshot) => snapshot,
            Err(failure) => {
                known.server = None;
                known.failed += 1;
                anstream::eprintln!("{}", failure.line().unwrap_or_default());
                Snapshot::default()
            }
        };
        snapshot.failed = known.failed;
        snapshot.took = start.elapsed();
        snapshot
    }

    async fn look(&self, known: &mut Known) -> Result<Snapshot, Failure> {
        let server = match &mut known.server {
            Some(server) => server,
            None => known.server.insert(self.source.connect(RESPONSE).await?),
        };
        if known
            .found_at
            .is_none_or(|at| at.elapsed() >= self.discover)
        {
            known.names = self.find(server).await?;
            known.found_at = Some(Instant::now());
        }
        // In a cluster what stands together about one queue goes out together.
        let asked: Vec<Cmd> = known.names.iter().flat_map(|name| ask(name)).collect();
        let answers = server.call_all(&asked).await?;
        let mut snapshot = Snapshot {
            up: true,
            ..Snapshot::default()
        };
        let mut with_schedules = Vec::new();
        for (name, answers) in known.names.iter().zip(answers.chunks(QUESTIONS)) {
            if snapshot.add(name, answers) {
                with_schedules.push((name.as_slice(), 0));
            }
        }
        // The pages of all queues go out together.
        while !with_schedules.is_empty() {
            let pages: Vec<Cmd> = with_schedules
                .iter()
                .map(|(name, at)| page(name, *at))
                .collect();
            let answers = server.call_all(&pages).await?;
            with_schedules = (with_schedules.into_iter().zip(answers))
                .filter_map(|((name, _), answer)| {
                    Some((name, snapshot.add_schedules(name, answer)?))
                })
                .collect();
        }
        for node in server.info("mq").await? {
            if !node.has("mq_queues") {
                return Err(Failure::refused(Failure::UNKNOWN_COMMAND));
            }
            snapshot.blocked_consumers += node.count("mq_blocked_consumers");
        }
        for node in server.info("memory").await? {
            snapshot.nodes.push(Node {
                used: node.count("used_memory"),
                limit: Some(node.count("maxmemory")).filter(|limit| *limit > 0),
                address: node.node,
            });
        }
        Ok(snapshot)
    }

    async fn find(&self, server: &mut Server) -> Result<Vec<Vec<u8>>, Failure> {
        if self.queues.is_empty() {
            return server.queues(None).await;
        }
        let mut names = Vec::new();
        for name in &self.queues {
            match name.contains(['*', '?', '[']) {
                true => names.extend(server.queues(Some(name)).await?),
                false => names.push(name.clone().into_bytes()),
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

fn ask(queue: &[u8]) -> [Cmd; QUESTIONS] {
    let mut latency = redis::cmd("MQ.LATENCY");
    latency.arg(queue);
    let mut usage = redis::cmd("MEMORY");
    usage.arg("USAGE").arg(queue);
    [ls::ask(queue), latency, usage]
}

fn page(queue: &[u8], cursor: u64) -> Cmd {
    let mut page = redis::cmd("MQ.SCHEDULES");
    page.arg(queue).arg(cursor).arg("COUNT").arg(PAGE);
    page
}

impl Snapshot {
    /// Takes in what was told of a queue. Whether it has schedules.
    fn add(&mut self, name: &[u8], answers: &[Result<Value, Failure>]) -> bool {
        let [info, latency, usage] = answers else {
            return false;
        };
        for answer in answers {
            if let Err(failure) = answer {
                self.refused += u64::from(is_refusal(failure));
            }
        }
        // A queue may be gone, or have made room for a key of another type.
        let Some(info) = info.as_ref().ok().and_then(Fields::read) else {
            return false;
        };
        let latency = latency.as_ref().ok().and_then(Fields::read);
        let memory = usage.as_ref().ok().and_then(reply::unsigned);
        let queue = Queue::new(output::name(name), &info, latency.as_ref(), memory);
        self.queues.push(queue);
        info.count("schedules") != 0
    }

    /// Takes in one page of schedules. The cursor of the next, if there is one.
    fn add_schedules(&mut self, queue: &[u8], answer: Result<Value, Failure>) -> Option<u64> {
        let page = match answer {
            Ok(page) => page,
            Err(failure) => {
                self.refused += u64::from(is_refusal(&failure));
                return None;
            }
        };
        let [cursor, all] = reply::items(&page)? else {
            return None;
        };
        let all = reply::items(all)?.iter().filter_map(Fields::read);
        let read = all.filter_map(|fields| Schedule::new(output::name(queue), &fields));
        self.schedules.extend(read);
        // The cursor is written as text.
        let cursor = reply::text(cursor)?.parse().ok()?;
        (cursor != 0).then_some(cursor)
    }
}

/// A key that is no queue any more is no fault, nor is an older module that knows less.
fn is_refusal(failure: &Failure) -> bool {
    !failure.begins_with(Failure::NO_QUEUE) && !failure.begins_with(Failure::UNKNOWN_COMMAND)
}
