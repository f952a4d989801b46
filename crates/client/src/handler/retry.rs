//! What becomes of a message that was not handled with success: every rule of it.
//!
//! - The worker's failure policy ([`RetryRules::on_failure`]) turns a [`Cause`] into an outcome. By
//!   default errors, and values of a newer producer, are tried again by its [`RetryPolicy`]; panics
//!   and payloads that cannot be read would only fail again, and become dead letters.
//! - The retry policy decides after which pause, and may give up after a number of attempts.
//! - A failure policy that panics leaves the decision to the rules of [`RetryRules::judge`].
//! - The worker's own limit of attempts ([`RetryRules::attempts`]) ends a retry where neither the
//!   message nor its queue has a limit: [`out_of_attempts`] is sent instead. The server is asked
//!   about those limits by `worker::ack::spent`, and only when the worker's is reached.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use super::{
    answer::{Answer, Pause, Retry},
    outcome::Outcome,
};
use super::{chain, guard::forget};
use crate::{
    backoff::ExpBackoff,
    error::{BoxError, CodecError},
    message::id::MessageId,
};

/// Decides about the next try of a message whose handler returned an error, or
/// [`Outcome::RetryByPolicy`].
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
    pauses: Pauses,
    /// After so many attempts it gives up.
    attempts: Option<u32>,
}

#[derive(Clone)]
enum Pauses {
    /// The server draws them, by its own settings.
    Server,
    /// After which attempt; `None` gives up.
    Own(Arc<dyn Fn(u32) -> Option<Duration> + Send + Sync>),
}

impl RetryPolicy {
    /// Pauses that the server draws: exponential, by its settings `mq.backoff-factor-ms` and
    /// `mq.backoff-max-ms`. The default.
    pub fn server() -> Self {
        Self {
            pauses: Pauses::Server,
            attempts: None,
        }
    }

    /// Pauses that grow exponentially. The pause after attempt n is `backoff.pause(n)`.
    pub fn exponential(backoff: ExpBackoff) -> Self {
        Self::from_fn(move |attempt| Some(backoff.pause(attempt)))
    }

    /// Always the same pause.
    pub fn fixed(pause: Duration) -> Self {
        Self::from_fn(move |_| Some(pause))
    }

    /// One pause after the other; when the last one is used up, the message is dead.
    pub fn schedule(pauses: impl IntoIterator<Item = Duration>) -> Self {
        let pauses: Vec<_> = pauses.into_iter().collect();
        let attempts = u32::try_from(pauses.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        Self::from_fn(move |attempt| pauses.get(attempt.saturating_sub(1) as usize).copied())
            .attempts(attempts)
    }

    /// The pause after that attempt (1, 2, 3 …), or `None` to give up.
    pub fn from_fn(pause: impl Fn(u32) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self {
            pauses: Pauses::Own(Arc::new(pause)),
            attempts: None,
        }
    }

    /// Gives up after that many attempts, in place of the worker's
    /// [`attempts`](crate::WorkerBuilder::attempts). The server's own limit
    /// ([`EnqueueOptions::attempts`](crate::EnqueueOptions::attempts)) also counts attempts that
    /// never came back, and is the better protection against messages that kill workers.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(self.attempts.map_or(attempts, |most| most.min(attempts)));
        self
    }

    fn next(&self, attempt: u32) -> Option<Pause> {
        if self.attempts.is_some_and(|most| attempt >= most) {
            return None;
        }
        match &self.pauses {
            Pauses::Server => Some(Pause::Exponential),
            Pauses::Own(pause) => pause(attempt).map(Pause::For),
        }
    }
}

impl Default for RetryPolicy {
    /// [`RetryPolicy::server`].
    fn default() -> Self {
        Self::server()
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicy")
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// What a worker does with what comes back to it: its policies of retries.
#[derive(Clone)]
pub(crate) struct RetryRules {
    pub(crate) policy: RetryPolicy,
    /// How many attempts a message gets for which nobody else has set a limit; 0 is none.
    pub(crate) attempts: u32,
    /// What becomes of a failure.
    pub(crate) on_failure: FailurePolicy,
}

impl fmt::Debug for RetryRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryRules")
            .field("policy", &self.policy)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

impl Default for RetryRules {
    fn default() -> Self {
        Self {
            policy: RetryPolicy::default(),
            attempts: 25,
            on_failure: Arc::new(default_failure_policy),
        }
    }
}

impl RetryRules {
    /// The answer for an outcome of that attempt. `why` is what went wrong, if anything did.
    pub(crate) fn answer(&self, outcome: Outcome, attempt: u32, why: &str) -> Answer {
        let retry = |pause, limited: bool| {
            Answer::Retry(Retry {
                pause,
                reason: why.into(),
                last: limited && self.attempts > 0 && attempt >= self.attempts,
            })
        };
        match outcome {
            Outcome::Success => Answer::Success(None),
            Outcome::SuccessFor(window) => Answer::Success(Some(window)),
            Outcome::RetryNow => retry(Pause::None, true),
            Outcome::RetryAfter(pause) => retry(Pause::For(pause), true),
            Outcome::RetryExponential => retry(Pause::Exponential, true),
            Outcome::RetryByPolicy => match self.policy.next(attempt) {
                Some(pause) => retry(pause, self.policy.attempts.is_none()),
                None if why.is_empty() => {
                    Answer::Error(format!("gave up after {attempt} attempts").into())
                }
                None => Answer::Error(format!("gave up after {attempt} attempts: {why}").into()),
            },
            Outcome::Error(reason) => Answer::Error(reason.into()),
        }
    }

    /// The answer for a failure, which is `why` in words. The failure policy is the user's code:
    /// when it panics, an error is tried again, and all else is a dead letter.
    pub(crate) fn judge(&self, failure: &Failure<'_>, why: &str) -> Answer {
        let decide = |outcome| self.answer(outcome, failure.attempt, why);
        let judged = AssertUnwindSafe(|| decide((self.on_failure)(failure)));
        std::panic::catch_unwind(judged).unwrap_or_else(|panic| {
            forget(panic);
            tracing::error!("the failure policy panicked; the default one decides");
            match failure.cause {
                Cause::Error(_) => decide(Outcome::RetryExponential),
                _ => Answer::Error(why.into()),
            }
        })
    }
}

/// The answer where even the judgement of a failure has panicked.
pub(crate) fn after_panic() -> Answer {
    Answer::Retry(Pause::Exponential.into())
}

/// The server's own words for a retry that it does not grant.
const NO_ATTEMPTS_LEFT: &str = "no attempts left";

/// What becomes of a message whose retry reaches the worker's limit of attempts, if nobody else
/// has set one.
pub(crate) fn out_of_attempts(retry: &Retry) -> Answer {
    Answer::Error(match &*retry.reason {
        "" => NO_ATTEMPTS_LEFT.into(),
        reason => format!("{NO_ATTEMPTS_LEFT}: {reason}").into(),
    })
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

/// With the chain of an error's sources, joined by `: `, but for those that say nothing new.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Error(error) => f.write_str(&chain::text(&**error)),
            Cause::Panic(message) => write!(f, "panic: {message}"),
            Cause::Undecodable(error) => write!(f, "decode error: {}", chain::text(error)),
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

impl Failure<'_> {
    /// The error, or the first one of its sources, that is of that type.
    ///
    /// Errors of `anyhow` and `eyre` hide the type of the error they were made of, but for those
    /// below a context: [`Report`](crate::policy::Report) shows it.
    ///
    /// ```
    /// # use redis_mq_client::{redis, Worker};
    /// use std::io;
    /// use redis_mq_client::Outcome;
    ///
    /// # fn example(client: redis::Client) {
    /// let builder = Worker::builder(client, "mails").on_failure(|failure| {
    ///     match failure.downcast_ref::<io::Error>().map(io::Error::kind) {
    ///         Some(io::ErrorKind::NotFound) => Outcome::error(failure.cause.to_string()),
    ///         _ => Outcome::RetryByPolicy,
    ///     }
    /// });
    /// # let _ = builder; }
    /// ```
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self.cause {
            Cause::Error(error) => chain::find(&**error),
            Cause::Undecodable(error) => chain::find(error),
            Cause::Panic(_) => None,
        }
    }
}

/// The default policy: an error, and a value that a newer producer has written, is tried again by
/// the worker's [`RetryPolicy`]; a panic and any other payload that does not decode would only do
/// so again, and become dead letters.
pub(crate) fn default_failure_policy(failure: &Failure<'_>) -> Outcome {
    match failure.cause {
        Cause::Error(_) => Outcome::RetryByPolicy,
        Cause::Undecodable(error) if error.is_unknown_variant() => Outcome::RetryByPolicy,
        cause => Outcome::Error(cause.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn rules(policy: RetryPolicy, attempts: u32) -> RetryRules {
        RetryRules {
            policy,
            attempts,
            ..RetryRules::default()
        }
    }

    fn retry(pause: Pause, reason: &str, last: bool) -> Answer {
        let reason = reason.into();
        Answer::Retry(Retry {
            pause,
            reason,
            last,
        })
    }

    #[test]
    fn a_schedule_is_followed_and_then_given_up() {
        let rules = rules(RetryPolicy::schedule([S(1), S(10)]), 1);
        let by_policy = |attempt| rules.answer(Outcome::RetryByPolicy, attempt, "no luck");
        assert_eq!(by_policy(1), retry(Pause::For(S(1)), "no luck", false));
        assert_eq!(by_policy(2), retry(Pause::For(S(10)), "no luck", false));
        assert_eq!(
            by_policy(3),
            Answer::Error("gave up after 3 attempts: no luck".into())
        );
    }

    #[test]
    fn a_limit_of_attempts_counts_the_first_one() {
        let policy = RetryPolicy::fixed(S(1)).attempts(2);
        assert_eq!(policy.next(1), Some(Pause::For(S(1))));
        assert_eq!(policy.next(2), None);
    }

    #[test]
    fn by_default_the_server_draws_the_pauses_and_25_attempts_are_all() {
        let rules = RetryRules::default();
        for outcome in [Outcome::RetryByPolicy, Outcome::RetryExponential] {
            let before = rules.answer(outcome.clone(), 24, "down");
            assert_eq!(before, retry(Pause::Exponential, "down", false));
            let last = rules.answer(outcome, 25, "down");
            assert_eq!(last, retry(Pause::Exponential, "down", true));
        }
        let Answer::Retry(last) = rules.answer(Outcome::RetryNow, 26, "down") else {
            panic!("no retry");
        };
        assert_eq!(
            out_of_attempts(&last),
            Answer::Error("no attempts left: down".into())
        );
        let Answer::Retry(last) = rules.answer(Outcome::RetryNow, 26, "") else {
            panic!("no retry");
        };
        assert_eq!(
            out_of_attempts(&last),
            Answer::Error("no attempts left".into())
        );
    }

    #[test]
    fn no_limit_is_none() {
        let rules = rules(RetryPolicy::default(), 0);
        let answer = rules.answer(Outcome::RetryByPolicy, u32::MAX, "");
        assert_eq!(answer, retry(Pause::Exponential, "", false));
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
        assert_eq!(judge(Cause::Error("no".into())), Outcome::RetryByPolicy);
        assert_eq!(
            judge(Cause::Panic("oh".into())),
            Outcome::error("panic: oh")
        );
        let undecodable = judge(Cause::Undecodable(CodecError::new("bad byte")));
        assert_eq!(undecodable, Outcome::error("decode error: bad byte"));
        let newer = judge(Cause::Undecodable(CodecError::unknown_variant("what?")));
        assert_eq!(newer, Outcome::RetryByPolicy);
    }

    #[test]
    fn what_the_handler_decided_is_not_the_policys_business() {
        let rules = rules(RetryPolicy::fixed(S(1)).attempts(1), 25);
        let now = rules.answer(Outcome::RetryNow, 9, "");
        assert_eq!(now, retry(Pause::None, "", false));
        let after = rules.answer(Outcome::RetryAfter(S(3)), 9, "");
        assert_eq!(after, retry(Pause::For(S(3)), "", false));
    }
}
