//! `redis-mq web`.

mod access;
mod act;
mod names;
mod pages;
mod params;
mod site;

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use tokio::{
    net::TcpListener,
    signal::unix::{signal, SignalKind},
};

use self::{access::Access, site::Site};
use crate::{
    connect::Source,
    failure::{Exit, Failure},
    sample::{self, Board, Link},
};

/// Serve pages for looking into queues and repairing them.
///
/// Whoever reaches the address sees everything and, without --read-only, may do everything that the
/// user of the connection may. So it listens on this machine alone; another address needs --token or
/// --behind-proxy.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; port 0 is a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9822")]
    listen: SocketAddr,
    /// Ask for this as a password, with any user name, or as a bearer token; at least 16 letters
    #[arg(long, env = "REDIS_MQ_WEB_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A proxy in front of it decides who may come in
    #[arg(long)]
    behind_proxy: bool,
    /// A name that it is reached by, beside those of this machine; may be given several times
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Refuse whatever changes something
    #[arg(long)]
    read_only: bool,
    /// The path that all pages are under, as in /queues
    #[arg(long, value_name = "PATH", default_value = "", value_parser = access::base_path)]
    base_path: String,
    /// At most so many commands a second to the server, whatever the number of queues and browsers
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    budget: u32,
}

/// Serves until it is told to end.
pub async fn run(args: Args, source: Source) -> Result<Exit, Failure> {
    if !args.listen.ip().is_loopback() && args.token.is_none() && !args.behind_proxy {
        return Err(Failure::usage(format!(
            "{} can be reached from elsewhere: say --token, or --behind-proxy if a proxy decides \
             who may come in",
            args.listen
        )));
    }
    if args.token.as_ref().is_some_and(|token| token.len() < 16) {
        return Err(Failure::usage("--token needs at least 16 letters"));
    }
    let local = |error: &std::io::Error| Failure::local(args.listen, error);
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| local(&error))?;
    let address = listener.local_addr().map_err(|error| local(&error))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| local(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| local(&error))?;
    anstream::eprintln!("queues at http://{address}{}/", args.base_path);
    let link = Arc::new(Link::new(source, args.budget as usize, args.read_only));
    let board = Arc::new(Board::default());
    let access = Access::new(
        address.ip(),
        args.hosts,
        args.token,
        args.base_path,
        args.read_only,
    );
    let site = Site::new(access, link.clone(), board.clone());
    let app = Router::new()
        .fallback(site::answer)
        .with_state(Arc::new(site));
    let sampling = tokio::spawn(sample::run(link, board));
    // Browsers keep connections open, which must not hold up the end.
    let served = tokio::select! {
        served = axum::serve(listener, app) => served,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    sampling.abort();
    served.map_err(|error| local(&error))?;
    Ok(Exit::OK)
}
