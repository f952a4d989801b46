//! Replies as values with names.

use std::collections::BTreeMap;

use redis_mq_testkit::{ReplyExt, Value};

/// The words of a command line as arguments.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    line.split_ascii_whitespace()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// One hand-over of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The queue, if its name stands in front.
    pub queue: Option<String>,
    /// The message's id.
    pub id: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// How often it was handed over.
    pub attempt: i64,
    /// Names this delivery.
    pub token: i64,
    /// How long it is locked, in milliseconds.
    pub lock_ms: i64,
    /// When it was accepted, in Unix milliseconds.
    pub enqueued_at: i64,
    /// What else there is to tell of it, by name; empty for a plain message.
    pub more: BTreeMap<String, Vec<u8>>,
}

impl Delivery {
    /// Reads one delivery; the contract allows more fields after the six.
    #[track_caller]
    pub fn read(value: &Value) -> Self {
        let mut fields = value.items();
        let mut queue = None;
        if let [name, rest @ ..] = fields {
            // Else the third is the number of the attempt.
            if matches!(rest.get(1), Some(Value::BulkString(_))) {
                (queue, fields) = (Some(name.text()), rest);
            }
        }
        assert!(fields.len() >= 6, "not a delivery: {value:?}");
        Self {
            queue,
            id: fields[0].bytes().to_vec(),
            payload: fields[1].bytes().to_vec(),
            attempt: fields[2].int(),
            token: fields[3].int(),
            lock_ms: fields[4].int(),
            enqueued_at: fields[5].int(),
            more: fields.get(6).map(more).unwrap_or_default(),
        }
    }

    /// The same of a message that may follow a batch: what is told of that is left to others.
    #[track_caller]
    pub fn plain(value: &Value) -> Self {
        let plain = value.items().iter().take(6).cloned().collect();
        Self::read(&Value::Array(plain))
    }

    /// The id as text.
    pub fn id(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }

    /// The instant that its schedule meant, if it has one.
    pub fn scheduled_at(&self) -> Option<i64> {
        let text = String::from_utf8_lossy(self.more.get("scheduled-at")?);
        Some(text.parse().expect("an instant"))
    }

    /// The payload as text.
    pub fn payload(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

#[track_caller]
fn more(value: &Value) -> BTreeMap<String, Vec<u8>> {
    let fields = value.fields();
    assert!(!fields.is_empty(), "a seventh element that tells nothing");
    fields
        .into_iter()
        .map(|(name, value)| {
            let told = match value {
                Value::Int(number) => number.to_string().into_bytes(),
                other => other.bytes().to_vec(),
            };
            (name, told)
        })
        .collect()
}

/// The ids of some deliveries as text, in their order.
pub fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(Delivery::id).collect()
}

/// A reply that is a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields(pub BTreeMap<String, Value>);

impl Fields {
    /// The field of that name.
    #[track_caller]
    pub fn field(&self, name: &str) -> &Value {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("no field {name} in {:?}", self.0))
    }

    /// An integer.
    #[track_caller]
    pub fn int(&self, name: &str) -> i64 {
        match self.field(name) {
            Value::Int(number) => *number,
            other => panic!("{name} is not an integer: {other:?}"),
        }
    }

    /// A string as text, or none if it is null.
    #[track_caller]
    pub fn text(&self, name: &str) -> Option<String> {
        let value = self.field(name);
        (!value.is_nil()).then(|| value.text())
    }
}
