//! Looking at messages without taking them.

use redis::Value;

use super::{
    info::{stored_message, StoredMessage},
    queue::Queue,
};
use crate::{
    error::{invalid, unexpected, CodecError, Error},
    message::{codec::Decode, id::MessageId, status::Status},
    reply::{bytes, status, unsigned},
};

/// Which messages [`Queue::peek`] shows.
///
/// ```
/// use redis_mq_client::{Peek, Status};
///
/// let newest_letters = Peek::new().status(Status::Dead).reverse().count(100);
/// # let _ = newest_letters;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Peek {
    status: Option<Status>,
    count: Option<u32>,
    after: Option<MessageId>,
    reverse: bool,
}

impl Peek {
    /// The next ten deliveries, in their order.
    pub fn new() -> Self {
        Self::default()
    }

    /// Messages of that status, in its own order: dead letters from the oldest death on.
    pub fn status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// At most so many, 1 to 1000.
    pub fn count(mut self, count: u32) -> Self {
        self.count = Some(count);
        self
    }

    /// Goes on behind that message, the last of the page before. The server refuses it if the
    /// message does not have the status any more, and for queued ones where there are groups.
    pub fn after(mut self, id: impl Into<MessageId>) -> Self {
        self.after = Some(id.into());
        self
    }

    /// From the other end: the newest dead letters first.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }
}

/// Which messages [`Queue::scan`] finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Scan {
    status: Option<Status>,
    pattern: Option<Vec<u8>>,
    count: Option<u32>,
}

impl Scan {
    /// All, a hundred places at a time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only messages that have that status when they are looked at.
    pub fn status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Only ids that fit the pattern, as that of the command `KEYS`: `order:*`.
    pub fn pattern(mut self, pattern: impl Into<Vec<u8>>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// How many places are looked at, 1 to 10000.
    pub fn count(mut self, count: u32) -> Self {
        self.count = Some(count);
        self
    }
}

/// Some of the messages of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanPage {
    /// These ids and what their messages were doing. A live message and a dead letter of the same
    /// id are two.
    pub messages: Vec<(MessageId, Status)>,
    /// Where to go on; `None` if all was seen. A page may be empty and not be the last.
    pub next: Option<u64>,
}

impl<T: ?Sized, C> Queue<T, C> {
    /// Walks through all messages from a cursor on, 0 at first. What is there from the first page to
    /// the last is found at least once, whatever becomes of it meanwhile.
    ///
    /// A cursor holds for one life of the queue in the server's memory: after a restart or a
    /// failover the server refuses it, and the walk begins anew.
    ///
    /// ```no_run
    /// # async fn example(mails: redis_mq_client::Queue<String>) -> Result<(), redis_mq_client::Error> {
    /// use redis_mq_client::{Scan, Status};
    ///
    /// let mut next = Some(0);
    /// while let Some(cursor) = next {
    ///     let page = mails.scan(cursor, &Scan::new().status(Status::Dead).count(1_000)).await?;
    ///     for (id, _) in page.messages {
    ///         println!("{id} is dead");
    ///     }
    ///     next = page.next;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn scan(&self, cursor: u64, scan: &Scan) -> Result<ScanPage, Error> {
        let mut command = self.command("MQ.SCAN", None);
        command.arg(cursor);
        if let Some(status) = scan.status {
            command.arg("STATUS").arg(status.as_str());
        }
        if let Some(pattern) = &scan.pattern {
            if pattern.is_empty() || pattern.len() > 512 {
                return Err(invalid("pattern", "has to be 1 to 512 bytes long"));
            }
            command.arg("MATCH").arg(&pattern[..]);
        }
        if let Some(count) = scan.count {
            if !(1..=10_000).contains(&count) {
                return Err(invalid("count", "has to be 1 to 10000"));
            }
            command.arg("COUNT").arg(count);
        }
        match self.query(&command).await? {
            Value::Nil => Ok(ScanPage::default()),
            value => scan_page(value).ok_or(unexpected("MQ.SCAN")),
        }
    }
}

fn scan_page(reply: Value) -> Option<ScanPage> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let mut parts = parts.into_iter();
    let next = unsigned(&parts.next()?)?;
    let Value::Array(messages) = parts.next()? else {
        return None;
    };
    let message = |value| {
        let Value::Array(fields) = value else {
            return None;
        };
        let mut fields = fields.into_iter();
        let id = MessageId::from(bytes(fields.next()?)?);
        Some((id, status(&fields.next()?)?))
    };
    Some(ScanPage {
        messages: messages.into_iter().map(message).collect::<Option<_>>()?,
        next: (next > 0).then_some(next),
    })
}

impl<T, C: Decode<T>> Queue<T, C> {
    /// Shows messages in their order, and takes none: the next deliveries, or those of a status. A
    /// page may be shorter than asked for; an empty one is the end. What the payload of one does
    /// not decode to is an error of that one alone.
    ///
    /// ```no_run
    /// # async fn example(mails: redis_mq_client::Queue<String>) -> Result<(), redis_mq_client::Error> {
    /// use redis_mq_client::{Peek, Status};
    ///
    /// let letters = Peek::new().status(Status::Dead).count(100);
    /// let mut page = mails.peek(&letters).await?;
    /// while let Some(last) = page.last() {
    ///     let next = letters.clone().after(&last.id);
    ///     for letter in page {
    ///         println!("{}: {:?}, {:?}", letter.id, letter.reason, letter.value);
    ///     }
    ///     page = mails.peek(&next).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn peek(
        &self,
        peek: &Peek,
    ) -> Result<Vec<StoredMessage<Result<T, CodecError>>>, Error> {
        let mut command = self.command("MQ.PEEK", None);
        if let Some(status) = peek.status {
            command.arg("STATUS").arg(status.as_str());
        }
        if let Some(count) = peek.count {
            if !(1..=1_000).contains(&count) {
                return Err(invalid("count", "has to be 1 to 1000"));
            }
            command.arg("COUNT").arg(count);
        }
        if let Some(id) = &peek.after {
            command.arg("AFTER").arg(id.as_bytes());
        }
        if peek.reverse {
            command.arg("REV");
        }
        let messages = match self.query(&command).await? {
            Value::Nil => return Ok(Vec::new()),
            Value::Array(messages) => messages,
            _ => return Err(unexpected("MQ.PEEK")),
        };
        let read = |value| stored_message(value).ok_or(unexpected("MQ.PEEK"));
        let decode = |payload: Vec<u8>| self.value_codec().decode(&payload);
        let read = messages
            .into_iter()
            .map(|value| Ok(read(value)?.map(decode)));
        read.collect()
    }
}
