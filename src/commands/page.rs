//! The page `docs/commands.md`, made from the records.

use std::fmt::Write;
use std::{env, fs};

use super::record::{Group, Record};
use super::COMMANDS;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");

#[test]
fn commands_page_is_current() {
    let page = page();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PATH, &page).expect("docs/commands.md can be written");
    }
    let written = fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        written == page,
        "docs/commands.md is not what the records say; renew it with UPDATE_DOCS=1 cargo test --lib"
    );
}

fn page() -> String {
    let mut page = String::from(include_str!("preface.md"));
    for (group, title) in [
        (Group::Producers, "For producers"),
        (Group::Consumers, "For consumers"),
        (Group::Operators, "For operators"),
        (Group::Inspection, "Inspection"),
        (Group::Internal, "Between servers"),
    ] {
        let _ = write!(page, "\n## {title}\n"); // a String takes everything
        for command in COMMANDS
            .iter()
            .filter(|command| command.record.group == group)
        {
            section(&mut page, command.record);
        }
    }
    page
}

fn section(page: &mut String, record: &Record) {
    let name = record.name.to_uppercase();
    let mut flags: Vec<&str> = record.flags.split(' ').collect();
    flags.extend(record.newer_flags);
    let facts = format!(
        "Since {} · {} · flags: {}",
        record.since,
        record.complexity,
        flags.join(", ")
    );
    let _ = write!(
        page,
        "\n### {name}\n\n```\n{}\n```\n\n{}\n\n{}\n\n{}",
        record.syntax,
        record.summary,
        in_lines(&facts),
        record.details
    );
}

/// A paragraph in lines that fit an editor.
fn in_lines(paragraph: &str) -> String {
    const WIDEST: usize = 118;
    let mut lines = vec![String::new()];
    for word in paragraph.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.chars().count() + 1 + word.chars().count() > WIDEST {
            lines.push(word.to_owned());
        } else if line.is_empty() {
            line.push_str(word);
        } else {
            let _ = write!(line, " {word}");
        }
    }
    lines.join("\n")
}
