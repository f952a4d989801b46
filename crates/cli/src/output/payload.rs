//! Payloads as people can read them. Which form they have is found out from the bytes.

use std::fmt::Write as _;

/// How many bytes of a payload of unknown form are shown.
const HEX_SHOWN: usize = 256;

/// The name of a payload's form, and the payload in it: safe to print, in one or several lines.
pub fn show(payload: &[u8]) -> (&'static str, String) {
    let printable = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    if let Ok(text) = std::str::from_utf8(payload) {
        let text = text.replace("\r\n", "\n");
        if text.chars().all(printable) {
            let begins = text.trim_start().starts_with(['{', '[']);
            let json = begins && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            return (if json { "JSON" } else { "text" }, text);
        }
    }
    match message_pack(payload) {
        Some(value) => ("MessagePack", value),
        None => ("hex", hex(payload)),
    }
}

/// The beginning of a payload in one line, made from at most that many bytes.
pub fn preview(payload: &[u8], most: usize) -> String {
    let (_, shown) = show(beginning(payload, most));
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most that many bytes, without a part of a letter at the end.
pub fn beginning(payload: &[u8], most: usize) -> &[u8] {
    let Some(head) = payload.get(..most) else {
        return payload;
    };
    match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        _ => head,
    }
}

/// A whole map or array of MessagePack, written like JSON. Single numbers and strings are not
/// looked for: nearly all bytes are one.
fn message_pack(payload: &[u8]) -> Option<String> {
    let mut rest = payload;
    let value = rmpv::decode::read_value(&mut rest).ok()?;
    if !rest.is_empty() || !(value.is_map() || value.is_array()) {
        return None;
    }
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    Some(value.to_string().chars().map(plain).collect())
}

fn hex(payload: &[u8]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (at, byte) in payload.iter().take(HEX_SHOWN).enumerate() {
        let gap = if at > 0 && at % 32 == 0 { "\n" } else { "" };
        let _ = write!(text, "{gap}{byte:02x}");
    }
    if payload.len() > HEX_SHOWN {
        let _ = write!(text, "\n… {} bytes in all", payload.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_found_out() {
        for (payload, form, shown) in [
            (&b""[..], "text", ""),
            (b"to ada", "text", "to ada"),
            (br#"{"to":"ada"}"#, "JSON", r#"{"to":"ada"}"#),
            (br#"{"to":"ada""#, "text", r#"{"to":"ada""#),
            (b"\x81\xa2to\xa3ada", "MessagePack", r#"{"to": "ada"}"#),
            (b"\x81\xa2to", "hex", "81a2746f"),
            (b"\x1b[2J", "hex", "1b5b324a"),
        ] {
            assert_eq!(show(payload), (form, shown.to_string()));
        }
    }

    #[test]
    fn payloads_are_cut_between_letters() {
        assert_eq!(beginning("aé".as_bytes(), 2), b"a");
        assert_eq!(beginning("aé".as_bytes(), 3), "aé".as_bytes());
        assert_eq!(beginning(b"\xff\xfe\xfd", 2), b"\xff\xfe");
        assert_eq!(preview("é\n".repeat(9).as_bytes(), 7), "é é");
    }

    #[test]
    fn long_bytes_are_cut_and_their_number_told() {
        let (form, shown) = show(&[0xff; 1_000]);
        assert_eq!(form, "hex");
        assert!(shown.ends_with("\n… 1000 bytes in all"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 64));
    }
}
