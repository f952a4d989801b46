//! The limits that an operator sets: of a queue, of each of its groups alike, of one group.

use crate::rate::Rate;
use crate::types::Span;

/// What is limited, or paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The queue as a whole.
    Queue,
    /// Each group alike, those that come later too.
    Groups,
    /// One group, whose own limits win over those of [`Scope::Groups`].
    Group(&'a [u8]),
}

/// The limits of a queue; what is none is not limited, or by the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// Messages that are not finished; one more is refused.
    pub length: Option<u64>,
    /// Memory of the queue; what is enqueued beyond it is refused.
    pub bytes: Option<u64>,
    /// Deliveries with a running lock.
    pub inflight: Option<u32>,
    /// Deliveries in a time.
    pub rate: Option<Rate>,
    /// Dead letters that are kept, instead of [`Settings::max_dead`](crate::Settings::max_dead).
    pub dead: Option<u32>,
    /// How long dead letters are kept.
    pub dead_age: Option<Span>,
    /// Deliveries of a message that gives no limit of its own.
    pub attempts: Option<u32>,
    /// How long an empty queue stays, instead of what the server is set to.
    pub idle: Option<Span>,
}

/// The limits of a group, or of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// Messages of the group that are not finished; one more is refused.
    pub length: Option<u64>,
    /// Deliveries with a running lock: 1 keeps the order of the group, through retries too, and is
    /// what holds if nothing is said; [`UNLIMITED`] for any number, of all groups alike only.
    pub inflight: Option<u32>,
    /// Deliveries in a time.
    pub rate: Option<Rate>,
}

impl From<GroupLimits> for QueueLimits {
    fn from(limits: GroupLimits) -> Self {
        Self {
            length: limits.length,
            inflight: limits.inflight,
            rate: limits.rate,
            ..Self::default()
        }
    }
}

impl From<QueueLimits> for GroupLimits {
    fn from(limits: QueueLimits) -> Self {
        Self {
            length: limits.length,
            inflight: limits.inflight,
            rate: limits.rate,
        }
    }
}

/// As many deliveries of a group at once as there are consumers.
pub const UNLIMITED: u32 = 0;

/// What a change of limits does with one of them: nothing if none, take it away, or set it.
pub type Change<T> = Option<Option<T>>;

/// A change of some limits of one [`Scope`]. [`Default`] changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitChanges {
    /// [`QueueLimits::length`], [`GroupLimits::length`].
    pub length: Change<u64>,
    /// [`QueueLimits::bytes`].
    pub bytes: Change<u64>,
    /// [`QueueLimits::inflight`], [`GroupLimits::inflight`].
    pub inflight: Change<u32>,
    /// Deliveries and the span of a rate. The burst stays, where there is one.
    pub rate: Change<(u32, Span)>,
    /// The burst of the rate; 1 again if it is taken away.
    pub burst: Change<u32>,
    /// [`QueueLimits::dead`].
    pub dead: Change<u32>,
    /// [`QueueLimits::dead_age`].
    pub dead_age: Change<Span>,
    /// [`QueueLimits::attempts`].
    pub attempts: Change<u32>,
    /// [`QueueLimits::idle`].
    pub idle: Change<Span>,
}

/// Why limits were not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// There is no such limit of groups.
    NotOfGroups,
    /// A burst, and no rate that it is of.
    BurstWithoutRate,
    /// A limit of zero, but for [`UNLIMITED`].
    Zero,
    /// A group's name is empty or longer than [`MAX_GROUP_BYTES`](crate::MAX_GROUP_BYTES).
    Name,
}

impl LimitChanges {
    /// The limits of a queue after the change.
    pub(crate) fn of_queue(&self, now: &QueueLimits) -> Result<QueueLimits, LimitError> {
        let limits = QueueLimits {
            length: self.length.unwrap_or(now.length),
            bytes: self.bytes.unwrap_or(now.bytes),
            inflight: self.inflight.unwrap_or(now.inflight),
            rate: self.rate(now.rate)?,
            dead: self.dead.unwrap_or(now.dead),
            dead_age: self.dead_age.unwrap_or(now.dead_age),
            attempts: self.attempts.unwrap_or(now.attempts),
            idle: self.idle.unwrap_or(now.idle),
        };
        if limits.is_sound() {
            Ok(limits)
        } else {
            Err(LimitError::Zero)
        }
    }

    /// The limits of groups after the change. Taking away the number in flight `of_all` groups
    /// leaves it unlimited: the order within groups is what holds if nothing was said.
    pub(crate) fn of_groups(
        &self,
        now: &GroupLimits,
        of_all: bool,
    ) -> Result<GroupLimits, LimitError> {
        let others = self.bytes.is_some()
            || self.dead.is_some()
            || self.dead_age.is_some()
            || self.attempts.is_some()
            || self.idle.is_some();
        if others {
            return Err(LimitError::NotOfGroups);
        }
        let given = [
            self.length.flatten(),
            self.inflight.flatten().map(u64::from),
        ];
        if given.contains(&Some(0)) {
            return Err(LimitError::Zero);
        }
        let inflight = match self.inflight {
            Some(None) if of_all => Some(UNLIMITED),
            // What holds if nothing is said needs no saying.
            Some(Some(1)) if of_all => None,
            Some(inflight) => inflight,
            None => now.inflight,
        };
        Ok(GroupLimits {
            length: self.length.unwrap_or(now.length),
            inflight,
            rate: self.rate(now.rate)?,
        })
    }

    fn rate(&self, now: Option<Rate>) -> Result<Option<Rate>, LimitError> {
        let rate = match self.rate {
            None => now,
            Some(None) => None,
            Some(Some((deliveries, span))) => {
                let burst = now.map_or(1, Rate::burst);
                Some(Rate::new(deliveries, span, burst).ok_or(LimitError::Zero)?)
            }
        };
        match (self.burst, rate) {
            (None, rate) | (Some(None), rate @ None) => Ok(rate),
            (Some(Some(_)), None) => Err(LimitError::BurstWithoutRate),
            (Some(Some(0)), _) => Err(LimitError::Zero),
            (Some(burst), Some(rate)) => Ok(Some(rate.with_burst(burst.unwrap_or(1)))),
        }
    }
}

impl QueueLimits {
    /// Whether no limit is zero.
    pub(crate) fn is_sound(&self) -> bool {
        let zero = Some(0);
        let numbers = [
            self.length,
            self.bytes,
            self.inflight.map(u64::from),
            self.dead.map(u64::from),
            self.dead_age.map(Span::millis),
            self.attempts.map(u64::from),
            self.idle.map(Span::millis),
        ];
        !numbers.contains(&zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_millis(1000);

    #[test]
    fn only_what_is_named_changes() {
        let before = QueueLimits {
            length: Some(5),
            dead: Some(7),
            ..QueueLimits::default()
        };
        let changes = LimitChanges {
            length: Some(None),
            inflight: Some(Some(3)),
            ..LimitChanges::default()
        };
        let after = QueueLimits {
            length: None,
            inflight: Some(3),
            ..before
        };
        assert_eq!(changes.of_queue(&before), Ok(after));
        assert_eq!(LimitChanges::default().of_queue(&before), Ok(before));
    }

    #[test]
    fn a_burst_goes_with_its_rate() {
        let set = LimitChanges {
            rate: Some(Some((10, SECOND))),
            burst: Some(Some(4)),
            ..LimitChanges::default()
        };
        let limits = set.of_queue(&QueueLimits::default()).expect("a rate");
        assert_eq!(limits.rate, Rate::new(10, SECOND, 4));
        let faster = LimitChanges {
            rate: Some(Some((20, SECOND))),
            ..LimitChanges::default()
        };
        let limits = faster.of_queue(&limits).expect("a rate");
        assert_eq!(limits.rate, Rate::new(20, SECOND, 4), "the burst stays");
        let burst = |burst| LimitChanges {
            burst: Some(burst),
            ..LimitChanges::default()
        };
        let limits = burst(None).of_queue(&limits).expect("a rate");
        assert_eq!(limits.rate, Rate::new(20, SECOND, 1));
        let none = QueueLimits::default();
        assert_eq!(
            burst(Some(2)).of_queue(&none),
            Err(LimitError::BurstWithoutRate)
        );
        assert_eq!(burst(None).of_queue(&none), Ok(none));
    }

    #[test]
    fn zero_and_limits_that_groups_do_not_have_are_errors() {
        let zero = LimitChanges {
            length: Some(Some(0)),
            ..LimitChanges::default()
        };
        assert_eq!(
            zero.of_queue(&QueueLimits::default()),
            Err(LimitError::Zero)
        );
        assert_eq!(
            zero.of_groups(&GroupLimits::default(), true),
            Err(LimitError::Zero)
        );
        let bytes = LimitChanges {
            bytes: Some(None),
            ..LimitChanges::default()
        };
        let of_groups = bytes.of_groups(&GroupLimits::default(), false);
        assert_eq!(of_groups, Err(LimitError::NotOfGroups));
    }

    #[test]
    fn off_is_unlimited_for_all_groups_and_nothing_of_its_own_for_one() {
        let off = LimitChanges {
            inflight: Some(None),
            ..LimitChanges::default()
        };
        let none = GroupLimits::default();
        let inflight = |of_all| off.of_groups(&none, of_all).map(|limits| limits.inflight);
        assert_eq!(inflight(true), Ok(Some(UNLIMITED)));
        assert_eq!(inflight(false), Ok(None));
    }
}
