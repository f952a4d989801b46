//! Shell sessions as pages show them: lines that begin with `$ `, each with its output below.
//!
//! What a server makes up differs each time. So a shown number of 13 digits or more (a time or a
//! token) stands for any number of that length, and a shown UUID for any UUID. Where the page repeats
//! it, in an output or in a command, the one that the server made is meant.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use redis_mq_testkit::{cli_bin, Server};

/// A shell in which `redis-cli` talks to a server of the test.
pub struct Shell {
    path: String,
    /// What the server made, by what the page shows for it.
    made: HashMap<String, String>,
}

impl Shell {
    /// A shell for this server, or none if this machine has no `redis-cli`.
    pub fn new(server: &Server) -> Option<Self> {
        let Some(cli) = cli_bin() else {
            eprintln!("skipped: there is no redis-cli on this machine");
            return None;
        };
        let folder = server.dir().join("shell");
        fs::create_dir_all(&folder).expect("a folder for the shell can be made");
        let shim = folder.join("redis-cli");
        let (cli, port) = (cli.display(), server.port());
        // A terminal would get the output that is meant for people.
        let script = format!("#!/bin/sh\nexec '{cli}' -p {port} --no-raw \"$@\"\n");
        fs::write(&shim, script).expect("the shell's client can be written");
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("and run");
        let rest = std::env::var("PATH").unwrap_or_default();
        Some(Self {
            path: format!("{}:{rest}", folder.display()),
            made: HashMap::new(),
        })
    }

    /// Runs a session and compares the outputs.
    pub fn play(&mut self, session: &str, place: &str) {
        for (command, shown) in steps(session) {
            let command = self.meant(&command);
            let output = Command::new("bash")
                .args(["-c", &command])
                .env("PATH", &self.path)
                .output()
                .expect("there is a shell");
            let stdout = String::from_utf8_lossy(&output.stdout);
            if let Err(difference) = self.compare(&shown, stdout.trim_end()) {
                let stderr = String::from_utf8_lossy(&output.stderr);
                panic!(
                    "{place}: $ {command}\n{difference}\n--- shown:\n{shown}\n--- got:\n{stdout}{stderr}"
                );
            }
        }
    }

    /// The command with what the server made in place of what the page shows.
    fn meant(&self, command: &str) -> String {
        let word = |(text, is_word): (&str, bool)| match self.made.get(text) {
            Some(made) if is_word => made.clone(),
            _ => text.to_string(),
        };
        pieces(command).map(word).collect()
    }

    fn compare(&mut self, shown: &str, got: &str) -> Result<(), String> {
        let (mut shown, mut got) = (pieces(shown), pieces(got));
        loop {
            match (shown.next(), got.next()) {
                (None, None) => return Ok(()),
                (Some((shown, _)), Some((got, _))) => {
                    let meant = self.made.get(shown).map_or(shown, |made| made);
                    if meant == got {
                        continue;
                    }
                    let is_new = !self.made.contains_key(shown);
                    if !(is_new && kind(shown).is_some() && kind(shown) == kind(got)) {
                        return Err(format!("{got:?} where {meant:?} is shown"));
                    }
                    self.made.insert(shown.into(), got.into());
                }
                (shown, got) => return Err(format!("{shown:?} is shown, and there is {got:?}")),
            }
        }
    }
}

/// The commands of a session with their outputs. A command goes on where its line ends in `\`.
fn steps(session: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in session.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.into(), String::new())),
            (None, Some((command, _))) if command.ends_with('\\') => {
                *command += "\n";
                *command += line;
            }
            (None, Some((_, output))) => {
                *output += if output.is_empty() { "" } else { "\n" };
                *output += line;
            }
            (None, None) => panic!("an output without a command: {line}"),
        }
    }
    steps
}

/// Words of letters, digits and hyphens, and what is between them.
fn pieces(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = is_word(rest.chars().next()?);
        let end = rest.find(|letter| is_word(letter) != word);
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some((piece, word))
    })
}

#[derive(PartialEq)]
enum Made {
    Number { digits: usize },
    Uuid,
}

fn kind(word: &str) -> Option<Made> {
    let digits = word.len();
    if digits >= 13 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Made::Number { digits });
    }
    let mut lengths = word.split('-').map(|part| {
        let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex {
            part.len()
        } else {
            0
        }
    });
    [8, 4, 4, 4, 12]
        .into_iter()
        .all(|length| lengths.next() == Some(length))
        .then_some(Made::Uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Shell {
        Shell {
            path: String::new(),
            made: HashMap::new(),
        }
    }

    #[test]
    fn numbers_and_uuids_that_the_server_made_stand_for_what_is_shown() {
        let mut shell = shell();
        let shown = "1) 1796101669540000\n2) 01a22ffe-83c9-7000-8000-004a20241df6";
        let got = "1) 1796999999999999\n2) 01a22fff-0ac0-7000-8000-00222b7b0b0c";
        assert_eq!(shell.compare(shown, got), Ok(()));
        assert_eq!(shell.meant("x 1796101669540000;"), "x 1796999999999999;");
        assert!(shell
            .compare("1796101669540000", "1796000000000000")
            .is_err());
    }

    #[test]
    fn everything_else_must_be_as_shown() {
        for (shown, got) in [
            ("(integer) 1", "(integer) 2"),
            ("added", "\"added\""),
            ("1796101669540000", "179610166954000"),
            ("01a22ffe-83c9-7000-8000-004a20241df6", "queued"),
            ("one line", "one line\nand more"),
        ] {
            assert!(shell().compare(shown, got).is_err(), "{shown} / {got}");
        }
    }

    #[test]
    fn a_command_goes_on_after_a_backslash() {
        let steps = steps("$ a \\\n  b\nout\nput\n$ c\n");
        assert_eq!(steps[0], ("a \\\n  b".into(), "out\nput".into()));
        assert_eq!(steps[1], ("c".into(), String::new()));
    }
}
