//! Messages as one line each.

use unicode_width::UnicodeWidthChar as _;

use super::{payload, Out, DIM};
use crate::{duration, failure::Failure, output, reply::Fields};

/// How wide a line is where there is no terminal.
const NO_TERMINAL: usize = 120;

/// The same columns for all of them; the payload takes what is left of the line.
pub fn print(messages: &[Fields], out: &mut Out) -> Result<(), Failure> {
    let id = |message: &Fields| output::name(message.bytes("id").unwrap_or_default());
    let status = |message: &Fields| output::name(message.bytes("status").unwrap_or_default());
    let widest = |of: &dyn Fn(&Fields) -> String, least: usize| {
        let widths = messages.iter().map(|message| of(message).chars().count());
        widths.max().unwrap_or(0).clamp(least, 40)
    };
    let (ids, statuses) = (widest(&id, 2), widest(&status, 6));
    let size = terminal_size::terminal_size_of(std::io::stdout());
    let width = size.map_or(NO_TERMINAL, |(width, _)| usize::from(width.0));
    let head = format!(
        "{:ids$}  {:statuses$}  TRIES  {:>8}  ",
        "ID", "STATUS", "AGE"
    );
    let has_reasons = messages
        .iter()
        .any(|message| message.bytes("reason").is_some());
    let last = if has_reasons { "REASON" } else { "PAYLOAD" };
    out.line(format_args!("{DIM}{head}{last}{DIM:#}"))?;
    for message in messages {
        let age = duration::age(message.count("enqueued-at"));
        let tries = message.count("attempts");
        let line = format!(
            "{:ids$}  {:statuses$}  {tries:>5}  {age:>8}  {}",
            cut(&id(message), ids),
            status(message),
            match has_reasons {
                true => output::name(message.bytes("reason").unwrap_or_default()),
                false => one_line(message.bytes("payload").unwrap_or_default()),
            }
        );
        out.line(cut(&line, width))?;
    }
    Ok(())
}

fn one_line(bytes: &[u8]) -> String {
    // More than that does not fit any line.
    let (_, shown) = payload::show(&bytes[..bytes.len().min(4_096)]);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        used += letter.width().unwrap_or(0);
        if used > width {
            return format!("{}…", &text[..end]);
        }
        // Room for the mark.
        if used < width {
            end = at + letter.len_utf8();
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_the_width() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }

    #[test]
    fn payloads_lose_their_line_ends() {
        assert_eq!(one_line(b"{\n  \"a\": 1\n}"), "{ \"a\": 1 }");
        assert_eq!(one_line(b""), "");
    }
}
