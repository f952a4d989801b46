//! Tower services as handlers.

use std::sync::{Mutex, PoisonError};

use tower_service::Service;

use super::{
    outcome::{IntoVerdict, Verdict},
    Handler,
};
use crate::{error::BoxError, message::Message};

/// A tower service as a handler, and so any layer of tower around a handler.
///
/// Each message is given to a clone of the service. A service that is not ready makes its message
/// wait with the lock held and extended; to limit how many messages are taken at all, use the
/// worker's number of handlers and its rate limit, which hold no lock.
///
/// ```
/// # use std::time::Duration;
/// use redis_mq_client::{service, Message, Outcome};
/// use tower::{service_fn, ServiceBuilder};
///
/// let handler = service(
///     ServiceBuilder::new()
///         .timeout(Duration::from_secs(5))
///         .service(service_fn(|message: Message<String>| async move {
///             println!("{}", message.value);
///             Ok::<_, std::io::Error>(Outcome::Success)
///         })),
/// );
/// # fn is_handler<H: redis_mq_client::Handler<String>>(_: H) {}
/// # is_handler(handler);
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub fn service<S>(service: S) -> TowerHandler<S> {
    TowerHandler(Mutex::new(service))
}

/// The handler made by [`service`].
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
#[derive(Debug)]
pub struct TowerHandler<S>(Mutex<S>);

impl<T, S> Handler<T> for TowerHandler<S>
where
    T: Send + 'static,
    S: Service<Message<T>> + Clone + Send + 'static,
    S::Response: IntoVerdict + Send,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
{
    async fn handle(&self, message: Message<T>) -> Verdict {
        // Cloning a service leaves nothing half done, so that a poisoned lock is a good one.
        let mut service = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        std::future::poll_fn(|context| service.poll_ready(context))
            .await
            .map_err(Into::into)?;
        service
            .call(message)
            .await
            .map_err(Into::into)?
            .into_verdict()
    }
}
