//! Reading the arguments of a command: strictly, in one pass, without copying or allocating.

use redis_mq_core::{Status, MAX_GROUP_BYTES, MAX_NAME_BYTES};

use crate::error::Error;

/// The longest duration, in milliseconds: ten years.
pub const MAX_DURATION_MS: u64 = 315_360_000_000;
/// The latest instant that can be written, in Unix milliseconds. What is more than ten years away is
/// refused later, when the time of the command is known.
pub const MAX_INSTANT_MS: u64 = (1 << 48) - 1;
/// The longest id, in bytes.
pub const MAX_ID_LEN: usize = 512;

/// The most messages that one command adds or ends.
pub const MAX_BATCH: u64 = 10_000;

/// The most queues that one command takes messages from.
pub const MAX_QUEUES: u64 = 1000;

/// The arguments of a command, its name first.
pub trait ArgList<'a>: Copy {
    /// The argument at `index`.
    fn at(&self, index: usize) -> Option<&'a [u8]>;
}

impl<'a> ArgList<'a> for &'a [&'a [u8]] {
    fn at(&self, index: usize) -> Option<&'a [u8]> {
        self.get(index).copied()
    }
}

/// Where the reading stands.
pub struct Cursor<L> {
    args: L,
    next: usize,
}

impl<'a, L: ArgList<'a>> Cursor<L> {
    /// A cursor before the argument at `first`.
    #[inline]
    pub fn new(args: L, first: usize) -> Cursor<L> {
        Cursor { args, next: first }
    }

    /// The next argument, if there is one: an option's name, or nothing more to read.
    #[inline]
    pub fn word(&mut self) -> Option<&'a [u8]> {
        let word = self.args.at(self.next)?;
        self.next += 1;
        Some(word)
    }

    /// The next argument, which must be there.
    #[inline]
    pub fn value(&mut self) -> Result<&'a [u8], Error> {
        self.word().ok_or(Error::Syntax)
    }

    /// The next argument if it is `keyword`, in whatever case.
    #[inline]
    pub fn keyword(&mut self, keyword: &str) -> bool {
        let found = self
            .args
            .at(self.next)
            .is_some_and(|word| is(word, keyword));
        if found {
            self.next += 1;
        }
        found
    }

    /// A whole number within bounds. An error names `what`.
    #[inline]
    pub fn integer(&mut self, what: &'static str, min: u64, max: u64) -> Result<u64, Error> {
        digits(self.value()?)
            .filter(|n| (min..=max).contains(n))
            .ok_or(Error::OutOfRange { what, min, max })
    }

    /// A whole number from 0, or from `min`, to 2^32 - 1.
    #[inline]
    pub fn count(&mut self, what: &'static str, min: u32) -> Result<u32, Error> {
        // The bounds make the conversion exact.
        self.integer(what, min.into(), u32::MAX.into())
            .map(|n| n as u32)
    }

    /// A duration in milliseconds, from `min_ms` to ten years.
    #[inline]
    pub fn duration(&mut self, what: &'static str, min_ms: u64) -> Result<u64, Error> {
        self.integer(what, min_ms, MAX_DURATION_MS)
    }

    /// The id of a message: 1 to 512 bytes of any value.
    #[inline]
    pub fn id(&mut self) -> Result<&'a [u8], Error> {
        self.bytes("id", 1, MAX_ID_LEN)
    }

    /// The name of a schedule: 1 to 512 bytes of any value.
    pub fn name(&mut self) -> Result<&'a [u8], Error> {
        self.bytes("name", 1, MAX_NAME_BYTES)
    }

    /// The name of a group: 1 to 128 bytes of any value.
    #[inline]
    pub fn group(&mut self) -> Result<&'a [u8], Error> {
        self.bytes("GROUP", 1, MAX_GROUP_BYTES)
    }

    /// The status of a message, as replies write it, in whatever case.
    pub fn status(&mut self) -> Result<Status, Error> {
        let word = self.value()?;
        let mut all = Status::ALL.into_iter();
        all.find(|status| is(word, status.name()))
            .ok_or(Error::Syntax)
    }

    /// The token of a delivery.
    #[inline]
    pub fn token(&mut self) -> Result<u64, Error> {
        self.integer("token", 0, i64::MAX as u64)
    }

    /// A string whose length is within bounds. An error names `what`.
    #[inline]
    pub fn bytes(&mut self, what: &'static str, min: usize, max: usize) -> Result<&'a [u8], Error> {
        let value = self.value()?;
        if (min..=max).contains(&value.len()) {
            Ok(value)
        } else {
            Err(Error::Length { what, min, max })
        }
    }

    /// The index of the next argument.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Passes over arguments of any value, which must be there.
    pub fn pass_over(&mut self, count: usize) -> Result<(), Error> {
        let next = self.next + count;
        self.args.at(next - 1).ok_or(Error::Syntax)?;
        self.next = next;
        Ok(())
    }

    /// Whether all arguments are read.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.args.at(self.next).is_none()
    }

    /// Whether the next argument is meant as a number, well written or not.
    #[inline]
    pub fn at_number(&self) -> bool {
        let first = self.args.at(self.next).and_then(|word| word.first());
        first.is_some_and(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+'))
    }
}

/// Whether `word` is `keyword`, in whatever case.
#[inline]
pub fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// Gives an option its value; giving it twice is a syntax error.
#[inline]
pub fn once<T>(option: &mut Option<T>, value: T) -> Result<(), Error> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::Syntax),
    }
}

/// Turns a flag on; giving it twice is a syntax error.
#[inline]
pub fn flag(option: &mut bool) -> Result<(), Error> {
    if std::mem::replace(option, true) {
        Err(Error::Syntax)
    } else {
        Ok(())
    }
}

/// A number in its one way to write it: digits only, no sign, no space, no leading zero.
#[inline]
pub fn digits(word: &[u8]) -> Option<u64> {
    match word {
        [] | [b'0', _, ..] => None,
        _ => word.iter().try_fold(0u64, |n, byte| {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            n.checked_mul(10)?.checked_add(digit.into())
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The arguments of a command line split at blanks, for tests of parsing.
    pub fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn a_number_has_one_way_to_be_written() {
        assert_eq!(digits(b"0"), Some(0));
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [
            "",
            "00",
            "01",
            "+1",
            "-1",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x1",
            "18446744073709551616",
            "१",
        ] {
            assert_eq!(digits(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_number_out_of_range_names_the_option() {
        let args = words("9 10 x");
        let mut cursor = Cursor::new(&args[..], 0);
        let error = Err(Error::OutOfRange {
            what: "PRIORITY",
            min: 0,
            max: 9,
        });
        assert_eq!(cursor.integer("PRIORITY", 0, 9), Ok(9));
        assert_eq!(cursor.integer("PRIORITY", 0, 9), error);
        assert_eq!(cursor.integer("PRIORITY", 0, 9), error);
        assert_eq!(
            cursor.integer("PRIORITY", 0, 9),
            Err(Error::Syntax),
            "there is no value"
        );
    }

    #[test]
    fn durations_go_up_to_ten_years() {
        let args = words("315360000000 315360000001 0");
        let mut cursor = Cursor::new(&args[..], 0);
        assert_eq!(cursor.duration("LOCK", 1), Ok(MAX_DURATION_MS));
        assert!(cursor.duration("LOCK", 1).is_err());
        assert!(cursor.duration("LOCK", 1).is_err());
    }

    #[test]
    fn an_id_has_1_to_512_bytes() {
        let (longest, too_long) = ([b'x'; 512], [b'x'; 513]);
        let args: [&[u8]; 3] = [&longest, &too_long, b""];
        let mut cursor = Cursor::new(&args[..], 0);
        let error = Err(Error::Length {
            what: "id",
            min: 1,
            max: 512,
        });
        assert_eq!(cursor.id(), Ok(&longest[..]));
        assert_eq!(cursor.id(), error);
        assert_eq!(cursor.id(), error);
    }

    #[test]
    fn a_token_is_what_the_server_may_have_given() {
        let args = words("0 9223372036854775807 9223372036854775808 -1");
        let mut cursor = Cursor::new(&args[..], 0);
        assert_eq!(cursor.token(), Ok(0));
        assert_eq!(cursor.token(), Ok(i64::MAX as u64));
        assert!(cursor.token().is_err());
        assert!(cursor.token().is_err());
    }

    #[test]
    fn a_keyword_is_taken_in_any_case_and_only_if_it_is_next() {
        let args = words("ExP 5");
        let mut cursor = Cursor::new(&args[..], 0);
        assert!(!cursor.keyword("EXPIRE"));
        assert!(cursor.keyword("EXP"));
        assert!(!cursor.keyword("EXP"));
        assert!(cursor.at_number());
    }

    #[test]
    fn an_option_is_given_once() {
        let (mut option, mut switch) = (None, false);
        assert_eq!(once(&mut option, 1), Ok(()));
        assert_eq!(once(&mut option, 1), Err(Error::Syntax));
        assert_eq!(flag(&mut switch), Ok(()));
        assert_eq!(flag(&mut switch), Err(Error::Syntax));
    }
}
