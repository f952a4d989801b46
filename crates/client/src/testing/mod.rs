//! Tests of handlers and producers without a server.
//!
//! A [`TestServer`] is a server in memory with the queue's own rules and a clock that only the test
//! moves. Producers work on it as on any connection. A [`TestWorker`] is a worker that handles one
//! message after the other and only when it is told to, so that a test sees the same every time:
//!
//! ```
//! use std::time::Duration;
//! use redis_mq_client::{
//!     testing::{TestServer, TestWorker},
//!     EnqueueOptions, Message, Outcome, Queue, Status, Worker,
//! };
//!
//! // What is to be tested.
//! async fn send(mail: Message<String>) -> Result<(), std::io::Error> {
//!     match (mail.value.as_str(), mail.attempt()) {
//!         ("flaky", 1) => Err(std::io::Error::other("down")),
//!         ("hopeless", _) => Err(std::io::Error::other("no such address")),
//!         _ => Ok(()),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::new();
//! let mails = Queue::<str>::new(server.clone(), "mails");
//! for text in ["fine", "flaky", "hopeless"] {
//!     mails.enqueue_with(text, EnqueueOptions::new().id(text).attempts(2)).await?;
//! }
//!
//! let worker = TestWorker::new(Worker::builder(server.clone(), "mails"), send)?;
//! let runs = worker.run_until_idle().await?;
//! assert_eq!(runs[0].outcome, Outcome::Success);
//! assert_eq!(runs[1].outcome, Outcome::RetryExponential);
//! assert_eq!(runs[1].reason.as_deref(), Some("down"));
//! assert_eq!(mails.status("flaky").await?, Some(Status::QueuedWithBackoff));
//!
//! // Nothing happens until time passes.
//! assert!(worker.run_until_idle().await?.is_empty());
//! server.advance(Duration::from_secs(60));
//! let runs = worker.run_until_idle().await?;
//! assert_eq!(runs.len(), 2);
//! assert_eq!(mails.status("flaky").await?, None);
//!
//! let letters = Queue::<String>::new(server, "mails");
//! let letter = letters.get("hopeless").await?.ok_or("no letter")?;
//! assert_eq!(letter.status, Status::Dead);
//! assert_eq!(letter.reason.as_deref(), Some(&b"no attempts left: no such address"[..]));
//! # Ok(()) }
//! ```
//!
//! A handler alone can be called with a [`message`] made for it.

mod add;
mod commands;
mod message;
mod schedules;
mod server;
mod shown;
mod state;
mod words;
mod worker;

pub use self::{
    message::{cancel, message, MessageBuilder},
    server::TestServer,
    worker::{Run, TestWorker},
};
