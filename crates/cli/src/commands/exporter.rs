//! `redis-mq exporter`.

mod histogram;
mod look;
mod metrics;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{header, HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
    Router,
};
use tokio::{
    net::TcpListener,
    signal::unix::{signal, SignalKind},
};

use self::{look::Scraper, metrics::Format};
use crate::{
    connect::Source,
    duration,
    failure::{Exit, Failure},
    output::Out,
};

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
    let scraper = Scraper::new(source, args.queues, args.discover);
    if args.once {
        let snapshot = scraper.scrape().await;
        let exit = if snapshot.up {
            Exit::OK
        } else {
            Exit::UNREACHED
        };
        // The one that textfile collectors read.
        let text = snapshot.encode(Format::Text);
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

async fn metrics(State(scraper): State<Arc<Scraper>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    let format = Format::accepted(accepted.filter_map(|value| value.to_str().ok()));
    match scraper.scrape().await.encode(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        // Writing to a string does not fail.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
