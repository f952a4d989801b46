#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod backoff;
pub mod connect;
mod error;
mod handler;
mod message;
mod millis;
mod producer;
mod reply;
mod sharded;
mod telemetry;
#[cfg(test)]
mod test_support;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
mod worker;

/// What a worker does when a handler leaves the decision to it.
pub mod policy {
    pub use crate::handler::{
        chain::Report,
        retry::{Cause, Failure, RetryPolicy},
    };
}

#[doc = include_str!("guide.md")]
pub mod guide {}

pub use redis;

#[cfg(feature = "tower")]
pub use crate::handler::tower::{service, TowerHandler};
#[cfg(feature = "json")]
pub use crate::message::codec::Json;
#[cfg(feature = "signals")]
pub use crate::worker::signal::shutdown_signal;
pub use crate::{
    backoff::ExpBackoff,
    connect::{ClusterNodes, Connect},
    error::{BoxError, BuildError, CodecError, Error, StartError},
    handler::{
        blocking::{blocking, Blocking},
        outcome::{IntoVerdict, Outcome, Verdict},
        retry::RetryPolicy,
        Handler,
    },
    message::{
        codec::{self, MessagePack, Raw},
        delivery::LostLock,
        headers::Headers,
        id::MessageId,
        status::Status,
        Cancellation, Message,
    },
    producer::{
        batch::{BatchResult, EnqueuedBatch, FollowUp},
        browse::{Peek, Scan, ScanPage},
        enqueued::Enqueued,
        groups::{GroupInfo, GroupState, GroupsPage},
        info::{LimitedBy, QueueInfo, StoredMessage},
        limits::{GroupLimits, GroupSelection, InFlight, LimitChanges, QueueLimits, Rate},
        options::EnqueueOptions,
        queue::Queue,
        schedule::{Overlap, Schedule, ScheduleTimes},
        schedules::{
            RunOutcome, ScheduleChange, ScheduleInfo, Scheduled, SchedulesPage, SyncedSchedules,
        },
    },
    sharded::{PerShard, ShardedQueue, ShardedWorker},
    worker::{
        builder::WorkerBuilder,
        observe::{
            counts::WorkerStats,
            events::{Event, Poll, PollResult, Side},
        },
        run::report::StopReport,
        settings::{EndOfQueue, Start},
        Worker,
    },
};
