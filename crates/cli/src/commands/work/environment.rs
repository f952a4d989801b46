//! What a command learns about its message beside the payload.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

use super::taking::Delivery;

/// The variables, and their values if the message has them.
pub fn variables(queue: &str, delivery: &Delivery) -> Vec<(&'static str, Option<OsString>)> {
    let headers = Headers::read(delivery.headers.as_deref().unwrap_or_default());
    let number = |number: i64| Some(OsString::from(number.to_string()));
    let bytes = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(value);
    vec![
        ("MQ_QUEUE", Some(value(queue.as_bytes()))),
        ("MQ_ID", Some(value(&delivery.id))),
        ("MQ_ATTEMPT", number(delivery.attempt)),
        ("MQ_TOKEN", number(delivery.token)),
        ("MQ_ENQUEUED_AT", number(delivery.enqueued_at)),
        ("MQ_GROUP", bytes(&delivery.group)),
        ("MQ_SCHEDULED_AT", bytes(&delivery.scheduled_at)),
        ("MQ_HEADERS", headers.rest.as_deref().map(value)),
        ("TRACEPARENT", headers.traceparent.map(value)),
        ("TRACESTATE", headers.tracestate.map(value)),
        ("BAGGAGE", headers.baggage.map(value)),
    ]
}

/// A variable cannot hold a NUL, which is written as `\0` then.
fn value(bytes: &[u8]) -> OsString {
    if !bytes.contains(&0) {
        return OsString::from_vec(bytes.to_vec());
    }
    let pieces: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    OsString::from_vec(pieces.join(&b"\\0"[..]))
}

/// Lines `name: value`, those with a variable of their own apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Headers<'a> {
    traceparent: Option<&'a [u8]>,
    tracestate: Option<&'a [u8]>,
    baggage: Option<&'a [u8]>,
    rest: Option<Vec<u8>>,
}

impl<'a> Headers<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut headers = Self::default();
        let mut rest: Vec<&[u8]> = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let (name, value) = match line.iter().position(|byte| *byte == b':') {
                Some(at) => (&line[..at], line[at + 1..].trim_ascii()),
                None => (line, &b""[..]),
            };
            match name {
                b"traceparent" => headers.traceparent = Some(value),
                b"tracestate" => headers.tracestate = Some(value),
                b"baggage" => headers.baggage = Some(value),
                _ if line.is_empty() => {}
                _ => rest.push(line),
            }
        }
        headers.rest = (!rest.is_empty()).then(|| rest.join(&b'\n'));
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_tracing_have_variables_of_their_own() {
        let headers = Headers::read(b"a: b\ntraceparent: 00-1-2-01\nbaggage:x=1\nno colon\n");
        assert_eq!(
            headers,
            Headers {
                traceparent: Some(b"00-1-2-01"),
                tracestate: None,
                baggage: Some(b"x=1"),
                rest: Some(b"a: b\nno colon".to_vec()),
            }
        );
        assert_eq!(Headers::read(b""), Headers::default());
    }

    #[test]
    fn a_nul_does_not_end_a_variable() {
        assert_eq!(value(b"a\0b"), "a\\0b");
        assert_eq!(value(b"\xff").into_vec(), b"\xff");
    }
}
