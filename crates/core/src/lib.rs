//! The queue of redis-mq as a pure state machine.
//!
//! A [`Queue`] holds the messages of one queue and knows every rule of their life: who may take
//! which message, until when it is locked, when it is retried, dead, or free again. It knows no
//! Redis, no clock and no I/O: each call gets the time and a random number in a [`Turn`], and what
//! the call changed comes out as *effects* in the turn's [`Log`]. A replica that applies those
//! effects holds the same queue ([`Queue::apply`]).
//!
//! ```
//! use redis_mq_core::{Enqueue, Log, Now, Outcome, Queue, Settings, Status, Turn, Verdict, Ended};
//!
//! let settings = Settings::default();
//! let mut log = Log::default();
//! let mut queue = Queue::new(7);
//! let now = Now::from_micros(1_700_000_000_000_000);
//!
//! let mut turn = Turn::new(now, 1, &settings, &mut log);
//! let added = queue.enqueue(&mut turn, &Enqueue::new(b"payload").id(b"order:42"));
//! assert_eq!(added.outcome, Outcome::Added);
//! assert_eq!(queue.status(now, b"order:42"), Some(Status::Queued));
//!
//! let mut token = None;
//! let mut turn = Turn::new(now, 2, &settings, &mut log);
//! queue.dequeue(&mut turn, 1, None, |delivery| token = Some(delivery.token));
//! assert_eq!(queue.status(now, b"order:42"), Some(Status::Locked));
//!
//! let mut turn = Turn::new(now, 3, &settings, &mut log);
//! let ended = queue.done(&mut turn, b"order:42", token.unwrap(), Verdict::SUCCESS);
//! assert_eq!(ended, Ok(Some(Ended::Done)));
//! assert_eq!(queue.status(now, b"order:42"), None);
//! ```
#![forbid(unsafe_code)]

mod apply;
mod backoff;
mod batches;
mod bounds;
mod bounds_form;
mod bulk;
mod calendar;
mod cancel;
mod changes;
mod check;
mod codec;
mod control;
mod copies;
mod dequeue;
mod done;
mod effects;
mod enqueue;
mod eoq;
mod expiry;
mod fields;
mod group_view;
mod groups;
mod id;
mod idle;
mod ids;
mod index;
mod inspect;
mod kept;
mod latency;
mod letters;
mod limits;
mod limits_form;
mod link;
mod membership;
mod message;
mod own_time;
mod peek;
mod purge;
mod queue;
mod rate;
mod redrive;
mod released;
mod relocate;
mod resting;
mod results;
mod results_form;
mod scan;
mod schedules;
mod sequence;
mod slab;
mod snapshot;
mod stand;
mod time;
mod timers;
mod turn;
mod types;
mod wheel;

pub use apply::{moment_of, ApplyError};
pub use backoff::exp_backoff;
pub use batches::BatchResult;
pub use bounds::Limited;
pub use bulk::{BatchRefused, FollowUp};
pub use calendar::Calendar;
pub use changes::{Changes, Kinds, Mark};
pub use codec::Damaged;
pub use control::Full;
pub use dequeue::Delivery;
pub use done::{Backoff, Ended, Keep, Stale, Verdict};
pub use enqueue::{Enqueue, Enqueued, Outcome, Start, Ttl, MAX_HEADER_BYTES};
pub use eoq::EoqWaits;
pub use group_view::{GroupState, GroupView};
pub use groups::MAX_GROUP_BYTES;
pub use id::{IdText, MAX_ID_BYTES};
pub use inspect::{Info, View};
pub use kept::{EndOf, Known, MAX_RESULT_BYTES};
pub use latency::{Histogram, Latency};
pub use limits::{Change, GroupLimits, LimitChanges, LimitError, QueueLimits, Scope, UNLIMITED};
pub use peek::{Peek, PeekError};
pub use queue::{Queue, Totals};
pub use rate::Rate;
pub use relocate::Relocate;
pub use resting::Resting;
pub use scan::{ForeignCursor, Scanned};
pub use schedules::{
    Overlap, RunOutcome, Schedule, ScheduleChange, ScheduleError, ScheduleView, Scheduled, Times,
    LEAST_EVERY, MAX_CRON_BYTES, MAX_NAME_BYTES, MAX_NAME_BYTES_ALLOW, MAX_ZONE_BYTES,
};
pub use snapshot::{Loader, SNAPSHOT_VERSION};
pub use turn::{Log, Replication, Turn};
pub use types::{Now, Priority, Settings, Span, Status, Timestamp, Token, MAX_SPAN_MS};
