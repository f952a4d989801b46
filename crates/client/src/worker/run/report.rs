//! What a stop leaves.

use crate::message::id::MessageId;

/// What a worker had done, and had not, when it stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Messages whose handler did not end and was dropped at an await. They were given back: they
    /// are ready for other workers, and the attempt does not count.
    pub given_back: Vec<MessageId>,
    /// Messages that are perhaps still being worked on: the handler blocks its thread, runs in
    /// [`blocking`](crate::blocking), or has handed the message to somebody who keeps it. They
    /// come back when their lock ends, as a further attempt.
    pub unfinished: Vec<MessageId>,
    /// Messages that were handled, or are to be given back, but whose answer could not be sent in
    /// time. They come back when their lock ends, unless the answer did arrive and only the reply
    /// was lost.
    pub unanswered: Vec<MessageId>,
}

impl StopReport {
    /// Every handler that was begun has ended by itself, and every answer has arrived.
    pub fn is_clean(&self) -> bool {
        self.given_back.is_empty() && self.unfinished.is_empty() && self.unanswered.is_empty()
    }
}
