//! The worker's connection for everything but taking messages. It is opened again when it breaks.

use std::time::Duration;

use redis_mq_client::redis::{Cmd, Value};
use tokio::{sync::Mutex, time::sleep};

use crate::{
    connect::{Server, Source},
    failure::{Exit, Failure},
};

/// How long a reply may take. What is silent for longer is given up and connected to anew.
const RESPONSE: Duration = Duration::from_secs(5);
/// The pauses between tries double from the first to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The connection.
pub struct Link {
    source: Source,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    server: Option<Server>,
    /// Counts the connections, so that only the one that broke is thrown away.
    number: u64,
}

impl Link {
    /// A link that is opened at its first use.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            open: Mutex::default(),
        }
    }

    /// Opens it.
    pub async fn connect(&self) -> Result<(), Failure> {
        self.server().await.map(|_| ())
    }

    async fn server(&self) -> Result<(Server, u64), Failure> {
        let mut open = self.open.lock().await;
        if open.server.is_none() {
            open.server = Some(self.source.connect(RESPONSE).await?);
            open.number += 1;
        }
        let server = open.server.clone();
        let server = server.ok_or_else(|| Failure::unreached("no connection"))?;
        Ok((server, open.number))
    }

    /// Sends a command once.
    pub async fn ask(&self, command: &Cmd) -> Result<Value, Failure> {
        let (mut server, number) = self.server().await?;
        let answer = server.call(command).await;
        if answer.as_ref().is_err_and(broken) {
            let mut open = self.open.lock().await;
            if open.number == number {
                open.server = None;
            }
        }
        answer
    }
}

/// Whether another connection may do better: to wherever the server is now.
pub fn broken(failure: &Failure) -> bool {
    failure.exit() == Exit::UNREACHED || failure.begins_with("READONLY")
}

/// Pauses that grow until there is success.
pub struct Pauses(Duration);

impl Pauses {
    /// The first one is the shortest.
    pub fn new() -> Self {
        Self(PAUSES.0)
    }

    /// Waits for the next pause.
    pub async fn pause(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSES.1);
    }
}
