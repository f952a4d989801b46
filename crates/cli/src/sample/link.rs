//! The one connection that everything goes over, made anew when it is lost.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use redis_mq_client::redis::{Cmd, Value};
use tokio::sync::Mutex;

use super::budget::Budget;
use crate::{
    connect::{Search, Server, Source},
    failure::{Exit, Failure},
};

/// How long a reply may take.
const RESPONSE: Duration = Duration::from_secs(5);
/// How long somebody waits for room in the budget.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server that could not be reached is not tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends commands, within the budget.
pub struct Link {
    source: Source,
    budget: Budget,
    read_only: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    server: Option<Server>,
    /// Which connection that is, so that nobody closes a later one.
    number: u64,
    failed: Option<(Instant, String)>,
}

impl Link {
    /// At most that many commands a second; with `read_only` none that changes anything.
    pub fn new(source: Source, budget: usize, read_only: bool) -> Self {
        Self {
            source,
            budget: Budget::new(budget),
            read_only,
            state: Mutex::default(),
        }
    }

    /// Asks for something that somebody waits for.
    pub async fn ask(&self, command: &Cmd) -> Result<Value, Failure> {
        let turn = tokio::time::timeout(PATIENCE, self.budget.take()).await;
        turn.map_err(|_| Failure::unreached("too much is asked at once; try again"))?;
        self.on_server(|mut server| async move { server.call(command).await })
            .await
    }

    /// Changes something.
    pub async fn change(&self, command: &Cmd) -> Result<Value, Failure> {
        if self.read_only {
            return Err(Failure::refused("this is for reading only"));
        }
        self.ask(command).await
    }

    /// Asks when there is time for it.
    pub async fn ask_spare(&self, command: &Cmd) -> Result<Value, Failure> {
        self.budget.take_spare().await;
        self.on_server(|mut server| async move { server.call(command).await })
            .await
    }

    /// One step of a search for queues, when there is time for it.
    pub async fn search_spare(&self, search: &mut Search) -> Result<Vec<Vec<u8>>, Failure> {
        self.budget.take_spare().await;
        self.on_server(|mut server| async move { search.step(&mut server).await })
            .await
    }

    async fn on_server<T, F>(&self, call: impl FnOnce(Server) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let (server, number) = self.server().await?;
        let answer = call(server).await;
        if let Err(failure) = &answer {
            // After a failover the old primary may still answer, as a replica.
            let lost = failure.exit() == Exit::UNREACHED || failure.begins_with("READONLY");
            if lost {
                let mut state = self.state.lock().await;
                if state.number == number {
                    state.server = None;
                }
            }
        }
        answer
    }

    async fn server(&self) -> Result<(Server, u64), Failure> {
        let mut state = self.state.lock().await;
        if let Some(server) = &state.server {
            return Ok((server.clone(), state.number));
        }
        if let Some((at, line)) = &state.failed {
            if at.elapsed() < PAUSE {
                return Err(Failure::unreached(line));
            }
        }
        match self.source.connect(RESPONSE).await {
            Ok(server) => {
                state.failed = None;
                state.number += 1;
                state.server = Some(server.clone());
                Ok((server, state.number))
            }
            Err(failure) => {
                let line = failure.line().unwrap_or_default().to_owned();
                state.failed = Some((Instant::now(), line));
                Err(failure)
            }
        }
    }
}
