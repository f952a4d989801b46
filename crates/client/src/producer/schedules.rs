//! What the server tells of schedules.

use std::time::{Duration, SystemTime};

use redis::Value;

use super::{
    info::instant,
    schedule::{Overlap, ScheduleTimes},
};
use crate::reply::{bytes, fields, text, unsigned};

/// What setting a schedule has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheduled {
    /// Whether it is new, or has changed.
    pub change: ScheduleChange,
    /// When the next run is, on the server's clock; `None` if there is none any more.
    pub next: Option<SystemTime>,
}

/// What has become of a schedule that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduleChange {
    /// It is new.
    Created,
    /// It was there, and is another now.
    Updated,
    /// It was there as it is.
    Same,
}

/// Some of the schedules of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulesPage {
    /// These schedules.
    pub schedules: Vec<ScheduleInfo>,
    /// Where to go on; `None` if these were the last.
    pub next: Option<u64>,
}

/// A schedule, and what it did. Instants are those of the server's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: Vec<u8>,
    /// When it runs; `None` is something that this version does not know.
    pub times: Option<ScheduleTimes>,
    /// The first run at the earliest.
    pub from: Option<SystemTime>,
    /// The last run at the latest.
    pub until: Option<SystemTime>,
    /// How many runs there are; `None` is no limit.
    pub most: Option<u64>,
    /// What becomes of a run if the one before is not finished.
    pub overlap: Option<Overlap>,
    /// The next run; `None` if there is none any more.
    pub next: Option<SystemTime>,
    /// The run whose time came last.
    pub last: Option<SystemTime>,
    /// What became of that.
    pub last_outcome: Option<RunOutcome>,
    /// Runs that were enqueued.
    pub runs: u64,
    /// Runs that were left out.
    pub skipped: u64,
    /// What each run carries, as bytes.
    pub payload: Vec<u8>,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// It was enqueued.
    Added,
    /// It waits for the end of the run before.
    Requeued,
    /// The run before was still there.
    Skipped,
    /// A limit of the queue refused it.
    Full,
}

/// What [`Queue::sync_schedules`](crate::Queue::sync_schedules) has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncedSchedules {
    /// What became of each, in their order.
    pub set: Vec<Scheduled>,
    /// The names of those that were removed.
    pub removed: Vec<Vec<u8>>,
}

impl Scheduled {
    pub(crate) fn from_reply(reply: &Value) -> Option<Self> {
        let Value::Array(parts) = reply else {
            return None;
        };
        let change = match &*text(parts.first()?)? {
            "created" => ScheduleChange::Created,
            "updated" => ScheduleChange::Updated,
            "same" => ScheduleChange::Same,
            _ => return None,
        };
        let next = instant(parts.get(1)?);
        Some(Self { change, next })
    }
}

impl SchedulesPage {
    pub(crate) fn from_reply(reply: Value) -> Option<Self> {
        let Value::Array(parts) = reply else {
            return None;
        };
        let mut parts = parts.into_iter();
        let next = unsigned(&parts.next()?)?;
        let Value::Array(schedules) = parts.next()? else {
            return None;
        };
        Some(Self {
            schedules: schedules.into_iter().map(schedule).collect::<Option<_>>()?,
            next: (next > 0).then_some(next),
        })
    }
}

/// Fields that this version does not know are left alone.
fn schedule(value: Value) -> Option<ScheduleInfo> {
    let (mut name, mut spec, mut zone) = (None, None, None);
    let mut schedule = ScheduleInfo {
        name: Vec::new(),
        times: None,
        from: None,
        until: None,
        most: None,
        overlap: None,
        next: None,
        last: None,
        last_outcome: None,
        runs: 0,
        skipped: 0,
        payload: Vec::new(),
    };
    for (field, value) in fields(value)? {
        match field.as_str() {
            "name" => name = bytes(value),
            "spec" => spec = text(&value).map(String::from),
            "tz" => zone = text(&value).map(String::from),
            "from" => schedule.from = instant(&value),
            "until" => schedule.until = instant(&value),
            "times" => schedule.most = unsigned(&value).filter(|runs| *runs > 0),
            "overlap" => {
                let word = text(&value);
                let mut all = Overlap::ALL.into_iter();
                schedule.overlap = all.find(|overlap| word.as_deref() == Some(overlap.as_str()));
            }
            "next-at" => schedule.next = instant(&value),
            "last-at" => schedule.last = instant(&value),
            "last-outcome" => schedule.last_outcome = outcome(&value),
            "runs" => schedule.runs = unsigned(&value)?,
            "skipped" => schedule.skipped = unsigned(&value)?,
            "payload" => schedule.payload = bytes(value)?,
            _ => {}
        }
    }
    schedule.name = name?;
    schedule.times = spec.and_then(|spec| times(&spec, zone));
    Some(schedule)
}

fn times(spec: &str, time_zone: Option<String>) -> Option<ScheduleTimes> {
    match spec.split_once(' ')? {
        ("EVERY", ms) => Some(ScheduleTimes::Every(Duration::from_millis(
            ms.parse().ok()?,
        ))),
        ("CRON", expression) => Some(ScheduleTimes::Cron {
            expression: expression.to_owned(),
            time_zone,
        }),
        _ => None,
    }
}

fn outcome(value: &Value) -> Option<RunOutcome> {
    match &*text(value)? {
        "added" => Some(RunOutcome::Added),
        "requeued" => Some(RunOutcome::Requeued),
        "skipped" => Some(RunOutcome::Skipped),
        "full" => Some(RunOutcome::Full),
        _ => None,
    }
}
