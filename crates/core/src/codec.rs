//! How numbers and byte strings are written in effects and snapshots.
//!
//! Numbers are LEB128: seven bits a byte, lowest first, the top bit set on all but the last. Byte
//! strings are their length as such a number, then the bytes.

/// Bytes that are not what they should be. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(
    /// What was wrong, for the operator's log; no bytes of the input.
    pub &'static str,
);

impl std::fmt::Display for Damaged {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Damaged {}

#[inline]
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote, whatever the bytes: it never panics and never allocates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.rest.split_first().ok_or(Damaged("cut short"))?;
        self.rest = rest;
        Ok(*first)
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Damaged("cut short"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn number(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return Err(Damaged("a number is too large"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged("a number is too long"))
    }

    /// A number of at most `max`.
    pub fn number_to(&mut self, max: u64) -> Result<u64, Damaged> {
        match self.number()? {
            value if value <= max => Ok(value),
            _ => Err(Damaged("a number is out of range")),
        }
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.number()?;
        // Longer than the address space is longer than what is there.
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for bits in 0..64 {
            for value in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1, u64::MAX] {
                let mut out = Vec::new();
                put_number(&mut out, value);
                let mut reader = Reader::new(&out);
                assert_eq!(reader.number(), Ok(value));
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn damaged_bytes_are_errors() {
        assert!(Reader::new(&[0x80]).number().is_err());
        assert!(Reader::new(&[0xFF; 11]).number().is_err());
        let past_64_bits = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02];
        assert!(Reader::new(&past_64_bits).number().is_err());
        let longer_than_there_is = [
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 7,
        ];
        assert!(Reader::new(&longer_than_there_is).bytes().is_err());
    }
}
