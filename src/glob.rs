//! The patterns of `KEYS` and `SCAN`: `*` any bytes, `?` one byte, `[abc]`, `[a-c]` and `[^a]` one of a
//! set, and `\` in front of what stands for itself.

/// Whether all of `text` fits the pattern. Takes at most about the product of both lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut text) = (pattern, text);
    // Behind the last star, and the text that it has not swallowed yet: what did not fit there is
    // tried again one byte further. Earlier stars need not be, since this one takes any bytes too.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = rest {
            rest = behind;
            retry = Some((rest, text));
            continue;
        }
        let fits = match (text, rest) {
            ([], []) => return true,
            ([], _) => return false,
            ([byte, left @ ..], _) => one(rest, *byte).map(|behind| (behind, left)),
        };
        match (fits, retry) {
            (Some((behind, left)), _) => (rest, text) = (behind, left),
            (None, Some((star, [_, left @ ..]))) => {
                (rest, text) = (star, left);
                retry = Some((star, left));
            }
            (None, _) => return false,
        }
    }
}

/// What is left of the pattern if its first part, which is no star, fits the byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (fits, behind) = match pattern {
        [] => return None,
        [b'?', behind @ ..] => (true, behind),
        [b'[', behind @ ..] => set(behind, byte),
        [b'\\', literal, behind @ ..] => (*literal == byte, behind),
        [literal, behind @ ..] => (*literal == byte, behind),
    };
    fits.then_some(behind)
}

/// Whether the byte is in the set, and what comes behind it. A set that nobody closes goes to the end.
fn set(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != negated, rest),
            [b']', behind @ ..] => return (found != negated, behind),
            [b'\\', literal, behind @ ..] => {
                found |= *literal == byte;
                behind
            }
            [first, b'-', last, behind @ ..] => {
                let range = *first.min(last)..=*first.max(last);
                found |= range.contains(&byte);
                behind
            }
            [literal, behind @ ..] => {
                found |= *literal == byte;
                behind
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_fit_as_those_of_keys_do() {
        for (pattern, fitting, other) in [
            ("", &[""][..], &["a"][..]),
            ("abc", &["abc"], &["ab", "abcd", "abd", ""]),
            ("*", &["", "a", "\0\n*"], &[]),
            ("a*c", &["ac", "abc", "acbc"], &["ab", "cab", "acb"]),
            ("*a*b", &["ab", "aab", "xaxbxb"], &["ba", "a", "abx"]),
            ("a**b", &["ab", "axb"], &["a", "b"]),
            ("?", &["a", "?"], &["", "ab"]),
            ("*??", &["ab", "xab"], &["a", ""]),
            ("[abc]x", &["ax", "cx"], &["dx", "x", "abcx"]),
            ("[a-c]", &["a", "b", "c"], &["d", "-", ""]),
            ("[c-a]", &["a", "b", "c"], &["d"]),
            ("[^a-c]", &["d", "^"], &["a", "b", ""]),
            ("[\\]]", &["]"], &["\\", "["]),
            ("[a", &["a"], &["b", "[a"]),
            ("[a-]", &["a", "]"], &["z"]),
            ("\\*", &["*"], &["a", "\\*", ""]),
            ("a\\", &["a\\"], &["a"]),
            (
                "mail:*:[12]",
                &["mail::1", "mail:x:2"],
                &["mail:1", "mail:x:3"],
            ),
        ] {
            for text in fitting {
                assert!(
                    matches(pattern.as_bytes(), text.as_bytes()),
                    "{pattern:?} {text:?}"
                );
            }
            for text in other {
                assert!(
                    !matches(pattern.as_bytes(), text.as_bytes()),
                    "{pattern:?} {text:?}"
                );
            }
        }
        assert!(matches(b"\xFF[\x80-\xFE]", b"\xFF\x90"));
    }

    #[test]
    fn many_stars_take_no_longer_than_one() {
        // Trying every star anew would not end.
        let pattern = [&b"a*".repeat(100)[..], b"b"].concat();
        assert!(!matches(&pattern, &[b'a'; 512]));
    }
}
