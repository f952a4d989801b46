//! The queues that are compared, each used the way its own documentation recommends.

use redis::Value;
use serde::Deserialize;

use crate::link::{Batch, Link};

mod list;
mod lua;
mod mq;
mod stream;

pub use stream::create_group;

/// The key, or the beginning of the keys, that every system uses.
pub const QUEUE: &[u8] = b"bench";

/// Which queue to put under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// The module, by its commands.
    Mq,
    /// LPUSH, LMOVE to a second list, LREM from there.
    List,
    /// A consumer group; finished entries are acknowledged and deleted.
    Stream,
    /// Scripts that poll a ready list and a circle.
    Lua,
}

/// A message that a consumer holds.
pub struct Delivery {
    /// What the producer gave.
    pub payload: Vec<u8>,
    /// What names the message; empty where the payload itself does.
    pub id: Vec<u8>,
    /// What names the delivery, where there is such a thing.
    pub token: i64,
}

/// The steps of a message's life.
pub trait System: Send + Sync {
    /// Makes what has to be there before the first message.
    fn prepare(&self, _link: &mut Link) {}

    /// Adds the commands that enqueue these payloads, many at once where the system can.
    fn enqueue(&self, batch: &mut Batch, payloads: &[Vec<u8>]);

    /// Adds the commands that make a queue hold these payloads, in whatever way is fastest.
    fn fill(&self, batch: &mut Batch, payloads: &[Vec<u8>]) {
        self.enqueue(batch, payloads);
    }

    /// Adds the commands that take up to `count` messages, without waiting.
    fn take(&self, batch: &mut Batch, consumer: usize, count: usize);

    /// Adds the command that takes one message, waiting for it up to `wait_ms` (0 is for ever).
    /// `false`: it cannot wait, and consumers have to poll.
    fn take_waiting(&self, batch: &mut Batch, consumer: usize, wait_ms: u64) -> bool;

    /// What a reply to [`take`](Self::take) or [`take_waiting`](Self::take_waiting) hands over.
    fn deliveries(&self, reply: Value) -> Vec<Delivery>;

    /// Adds the commands that end these deliveries.
    fn finish(&self, batch: &mut Batch, done: &[Delivery]);

    /// Whether the queue is known to be empty after a round of [`take`](Self::take) that gave
    /// nothing.
    fn is_dry(&self, replies: &[Value]) -> bool {
        replies.iter().all(|reply| *reply == Value::Nil)
    }
}

/// The system of that name, for that server.
pub fn system(name: Name, link: &mut Link) -> Box<dyn System> {
    match name {
        Name::Mq => Box::new(mq::Mq),
        Name::List => Box::new(list::List),
        Name::Stream => Box::new(stream::Stream::new(link)),
        Name::Lua => Box::new(lua::Lua::new(link)),
    }
}
