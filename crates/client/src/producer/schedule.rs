//! What a queue is to enqueue by itself.

use std::time::{Duration, SystemTime};

use redis::Cmd;

use super::options::EnqueueOptions;
use crate::{
    error::{invalid, Error},
    message::headers::Headers,
    millis::{millis, unix_millis, LONGEST},
};

/// The shortest time from one run to the next.
const LEAST_EVERY: Duration = Duration::from_secs(1);

/// When a queue enqueues a message by itself, again and again, and how. See
/// [`Queue::schedule`](crate::Queue::schedule).
///
/// ```
/// # use std::time::Duration;
/// use redis_mq_client::{Overlap, Schedule};
///
/// let every_five_minutes = Schedule::every(Duration::from_secs(300)).overlap(Overlap::After);
/// let at_night = Schedule::cron("30 2 * * MON-FRI").time_zone("Europe/Zurich").attempts(3);
/// # let _ = (every_five_minutes, at_night);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Schedule {
    times: Times,
    time_zone: Option<String>,
    from: Option<SystemTime>,
    until: Option<SystemTime>,
    runs: Option<u32>,
    overlap: Overlap,
    options: EnqueueOptions,
}

/// When it runs, the time zone aside.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Times {
    Every(Duration),
    Cron(String),
}

/// When a schedule runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleTimes {
    /// In these steps.
    Every(Duration),
    /// When an expression matches.
    Cron {
        /// Five fields, or six with seconds first.
        expression: String,
        /// The IANA name of the time zone that it is read in; `None` is UTC.
        time_zone: Option<String>,
    },
}

/// What becomes of a run if the one before is not finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It is left out, and counted as skipped.
    #[default]
    Skip,
    /// It waits for the end of the one before; of several, one waits.
    After,
    /// It runs beside it.
    Allow,
}

impl Schedule {
    fn new(times: Times) -> Self {
        Self {
            times,
            time_zone: None,
            from: None,
            until: None,
            runs: None,
            overlap: Overlap::Skip,
            options: EnqueueOptions::new(),
        }
    }

    /// In steps of that length, a second at least. The first run is one step from now.
    pub fn every(step: Duration) -> Self {
        Self::new(Times::Every(step))
    }

    /// When the expression matches: minute, hour, day of the month, month and day of the week, with
    /// seconds in front if there are six fields, or a word such as `@daily`. In UTC, unless a
    /// [`time_zone`](Self::time_zone) is set.
    pub fn cron(expression: impl Into<String>) -> Self {
        Self::new(Times::Cron(expression.into()))
    }

    /// The IANA name of the time zone that the expression is read in, as `Europe/Zurich`. The server
    /// knows the zones and their changes.
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = Some(name.into());
        self
    }

    /// No run before that instant; steps begin with it, and go in step with it if it has passed.
    pub fn from(mut self, first: SystemTime) -> Self {
        self.from = Some(first);
        self
    }

    /// No run after that instant.
    pub fn until(mut self, last: SystemTime) -> Self {
        self.until = Some(last);
        self
    }

    /// That many runs, then none; runs that were left out do not count.
    pub fn times(mut self, runs: u32) -> Self {
        self.runs = Some(runs);
        self
    }

    /// What becomes of a run if the one before is not finished.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// [`EnqueueOptions::lock`] of each run.
    pub fn lock(mut self, lock: Duration) -> Self {
        self.options = self.options.lock(lock);
        self
    }

    /// [`EnqueueOptions::attempts`] of each run.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.options = self.options.attempts(attempts);
        self
    }

    /// [`EnqueueOptions::priority`] of each run.
    pub fn priority(mut self, priority: u8) -> Self {
        self.options = self.options.priority(priority);
        self
    }

    /// [`EnqueueOptions::group`] of each run.
    pub fn group(mut self, group: impl Into<Vec<u8>>) -> Self {
        self.options = self.options.group(group);
        self
    }

    /// [`EnqueueOptions::headers`] of each run.
    pub fn headers(mut self, headers: impl Into<Headers>) -> Self {
        self.options = self.options.headers(headers);
        self
    }

    /// [`EnqueueOptions::header`] of each run.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.options = self.options.header(name, value);
        self
    }

    /// [`EnqueueOptions::ttl`] of each run.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.options = self.options.ttl(time);
        self
    }

    /// [`EnqueueOptions::ttl_bury`] of each run.
    pub fn ttl_bury(mut self, time: Duration) -> Self {
        self.options = self.options.ttl_bury(time);
        self
    }

    /// `MQ.SCHEDULE` of that name.
    pub(crate) fn command(&self, queue: &[u8], name: &[u8], payload: &[u8]) -> Result<Cmd, Error> {
        let mut command = Cmd::with_capacity(24, queue.len() + name.len() + payload.len() + 128);
        command.arg("MQ.SCHEDULE").arg(queue);
        command.arg(checked_name(name)?).arg(payload);
        match &self.times {
            Times::Every(_) if self.time_zone.is_some() => {
                return Err(invalid("time_zone", "is for cron expressions only"));
            }
            Times::Every(step) if *step < LEAST_EVERY || *step > LONGEST => {
                return Err(invalid("every", "has to be 1 s to 10 years"));
            }
            Times::Every(step) => {
                command.arg("EVERY").arg(millis(*step));
            }
            Times::Cron(expression) => {
                if expression.is_empty() || expression.len() > 512 {
                    return Err(invalid("cron", "has to be 1 to 512 bytes long"));
                }
                command.arg("CRON").arg(expression);
                if let Some(zone) = &self.time_zone {
                    if zone.is_empty() || zone.len() > 64 {
                        return Err(invalid("time_zone", "has to be 1 to 64 bytes long"));
                    }
                    command.arg("TZ").arg(zone);
                }
            }
        }
        if let Some(first) = self.from {
            command.arg("FROM").arg(unix_millis(first));
        }
        if let Some(last) = self.until {
            command.arg("UNTIL").arg(unix_millis(last));
        }
        match self.runs {
            Some(0) => return Err(invalid("times", "has to be at least 1")),
            Some(runs) => {
                command.arg("TIMES").arg(runs);
            }
            None => {}
        }
        if self.overlap != Overlap::Skip {
            command.arg("OVERLAP").arg(self.overlap.as_str());
        }
        self.options.write_of_message(&mut command)?;
        Ok(command)
    }
}

impl Overlap {
    pub(crate) const ALL: [Self; 3] = [Self::Skip, Self::After, Self::Allow];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "SKIP",
            Self::After => "AFTER",
            Self::Allow => "ALLOW",
        }
    }
}

/// The name of a schedule, if it is one.
pub(crate) fn checked_name(name: &[u8]) -> Result<&[u8], Error> {
    if name.is_empty() || name.len() > 512 {
        return Err(invalid("name", "has to be 1 to 512 bytes long"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::words;

    fn command(schedule: &Schedule) -> Vec<String> {
        words(&schedule.command(b"q", b"n", b"p").unwrap())
    }

    #[test]
    fn without_options_only_the_times_are_sent() {
        let every = Schedule::every(Duration::from_secs(60));
        let expected = ["MQ.SCHEDULE", "q", "n", "p", "EVERY", "60000"];
        assert_eq!(command(&every), expected);
        let expected = ["MQ.SCHEDULE", "q", "n", "p", "CRON", "@daily"];
        assert_eq!(command(&Schedule::cron("@daily")), expected);
    }

    #[test]
    fn every_option_is_sent_once() {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let schedule = Schedule::cron("0 9 * * *")
            .time_zone("Asia/Tokyo")
            .from(at(1))
            .until(at(2))
            .times(3)
            .overlap(Overlap::Allow)
            .lock(Duration::from_secs(2))
            .attempts(4)
            .priority(5)
            .ttl(Duration::from_secs(6))
            .group("g")
            .header("a", "b");
        assert_eq!(
            command(&schedule)[4..].join("|"),
            "CRON|0 9 * * *|TZ|Asia/Tokyo|FROM|1|UNTIL|2|TIMES|3|OVERLAP|ALLOW|LOCK|2000|\
             ATTEMPTS|4|PRIORITY|5|TTL|6000|GROUP|g|HEADERS|a: b\n"
        );
    }

    #[test]
    fn values_out_of_range_are_errors_that_name_the_option() {
        let every = || Schedule::every(Duration::from_secs(1));
        for (schedule, name) in [
            (Schedule::every(Duration::from_millis(999)), "every"),
            (Schedule::every(Duration::MAX), "every"),
            (Schedule::cron(""), "cron"),
            (Schedule::cron("@daily").time_zone(""), "time_zone"),
            (every().time_zone("UTC"), "time_zone"),
            (every().times(0), "times"),
            (every().priority(10), "priority"),
        ] {
            match schedule.command(b"q", b"n", b"") {
                Err(Error::InvalidOption { option, .. }) => assert_eq!(option, name),
                other => panic!("{name}: {other:?}"),
            }
        }
        for name in [&b""[..], &[b'n'; 513]] {
            assert!(every().command(b"q", name, b"").is_err());
        }
    }
}
