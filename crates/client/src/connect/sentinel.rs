//! Through Sentinel: the master is asked for anew for each connection.

use futures_util::future::BoxFuture;
use redis::{sentinel::SentinelClient, RedisResult};
use tokio::sync::Mutex;

use super::source::{open, Connect, ConnectOptions, Connection};

#[cfg_attr(docsrs, doc(cfg(feature = "sentinel")))]
impl Connect for Mutex<SentinelClient> {
    fn connect<'a>(
        &'a self,
        options: &'a ConnectOptions,
    ) -> BoxFuture<'a, RedisResult<Connection>> {
        Box::pin(async move {
            let client = self.lock().await.async_get_client().await?;
            open(&client, options).await
        })
    }
}
