//! The status of a message.

use std::fmt;

/// What a message is doing at the moment the server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Ready for a consumer.
    Queued,
    /// Waits for its time: an initial delay, or the pause before a retry.
    QueuedWithBackoff,
    /// With a consumer.
    Locked,
    /// With a consumer, and a newer copy waits to run after it.
    LockedWithRequeue,
    /// Finished; its id stays taken until the dedupe window ends.
    DoneWithBackoff,
    /// Finished, and a newer copy runs when the dedupe window ends.
    DoneWithRequeue,
    /// Finished and its window ended, not swept yet; the id is free again.
    DoneAwaitingGc,
    /// Gave up: failed, or out of attempts. Kept for inspection; the id is free again.
    Dead,
    /// Follows a batch, and waits until all messages of it have ended.
    Waiting,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 9] = [
        Status::Queued,
        Status::QueuedWithBackoff,
        Status::Locked,
        Status::LockedWithRequeue,
        Status::DoneWithBackoff,
        Status::DoneWithRequeue,
        Status::DoneAwaitingGc,
        Status::Dead,
        Status::Waiting,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::QueuedWithBackoff => "queued-with-backoff",
            Status::Locked => "locked",
            Status::LockedWithRequeue => "locked-with-requeue",
            Status::DoneWithBackoff => "done-with-backoff",
            Status::DoneWithRequeue => "done-with-requeue",
            Status::DoneAwaitingGc => "done-awaiting-gc",
            Status::Dead => "dead",
            Status::Waiting => "waiting",
        }
    }

    pub(crate) fn from_wire(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn every_name_is_read_back() {
        for status in Status::ALL {
            assert_eq!(Status::from_wire(status.as_str()), Some(status));
        }
        assert_eq!(Status::from_wire("done"), None);
    }
}
