//! Asking before something is removed.

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::failure::Failure;

/// Asks, and tells whether the answer is yes; with `yes` it is. Where nobody is there to answer,
/// as in a script, not to have said `--yes` is an error.
pub fn confirm(question: &str, yes: bool) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::usage(format!(
            "{question} Nobody is here to answer: say --yes"
        )));
    }
    anstream::eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::local("the answer", &error))?;
    Ok(matches!(
        answer.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}

/// A number of things: `1 message`, `2 messages`.
pub fn count(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}
