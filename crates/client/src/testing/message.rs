//! Messages made for a handler.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use crate::{
    message::{
        delivered::{Delivered, More},
        delivery::Delivery,
        headers::Headers,
        id::MessageId,
        queue_name::QueueName,
        Cancellation, Message,
    },
    millis::{millis, unix_millis},
};

/// A message with that value, as a handler gets it.
///
/// ```
/// use redis_mq_client::{testing, Message};
///
/// async fn greet(name: Message<String>) -> String {
///     format!("hello {}, for the {}. time", name.value, name.attempt())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let message = testing::message("Ada".to_owned()).attempt(3).build();
/// assert_eq!(greet(message).await, "hello Ada, for the 3. time");
/// # }
/// ```
pub fn message<T>(value: T) -> MessageBuilder<T> {
    MessageBuilder {
        value,
        queue: b"test".to_vec(),
        delivered: Delivered {
            id: MessageId::from("test"),
            payload: Vec::new(),
            attempt: 1,
            token: 1,
            lock_ms: 30_000,
            enqueued_at_ms: unix_millis(UNIX_EPOCH),
            more: None,
        },
        more: More::default(),
    }
}

/// Describes a [`message`]. By default it is the first delivery of the message `test` of the queue
/// `test`, locked for 30 seconds, and was enqueued at the epoch.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct MessageBuilder<T> {
    value: T,
    queue: Vec<u8>,
    delivered: Delivered,
    more: More,
}

impl<T> MessageBuilder<T> {
    /// The message's id.
    pub fn id(mut self, id: impl Into<MessageId>) -> Self {
        self.delivered.id = id.into();
        self
    }

    /// The queue's name.
    pub fn queue(mut self, queue: impl Into<Vec<u8>>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Which delivery of the message this is.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.delivered.attempt = attempt;
        self
    }

    /// The delivery's token.
    pub fn token(mut self, token: i64) -> Self {
        self.delivered.token = token;
        self
    }

    /// How long it is locked. Nothing extends the lock, and nothing happens when it ends.
    pub fn lock(mut self, lock: Duration) -> Self {
        self.delivered.lock_ms = millis(lock);
        self
    }

    /// When it was enqueued.
    pub fn enqueued_at(mut self, at: SystemTime) -> Self {
        self.delivered.enqueued_at_ms = unix_millis(at);
        self
    }

    /// What its producer gave along beside the payload.
    pub fn headers(mut self, headers: impl Into<Headers>) -> Self {
        self.more.headers = Some(headers.into());
        self
    }

    /// The instant that its schedule meant.
    pub fn scheduled_at(mut self, at: SystemTime) -> Self {
        self.more.scheduled_at_ms = Some(unix_millis(at));
        self
    }

    /// The group that it belongs to.
    pub fn group(mut self, group: impl Into<Vec<u8>>) -> Self {
        self.more.group = Some(group.into());
        self
    }

    /// The message.
    pub fn build(self) -> Message<T> {
        let Self {
            value,
            queue,
            mut delivered,
            more,
        } = self;
        if more != More::default() {
            delivered.more = Some(Box::new(more));
        }
        let delivery = Delivery::new(delivered, Instant::now());
        Message::new(value, Arc::new(delivery), Arc::new(QueueName::new(queue)))
    }
}

/// Tells the handler of a message to end, as a worker does that stops.
///
/// ```
/// use redis_mq_client::testing;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let message = testing::message(()).build();
/// testing::cancel(&message.cancellation());
/// message.cancelled().await;
/// # }
/// ```
pub fn cancel(cancellation: &Cancellation) {
    cancellation.stop();
}
