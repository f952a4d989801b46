#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod backoff;
mod browse;
pub mod codec;
pub mod connect;
mod connection;
mod control;
mod enqueue;
mod error;
mod groups;
mod handler;
mod headers;
mod id;
mod info;
mod limits;
mod message;
mod millis;
mod outcome;
pub mod policy;
mod queue;
mod reply;
#[cfg(feature = "signals")]
mod signal;
mod status;
mod telemetry;
#[cfg(test)]
mod test_support;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
#[cfg(feature = "tower")]
mod tower;
mod worker;

#[doc = include_str!("guide.md")]
pub mod guide {}

pub use redis;

#[cfg(feature = "json")]
pub use crate::codec::Json;
#[cfg(feature = "signals")]
pub use crate::signal::shutdown_signal;
#[cfg(feature = "tower")]
pub use crate::tower::{service, TowerHandler};
pub use crate::{
    backoff::ExpBackoff,
    browse::{Peek, Scan, ScanPage},
    codec::{MessagePack, Raw},
    connect::{ClusterNodes, Connect},
    enqueue::{EnqueueOptions, Enqueued},
    error::{BoxError, BuildError, CodecError, Error, StartError},
    groups::{GroupInfo, GroupState, GroupsPage},
    handler::{blocking, Blocking, Handler},
    headers::Headers,
    id::MessageId,
    info::{LimitedBy, QueueInfo, StoredMessage},
    limits::{GroupLimits, GroupSelection, InFlight, LimitChanges, QueueLimits, Rate},
    message::{Cancellation, Message},
    outcome::{IntoVerdict, Outcome, Verdict},
    policy::RetryPolicy,
    queue::Queue,
    status::Status,
    worker::{
        EndOfQueue, Event, LostLock, Poll, PollResult, Side, Start, StopReport, Worker,
        WorkerBuilder, WorkerStats,
    },
};
