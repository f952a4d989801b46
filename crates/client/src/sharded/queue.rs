//! The shards of a queue, and which of them has what.

use std::{fmt, sync::Arc};

use redis::aio::ConnectionLike;

use super::{place::place, problem, shard_key};
use crate::{
    error::{invalid, Error},
    message::{codec::MessagePack, id::show_bytes},
    producer::{options::EnqueueOptions, queue::Queue},
};

/// One logical queue over several keys, as producers and operators see it.
///
/// A queue is one key, on one node of a cluster, and no faster than that node. This one is as many
/// keys as it has shards, `name:{0}`, `name:{1}` and so on, which a cluster spreads over its nodes;
/// or which lie on [several servers](Self::across) that know nothing of each other. A message
/// belongs to the shard of its group, or of its id if it has no group. So ids are unique and groups
/// keep their order as in a single queue; an id has to come with the same group each time, and
/// messages without a group have no order between shards.
///
/// A shard that cannot be reached delays its own messages only. See the
/// [guide](crate::guide#one-queue-on-many-servers) for growing, and for what holds for the whole.
///
/// ```no_run
/// # async fn example(connection: redis_mq_client::redis::aio::ConnectionManager) -> Result<(), Box<dyn std::error::Error>> {
/// use redis_mq_client::{EnqueueOptions, ShardedQueue};
///
/// // On a cluster the connection is a `redis::cluster_async::ClusterConnection`.
/// let mails = ShardedQueue::<String>::new(connection, "mails", 4)?;
/// mails.enqueue_with(&"hello".into(), EnqueueOptions::new().id("mail:1")).await?;
/// println!("{} wait", mails.info().await.total().waiting());
/// # Ok(()) }
/// ```
pub struct ShardedQueue<T: ?Sized, C = MessagePack> {
    pub(super) name: Arc<[u8]>,
    pub(super) shards: Arc<[Queue<T, C>]>,
    /// How many shards there were before it grew.
    pub(super) former: Option<usize>,
}

impl<T: ?Sized> ShardedQueue<T> {
    /// The queue of that name over so many shards, 1 to 1024, all through one connection, as to a
    /// cluster, with MessagePack payloads. Nothing is sent.
    pub fn new<S>(connection: S, name: impl Into<Vec<u8>>, shards: usize) -> Result<Self, Error>
    where
        S: ConnectionLike + Clone + Send + Sync + 'static,
    {
        // What is too much is refused before it is made.
        let most = shards.min(super::MOST_SHARDS + 1);
        Self::across(std::iter::repeat_n(connection, most), name)
    }

    /// The queue of that name over several servers: the first shard through the first connection,
    /// and so on. Each producer and each worker has to name them in the same order.
    pub fn across<S>(
        connections: impl IntoIterator<Item = S>,
        name: impl Into<Vec<u8>>,
    ) -> Result<Self, Error>
    where
        S: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let name = name.into();
        let shards: Arc<[_]> = connections
            .into_iter()
            .enumerate()
            .map(|(index, connection)| Queue::new(connection, shard_key(&name, index)))
            .collect();
        if let Some((option, problem)) = problem(&name, shards.len()) {
            return Err(invalid(option, problem));
        }
        Ok(Self {
            name: name.into(),
            shards,
            former: None,
        })
    }
}

impl<T: ?Sized, C> ShardedQueue<T, C> {
    /// The same queue, with payloads written by that codec.
    pub fn codec<D: Clone>(self, codec: D) -> ShardedQueue<T, D>
    where
        C: Clone,
    {
        let shards = self.shards.iter().cloned();
        ShardedQueue {
            name: self.name,
            shards: shards.map(|shard| shard.codec(codec.clone())).collect(),
            former: self.former,
        }
    }

    /// It had so many shards before, and messages of then may still be there.
    ///
    /// What has another place now is looked for at its former one first, and stays there while its
    /// id or its group is in use: ids stay unique, dedupe windows hold, and groups keep their order.
    /// That costs such messages a second round trip, and the right to `EVAL`. See the
    /// [guide](crate::guide#growing) for the steps.
    ///
    /// The number has to be less than that of the shards, and at least 1.
    pub fn grown_from(mut self, shards: usize) -> Result<Self, Error> {
        if shards == 0 || shards >= self.shards.len() {
            return Err(invalid("grown_from", "has to be fewer shards than now"));
        }
        self.former = Some(shards);
        Ok(self)
    }

    /// The queue's name, which its keys begin with.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its shards, each a queue of its own: for what is done page by page, as
    /// [`scan`](Queue::scan), [`groups`](Queue::groups) and [`peek`](Queue::peek).
    pub fn shards(&self) -> &[Queue<T, C>] {
        &self.shards
    }

    /// The shard of that group, or of that id of a message without a group.
    pub fn shard_of(&self, group_or_id: impl AsRef<[u8]>) -> &Queue<T, C> {
        &self.shards[self.place_of(group_or_id.as_ref())]
    }

    pub(super) fn place_of(&self, key: &[u8]) -> usize {
        place(key, self.shards.len())
    }

    /// The former place of a key, if it is another one now.
    pub(super) fn former_place_of(&self, key: &[u8]) -> Option<usize> {
        let former = place(key, self.former?);
        (former != self.place_of(key)).then_some(former)
    }

    /// Where a message goes, by its group or else by its id; it gets an id if it has neither.
    pub(super) fn placed(&self, options: EnqueueOptions) -> Placed {
        let key = options.group_given().or(options.id_given());
        if let Some(key) = key {
            let (shard, former) = (self.place_of(key), self.former_place_of(key));
            return Placed {
                shard,
                former,
                options,
            };
        }
        let id = uuid::Uuid::now_v7().to_string();
        Placed {
            shard: self.place_of(id.as_bytes()),
            // Nobody has seen this id before.
            former: None,
            options: options.id(id),
        }
    }
}

/// A message's options, and where it goes.
pub(super) struct Placed {
    pub(super) shard: usize,
    /// Where it was before the queue grew, if that is elsewhere.
    pub(super) former: Option<usize>,
    pub(super) options: EnqueueOptions,
}

impl<T: ?Sized, C> Clone for ShardedQueue<T, C> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            shards: Arc::clone(&self.shards),
            former: self.former,
        }
    }
}

impl<T: ?Sized, C> fmt::Debug for ShardedQueue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShardedQueue(")?;
        show_bytes(&self.name, f)?;
        write!(f, " over {} shards)", self.shards.len())
    }
}
