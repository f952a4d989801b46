//! Reading replies, in RESP2 and RESP3 alike.

use redis_mq_client::redis::Value;

/// The bytes of a string of any kind.
pub fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}

/// The text of a string of any kind, with what is no UTF-8 replaced.
pub fn text(value: &Value) -> Option<String> {
    bytes(value).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// An integer, also one that is sent as text.
pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Boolean(flag) => Some(i64::from(*flag)),
        other => std::str::from_utf8(bytes(other)?).ok()?.parse().ok(),
    }
}

/// An integer of 0 and more.
pub fn unsigned(value: &Value) -> Option<u64> {
    int(value)?.try_into().ok()
}

/// The elements of an array of any kind.
pub fn items(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(items) | Value::Set(items) => Some(items),
        _ => None,
    }
}

/// A map by names, in the order in which it came, whichever protocol it came by.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, Value)>);

impl Fields {
    /// The fields of a map; none if the value is no map.
    pub fn read(value: &Value) -> Option<Self> {
        let pair = |name: &Value, value: &Value| Some((text(name)?, value.clone()));
        let pairs = match value {
            Value::Map(pairs) => pairs
                .iter()
                .map(|(name, value)| pair(name, value))
                .collect(),
            Value::Array(flat) if flat.len() % 2 == 0 => {
                flat.chunks(2).map(|two| pair(&two[0], &two[1])).collect()
            }
            _ => None,
        };
        pairs.map(Self)
    }

    /// A field that another reply has told.
    pub fn push(&mut self, name: &str, value: Value) {
        self.0.push((name.to_owned(), value));
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of that name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value)
    }

    /// The integer of that name, 0 if this server does not tell it.
    pub fn count(&self, name: &str) -> u64 {
        self.value(name).and_then(unsigned).unwrap_or(0)
    }

    /// The bytes of that name.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        bytes(self.value(name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_both_protocols_are_read_alike() {
        let name = || Value::BulkString(b"dead".to_vec());
        for map in [
            Value::Map(vec![(name(), Value::Int(7))]),
            Value::Array(vec![name(), Value::Int(7)]),
        ] {
            let fields = Fields::read(&map).unwrap();
            assert_eq!((fields.count("dead"), fields.count("other")), (7, 0));
        }
        assert!(Fields::read(&Value::Array(vec![name()])).is_none());
    }
}
