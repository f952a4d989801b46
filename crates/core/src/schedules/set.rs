//! MQ.SCHEDULE and MQ.UNSCHEDULE. A deployment says its schedules each time it starts: what is said again
//! changes nothing of when the next run is.

use crate::effects::{Content, Effect, NewTime};
use crate::enqueue::Enqueue;
use crate::id::Key;
use crate::queue::Queue;
use crate::schedules::form::Definition;
use crate::schedules::plan::{History, Overlap, Plan, Times};
use crate::schedules::{
    LEAST_EVERY, MAX_CRON_BYTES, MAX_NAME_BYTES, MAX_NAME_BYTES_ALLOW, MAX_ZONE_BYTES,
};
use crate::turn::Turn;
use crate::types::Timestamp;

/// What is to be enqueued, and when. All instants are by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schedule<'a> {
    /// Its name, of 1 to [`MAX_NAME_BYTES`] bytes, or to [`MAX_NAME_BYTES_ALLOW`] with [`Overlap::Allow`].
    pub name: &'a [u8],
    /// When it runs.
    pub times: Times<'a>,
    /// When it runs first; cron expressions match no earlier.
    pub from: Option<Timestamp>,
    /// When it runs last, at the latest.
    pub until: Option<Timestamp>,
    /// How many runs there are; those that were left out do not count.
    pub most: Option<u32>,
    /// What to do if the run before is still there.
    pub overlap: Overlap,
    /// What each run is. Id, start, and what to do if the id is taken, follow from the schedule.
    pub message: Enqueue<'a>,
}

/// What setting a schedule has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    /// It is new.
    Created,
    /// It has changed.
    Updated,
    /// It is as it was.
    Same,
}

impl ScheduleChange {
    /// The word that replies use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Same => "same",
        }
    }
}

/// The reply to setting a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// What it has done.
    pub change: ScheduleChange,
    /// When the next run is, by the server's clock; none if there is none any more.
    pub next: Option<Timestamp>,
}

/// Why a schedule was refused; nothing changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// Name, expression, zone or step are none.
    OutOfRange,
    /// The expression matches no instant that is to come within ten years, or is not understood.
    NoMatch,
    /// There are as many schedules as may be.
    TooMany,
}

impl<'a> Schedule<'a> {
    /// A schedule of messages with this payload.
    pub fn new(name: &'a [u8], times: Times<'a>, payload: &'a [u8]) -> Self {
        Self {
            name,
            times,
            from: None,
            until: None,
            most: None,
            overlap: Overlap::Skip,
            message: Enqueue::new(payload),
        }
    }

    fn plan(&self) -> Plan<'a> {
        Plan {
            times: self.times,
            from: self.from,
            until: self.until,
            most: self.most,
        }
    }

    fn is_in_range(&self) -> bool {
        let longest = match self.overlap {
            Overlap::Allow => MAX_NAME_BYTES_ALLOW,
            Overlap::Skip | Overlap::After => MAX_NAME_BYTES,
        };
        let can_be = match self.times {
            Times::Every(every) => every >= LEAST_EVERY,
            Times::Cron { expression, zone } => {
                (1..=MAX_CRON_BYTES).contains(&expression.len())
                    && (1..=MAX_ZONE_BYTES).contains(&zone.len())
            }
        };
        can_be && (1..=longest).contains(&self.name.len())
    }
}

impl Queue {
    /// Makes a schedule or replaces the one of its name, if there are fewer than `most` or it is there.
    /// Times that stay the same leave the next run where it is; a run that waits and was not delivered
    /// yet gets the new content.
    ///
    /// # Errors
    /// If it cannot be; nothing changed then.
    pub fn schedule(
        &mut self,
        turn: &mut Turn<'_>,
        request: &Schedule<'_>,
        most: usize,
    ) -> Result<Scheduled, ScheduleError> {
        if !request.is_in_range() {
            return Err(ScheduleError::OutOfRange);
        }
        self.let_time_act(turn);
        let place = self.find_schedule(request.name);
        if place.is_none() && self.schedules_len() >= most {
            return Err(ScheduleError::TooMany);
        }
        let before = place.and_then(|place| Some(self.schedules.as_ref()?.at(place)?.definition()));
        let mut definition = Definition {
            name: request.name,
            plan: request.plan(),
            overlap: request.overlap,
            content: request.message.content(Timestamp::ZERO, Timestamp::ZERO),
            history: History::default(),
        };
        definition.history = definition.plan.history_from(before.as_ref(), turn)?;
        let next = definition.history.next;
        let change = match before {
            None => ScheduleChange::Created,
            Some(before) if written(&before) == written(&definition) => ScheduleChange::Same,
            Some(_) => ScheduleChange::Updated,
        };
        if change != ScheduleChange::Same {
            let is_new_content = before.is_some_and(|before| {
                content_written(&before.content) != content_written(&definition.content)
            });
            self.kinds.scheduled = true;
            self.enter_frame(turn);
            self.emit(turn, &Effect::Schedule { definition });
            self.take_schedule(&definition);
            if is_new_content {
                self.renew_waiting_run(turn, request);
            }
        }
        Ok(Scheduled { change, next })
    }

    /// Gives the run that waits the content of the schedule, unless it was delivered already.
    fn renew_waiting_run(&mut self, turn: &mut Turn<'_>, request: &Schedule<'_>) {
        let key = Key::of(request.name);
        if request.overlap == Overlap::Allow {
            return;
        }
        let Some(slot) = self.find_by_now(turn, &key) else {
            return;
        };
        let message = self.messages.get(slot);
        let is_run = message.scheduled() != Timestamp::ZERO;
        if !(is_run && message.waits() && message.attempts == 0) {
            return;
        }
        let now = turn.now.instant();
        let mut content = request.message.content(now, message.enqueued());
        content.extras.scheduled = message.scheduled();
        let group = content.extras.group;
        if self.group_name(message) != group && self.group_full(group).is_some() {
            return;
        }
        self.enter_frame(turn);
        let time = NewTime::Keep;
        self.emit(turn, &Effect::Update { key, content, time });
        self.update(slot, &content, time);
    }

    /// Takes the schedule of that name away; what it has enqueued stays. False if there is none.
    pub fn unschedule(&mut self, turn: &mut Turn<'_>, name: &[u8]) -> bool {
        self.let_time_act(turn);
        let Some(place) = self.find_schedule(name) else {
            return false;
        };
        self.enter_frame(turn);
        self.emit(turn, &Effect::Unschedule { name });
        self.drop_schedule(place);
        true
    }
}

impl Plan<'_> {
    /// The history that a schedule of this plan begins with, in place of the one before.
    fn history_from(
        &self,
        before: Option<&Definition<'_>>,
        turn: &Turn<'_>,
    ) -> Result<History, ScheduleError> {
        let (clock, calendar) = (turn.clock(), turn.calendar);
        let mut history = before.map_or_else(History::default, |before| before.history);
        let goes_on = before.is_some_and(|before| before.plan.has_times_of(self));
        if !goes_on {
            history.counted = 0;
        }
        let next = match (history.next, history.last) {
            (Some(next), _) if goes_on => Some(next),
            // It had ended, and may end later now.
            (None, Some((last, _))) if goes_on => self.following(last, clock, calendar),
            _ => self.first(clock, calendar),
        };
        // What is said again must not fail because nothing is left of it.
        if next.is_none() && !goes_on {
            return Err(ScheduleError::NoMatch);
        }
        history.next = self.unless_ended(next, history.counted);
        Ok(history)
    }
}

fn written(definition: &Definition<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    definition.write(&mut out);
    out
}

fn content_written(content: &Content<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    content.write(&mut out);
    content.extras.put_fields(&mut out);
    out
}
