//! What a worker does when a handler leaves the decision to it.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    backoff::ExpBackoff,
    error::{BoxError, CodecError},
    id::MessageId,
    outcome::{Answer, Outcome, Pause},
};

/// Decides about the next try of a message: see [`Outcome::RetryByPolicy`].
///
/// ```
/// # use std::time::Duration;
/// use redis_mq_client::{ExpBackoff, RetryPolicy};
///
/// let five_tries = RetryPolicy::exponential(ExpBackoff::default().max(Duration::from_secs(60)))
///     .attempts(5);
/// let by_hand = RetryPolicy::schedule([1, 10, 60].map(Duration::from_secs));
/// # let _ = (five_tries, by_hand);
/// ```
#[derive(Clone)]
pub struct RetryPolicy {
    pause: Arc<dyn Fn(u32) -> Option<Duration> + Send + Sync>,
    attempts: Option<u32>,
}

impl RetryPolicy {
    /// Pauses that grow exponentially, for ever. The pause after attempt n is `backoff.pause(n)`.
    pub fn exponential(backoff: ExpBackoff) -> Self {
        Self::from_fn(move |attempt| Some(backoff.pause(attempt)))
    }

    /// Always the same pause, for ever.
    pub fn fixed(pause: Duration) -> Self {
        Self::from_fn(move |_| Some(pause))
    }

    /// One pause after the other; when the last one is used up, the message is dead.
    pub fn schedule(pauses: impl IntoIterator<Item = Duration>) -> Self {
        let pauses: Vec<_> = pauses.into_iter().collect();
        Self::from_fn(move |attempt| pauses.get(attempt.saturating_sub(1) as usize).copied())
    }

    /// The pause after that attempt (1, 2, 3 …), or `None` to give up.
    pub fn from_fn(pause: impl Fn(u32) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self {
            pause: Arc::new(pause),
            attempts: None,
        }
    }

    /// Gives up after that many attempts. The server's own limit
    /// ([`EnqueueOptions::attempts`](crate::EnqueueOptions::attempts)) also counts attempts that
    /// never came back, and is the better protection against messages that kill workers.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    fn next(&self, attempt: u32) -> Option<Duration> {
        if self.attempts.is_some_and(|most| attempt >= most) {
            return None;
        }
        (self.pause)(attempt)
    }
}

impl Default for RetryPolicy {
    /// Exponential, for ever.
    fn default() -> Self {
        Self::exponential(ExpBackoff::default())
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicy")
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// Why a message was not handled.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The handler returned this error.
    Error(BoxError),
    /// The handler panicked with this message.
    Panic(String),
    /// The payload is not a value of the handler's type.
    Undecodable(CodecError),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Error(error) => write!(f, "{error}"),
            Cause::Panic(message) => write!(f, "panic: {message}"),
            Cause::Undecodable(error) => write!(f, "decode error: {error}"),
        }
    }
}

/// A message that was not handled, for the policy to judge.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// What went wrong.
    pub cause: &'a Cause,
    /// The message.
    pub id: &'a MessageId,
    /// Its payload.
    pub payload: &'a [u8],
    /// Which delivery of it this was: 1, 2, 3 …
    pub attempt: u32,
}

pub(crate) type FailurePolicy = Arc<dyn Fn(&Failure<'_>) -> Outcome + Send + Sync>;

/// The default policy: an error is tried again exponentially; a panic and a payload that does not
/// decode would only do so again, and become dead letters.
pub(crate) fn default_failure_policy(failure: &Failure<'_>) -> Outcome {
    match failure.cause {
        Cause::Error(_) => Outcome::RetryExponential,
        cause => Outcome::Error(cause.to_string()),
    }
}

/// The answer for an outcome of that attempt. `why` is the reason of a message that is given up.
pub(crate) fn answer(outcome: Outcome, policy: &RetryPolicy, attempt: u32, why: &str) -> Answer {
    match outcome {
        Outcome::Success => Answer::Success(None),
        Outcome::SuccessFor(window) => Answer::Success(Some(window)),
        Outcome::RetryNow => Answer::Retry(Pause::None),
        Outcome::RetryAfter(pause) => Answer::Retry(Pause::For(pause)),
        Outcome::RetryExponential => Answer::Retry(Pause::Exponential),
        Outcome::RetryByPolicy => match policy.next(attempt) {
            Some(pause) => Answer::Retry(Pause::For(pause)),
            None if why.is_empty() => {
                Answer::Error(format!("gave up after {attempt} attempts").into())
            }
            None => Answer::Error(format!("gave up after {attempt} attempts: {why}").into()),
        },
        Outcome::Error(reason) => Answer::Error(reason.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_schedule_is_followed_and_then_given_up() {
        let policy = RetryPolicy::schedule([S(1), S(10)]);
        let by_policy = |attempt| answer(Outcome::RetryByPolicy, &policy, attempt, "no luck");
        assert_eq!(by_policy(1), Answer::Retry(Pause::For(S(1))));
        assert_eq!(by_policy(2), Answer::Retry(Pause::For(S(10))));
        assert_eq!(
            by_policy(3),
            Answer::Error("gave up after 3 attempts: no luck".into())
        );
    }

    #[test]
    fn a_limit_of_attempts_counts_the_first_one() {
        let policy = RetryPolicy::fixed(S(1)).attempts(2);
        assert_eq!(policy.next(1), Some(S(1)));
        assert_eq!(policy.next(2), None);
    }

    #[test]
    fn errors_are_retried_and_panics_and_bad_payloads_are_not() {
        let judge = |cause: Cause| {
            let id = MessageId::from("a");
            default_failure_policy(&Failure {
                cause: &cause,
                id: &id,
                payload: b"",
                attempt: 1,
            })
        };
        assert_eq!(judge(Cause::Error("no".into())), Outcome::RetryExponential);
        assert_eq!(
            judge(Cause::Panic("oh".into())),
            Outcome::error("panic: oh")
        );
        let undecodable = judge(Cause::Undecodable(CodecError::new("bad byte")));
        assert_eq!(undecodable, Outcome::error("decode error: bad byte"));
    }

    #[test]
    fn what_the_handler_decided_is_not_the_policys_business() {
        let policy = RetryPolicy::fixed(S(1)).attempts(1);
        let now = answer(Outcome::RetryNow, &policy, 9, "");
        assert_eq!(now, Answer::Retry(Pause::None));
        let after = answer(Outcome::RetryAfter(S(3)), &policy, 9, "");
        assert_eq!(after, Answer::Retry(Pause::For(S(3))));
    }
}
