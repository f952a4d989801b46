//! The words of a command.

use redis_mq_core::Span;

/// What a command is refused with: a code and a text.
pub(super) type Refusal = String;

pub(super) fn syntax() -> Refusal {
    "ERR syntax error".to_owned()
}

/// The words that were not read yet.
pub(super) struct Words<'a>(std::slice::Iter<'a, Vec<u8>>);

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [Vec<u8>]) -> Self {
        Self(words.iter())
    }

    /// The next one, whatever it is.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Refusal> {
        self.0.next().map(|word| &word[..]).ok_or_else(syntax)
    }

    /// The next one as the name of an option, in capitals; `None` at the end.
    pub(super) fn option(&mut self) -> Option<String> {
        let word = self.0.next()?;
        Some(String::from_utf8_lossy(word).to_ascii_uppercase())
    }

    /// Whether the next one is that option, which is then passed over.
    pub(super) fn is_next(&mut self, option: &str) -> bool {
        let next = self.0.as_slice().first();
        let is = next.is_some_and(|word| word.eq_ignore_ascii_case(option.as_bytes()));
        if is {
            self.0.next();
        }
        is
    }

    /// Passes over numbers.
    pub(super) fn skip_numbers(&mut self) {
        let is_number = |word: &Vec<u8>| word.iter().all(u8::is_ascii_digit);
        while self.0.as_slice().first().is_some_and(is_number) {
            self.0.next();
        }
    }

    pub(super) fn number<N: TryFrom<u64>>(&mut self) -> Result<N, Refusal> {
        let word = std::str::from_utf8(self.bytes()?).ok();
        let number: Option<u64> = word.and_then(|word| word.parse().ok());
        number
            .and_then(|number| number.try_into().ok())
            .ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
    }

    pub(super) fn span(&mut self) -> Result<Span, Refusal> {
        Ok(Span::from_millis(self.number()?))
    }

    /// A value, or `None` for `OFF`.
    pub(super) fn or_off<V>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<V, Refusal>,
    ) -> Result<Option<V>, Refusal> {
        if self.is_next("OFF") {
            return Ok(None);
        }
        value(self).map(Some)
    }
}
