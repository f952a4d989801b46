//! A connection for producers that lasts.

use std::time::Duration;

use redis::{
    aio::{ConnectionManager, ConnectionManagerConfig},
    Client, RedisResult,
};

/// How long a reply may take. The redis crate's own default of half a second is short for a
/// thousand pipelined messages, or for a server that forks to save.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection for producers that is opened again whenever it breaks.
///
/// It is opened at the first use, so that a program may start before its server does. A call that
/// is under way when the connection breaks fails, and so do those that come while the server
/// cannot be reached; later ones go over a new connection. A call waits at most 5 seconds for its
/// reply: then it fails, and may have been carried out all the same. Give messages an
/// [id](crate::EnqueueOptions::id), and repeating the call is safe.
///
/// A plain [`redis::aio::MultiplexedConnection`] never comes back: after the first restart of the
/// server every call on it fails. For other timeouts make a [`ConnectionManager`] yourself, with
/// [`set_response_timeout`](ConnectionManagerConfig::set_response_timeout) longer than the redis
/// crate's 500 ms.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redis_mq_client::{connect, redis, Queue};
///
/// let client = redis::Client::open("redis://127.0.0.1/")?;
/// let mails = Queue::<String>::new(connect::reconnecting(&client)?, "mails");
/// # let _ = mails;
/// # Ok(()) }
/// ```
///
/// It has to be called inside a tokio runtime, which is then that of the connection.
#[cfg_attr(docsrs, doc(cfg(feature = "connection-manager")))]
pub fn reconnecting(client: &Client) -> RedisResult<ConnectionManager> {
    super::crypto::ensure_provider();
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_min_delay(Duration::from_millis(50))
        .set_max_delay(Duration::from_secs(1))
        .set_number_of_retries(3);
    client.get_connection_manager_lazy(config)
}
