//! No spans.

use std::{future::Future, time::Duration};

use redis::RedisError;

use crate::{
    error::Error,
    handler::answer::Answer,
    message::{delivered::Delivered, delivery::Delivery, id::MessageId, queue_name::QueueName},
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

pub(crate) fn received(_queue: &QueueName, _took: Duration, _deliveries: &[Delivered]) {}

pub(crate) struct Settling;

impl Settling {
    pub(crate) fn begin(_queue: &QueueName, _count: usize) -> Option<Self> {
        None
    }

    pub(crate) fn end(self, _error: Option<&RedisError>) {}
}

pub(crate) struct Processing;

impl Processing {
    pub(crate) fn begin(_queue: &QueueName, _delivery: &Delivery, _continues: bool) -> Self {
        Self
    }

    pub(crate) async fn around(self, work: impl Future<Output = Answer>) -> Answer {
        work.await
    }
}
