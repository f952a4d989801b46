//! Starts real servers with the module loaded, for tests, benchmarks and the demonstration.
//!
//! ```no_run
//! use redis_mq_testkit::{call, ReplyExt, Server};
//!
//! let server = Server::start();
//! let mut conn = server.conn();
//! let reply = call!(conn, "MQ.ENQUEUE", "orders", "payload", "ID", "order:42").unwrap();
//! assert_eq!(reply.items()[0].text(), "added");
//! ```
//!
//! Two variables choose what is under test: `MQ_SERVER_BIN` (else `redis-server` in the `PATH`, else
//! the one that `scripts/setup.sh` fetched) and `MQ_MODULE` (else the module is built as `cargo test`
//! would, so that a test never runs against an older one).
//!
//! A server listens on a free port of 127.0.0.1, works in its own temporary folder, and ends with its
//! handle, with the test process at the latest. When a test panics, the end of each server's log is
//! printed; a server that has died unexpectedly fails the test even if nobody noticed. The kit panics
//! instead of returning errors wherever a test could only unwrap them.

mod builder;
mod cluster;
mod paths;
mod port;
mod proxy;
mod reply;
mod sentinel;
mod server;
mod spawn;
mod version;
mod wait;
mod wire;

pub use builder::{Persistence, ServerBuilder, StartError};
pub use cluster::Cluster;
pub use paths::{cli_bin, module_path, promtool_bin, server_bin, workspace_root};
pub use port::FreePort;
pub use proxy::{Direction, Proxy};
pub use redis;
pub use redis::Value;
pub use reply::{digest, error_text, Reply, ReplyExt};
pub use sentinel::Sentinels;
pub use server::{Server, Shutdown};
pub use version::{Flavor, Version};
pub use wait::{wait_until, PATIENCE};
pub use wire::Wire;
