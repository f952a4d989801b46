//! The limits of queues and of groups, as `MQ.LIMIT` sets and shows them.

use std::time::Duration;

use redis::{Cmd, Value};

use super::options::checked_group;
use crate::{
    error::{invalid, Error},
    millis::{millis, LONGEST},
    reply::{fields, text, unsigned},
    sharded::share,
};

/// How many deliveries may begin in a time: one every `period / deliveries`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub deliveries: u32,
    /// In which time.
    pub period: Duration,
}

impl Rate {
    /// So many deliveries in that time.
    pub const fn new(deliveries: u32, period: Duration) -> Self {
        Self { deliveries, period }
    }
}

/// The limits that hold for a queue. `None` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLimits {
    /// Messages that are not finished. One more is refused with [`Error::Full`].
    pub length: Option<u64>,
    /// The queue's memory in bytes, dead letters included, when a message is enqueued.
    pub bytes: Option<u64>,
    /// Messages with consumers at a time.
    pub in_flight: Option<u64>,
    /// Deliveries in a time.
    pub rate: Option<Rate>,
    /// How many deliveries the rate lets begin at once after a pause.
    pub burst: Option<u64>,
    /// Dead letters that are kept; `None` is the server's setting.
    pub dead: Option<u64>,
    /// Deliveries of a message that has no limit of its own, before it is dead.
    pub attempts: Option<u32>,
}

/// The limits that hold for a group, or for each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupLimits {
    /// Messages that are not finished. One more is refused with [`Error::Full`].
    pub length: Option<u64>,
    /// Messages with consumers at a time; `None` is not set, and then it is one.
    pub in_flight: Option<InFlight>,
    /// Deliveries in a time.
    pub rate: Option<Rate>,
    /// How many deliveries the rate lets begin at once after a pause.
    pub burst: Option<u64>,
}

/// How many messages of a group may be with consumers at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InFlight {
    /// So many. With 1 the group keeps its order.
    AtMost(u64),
    /// Any number.
    Unlimited,
}

/// Which groups a limit is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GroupSelection {
    /// Each group alike.
    Each,
    /// The one of that name; its own limits win.
    One(Vec<u8>),
}

impl<G: AsRef<[u8]>> From<G> for GroupSelection {
    fn from(group: G) -> Self {
        Self::One(group.as_ref().to_vec())
    }
}

impl GroupSelection {
    pub(crate) fn write(&self, command: &mut Cmd) -> Result<(), Error> {
        match self {
            Self::Each => command.arg("GROUPS"),
            Self::One(group) => command.arg("GROUP").arg(checked_group(group)?),
        };
        Ok(())
    }
}

/// Limits to set: each that is named, and no other. `None` takes one away.
///
/// ```
/// # use std::time::Duration;
/// use redis_mq_client::{LimitChanges, Rate};
///
/// let changes = LimitChanges::new()
///     .length(100_000)
///     .rate(Rate::new(50, Duration::from_secs(1)))
///     .in_flight(None);
/// # let _ = changes;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct LimitChanges {
    numbers: Vec<(&'static str, Option<u64>)>,
    rate: Option<Option<Rate>>,
}

impl LimitChanges {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn number(mut self, name: &'static str, value: Option<u64>) -> Self {
        self.numbers.retain(|(there, _)| *there != name);
        self.numbers.push((name, value));
        self
    }

    /// Messages that are not finished: one more is refused with [`Error::Full`]. Of queues and
    /// groups.
    pub fn length(self, messages: impl Into<Option<u32>>) -> Self {
        self.number("LENGTH", messages.into().map(u64::from))
    }

    /// The queue's memory, as `MEMORY USAGE` counts it: while it is more, messages are refused
    /// with [`Error::Full`]. Of queues.
    pub fn bytes(self, bytes: impl Into<Option<u64>>) -> Self {
        self.number("BYTES", bytes.into())
    }

    /// Messages with consumers at a time. Of queues, where `None` is no limit, and of groups:
    /// without a limit of each a group has one, without one of its own it has that of each.
    pub fn in_flight(self, messages: impl Into<Option<u32>>) -> Self {
        self.number("INFLIGHT", messages.into().map(u64::from))
    }

    /// Deliveries in a time. Of queues and groups.
    pub fn rate(mut self, rate: impl Into<Option<Rate>>) -> Self {
        self.rate = Some(rate.into());
        self
    }

    /// With a rate: how many deliveries may begin at once after a pause; 1 if not set. Of queues
    /// and groups.
    pub fn burst(self, deliveries: impl Into<Option<u32>>) -> Self {
        self.number("BURST", deliveries.into().map(u64::from))
    }

    /// Dead letters that are kept, in place of the server's setting. Of queues.
    pub fn dead(self, letters: impl Into<Option<u32>>) -> Self {
        self.number("DEAD", letters.into().map(u64::from))
    }

    /// Deliveries of a message that has no limit of its own, before it is dead. Of queues.
    pub fn attempts(self, deliveries: impl Into<Option<u32>>) -> Self {
        self.number("ATTEMPTS", deliveries.into().map(u64::from))
    }

    /// What one of so many shards gets of limits of a whole queue.
    pub(crate) fn share(&self, index: usize, shards: usize) -> Result<Self, Error> {
        let mut own = self.clone();
        for (name, value) in &mut own.numbers {
            let Some(value) = value else {
                continue;
            };
            match *name {
                "LENGTH" | "BYTES" | "INFLIGHT" | "DEAD" => {
                    if *value < shards as u64 {
                        let problem = "have to be at least one for each shard";
                        return Err(invalid("limits", problem));
                    }
                    *value = share(*value, index, shards);
                }
                // At least one each: it is what a rate begins with.
                "BURST" => *value = share(*value, index, shards).max(1),
                // Those of a message.
                _ => {}
            }
        }
        if let Some(Some(rate)) = &mut own.rate {
            // As many in a longer time: the same for each shard, without a rest.
            let shards = u32::try_from(shards).unwrap_or(u32::MAX);
            rate.period = rate.period.saturating_mul(shards);
        }
        Ok(own)
    }

    /// Adds them to `MQ.LIMIT queue …`, for groups if `groups`.
    pub(crate) fn write(&self, command: &mut Cmd, groups: bool) -> Result<(), Error> {
        if self == &Self::default() {
            return Err(invalid("limits", "have to name at least one"));
        }
        for (name, value) in &self.numbers {
            let of_queue_alone = matches!(*name, "BYTES" | "DEAD" | "ATTEMPTS");
            if groups && of_queue_alone {
                return Err(invalid(
                    "limits",
                    "of groups are length, in_flight, rate and burst",
                ));
            }
            if *value == Some(0) {
                return Err(invalid("limits", "have to be at least 1"));
            }
            command.arg(*name);
            match value {
                Some(value) => command.arg(*value),
                None => command.arg("OFF"),
            };
        }
        match self.rate {
            None => {}
            Some(None) => {
                command.arg("RATE").arg("OFF");
            }
            Some(Some(Rate { deliveries, period })) => {
                if deliveries == 0 || period.is_zero() || period > LONGEST {
                    return Err(invalid(
                        "rate",
                        "has to allow deliveries, in 1 ms to 10 years",
                    ));
                }
                command.arg("RATE").arg(deliveries).arg(millis(period));
            }
        }
        Ok(())
    }
}

fn rate(value: Value) -> Option<Rate> {
    let Value::Array(numbers) = value else {
        return None;
    };
    let mut numbers = numbers.iter().map(unsigned);
    let (deliveries, ms) = (numbers.next()??, numbers.next()??);
    Some(Rate {
        deliveries: deliveries.try_into().ok()?,
        period: Duration::from_millis(ms),
    })
}

impl QueueLimits {
    /// Fields that are missing, or that this version does not know, are left alone.
    pub(crate) fn from_reply(reply: Value) -> Option<Self> {
        let mut limits = Self::default();
        for (name, value) in fields(reply)? {
            match name.as_str() {
                "length" => limits.length = unsigned(&value),
                "bytes" => limits.bytes = unsigned(&value),
                "inflight" => limits.in_flight = unsigned(&value),
                "rate" => limits.rate = rate(value),
                "burst" => limits.burst = unsigned(&value),
                "dead" => limits.dead = unsigned(&value),
                "attempts" => {
                    limits.attempts = unsigned(&value).and_then(|n| u32::try_from(n).ok());
                }
                _ => {}
            }
        }
        Some(limits)
    }
}

impl GroupLimits {
    /// As [`QueueLimits::from_reply`].
    pub(crate) fn from_reply(reply: Value) -> Option<Self> {
        let mut limits = Self::default();
        for (name, value) in fields(reply)? {
            match name.as_str() {
                "length" => limits.length = unsigned(&value),
                "inflight" => {
                    let off = text(&value).is_some_and(|word| word == "off");
                    limits.in_flight = match off {
                        true => Some(InFlight::Unlimited),
                        false => unsigned(&value).map(InFlight::AtMost),
                    };
                }
                "rate" => limits.rate = rate(value),
                "burst" => limits.burst = unsigned(&value),
                _ => {}
            }
        }
        Some(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::words;

    fn sent(changes: &LimitChanges, groups: bool) -> Result<Vec<String>, Error> {
        let mut command = Cmd::new();
        changes.write(&mut command, groups)?;
        Ok(words(&command))
    }

    #[test]
    fn each_limit_is_sent_once_and_none_takes_it_away() {
        let changes = LimitChanges::new()
            .length(1)
            .length(2)
            .bytes(3)
            .in_flight(None)
            .dead(4)
            .attempts(5)
            .burst(6)
            .rate(Rate::new(7, Duration::from_secs(1)));
        let words = "LENGTH 2 BYTES 3 INFLIGHT OFF DEAD 4 ATTEMPTS 5 BURST 6 RATE 7 1000";
        let words: Vec<_> = words.split(' ').collect();
        assert_eq!(sent(&changes, false).unwrap(), words);
        let off = LimitChanges::new().rate(None);
        assert_eq!(sent(&off, true).unwrap(), ["RATE", "OFF"]);
    }

    #[test]
    fn the_limits_of_a_whole_are_shared_out() {
        let whole = LimitChanges::new()
            .length(10)
            .bytes(1_000)
            .in_flight(4)
            .dead(None)
            .attempts(5)
            .burst(2)
            .rate(Rate::new(7, Duration::from_secs(1)));
        let words = |index| sent(&whole.share(index, 4).unwrap(), false).unwrap();
        let first = "LENGTH 3 BYTES 250 INFLIGHT 1 DEAD OFF ATTEMPTS 5 BURST 1 RATE 7 4000";
        assert_eq!(words(0), first.split(' ').collect::<Vec<_>>());
        assert_eq!(words(3)[1], "2");
        assert!(whole.share(0, 5).is_err(), "4 in flight over 5 shards");
    }

    #[test]
    fn what_cannot_be_a_limit_is_an_error() {
        let none = LimitChanges::new();
        assert!(sent(&none, false).is_err());
        assert!(sent(&none.clone().length(0), false).is_err());
        assert!(sent(&none.clone().attempts(1), true).is_err());
        let rate = |deliveries, period| none.clone().rate(Rate::new(deliveries, period));
        assert!(sent(&rate(0, Duration::from_secs(1)), false).is_err());
        assert!(sent(&rate(1, Duration::ZERO), false).is_err());
        assert!(sent(&rate(1, Duration::MAX), false).is_err());
    }
}
