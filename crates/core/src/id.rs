//! Message ids: what a client wrote, and the 16 bytes of a UUID that stand for its 36 letters.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use uuid::Uuid;

/// The longest id, in bytes.
pub const MAX_ID_BYTES: usize = 512;

/// Length of a UUID as text.
const UUID_TEXT: usize = 36;
/// Length of a UUID in memory.
const UUID_BYTES: usize = 16;

/// An id in the form it is stored and compared in.
///
/// A text that is a UUID exactly as this crate writes one (lower case, with hyphens) is held as its
/// 16 bytes. The two forms of one id are never both in use, so equal ids have equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    Uuid([u8; UUID_BYTES]),
    Bytes(&'a [u8]),
}

impl<'a> Key<'a> {
    /// The key of the id that a client wrote as `text`.
    #[inline]
    pub fn of(text: &'a [u8]) -> Self {
        if text.len() == UUID_TEXT {
            if let Some(bytes) = parse_uuid(text) {
                return Self::Uuid(bytes);
            }
        }
        Self::Bytes(text)
    }

    /// The bytes that are stored.
    #[inline]
    pub fn stored(&self) -> &[u8] {
        match self {
            Self::Uuid(bytes) => bytes,
            Self::Bytes(bytes) => bytes,
        }
    }

    #[inline]
    pub fn is_uuid(&self) -> bool {
        matches!(self, Self::Uuid(_))
    }
}

/// How many of a UUID's last bits are drawn; the number fills the rest behind the milliseconds.
const RANDOM_BITS: u32 = 42;

/// A UUIDv7 (RFC 9562, counter in front of the random bits): the milliseconds, the 32 bits of
/// `number`, so that ids sort in the order they were made, and 42 bits drawn from `seed` and `number`.
#[inline]
pub(crate) fn uuid_v7(ms: u64, seed: u64, number: u32) -> [u8; UUID_BYTES] {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014): each number gives other bits.
    let mut random = seed.wrapping_add(u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    random = (random ^ (random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    random = (random ^ (random >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    random ^= random >> 31;
    let number = u64::from(number);
    let high = ms << 16 | 0x7000 | number >> 20;
    let low = 1 << 63 | (number & 0xF_FFFF) << RANDOM_BITS | random >> (u64::BITS - RANDOM_BITS);
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// The number in a UUID made by [`uuid_v7`]; of other UUIDs just some bits.
#[inline]
pub(crate) fn uuid_number(bytes: [u8; UUID_BYTES]) -> u32 {
    let bits = u128::from_be_bytes(bytes);
    let (high, low) = (
        (bits >> 64) as u32 & 0xFFF,
        (bits as u64) >> RANDOM_BITS & 0xF_FFFF,
    );
    high << 20 | low as u32
}

/// The Unix milliseconds in a UUIDv7; of other UUIDs just a number.
#[inline]
pub(crate) fn uuid_millis(bytes: &[u8]) -> u64 {
    bytes[..6]
        .iter()
        .fold(0, |ms, byte| ms << 8 | u64::from(*byte))
}

/// A hash of bytes that is hard to aim at.
#[inline]
pub(crate) fn hash_bytes(state: &FixedState, bytes: &[u8]) -> u32 {
    let mut hasher = state.build_hasher();
    hasher.write(bytes);
    let hash = hasher.finish();
    (hash >> 32) as u32 ^ hash as u32
}

/// An id as clients read it.
#[derive(Clone, Copy)]
pub struct IdText<'a> {
    key: Key<'a>,
    text: [u8; UUID_TEXT],
}

impl<'a> IdText<'a> {
    #[inline]
    pub(crate) fn new(key: Key<'a>) -> Self {
        let mut text = [0; UUID_TEXT];
        if let Key::Uuid(bytes) = key {
            Uuid::from_bytes(bytes).hyphenated().encode_lower(&mut text);
        }
        Self { key, text }
    }

    /// The bytes that a client gave as the id, or the text of the UUID that the queue made.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.key {
            Key::Uuid(_) => &self.text,
            Key::Bytes(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for IdText<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// The UUID that `text` is the canonical writing of. The uuid crate's own parser takes more forms
/// (upper case, braces) that would then name the same id.
#[inline]
fn parse_uuid(text: &[u8]) -> Option<[u8; UUID_BYTES]> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    if HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut bytes = [0; UUID_BYTES];
    let mut bad = 0;
    let starts = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    for (byte, at) in bytes.iter_mut().zip(starts) {
        let (high, low) = (HEX[text[at] as usize], HEX[text[at + 1] as usize]);
        bad |= high | low;
        *byte = high << 4 | low & 0x0F;
    }
    (bad & 0xF0 == 0).then_some(bytes)
}

/// The value of each lower-case hexadecimal digit; 0xFF for all other bytes.
static HEX: [u8; 256] = {
    let mut table = [0xFF; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_text_is_a_uuid() {
        let text = b"0190163d-8694-739b-aea5-966c26f8ad91";
        let key = Key::of(text);
        assert!(key.is_uuid());
        assert_eq!(IdText::new(key).bytes(), text);
        let others: [&[u8]; 5] = [
            b"0190163D-8694-739B-AEA5-966C26F8AD91",
            b"0190163d-8694-739b-aea5-966c26f8ad9g",
            b"0190163d_8694-739b-aea5-966c26f8ad91",
            b"{190163d-8694-739b-aea5-966c26f8ad9}",
            b"0190163d8694739baea5966c26f8ad91",
        ];
        for other in others {
            assert_eq!(Key::of(other), Key::Bytes(other));
            assert_eq!(IdText::new(Key::of(other)).bytes(), other);
        }
    }

    #[test]
    fn made_ids_are_version_7_sorted_and_carry_their_time() {
        let numbers = (0..5000).chain(u32::MAX - 5000..=u32::MAX);
        let made: Vec<_> = numbers
            .clone()
            .map(|n| uuid_v7(1_700_000_000_123, 42, n))
            .collect();
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
        for (bytes, number) in made.iter().zip(numbers) {
            assert_eq!(uuid_number(*bytes), number);
            let uuid = Uuid::from_bytes(*bytes);
            assert_eq!(uuid.get_version_num(), 7);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
            assert_eq!(uuid_millis(bytes), 1_700_000_000_123);
        }
        let other_seed = uuid_v7(1_700_000_000_123, 43, 0);
        assert!(!made.contains(&other_seed));
    }
}
