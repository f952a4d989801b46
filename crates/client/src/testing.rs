//! Help for the unit tests of several modules.

use redis::{Arg, Cmd};

/// A command's words, as text.
pub(crate) fn words(command: &Cmd) -> Vec<String> {
    command
        .args_iter()
        .map(|arg| match arg {
            Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("unexpected argument {}", matches!(other, Arg::Cursor)),
        })
        .collect()
}
