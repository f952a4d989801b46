//! Message ids.

use std::fmt;

/// The id of a message: 1 to 512 bytes, any bytes.
///
/// Shown with control characters and bytes that are no UTF-8 escaped, so that it is safe to log.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Box<[u8]>);

impl MessageId {
    /// The id's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id as text, if it is UTF-8. Ids that the server made always are.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The id's bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_vec()
    }
}

impl From<Vec<u8>> for MessageId {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into_boxed_slice())
    }
}

impl From<String> for MessageId {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

impl From<&str> for MessageId {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<&String> for MessageId {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&[u8]> for MessageId {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<&MessageId> for MessageId {
    fn from(id: &MessageId) -> Self {
        id.clone()
    }
}

impl AsRef<[u8]> for MessageId {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for MessageId {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for MessageId {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_bytes(&self.0, f)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// Writes bytes so that they are readable where they are text, and harmless where they are not.
pub(crate) fn show_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match std::str::from_utf8(bytes) {
        Ok(text) => write!(f, "{}", text.escape_debug()),
        Err(_) => write!(f, "{}", bytes.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::MessageId;

    #[test]
    fn text_is_shown_as_it_is() {
        assert_eq!(MessageId::from("order:42-é").to_string(), "order:42-é");
    }

    #[test]
    fn control_characters_and_raw_bytes_are_escaped() {
        assert_eq!(MessageId::from("a\nb").to_string(), "a\\nb");
        assert_eq!(MessageId::from(vec![0xff, b'a']).to_string(), "\\xffa");
    }
}
