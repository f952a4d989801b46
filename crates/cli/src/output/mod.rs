//! What people and programs read.

pub mod ask;
pub mod payload;
pub mod summary;
pub mod table;

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use base64::{prelude::BASE64_STANDARD, Engine as _};
use redis_mq_client::redis::Value;
use serde_json::{Map, Value as Json};

use crate::{failure::Failure, reply};

/// For what is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// For names of fields and columns.
pub const DIM: Style = Style::new().dimmed();

/// Standard output, with colour where it is a terminal that wants it.
pub struct Out(anstream::AutoStream<io::Stdout>);

impl Out {
    /// Opens it.
    pub fn new() -> Self {
        Self(anstream::AutoStream::auto(io::stdout()))
    }

    /// Writes one line.
    pub fn line(&mut self, line: impl std::fmt::Display) -> Result<(), Failure> {
        Ok(writeln!(self.0, "{line}")?)
    }
}

/// Names and ids as text, with what could harm a terminal escaped.
pub fn name(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return bytes.escape_ascii().to_string();
    };
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => safe.extend(letter.escape_default()),
            false => safe.push(letter),
        }
    }
    safe
}

/// Puts bytes into an object: as text under `name` if they are text, else under `name-base64`.
pub fn put_bytes(object: &mut Map<String, Json>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(
            format!("{name}-base64"),
            BASE64_STANDARD.encode(bytes).into(),
        ),
    };
}

/// Puts a field of a reply into an object.
pub fn put_value(object: &mut Map<String, Json>, name: &str, value: &Value) {
    match reply::bytes(value) {
        Some(bytes) => put_bytes(object, name, bytes),
        None => {
            object.insert(name.into(), as_json(value));
        }
    }
}

fn as_json(value: &Value) -> Json {
    match (value, reply::bytes(value)) {
        (_, Some(bytes)) => name(bytes).into(),
        (Value::Nil, _) => Json::Null,
        (Value::Int(number), _) => (*number).into(),
        (Value::Double(number), _) => (*number).into(),
        (Value::Boolean(flag), _) => (*flag).into(),
        (Value::Array(items) | Value::Set(items), _) => items.iter().map(as_json).collect(),
        (other, _) => format!("{other:?}").into(),
    }
}

/// A value of a reply in one line.
pub fn one_line(value: &Value) -> String {
    match (value, reply::bytes(value)) {
        (_, Some(bytes)) => name(bytes),
        (Value::Nil, _) => "-".into(),
        (other, _) => as_json(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_write_elsewhere_on_a_terminal() {
        assert_eq!(name("order:42-é".as_bytes()), "order:42-é");
        assert_eq!(name(b"a\x1b[2J\n"), "a\\u{1b}[2J\\n");
        assert_eq!(name(b"\xffa"), "\\xffa");
    }

    #[test]
    fn bytes_that_are_no_text_are_base64_under_another_name() {
        let mut object = Map::new();
        put_bytes(&mut object, "id", b"a");
        put_bytes(&mut object, "payload", &[0xff]);
        let written = Json::Object(object).to_string();
        assert_eq!(written, r#"{"id":"a","payload-base64":"/w=="}"#);
    }
}
