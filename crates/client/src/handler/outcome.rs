//! What a handler may decide, and how its return value is read.

use std::time::Duration;

use crate::error::BoxError;

/// What is to become of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done.
    Success,
    /// Done, and the id stays taken that long: whoever enqueues it meanwhile is refused.
    SuccessFor(Duration),
    /// Again, as soon as the others of its priority had their turn.
    RetryNow,
    /// Again, after that time.
    RetryAfter(Duration),
    /// Again, after a pause that grows with the attempt: the server's own jittered formula, see
    /// [`ExpBackoff`](crate::ExpBackoff).
    RetryExponential,
    /// Again, or not, as the worker's [`RetryPolicy`](crate::RetryPolicy) says.
    RetryByPolicy,
    /// Never again: the message becomes a dead letter with this reason. Reasons longer than 1024
    /// bytes are cut.
    Error(String),
}

impl Outcome {
    /// Never again, for this reason.
    pub fn error(reason: impl Into<String>) -> Self {
        Outcome::Error(reason.into())
    }
}

/// What a handler returned: an outcome, or an error that the worker's policy turns into one.
pub type Verdict = Result<Outcome, BoxError>;

/// What a handler may return.
///
/// `()` is a success. `Result<(), E>` and `Result<Outcome, E>` take every error type that can be
/// boxed: those of `std`, `String`, `anyhow::Error` and the like.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "expected `()`, an `Outcome`, or a `Result` of either with an error type",
    note = "an error type is one that `Box<dyn Error + Send + Sync>` can be made from"
)]
pub trait IntoVerdict {
    /// The outcome, or the error.
    fn into_verdict(self) -> Verdict;
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Verdict {
        Ok(Outcome::Success)
    }
}

impl IntoVerdict for Outcome {
    fn into_verdict(self) -> Verdict {
        Ok(self)
    }
}

impl<E: Into<BoxError>> IntoVerdict for Result<(), E> {
    fn into_verdict(self) -> Verdict {
        self.map(|()| Outcome::Success).map_err(Into::into)
    }
}

impl<E: Into<BoxError>> IntoVerdict for Result<Outcome, E> {
    fn into_verdict(self) -> Verdict {
        self.map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_may_return_several_types() {
        assert_eq!(().into_verdict().unwrap(), Outcome::Success);
        assert_eq!(Outcome::RetryNow.into_verdict().unwrap(), Outcome::RetryNow);
        assert_eq!(
            Ok::<_, std::io::Error>(()).into_verdict().unwrap(),
            Outcome::Success
        );
        let failed: Result<Outcome, String> = Err("no".into());
        assert_eq!(failed.into_verdict().unwrap_err().to_string(), "no");
    }
}
