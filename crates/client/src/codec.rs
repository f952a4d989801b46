//! How values become payloads and back.

use serde::{de::DeserializeOwned, Serialize};

use crate::error::CodecError;

/// Writes values of type `T` as payloads.
pub trait Encode<T: ?Sized> {
    /// The payload for `value`.
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError>;
}

/// Reads values of type `T` from payloads.
pub trait Decode<T> {
    /// The value in `payload`. An error here is the fault of the message, not of the connection:
    /// by default such a message goes to the dead letters.
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError>;
}

/// MessagePack with named fields: compact, and fields may be added or reordered later. The default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessagePack;

impl<T: Serialize + ?Sized> Encode<T> for MessagePack {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        rmp_serde::to_vec_named(value).map_err(CodecError::new)
    }
}

impl<T: DeserializeOwned> Decode<T> for MessagePack {
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError> {
        rmp_serde::from_slice(payload).map_err(CodecError::new)
    }
}

/// JSON: readable in `redis-cli` and by everyone.
#[cfg(feature = "json")]
#[cfg_attr(docsrs, doc(cfg(feature = "json")))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json;

#[cfg(feature = "json")]
impl<T: Serialize + ?Sized> Encode<T> for Json {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        serde_json::to_vec(value).map_err(CodecError::new)
    }
}

#[cfg(feature = "json")]
impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError> {
        serde_json::from_slice(payload).map_err(CodecError::new)
    }
}

/// The payload as it is: bytes, or text that has to be UTF-8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raw;

impl<T: AsRef<[u8]> + ?Sized> Encode<T> for Raw {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        Ok(value.as_ref().to_vec())
    }
}

impl Decode<Vec<u8>> for Raw {
    fn decode(&self, payload: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(payload.to_vec())
    }
}

impl Decode<String> for Raw {
    fn decode(&self, payload: &[u8]) -> Result<String, CodecError> {
        std::str::from_utf8(payload)
            .map(str::to_owned)
            .map_err(CodecError::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Order {
        number: u64,
        note: Option<String>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct OrderOfNextYear {
        #[serde(default)]
        express: bool,
        note: Option<String>,
        number: u64,
    }

    #[test]
    fn message_pack_round_trips_and_tolerates_new_and_moved_fields() {
        let order = Order {
            number: 42,
            note: Some("é".into()),
        };
        let payload = MessagePack.encode(&order).unwrap();
        assert_eq!(
            Decode::<Order>::decode(&MessagePack, &payload).unwrap(),
            order
        );
        let newer: OrderOfNextYear = MessagePack.decode(&payload).unwrap();
        assert_eq!(
            newer,
            OrderOfNextYear {
                express: false,
                note: Some("é".into()),
                number: 42
            }
        );
    }

    #[test]
    fn damaged_message_pack_is_an_error() {
        let payload = MessagePack
            .encode(&Order {
                number: 1,
                note: None,
            })
            .unwrap();
        for cut in 0..payload.len() {
            assert!(
                Decode::<Order>::decode(&MessagePack, &payload[..cut]).is_err(),
                "cut {cut}"
            );
        }
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_round_trips() {
        let order = Order {
            number: 7,
            note: None,
        };
        let payload = Json.encode(&order).unwrap();
        assert_eq!(payload, br#"{"number":7,"note":null}"#);
        assert_eq!(Decode::<Order>::decode(&Json, &payload).unwrap(), order);
    }

    #[test]
    fn raw_keeps_the_bytes_and_refuses_text_that_is_none() {
        let bytes: &[u8] = &[0, 0xff, b'\r', b'\n'];
        let payload = Raw.encode(bytes).unwrap();
        assert_eq!(Decode::<Vec<u8>>::decode(&Raw, &payload).unwrap(), bytes);
        assert!(Decode::<String>::decode(&Raw, &payload).is_err());
        assert_eq!(Decode::<String>::decode(&Raw, b"text").unwrap(), "text");
    }
}
