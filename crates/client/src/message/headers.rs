//! What goes with a message beside its payload.

use std::fmt;

use super::id::show_bytes;

/// The headers of a message: 1 to 4096 bytes that its consumer gets beside the payload.
///
/// The server keeps any bytes. By convention they are lines `name: value` in UTF-8 with names in
/// lower case, so that programs in other languages can read them, and that is what the methods
/// here write and read.
///
/// ```
/// use redis_mq_client::Headers;
///
/// let headers = Headers::new().with("tenant", "acme").with("version", "3");
/// assert_eq!(headers.as_bytes(), b"tenant: acme\nversion: 3\n");
/// assert_eq!(headers.get("version"), Some("3"));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Headers {
    bytes: Vec<u8>,
    /// A name or a value was none.
    malformed: bool,
}

impl Headers {
    /// No headers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// These, and one more line. A name is not empty, without colons and white space; neither name
    /// nor value has line breaks. A message with other ones is refused before it is sent.
    #[must_use]
    pub fn with(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let (name, value) = (name.as_ref(), value.as_ref());
        let strange = |c: char| c == ':' || c.is_whitespace() || c.is_control();
        self.malformed |= name.is_empty() || name.contains(strange) || value.contains(['\n', '\r']);
        if self.bytes.last().is_some_and(|last| *last != b'\n') {
            self.bytes.push(b'\n');
        }
        for part in [name, ": ", value, "\n"] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self
    }

    /// The bytes as they are kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of the first line with that name, without the space around it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find_map(|(n, value)| (n == name).then_some(value))
    }

    /// Names and values, line by line. What is no such line, or no UTF-8, is left out.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.bytes.split(|byte| *byte == b'\n').filter_map(|line| {
            let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
            Some((name.trim(), value.trim()))
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether they are lines by convention, and nothing else.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn is_lines(&self) -> bool {
        let is_line = |line: &[u8]| line.is_empty() || line.contains(&b':');
        std::str::from_utf8(&self.bytes).is_ok() && self.bytes.split(|b| *b == b'\n').all(is_line)
    }

    /// What is wrong with them, if anything is.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.malformed {
            return Some("a header needs a name without colons, and neither may have line breaks");
        }
        let fits = (1..=4_096).contains(&self.bytes.len());
        (!fits).then_some("have to be 1 to 4096 bytes long")
    }
}

impl From<Vec<u8>> for Headers {
    fn from(bytes: Vec<u8>) -> Self {
        let malformed = false;
        Self { bytes, malformed }
    }
}

impl From<&[u8]> for Headers {
    fn from(bytes: &[u8]) -> Self {
        Self::from(bytes.to_vec())
    }
}

impl From<&str> for Headers {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl From<&Headers> for Headers {
    fn from(headers: &Headers) -> Self {
        headers.clone()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Headers(")?;
        show_bytes(&self.bytes, f)?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_are_read() {
        let headers = Headers::from("a:1\r\nnonsense\nb :  two: words \n\na: 3");
        let lines: Vec<_> = headers.iter().collect();
        assert_eq!(lines, [("a", "1"), ("b", "two: words"), ("a", "3")]);
        assert_eq!((headers.get("a"), headers.get("c")), (Some("1"), None));
        assert_eq!(headers.with("c", "é").get("c"), Some("é"));
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_and_not_read() {
        let headers = Headers::from(vec![0xff, b':', b'x', b'\n', b'a', b':', b'1']);
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("a", "1")]);
        assert_eq!(headers.as_bytes().len(), 7);
    }

    #[test]
    fn what_would_be_another_line_is_refused() {
        for (name, value) in [
            ("a\nb", "c"),
            ("", "c"),
            ("a:", "c"),
            ("a b", ""),
            ("a", "b\nc: d"),
        ] {
            let headers = Headers::new().with(name, value);
            assert!(headers.problem().is_some(), "{name:?}: {value:?}");
        }
        assert!(Headers::new().problem().is_some());
        assert_eq!(Headers::from(vec![0; 4_096]).problem(), None);
        assert!(Headers::from(vec![0; 4_097]).problem().is_some());
    }
}
