//! No spans.

use std::future::Future;

use crate::{
    error::Error,
    handler::answer::Answer,
    message::{delivery::Delivery, id::MessageId, queue_name::QueueName},
    producer::options::EnqueueOptions,
};

pub(crate) struct Enqueueing;

impl Enqueueing {
    pub(crate) fn begin(_queue: &[u8]) -> Self {
        Self
    }

    pub(crate) fn carried_by(&self, options: EnqueueOptions) -> EnqueueOptions {
        options
    }

    pub(crate) fn end(self, _id: Option<&MessageId>, _error: Option<&Error>) {}

    pub(crate) fn end_batch(self, _count: usize, _error: Option<&Error>) {}
}

pub(crate) struct Processing;

impl Processing {
    pub(crate) fn begin(_queue: &QueueName, _delivery: &Delivery) -> Self {
        Self
    }

    pub(crate) async fn around(self, work: impl Future<Output = Answer>) -> Answer {
        work.await
    }
}
