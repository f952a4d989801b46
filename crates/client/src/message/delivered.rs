//! What the server hands over.

use super::{headers::Headers, id::MessageId};
use crate::producer::batch::BatchResult;

/// One delivery, as the server handed it over.
#[derive(Debug, PartialEq)]
pub(crate) struct Delivered {
    pub(crate) id: MessageId,
    pub(crate) payload: Vec<u8>,
    pub(crate) attempt: u32,
    pub(crate) token: i64,
    pub(crate) lock_ms: u64,
    pub(crate) enqueued_at_ms: u64,
    /// `None` where there is no more to tell.
    pub(crate) more: Option<Box<More>>,
}

/// What only some deliveries have.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct More {
    pub(crate) headers: Option<Headers>,
    pub(crate) group: Option<Vec<u8>>,
    /// The instant that its schedule meant, in Unix milliseconds.
    pub(crate) scheduled_at_ms: Option<u64>,
    pub(crate) batch: Option<BatchResult>,
}
