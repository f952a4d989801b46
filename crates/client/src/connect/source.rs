//! What opens connections.

use std::{future::Future, time::Duration};

use futures_util::future::BoxFuture;
use redis::{aio::ConnectionLike, AsyncConnectionConfig, Client, RedisResult};

use super::crypto;

/// Opens connections to the server that holds a queue.
///
/// A worker asks for a new connection whenever one has failed, whatever the failure: an
/// implementation that looks up the server each time (Sentinel, a cluster's slot map, DNS,
/// rotating credentials) therefore follows failovers by itself. It need not retry: the worker
/// does, with pauses.
///
/// Implemented for [`redis::Client`], for [`ClusterNodes`](crate::ClusterNodes), for `redis::sentinel::SentinelClient`
/// inside a tokio mutex (feature `sentinel`), and for [`from_fn`].
pub trait Connect: Send + Sync + 'static {
    /// Opens one new connection for the use of this worker alone.
    fn connect<'a>(&'a self, options: &'a ConnectOptions)
        -> BoxFuture<'a, RedisResult<Connection>>;
}

/// A connection for one worker's use.
pub type Connection = Box<dyn ConnectionLike + Send>;

/// What a connection has to be like.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The queue's key, for servers that share out keys.
    pub queue: Vec<u8>,
    /// How long a command may stay unanswered. It is longer than the longest wait of a blocking
    /// dequeue: **a shorter one would strand messages that the server hands over afterwards.**
    pub response_timeout: Duration,
    /// How long opening may take.
    pub connect_timeout: Duration,
    /// The node, as `host:port`, that the last one referred to because the queue is moving there
    /// (`ASK`). It answers only commands that are preceded by `ASKING`.
    pub ask: Option<String>,
}

impl ConnectOptions {
    /// The same as the redis crate's settings.
    pub fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_response_timeout(Some(self.response_timeout))
            .set_connection_timeout(Some(self.connect_timeout))
    }
}

impl Connect for Client {
    fn connect<'a>(
        &'a self,
        options: &'a ConnectOptions,
    ) -> BoxFuture<'a, RedisResult<Connection>> {
        Box::pin(open(self, options))
    }
}

/// Opens a connection to that client's server, without Nagle's delay.
pub(super) async fn open(client: &Client, options: &ConnectOptions) -> RedisResult<Connection> {
    crypto::ensure_provider();
    let info = client.get_connection_info().clone();
    let settings = info.tcp_settings().clone().set_nodelay(true);
    let client = Client::open(info.set_tcp_settings(settings))?;
    let connection = client
        .get_multiplexed_async_connection_with_config(&options.config())
        .await?;
    Ok(Box::new(connection))
}

/// A source that asks `find` for the client to use each time: for credentials that change, or a
/// server that is looked up.
///
/// ```
/// use redis_mq_client::{connect, redis};
///
/// let source = connect::from_fn(|| async {
///     let password = std::env::var("REDIS_PASSWORD").unwrap_or_default();
///     redis::Client::open(format!("redis://:{password}@127.0.0.1/"))
/// });
/// # let _ = source;
/// ```
pub fn from_fn<F, Fut>(find: F) -> FromFn<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = RedisResult<Client>> + Send,
{
    FromFn(find)
}

/// The source made by [`from_fn`].
#[derive(Debug, Clone)]
pub struct FromFn<F>(F);

impl<F, Fut> Connect for FromFn<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = RedisResult<Client>> + Send,
{
    fn connect<'a>(
        &'a self,
        options: &'a ConnectOptions,
    ) -> BoxFuture<'a, RedisResult<Connection>> {
        Box::pin(async move { open(&(self.0)().await?, options).await })
    }
}
