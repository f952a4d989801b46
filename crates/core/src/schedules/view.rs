//! MQ.SCHEDULES: what there is, and what has become of it.

use crate::queue::Queue;
use crate::schedules::plan::{Overlap, RunOutcome, Times};
use crate::types::Timestamp;

/// All there is to know of a schedule. Instants are by the server's clock.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleView<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// When it runs.
    pub times: Times<'a>,
    /// When it runs first.
    pub from: Option<Timestamp>,
    /// When it runs last, at the latest.
    pub until: Option<Timestamp>,
    /// How many runs there are.
    pub most: Option<u32>,
    /// What to do if the run before is still there.
    pub overlap: Overlap,
    /// When the next run is; none if there is none any more.
    pub next: Option<Timestamp>,
    /// The run whose time came last, and what became of it.
    pub last: Option<(Timestamp, RunOutcome)>,
    /// Runs that were enqueued.
    pub runs: u64,
    /// Runs that were left out.
    pub skipped: u64,
    /// What each run carries.
    pub payload: &'a [u8],
}

impl Queue {
    /// Shows the schedules of `count` places from `cursor` on. Returns the next cursor; 0 if there are no
    /// more. A schedule that is there from the first call to the last is shown once.
    pub fn schedule_views(
        &self,
        cursor: u32,
        count: u32,
        mut show: impl FnMut(&ScheduleView<'_>),
    ) -> u32 {
        let Some(schedules) = &self.schedules else {
            return 0;
        };
        let end = schedules.end();
        let next = cursor.saturating_add(count).min(end);
        let places = cursor..next;
        for entry in places.filter_map(|place| schedules.at(place)) {
            let definition = entry.definition();
            let (plan, history) = (definition.plan, definition.history);
            show(&ScheduleView {
                name: definition.name,
                times: plan.times,
                from: plan.from,
                until: plan.until,
                most: plan.most,
                overlap: definition.overlap,
                next: history.next,
                last: history.last,
                runs: history.runs,
                skipped: history.skipped,
                payload: definition.content.payload,
            });
        }
        if next == end {
            0
        } else {
            next
        }
    }
}
