//! Schedules: each in turn, one run for however many instants have passed.

use redis_mq_core::{Outcome, Overlap, Status};

use super::{Item, Model, Ms, Request, Start};

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub name: Vec<u8>,
    pub times: Times,
    pub from: Option<Ms>,
    pub until: Option<Ms>,
    pub most: Option<u32>,
    pub overlap: Overlap,
    pub item: Item,
    pub past: Past,
}

/// Instants by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Times {
    Every(Ms),
    /// When the clock is so much above a multiple of the first number; never if that is 0.
    Matches(Ms, Ms),
}

/// What has become of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    pub next: Option<Ms>,
    pub last: Option<(Ms, &'static str)>,
    pub runs: u64,
    pub skipped: u64,
    /// Runs since it got its times.
    counted: u32,
}

impl Times {
    /// The first instant after this one, of those that match or lie in steps from `start`.
    pub fn after(self, start: Ms, after: Ms) -> Option<Ms> {
        let (every, start) = match self {
            Self::Every(every) => (every, start),
            Self::Matches(0, _) => return None,
            Self::Matches(every, offset) => (every, offset % every),
        };
        let mut next = start;
        if next <= after {
            next += (after - next) / every * every;
        }
        while next <= after {
            next += every;
        }
        Some(next)
    }
}

impl Schedule {
    fn first(&self, clock: Ms) -> Option<Ms> {
        match (self.times, self.from) {
            (Times::Every(every), None) => Some(clock + every),
            (Times::Every(_), Some(from)) if from >= clock => Some(from),
            (times, Some(from)) => times.after(from, clock.max(from.saturating_sub(1))),
            (times, None) => times.after(0, clock),
        }
    }

    /// Where it stands after one of the same name, at that time of the server.
    fn go_on(&mut self, before: Option<&Schedule>, clock: Ms) -> Result<(), ()> {
        let same = before.filter(|old| (old.times, old.from) == (self.times, self.from));
        self.past = before.map(|old| old.past.clone()).unwrap_or_default();
        self.past.next = match (same, self.past.next, self.past.last) {
            (Some(_), Some(next), _) => Some(next),
            (Some(_), None, Some((last, _))) => self.times.after(last, clock.max(last)),
            (Some(_), None, None) => self.first(clock),
            (None, ..) => {
                self.past.counted = 0;
                Some(self.first(clock).ok_or(())?)
            }
        };
        self.end();
        Ok(())
    }

    /// There is no next run if it is not to be.
    fn end(&mut self) {
        let is_late = |next: Ms| self.until.is_some_and(|until| next > until);
        let is_enough = self.most.is_some_and(|most| self.past.counted >= most);
        if is_enough || self.past.next.is_some_and(is_late) {
            self.past.next = None;
        }
    }

    fn id(&self, instant: Ms) -> Vec<u8> {
        let mut id = self.name.clone();
        if self.overlap == Overlap::Allow {
            id.extend(format!("@{instant}").bytes());
        }
        id
    }
}

impl Model {
    /// What the server's clock shows: queues do not go by it.
    pub fn clock(&self, now: Ms) -> Ms {
        now.saturating_add_signed(self.clock_is_ahead)
    }

    pub fn next_run(&self) -> Option<Ms> {
        self.schedules.iter().filter_map(|one| one.past.next).min()
    }

    fn find_schedule(&self, name: &[u8]) -> Option<usize> {
        self.schedules.iter().position(|one| one.name == name)
    }

    /// Each schedule whose time has come runs once.
    pub fn begin_runs(&mut self, now: Ms) {
        let clock = self.clock(now);
        loop {
            let all = (0..self.schedules.len()).filter_map(|at| {
                Some((self.schedules[at].past.next?, &self.schedules[at].name, at))
            });
            let Some((due, _, at)) = all.filter(|(due, ..)| *due <= clock).min() else {
                return;
            };
            let outcome = match self.run(now, at, due) {
                Outcome::Added => "added",
                Outcome::Requeued => "requeued",
                Outcome::Refused(_) => "skipped",
                other => unreachable!("{other:?}"),
            };
            let schedule = &mut self.schedules[at];
            let past = &mut schedule.past;
            past.last = Some((due, outcome));
            if outcome == "skipped" {
                past.skipped += 1;
            } else {
                past.runs += 1;
                past.counted += 1;
            }
            past.next = schedule.times.after(due, clock);
            schedule.end();
        }
    }

    /// Enqueues what the schedule enqueues for that instant.
    fn run(&mut self, now: Ms, at: usize, instant: Ms) -> Outcome {
        let schedule = &self.schedules[at];
        let (id, requeue) = (schedule.id(instant), schedule.overlap == Overlap::After);
        let item = Item {
            enqueued: now,
            scheduled: instant,
            ..schedule.item.clone()
        };
        let (start, update) = (Start::NotGiven, false);
        let request = Request {
            item,
            start,
            requeue,
            update,
        };
        self.enqueue(now, &id, request, None)
    }

    /// MQ.SCHEDULE. Time has acted.
    pub fn schedule(
        &mut self,
        now: Ms,
        mut schedule: Schedule,
        most: usize,
    ) -> Result<(&'static str, Option<Ms>), ()> {
        let clock = self.clock(now);
        let Some(at) = self.find_schedule(&schedule.name) else {
            if self.schedules.len() >= most {
                return Err(());
            }
            schedule.go_on(None, clock)?;
            let next = schedule.past.next;
            self.schedules.push(schedule);
            return Ok(("created", next));
        };
        let before = self.schedules[at].clone();
        schedule.go_on(Some(&before), clock)?;
        if schedule == before {
            return Ok(("same", before.past.next));
        }
        let next = schedule.past.next;
        if schedule.item != before.item && schedule.overlap != Overlap::Allow {
            self.renew(now, &schedule);
        }
        self.schedules[at] = schedule;
        Ok(("updated", next))
    }

    /// The run that waits, and was not delivered yet, gets the new content.
    fn renew(&mut self, now: Ms, schedule: &Schedule) {
        let Some(at) = self.find(&schedule.name) else {
            return;
        };
        let run = &self.live[at];
        let waits = matches!(run.status(), Status::Queued | Status::QueuedWithBackoff);
        if waits && run.attempts == 0 && run.item.scheduled != 0 {
            let item = Item {
                scheduled: run.item.scheduled,
                ..schedule.item.clone()
            };
            self.updates += 1;
            self.update(at, now, item, Start::NotGiven);
        }
    }

    /// MQ.UNSCHEDULE. Time has acted.
    pub fn unschedule(&mut self, name: &[u8]) -> bool {
        let at = self.find_schedule(name);
        at.map(|at| self.schedules.remove(at)).is_some()
    }

    /// MQ.FIRE. Time has acted.
    pub fn fire(&mut self, now: Ms, name: &[u8]) -> Option<(Outcome, Vec<u8>)> {
        let at = self.find_schedule(name)?;
        let instant = self.clock(now);
        let id = self.schedules[at].id(instant);
        Some((self.run(now, at, instant), id))
    }
}
