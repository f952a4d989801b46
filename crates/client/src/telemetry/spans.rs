//! Spans of OpenTelemetry, by its conventions for messaging.
//!
//! Providers and propagators are the program's, as set with the crate `opentelemetry`. The context
//! of an enqueue goes with the message, in its headers; a worker's span is the root of a trace of
//! its own and links to it, since a message may be handled long after, and several times.

use std::{borrow::Cow, fmt, future::Future};

use opentelemetry::{
    context::FutureExt,
    global,
    propagation::{Extractor, Injector},
    trace::{Link, SpanBuilder, SpanKind, Status, TraceContextExt},
    Context, KeyValue,
};

use crate::{
    error::Error,
    handler::answer::Answer,
    message::{
        delivery::Delivery,
        headers::Headers,
        id::{show_bytes, MessageId},
        queue_name::QueueName,
    },
    producer::options::EnqueueOptions,
};

/// The name of what makes the spans.
const SCOPE: &str = "redis-mq-client";

/// What a failure is called that has no code.
const OTHER: &str = "_OTHER";

/// One span around one call of a producer.
pub(crate) struct Enqueueing(Context);

impl Enqueueing {
    /// Begins it, as a child of the current span.
    pub(crate) fn begin(queue: &[u8]) -> Self {
        struct Shown<'a>(&'a [u8]);
        impl fmt::Display for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show_bytes(self.0, f)
            }
        }
        let queue = Shown(queue).to_string();
        let span = SpanBuilder::from_name(format!("enqueue {queue}"))
            .with_kind(SpanKind::Producer)
            .with_attributes(attributes(&queue, "enqueue", "send"))
            .start(&global::tracer(SCOPE));
        Self(Context::current_with_span(span))
    }

    /// The options, and the context in their headers: if it fits, if there is none yet, and if the
    /// headers are lines as those of everybody.
    pub(crate) fn carried_by(&self, options: EnqueueOptions) -> EnqueueOptions {
        let mut carried = Carried::default();
        global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&self.0, &mut carried);
        });
        if carried.0.is_empty() {
            return options;
        }
        let mut headers = options.current_headers().cloned().unwrap_or_default();
        let taken = |(name, _): &(String, String)| headers.get(name).is_some();
        if !headers.is_lines() || carried.0.iter().any(taken) {
            return options;
        }
        for (name, value) in &carried.0 {
            headers = headers.with(name, value);
        }
        match headers.problem() {
            Some(_) => options,
            None => options.headers(headers),
        }
    }

    /// The end of a call for many messages, which all carry the same context.
    pub(crate) fn end_batch(self, count: usize, error: Option<&Error>) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let count = KeyValue::new("messaging.batch.message_count", count);
        self.0.span().set_attribute(count);
        self.end(None, error);
    }

    pub(crate) fn end(self, id: Option<&MessageId>, error: Option<&Error>) {
        let span = self.0.span();
        if let Some(id) = id {
            span.set_attribute(KeyValue::new("messaging.message.id", id.to_string()));
        }
        if let Some(error) = error {
            let code = match error {
                Error::Redis(error) | Error::Full(error) => error.code(),
                _ => None,
            };
            let code = code.unwrap_or(OTHER).to_owned();
            span.set_attribute(KeyValue::new("error.type", code));
            span.set_status(Status::error(error.to_string()));
        }
        span.end();
    }
}

/// One span around the handling of one delivery.
pub(crate) struct Processing(Context);

impl Processing {
    pub(crate) fn begin(queue: &QueueName, delivery: &Delivery) -> Self {
        let mut attributes = attributes(&queue.shown, "process", "process");
        let id = delivery.id.to_string();
        let size = i64::try_from(delivery.payload.len()).unwrap_or(i64::MAX);
        attributes.extend([
            KeyValue::new("messaging.message.id", id),
            KeyValue::new("messaging.message.body.size", size),
            KeyValue::new("redis_mq.attempt", i64::from(delivery.attempt)),
        ]);
        let headers = delivery
            .more
            .as_ref()
            .and_then(|more| more.headers.as_ref());
        let sent = headers.map_or_else(Context::new, |headers| {
            global::get_text_map_propagator(|propagator| {
                propagator.extract_with_context(&Context::new(), &Read(headers))
            })
        });
        let origin = sent.span().span_context().clone();
        let links = Some(origin).filter(|origin| origin.is_valid());
        let links = links.map(|origin| Link::new(origin, Vec::new(), 0));
        let span = SpanBuilder::from_name(format!("process {}", queue.shown))
            .with_kind(SpanKind::Consumer)
            .with_attributes(attributes)
            .with_links(links.into_iter().collect())
            .start_with_context(&global::tracer(SCOPE), &Context::new());
        // What else came along, as baggage, is there for the handler too.
        Self(sent.with_span(span))
    }

    /// Does the work inside the span, which is the current one meanwhile.
    pub(crate) async fn around(self, work: impl Future<Output = Answer>) -> Answer {
        let answer = work.with_context(self.0.clone()).await;
        let span = self.0.span();
        let reason = match &answer {
            Answer::Retry(retry) if !retry.reason.is_empty() => Some(&retry.reason),
            Answer::Error(reason) => Some(reason),
            _ => None,
        };
        if let Some(reason) = reason {
            span.set_attribute(KeyValue::new("error.type", OTHER));
            span.set_status(Status::error(Cow::Owned(reason.to_string())));
        }
        span.end();
        answer
    }
}

fn attributes(queue: &str, name: &'static str, kind: &'static str) -> Vec<KeyValue> {
    vec![
        KeyValue::new("messaging.system", "redis_mq"),
        KeyValue::new("messaging.destination.name", queue.to_owned()),
        KeyValue::new("messaging.operation.name", name),
        KeyValue::new("messaging.operation.type", kind),
    ]
}

/// What a propagator writes.
#[derive(Default)]
struct Carried(Vec<(String, String)>);

impl Injector for Carried {
    fn set(&mut self, key: &str, value: String) {
        // One without a value says nothing.
        if !value.is_empty() {
            self.0.push((key.to_ascii_lowercase(), value));
        }
    }
}

/// What it reads.
struct Read<'a>(&'a Headers);

impl Extractor for Read<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name).collect()
    }
}
