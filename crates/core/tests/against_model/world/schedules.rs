//! MQ.SCHEDULE, MQ.UNSCHEDULE, MQ.FIRE and MQ.SCHEDULES.

use redis_mq_core::{
    Calendar, Overlap, Queue, Schedule, ScheduleView, Span, Start, Times, Timestamp,
};

use super::replica::Command;
use super::step::{self, Clock};
use super::{World, POOL};
use crate::model::{self, Ms, Past};

/// More than there are names, so that some are refused.
const MOST: usize = 2;

/// Names that are ids of messages too, and one that is none.
pub const NAMES: [&[u8]; 3] = [POOL[0], POOL[1], b"every so often"];

/// Expressions are numbers and match multiples of them, shifted by the number that is the zone.
#[derive(Debug)]
pub struct Numbers;

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Calendar for Numbers {
    fn next(&self, expression: &[u8], zone: &[u8], after: Timestamp) -> Option<Timestamp> {
        let times = model::Times::Matches(number(expression)?, number(zone)?);
        times.after(0, after.millis()).map(Timestamp::from_millis)
    }
}

impl World {
    /// What the server's clock shows.
    pub fn server_clock(&self) -> Timestamp {
        Timestamp::from_millis(self.model.clock(self.now()))
    }

    /// The server's clock is set, and the queue's time goes on.
    pub fn set_clock(&mut self, by: i64) {
        self.model.clock_is_ahead += by;
    }

    pub fn pass_time(&mut self, clock: &Clock) {
        let run = self.model.next_run();
        let run = run.map(|at| at.saturating_add_signed(-self.model.clock_is_ahead));
        let next = [self.model.next_due(), run].into_iter().flatten().min();
        self.now_us = clock.after(self.now_us, next);
    }

    pub fn schedule(&mut self, schedule: &step::Schedule) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        let (expression, zone) = match schedule.times {
            model::Times::Every(_) => (String::new(), String::new()),
            model::Times::Matches(every, offset) => (every.to_string(), offset.to_string()),
        };
        let times = match schedule.times {
            model::Times::Every(ms) => Times::Every(Span::from_millis(ms)),
            model::Times::Matches(..) => Times::Cron {
                expression: expression.as_bytes(),
                zone: zone.as_bytes(),
            },
        };
        let instant = |ms: Option<Ms>| ms.map(Timestamp::from_millis);
        let message = &schedule.message;
        let request = |name| {
            let mut request = Schedule::new(name, times, b"");
            request.from = instant(schedule.from);
            request.until = instant(schedule.until);
            request.most = schedule.most;
            request.overlap = schedule.overlap;
            request.message = message.request(None);
            request.message.start = Start::Default;
            (request.message.requeue, request.message.update) = (false, false);
            request
        };
        let name = NAMES[schedule.name];
        self.turn(
            Command::Other,
            |queue, turn| queue.schedule(turn, &request(name), MOST),
            |model, reply| {
                model.act(now, max_dead);
                let schedule = model::Schedule {
                    name: name.to_vec(),
                    times: schedule.times,
                    from: schedule.from,
                    until: schedule.until,
                    most: schedule.most,
                    overlap: schedule.overlap,
                    item: message.model_request(0).item,
                    past: Past::default(),
                };
                let reply = reply.map(|set| (set.change.name(), set.next.map(Timestamp::millis)));
                let expected = model.schedule(now, schedule, MOST);
                assert_eq!(reply.map_err(|_| ()), expected);
            },
        );
    }

    pub fn unschedule(&mut self, name: usize) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        self.turn(
            Command::Other,
            |queue, turn| queue.unschedule(turn, NAMES[name]),
            |model, reply| {
                model.act(now, max_dead);
                assert_eq!(reply, model.unschedule(NAMES[name]));
            },
        );
    }

    pub fn fire(&mut self, name: usize) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        self.turn(
            Command::Other,
            |queue, turn| {
                queue.fire(turn, NAMES[name], |fired| {
                    (fired.outcome, fired.id.bytes().to_vec())
                })
            },
            |model, reply| {
                model.act(now, max_dead);
                assert_eq!(reply, model.fire(now, NAMES[name]));
            },
        );
    }

    pub fn compare_schedules(&self, queue: &Queue) {
        let (mut all, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = queue.schedule_views(cursor, 1, |view| all.push(shown(view)));
            if cursor == 0 {
                break;
            }
        }
        all.sort();
        let mut expected: Vec<_> = self.model.schedules.iter().map(expected).collect();
        expected.sort();
        assert_eq!(all, expected);
        let next = self.model.next_run().map(Timestamp::from_millis);
        assert_eq!(queue.next_run(), next);
        let info = queue.info(self.clock());
        assert_eq!(info.schedules, expected.len());
    }
}

/// A schedule as MQ.SCHEDULES shows it.
type Shown = (Vec<u8>, String, Vec<u8>);

fn told(all: impl std::fmt::Debug, overlap: Overlap) -> String {
    format!("{all:?} {}", overlap.name())
}

fn shown(view: &ScheduleView<'_>) -> Shown {
    let times = match view.times {
        Times::Every(every) => model::Times::Every(every.millis()),
        Times::Cron { expression, zone } => model::Times::Matches(
            number(expression).expect("a number"),
            number(zone).expect("a number"),
        ),
    };
    let ms = |instant: Option<Timestamp>| instant.map(Timestamp::millis);
    let last = view.last.map(|(at, outcome)| (at.millis(), outcome.name()));
    let plan = (times, ms(view.from), ms(view.until), view.most);
    let past = (ms(view.next), last, view.runs, view.skipped);
    let told = told((plan, past), view.overlap);
    (view.name.to_vec(), told, view.payload.to_vec())
}

fn expected(one: &model::Schedule) -> Shown {
    let past = &one.past;
    let plan = (one.times, one.from, one.until, one.most);
    let past = (past.next, past.last, past.runs, past.skipped);
    let told = told((plan, past), one.overlap);
    (one.name.clone(), told, one.item.payload.clone())
}
