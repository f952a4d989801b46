//! How a command ends: exit codes, and errors as one line.

use std::{error::Error, fmt::Display, io, process::ExitCode};

use redis_mq_client::redis::{ErrorKind, RedisError, ServerErrorKind};

/// An exit code. docs/tools.md lists what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    /// Done.
    pub const OK: Self = Self(0);
    /// There is no such queue or message, or the answer is no.
    pub const NO: Self = Self(1);
    /// The arguments or the input are wrong.
    pub const USAGE: Self = Self(2);
    /// The server was not reached, or did not let us in.
    pub const UNREACHED: Self = Self(3);
    /// The server refused the command.
    pub const REFUSED: Self = Self(4);
    /// A file or another thing of this machine failed.
    pub const LOCAL: Self = Self(5);

    /// The code of a command that ended the worker.
    pub fn of_command(code: u8) -> Self {
        Self(code)
    }

    /// `check`: something needs a look.
    pub const WARNING: Self = Self(1);
    /// `check`: something is wrong.
    pub const CRITICAL: Self = Self(2);
    /// `check`: it could not be found out.
    pub const UNKNOWN: Self = Self(3);
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Why a command did not do what it should.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    /// None where nobody is left to read it.
    line: Option<String>,
}

impl Failure {
    /// The line about a command that the server does not know.
    pub const UNKNOWN_COMMAND: &str = "this server does not know the command: \
                                       the mq module is not loaded, or too old for it";
    /// The line about a key of another type.
    pub const NO_QUEUE: &str = "this key is no queue: it holds another type";

    /// The arguments or the input are wrong.
    pub fn usage(line: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, line)
    }

    /// The server's answer makes no sense or is a refusal.
    pub fn refused(line: impl Into<String>) -> Self {
        Self::new(Exit::REFUSED, line)
    }

    /// The server could not be reached.
    pub fn unreached(line: impl Into<String>) -> Self {
        Self::new(Exit::UNREACHED, line)
    }

    /// There is nothing of that name.
    pub fn no(line: impl Into<String>) -> Self {
        Self::new(Exit::NO, line)
    }

    /// Something of this machine failed.
    pub fn local(what: impl Display, error: &dyn Error) -> Self {
        Self::new(Exit::LOCAL, format!("{what}: {error}"))
    }

    /// The server answered with something that no version of the module sends.
    pub fn unexpected(command: &str) -> Self {
        Self::refused(format!("the server's reply to {command} is not understood"))
    }

    fn new(exit: Exit, line: impl Into<String>) -> Self {
        let line = line.into();
        Self {
            exit,
            line: Some(one_line(&line)),
        }
    }

    /// The same failure in other words.
    pub fn with_line(self, line: &str) -> Self {
        Self::new(self.exit, line)
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether it is a server's error that begins with this word.
    pub fn begins_with(&self, word: &str) -> bool {
        self.line().is_some_and(|line| line.starts_with(word))
    }

    /// What went wrong, as one line.
    pub fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }
}

/// Writing the output failed. A reader that has seen enough, as `head`, is no fault.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                exit: Exit::OK,
                line: None,
            };
        }
        Self::local("writing", &error)
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        let words = words(&error);
        if words.contains("unknown command") {
            let line = match words.to_ascii_uppercase().contains("MQ.") {
                true => Self::UNKNOWN_COMMAND,
                false => &words,
            };
            return Self::refused(line);
        }
        match error.code() {
            Some("WRONGPASS" | "NOAUTH") => {
                return Self::unreached(format!("the server wants another password: {words}"));
            }
            Some("WRONGTYPE") => {
                return Self::refused(Self::NO_QUEUE);
            }
            Some("NOPERM") => {
                return Self::refused(format!(
                    "the user of this connection may not do it: {words}"
                ))
            }
            _ => {}
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                Self::unreached(format!("the server wants another password: {words}"))
            }
            ErrorKind::InvalidClientConfig => Self::usage(format!("the address: {words}")),
            ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::ClusterDown) => {
                Self::unreached(words)
            }
            ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::UnexpectedReturnType => {
                Self::refused(words)
            }
            _ => Self::unreached(words),
        }
    }
}

/// The server's error as it sent it, or the library's with its cause.
fn words(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                let more = error.to_string();
                if !text.contains(&more) {
                    text += ": ";
                    text += &more;
                }
                cause = error.source();
            }
            text
        }
    }
}

/// Control characters would let an error's text write elsewhere on a terminal.
fn one_line(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.trim_end().chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_server(code: &str, detail: &str) -> Failure {
        let error = redis_mq_client::redis::make_extension_error(code.into(), Some(detail.into()));
        Failure::from(error)
    }

    #[test]
    fn errors_of_the_server_become_one_line_and_a_code() {
        for (code, detail, exit) in [
            ("WRONGTYPE", "Operation against a key", Exit::REFUSED),
            ("NOPERM", "this user has no permissions", Exit::REFUSED),
            ("OOM", "command not allowed", Exit::REFUSED),
            ("NOAUTH", "Authentication required.", Exit::UNREACHED),
            ("WRONGPASS", "invalid\nusername", Exit::UNREACHED),
        ] {
            let failure = from_server(code, detail);
            assert_eq!(failure.exit(), exit, "{code}");
            let line = failure.line().unwrap();
            assert!(!line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn a_reader_that_goes_away_is_no_fault() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit(), failure.line()), (Exit::OK, None));
    }
}
