//! MQ.STATUS, MQ.GET and MQ.INFO: what holds at this moment, whoever has let time act so far.

use crate::bounds::Limited;
use crate::copies::WaitingCopy;
use crate::id::{IdText, Key};
use crate::message::{Cause, Limits, State};
use crate::queue::{count, Queue, Totals};
use crate::types::{Now, Priority, Span, Status, Timestamp};

/// All there is to know of a message.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The message's id.
    pub id: IdText<'a>,
    /// Where it stands.
    pub status: Status,
    /// What the consumer gets, or got.
    pub payload: &'a [u8],
    /// How often it was handed over.
    pub attempts: u32,
    /// Deliveries before it is dead; 0 for no limit.
    pub max_attempts: u32,
    /// Its place in the order.
    pub priority: Priority,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When time alone moves it on; zero for never.
    pub due_at: Timestamp,
    /// Its own lock time; zero for the consumer's.
    pub lock: Span,
    /// The payload of the copy that waits.
    pub requeue: Option<&'a [u8]>,
    /// Why it is dead.
    pub reason: Option<&'a [u8]>,
    /// What the consumer gets beside the payload; empty for nothing.
    pub headers: &'a [u8],
    /// The group that it belongs to; empty for none.
    pub group: &'a [u8],
}

/// A queue at one moment.
#[derive(Clone, Debug)]
pub struct Info<'a> {
    /// Messages by status, in the order of [`Status::ALL`].
    pub counts: [u64; 8],
    /// Who is delivered next.
    pub next: Option<IdText<'a>>,
    /// Who is last in the ready order.
    pub last: Option<IdText<'a>>,
    /// How long until time alone next moves a message on.
    pub next_due: Option<Span>,
    /// Age of the oldest message at the head of a priority; none if nothing is ready.
    pub oldest_queued: Option<Span>,
    /// What is left of the wait that pollers share.
    pub eoq_backoff: Span,
    /// Polls in a row that found nothing.
    pub dry_runs: u32,
    /// Whether deliveries are paused.
    pub paused: bool,
    /// When the pause ends; the epoch if there is none, or somebody must end it.
    pub paused_until: Timestamp,
    /// Ready messages whose group may not be served, as the last step left it.
    pub held: usize,
    /// Groups that have messages, or something of their own.
    pub groups: usize,
    /// What keeps messages that are ready from consumers, a pause aside.
    pub limited: Option<Limited>,
    /// Messages that limits refused, since the queue was loaded here.
    pub refused: u64,
    /// Counters since the queue was created.
    pub totals: Totals,
}

/// What a message in the index of live ones is by now.
enum Stand<'a> {
    /// What the last step made it; time moves it on at `due`.
    Itself { status: Status, due: Timestamp },
    /// Its copy has taken its place, and is due at `due` if that is still to come.
    Replaced {
        copy: &'a WaitingCopy,
        due: Timestamp,
    },
}

/// Entries of the schedule that are looked at for the exact time of the next due one.
const LOOK: usize = 4096;

impl Queue {
    /// The status of an id at `now`; none if there is no message.
    pub fn status(&self, now: Now, id: &[u8]) -> Option<Status> {
        let key = Key::of(id);
        match self.find_live(&key) {
            Some(slot) => Some(self.status_of(slot, now.instant())),
            None => self.find_letter(&key).map(|_| Status::Dead),
        }
    }

    /// All there is to know of an id at `now`: its live message, else its dead letter.
    pub fn get(&self, now: Now, id: &[u8]) -> Option<View<'_>> {
        let key = Key::of(id);
        let slot = self.find_live(&key).or_else(|| self.find_letter(&key))?;
        Some(self.view(slot, now.instant()))
    }

    pub(crate) fn status_of(&self, slot: u32, now: Timestamp) -> Status {
        match self.stand(slot, now) {
            Stand::Itself { status, .. } => status,
            Stand::Replaced { due, .. } if due > now => Status::QueuedWithBackoff,
            Stand::Replaced { .. } => Status::Queued,
        }
    }

    fn stand(&self, slot: u32, now: Timestamp) -> Stand<'_> {
        let message = self.messages.get(slot);
        let copy = self.copy(slot);
        let (status, due) = match (message.state(), copy) {
            (State::Ready { .. }, _) => (Status::Queued, Timestamp::ZERO),
            (State::Delayed { due }, _) if due > now => (Status::QueuedWithBackoff, due),
            (State::Delayed { .. }, _) => (Status::Queued, Timestamp::ZERO),
            (State::Locked { until, .. }, None) if until > now => (Status::Locked, until),
            (State::Locked { until, .. }, Some(_)) if until > now => {
                (Status::LockedWithRequeue, until)
            }
            (State::Locked { until, .. }, copy) if self.is_out_of_attempts(slot) => match copy {
                Some(copy) => {
                    return Stand::Replaced {
                        copy,
                        due: copy.start.due(until),
                    }
                }
                None => (Status::Dead, Timestamp::ZERO),
            },
            (State::Locked { .. }, _) => (Status::Queued, Timestamp::ZERO),
            (State::Done { until }, None) if until > now => (Status::DoneWithBackoff, until),
            (State::Done { until }, Some(_)) if until > now => (Status::DoneWithRequeue, until),
            (State::Done { until }, Some(copy)) => {
                return Stand::Replaced {
                    copy,
                    due: copy.start.due(until),
                };
            }
            (State::Done { .. }, None) => (Status::DoneAwaitingGc, Timestamp::ZERO),
            (State::Dead { .. }, _) => (Status::Dead, Timestamp::ZERO),
        };
        Stand::Itself { status, due }
    }

    fn view(&self, slot: u32, now: Timestamp) -> View<'_> {
        let message = self.messages.get(slot);
        let status = self.status_of(slot, now);
        match self.stand(slot, now) {
            Stand::Itself { due, .. } => {
                let Limits { attempts, lock } = message.limits();
                let cause = match message.state() {
                    State::Dead { cause, .. } => Some(cause),
                    _ => (status == Status::Dead).then_some(Cause::LastLockExpired),
                };
                View {
                    id: message.id(),
                    status,
                    payload: message.payload(),
                    attempts: message.attempts,
                    max_attempts: attempts,
                    priority: message.priority(),
                    enqueued_at: message.enqueued(),
                    due_at: due,
                    lock,
                    requeue: self.copy(slot).map(|copy| &*copy.payload),
                    reason: cause.and_then(|cause| match cause {
                        Cause::Failed => self.reason(slot),
                        Cause::NoAttemptsLeft => Some(b"no attempts left"),
                        Cause::LastLockExpired => Some(b"the lock of the last attempt expired"),
                    }),
                    headers: message.headers(),
                    group: self.group_name(message),
                }
            }
            Stand::Replaced { copy, due } => View {
                id: message.id(),
                status,
                payload: &copy.payload,
                attempts: 0,
                max_attempts: copy.limits.attempts,
                priority: copy.priority,
                enqueued_at: copy.enqueued,
                due_at: if due > now { due } else { Timestamp::ZERO },
                lock: copy.limits.lock,
                requeue: None,
                reason: None,
                headers: copy.extras().headers,
                group: copy.extras().group,
            },
        }
    }

    /// The queue at `now`. Costs no more in a long queue, but for messages whose time has come
    /// and that nobody has moved on yet (a replica whose primary is gone).
    pub fn info(&self, now: Now) -> Info<'_> {
        let moment = now;
        let now = now.instant();
        let counts = self.counts;
        let mut info = Info {
            counts: [
                counts.ready as u64,
                counts.delayed as u64,
                counts.locked as u64,
                counts.locked_with_copy as u64,
                counts.done as u64,
                counts.done_with_copy as u64,
                0,
                counts.dead as u64,
            ],
            next: None,
            last: None,
            next_due: None,
            oldest_queued: None,
            eoq_backoff: self.eoq_left(now),
            dry_runs: self.eoq.dry_runs,
            paused: self.is_paused_at(now),
            paused_until: self.paused_until(now),
            held: self.held(),
            groups: self.groups.as_ref().map_or(0, |groups| groups.len()),
            limited: self.limited(moment),
            refused: self.refused,
            totals: self.totals,
        };
        let mut order = Order::of_ready_lists(self);
        let lists = self.wheel.lists().filter(|(start, _)| *start <= now);
        for slot in lists.flat_map(|(_, list)| list.iter(&self.messages)) {
            if self.messages.get(slot).due() <= now {
                self.count_moved_on(slot, now, &mut info, &mut order);
            }
        }
        info.next = order.first.map(|(_, slot)| self.messages.get(slot).id());
        info.last = order.last.map(|(_, slot)| self.messages.get(slot).id());
        info.oldest_queued = order.oldest.map(|enqueued| enqueued.until(now));
        info.next_due = self.until_next_due(now);
        info
    }

    /// Counts a message whose time has come as what it is by now.
    fn count_moved_on<'a>(
        &'a self,
        slot: u32,
        now: Timestamp,
        info: &mut Info<'a>,
        order: &mut Order,
    ) {
        let message = self.messages.get(slot);
        let has_copy = self.has_copy(slot);
        let was = match message.state() {
            State::Locked { .. } if has_copy => Status::LockedWithRequeue,
            State::Locked { .. } => Status::Locked,
            State::Done { .. } if has_copy => Status::DoneWithRequeue,
            State::Done { .. } => Status::DoneWithBackoff,
            _ => Status::QueuedWithBackoff,
        };
        let status = self.status_of(slot, now);
        info.counts[was as usize] -= 1;
        let expired = matches!(message.state(), State::Locked { .. });
        if expired {
            count(&mut info.totals.expired_locks);
        }
        if expired && self.is_out_of_attempts(slot) {
            count(&mut info.totals.dead);
            // A dead letter takes the place of an older one of its id.
            if self.find_letter(&message.key()).is_none() {
                info.counts[Status::Dead as usize] += 1;
            }
        }
        if status != Status::Dead {
            info.counts[status as usize] += 1;
        }
        if status == Status::Queued {
            let due = message.due();
            match self.stand(slot, now) {
                Stand::Replaced { copy, due: later } if later > due => {
                    order.add(
                        (copy.priority, later, Arrival::OfDelayedCopy),
                        slot,
                        copy.enqueued,
                    );
                }
                Stand::Replaced { copy, .. } => {
                    order.add((copy.priority, due, Arrival::Own), slot, copy.enqueued);
                }
                Stand::Itself { .. } => {
                    order.add(
                        (message.priority(), due, Arrival::Own),
                        slot,
                        message.enqueued(),
                    );
                }
            }
        }
    }

    /// Time until the next message of the schedule is due; a little less if too many would have to
    /// be looked at.
    fn until_next_due(&self, now: Timestamp) -> Option<Span> {
        let mut best: Option<Timestamp> = None;
        let mut left = LOOK;
        for (start, list) in self.wheel.lists() {
            if best.is_some_and(|best| start >= best) {
                continue;
            }
            for slot in list.iter(&self.messages) {
                if left == 0 {
                    let bound = start.max(now);
                    return Some(now.until(best.map_or(bound, |best| best.min(bound))));
                }
                left -= 1;
                let due = match self.messages.get(slot).due() {
                    due if due > now => due,
                    _ => match self.stand(slot, now) {
                        Stand::Replaced { due, .. } => due,
                        Stand::Itself { .. } => continue,
                    },
                };
                if due > now {
                    best = Some(best.map_or(due, |best| best.min(due)));
                    if due == start {
                        // Nothing in this list can be earlier.
                        break;
                    }
                }
            }
        }
        best.map(|best| now.until(best))
    }
}

/// When a message that became ready at some instant came, among those of that instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Arrival {
    /// In the order of the schedule.
    Own,
    /// Behind them: the delay began only when the copy's run or window had ended.
    OfDelayedCopy,
}

type Rank = (Priority, Timestamp, Arrival);

/// First and last of the ready order, with messages that time has made ready and nobody has moved
/// on yet behind the others of their priority.
struct Order {
    first: Option<(Rank, u32)>,
    last: Option<(Rank, u32)>,
    oldest: Option<Timestamp>,
}

impl Order {
    fn of_ready_lists(queue: &Queue) -> Self {
        let mut order = Self {
            first: None,
            last: None,
            oldest: None,
        };
        for (level, list) in queue.ready.iter().enumerate() {
            let priority = Priority::new(level as u8).unwrap_or_default();
            let ends = match &queue.groups {
                None => [list.head(), list.tail()],
                Some(groups) => groups.ends(level, list),
            };
            for slot in ends.into_iter().flatten() {
                let enqueued = queue.messages.get(slot).enqueued();
                order.add((priority, Timestamp::ZERO, Arrival::Own), slot, enqueued);
            }
        }
        order
    }

    fn add(&mut self, place: Rank, slot: u32, enqueued: Timestamp) {
        if self.first.is_none_or(|(first, _)| place < first) {
            self.first = Some((place, slot));
        }
        if self.last.is_none_or(|(last, _)| place >= last) {
            self.last = Some((place, slot));
        }
        self.oldest = Some(self.oldest.map_or(enqueued, |oldest| oldest.min(enqueued)));
    }
}
