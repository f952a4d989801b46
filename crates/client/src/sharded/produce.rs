//! Producing.

use futures_util::future::join_all;
use redis::Cmd;

use super::{
    grow,
    queue::{Placed, ShardedQueue},
};
use crate::{
    error::{unexpected, Error},
    message::codec::Encode,
    producer::{
        enqueued::{enqueued, Enqueued},
        options::EnqueueOptions,
    },
    telemetry::Enqueueing,
};

/// A message on its way to its shard.
struct Outgoing {
    /// Its place among the items of the call.
    item: usize,
    command: Cmd,
}

impl<T: ?Sized, C: Encode<T>> ShardedQueue<T, C> {
    /// Adds a message with an id made here, which decides about its shard.
    pub async fn enqueue(&self, value: &T) -> Result<Enqueued, Error> {
        self.enqueue_with(value, EnqueueOptions::new()).await
    }

    /// Adds a message, or replaces or follows the one of that id, as the options say. One that has
    /// neither an id nor a group gets an id (a UUID of version 7) made here.
    pub async fn enqueue_with(
        &self,
        value: &T,
        options: EnqueueOptions,
    ) -> Result<Enqueued, Error> {
        let placed = self.placed(options);
        let span = Enqueueing::begin(self.shards[placed.shard].name());
        let placed = Placed {
            options: span.carried_by(placed.options),
            ..placed
        };
        let became = self.send(value, &placed).await;
        let id = became.as_ref().ok().map(Enqueued::id);
        span.end(id, became.as_ref().err());
        became
    }

    async fn send(&self, value: &T, placed: &Placed) -> Result<Enqueued, Error> {
        let command = self.command(value, placed)?;
        if let Some(former) = placed.former {
            let former = &self.shards[former];
            let asked = former.query(&ask(former.name(), placed, &command)).await?;
            if !grow::is_left(&asked) {
                return enqueued(asked).ok_or(unexpected("EVAL"));
            }
        }
        let reply = self.shards[placed.shard].query(&command).await?;
        enqueued(reply).ok_or(unexpected("MQ.ENQUEUE"))
    }

    /// Adds many messages: to all shards at the same time, in each in the order of the items.
    ///
    /// The outer error is a value or an option that cannot be sent, and then nothing was sent. The
    /// inner ones are those of single messages, in the order of the items: what the server says of
    /// one, or that its shard could not be reached, and then it may have been accepted all the same.
    pub async fn enqueue_many<'a, I>(
        &self,
        messages: I,
    ) -> Result<Vec<Result<Enqueued, Error>>, Error>
    where
        I: IntoIterator<Item = (&'a T, EnqueueOptions)>,
        T: 'a,
    {
        let span = Enqueueing::begin(&self.name);
        let outcomes = self.send_many(messages, &span).await;
        let (count, failed) = match &outcomes {
            Ok(outcomes) => {
                let failed = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
                (outcomes.len(), failed)
            }
            Err(error) => (0, Some(error)),
        };
        span.end_batch(count, failed);
        outcomes
    }

    async fn send_many<'a, I>(
        &self,
        messages: I,
        span: &Enqueueing,
    ) -> Result<Vec<Result<Enqueued, Error>>, Error>
    where
        I: IntoIterator<Item = (&'a T, EnqueueOptions)>,
        T: 'a,
    {
        let mut placed = Vec::new();
        let mut commands = Vec::new();
        for (value, options) in messages {
            let one = self.placed(span.carried_by(options));
            commands.push(Some(self.command(value, &one)?));
            placed.push(one);
        }
        let mut outcomes: Vec<Option<Result<Enqueued, Error>>> = Vec::new();
        outcomes.resize_with(placed.len(), || None);

        // First what may belong to a former shard: what does not goes on with the others.
        let asked = self.by_shard(placed.iter().enumerate().filter_map(|(item, one)| {
            let former = one.former?;
            let command = commands[item].as_ref()?;
            let command = ask(self.shards[former].name(), one, command);
            Some((former, Outgoing { item, command }))
        }));
        for (item, answer) in self.exchange(asked).await {
            outcomes[item] = match answer {
                Ok(value) if grow::is_left(&value) => None,
                Ok(value) => Some(enqueued(value).ok_or(unexpected("EVAL"))),
                Err(error) => Some(Err(error)),
            };
        }
        let rest = self.by_shard(placed.iter().enumerate().filter_map(|(item, one)| {
            let open = outcomes[item].is_none();
            let command = commands[item].take().filter(|_| open)?;
            Some((one.shard, Outgoing { item, command }))
        }));
        for (item, answer) in self.exchange(rest).await {
            let became = answer.and_then(|value| enqueued(value).ok_or(unexpected("MQ.ENQUEUE")));
            outcomes[item] = Some(became);
        }
        let missing = || Err(unexpected("MQ.ENQUEUE"));
        let outcomes = outcomes.into_iter();
        Ok(outcomes
            .map(|became| became.unwrap_or_else(missing))
            .collect())
    }

    fn command(&self, value: &T, placed: &Placed) -> Result<Cmd, Error> {
        let shard = &self.shards[placed.shard];
        let payload = shard.value_codec().encode(value).map_err(Error::Encode)?;
        placed.options.command(shard.name(), &payload)
    }
}

impl<T: ?Sized, C> ShardedQueue<T, C> {
    /// Sends to each shard what is its own, to all at the same time; one reply for each.
    async fn exchange(
        &self,
        shards: Vec<Vec<Outgoing>>,
    ) -> Vec<(usize, Result<redis::Value, Error>)> {
        let exchanges = shards.into_iter().zip(self.shards.iter());
        let exchanges = exchanges.filter(|(outgoing, _)| !outgoing.is_empty()).map(
            |(outgoing, shard)| async move {
                let (items, commands): (Vec<_>, Vec<_>) = outgoing
                    .into_iter()
                    .map(|Outgoing { item, command }| (item, command))
                    .unzip();
                let replies = shard.query_many(commands).await;
                items.into_iter().zip(replies).collect::<Vec<_>>()
            },
        );
        join_all(exchanges).await.into_iter().flatten().collect()
    }

    fn by_shard(&self, outgoing: impl Iterator<Item = (usize, Outgoing)>) -> Vec<Vec<Outgoing>> {
        let mut shards: Vec<Vec<_>> = Vec::new();
        shards.resize_with(self.shards.len(), Vec::new);
        for (shard, one) in outgoing {
            shards[shard].push(one);
        }
        shards
    }
}

/// Asks the former shard whether the message is its own.
fn ask(key: &[u8], placed: &Placed, enqueue: &Cmd) -> Cmd {
    let options = &placed.options;
    grow::command(key, options.id_given(), options.group_given(), enqueue)
}
