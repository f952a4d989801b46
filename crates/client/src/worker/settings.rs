//! How a worker works: the builder's values, checked.

use std::{fmt, sync::Arc, time::Duration};

use super::observe::events::Poll;
use crate::{error::BuildError, handler::retry::RetryRules, millis::LONGEST};

/// What a worker does when the queue is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndOfQueue {
    /// Waits on the server, which wakes it the moment a message is ready. After that time the wait
    /// begins anew, which is also how a silent connection is found out. The default is 5 seconds.
    Block(Duration),
    /// Polls, for connections that may not block. The server draws one wait for all workers that
    /// poll the queue; it grows with each dry run up to about 17 seconds. With one to five
    /// durations, those are the waits by dry run, the last one for all further ones. A message
    /// that becomes ready meanwhile waits for the next poll.
    SharedWait(Vec<Duration>),
}

/// When a worker begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// As soon as it is built.
    #[default]
    Automatic,
    /// When [`Worker::start`](crate::Worker::start) is called.
    Manual,
    /// That long after it is built.
    Delayed(Duration),
}

pub(crate) type Monitor = Arc<dyn Fn(&Poll<'_>) + Send + Sync>;
pub(crate) type Throttle = Arc<dyn Fn(&Poll<'_>) -> Duration + Send + Sync>;

/// A warning when the queue gets longer than a limit, at most once in a while.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeWarning {
    pub(crate) above: u64,
    pub(crate) at_most_every: Duration,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) handlers: usize,
    pub(crate) lock: Duration,
    pub(crate) end_of_queue: EndOfQueue,
    pub(crate) start: Start,
    pub(crate) max_batch: usize,
    pub(crate) throttle: Option<Throttle>,
    /// The fixed throttle, for the expected throughput.
    pub(crate) pause: Duration,
    pub(crate) rate: Option<(usize, Duration)>,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) reconnect: (Duration, Duration),
    pub(crate) stop_timeout: Duration,
    pub(crate) cancel_timeout: Duration,
    pub(crate) monitor: Option<Monitor>,
    pub(crate) sample_every: Option<Duration>,
    pub(crate) size_warning: Option<SizeWarning>,
    pub(crate) retries: RetryRules,
    /// Whether a handler's span is a child of the enqueue's, not only linked to it.
    pub(crate) continues_traces: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            handlers: 16,
            lock: Duration::from_secs(30),
            end_of_queue: EndOfQueue::Block(Duration::from_secs(5)),
            start: Start::Automatic,
            max_batch: 512,
            throttle: None,
            pause: Duration::ZERO,
            rate: None,
            response_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(3),
            reconnect: (Duration::from_millis(100), Duration::from_secs(5)),
            stop_timeout: Duration::from_secs(30),
            cancel_timeout: Duration::from_secs(2),
            monitor: None,
            sample_every: None,
            size_warning: None,
            retries: RetryRules::default(),
            continues_traces: false,
        }
    }
}

/// The shortest lock a worker may ask for: shorter ones would be lost to any hiccup.
const SHORTEST_LOCK: Duration = Duration::from_millis(100);

/// More handlers than this are a mistake.
const MOST_HANDLERS: usize = 100_000;

/// More messages in one reply than this are a mistake.
const LARGEST_BATCH: usize = 10_000;

impl Settings {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let rule = |holds: bool, option: &'static str, problem: &'static str| {
            if holds {
                Ok(())
            } else {
                Err(BuildError::InvalidOption { option, problem })
            }
        };
        let hour = Duration::from_secs(3_600);
        let within =
            |value: Duration, least: Duration, most: Duration| value >= least && value <= most;
        let ms = Duration::from_millis;
        rule(
            self.handlers <= MOST_HANDLERS,
            "handlers",
            "has to be at most 100000",
        )?;
        rule(
            within(self.lock, SHORTEST_LOCK, LONGEST),
            "lock",
            "has to be 100 ms to 10 years",
        )?;
        match &self.end_of_queue {
            EndOfQueue::Block(wait) => rule(
                within(*wait, ms(10), hour),
                "end_of_queue",
                "a blocking wait has to be 10 ms to 1 hour",
            )?,
            EndOfQueue::SharedWait(waits) => rule(
                waits.len() <= 5 && waits.iter().all(|wait| within(*wait, ms(1), LONGEST)),
                "end_of_queue",
                "a shared wait takes at most five durations of 1 ms to 10 years",
            )?,
        }
        rule(
            (1..=LARGEST_BATCH).contains(&self.max_batch),
            "max_batch",
            "has to be 1 to 10000",
        )?;
        if let Some((most, period)) = self.rate {
            rule(most > 0, "rate_limit", "has to allow at least one message")?;
            rule(
                within(period, ms(1), LONGEST),
                "rate_limit",
                "the period has to be 1 ms or more",
            )?;
        }
        rule(
            within(self.response_timeout, ms(10), hour),
            "response_timeout",
            "has to be 10 ms to 1 hour",
        )?;
        rule(
            within(self.connect_timeout, ms(10), hour),
            "connect_timeout",
            "has to be 10 ms to 1 hour",
        )?;
        rule(
            self.cancel_timeout <= hour,
            "cancel_timeout",
            "has to be at most 1 hour",
        )?;
        let (least, most) = self.reconnect;
        rule(
            within(least, ms(1), hour) && within(most, least, hour),
            "reconnect_backoff",
            "has to be two rising durations of 1 ms to 1 hour",
        )?;
        if let Some(every) = self.sample_every {
            rule(
                every >= ms(10),
                "sample_queue",
                "has to be at least 10 ms apart",
            )?;
        }
        rule(self.pause <= LONGEST, "throttle", "is longer than 10 years")
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("handlers", &self.handlers)
            .field("lock", &self.lock)
            .field("end_of_queue", &self.end_of_queue)
            .field("start", &self.start)
            .field("attempts", &self.retries.attempts)
            .field("retry_policy", &self.retries.policy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Settings)) -> Option<&'static str> {
        let mut settings = Settings::default();
        change(&mut settings);
        match settings.check() {
            Err(BuildError::InvalidOption { option, .. }) => Some(option),
            _ => None,
        }
    }

    #[test]
    fn the_defaults_hold() {
        assert_eq!(refused(|_| {}), None);
    }

    #[test]
    fn bad_values_are_named() {
        const S: fn(u64) -> Duration = Duration::from_secs;
        assert_eq!(refused(|s| s.handlers = 100_001), Some("handlers"));
        assert_eq!(
            refused(|s| s.lock = Duration::from_millis(99)),
            Some("lock")
        );
        assert_eq!(refused(|s| s.lock = Duration::MAX), Some("lock"));
        let block = |wait| refused(|s| s.end_of_queue = EndOfQueue::Block(wait));
        assert_eq!(block(Duration::ZERO), Some("end_of_queue"));
        assert_eq!(block(S(3_601)), Some("end_of_queue"));
        let shared = |waits| refused(|s| s.end_of_queue = EndOfQueue::SharedWait(waits));
        assert_eq!(shared(vec![S(1); 6]), Some("end_of_queue"));
        assert_eq!(shared(vec![Duration::ZERO]), Some("end_of_queue"));
        assert_eq!(shared(vec![]), None);
        assert_eq!(refused(|s| s.max_batch = 0), Some("max_batch"));
        assert_eq!(refused(|s| s.rate = Some((0, S(1)))), Some("rate_limit"));
        assert_eq!(
            refused(|s| s.rate = Some((1, Duration::ZERO))),
            Some("rate_limit")
        );
        assert_eq!(
            refused(|s| s.response_timeout = Duration::ZERO),
            Some("response_timeout")
        );
        assert_eq!(
            refused(|s| s.connect_timeout = Duration::ZERO),
            Some("connect_timeout")
        );
        assert_eq!(
            refused(|s| s.reconnect = (S(2), S(1))),
            Some("reconnect_backoff")
        );
        assert_eq!(
            refused(|s| s.reconnect.0 = Duration::ZERO),
            Some("reconnect_backoff")
        );
        assert_eq!(
            refused(|s| s.sample_every = Some(Duration::ZERO)),
            Some("sample_queue")
        );
        assert_eq!(refused(|s| s.pause = Duration::MAX), Some("throttle"));
    }
}
