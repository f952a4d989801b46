//! Producing, and asking.

use std::{fmt, marker::PhantomData, sync::Arc};

use redis::{aio::ConnectionLike, Cmd, Value};

use super::{
    batch,
    enqueued::{enqueued, Enqueued},
    info::{stored_message, QueueInfo, StoredMessage},
    options::EnqueueOptions,
};
use crate::{
    connect::any::{pipeline, AnyConnection},
    error::{unexpected, Error},
    message::{
        codec::{Decode, Encode, MessagePack},
        id::{show_bytes, MessageId},
        status::Status,
    },
    reply,
    telemetry::Enqueueing,
};

/// How many messages [`Queue::enqueue_many`] sends before it reads the replies.
const PIPELINE: usize = 1_000;

/// Larger payloads are not put into one command, which the server has in memory as a whole.
const TOGETHER_BYTES: usize = 1 << 20;

/// A queue, as producers see it: it takes values of type `T`.
///
/// It works on any shared connection of the redis crate. For producers that are to outlive a
/// restart of the server that is [`connect::reconnecting`](crate::connect::reconnecting) or a
/// cluster connection; a plain multiplexed connection never comes back once it has failed, and
/// gives up on a reply after half a second unless it is told otherwise. Cloning is cheap.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redis_mq_client::{connect, redis, EnqueueOptions, Enqueued, Queue};
///
/// let client = redis::Client::open("redis://127.0.0.1/")?;
/// let queue = Queue::<String>::new(connect::reconnecting(&client)?, "mails");
/// match queue.enqueue_with(&"hello".to_string(), EnqueueOptions::new().id("mail:1")).await? {
///     Enqueued::Refused { status, .. } => println!("mail 1 is {status} already"),
///     accepted => println!("{} will be sent", accepted.id()),
/// }
/// # Ok(()) }
/// ```
///
/// A call that fails with a connection error may or may not have been carried out. With an
/// [`id`](EnqueueOptions::id) it is safe to repeat: the second one is refused if the first one
/// was accepted.
pub struct Queue<T: ?Sized, C = MessagePack> {
    name: Arc<[u8]>,
    connection: Arc<dyn Share>,
    codec: C,
    value: PhantomData<fn(&T)>,
}

/// A connection that can be handed out again and again.
trait Share: Send + Sync {
    fn share(&self) -> AnyConnection;
}

impl<S: ConnectionLike + Clone + Send + Sync + 'static> Share for S {
    fn share(&self) -> AnyConnection {
        AnyConnection(Box::new(self.clone()))
    }
}

impl<T: ?Sized> Queue<T> {
    /// The queue of that name, with MessagePack payloads. Nothing is sent.
    pub fn new<S>(connection: S, name: impl Into<Vec<u8>>) -> Self
    where
        S: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::with_codec(connection, name, MessagePack)
    }
}

impl<T: ?Sized, C> Queue<T, C> {
    /// The same queue, with payloads written by that codec.
    ///
    /// ```
    /// # fn example(connection: redis_mq_client::redis::aio::MultiplexedConnection) {
    /// use redis_mq_client::{Queue, Raw};
    ///
    /// let lines = Queue::<str>::new(connection, "lines").codec(Raw);
    /// # let _ = lines; }
    /// ```
    #[must_use]
    pub fn codec<D>(self, codec: D) -> Queue<T, D> {
        Queue {
            name: self.name,
            connection: self.connection,
            codec,
            value: PhantomData,
        }
    }

    /// The queue of that name, with payloads written by `codec`. Nothing is sent.
    pub fn with_codec<S>(connection: S, name: impl Into<Vec<u8>>, codec: C) -> Self
    where
        S: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self {
            name: name.into().into(),
            connection: Arc::new(connection),
            codec,
            value: PhantomData,
        }
    }

    /// The queue's name, which is its key.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What the message of that id is doing; `None` if there is none.
    pub async fn status(&self, id: impl Into<MessageId>) -> Result<Option<Status>, Error> {
        let id = id.into();
        match self.query(&self.command("MQ.STATUS", Some(&id))).await? {
            Value::Nil => Ok(None),
            value => reply::status(&value)
                .map(Some)
                .ok_or(unexpected("MQ.STATUS")),
        }
    }

    /// The queue's counts and totals; `None` if no message was ever accepted.
    pub async fn info(&self) -> Result<Option<QueueInfo>, Error> {
        match self.query(&self.command("MQ.INFO", None)).await? {
            Value::Nil => Ok(None),
            value => QueueInfo::from_reply(value)
                .map(Some)
                .ok_or(unexpected("MQ.INFO")),
        }
    }

    /// Removes the message of that id whatever its status, its dead letter and its waiting copy
    /// too. A worker that has it is told at its next heartbeat. `false` if there was nothing.
    pub async fn cancel(&self, id: impl Into<MessageId>) -> Result<bool, Error> {
        Ok(self.cancel_many([id]).await? > 0)
    }

    /// [`Self::cancel`] for many ids in one command; tells how many had something to remove.
    pub async fn cancel_many<I>(&self, ids: I) -> Result<u64, Error>
    where
        I: IntoIterator,
        I::Item: Into<MessageId>,
    {
        let mut command = self.command("MQ.CANCEL", None);
        let mut any = false;
        for id in ids {
            command.arg(id.into().as_bytes());
            any = true;
        }
        if !any {
            return Ok(0);
        }
        reply::unsigned(&self.query(&command).await?).ok_or(unexpected("MQ.CANCEL"))
    }

    pub(crate) fn value_codec(&self) -> &C {
        &self.codec
    }

    pub(crate) fn command(&self, name: &'static str, id: Option<&MessageId>) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&*self.name);
        if let Some(id) = id {
            command.arg(id.as_bytes());
        }
        command
    }

    pub(crate) async fn query(&self, command: &Cmd) -> Result<Value, Error> {
        Ok(self.connection.share().query(command).await?)
    }

    /// One reply for each command, in order, pipelined. Where the connection fails it is unknown
    /// what became of those that were sent, and no more are.
    pub(crate) async fn query_many(&self, commands: Vec<Cmd>) -> Vec<Result<Value, Error>> {
        let mut replies = Vec::with_capacity(commands.len());
        let mut connection = self.connection.share();
        for some in commands.chunks(PIPELINE) {
            let mut batch = pipeline(some.len());
            for command in some {
                batch.add_command(command.clone());
            }
            match connection.query_all(&batch).await {
                Ok(answers) => {
                    replies.extend(
                        answers
                            .into_iter()
                            .map(|answer| answer.map_err(Error::from)),
                    );
                }
                Err(error) => {
                    let failed = || Err(Error::from(error.clone()));
                    replies.resize_with(commands.len(), failed);
                    break;
                }
            }
        }
        replies
    }
}

impl<T: ?Sized, C: Encode<T>> Queue<T, C> {
    /// Adds a message with an id made by the server.
    pub async fn enqueue(&self, value: &T) -> Result<Enqueued, Error> {
        self.enqueue_with(value, EnqueueOptions::new()).await
    }

    /// Adds a message, or replaces or follows the one of that id, as the options say.
    pub async fn enqueue_with(
        &self,
        value: &T,
        options: EnqueueOptions,
    ) -> Result<Enqueued, Error> {
        let span = Enqueueing::begin(&self.name);
        let options = span.carried_by(options);
        let became = self.send(value, &options).await;
        span.end(
            became.as_ref().ok().map(Enqueued::id),
            became.as_ref().err(),
        );
        became
    }

    async fn send(&self, value: &T, options: &EnqueueOptions) -> Result<Enqueued, Error> {
        let command = self.enqueue_command(value, options)?;
        enqueued(self.query(&command).await?).ok_or(unexpected("MQ.ENQUEUE"))
    }

    /// Adds many messages: one round trip for each thousand. Those that have their options alike,
    /// but for their ids, go in one command.
    ///
    /// The outer error is a value or an option that cannot be sent, and then nothing was sent, or
    /// the connection's failure, and then it is unknown which messages were accepted. The inner
    /// ones are the server's answers to single messages, in the order of the items.
    pub async fn enqueue_many<'a, I>(
        &self,
        messages: I,
    ) -> Result<Vec<Result<Enqueued, Error>>, Error>
    where
        I: IntoIterator<Item = (&'a T, EnqueueOptions)>,
        T: 'a,
    {
        let span = Enqueueing::begin(&self.name);
        let messages: Result<Vec<_>, Error> = messages
            .into_iter()
            .map(|(value, options)| {
                let payload = self.codec.encode(value).map_err(Error::Encode)?;
                let options = span.carried_by(options);
                options.check()?;
                Ok((payload, options))
            })
            .collect();
        let count = messages.as_ref().map_or(0, Vec::len);
        let outcomes = match messages {
            Ok(messages) => self.send_many(&messages).await,
            Err(error) => Err(error),
        };
        span.end_batch(count, outcomes.as_ref().err());
        outcomes
    }

    async fn send_many(
        &self,
        messages: &[(Vec<u8>, EnqueueOptions)],
    ) -> Result<Vec<Result<Enqueued, Error>>, Error> {
        let mut outcomes = Vec::with_capacity(messages.len());
        let mut connection = self.connection.share();
        for some in messages.chunks(PIPELINE) {
            if let Some(command) = self.together(some)? {
                match connection.query(&command).await {
                    Ok(reply) => {
                        let all = batch::outcomes(reply, some.len());
                        outcomes.extend(all.ok_or(unexpected("MQ.MENQUEUE"))?.into_iter().map(Ok));
                        continue;
                    }
                    // The server refused the whole, and nothing was added: a limit may let some of
                    // them in, and an older module, or an ACL without this command, take them singly.
                    Err(error) if error.code().is_some() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let mut singly = pipeline(some.len());
            for (payload, options) in some {
                singly.add_command(options.command(&self.name, payload)?);
            }
            for answer in connection.query_all(&singly).await? {
                outcomes.push(match answer {
                    Ok(value) => enqueued(value).ok_or(unexpected("MQ.ENQUEUE")),
                    Err(error) => Err(error.into()),
                });
            }
        }
        Ok(outcomes)
    }

    /// One command for all of these, if they are small and have their options alike.
    fn together(&self, messages: &[(Vec<u8>, EnqueueOptions)]) -> Result<Option<Cmd>, Error> {
        let [(_, first), others @ ..] = messages else {
            return Ok(None);
        };
        let bytes: usize = messages.iter().map(|(payload, _)| payload.len()).sum();
        let alike = others.iter().all(|(_, options)| options.is_alike(first));
        if others.is_empty() || !alike || bytes > TOGETHER_BYTES {
            return Ok(None);
        }
        let payloads = messages.iter().map(|(payload, _)| &payload[..]);
        let ids = messages
            .iter()
            .filter_map(|(_, options)| options.id_given());
        let mut command = batch::many(&self.name, messages.len(), payloads, ids);
        first.write(&mut command)?;
        Ok(Some(command))
    }

    fn enqueue_command(&self, value: &T, options: &EnqueueOptions) -> Result<Cmd, Error> {
        let payload = self.payload(value)?;
        options.command(&self.name, &payload)
    }

    pub(crate) fn payload(&self, value: &T) -> Result<Vec<u8>, Error> {
        self.codec.encode(value).map_err(Error::Encode)
    }
}

impl<T, C: Decode<T>> Queue<T, C> {
    /// The message of that id, a dead letter included; `None` if there is none. It stays as it is.
    pub async fn get(&self, id: impl Into<MessageId>) -> Result<Option<StoredMessage<T>>, Error> {
        let id = id.into();
        let stored = match self.query(&self.command("MQ.GET", Some(&id))).await? {
            Value::Nil => return Ok(None),
            value => stored_message(value).ok_or(unexpected("MQ.GET"))?,
        };
        let decode = |payload: Vec<u8>| self.codec.decode(&payload).map_err(Error::Decode);
        stored.try_map(decode).map(Some)
    }
}

impl<T: ?Sized, C: Clone> Clone for Queue<T, C> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            connection: Arc::clone(&self.connection),
            codec: self.codec.clone(),
            value: PhantomData,
        }
    }
}

impl<T: ?Sized, C> fmt::Debug for Queue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue(")?;
        show_bytes(&self.name, f)?;
        f.write_str(")")
    }
}
