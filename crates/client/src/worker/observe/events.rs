//! What a worker tells while it works.

use std::time::Duration;

use tokio::sync::broadcast;

use crate::{
    message::{delivery::LostLock, id::MessageId, status::Status},
    producer::info::QueueInfo,
};

/// Something that happened to a message or to the worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A message was handed to this worker.
    Taken {
        /// The message.
        id: MessageId,
        /// Which delivery of it this is.
        attempt: u32,
    },
    /// A message was handled with success, and the server knows.
    Finished {
        /// The message.
        id: MessageId,
        /// Which delivery of it this was.
        attempt: u32,
        /// What became of it; `None` is gone for good.
        became: Option<Status>,
    },
    /// A message will be tried again, and the server knows.
    Retried {
        /// The message.
        id: MessageId,
        /// Which delivery of it this was.
        attempt: u32,
    },
    /// A message became a dead letter: it failed, or was out of attempts.
    Dead {
        /// The message.
        id: MessageId,
        /// Which delivery of it this was.
        attempt: u32,
    },
    /// A message's time to live had ended when it was to be tried again or given back, and it went.
    Expired {
        /// The message.
        id: MessageId,
        /// Which delivery of it this was.
        attempt: u32,
    },
    /// A message was given back without counting the attempt: it was not begun, or its handler
    /// was dropped by a stop.
    Released {
        /// The message.
        id: MessageId,
    },
    /// The lock was lost while the message was with this worker.
    LostLock {
        /// The message.
        id: MessageId,
        /// Which delivery of it this was.
        attempt: u32,
        /// How it was lost.
        how: LostLock,
    },
    /// The server refused an answer: the message was somebody else's, or gone, or its queue is
    /// not one any more. Also when an answer arrived twice because the first reply was lost.
    AnswerRefused {
        /// The message.
        id: MessageId,
        /// Which delivery of it this was.
        attempt: u32,
    },
    /// A connection failed; the worker tries again, with growing pauses, for as long as it runs.
    /// Sent once for each outage of each connection.
    Reconnecting {
        /// Which of the worker's connections.
        side: Side,
        /// What went wrong.
        error: String,
    },
    /// A connection works, for the first time or again.
    Connected {
        /// Which of the worker's connections.
        side: Side,
    },
}

/// One of the two connections of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Side {
    /// The one that takes messages, and may be blocked.
    Dequeue,
    /// The one that answers and extends locks.
    Answer,
}

impl Side {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Side::Dequeue => "dequeue",
            Side::Answer => "answer",
        }
    }
}

/// One poll of the queue, for the monitor.
#[derive(Debug)]
#[non_exhaustive]
pub struct Poll<'a> {
    /// The queue's name.
    pub queue: &'a [u8],
    /// How many messages were asked for.
    pub asked: usize,
    /// What came of it.
    pub result: PollResult,
    /// How long the server took, its waiting included.
    pub took: Duration,
    /// How many messages are being handled now.
    pub running: usize,
    /// The queue's state as last sampled; only with
    /// [`sample_queue`](crate::WorkerBuilder::sample_queue) or a size warning.
    pub info: Option<&'a QueueInfo>,
}

/// What came of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PollResult {
    /// That many messages were taken.
    Taken(usize),
    /// There was nothing to take.
    Nothing,
    /// There was nothing to take, and all polling workers wait that long.
    Wait(Duration),
    /// The poll failed, with this error.
    Failed(String),
}

/// Sends events to those who listen, and costs next to nothing while nobody does.
#[derive(Debug)]
pub(crate) struct Events(broadcast::Sender<Event>);

/// How many events a listener may be behind before it misses some.
const BACKLOG: usize = 4_096;

impl Events {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BACKLOG))
    }

    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            // The last listener may just have left.
            let _ = self.0.send(event());
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
