//! Replies as the server gave them.

use std::collections::BTreeMap;

use redis::{Connection, RedisError, Value};

/// A reply: the value, or the text of the error as the server sent it (`STALE the token …`).
pub type Reply = Result<Value, String>;

/// Sends one command and gives its [`Reply`]: `call!(conn, "MQ.STATUS", "orders", id)`.
///
/// Arguments are whatever the redis crate can send: text, bytes, numbers, slices of them.
#[macro_export]
macro_rules! call {
    ($conn:expr, $name:expr $(, $arg:expr)* $(,)?) => {{
        #[allow(unused_mut)]
        let mut command = $crate::redis::cmd($name);
        $(command.arg($arg);)*
        command
            .query::<$crate::Value>(&mut $conn)
            .map_err(|error| $crate::error_text(&error))
    }};
}

/// The error as the server sent it, or the crate's own text if no server did (a cut connection).
pub fn error_text(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_string(),
        _ => error.to_string(),
    }
}

/// Reading a [`Value`] that must have a certain shape, in RESP2 and RESP3 alike. Every method panics
/// with the value if it has another.
pub trait ReplyExt {
    /// An integer.
    fn int(&self) -> i64;
    /// Bytes of a bulk string.
    fn bytes(&self) -> &[u8];
    /// A simple or bulk string as text.
    fn text(&self) -> String;
    /// The elements of an array.
    fn items(&self) -> &[Value];
    /// The fields of a map, also of one that RESP2 sends as a flat array.
    fn fields(&self) -> BTreeMap<String, Value>;
    /// Whether it is null, of whatever protocol.
    fn is_nil(&self) -> bool;
}

impl ReplyExt for Value {
    #[track_caller]
    fn int(&self) -> i64 {
        match self {
            Value::Int(number) => *number,
            other => panic!("not an integer: {other:?}"),
        }
    }

    #[track_caller]
    fn bytes(&self) -> &[u8] {
        match self {
            Value::BulkString(bytes) => bytes,
            other => panic!("not a bulk string: {other:?}"),
        }
    }

    #[track_caller]
    fn text(&self) -> String {
        match self {
            Value::SimpleString(text) => text.clone(),
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::VerbatimString { text, .. } => text.clone(),
            Value::Okay => "OK".to_string(),
            other => panic!("not a string: {other:?}"),
        }
    }

    #[track_caller]
    fn items(&self) -> &[Value] {
        match self {
            Value::Array(items) | Value::Set(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }

    #[track_caller]
    fn fields(&self) -> BTreeMap<String, Value> {
        let pair = |(name, value): (&Value, &Value)| (name.text(), value.clone());
        match self {
            Value::Map(pairs) => pairs
                .iter()
                .map(|(name, value)| pair((name, value)))
                .collect(),
            Value::Array(flat) if flat.len() % 2 == 0 => {
                flat.chunks(2).map(|two| pair((&two[0], &two[1]))).collect()
            }
            other => panic!("not a map: {other:?}"),
        }
    }

    fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }
}

/// The server's own digest of one key: equal digests mean equal content.
///
/// # Panics
///
/// If the server refuses DEBUG; the kit's servers allow it.
#[track_caller]
pub fn digest(conn: &mut Connection, key: impl AsRef<[u8]>) -> String {
    match call!(*conn, "DEBUG", "DIGEST-VALUE", key.as_ref()) {
        Ok(reply) => reply.items()[0].text(),
        Err(error) => panic!("DEBUG DIGEST-VALUE: {error}"),
    }
}
