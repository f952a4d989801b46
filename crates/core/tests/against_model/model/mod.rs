//! The contract in its plainest form: vectors that are scanned, and time that acts one message
//! after the other. The queue is tested against it.

mod schedules;
mod verdict;
mod view;

pub use schedules::{Past, Schedule, Times};
pub use verdict::Verdict;
pub use view::{Fields, Known, Seen};

use std::collections::BTreeMap;

use redis_mq_core::{Outcome, Status, Totals};

/// Milliseconds: instants are since the epoch.
pub type Ms = u64;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub live: Vec<Live>,
    /// Oldest first.
    pub letters: Vec<Letter>,
    /// At most one of an id.
    pub results: Vec<Kept>,
    /// How old letters become, if that is limited.
    pub dead_age: Option<Ms>,
    pub schedules: Vec<Schedule>,
    /// How far the server's clock is ahead of the queue's time.
    pub clock_is_ahead: i64,
    pub totals: Totals,
    /// First deliveries, and how long their messages had waited together.
    pub waits: (u64, Ms),
    /// Verdicts but releases.
    pub works: u64,
    pub batches: BTreeMap<u64, Batch>,
    /// Ends of messages that a follow-up waited for.
    pub waited_for: u64,
    /// What is only looked at lets no follow-up go: a step does.
    pub is_looked_at: bool,
    pub last_token: u64,
    /// Rises with each place taken in an order.
    turn: i64,
    /// Updates accepted: they are replicated even if the new content is the old.
    updates: u64,
}

/// How the members of a batch have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    pub ended: u64,
    pub dead: u64,
}

/// What a producer gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub payload: Vec<u8>,
    /// 0 for no limit.
    pub max_attempts: u32,
    /// 0 for the consumer's.
    pub lock: Ms,
    pub priority: u8,
    pub enqueued: Ms,
    pub headers: Vec<u8>,
    /// When it stops waiting, and whether it is a dead letter then.
    pub expires: Option<(Ms, bool)>,
    /// How long its result is kept, if it says so.
    pub retain: Option<Ms>,
    /// The instant that its schedule meant; 0 for none.
    pub scheduled: Ms,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    NotGiven,
    After(Ms),
    At(Ms),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub item: Item,
    pub start: Start,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    pub id: Vec<u8>,
    /// Tells it from others that had the id before or get it after.
    pub born: i64,
    pub item: Item,
    pub attempts: u32,
    pub place: Place,
    /// Lower is earlier, among those of one place.
    pub order: i64,
    /// Its first delivery since it last stood behind others, if it was released since.
    pub released_from: Option<u64>,
    /// The newest delivery, until a verdict ends it.
    pub token: Option<u64>,
    pub copy: Option<Copy>,
    /// The batch that it is a member of.
    pub member_of: Option<u64>,
    /// The batch that it follows.
    pub follows: Option<u64>,
    /// Since when it is ready, if it is.
    pub since: Ms,
    /// What the last retry gave.
    pub reason: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    Ready,
    Waiting(Ms),
    Locked(Ms),
    Done(Ms),
    /// For the end of its batch.
    Behind,
    /// The dedupe window ended and nobody has swept it yet.
    Over,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Letter {
    pub id: Vec<u8>,
    pub item: Item,
    pub attempts: u32,
    pub reason: Option<Vec<u8>>,
    /// The delivery whose lock ran out.
    pub token: Option<u64>,
    /// Never before the one in front of it.
    pub died: Ms,
    pub follows: Option<u64>,
}

/// What a finished message has left.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub id: Vec<u8>,
    pub value: Vec<u8>,
    pub at: Ms,
    pub until: Ms,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub item: Item,
    pub start: Start,
    pub requeue: bool,
    pub update: bool,
}

impl Start {
    pub fn place(self, from: Ms) -> Place {
        match self {
            Self::After(ms) if ms > 0 => Place::Waiting(from + ms),
            Self::At(instant) if instant > from => Place::Waiting(instant),
            _ => Place::Ready,
        }
    }
}

/// What time does to a message; of one instant, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Due,
    Expiry,
}

impl Live {
    /// When it expires, while it waits.
    pub fn expiry(&self) -> Option<Ms> {
        let waits = matches!(self.place, Place::Ready | Place::Waiting(_));
        self.item.expires.filter(|_| waits).map(|(at, _)| at)
    }

    /// What time does to it next.
    fn next_event(&self) -> Option<(Ms, Event)> {
        let due = self.due().map(|at| (at, Event::Due));
        let expiry = self.expiry().map(|at| (at, Event::Expiry));
        [due, expiry].into_iter().flatten().min()
    }

    /// When time next moves it on.
    pub fn next_move(&self) -> Option<Ms> {
        self.next_event().map(|(at, _)| at)
    }

    pub fn has_expired(&self, by: Ms) -> bool {
        self.item.expires.is_some_and(|(at, _)| at <= by)
    }

    pub fn due(&self) -> Option<Ms> {
        match self.place {
            Place::Waiting(at) | Place::Locked(at) | Place::Done(at) => Some(at),
            Place::Ready | Place::Behind | Place::Over => None,
        }
    }

    pub fn is_out_of_attempts(&self) -> bool {
        self.item.max_attempts != 0 && self.attempts >= self.item.max_attempts
    }

    pub fn status(&self) -> Status {
        match (self.place, &self.copy) {
            (Place::Ready, _) => Status::Queued,
            (Place::Waiting(_), _) => Status::QueuedWithBackoff,
            (Place::Locked(_), None) => Status::Locked,
            (Place::Locked(_), Some(_)) => Status::LockedWithRequeue,
            (Place::Done(_), None) => Status::DoneWithBackoff,
            (Place::Done(_), Some(_)) => Status::DoneWithRequeue,
            (Place::Behind, _) => Status::Waiting,
            (Place::Over, _) => Status::DoneAwaitingGc,
        }
    }
}

impl Model {
    pub fn find(&self, id: &[u8]) -> Option<usize> {
        self.live.iter().position(|message| message.id == id)
    }

    pub fn letter(&self, id: &[u8]) -> Option<usize> {
        self.letters.iter().position(|letter| letter.id == id)
    }

    fn next_turn(&mut self) -> i64 {
        self.turn += 1;
        self.turn
    }

    /// Puts a message behind the others of a place, at that moment.
    fn put(&mut self, at: usize, place: Place, now: Ms) {
        if !matches!(place, Place::Locked(_)) {
            self.live[at].released_from = None;
        }
        self.live[at].place = place;
        self.live[at].since = now;
        self.live[at].order = self.next_turn();
    }

    /// A message of the id is there again.
    fn forget_result(&mut self, id: &[u8]) {
        self.results.retain(|kept| kept.id != id);
    }

    /// What is over goes.
    fn let_results_go(&mut self, now: Ms) {
        self.results.retain(|kept| kept.until > now);
    }

    fn add(&mut self, id: &[u8], item: Item, place: Place, since: Ms) {
        self.forget_result(id);
        let order = self.next_turn();
        let (id, attempts, token, copy) = (id.to_vec(), 0, None, None);
        let released_from = None;
        self.live.push(Live {
            id,
            born: order,
            item,
            attempts,
            place,
            order,
            released_from,
            token,
            copy,
            member_of: None,
            follows: None,
            since,
            reason: None,
        });
    }

    /// What time does by itself until `now`, in the order in which it is due.
    pub fn pass(&mut self, now: Ms) {
        loop {
            let next = |at: usize| Some((self.live[at].next_event()?, self.live[at].order, at));
            let first = (0..self.live.len()).filter_map(next).min();
            match first {
                Some(((instant, event), _, at)) if instant <= now => {
                    self.let_letters_go(instant);
                    self.time_is_up(at, instant, event);
                }
                _ => return self.let_letters_go(now),
            }
        }
    }

    pub fn is_over(&self, letter: &Letter, by: Ms) -> bool {
        self.dead_age.is_some_and(|age| letter.died + age <= by)
    }

    /// Letters go when they are too old.
    fn let_letters_go(&mut self, by: Ms) {
        while (self.letters.first()).is_some_and(|letter| self.is_over(letter, by)) {
            self.letters.remove(0);
            self.totals.dropped += 1;
        }
    }

    /// What time does to one message until `now`.
    fn pass_for(&mut self, id: &[u8], now: Ms) {
        while let Some(at) = self.find(id) {
            match self.live[at].next_event() {
                Some((instant, event)) if instant <= now => self.time_is_up(at, instant, event),
                _ => return,
            }
        }
    }

    fn time_is_up(&mut self, at: usize, instant: Ms, event: Event) {
        if event == Event::Expiry {
            self.expire(at, instant);
            return;
        }
        let message = &mut self.live[at];
        match message.place {
            Place::Waiting(due) => self.put(at, Place::Ready, due),
            Place::Locked(until) => {
                self.totals.expired_locks += 1;
                if message.is_out_of_attempts() {
                    let token = message.token;
                    let reason = b"the lock of the last attempt expired".to_vec();
                    self.die(at, Some(reason), token, until);
                } else if message.has_expired(until) {
                    self.expire(at, until);
                } else {
                    self.put(at, Place::Ready, until);
                }
            }
            Place::Done(until) => match message.copy.take() {
                Some(copy) => self.restart(at, copy, until),
                None => message.place = Place::Over,
            },
            Place::Ready | Place::Behind | Place::Over => unreachable!("time moves neither on"),
        }
    }

    /// The message has waited for too long.
    fn expire(&mut self, at: usize, ended: Ms) {
        self.totals.expired += 1;
        if self.live[at].item.expires.is_some_and(|(_, bury)| bury) {
            self.die(at, Some(b"expired".to_vec()), None, ended);
        } else if let Some(copy) = self.live[at].copy.take() {
            self.restart(at, copy, ended);
        } else {
            self.leave(at, false, ended);
            self.live.remove(at);
        }
    }

    /// The message runs with the content of its copy.
    fn restart(&mut self, at: usize, copy: Copy, ended: Ms) {
        self.leave(at, false, ended);
        self.live[at].follows = None;
        let message = &mut self.live[at];
        self.results.retain(|kept| kept.id != message.id);
        (message.item, message.attempts, message.token) = (copy.item, 0, None);
        message.reason = None;
        self.put(at, copy.start.place(ended), ended);
    }

    fn die(&mut self, at: usize, reason: Option<Vec<u8>>, token: Option<u64>, ended: Ms) {
        self.leave(at, true, ended);
        let Live {
            id,
            mut item,
            attempts,
            copy,
            follows,
            ..
        } = self.live.remove(at);
        item.expires = None;
        let died = ended.max(self.letters.last().map_or(0, |newest| newest.died));
        if let Some(at) = self.letter(&id) {
            let older = self.letters.remove(at);
            self.totals.dropped += u64::from(self.is_over(&older, ended));
        }
        self.letters.push(Letter {
            id: id.clone(),
            item,
            attempts,
            reason,
            token,
            died,
            follows,
        });
        self.totals.dead += 1;
        if let Some(copy) = copy {
            self.add(&id, copy.item, copy.start.place(ended), ended);
        }
    }

    /// What a command does before its own work: time acts, and what nobody needs goes.
    pub fn act(&mut self, now: Ms, max_dead: usize) {
        self.pass(now);
        self.live.retain(|message| message.place != Place::Over);
        self.forget(max_dead);
        self.let_results_go(now);
        self.begin_runs(now);
    }

    /// A message ends at that instant; the follow-up may have waited for it as the last one.
    fn leave(&mut self, at: usize, dead: bool, ended: Ms) {
        let Some(batch) = self.live[at].member_of.take() else {
            return;
        };
        if self.is_looked_at {
            return;
        }
        if let Some(result) = self.batches.get_mut(&batch) {
            result.ended += 1;
            result.dead += u64::from(dead);
        }
        let of = |message: &Live| message.member_of == Some(batch);
        let follow_up = |message: &Live| message.follows == Some(batch);
        self.waited_for += u64::from(self.live.iter().any(follow_up));
        let waits = |message: &Live| follow_up(message) && message.place == Place::Behind;
        if !self.live.iter().any(of) {
            if let Some(at) = self.live.iter().position(waits) {
                self.put(at, Place::Ready, ended);
            }
        }
    }

    /// The batch whose follow-up waits under the id.
    pub fn batch_of(&self, id: &[u8]) -> Option<u64> {
        let message = &self.live[self.find(id)?];
        message.follows.filter(|_| message.place == Place::Behind)
    }

    /// A follow-up waits from now on; the number of its batch, if the id is free.
    pub fn follow_up(&mut self, now: Ms, id: &[u8], item: Item) -> (Outcome, Option<u64>) {
        if let Some(at) = self.find(id) {
            return (Outcome::Refused(self.live[at].status()), None);
        }
        let batch = self
            .batches
            .last_key_value()
            .map_or(1, |(last, _)| last + 1);
        self.totals.enqueued += 1;
        self.batches.insert(batch, Batch::default());
        self.add(id, item, Place::Behind, now);
        if let Some(added) = self.live.last_mut() {
            added.follows = Some(batch);
        }
        (Outcome::Added, Some(batch))
    }

    /// All messages of a new batch are there, if any.
    pub fn close(&mut self, now: Ms, batch: u64) {
        let mut live = self.live.iter();
        if live.all(|message| message.member_of != Some(batch)) {
            if let Some(at) = self
                .live
                .iter()
                .position(|live| live.follows == Some(batch))
            {
                self.put(at, Place::Ready, now);
            }
        }
    }

    pub fn forget(&mut self, max_dead: usize) {
        let beyond = self.letters.len().saturating_sub(max_dead);
        self.letters.drain(..beyond);
        self.totals.dropped += beyond as u64;
    }

    /// The table of MQ.ENQUEUE. Time has acted.
    pub fn enqueue(&mut self, now: Ms, id: &[u8], request: Request, batch: Option<u64>) -> Outcome {
        let Some(at) = self.find(id) else {
            self.totals.enqueued += 1;
            self.add(id, request.item, request.start.place(now), now);
            if let Some(added) = self.live.last_mut() {
                added.member_of = batch;
            }
            return Outcome::Added;
        };
        let Request {
            item,
            start,
            requeue,
            update,
        } = request;
        match self.live[at].status() {
            Status::Queued | Status::QueuedWithBackoff if update => {
                self.updates += 1;
                self.update(at, now, item, start);
                Outcome::Updated
            }
            Status::Locked | Status::DoneWithBackoff if requeue => {
                self.totals.enqueued += 1;
                self.live[at].copy = Some(Copy { item, start });
                Outcome::Requeued
            }
            Status::LockedWithRequeue | Status::DoneWithRequeue if requeue && update => {
                self.updates += 1;
                let copy = self.live[at].copy.as_mut().expect("the status says so");
                copy.item = Item {
                    enqueued: copy.item.enqueued,
                    ..item
                };
                if start != Start::NotGiven {
                    copy.start = start;
                }
                Outcome::Updated
            }
            status => Outcome::Refused(status),
        }
    }

    /// All options are replaced. Attempts and enqueued-at stay, and with the same priority and
    /// time the place in the order. A delivery of the old content can end nothing any more.
    fn update(&mut self, at: usize, now: Ms, item: Item, start: Start) {
        let message = &mut self.live[at];
        let place = if start == Start::NotGiven {
            message.place
        } else {
            start.place(now)
        };
        let stays = (place, item.priority) == (message.place, message.item.priority);
        message.item = Item {
            enqueued: message.item.enqueued,
            ..item
        };
        message.token = None;
        if !stays {
            let was_ready = message.place == Place::Ready && place == Place::Ready;
            let since = if was_ready { message.since } else { now };
            self.put(at, place, since);
        }
    }

    /// Who is delivered next.
    pub fn next_ready(&self) -> Option<usize> {
        let ready = (0..self.live.len()).filter(|at| self.live[*at].place == Place::Ready);
        ready.min_by_key(|at| (self.live[*at].item.priority, self.live[*at].order))
    }

    /// Hands the next ready message over; `lock` is what the consumer asks for. Returns the
    /// message as delivered, and the lock it has.
    pub fn deliver(&mut self, now: Ms, lock: Ms, token: u64) -> Option<(Live, Ms)> {
        let at = self.next_ready()?;
        let message = &mut self.live[at];
        if message.attempts == 0 && message.token.is_none() {
            self.waits.0 += 1;
            self.waits.1 += now.saturating_sub(message.since);
        }
        message.attempts += 1;
        message.token = Some(token);
        let lock = if message.item.lock != 0 {
            message.item.lock
        } else {
            lock
        };
        self.last_token = token;
        self.totals.delivered += 1;
        self.put(at, Place::Locked(now + lock), now);
        Some((self.live[at].clone(), lock))
    }

    /// A dead letter begins anew as a message that is ready. Time has acted.
    pub fn redrive(&mut self, now: Ms, id: &[u8]) -> bool {
        let Some(at) = self.letter(id).filter(|_| self.find(id).is_none()) else {
            return false;
        };
        let Letter {
            id, item, follows, ..
        } = self.letters.remove(at);
        self.add(&id, item, Place::Ready, now);
        if let Some(added) = self.live.last_mut() {
            added.follows = follows;
        }
        self.totals.redriven += 1;
        true
    }

    /// The same with the oldest that can be sent again.
    pub fn redrive_oldest(&mut self, now: Ms, count: usize) -> usize {
        let ids: Vec<_> = self
            .letters
            .iter()
            .map(|letter| letter.id.clone())
            .collect();
        let redriven = ids.iter().filter(|id| self.redrive(now, id));
        redriven.take(count).count()
    }

    /// Removes the live message or the dead letter of an id; the other stays.
    pub fn remove(&mut self, now: Ms, id: &[u8], is_letter: bool) {
        if is_letter {
            self.letters.retain(|letter| letter.id != id);
        } else {
            self.remove_live(now, id);
            self.forget_result(id);
        }
    }

    fn remove_live(&mut self, now: Ms, id: &[u8]) {
        if let Some(at) = self.find(id) {
            self.leave(at, false, now);
            self.live.remove(at);
        }
    }

    /// Removes all of an id. Time has not acted, but a lock that has run out is counted, and what has
    /// expired is not there.
    pub fn cancel(&mut self, now: Ms, id: &[u8]) -> bool {
        if let Some(at) = self.find(id) {
            let message = &self.live[at];
            let locked = matches!(message.place, Place::Locked(_));
            if locked || message.expiry().is_some_and(|at| at <= now) {
                self.pass_for(id, now);
            }
        }
        if let Some(at) = self.letter(id) {
            if self.is_over(&self.letters[at], now) {
                self.letters.remove(at);
                self.totals.dropped += 1;
            }
        }
        let has_result = (self.results.iter()).any(|kept| kept.id == id && kept.until > now);
        let before = self.live.len() + self.letters.len();
        self.remove_live(now, id);
        self.letters.retain(|letter| letter.id != id);
        let found = has_result || self.live.len() + self.letters.len() < before;
        if found {
            self.forget_result(id);
        }
        found
    }
}
