//! When the runs of a schedule are, and what has become of them.

use crate::calendar::Calendar;
use crate::codec::{Damaged, Reader};
use crate::types::{Span, Timestamp};

/// When a schedule runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times<'a> {
    /// In these steps.
    Every(Span),
    /// When a cron expression matches.
    Cron {
        /// Five fields, or six with seconds first.
        expression: &'a [u8],
        /// The name of the time zone that it is read in.
        zone: &'a [u8],
    },
}

/// What to do if the run before is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Leave the new run out. The id of every run is the schedule's name.
    #[default]
    Skip,
    /// Let it wait for the end of the one before; only one waits. The id is the schedule's name.
    After,
    /// Enqueue it. The id is the name, `@` and the instant.
    Allow,
}

impl Overlap {
    /// The word that commands use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skip => "SKIP",
            Self::After => "AFTER",
            Self::Allow => "ALLOW",
        }
    }
}

/// What became of a run whose time had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// A new message.
    Added,
    /// It waits for the end of the run before.
    Requeued,
    /// Left out: the run before is still there.
    Skipped,
    /// Left out: a limit refused it.
    Full,
}

impl RunOutcome {
    const ALL: [Self; 4] = [Self::Added, Self::Requeued, Self::Skipped, Self::Full];

    /// The word that replies use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Requeued => "requeued",
            Self::Skipped => "skipped",
            Self::Full => "full",
        }
    }

    /// Whether a message came of it.
    pub const fn is_run(self) -> bool {
        matches!(self, Self::Added | Self::Requeued)
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let code = usize::from(reader.byte()?);
        let outcome = Self::ALL.get(code).copied();
        outcome.ok_or(Damaged("an unknown outcome of a run"))
    }
}

/// Which instants are runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan<'a> {
    pub times: Times<'a>,
    /// The first, at the earliest.
    pub from: Option<Timestamp>,
    /// The last, at the latest.
    pub until: Option<Timestamp>,
    /// How many, at most.
    pub most: Option<u32>,
}

/// What has become of a schedule so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// None if there is no run to come.
    pub next: Option<Timestamp>,
    /// Runs, as [`Plan::most`] counts them.
    pub counted: u32,
    pub runs: u64,
    pub skipped: u64,
    /// The run whose time came last.
    pub last: Option<(Timestamp, RunOutcome)>,
}

impl Plan<'_> {
    /// Whether the instants, apart from where they end, are the same.
    pub fn has_times_of(&self, other: &Plan<'_>) -> bool {
        self.times == other.times && self.from == other.from
    }

    /// The first run of a schedule that is set at `clock`.
    pub fn first(&self, clock: Timestamp, calendar: &dyn Calendar) -> Option<Timestamp> {
        match (self.times, self.from) {
            (Times::Every(_), Some(from)) if from >= clock => Some(from),
            (Times::Every(every), Some(from)) => in_step(from, every, clock),
            (Times::Every(every), None) => Some(clock.after(every)),
            (Times::Cron { expression, zone }, from) => {
                let before = from.map_or(0, |from| from.millis().saturating_sub(1));
                let after = clock.max(Timestamp::from_millis(before));
                calendar.next(expression, zone, after)
            }
        }
    }

    /// The run behind the one that was due at `last`, which is over at `clock`: those that were missed
    /// meanwhile are left out.
    pub fn following(
        &self,
        last: Timestamp,
        clock: Timestamp,
        calendar: &dyn Calendar,
    ) -> Option<Timestamp> {
        let after = clock.max(last);
        match self.times {
            Times::Every(every) => in_step(last, every, after),
            Times::Cron { expression, zone } => calendar.next(expression, zone, after),
        }
        .filter(|next| *next > last)
    }

    /// The instant, unless the plan has ended by then.
    pub fn unless_ended(&self, next: Option<Timestamp>, counted: u32) -> Option<Timestamp> {
        let is_in_time = |next: &Timestamp| self.until.is_none_or(|until| *next <= until);
        let is_left = self.most.is_none_or(|most| counted < most);
        next.filter(|next| is_left && is_in_time(next))
    }
}

/// The first instant later than `after` of those that lie in steps from `start`, which is not later.
fn in_step(start: Timestamp, every: Span, after: Timestamp) -> Option<Timestamp> {
    let every = every.millis().max(1);
    let steps = start.until(after).millis() / every + 1;
    let ms = start.millis().saturating_add(steps.saturating_mul(every));
    (ms <= Timestamp::MAX.millis()).then_some(Timestamp::from_millis(ms))
}

impl History {
    /// The run that was due has come to this.
    pub fn count(&mut self, due: Timestamp, outcome: RunOutcome) {
        self.last = Some((due, outcome));
        if outcome.is_run() {
            self.runs = self.runs.saturating_add(1);
            self.counted = self.counted.saturating_add(1);
        } else {
            self.skipped = self.skipped.saturating_add(1);
        }
    }
}
