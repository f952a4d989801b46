//! Metrics of OpenTelemetry, by its conventions for messaging.
//!
//! Instruments are asked for anew each time: a program may set its provider after the first queue
//! was made, and what was asked for before counts nothing, for ever. The provider knows them by
//! their names.

use std::time::Duration;

use opentelemetry::{global, KeyValue};

use super::spans::SCOPE;

/// One call of a producer, one reply with messages, or one step of answers: how many messages it
/// was about, and how long the server took.
pub(super) fn operation(
    attributes: &[KeyValue],
    counted: Option<&'static str>,
    count: usize,
    took: Duration,
) {
    let meter = global::meter(SCOPE);
    if let Some(name) = counted {
        let counter = meter.u64_counter(name).with_unit("{message}").build();
        counter.add(count as u64, attributes);
    }
    let duration = meter
        .f64_histogram("messaging.client.operation.duration")
        .with_unit("s")
        .build();
    duration.record(took.as_secs_f64(), attributes);
}

/// One message was handled.
pub(super) fn processed(attributes: &[KeyValue], took: Duration) {
    let duration = global::meter(SCOPE)
        .f64_histogram("messaging.process.duration")
        .with_unit("s")
        .build();
    duration.record(took.as_secs_f64(), attributes);
}
