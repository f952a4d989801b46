//! Many messages in one step, and what follows when all of them have ended.

use redis::{Cmd, Value};

use super::{
    enqueued::{enqueued, Enqueued},
    options::{checked_id, EnqueueOptions},
    queue::Queue,
};
use crate::{
    error::{invalid, unexpected, Error},
    message::{codec::Encode, headers::Headers, id::MessageId},
};

/// How many messages the server takes in one step.
const MOST: usize = 10_000;

/// A message that waits until all messages of its batch have ended: done, dead, cancelled or expired.
/// Whoever handles it learns [how they did](crate::Message::batch).
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct FollowUp<V> {
    value: V,
    id: Option<MessageId>,
    headers: Option<Headers>,
}

impl<V> FollowUp<V> {
    /// With an id made by the server.
    pub fn new(value: V) -> Self {
        let (id, headers) = (None, None);
        Self { value, id, headers }
    }

    /// Its id, 1 to 512 bytes. With one it is safe to repeat a call whose reply was lost.
    pub fn id(mut self, id: impl Into<MessageId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What its consumer gets beside the payload.
    pub fn headers(mut self, headers: impl Into<Headers>) -> Self {
        self.headers = Some(headers.into());
        self
    }

    fn write(&self, command: &mut Cmd, payload: &[u8]) -> Result<(), Error> {
        command.arg("THEN").arg(payload);
        if let Some(id) = &self.id {
            command.arg("THENID").arg(checked_id("id", id)?);
        }
        if let Some(headers) = &self.headers {
            if let Some(problem) = headers.problem() {
                return Err(invalid("headers", problem));
            }
            command.arg("THENHEADERS").arg(headers.as_bytes());
        }
        Ok(())
    }
}

/// How the messages of a batch have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BatchResult {
    /// How many have ended: done, dead, cancelled or expired.
    pub ended: u64,
    /// How many of them as dead letters.
    pub dead: u64,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnqueuedBatch {
    /// What became of each message, in their order.
    pub messages: Vec<Enqueued>,
    /// What became of the follow-up. If its id was taken, the messages are no batch of this call.
    pub follow_up: Enqueued,
}

impl<T: ?Sized, C: Encode<T>> Queue<T, C> {
    /// Adds 1 to 10,000 messages in one step, and a follow-up that is ready when all of those that
    /// were added have ended, however they did; at once if none was. Either all of this happens or,
    /// with an error of the server's, nothing.
    ///
    /// Each message has its own id, or none has one. The options hold for all of them; the
    /// follow-up has their lock, attempts and priority.
    ///
    /// ```no_run
    /// # async fn example(pages: redis_mq_client::Queue<str>) -> Result<(), redis_mq_client::Error> {
    /// use redis_mq_client::{EnqueueOptions, FollowUp};
    ///
    /// let follow_up = FollowUp::new("bind the book").id("book:7");
    /// let options = EnqueueOptions::new().attempts(5);
    /// let texts = ["page 1", "page 2", "page 3"].map(|page| (page, None));
    /// let batch = pages.enqueue_batch(texts, options, follow_up).await?;
    /// assert!(batch.follow_up.is_accepted());
    /// # Ok(()) }
    /// ```
    pub async fn enqueue_batch<'a, I>(
        &self,
        messages: I,
        options: EnqueueOptions,
        follow_up: FollowUp<&'a T>,
    ) -> Result<EnqueuedBatch, Error>
    where
        I: IntoIterator<Item = (&'a T, Option<MessageId>)>,
        T: 'a,
    {
        let encode = |value: &T| self.value_codec().encode(value).map_err(Error::Encode);
        let (mut payloads, mut ids) = (Vec::new(), Vec::new());
        for (value, id) in messages {
            payloads.push(encode(value)?);
            ids.extend(id);
        }
        let count = payloads.len();
        if !(1..=MOST).contains(&count) {
            return Err(invalid("messages", "have to be 1 to 10000"));
        }
        if options.id_given().is_some() || !(ids.is_empty() || ids.len() == count) {
            return Err(invalid("id", "is given for each message or for none"));
        }
        for id in &ids {
            checked_id("id", id)?;
        }
        let (bytes, ids) = (
            payloads.iter().map(|it| &it[..]),
            ids.iter().map(MessageId::as_bytes),
        );
        let mut command = many(self.name(), count, bytes, ids);
        options.write(&mut command)?;
        follow_up.write(&mut command, &encode(follow_up.value)?)?;
        let mut outcomes =
            outcomes(self.query(&command).await?, count + 1).ok_or(unexpected("MQ.MENQUEUE"))?;
        let follow_up = outcomes.pop().ok_or(unexpected("MQ.MENQUEUE"))?;
        let messages = outcomes;
        Ok(EnqueuedBatch {
            messages,
            follow_up,
        })
    }
}

/// `MQ.MENQUEUE` of so many, without options. There are as many ids, or none.
pub(crate) fn many<'a>(
    queue: &[u8],
    count: usize,
    payloads: impl Iterator<Item = &'a [u8]> + Clone,
    ids: impl Iterator<Item = &'a [u8]>,
) -> Cmd {
    let bytes: usize = payloads.clone().map(|payload| payload.len() + 32).sum();
    let mut command = Cmd::with_capacity(2 * count + 20, bytes + 128);
    command.arg("MQ.MENQUEUE").arg(queue).arg(count);
    payloads.for_each(|payload| {
        command.arg(payload);
    });
    for (n, id) in ids.enumerate() {
        if n == 0 {
            command.arg("IDS");
        }
        command.arg(id);
    }
    command
}

/// Reads the reply to `MQ.MENQUEUE` of so many.
pub(crate) fn outcomes(reply: Value, count: usize) -> Option<Vec<Enqueued>> {
    let Value::Array(items) = reply else {
        return None;
    };
    let read: Vec<_> = items.into_iter().map(enqueued).collect::<Option<_>>()?;
    (read.len() == count).then_some(read)
}
