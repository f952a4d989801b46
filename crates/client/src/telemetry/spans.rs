//! Spans of OpenTelemetry, by its conventions for messaging.
//!
//! Providers and propagators are the program's, as set with the crate `opentelemetry`. The context
//! of an enqueue goes with the message, in its headers; a worker's span is the root of a trace of
//! its own and links to it, since a message may be handled long after, and several times.

use std::{
    borrow::Cow,
    fmt,
    future::Future,
    time::{Duration, Instant, SystemTime},
};

use opentelemetry::{
    context::FutureExt,
    global,
    propagation::{Extractor, Injector},
    trace::{Link, Span, SpanBuilder, SpanKind, Status, TraceContextExt},
    Context, KeyValue,
};

use redis::RedisError;

use super::metrics;
use crate::{
    error::Error,
    handler::answer::Answer,
    message::{
        delivered::{Delivered, More},
        delivery::Delivery,
        headers::Headers,
        id::{show_bytes, MessageId},
        queue_name::QueueName,
    },
    producer::options::EnqueueOptions,
};

/// The name of what makes the spans.
pub(super) const SCOPE: &str = "redis-mq-client";

/// What a failure is called that has no code.
const OTHER: &str = "_OTHER";

/// One span around one call of a producer.
pub(crate) struct Enqueueing {
    context: Context,
    attributes: Vec<KeyValue>,
    began: Instant,
}

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
        let attributes = attributes(&queue, "enqueue", "send");
        let span = SpanBuilder::from_name(format!("enqueue {queue}"))
            .with_kind(SpanKind::Producer)
            .with_attributes(attributes.clone())
            .start(&global::tracer(SCOPE));
        Self {
            context: Context::current_with_span(span),
            attributes,
            began: Instant::now(),
        }
    }

    /// The options, and the context in their headers: if it fits, if there is none yet, and if the
    /// headers are lines as those of everybody.
    pub(crate) fn carried_by(&self, options: EnqueueOptions) -> EnqueueOptions {
        let mut carried = Carried::default();
        global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&self.context, &mut carried);
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
        let number = KeyValue::new("messaging.batch.message_count", number(count));
        self.context.span().set_attribute(number);
        self.end_with(None, count, error);
    }

    pub(crate) fn end(self, id: Option<&MessageId>, error: Option<&Error>) {
        self.end_with(id, 1, error);
    }

    fn end_with(mut self, id: Option<&MessageId>, count: usize, error: Option<&Error>) {
        let span = self.context.span();
        if let Some(id) = id {
            span.set_attribute(KeyValue::new("messaging.message.id", id.to_string()));
        }
        if let Some(error) = error {
            let code = match error {
                Error::Redis(error) | Error::Full(error) => error.code(),
                _ => None,
            };
            let code = KeyValue::new("error.type", code.unwrap_or(OTHER).to_owned());
            span.set_attribute(code.clone());
            span.set_status(Status::error(error.to_string()));
            self.attributes.push(code);
        }
        span.end();
        let sent = Some("messaging.client.sent.messages");
        metrics::operation(&self.attributes, sent, count, self.began.elapsed());
    }
}

/// Messages were taken, in one reply that took that long. Polls that find nothing are not told of.
pub(crate) fn received(queue: &QueueName, took: Duration, deliveries: &[Delivered]) {
    if deliveries.is_empty() {
        return;
    }
    let mut attributes = attributes(&queue.shown, "dequeue", "receive");
    let taken = Some("messaging.client.consumed.messages");
    metrics::operation(&attributes, taken, deliveries.len(), took);
    let count = number(deliveries.len());
    attributes.push(KeyValue::new("messaging.batch.message_count", count));
    let origins = deliveries.iter().map(|one| sent_in(one.more.as_deref()));
    let links = origins.filter_map(|sent| link(&sent)).collect();
    let end = SystemTime::now();
    let mut span = SpanBuilder::from_name(format!("dequeue {}", queue.shown))
        .with_kind(SpanKind::Client)
        .with_attributes(attributes)
        .with_links(links)
        .with_start_time(end.checked_sub(took).unwrap_or(end))
        .start_with_context(&global::tracer(SCOPE), &Context::new());
    span.end_with_timestamp(end);
}

/// One span around one step of answers.
pub(crate) struct Settling {
    span: global::BoxedSpan,
    attributes: Vec<KeyValue>,
    count: usize,
    began: Instant,
}

impl Settling {
    /// Begins it; none for no answers.
    pub(crate) fn begin(queue: &QueueName, count: usize) -> Option<Self> {
        if count == 0 {
            return None;
        }
        let attributes = attributes(&queue.shown, "done", "settle");
        let mut all = attributes.clone();
        all.push(KeyValue::new(
            "messaging.batch.message_count",
            number(count),
        ));
        let span = SpanBuilder::from_name(format!("done {}", queue.shown))
            .with_kind(SpanKind::Client)
            .with_attributes(all)
            .start_with_context(&global::tracer(SCOPE), &Context::new());
        Some(Self {
            span,
            attributes,
            count,
            began: Instant::now(),
        })
    }

    /// They have arrived, or it is not known.
    pub(crate) fn end(mut self, error: Option<&RedisError>) {
        if let Some(error) = error {
            let code = KeyValue::new("error.type", error.code().unwrap_or(OTHER).to_owned());
            self.span.set_attribute(code.clone());
            self.span.set_status(Status::error(error.to_string()));
            self.attributes.push(code);
        }
        self.span.end();
        let took = self.began.elapsed();
        metrics::operation(&self.attributes, None, self.count, took);
    }
}

/// One span around the handling of one delivery.
pub(crate) struct Processing {
    context: Context,
    attributes: Vec<KeyValue>,
    began: Instant,
}

impl Processing {
    /// Begins it, as the root of a trace that has a link to the enqueue, or, if `continues`, as its
    /// child.
    pub(crate) fn begin(queue: &QueueName, delivery: &Delivery, continues: bool) -> Self {
        let attributes = attributes(&queue.shown, "process", "process");
        let id = delivery.id.to_string();
        let size = number(delivery.payload.len());
        let mut all = attributes.clone();
        all.extend([
            KeyValue::new("messaging.message.id", id),
            KeyValue::new("messaging.message.body.size", size),
            KeyValue::new("redis_mq.attempt", i64::from(delivery.attempt)),
        ]);
        let sent = sent_in(delivery.more.as_deref());
        let root = Context::new();
        let (parent, links) = match continues {
            true => (&sent, Vec::new()),
            false => (&root, link(&sent).into_iter().collect()),
        };
        let span = SpanBuilder::from_name(format!("process {}", queue.shown))
            .with_kind(SpanKind::Consumer)
            .with_attributes(all)
            .with_links(links)
            .start_with_context(&global::tracer(SCOPE), parent);
        Self {
            // What else came along, as baggage, is there for the handler too.
            context: sent.with_span(span),
            attributes,
            began: Instant::now(),
        }
    }

    /// Does the work inside the span, which is the current one meanwhile.
    pub(crate) async fn around(mut self, work: impl Future<Output = Answer>) -> Answer {
        let answer = work.with_context(self.context.clone()).await;
        let span = self.context.span();
        let reason = match &answer {
            Answer::Retry(retry) if !retry.reason.is_empty() => Some(&retry.reason),
            Answer::Error(reason) => Some(reason),
            _ => None,
        };
        if let Some(reason) = reason {
            let code = KeyValue::new("error.type", OTHER);
            span.set_attribute(code.clone());
            span.set_status(Status::error(Cow::Owned(reason.to_string())));
            self.attributes.push(code);
        }
        span.end();
        metrics::processed(&self.attributes, self.began.elapsed());
        answer
    }
}

/// The context that a message's headers carry.
fn sent_in(more: Option<&More>) -> Context {
    let headers = more.and_then(|more| more.headers.as_ref());
    headers.map_or_else(Context::new, |headers| {
        global::get_text_map_propagator(|propagator| {
            propagator.extract_with_context(&Context::new(), &Read(headers))
        })
    })
}

fn link(sent: &Context) -> Option<Link> {
    let origin = sent.span().span_context().clone();
    origin.is_valid().then(|| Link::new(origin, Vec::new(), 0))
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
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
