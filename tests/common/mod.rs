//! What the contract tests share: a server per test program, clients of both protocols, and the
//! commands as calls that read well.
// Each test program uses a part of this.
#![allow(dead_code, unused_imports, unused_macros)]

mod client;
mod lab;
mod values;

pub use client::Client;
pub use lab::{contract, contract_of_waiting, contract_of_waiting_on, contract_on, Lab, Protocol};
pub use values::{ids, words, Delivery, Fields};

/// An hour in milliseconds: a time that does not pass during a test.
pub const HOUR: i64 = 3_600_000;
/// Ten years in milliseconds: the longest duration that a command takes.
pub const TEN_YEARS: i64 = 315_360_000_000;

/// Every status of a message that a test can set up and look at at leisure.
pub const STATUSES: [&str; 7] = [
    "queued",
    "queued-with-backoff",
    "locked",
    "locked-with-requeue",
    "done-with-backoff",
    "done-with-requeue",
    "dead",
];

/// The arguments of a command: `args!["MQ.DONE", queue, id, token]`.
macro_rules! args {
    ($($arg:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut all: Vec<Vec<u8>> = Vec::new();
        $(all.extend(redis_mq_testkit::redis::ToRedisArgs::to_redis_args(&$arg));)*
        all
    }};
}

/// Sends one command and gives its reply: `ask!(client, "MQ.STATUS", queue, id)`.
macro_rules! ask {
    ($client:expr, $($arg:expr),* $(,)?) => {
        $client.call(&args![$($arg),*])
    };
}

pub(crate) use args;
pub(crate) use ask;
