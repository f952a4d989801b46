//! What a handler gets.

pub mod codec;
pub(crate) mod delivered;
pub(crate) mod delivery;
pub(crate) mod headers;
pub(crate) mod id;
pub(crate) mod queue_name;
pub(crate) mod status;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use self::{
    delivery::{Delivery, Held},
    headers::Headers,
    id::MessageId,
    queue_name::QueueName,
};
use crate::producer::batch::BatchResult;

/// One delivery of a message.
pub struct Message<T> {
    /// The payload's value.
    pub value: T,
    delivery: Held,
    queue: Arc<QueueName>,
}

impl<T> Message<T> {
    pub(crate) fn new(value: T, delivery: Arc<Delivery>, queue: Arc<QueueName>) -> Self {
        Self {
            value,
            delivery: Held::new(delivery),
            queue,
        }
    }

    /// The value alone.
    pub fn into_value(self) -> T {
        self.value
    }

    /// The value, and the delivery without it.
    pub fn into_parts(self) -> (T, Message<()>) {
        let delivery = Message {
            value: (),
            delivery: self.delivery,
            queue: self.queue,
        };
        (self.value, delivery)
    }

    /// The message's id.
    pub fn id(&self) -> &MessageId {
        &self.delivery.id
    }

    /// Which delivery of this message this is: 1, 2, 3 …
    pub fn attempt(&self) -> u32 {
        self.delivery.attempt
    }

    /// What its producer gave along beside the payload.
    pub fn headers(&self) -> Option<&Headers> {
        self.delivery.more.as_ref()?.headers.as_ref()
    }

    /// The value of the first [header](Headers) of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers()?.get(name)
    }

    /// The instant that its [schedule](crate::Queue::schedule) meant, on the server's clock: what the
    /// work is for, however late it is done. `None` if no schedule has enqueued it.
    pub fn scheduled_at(&self) -> Option<SystemTime> {
        let ms = self.delivery.more.as_ref()?.scheduled_at_ms?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms))
    }

    /// The group that it belongs to.
    pub fn group(&self) -> Option<&[u8]> {
        self.delivery.more.as_ref()?.group.as_deref()
    }

    /// How the messages have ended that this one [follows](crate::FollowUp).
    pub fn batch(&self) -> Option<BatchResult> {
        self.delivery.more.as_ref()?.batch
    }

    /// The queue's name.
    pub fn queue(&self) -> &[u8] {
        &self.queue.key
    }

    /// The delivery's token: greater than that of every earlier delivery of this queue. A store
    /// that remembers the greatest token it has seen for a message can refuse late writers by it.
    pub fn token(&self) -> i64 {
        self.delivery.token
    }

    /// When the message was enqueued, **by the server's clock** at that moment. The clock of this
    /// process may differ from it, and either may have been set since: a difference of such
    /// instants is an estimate of the message's age, not a measurement.
    pub fn enqueued_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.delivery.enqueued_at_ms)
    }

    /// How long each lock of this delivery is: the message's own lock time, or the worker's.
    pub fn lock(&self) -> Duration {
        self.delivery.lock
    }

    /// Until when nobody else gets the message, as far as is known now. The worker moves it on
    /// while the handler runs; a handler that is still running then is told by its
    /// [`cancellation`](Self::cancellation).
    pub fn lock_deadline(&self) -> Instant {
        self.delivery.deadline().into()
    }

    /// A token that is cancelled when the lock is lost, the message is cancelled, or the worker
    /// stops and its grace time is over.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation(Arc::clone(&self.delivery))
    }

    /// Whether this handler should end: somebody else has the message, it was cancelled, or the
    /// worker stops and its grace time is over. Only in the last case what it returns still
    /// counts, if it does so within the
    /// [`cancel_timeout`](crate::WorkerBuilder::cancel_timeout).
    pub fn is_cancelled(&self) -> bool {
        self.delivery.is_cancelled()
    }

    /// Returns when this handler should end, as [`is_cancelled`](Self::is_cancelled) says, else
    /// never.
    pub async fn cancelled(&self) {
        self.delivery.cancelled().await;
    }

    /// Keeps the message from being given back for as long as somebody works on it.
    pub(crate) fn hold(&self) -> Held {
        Held::new(Arc::clone(&self.delivery))
    }
}

impl<T: fmt::Debug> fmt::Debug for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", self.id())
            .field("attempt", &self.attempt())
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

/// Tells a handler, and whatever it has started, that it should end.
#[derive(Clone)]
pub struct Cancellation(Arc<Delivery>);

impl Cancellation {
    /// As [`Message::is_cancelled`].
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// As [`Message::cancelled`].
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// Asks the handler to end.
    #[cfg(feature = "testing")]
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancellation")
            .field(&self.is_cancelled())
            .finish()
    }
}
