//! What is asked of, and done to, the queue as a whole.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};

use super::{answers::PerShard, queue::ShardedQueue};
use crate::{
    error::{invalid, CodecError, Error},
    message::{codec::Decode, id::MessageId, status::Status},
    producer::{
        browse::Peek,
        info::{QueueInfo, StoredMessage},
        limits::{GroupSelection, LimitChanges, QueueLimits},
        queue::Queue,
    },
};

impl<T: ?Sized, C> ShardedQueue<T, C> {
    /// What the message of that id is doing; `None` if there is none. Its own shard is asked, and
    /// then the others, where a group or a growth may have left it.
    pub async fn status(&self, id: impl Into<MessageId>) -> Result<Option<Status>, Error> {
        let id = &id.into();
        self.find(id, |shard| shard.status(id), |status| *status)
            .await
    }

    /// The counts and totals of each shard; [`PerShard::total`] is those of the whole.
    pub async fn info(&self) -> PerShard<Option<QueueInfo>> {
        self.each(|_, shard| shard.info()).await
    }

    /// Removes the message of that id, wherever it is, as [`Queue::cancel`]. `false` if there was
    /// nothing. An error is a shard that could not be asked.
    pub async fn cancel(&self, id: impl Into<MessageId>) -> Result<bool, Error> {
        let removed = self.cancel_many([id]).await;
        let found = removed.sum() > 0;
        // With something found the others do not matter: an id is at one place.
        if found {
            return Ok(true);
        }
        removed.all().map(|_| false)
    }

    /// [`Self::cancel`] for many ids, at each shard in one command; how many had something to
    /// remove there.
    pub async fn cancel_many<I>(&self, ids: I) -> PerShard<u64>
    where
        I: IntoIterator,
        I::Item: Into<MessageId>,
    {
        let ids: Vec<MessageId> = ids.into_iter().map(Into::into).collect();
        let ids = &ids;
        self.each(|_, shard| shard.cancel_many(ids)).await
    }

    /// Sends dead letters again, wherever they are, as [`Queue::redrive`].
    pub async fn redrive<I>(&self, ids: I) -> PerShard<u64>
    where
        I: IntoIterator,
        I::Item: Into<MessageId>,
    {
        let ids: Vec<MessageId> = ids.into_iter().map(Into::into).collect();
        let ids = &ids;
        self.each(|_, shard| shard.redrive(ids)).await
    }

    /// Sends up to `count` dead letters again, 1 to 10000: the oldest of each shard, with what one
    /// of them does not have left to the others. Call it until nothing goes back.
    pub async fn redrive_oldest(&self, count: u32) -> PerShard<u64> {
        self.step(count, 10_000, |count, shard| shard.redrive_oldest(count))
            .await
    }

    /// Removes up to `count` messages of that status, 1 to 100000, as [`Queue::purge`], with what
    /// one shard does not have left to the others. Call it until it removes nothing.
    pub async fn purge(&self, status: Status, count: u32) -> PerShard<u64> {
        self.step(count, 100_000, |count, shard| shard.purge(status, count))
            .await
    }

    /// [`Self::purge`] for every status but the locked ones.
    pub async fn purge_all(&self, count: u32) -> PerShard<u64> {
        self.step(count, 100_000, |count, shard| shard.purge_all(count))
            .await
    }

    /// Stops all deliveries until they are [resumed](Self::resume). Everything else goes on.
    pub async fn pause(&self) -> PerShard<()> {
        self.each(|_, shard| shard.pause()).await
    }

    /// Stops all deliveries for that long, as [`Queue::pause_for`].
    pub async fn pause_for(&self, time: Duration) -> PerShard<Option<SystemTime>> {
        self.each(|_, shard| shard.pause_for(time)).await
    }

    /// Lets all deliveries go on; whether each shard was paused.
    pub async fn resume(&self) -> PerShard<bool> {
        self.each(|_, shard| shard.resume()).await
    }

    /// [`Self::pause`] for one group, at its shard, and at its former one too.
    pub async fn pause_group(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        for shard in self.shards_of_group(group.as_ref()) {
            shard.pause_group(group.as_ref()).await?;
        }
        Ok(())
    }

    /// [`Self::pause_for`] for one group. Returns the latest end, on its server's clock; `None` if
    /// the pause lasts until the group is resumed.
    pub async fn pause_group_for(
        &self,
        group: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<Option<SystemTime>, Error> {
        let mut ends = Some(SystemTime::UNIX_EPOCH);
        for shard in self.shards_of_group(group.as_ref()) {
            let end = shard.pause_group_for(group.as_ref(), time).await?;
            ends = ends.zip(end).map(|(one, other)| one.max(other));
        }
        Ok(ends)
    }

    /// Lets the deliveries of one group go on; `false` if it was not paused.
    pub async fn resume_group(&self, group: impl AsRef<[u8]>) -> Result<bool, Error> {
        let mut was_paused = false;
        for shard in self.shards_of_group(group.as_ref()) {
            was_paused |= shard.resume_group(group.as_ref()).await?;
        }
        Ok(was_paused)
    }

    /// Sets limits of the queue as a whole, each shared out over the shards: what they hold, have
    /// in flight and keep of dead letters adds up to the number, of which each has to get at least
    /// one. Each shard lets its share of a rate go, whether the others use theirs or not. Attempts
    /// are those of a message, and are not shared out.
    ///
    /// A shard that is full refuses its messages while another has room: the more messages are
    /// waiting, the more evenly they lie. After a growth set them again.
    pub async fn set_limits(&self, changes: &LimitChanges) -> Result<PerShard<()>, Error> {
        let shards = self.shards.len();
        let shares = (0..shards).map(|index| changes.share(index, shards));
        let shares: Vec<_> = shares.collect::<Result<_, _>>()?;
        let shares = &shares;
        let set = self.each(|index, shard| shard.set_limits(&shares[index]));
        Ok(set.await)
    }

    /// The limits of each shard.
    pub async fn limits(&self) -> PerShard<Option<QueueLimits>> {
        self.each(|_, shard| shard.limits()).await
    }

    /// Sets limits of each group, or of the one of that name. A group is whole at its shard, so
    /// that nothing is shared out.
    pub async fn set_group_limits(
        &self,
        groups: impl Into<GroupSelection>,
        changes: &LimitChanges,
    ) -> PerShard<()> {
        let groups = &groups.into();
        let set = |shard: usize| {
            let one = &self.shards[shard];
            one.set_group_limits(groups.clone(), changes)
        };
        let shards = match groups {
            GroupSelection::Each => (0..self.shards.len()).collect(),
            GroupSelection::One(group) => self.places_of_group(group),
        };
        PerShard(join_all(shards.into_iter().map(set)).await)
    }

    fn places_of_group(&self, group: &[u8]) -> Vec<usize> {
        let former = self.former_place_of(group);
        former.into_iter().chain([self.place_of(group)]).collect()
    }

    fn shards_of_group(&self, group: &[u8]) -> impl Iterator<Item = &Queue<T, C>> {
        let places = self.places_of_group(group);
        places.into_iter().map(|place| &self.shards[place])
    }

    /// Asks all shards at the same time.
    pub(super) async fn each<'a, R, Fut>(
        &'a self,
        ask: impl Fn(usize, &'a Queue<T, C>) -> Fut,
    ) -> PerShard<R>
    where
        Fut: Future<Output = Result<R, Error>>,
    {
        let shards = self.shards.iter().enumerate();
        PerShard(join_all(shards.map(|(index, shard)| ask(index, shard))).await)
    }

    /// One step of up to `count` over all shards: each its share at first, and then what others
    /// have left over.
    async fn step<'a, Fut>(
        &'a self,
        count: u32,
        most: u32,
        ask: impl Fn(u32, &'a Queue<T, C>) -> Fut,
    ) -> PerShard<u64>
    where
        Fut: Future<Output = Result<u64, Error>>,
    {
        let shards = self.shards.len();
        let ask = &ask;
        if !(1..=most).contains(&count) {
            let refused = |_, _| async { Err(invalid("count", "is out of range")) };
            return self.each(refused).await;
        }
        let mut answers = self
            .each(|index, shard| async move {
                match share(u64::from(count), index, shards) {
                    0 => Ok(0),
                    own => ask(own as u32, shard).await,
                }
            })
            .await;
        for (index, shard) in self.shards.iter().enumerate() {
            let left = u64::from(count).saturating_sub(answers.sum()) as u32;
            let has_more = match &answers.0[index] {
                Ok(done) => *done == share(u64::from(count), index, shards),
                Err(_) => false,
            };
            if left > 0 && has_more {
                let more = ask(left, shard).await;
                if let (Ok(done), Ok(more)) = (&mut answers.0[index], more) {
                    *done += more;
                }
            }
        }
        answers
    }

    /// Looks for the message of that id: at its own shard, and if nothing lives there at the others.
    async fn find<'a, R, Fut>(
        &'a self,
        id: &MessageId,
        ask: impl Fn(&'a Queue<T, C>) -> Fut,
        status: impl Fn(&R) -> Status,
    ) -> Result<Option<R>, Error>
    where
        Fut: Future<Output = Result<Option<R>, Error>>,
    {
        let own = self.place_of(id.as_bytes());
        let is_live = |found: &R| status(found) != Status::Dead;
        let mut known = ask(&self.shards[own]).await;
        if matches!(&known, Ok(Some(found)) if is_live(found)) {
            return known;
        }
        let others = self.shards.iter().enumerate();
        let others = others.filter(|(place, _)| *place != own);
        let mut others: FuturesUnordered<_> = others.map(|(_, shard)| ask(shard)).collect();
        while let Some(answer) = others.next().await {
            match answer {
                Ok(Some(found)) if is_live(&found) => return Ok(Some(found)),
                // A letter is something, and a failure is worth more than nothing.
                Ok(Some(letter)) if !matches!(known, Ok(Some(_))) => known = Ok(Some(letter)),
                Err(error) if matches!(known, Ok(None)) => known = Err(error),
                _ => {}
            }
        }
        known
    }
}

impl<T, C: Decode<T>> ShardedQueue<T, C> {
    /// The message of that id, wherever it is, as [`Queue::get`].
    pub async fn get(&self, id: impl Into<MessageId>) -> Result<Option<StoredMessage<T>>, Error> {
        let id = &id.into();
        self.find(id, |shard| shard.get(id), |stored| stored.status)
            .await
    }

    /// What each shard [shows](Queue::peek): up to the count from each. The next page is asked of
    /// each shard [by itself](Self::shards).
    pub async fn peek(&self, peek: &Peek) -> PerShard<Vec<StoredMessage<Result<T, CodecError>>>> {
        self.each(|_, shard| shard.peek(peek)).await
    }
}

/// The share of a number that one of so many shards has.
pub(crate) fn share(number: u64, index: usize, shards: usize) -> u64 {
    let (index, shards) = (index as u64, shards as u64);
    number / shards + u64::from(index < number % shards)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up() {
        for number in 0..50 {
            for shards in 1..9 {
                let sum: u64 = (0..shards).map(|index| share(number, index, shards)).sum();
                assert_eq!(sum, number);
            }
        }
        assert_eq!((share(10, 0, 4), share(10, 3, 4)), (3, 2));
    }
}
