//! Asks the queues in turns.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Board, Link};
use crate::{
    commands::ls,
    connect::Search,
    failure::{Exit, Failure},
    reply::Fields,
};

/// How long it waits after a failure, and where there is nothing to do.
const REST: Duration = Duration::from_millis(500);
/// How long after the end of a search for queues the next one begins.
const SEARCH_EVERY: Duration = Duration::from_secs(5);

/// Keeps the board up to date for as long as it is polled. Every other command at most looks for
/// queues; the others ask that queue whose turn it is.
pub async fn run(link: Arc<Link>, board: Arc<Board>) {
    let mut search = Search::new(None);
    let mut searched: Option<Instant> = None;
    loop {
        let mut did = false;
        if searched.is_none_or(|at| at.elapsed() >= SEARCH_EVERY) {
            did = true;
            match link.search_spare(&mut search).await {
                Ok(found) => {
                    board.found(found, Instant::now());
                    if search.is_over() {
                        board.search_is_over();
                        searched = Some(Instant::now());
                        search = Search::new(None);
                    }
                }
                Err(failure) => {
                    // Where the search stands may mean nothing to another server.
                    search = Search::new(None);
                    board.failed(&failure);
                    tokio::time::sleep(REST).await;
                    continue;
                }
            }
        }
        if let Some(queue) = board.next(Instant::now()) {
            did = true;
            let answer = link.ask_spare(&ls::ask(&queue)).await;
            let answer = answer.and_then(|value| match &value {
                redis_mq_client::redis::Value::Nil => Ok(None),
                other => Fields::read(other)
                    .map(Some)
                    .ok_or_else(|| Failure::unexpected("MQ.INFO")),
            });
            match answer {
                Ok(Some(info)) => board.sampled(&queue, info, Instant::now()),
                Ok(None) => board.gone(&queue),
                Err(failure) if failure.exit() == Exit::UNREACHED => {
                    board.failed(&failure);
                    tokio::time::sleep(REST).await;
                }
                // It holds another type now, or nobody may look at it.
                Err(failure) => board.refused(&queue, &failure, Instant::now()),
            }
        }
        if !did {
            tokio::time::sleep(REST / 5).await;
        }
    }
}
