//! Several servers that know nothing of each other.

use futures_util::future::BoxFuture;
use redis::{ErrorKind, RedisError, RedisResult};

use super::source::{Connect, ConnectOptions, Connection};

/// The source of a [sharded](crate::WorkerBuilder::build_sharded) worker over several servers: the
/// first shard comes from the first source, and so on. Each of them is whatever can [`Connect`]:
/// a [`redis::Client`], or Sentinel's.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redis_mq_client::{connect, redis, Message, Worker};
///
/// let servers = connect::shards([
///     redis::Client::open("redis://10.0.0.1/")?,
///     redis::Client::open("redis://10.0.0.2/")?,
/// ]);
/// let worker = Worker::builder(servers, "mails").build_sharded(2, |_: Message<String>| async {})?;
/// # let _ = worker;
/// # Ok(()) }
/// ```
pub fn shards<S: Connect>(sources: impl IntoIterator<Item = S>) -> Shards<S> {
    Shards(sources.into_iter().collect())
}

/// The source made by [`shards`].
#[derive(Debug, Clone)]
pub struct Shards<S>(Vec<S>);

impl<S: Connect> Connect for Shards<S> {
    fn connect<'a>(
        &'a self,
        options: &'a ConnectOptions,
    ) -> BoxFuture<'a, RedisResult<Connection>> {
        match number(&options.queue).and_then(|number| self.0.get(number)) {
            Some(source) => source.connect(options),
            None => Box::pin(async { Err(no_shard()) }),
        }
    }
}

/// The number of the shard that has this key: `name:{2}`.
fn number(key: &[u8]) -> Option<usize> {
    let key = key.strip_suffix(b"}")?;
    let from = key.iter().rposition(|byte| *byte == b'{')? + 1;
    std::str::from_utf8(&key[from..]).ok()?.parse().ok()
}

fn no_shard() -> RedisError {
    RedisError::from((
        ErrorKind::InvalidClientConfig,
        "there is no server for this shard",
    ))
}

#[cfg(test)]
mod tests {
    use super::number;
    use crate::sharded::shard_key;

    #[test]
    fn a_key_tells_its_shard() {
        for shard in [0, 7, 1_023] {
            assert_eq!(number(&shard_key(b"mails", shard)), Some(shard));
        }
        assert_eq!(number(b"mails"), None);
        assert_eq!(number(b"mails:{x}"), None);
    }
}
