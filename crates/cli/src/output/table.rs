//! Tables that fit the terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Out, DIM};
use crate::failure::Failure;

/// The first column is text and gives way where the line is too narrow; the others are numbers.
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with one cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints it, at most as wide as the terminal; as wide as it is where there is none.
    pub fn print(&self, out: &mut Out) -> Result<(), Failure> {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let lines = self.lines(size.map(|(width, _)| usize::from(width.0)));
        for (at, line) in lines.iter().enumerate() {
            match at {
                0 => out.line(format_args!("{DIM}{line}{DIM:#}"))?,
                _ => out.line(line)?,
            }
        }
        Ok(())
    }

    fn lines(&self, width: Option<usize>) -> Vec<String> {
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let all = || std::iter::once(&head).chain(&self.rows);
        let mut widths: Vec<usize> = (0..head.len())
            .map(|at| all().map(|row| row[at].width()).max().unwrap_or(0))
            .collect();
        if let Some(width) = width {
            let others: usize = widths[1..].iter().map(|width| width + 2).sum();
            widths[0] = widths[0].min(width.saturating_sub(others).max(8));
        }
        all()
            .map(|row| {
                let mut line = fit(&row[0], widths[0]);
                for (cell, width) in row.iter().zip(&widths).skip(1) {
                    line += &" ".repeat(2 + width.saturating_sub(cell.width()));
                    line += cell;
                }
                line
            })
            .collect()
    }
}

/// The text in exactly that width.
fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return format!("{text}{}", " ".repeat(width - text.width()));
    }
    let mut cut = String::new();
    // One for the mark of what was left out.
    let mut used = 1;
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(letter);
    }
    cut.push('…');
    let rest = width.saturating_sub(cut.width());
    cut + &" ".repeat(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_column_gives_way_to_a_narrow_line() {
        let mut table = Table::new(&["QUEUE", "READY"]);
        table.row(vec!["a".repeat(40), "12".into()]);
        table.row(vec!["日本".into(), "3".into()]);
        assert_eq!(
            table.lines(Some(20)),
            [
                "QUEUE          READY",
                "aaaaaaaaaaaa…     12",
                "日本               3"
            ]
        );
        assert!(table.lines(None)[1].starts_with(&"a".repeat(40)));
    }
}
