//! Runs: what a schedule enqueues when its time has come, and MQ.FIRE.

use crate::apply::ApplyError;
use crate::effects::Effect;
use crate::enqueue::{Enqueued, Outcome, Start};
use crate::id::{IdText, Key};
use crate::message::State;
use crate::queue::Queue;
use crate::schedules::plan::{Overlap, RunOutcome};
use crate::schedules::store::Entry;
use crate::turn::Turn;
use crate::types::{Status, Timestamp};

/// What a run takes of a turn's share of work: the search for the next instant takes some microseconds.
const COST: usize = 32;

impl Queue {
    /// Begins the runs whose time has come by the server's clock, as many as the turn has work left for.
    #[cold]
    pub(crate) fn let_runs_begin(&mut self, turn: &mut Turn<'_>) {
        let clock = turn.clock();
        while turn.budget >= COST && !turn.runs_wait {
            let next = self
                .schedules
                .as_ref()
                .and_then(|schedules| schedules.next());
            let Some((due, place)) = next.filter(|(due, _)| *due <= clock) else {
                return;
            };
            turn.budget -= COST;
            self.begin_run(turn, place, due);
        }
    }

    /// Begins the run that was due, whatever comes of it, and sets the next.
    fn begin_run(&mut self, turn: &mut Turn<'_>, place: u32, due: Timestamp) {
        self.with_schedule(place, |queue, entry| {
            let id = entry.id_of_run(due);
            let outcome = match queue.outcome_of_run(turn, entry, &Key::of(&id)) {
                Outcome::Added => RunOutcome::Added,
                Outcome::Requeued => RunOutcome::Requeued,
                Outcome::Full(_) => RunOutcome::Full,
                Outcome::Updated | Outcome::Refused(_) | Outcome::NothingWaits => {
                    RunOutcome::Skipped
                }
            };
            let counted = entry.history.counted + u32::from(outcome.is_run());
            let next = entry.plan().following(due, turn.clock(), turn.calendar);
            let next = entry.plan().unless_ended(next, counted);
            queue.enter_frame(turn);
            let name = &entry.name;
            let effect = Effect::Run {
                name,
                outcome,
                next,
            };
            queue.emit(turn, &effect);
            // It fits: the outcome was just asked for.
            let fits = queue.take_run_of(entry, outcome, next);
            debug_assert_eq!(fits, Ok(()));
        });
    }

    /// Enqueues a run now; the times of the schedule stay. None if there is no such schedule.
    pub fn fire<R>(
        &mut self,
        turn: &mut Turn<'_>,
        name: &[u8],
        show: impl FnOnce(&Enqueued<'_>) -> R,
    ) -> Option<R> {
        self.let_time_act(turn);
        let place = self.find_schedule(name)?;
        self.with_schedule(place, |queue, entry| {
            let scheduled = turn.clock();
            let id = entry.id_of_run(scheduled);
            let key = Key::of(&id);
            let outcome = queue.outcome_of_run(turn, entry, &key);
            let now = turn.now.instant();
            let content = entry.content(scheduled, now);
            match outcome {
                Outcome::Added => {
                    queue.enter_frame(turn);
                    let due = Timestamp::ZERO;
                    queue.emit(turn, &Effect::Add { key, content, due });
                    queue.add(key, &content, State::waiting(due, now));
                }
                Outcome::Requeued => {
                    if let Some(slot) = queue.find_live(&key) {
                        let start = Start::Default;
                        queue.enter_frame(turn);
                        let effect = Effect::Requeue {
                            key,
                            content,
                            start,
                        };
                        queue.emit(turn, &effect);
                        queue.requeue(slot, &content, start);
                    }
                }
                Outcome::Updated
                | Outcome::Full(_)
                | Outcome::Refused(_)
                | Outcome::NothingWaits => {}
            }
            let id = IdText::new(key);
            show(&Enqueued { outcome, id })
        })
    }

    /// What enqueueing a run of this id would do.
    fn outcome_of_run(&mut self, turn: &mut Turn<'_>, entry: &Entry, key: &Key<'_>) -> Outcome {
        let now = turn.now.instant();
        let Some(slot) = self.find_by_now(turn, key) else {
            let group = entry.definition().content.extras.group;
            return self.is_full(group).map_or(Outcome::Added, Outcome::Full);
        };
        // One that has expired would not have been found.
        let status = self.status_of(slot, now).unwrap_or(Status::DoneAwaitingGc);
        match status {
            Status::Locked | Status::DoneWithBackoff if entry.overlap == Overlap::After => {
                Outcome::Requeued
            }
            status => Outcome::Refused(status),
        }
    }

    /// Begins a run as another server decided it.
    ///
    /// # Errors
    /// If the queue is not in the state that this was decided in.
    pub(crate) fn take_run(
        &mut self,
        place: u32,
        outcome: RunOutcome,
        next: Option<Timestamp>,
    ) -> Result<(), ApplyError> {
        let taken = self.with_schedule(place, |queue, entry| {
            queue.take_run_of(entry, outcome, next)
        });
        taken.unwrap_or(Err(ApplyError::Diverged("a schedule is not there")))
    }

    fn take_run_of(
        &mut self,
        entry: &mut Entry,
        outcome: RunOutcome,
        next: Option<Timestamp>,
    ) -> Result<(), ApplyError> {
        let due = entry.history.next;
        let due = due.ok_or(ApplyError::Diverged("a run of a schedule that has ended"))?;
        let now = self.frame.instant();
        let (id, content) = (entry.id_of_run(due), entry.content(due, now));
        let key = Key::of(&id);
        let live = self.find_live(&key);
        match (outcome, live) {
            (RunOutcome::Added, None) => {
                self.add(key, &content, State::waiting(Timestamp::ZERO, now));
            }
            (RunOutcome::Requeued, Some(slot)) if self.may_requeue(slot) => {
                self.requeue(slot, &content, Start::Default);
            }
            (RunOutcome::Added | RunOutcome::Requeued, _) => {
                return Err(ApplyError::Diverged("a run does not fit its id's message"));
            }
            (RunOutcome::Skipped | RunOutcome::Full, _) => {}
        }
        self.kinds.runs += u64::from(outcome.is_run());
        entry.history.count(due, outcome);
        entry.history.next = next;
        Ok(())
    }

    /// Whether the message is with a consumer or in its window, and no copy waits.
    fn may_requeue(&self, slot: u32) -> bool {
        let state = self.messages.get(slot).state();
        matches!(state, State::Locked { .. } | State::Done { .. }) && !self.has_copy(slot)
    }

    /// Runs `step` with a schedule taken out of the queue, and puts it back.
    fn with_schedule<R>(
        &mut self,
        place: u32,
        step: impl FnOnce(&mut Self, &mut Entry) -> R,
    ) -> Option<R> {
        let mut entry = self.schedules.as_mut()?.lend(place)?;
        let result = step(self, &mut entry);
        if let Some(schedules) = &mut self.schedules {
            schedules.give_back(place, entry);
        }
        Some(result)
    }
}
