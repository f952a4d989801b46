//! `redis-mq exporter`.

mod metrics;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::State,
    http::{header, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
    Router,
};
use redis_mq_client::redis::{self, Cmd};
use tokio::{
    net::TcpListener,
    signal::unix::{signal, SignalKind},
    sync::Mutex,
};

use self::metrics::{Queue, Snapshot};
use super::ls;
use crate::{
    connect::{Server, Source},
    duration,
    failure::{Exit, Failure},
    output::{self, Out},
    reply::{self, Fields},
};

/// How long a reply may take. A scrape has to end before Prometheus gives up, after ten seconds.
const RESPONSE: Duration = Duration::from_secs(4);

/// Serve the metrics of queues to Prometheus, under /metrics.
///
/// All counts come from the server, so that any number of exporters tell the same. A server that cannot
/// be reached is `redis_mq_up 0`, and no reason to end.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; port 0 is a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9821")]
    listen: SocketAddr,
    /// Only this queue; may be given several times. A name with `*`, `?` or `[` is a pattern
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
    /// How often queues are looked for
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse_above_zero)]
    discover: Duration,
    /// Print the metrics once in place of serving them; exit code 3 if the server is not reached
    #[arg(long)]
    once: bool,
}

/// Serves until it is told to end.
pub async fn run(args: Args, source: Source) -> Result<Exit, Failure> {
    let scraper = Scraper {
        source,
        queues: args.queues,
        discover: args.discover,
        state: Mutex::default(),
    };
    if args.once {
        let snapshot = scraper.scrape().await;
        let exit = if snapshot.up {
            Exit::OK
        } else {
            Exit::UNREACHED
        };
        let text = snapshot.encode();
        let text = text.map_err(|error| Failure::local("the metrics", &error))?;
        Out::new().line(text.trim_end())?;
        return Ok(exit);
    }
    let local = |error: &std::io::Error| Failure::local(args.listen, error);
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| local(&error))?;
    let address = listener.local_addr().map_err(|error| local(&error))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| local(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| local(&error))?;
    anstream::eprintln!("metrics at http://{address}/metrics");
    let app = Router::new()
        .route("/", get(|| async { "redis-mq exporter: see /metrics\n" }))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(scraper));
    let told_to_end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(told_to_end)
        .await;
    served.map_err(|error| local(&error))?;
    Ok(Exit::OK)
}

async fn metrics(State(scraper): State<Arc<Scraper>>) -> Response {
    match scraper.scrape().await.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        // Writing to a string does not fail.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

struct Scraper {
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
}

impl Scraper {
    /// One scrape at a time: to ask the server twice at once would tell no more.
    async fn scrape(&self) -> Snapshot {
        let mut known = self.state.lock().await;
        let start = Instant::now();
        let mut snapshot = match self.look(&mut known).await {
            Ok(snapshot) => snapshot,
            Err(failure) => {
                known.server = None;
                anstream::eprintln!("{}", failure.line().unwrap_or_default());
                Snapshot::default()
            }
        };
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
        let infos: Vec<Cmd> = known.names.iter().map(|name| ls::ask(name)).collect();
        let usage = |name: &Vec<u8>| -> Cmd {
            let mut command = redis::cmd("MEMORY");
            command.arg("USAGE").arg(name);
            command
        };
        let usages: Vec<Cmd> = known.names.iter().map(usage).collect();
        let infos = server.call_all(&infos).await?;
        let usages = server.call_all(&usages).await?;
        let mut queues = Vec::new();
        for ((name, info), usage) in known.names.iter().zip(infos).zip(usages) {
            // A queue may be gone, or have made room for a key of another type.
            if let Some(info) = info.ok().as_ref().and_then(Fields::read) {
                let memory = usage.ok().as_ref().and_then(reply::unsigned);
                queues.push(Queue::new(output::name(name), &info, memory));
            }
        }
        Ok(Snapshot {
            up: true,
            queues,
            blocked_consumers: server.info_sum("mq", "mq_blocked_consumers").await?,
            took: Duration::ZERO,
        })
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
