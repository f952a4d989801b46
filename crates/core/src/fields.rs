//! What version 2 adds to a header, a message or an effect: numbered fields, so that later ones need
//! no third version.
//!
//! A field is its number, its length and its bytes; the numbers rise, and 0 ends them. A reader that
//! does not know an odd one passes over it; an even one it must know (docs/format.md).

use crate::codec::{put_bytes, put_number, Damaged, Reader};

const END: u64 = 0;

/// Writes a field whose value is these bytes.
pub(crate) fn put_field(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    put_number(out, field);
    put_bytes(out, value);
}

/// Writes a field whose value is these numbers.
pub(crate) fn put_numbers(out: &mut Vec<u8>, field: u64, numbers: &[u64]) {
    let mut value = Vec::with_capacity(8 * numbers.len());
    for number in numbers {
        put_number(&mut value, *number);
    }
    put_field(out, field, &value);
}

/// Ends a sequence of fields.
pub(crate) fn end_fields(out: &mut Vec<u8>) {
    put_number(out, END);
}

/// One field that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub number: u64,
    value: &'a [u8],
}

impl<'a> Field<'a> {
    /// The value as it is.
    pub fn bytes(self) -> &'a [u8] {
        self.value
    }

    /// The value as `read` understands it, which must take all of it.
    pub fn read<T>(
        self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Damaged>,
    ) -> Result<T, Damaged> {
        let mut reader = Reader::new(self.value);
        let value = read(&mut reader)?;
        if reader.is_empty() {
            Ok(value)
        } else {
            Err(Damaged("bytes behind the value of a field"))
        }
    }

    /// What to do with a field that nobody knows.
    pub fn pass_over(self) -> Result<(), Damaged> {
        if self.number % 2 == 1 {
            Ok(())
        } else {
            Err(Damaged("a field of a later version"))
        }
    }
}

/// Reads fields up to their end and gives each to `take`.
pub(crate) fn read_fields<'a>(
    reader: &mut Reader<'a>,
    mut take: impl FnMut(Field<'a>) -> Result<(), Damaged>,
) -> Result<(), Damaged> {
    let mut last = END;
    loop {
        let number = reader.number()?;
        if number == END {
            return Ok(());
        }
        if number <= last {
            return Err(Damaged("fields that are not in their order"));
        }
        last = number;
        let value = reader.bytes()?;
        take(Field { number, value })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, Damaged> {
        let (mut reader, mut fields) = (Reader::new(bytes), Vec::new());
        read_fields(&mut reader, |field| {
            fields.push((field.number, field.bytes().to_vec()));
            Ok(())
        })?;
        assert!(reader.is_empty());
        Ok(fields)
    }

    #[test]
    fn fields_come_back() {
        let mut out = Vec::new();
        put_field(&mut out, 2, b"value");
        put_numbers(&mut out, 300, &[1, 128]);
        end_fields(&mut out);
        let expected = vec![(2, b"value".to_vec()), (300, vec![1, 0x80, 1])];
        assert_eq!(read(&out), Ok(expected));
        assert!(read(&out[..out.len() - 1]).is_err(), "without an end");
    }

    #[test]
    fn fields_twice_or_out_of_order_are_refused() {
        for numbers in [[2, 2], [4, 2]] {
            let mut out = Vec::new();
            for number in numbers {
                put_field(&mut out, number, b"");
            }
            end_fields(&mut out);
            assert!(read(&out).is_err(), "{numbers:?}");
        }
    }

    #[test]
    fn an_unknown_field_is_passed_over_only_if_it_is_odd() {
        let field = |number| Field { number, value: b"" };
        assert!(field(7).pass_over().is_ok());
        assert!(field(8).pass_over().is_err());
    }

    #[test]
    fn a_value_is_read_to_its_end() {
        let value: &[u8] = &[5, 6];
        let field = Field { number: 2, value };
        assert!(field.read(Reader::number).is_err());
        assert_eq!(
            field.read(|reader| Ok((reader.number()?, reader.number()?))),
            Ok((5, 6))
        );
    }
}
