//! MQ.STATUS, MQ.GET and MQ.INFO: what holds at this moment, whoever has let time act so far.

use crate::batches::BatchResult;
use crate::bounds::Limited;
use crate::done::NO_ATTEMPTS_LEFT;
use crate::expiry::EXPIRED;
use crate::id::{IdText, Key};
use crate::message::{Cause, Limits, State};
use crate::queue::{count, Queue, Totals};
use crate::stand::{Arrival, Death, Ends, Rank, Stand};
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
    /// Why it is dead, or what the last retry gave as reason.
    pub reason: Option<&'a [u8]>,
    /// What the consumer gets beside the payload; empty for nothing.
    pub headers: &'a [u8],
    /// The group that it belongs to; empty for none.
    pub group: &'a [u8],
    /// When it is not handed over any more; zero for never.
    pub expires_at: Timestamp,
    /// How long its result is kept, if it says so.
    pub retain: Option<Span>,
    /// How the batch has ended so far that it follows.
    pub batch: Option<BatchResult>,
    /// The instant that its schedule meant, by the server's clock; zero for a message of no schedule.
    pub scheduled_at: Timestamp,
}

/// A queue at one moment.
#[derive(Clone, Debug)]
pub struct Info<'a> {
    /// Messages by status, in the order of [`Status::ALL`].
    pub counts: [u64; 9],
    /// Who is delivered next.
    pub next: Option<IdText<'a>>,
    /// Who is last in the ready order.
    pub last: Option<IdText<'a>>,
    /// How long until time alone next moves a message on.
    pub next_due: Option<Span>,
    /// How long the first or the last message of a priority has been ready, the longest of these; none
    /// if nothing is ready.
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
    /// Schedules.
    pub schedules: usize,
    /// What keeps messages that are ready from consumers, a pause aside.
    pub limited: Option<Limited>,
    /// Results that are kept.
    pub results: usize,
    /// Messages that limits refused, since the queue was loaded here.
    pub refused: u64,
    /// Counters since the queue was created.
    pub totals: Totals,
}

/// Entries of the schedule that are looked at for the exact time of the next due one.
const LOOK: usize = 4096;

impl Queue {
    /// The status of an id at `now`; none if there is no message.
    pub fn status(&self, now: Now, id: &[u8]) -> Option<Status> {
        let key = Key::of(id);
        let live = self.find_live(&key);
        let status = live.and_then(|slot| self.status_of(slot, now.instant()));
        status.or_else(|| self.status_of(self.find_letter(&key)?, now.instant()))
    }

    /// All there is to know of an id at `now`: its live message, else its dead letter.
    pub fn get(&self, now: Now, id: &[u8]) -> Option<View<'_>> {
        let (key, now) = (Key::of(id), now.instant());
        let live = self.find_live(&key);
        let view = live.and_then(|slot| self.view(slot, now));
        view.or_else(|| self.view(self.find_letter(&key)?, now))
    }

    /// All there is to know of a message at `now`; none if it has expired by then.
    pub(crate) fn view(&self, slot: u32, now: Timestamp) -> Option<View<'_>> {
        self.view_as(slot, now, self.stand(slot, now))
    }

    /// The same of one of the things that there are in the slot by then.
    pub(crate) fn view_as<'a>(
        &'a self,
        slot: u32,
        now: Timestamp,
        stand: Stand<'a>,
    ) -> Option<View<'a>> {
        let message = self.messages.get(slot);
        let status = stand.status(now)?;
        let (Stand::Replaced { copy, due } | Stand::BuriedCopy { copy, due }) = stand else {
            let (due_at, cause) = match stand {
                Stand::Itself { due, .. } => (due, None),
                Stand::Dead { cause } => (Timestamp::ZERO, Some(cause)),
                _ => return None,
            };
            let Limits { attempts, lock } = message.limits();
            let reason = self.reason(slot);
            return Some(View {
                id: message.id(),
                status,
                payload: message.payload(),
                attempts: message.attempts,
                max_attempts: attempts,
                priority: message.priority(),
                enqueued_at: message.enqueued(),
                due_at,
                lock,
                requeue: match cause {
                    None => self.copy(slot).map(|copy| &*copy.payload),
                    Some(_) => None,
                },
                reason: match cause {
                    None | Some(Cause::Failed) => reason,
                    Some(Cause::NoAttemptsLeft) => Some(reason.unwrap_or(NO_ATTEMPTS_LEFT)),
                    Some(Cause::LastLockExpired) => Some(b"the lock of the last attempt expired"),
                    Some(Cause::Expired) => Some(EXPIRED),
                },
                headers: message.headers(),
                group: self.group_name(message),
                batch: self.batch_result(slot),
                expires_at: match cause {
                    None => self
                        .expiry(slot)
                        .map_or(Timestamp::ZERO, |expiry| expiry.at),
                    Some(_) => Timestamp::ZERO,
                },
                retain: message.retain(),
                scheduled_at: message.scheduled(),
            });
        };
        let extras = copy.extras();
        let is_dead = status == Status::Dead;
        Some(View {
            id: message.id(),
            status,
            payload: &copy.payload,
            attempts: 0,
            max_attempts: copy.limits.attempts,
            priority: copy.priority,
            enqueued_at: copy.enqueued,
            due_at: if due > now && !is_dead {
                due
            } else {
                Timestamp::ZERO
            },
            lock: copy.limits.lock,
            requeue: None,
            reason: is_dead.then_some(EXPIRED),
            headers: extras.headers,
            group: extras.group,
            batch: None,
            expires_at: match extras.expiry {
                Some(expiry) if !is_dead => expiry.at,
                _ => Timestamp::ZERO,
            },
            retain: extras.retain,
            scheduled_at: extras.scheduled,
        })
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
                counts.waiting as u64,
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
            schedules: self
                .schedules
                .as_ref()
                .map_or(0, |schedules| schedules.len()),
            limited: self.limited(moment),
            results: self.results_at(now),
            refused: self.refused,
            totals: self.totals,
        };
        self.count_letters_let_go(now, &mut info);
        let mut order = Order::of_ready_lists(self, now);
        for slot in self.moved_on(now) {
            self.count_moved_on(slot, now, &mut info, &mut order);
        }
        info.next = order.first.map(|(_, slot)| self.messages.get(slot).id());
        info.last = order.last.map(|(_, slot)| self.messages.get(slot).id());
        info.oldest_queued = order.oldest.map(|since| since.until(now));
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
        info.counts[self.counted_as(slot) as usize] -= 1;
        if matches!(message.state(), State::Locked { .. }) {
            count(&mut info.totals.expired_locks);
        }
        if let Some(becomes) = self.simply_becomes(slot) {
            info.counts[becomes as usize] += 1;
            if becomes == Status::Queued {
                let due = message.due();
                order.add((message.priority(), due, Arrival::Own), slot, due);
            }
            return;
        }
        if self.copy_has_come(slot, now) && self.result_at(&message.key(), now).is_some() {
            info.results -= 1;
        }
        let ends = self.ends(slot, now);
        info.totals.expired = info.totals.expired.saturating_add(ends.expired);
        self.count_deaths(slot, now, ends, info);
        match self.status_of(slot, now) {
            None | Some(Status::Dead) => return,
            Some(status) => info.counts[status as usize] += 1,
        }
        if let Some(rank) = self.rank(slot, now) {
            order.add(rank, slot, rank.1);
        }
    }

    /// Counts what becomes of the dead letters of an id whose message has died by now: each takes the
    /// place of the one before, unless that was let go already.
    fn count_deaths(&self, slot: u32, now: Timestamp, ends: Ends, info: &mut Info<'_>) {
        if ends.deaths == [None, None] {
            return;
        }
        let older = self.find_letter(&self.messages.get(slot).key());
        let mut letter = older.map(|older| self.messages.get(older).due());
        for Death { ended, at } in ends.deaths.into_iter().flatten() {
            count(&mut info.totals.dead);
            if letter.is_some_and(|died| self.is_let_go(died, at)) {
                count(&mut info.totals.dropped);
            }
            letter = Some(self.death(ended).max(letter.unwrap_or_default()));
        }
        if letter.is_some_and(|died| self.is_let_go(died, now)) {
            count(&mut info.totals.dropped);
            letter = None;
        }
        let dead = &mut info.counts[Status::Dead as usize];
        match (older, letter) {
            (None, Some(_)) => *dead += 1,
            (Some(_), None) => *dead -= 1,
            _ => {}
        }
    }

    /// Counts the dead letters that are gone by now for their age.
    fn count_letters_let_go(&self, now: Timestamp, info: &mut Info<'_>) {
        let old = self.dead.iter(&self.messages);
        for slot in old.take_while(|slot| self.is_over(*slot, now)) {
            if !self.is_replaced(slot, now) {
                info.counts[Status::Dead as usize] -= 1;
                count(&mut info.totals.dropped);
            }
        }
    }

    /// Whether a newer letter of its id has taken the place of a letter by now.
    fn is_replaced(&self, letter: u32, now: Timestamp) -> bool {
        let live = self.find_live(&self.messages.get(letter).key());
        live.is_some_and(|live| self.has_died(live, now))
    }

    /// When the first of the dead letters that are there goes for its age.
    fn next_end_of_letter(&self, now: Timestamp) -> Option<Timestamp> {
        self.end_of_oldest_letter()?;
        let mut letters = self.dead.iter(&self.messages);
        let first = letters.find(|slot| !self.is_over(*slot, now) && !self.is_replaced(*slot, now));
        self.end_of_letter(self.messages.get(first?).due())
    }

    /// Time until time next moves a message on; a little less if too many would have to
    /// be looked at.
    fn until_next_due(&self, now: Timestamp) -> Option<Span> {
        let mut best = self.next_end_of_letter(now);
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
                if let Some(due) = self.next_move(slot, now) {
                    best = Some(best.map_or(due, |best| best.min(due)));
                    if due == start {
                        // Nothing in this list can be earlier.
                        break;
                    }
                }
            }
        }
        for (start, slot) in self.expiring() {
            if best.is_some_and(|best| start >= best) {
                continue;
            }
            if left == 0 {
                let bound = start.max(now);
                return Some(now.until(best.map_or(bound, |best| best.min(bound))));
            }
            left -= 1;
            if let Some(due) = self.next_move(slot, now) {
                best = Some(best.map_or(due, |best| best.min(due)));
            }
        }
        best.map(|best| now.until(best))
    }
}

/// First and last of the ready order, with messages that time has made ready and nobody has moved
/// on yet behind the others of their priority.
struct Order {
    first: Option<(Rank, u32)>,
    last: Option<(Rank, u32)>,
    oldest: Option<Timestamp>,
}

impl Order {
    fn of_ready_lists(queue: &Queue, now: Timestamp) -> Self {
        let mut order = Self {
            first: None,
            last: None,
            oldest: None,
        };
        let messages = &queue.messages;
        for (level, list) in queue.ready.iter().enumerate() {
            let priority = Priority::new(level as u8).unwrap_or_default();
            let is_there = |slot: &u32| queue.expiry_by(*slot, now).is_none();
            let ends = match &queue.groups {
                None => {
                    let first = list.iter(messages).find(is_there);
                    [first, list.iter_back(messages).find(is_there)]
                }
                Some(groups) => groups.ends(level, list).map(|end| end.filter(is_there)),
            };
            for slot in ends.into_iter().flatten() {
                let since = match messages.get(slot).state() {
                    State::Ready { since, .. } => since,
                    _ => now,
                };
                order.add((priority, Timestamp::ZERO, Arrival::Own), slot, since);
            }
        }
        order
    }

    fn add(&mut self, place: Rank, slot: u32, since: Timestamp) {
        if self.first.is_none_or(|(first, _)| place < first) {
            self.first = Some((place, slot));
        }
        if self.last.is_none_or(|(last, _)| place >= last) {
            self.last = Some((place, slot));
        }
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
    }
}
