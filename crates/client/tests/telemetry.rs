//! The feature `opentelemetry`. One test, since providers are global to the process.

mod common;

use common::{eventually, fresh_name, queue, quick, shared_server, MS, S};
use opentelemetry::{
    baggage::BaggageExt,
    global,
    propagation::TextMapCompositePropagator,
    trace::{SpanKind, Status, TraceContextExt, Tracer},
    Context, KeyValue,
};
use opentelemetry_sdk::{
    metrics::{
        data::{AggregatedMetrics, MetricData},
        InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    },
    propagation::{BaggagePropagator, TraceContextPropagator},
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use redis_mq_client::{EnqueueOptions, Headers, LimitChanges, Message, Outcome};
use tokio::sync::mpsc;

fn with_id(id: &str) -> EnqueueOptions {
    EnqueueOptions::new().id(id)
}

fn value(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key.as_str() == key)?;
    Some(found.value.to_string())
}

/// The spans of that operation and message, in the order in which they ended.
fn spans(exporter: &InMemorySpanExporter, operation: &str, id: &str) -> Vec<SpanData> {
    let all = exporter.get_finished_spans().unwrap().into_iter();
    all.filter(|span| {
        value(span, "messaging.operation.name").as_deref() == Some(operation)
            && value(span, "messaging.message.id").as_deref() == Some(id)
    })
    .collect()
}

/// What a metric has counted for an operation: the sum of a counter, or how often a histogram was
/// told of something.
fn counted(exporter: &InMemoryMetricExporter, metric: &str, operation: &str) -> u64 {
    let operation = KeyValue::new("messaging.operation.name", operation.to_owned());
    let last = exporter.get_finished_metrics().unwrap().pop().unwrap();
    let metrics = last.scope_metrics().flat_map(|scope| scope.metrics());
    let found: Vec<u64> = metrics
        .filter(|found| found.name() == metric)
        .flat_map(|found| match found.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                let points = sum.data_points();
                let of = points.filter(|point| point.attributes().any(|it| *it == operation));
                of.map(|point| point.value()).collect::<Vec<_>>()
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                let points = histogram.data_points();
                let of = points.filter(|point| point.attributes().any(|it| *it == operation));
                of.map(|point| point.count()).collect()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    found.iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_context_goes_along_in_the_headers_and_spans_are_linked_by_it() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    global::set_tracer_provider(provider);
    global::set_text_map_propagator(TextMapCompositePropagator::new(vec![
        Box::new(TraceContextPropagator::new()),
        Box::new(BaggagePropagator::new()),
    ]));
    let (url, name) = (shared_server().url(), fresh_name());
    let texts = queue::<String>(&url, &name).await;
    let text = "text".to_owned();
    // A provider that comes after the queue hears of it all the same.
    let metrics = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(metrics.clone()).build();
    let meters = SdkMeterProvider::builder().with_reader(reader).build();
    global::set_meter_provider(meters.clone());

    // Enqueued inside a request of a customer, and failing once.
    let request = global::tracer("test").start("request");
    let request =
        Context::current_with_span(request).with_baggage([KeyValue::new("customer", "7")]);
    let origin = request.span().span_context().clone();
    let enqueue = texts.enqueue_with(&text, with_id("a").header("tenant", "b"));
    opentelemetry::context::FutureExt::with_context(enqueue, request)
        .await
        .unwrap();
    // Outside of any, with others' context, with headers of another form, and with full ones.
    texts.enqueue_with(&text, with_id("alone")).await.unwrap();
    let foreign = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let options = with_id("foreign").header("traceparent", foreign);
    texts.enqueue_with(&text, options).await.unwrap();
    let options = with_id("binary").headers(vec![0xff, 1, 2]);
    texts.enqueue_with(&text, options).await.unwrap();
    let full = Headers::new().with("full", "x".repeat(4_080));
    texts
        .enqueue_with(&text, with_id("full").headers(&full))
        .await
        .unwrap();
    let many = [(&text, with_id("m1")), (&text, with_id("m2"))];
    for outcome in texts.enqueue_many(many).await.unwrap() {
        assert!(outcome.unwrap().is_accepted());
    }

    let headers = async |id: &str| texts.get(id).await.unwrap().unwrap().headers;
    assert_eq!(headers("binary").await.unwrap().as_bytes(), [0xff, 1, 2]);
    assert_eq!(headers("full").await.unwrap(), full);
    assert_eq!(
        headers("foreign").await.unwrap().get("traceparent"),
        Some(foreign)
    );
    let carried = headers("a").await.unwrap();
    assert_eq!(
        (carried.get("tenant"), carried.get("baggage")),
        (Some("b"), Some("customer=7"))
    );

    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = quick(&url, &name)
        .build(move |message: Message<String>| {
            let tell = tell.clone();
            async move {
                // The span is still the current one after a wait.
                tokio::time::sleep(MS(1)).await;
                let context = Context::current();
                let customer = context.baggage().get("customer").map(ToString::to_string);
                let span = context.span().span_context().clone();
                tell.send((message.id().to_string(), span, customer))
                    .unwrap();
                match (message.id().as_str(), message.attempt()) {
                    (Some("a"), 1) => Outcome::error("not now"),
                    _ => Outcome::Success,
                }
            }
        })
        .unwrap();
    eventually("all are handled", async || worker.stats().finished == 6).await;
    assert!(worker.stop(S(10)).await.is_clean());

    let sent = spans(&exporter, "enqueue", "a").remove(0);
    assert_eq!(
        (&*sent.name, sent.span_kind.clone()),
        (&*format!("enqueue {name}"), SpanKind::Producer)
    );
    assert_eq!(sent.span_context.trace_id(), origin.trace_id());
    assert_eq!(sent.parent_span_id, origin.span_id());
    assert_eq!(
        value(&sent, "messaging.system").as_deref(),
        Some("redis_mq")
    );
    assert_eq!(
        value(&sent, "messaging.destination.name").as_deref(),
        Some(&*name)
    );
    assert_eq!(
        value(&sent, "messaging.operation.type").as_deref(),
        Some("send")
    );

    let processed = spans(&exporter, "process", "a").remove(0);
    assert_eq!(processed.span_kind, SpanKind::Consumer);
    assert_ne!(
        processed.span_context.trace_id(),
        origin.trace_id(),
        "a trace of its own"
    );
    assert_eq!(processed.links.len(), 1);
    let link = &processed.links[0].span_context;
    assert_eq!(link.trace_id(), origin.trace_id());
    assert_eq!(link.span_id(), sent.span_context.span_id());
    assert_eq!(value(&processed, "redis_mq.attempt").as_deref(), Some("1"));
    assert_eq!(value(&processed, "error.type").as_deref(), Some("_OTHER"));
    assert_eq!(processed.status, Status::error("not now"));

    let foreign = spans(&exporter, "process", "foreign").remove(0);
    let link = foreign.links[0].span_context.span_id();
    assert_eq!(link.to_string(), "b7ad6b7169203331");
    assert_eq!(foreign.status, Status::Unset);
    for id in ["binary", "full"] {
        assert!(spans(&exporter, "process", id)[0].links.is_empty(), "{id}");
    }
    let alone = spans(&exporter, "process", "alone").remove(0);
    assert_eq!(alone.links.len(), 1);
    let of = |id: &str| {
        spans(&exporter, "process", id)[0].links[0]
            .span_context
            .clone()
    };
    assert_eq!(of("m1"), of("m2"), "one call, one span");

    let mut inside = Vec::new();
    while let Ok(one) = told.try_recv() {
        inside.push(one);
    }
    let (_, span, customer) = inside.iter().find(|(id, ..)| id == "a").unwrap();
    assert_eq!(span, &processed.span_context);
    assert_eq!(customer.as_deref(), Some("7"));

    // What was taken and what was answered, in as many steps as there were.
    let all = exporter.get_finished_spans().unwrap();
    let of = |operation: &str| -> Vec<&SpanData> {
        let named = |span: &&SpanData| {
            value(span, "messaging.operation.name").as_deref() == Some(operation)
        };
        all.iter().filter(named).collect()
    };
    for (operation, kind) in [("dequeue", "receive"), ("done", "settle")] {
        let steps = of(operation);
        let messages = steps.iter().map(|span| {
            let count = value(span, "messaging.batch.message_count").unwrap();
            count.parse::<u64>().unwrap()
        });
        assert_eq!(messages.sum::<u64>(), 7, "{operation}");
        for span in &steps {
            assert_eq!(
                value(span, "messaging.operation.type").as_deref(),
                Some(kind)
            );
            assert_eq!(span.span_kind, SpanKind::Client);
            assert!(span.start_time <= span.end_time);
        }
    }
    let links = of("dequeue")
        .iter()
        .map(|span| span.links.len())
        .sum::<usize>();
    assert_eq!(links, 5, "a, alone, foreign, m1 and m2");
    meters.force_flush().unwrap();
    let sent = "messaging.client.sent.messages";
    let consumed = "messaging.client.consumed.messages";
    let operations = "messaging.client.operation.duration";
    assert_eq!(counted(&metrics, sent, "enqueue"), 7);
    assert_eq!(counted(&metrics, consumed, "dequeue"), 7);
    assert_eq!(
        counted(&metrics, "messaging.process.duration", "process"),
        7
    );
    assert_eq!(
        counted(&metrics, operations, "enqueue"),
        6,
        "one for both of a batch"
    );
    assert_eq!(
        counted(&metrics, operations, "done"),
        of("done").len() as u64
    );

    // As one trace, if that is wanted.
    texts.enqueue_with(&text, with_id("child")).await.unwrap();
    let worker = quick(&url, &name)
        .continue_traces()
        .build(|_: Message<String>| async {})
        .unwrap();
    eventually("it is handled", async || worker.stats().finished == 1).await;
    assert!(worker.stop(S(10)).await.is_clean());
    let sent = spans(&exporter, "enqueue", "child").remove(0);
    let child = spans(&exporter, "process", "child").remove(0);
    assert_eq!(child.span_context.trace_id(), sent.span_context.trace_id());
    assert_eq!(child.parent_span_id, sent.span_context.span_id());
    assert!(child.links.is_empty());

    texts
        .set_limits(&LimitChanges::new().length(1))
        .await
        .unwrap();
    texts.enqueue_with(&text, with_id("last")).await.unwrap();
    assert!(texts.enqueue_with(&text, with_id("refused")).await.is_err());
    let all = exporter.get_finished_spans().unwrap();
    let failed = all.last().unwrap();
    assert_eq!(value(failed, "error.type").as_deref(), Some("FULL"));
}
