//! What a producer may ask for, and what it gets.

use std::time::{Duration, SystemTime};

use redis::Cmd;

use crate::{
    error::{invalid, Error},
    message::{headers::Headers, id::MessageId},
    millis::{millis, unix_millis, LONGEST},
};

/// Options of one enqueue. What is not set is left to the server.
///
/// ```
/// # use std::time::Duration;
/// use redis_mq_client::EnqueueOptions;
///
/// let options = EnqueueOptions::new()
///     .id("invoice:42")
///     .delay(Duration::from_secs(10))
///     .attempts(5)
///     .priority(2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct EnqueueOptions {
    id: Option<MessageId>,
    ready: Ready,
    lock: Option<Duration>,
    attempts: Option<u32>,
    priority: Option<u8>,
    group: Option<Vec<u8>>,
    headers: Option<Headers>,
    ttl: Option<Ttl>,
    join: Option<MessageId>,
    requeue: bool,
    update: bool,
}

/// How long a message may wait, and whether it is then a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ttl {
    time: Duration,
    bury: bool,
}

/// When a message becomes ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Ready {
    #[default]
    AtOnce,
    After(Duration),
    At(SystemTime),
}

impl EnqueueOptions {
    /// No options: an id made by the server, ready at once, no limit of attempts, priority 5.
    pub fn new() -> Self {
        Self::default()
    }

    /// The message's id, 1 to 512 bytes. While a message with that id is live, another one is
    /// refused (see [`Enqueued`](crate::Enqueued)).
    pub fn id(mut self, id: impl Into<MessageId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Ready that long after the server accepted it, at most 10 years. Replaces [`Self::at`].
    pub fn delay(mut self, delay: Duration) -> Self {
        self.ready = Ready::After(delay);
        self
    }

    /// Ready at that time **of the server's clock**; a time in the past is now. Replaces
    /// [`Self::delay`], which does not depend on any clock and is the better choice where it fits.
    pub fn at(mut self, at: SystemTime) -> Self {
        self.ready = Ready::At(at);
        self
    }

    /// How long each delivery of this message is locked, instead of the worker's lock time.
    pub fn lock(mut self, lock: Duration) -> Self {
        self.lock = Some(lock);
        self
    }

    /// How many deliveries the message gets before it is dead; 0 (the default) is no limit.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// 0 (first) to 9 (last); the default is 5.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The group that the message belongs to, 1 to 128 bytes. Groups take turns; one for which
    /// nothing else is [set](crate::Queue::set_group_limits) has one message in flight, and keeps
    /// its order, through retries too.
    pub fn group(mut self, group: impl Into<Vec<u8>>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// What the consumer gets beside the payload, in place of what was set before.
    pub fn headers(mut self, headers: impl Into<Headers>) -> Self {
        self.headers = Some(headers.into());
        self
    }

    /// One more line of [`Headers`].
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.headers = Some(self.headers.unwrap_or_default().with(name, value));
        self
    }

    pub(crate) fn id_given(&self) -> Option<&[u8]> {
        self.id.as_ref().map(MessageId::as_bytes)
    }

    pub(crate) fn group_given(&self) -> Option<&[u8]> {
        self.group.as_deref()
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn current_headers(&self) -> Option<&Headers> {
        self.headers.as_ref()
    }

    /// If no consumer has got the message that long after it was accepted, it goes, and its id is
    /// free. It has to be longer than the delay. Replaces [`Self::ttl_bury`].
    pub fn ttl(mut self, time: Duration) -> Self {
        let bury = false;
        self.ttl = Some(Ttl { time, bury });
        self
    }

    /// If no consumer has got the message that long after it was accepted, it becomes a dead
    /// letter with the reason `expired`. Replaces [`Self::ttl`].
    pub fn ttl_bury(mut self, time: Duration) -> Self {
        let bury = true;
        self.ttl = Some(Ttl { time, bury });
        self
    }

    /// The message joins the batch whose [follow-up](crate::FollowUp) waits under that id, which then
    /// waits for this message too. If none does, nothing is added and the server's reply is an error.
    pub fn join(mut self, follow_up: impl Into<MessageId>) -> Self {
        self.join = Some(follow_up.into());
        self
    }

    /// While the id's message is being handled, or its dedupe window runs, keep this message as a
    /// copy that runs afterwards, instead of refusing it.
    pub fn requeue(mut self) -> Self {
        self.requeue = true;
        self
    }

    /// Replace the payload and the options of a message of that id that no consumer has yet,
    /// instead of refusing. With a delay it also starts the delay anew: that is a debounce.
    pub fn update(mut self) -> Self {
        self.update = true;
        self
    }

    /// `MQ.ENQUEUE` with these options.
    pub(crate) fn command(&self, queue: &[u8], payload: &[u8]) -> Result<Cmd, Error> {
        let mut command = Cmd::with_capacity(16, queue.len() + payload.len() + 96);
        command.arg("MQ.ENQUEUE").arg(queue).arg(payload);
        if let Some(id) = &self.id {
            command.arg("ID").arg(checked_id("id", id)?);
        }
        self.write(&mut command)?;
        Ok(command)
    }

    /// What is wrong with them, if anything is.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(id) = &self.id {
            checked_id("id", id)?;
        }
        self.write(&mut Cmd::new())
    }

    /// Whether they are the same, but for the id: then either both have one, or none has.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let Self {
            id,
            ready,
            lock,
            attempts,
            priority,
            group,
            headers,
            ttl,
            join,
            requeue,
            update,
        } = self;
        (id.is_some(), ready, lock) == (other.id.is_some(), &other.ready, &other.lock)
            && (attempts, priority, group) == (&other.attempts, &other.priority, &other.group)
            && (headers, ttl, join) == (&other.headers, &other.ttl, &other.join)
            && (requeue, update) == (&other.requeue, &other.update)
    }

    /// Adds all but the id to a command.
    pub(crate) fn write(&self, command: &mut Cmd) -> Result<(), Error> {
        match self.ready {
            Ready::AtOnce => {}
            Ready::After(delay) if delay > LONGEST => {
                return Err(invalid("delay", "is longer than 10 years"));
            }
            Ready::After(delay) => {
                command.arg("DELAY").arg(millis(delay));
            }
            Ready::At(at) => {
                command.arg("AT").arg(unix_millis(at));
            }
        }
        self.write_of_message(command)?;
        if let Some(join) = &self.join {
            command.arg("JOIN").arg(checked_id("join", join)?);
        }
        if self.requeue {
            command.arg("REQUEUE");
        }
        if self.update {
            command.arg("UPDATE");
        }
        Ok(())
    }

    /// The options that do not depend on when a message is accepted, or on what has its id already.
    pub(crate) fn write_of_message(&self, command: &mut Cmd) -> Result<(), Error> {
        if let Some(lock) = self.lock {
            if lock.is_zero() || lock > LONGEST {
                return Err(invalid("lock", "has to be 1 ms to 10 years"));
            }
            command.arg("LOCK").arg(millis(lock));
        }
        if let Some(attempts) = self.attempts {
            command.arg("ATTEMPTS").arg(attempts);
        }
        if let Some(priority) = self.priority {
            if priority > 9 {
                return Err(invalid("priority", "has to be 0 to 9"));
            }
            command.arg("PRIORITY").arg(priority);
        }
        if let Some(Ttl { time, bury }) = self.ttl {
            if time.is_zero() || time > LONGEST {
                return Err(invalid("ttl", "has to be 1 ms to 10 years"));
            }
            if matches!(self.ready, Ready::After(delay) if millis(time) <= millis(delay)) {
                return Err(invalid("ttl", "has to be longer than the delay"));
            }
            command.arg("TTL").arg(millis(time));
            if bury {
                command.arg("BURY");
            }
        }
        if let Some(group) = &self.group {
            command.arg("GROUP").arg(checked_group(group)?);
        }
        if let Some(headers) = &self.headers {
            if let Some(problem) = headers.problem() {
                return Err(invalid("headers", problem));
            }
            command.arg("HEADERS").arg(headers.as_bytes());
        }
        Ok(())
    }
}

/// The bytes of an id, if it is one.
pub(crate) fn checked_id<'a>(option: &'static str, id: &'a MessageId) -> Result<&'a [u8], Error> {
    if id.as_bytes().is_empty() || id.as_bytes().len() > 512 {
        return Err(invalid(option, "has to be 1 to 512 bytes long"));
    }
    Ok(id.as_bytes())
}

/// The name of a group, if it is one.
pub(crate) fn checked_group(group: &[u8]) -> Result<&[u8], Error> {
    if group.is_empty() || group.len() > 128 {
        return Err(invalid("group", "has to be 1 to 128 bytes long"));
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::words;

    fn command(options: EnqueueOptions) -> Vec<String> {
        words(&options.command(b"q", b"p").unwrap())
    }

    #[test]
    fn without_options_only_queue_and_payload_are_sent() {
        assert_eq!(command(EnqueueOptions::new()), ["MQ.ENQUEUE", "q", "p"]);
    }

    #[test]
    fn every_option_is_sent_once() {
        let options = EnqueueOptions::new()
            .id("a b")
            .delay(Duration::from_micros(1_500))
            .lock(Duration::from_secs(2))
            .attempts(3)
            .priority(9)
            .ttl(Duration::from_secs(60))
            .ttl_bury(Duration::from_secs(60))
            .group("g")
            .headers("x: 1\n")
            .header("y", "2")
            .join("f")
            .requeue()
            .update();
        assert_eq!(
            command(options),
            [
                "MQ.ENQUEUE",
                "q",
                "p",
                "ID",
                "a b",
                "DELAY",
                "2",
                "LOCK",
                "2000",
                "ATTEMPTS",
                "3",
                "PRIORITY",
                "9",
                "TTL",
                "60000",
                "BURY",
                "GROUP",
                "g",
                "HEADERS",
                "x: 1\ny: 2\n",
                "JOIN",
                "f",
                "REQUEUE",
                "UPDATE"
            ]
        );
    }

    #[test]
    fn the_last_of_delay_and_at_counts() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234);
        let options = EnqueueOptions::new().delay(Duration::from_secs(1)).at(at);
        assert_eq!(
            command(options.clone()),
            ["MQ.ENQUEUE", "q", "p", "AT", "1234"]
        );
        let options = options.delay(Duration::ZERO);
        assert_eq!(command(options), ["MQ.ENQUEUE", "q", "p", "DELAY", "0"]);
    }

    #[test]
    fn values_out_of_range_are_errors_that_name_the_option() {
        let ms = Duration::from_millis;
        for (options, name) in [
            (EnqueueOptions::new().id(""), "id"),
            (EnqueueOptions::new().id(vec![0; 513]), "id"),
            (EnqueueOptions::new().join(""), "join"),
            (EnqueueOptions::new().delay(Duration::MAX), "delay"),
            (EnqueueOptions::new().lock(Duration::ZERO), "lock"),
            (EnqueueOptions::new().lock(Duration::MAX), "lock"),
            (EnqueueOptions::new().priority(10), "priority"),
            (EnqueueOptions::new().ttl(Duration::ZERO), "ttl"),
            (EnqueueOptions::new().ttl_bury(Duration::MAX), "ttl"),
            (EnqueueOptions::new().delay(ms(5)).ttl(ms(5)), "ttl"),
            (EnqueueOptions::new().group(""), "group"),
            (EnqueueOptions::new().group(vec![0; 129]), "group"),
            (EnqueueOptions::new().headers(""), "headers"),
            (EnqueueOptions::new().header("a", "b\n"), "headers"),
        ] {
            match options.command(b"q", b"") {
                Err(Error::InvalidOption { option, .. }) => assert_eq!(option, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
