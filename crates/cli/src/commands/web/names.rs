//! Names of queues, ids and groups in addresses and forms. They are any bytes, and forms carry text
//! with line ends of their own, so that other bytes are spelled out.

use std::fmt::Write as _;

/// Bytes as text that comes back unchanged: `\` is `\\`, control characters and what is no UTF-8
/// are `\xNN`.
pub fn spell(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                letter if letter.is_control() => {
                    let mut buffer = [0; 4];
                    spell_bytes(letter.encode_utf8(&mut buffer).as_bytes(), &mut text);
                }
                letter => text.push(letter),
            }
        }
        spell_bytes(chunk.invalid(), &mut text);
    }
    text
}

fn spell_bytes(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Reads what [`spell`] has written. A backslash that begins nothing stands for itself.
pub fn read(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\' {
            if let Some(after) = rest.strip_prefix(b"\\") {
                rest = after;
            } else if let Some((spelled, after)) = hex(rest) {
                bytes.push(spelled);
                rest = after;
                continue;
            }
        }
        bytes.push(byte);
    }
    bytes
}

/// The byte behind `\`, as in `x1b`, and what follows.
fn hex(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, after) = text.strip_prefix(b"x")?.split_at_checked(2)?;
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = digit(digits[0])? * 16 + digit(digits[1])?;
    Some((u8::try_from(byte).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        for bytes in [
            &b"mails"[..],
            b"",
            b"a\\b",
            b"\\x41",
            b"a\r\nb\0",
            b"\xff\xfe",
            "é\u{85}<script>".as_bytes(),
        ] {
            let text = spell(bytes);
            assert!(!text.chars().any(char::is_control), "{text}");
            assert_eq!(read(&text), bytes, "{text}");
        }
        assert_eq!(spell(b"\xffa\n"), "\\xffa\\x0a");
    }

    #[test]
    fn what_somebody_types_is_taken_as_it_is() {
        for text in ["a\\b", "\\", "\\x", "\\x4", "\\xzz"] {
            assert_eq!(read(text), text.as_bytes());
        }
    }
}
