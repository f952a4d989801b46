//! How values become payloads and back.

use serde::{de::DeserializeOwned, Serialize};

use crate::error::CodecError;

/// Writes values of type `T` as payloads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot write values of type `{T}`",
    note = "`MessagePack` and `Json` write what implements `serde::Serialize`; `Raw` writes bytes and text"
)]
pub trait Encode<T: ?Sized> {
    /// The payload for `value`.
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError>;
}

/// Reads values of type `T` from payloads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot read values of type `{T}`",
    note = "`MessagePack` and `Json` read what implements `serde::Deserialize` and borrows nothing; \
            `Raw` reads `Vec<u8>` and `String`"
)]
pub trait Decode<T> {
    /// The value in `payload`. An error here is the fault of the message, not of the connection:
    /// by default such a message goes to the dead letters, and is tried again if it is an
    /// [unknown variant](CodecError::unknown_variant).
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
        rmp_serde::from_slice(payload).map_err(read_error)
    }
}

/// An error of a serde format. They have one form of words for a variant that is unknown, that of
/// `serde::de::Error::unknown_variant`, and no other sign of it.
fn read_error(error: impl std::error::Error + Send + Sync + 'static) -> CodecError {
    if error.to_string().starts_with("unknown variant `") {
        CodecError::unknown_variant(error)
    } else {
        CodecError::new(error)
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
        serde_json::from_slice(payload).map_err(read_error)
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

    #[derive(Debug, Serialize, Deserialize)]
    enum Job {
        Mail { to: String },
        Sweep,
    }

    #[derive(Debug, Serialize)]
    enum JobOfNextYear {
        Call { number: u64 },
        Rest,
        Sweep(u64),
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Envelope<J> {
        job: J,
    }

    /// Whether a reader of today takes what next year's writer wrote for a variant it does not know.
    fn is_unknown<C>(codec: C, job: JobOfNextYear) -> bool
    where
        C: Encode<Envelope<JobOfNextYear>> + Decode<Envelope<Job>>,
    {
        let payload = codec.encode(&Envelope { job }).unwrap();
        codec.decode(&payload).unwrap_err().is_unknown_variant()
    }

    #[test]
    fn a_variant_of_a_newer_producer_is_told_from_damage() {
        assert!(is_unknown(MessagePack, JobOfNextYear::Call { number: 1 }));
        assert!(is_unknown(MessagePack, JobOfNextYear::Rest));
        assert!(!is_unknown(MessagePack, JobOfNextYear::Sweep(1)));
        #[cfg(feature = "json")]
        {
            assert!(is_unknown(Json, JobOfNextYear::Call { number: 1 }));
            assert!(is_unknown(Json, JobOfNextYear::Rest));
            assert!(!is_unknown(Json, JobOfNextYear::Sweep(1)));
        }
        let known = MessagePack.encode(&Job::Mail { to: "a".into() }).unwrap();
        assert!(matches!(MessagePack.decode(&known), Ok(Job::Mail { to }) if to == "a"));
        let known = MessagePack.encode(&Job::Sweep).unwrap();
        assert!(matches!(MessagePack.decode(&known), Ok(Job::Sweep)));
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
