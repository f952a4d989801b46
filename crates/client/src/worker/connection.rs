//! One connection of a worker, and how it survives.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::time::{sleep_until, timeout, Instant};

use super::{
    observe::{
        counts::Count,
        events::{Event, Side},
        health::Health,
    },
    run::core::{Core, Identity, Spec},
};
use crate::{
    backoff::Reconnect,
    connect::{
        any::{pipeline, AnyConnection},
        ConnectOptions,
    },
    reply,
};

/// A connection that is opened again after every failure, whatever the failure, after a pause that
/// grows with each one. Every change of state is logged once.
pub(crate) struct LastingConnection {
    spec: Arc<Spec>,
    side: Side,
    options: ConnectOptions,
    open: Option<Open>,
    backoff: Reconnect,
    /// Not before then.
    retry_at: Option<Instant>,
    state: State,
    /// What the worker tells of this connection.
    health: Arc<Health>,
}

struct Open {
    connection: AnyConnection,
    /// `None` where the server does not tell.
    identity: Option<Identity>,
    since: Instant,
    /// A command of ours has been answered over it.
    proved: bool,
}

#[derive(Debug, PartialEq)]
enum State {
    New,
    Up,
    /// With the kinds of failures seen since then: each is logged at once when it is new, and the
    /// outage itself each minute.
    Down {
        since: Instant,
        seen: Vec<String>,
        logged: Instant,
    },
}

/// A connection that has lasted that long was good: the pauses begin anew after it.
const GOOD_AFTER: Duration = Duration::from_secs(2);

/// How often the log is told of an outage that goes on.
const REMIND_EVERY: Duration = Duration::from_secs(60);

impl LastingConnection {
    /// `wait` is how long the server may hold back a reply on purpose.
    pub(crate) fn new(core: &Core, side: Side, wait: Duration) -> Self {
        let spec = Arc::clone(&core.spec);
        let settings = &spec.settings;
        let (least, most) = settings.reconnect;
        Self {
            side,
            options: ConnectOptions {
                queue: spec.queue.key.clone(),
                response_timeout: wait + settings.response_timeout,
                connect_timeout: settings.connect_timeout,
                ask: None,
            },
            open: None,
            backoff: Reconnect::new(least, most),
            retry_at: None,
            state: State::New,
            health: Arc::clone(core.health(side)),
            spec,
        }
    }

    /// The connection. Tries until there is one.
    pub(crate) async fn opened(&mut self) -> &mut AnyConnection {
        while self.open.is_none() {
            if let Some(at) = self.retry_at {
                sleep_until(at).await;
                self.retry_at = None;
            }
            match connect(&self.spec, &self.options, self.side).await {
                Ok(open) => self.open = Some(open),
                Err(error) => self.failed(&error),
            }
        }
        let open = self.open.as_mut();
        &mut open
            .expect("the loop ends with an open connection")
            .connection
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a command of ours has been answered over this very connection.
    pub(crate) fn is_proved(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.proved)
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.open.as_ref()?.identity.as_ref()
    }

    /// A command of ours has been answered.
    pub(crate) fn succeeded(&mut self) {
        if let Some(open) = &mut self.open {
            open.proved = true;
        }
        self.health.set(true);
        let (queue, side) = (&self.spec.queue.shown, self.side.as_str());
        match std::mem::replace(&mut self.state, State::Up) {
            State::Up => return,
            State::New => tracing::debug!(%queue, connection = side, "connected"),
            State::Down { since, .. } => {
                let outage_ms = since.elapsed().as_millis();
                tracing::info!(%queue, connection = side, outage_ms, "connected again");
            }
        }
        self.spec
            .events
            .send(|| Event::Connected { side: self.side });
    }

    /// The connection, or the attempt to open one, has failed: the next one is a new one.
    pub(crate) fn failed(&mut self, error: &RedisError) {
        self.health.set(false);
        let lasted = self
            .open
            .take()
            .filter(|open| open.proved)
            .map(|open| open.since.elapsed());
        if lasted.is_some_and(|lasted| lasted >= GOOD_AFTER) {
            self.backoff.reset();
        }
        self.retry_at = Some(Instant::now() + self.backoff.pause());
        let asks = error.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        self.options.ask = error
            .redirect_node()
            .filter(|_| asks)
            .map(|(node, _)| node.to_owned());
        let kind = kind(error);
        let (queue, side) = (&self.spec.queue.shown, self.side.as_str());
        match &mut self.state {
            State::Down { seen, logged, .. }
                if seen.contains(&kind) && logged.elapsed() < REMIND_EVERY => {}
            State::Down {
                since,
                seen,
                logged,
            } => {
                let outage_ms = since.elapsed().as_millis();
                tracing::warn!(%queue, connection = side, outage_ms, %error, "still not connected");
                *logged = Instant::now();
                if !seen.contains(&kind) {
                    seen.push(kind);
                }
            }
            State::New | State::Up => {
                tracing::warn!(%queue, connection = side, %error, "connection failed, retrying");
                self.state = State::Down {
                    since: Instant::now(),
                    seen: vec![kind],
                    logged: Instant::now(),
                };
                self.spec.counters.add(Count::Outages, 1);
                let error = error.to_string();
                self.spec.events.send(|| Event::Reconnecting {
                    side: self.side,
                    error,
                });
            }
        }
    }
}

async fn connect(spec: &Spec, options: &ConnectOptions, side: Side) -> RedisResult<Open> {
    // A source may take several steps; none of them may hang.
    let limit = options.connect_timeout * 3;
    // It is the user's own code, too, and its panic is a failure as any other.
    let source = AssertUnwindSafe(async { spec.source.connect(options).await }).catch_unwind();
    let connection = timeout(limit, source).await.map_err(|_| timed_out())?;
    let connection = connection.unwrap_or_else(|_| Err(panicked()))?;
    let mut connection = AnyConnection(connection);
    let identity = timeout(limit, introduce(&mut connection, side));
    let identity = identity.await.map_err(|_| timed_out())??;
    Ok(Open {
        connection,
        identity,
        since: Instant::now(),
        proved: false,
    })
}

/// Names the connection for whoever looks at `CLIENT LIST`, and asks who it is. A server or an ACL
/// that refuses any of this does not matter.
async fn introduce(connection: &mut AnyConnection, side: Side) -> RedisResult<Option<Identity>> {
    let mut questions = pipeline(3);
    questions
        .cmd("CLIENT")
        .arg("SETNAME")
        .arg(format!("redis-mq:{}", side.as_str()));
    questions.cmd("CLIENT").arg("ID");
    questions.cmd("INFO").arg("server");
    let mut replies = connection
        .query_all(&questions)
        .await?
        .into_iter()
        .skip(1)
        .flatten();
    let (Some(client), Some(info)) = (replies.next(), replies.next()) else {
        return Ok(None);
    };
    let server = reply::text(&info).and_then(|info| {
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"))?;
        Some(run_id.trim().to_owned())
    });
    Ok(reply::int(&client)
        .zip(server)
        .map(|(client, server)| Identity { server, client }))
}

/// The kind of a failure: two of the same kind are the same news.
fn kind(error: &RedisError) -> String {
    match error.code() {
        Some(code) => code.to_owned(),
        None if error.is_timeout() => "timeout".to_owned(),
        None if error.is_connection_refusal() => "refused".to_owned(),
        None => format!("{:?}", error.kind()),
    }
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

fn panicked() -> RedisError {
    RedisError::from((ErrorKind::Client, "the source of connections panicked"))
}

/// A reply that the contract does not know, as an error of the connection it came over.
pub(crate) fn unexpected_reply() -> RedisError {
    RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "unexpected reply to a queue command",
    ))
}
