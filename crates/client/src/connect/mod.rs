//! Where connections come from.

pub(crate) mod any;
mod cluster;
mod crypto;
#[cfg(feature = "connection-manager")]
mod reconnecting;
#[cfg(feature = "sentinel")]
mod sentinel;
mod shards;
mod source;

pub use cluster::ClusterNodes;
#[cfg(feature = "connection-manager")]
pub use reconnecting::reconnecting;
pub use shards::{shards, Shards};
pub use source::{from_fn, Connect, ConnectOptions, Connection, FromFn};
