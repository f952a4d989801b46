//! The queue itself: where its messages lie, and the few moves that every rule is made of.

use foldhash::fast::FixedState;

use crate::batches::Batches;
use crate::bounds::Bounds;
use crate::changes::Kinds;
use crate::copies::{RareEntry, WaitingCopy};
use crate::effects::{Content, Effect};
use crate::enqueue::Start;
use crate::eoq::Eoq;
use crate::groups::{End, Groups};
use crate::id::{hash_bytes, Key};
use crate::ids::Ids;
use crate::kept::EndOf;
use crate::latency::Latency;
use crate::link::List;
use crate::message::{Message, State};
use crate::released::Places;
use crate::results::Results;
use crate::schedules::Schedules;
use crate::slab::Slab;
use crate::timers::Timers;
use crate::turn::{Frame, Turn};
use crate::types::{Priority, Timestamp, Token};
use crate::wheel::{self, Wheel};

/// One queue.
///
/// Every message is in the slab and in exactly one list: the ready list of its priority, the
/// schedule, or the dead letters. The index of live messages and that of dead letters name the
/// slots by id.
#[derive(Debug)]
pub struct Queue {
    pub(crate) messages: Slab<Message>,
    pub(crate) rares: Slab<RareEntry>,
    pub(crate) live: Ids,
    pub(crate) letters: Ids,
    pub(crate) ready: [List; Priority::LEVELS],
    /// Bit n is set when the ready list of priority n has any.
    pub(crate) ready_levels: u16,
    pub(crate) wheel: Wheel,
    /// Instants at which waiting messages expire; none while no message does.
    pub(crate) timers: Option<Box<Timers>>,
    pub(crate) dead: List,
    /// None while nothing was released that still waits or is worked on.
    pub(crate) places: Option<Box<Places>>,
    pub(crate) counts: Counts,
    pub(crate) totals: Totals,
    pub(crate) last_token: u64,
    pub(crate) frame: Frame,
    /// By how much the queue's own time, which all its instants are of, is ahead of the server's.
    pub(crate) ahead_ms: u64,
    /// Whose turn it is where messages have groups; none where no message has.
    pub(crate) groups: Option<Box<Groups>>,
    /// Messages that limits refused. Neither replicated nor kept.
    pub(crate) refused: u64,
    /// Limits and a pause; none where there are none.
    pub(crate) bounds: Option<Box<Bounds>>,
    /// How long messages waited and were worked on; none before the first delivery.
    pub(crate) latency: Option<Box<Latency>>,
    /// What finished messages have left; none while nothing is kept.
    pub(crate) results: Option<Box<Results>>,
    /// The messages that have ended, while somebody wants to know.
    pub(crate) watched: Option<Vec<EndOf>>,
    /// Follow-ups and what they wait for; none where there are no batches.
    pub(crate) batches: Option<Box<Batches>>,
    /// What the queue enqueues by itself; none where nothing is.
    pub(crate) schedules: Option<Box<Schedules>>,
    /// What the running step has done.
    pub(crate) kinds: Kinds,
    /// A hint of the primary: neither replicated nor kept.
    pub(crate) eoq: Eoq,
    pub(crate) hasher: FixedState,
    pub(crate) body_bytes: usize,
    pub(crate) rare_bytes: usize,
}

/// How many messages stand where, as the last step left them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub ready: usize,
    pub delayed: usize,
    pub locked: usize,
    pub locked_with_copy: usize,
    pub done: usize,
    pub done_with_copy: usize,
    pub dead: usize,
    pub waiting: usize,
}

/// What a queue has seen since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages accepted: added, or requeued as a waiting copy.
    pub enqueued: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Deliveries ended with success.
    pub done: u64,
    /// Deliveries ended with a retry that was granted.
    pub retried: u64,
    /// Messages that became dead.
    pub dead: u64,
    /// Locks that ran out before a verdict.
    pub expired_locks: u64,
    /// Messages whose time to live ended.
    pub expired: u64,
    /// Dead letters that were sent again.
    pub redriven: u64,
    /// Dead letters that were let go since there were more than are kept, or they were too old.
    pub dropped: u64,
}

impl Totals {
    /// What was counted since `before`.
    #[inline]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            enqueued: self.enqueued.wrapping_sub(before.enqueued),
            delivered: self.delivered.wrapping_sub(before.delivered),
            done: self.done.wrapping_sub(before.done),
            retried: self.retried.wrapping_sub(before.retried),
            dead: self.dead.wrapping_sub(before.dead),
            expired_locks: self.expired_locks.wrapping_sub(before.expired_locks),
            expired: self.expired.wrapping_sub(before.expired),
            redriven: self.redriven.wrapping_sub(before.redriven),
            dropped: self.dropped.wrapping_sub(before.dropped),
        }
    }
}

impl Queue {
    /// An empty queue. `seed` makes the index's hash hard to aim at; it changes nothing else.
    pub fn new(seed: u64) -> Self {
        Self {
            messages: Slab::default(),
            rares: Slab::default(),
            live: Ids::default(),
            letters: Ids::default(),
            ready: [List::default(); Priority::LEVELS],
            ready_levels: 0,
            wheel: Wheel::default(),
            timers: None,
            dead: List::default(),
            places: None,
            counts: Counts::default(),
            totals: Totals::default(),
            last_token: 0,
            frame: Frame::default(),
            ahead_ms: 0,
            groups: None,
            refused: 0,
            bounds: None,
            latency: None,
            results: None,
            watched: None,
            batches: None,
            schedules: None,
            kinds: Kinds::default(),
            eoq: Eoq::default(),
            hasher: FixedState::with_seed(seed),
            body_bytes: 0,
            rare_bytes: 0,
        }
    }

    /// Messages of every status together.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether the queue holds neither a message nor a result.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.results.is_none()
    }

    /// Results that are kept, as the last step left them.
    pub fn results_len(&self) -> usize {
        self.results.as_ref().map_or(0, |results| results.len())
    }

    /// Messages that consumers would get now, those that time has not been let move on aside. None
    /// while deliveries are paused, and no more than limits leave room for. Where messages have groups
    /// it is the most that there can be: zero only if there is none.
    #[inline]
    pub fn ready_len(&self) -> usize {
        let ready = if self.is_plain() {
            self.counts.ready
        } else {
            self.bounded_ready()
        };
        ready.min(self.tokens_left())
    }

    /// How many deliveries there are tokens for. Only a queue from forged bytes comes to the end of
    /// them: it gives nothing more, rather than one token twice.
    #[inline]
    pub(crate) fn tokens_left(&self) -> usize {
        usize::try_from(Token::MAX.value() - self.last_token).unwrap_or(usize::MAX)
    }

    /// Messages by the statuses of [`Status::ALL`](crate::Status::ALL) without `done-awaiting-gc`, as the last
    /// step left them; [`Queue::info`] tells what holds at a moment.
    #[inline]
    pub fn counts(&self) -> [usize; Self::COUNTS] {
        let counts = &self.counts;
        [
            counts.ready,
            counts.delayed,
            counts.locked,
            counts.locked_with_copy,
            counts.done,
            counts.done_with_copy,
            counts.dead,
            counts.waiting,
        ]
    }

    /// Counters since the queue was created, as the last step left them.
    #[inline]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// When time has to act next, at the earliest; the epoch when it should already.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let mut next = self.wheel.next();
        if let Some(timers) = &self.timers {
            next = [next, timers.next()].into_iter().flatten().min();
        }
        if let Some(results) = &self.results {
            next = [next, results.next()].into_iter().flatten().min();
        }
        if self.is_plain() {
            next
        } else {
            let bounds = [self.bounded_due(), self.end_of_oldest_letter()];
            bounds.into_iter().chain([next]).flatten().min()
        }
    }

    /// Whether there are more dead letters than are kept, `max_dead` if the queue has no limit of its own:
    /// then [`Queue::let_time_act`] has something to do, whatever the time.
    #[inline]
    pub fn has_letters_to_forget(&self, max_dead: u32) -> bool {
        let dead = self.counts.dead;
        dead != 0 && dead > self.most_letters(max_dead)
    }

    #[inline]
    pub(crate) fn hash(&self, key: &Key<'_>) -> u32 {
        hash_bytes(&self.hasher, key.stored())
    }

    #[inline]
    pub(crate) fn find_live(&self, key: &Key<'_>) -> Option<u32> {
        self.live.find(&self.messages, key, || self.hash(key))
    }

    #[inline]
    pub(crate) fn find_letter(&self, key: &Key<'_>) -> Option<u32> {
        self.letters.find(&self.messages, key, || self.hash(key))
    }

    /// The next delivery's token: `max(last token + 1, now in µs)`.
    #[inline]
    pub(crate) fn next_token(&self) -> Token {
        let value = (self.last_token + 1).max(self.frame.now_us);
        // No clock of this millennium gets there, and deliveries end before: `tokens_left`.
        Token::new(value).min(Token::MAX)
    }

    /// The newest token given, or the one that tokens were set to go on behind.
    pub fn last_token(&self) -> Token {
        Token::new(self.last_token)
    }

    /// Lets tokens go on behind `token`, that of a delivery of an older queue of the same name: its
    /// consumer must not end a delivery of this one. Changes nothing where the clock is past it.
    pub fn continue_tokens(&mut self, turn: &mut Turn<'_>, token: Token) {
        // A frame may have begun at any time of this millisecond.
        let begin = turn.now.instant().millis() * 1000;
        if token.value() >= begin.max(self.last_token + 1) {
            self.enter_frame(turn);
            self.emit(turn, &Effect::TokensAfter { token });
            self.last_token = token.value();
        }
    }

    /// The slot that a consumer gets next.
    #[inline]
    pub(crate) fn next_ready(&self) -> Option<u32> {
        if let Some(groups) = &self.groups {
            return groups.next(&self.ready);
        }
        self.ready
            .get(self.ready_levels.trailing_zeros() as usize)?
            .head()
    }

    /// Adds a message whose id is free.
    #[inline]
    pub(crate) fn add(&mut self, key: Key<'_>, content: &Content<'_>, state: State) {
        let hash = self.hash(&key);
        let own = self.own_of(content);
        let message = Message::new(
            key,
            hash,
            content.payload,
            &own,
            content.priority,
            content.enqueued,
        );
        let slot = self.hold(message);
        if let Some(batch) = own.batch {
            self.enter_batch(slot, batch, state == State::Waiting);
        }
        self.live.insert(&self.messages, slot, self.frame.next_id);
        self.forget_result_of(slot);
        count(&mut self.totals.enqueued);
        self.link(slot, state);
        if own.timer.is_some() {
            self.start_timer(slot);
        }
    }

    /// Gives a message a slot; it is in no list and no index yet.
    #[inline]
    pub(crate) fn hold(&mut self, message: Message) -> u32 {
        self.body_bytes += allocated(message.body_len());
        let slot = self.messages.insert(message);
        if slot as usize >= wheel::FEW && !self.wheel.deals_ahead() {
            self.wheel.deal_ahead_from_now_on();
        }
        slot
    }

    /// Puts an unlinked message into the list its new state belongs to, behind the others.
    #[inline]
    pub(crate) fn link(&mut self, slot: u32, state: State) {
        self.messages.get_mut(slot).set_state(state);
        match state {
            State::Ready { .. } if self.groups.is_some() => {}
            State::Ready { .. } => {
                let level = self.messages.get(slot).priority().level() as usize;
                self.ready_levels |= 1 << level;
                self.ready[level].push_back(&mut self.messages, slot);
            }
            State::Dead { .. } => self.dead.push_back(&mut self.messages, slot),
            State::Waiting => {
                let batches = self.batches.get_or_insert_default();
                batches.waiting.push_back(&mut self.messages, slot);
            }
            State::Delayed { due: at }
            | State::Locked { until: at, .. }
            | State::Done { until: at } => {
                self.wheel.insert(&mut self.messages, slot, at);
            }
        }
        *self.count_of(slot, state) += 1;
        if self.groups.is_some() {
            self.enter_group(slot, state, End::Back);
        }
    }

    /// Puts an unlinked message, ready as `state` says, behind `before` in the list of their
    /// priority, or in front of all.
    pub(crate) fn link_behind(&mut self, slot: u32, before: Option<u32>, state: State) {
        let message = self.messages.get_mut(slot);
        message.set_state(state);
        let level = message.priority().level() as usize;
        let has_group = message.group().is_some();
        *self.count_of(slot, state) += 1;
        if has_group {
            self.enter_group(slot, state, End::Front);
            return;
        }
        if let Some(groups) = &mut self.groups {
            groups.plain_has(level, true);
        }
        self.ready_levels |= 1 << level;
        self.ready[level].insert_behind(&mut self.messages, before, slot);
    }

    /// Takes a message out of its list and its count.
    #[inline]
    pub(crate) fn unlink(&mut self, slot: u32) -> State {
        let message = self.messages.get(slot);
        let state = message.state();
        if message.is_placed() && matches!(state, State::Ready { .. }) {
            self.leave_ready_place(slot);
        }
        if self.groups.is_some() {
            self.leave_group(slot, state);
        }
        match state {
            State::Ready { .. } if self.groups.is_some() => {}
            State::Ready { .. } => {
                let level = self.messages.get(slot).priority().level() as usize;
                self.ready[level].unlink(&mut self.messages, slot);
                if self.ready[level].is_empty() {
                    self.ready_levels &= !(1 << level);
                }
            }
            State::Dead { .. } => self.dead.unlink(&mut self.messages, slot),
            State::Waiting => {
                let batches = self.batches.get_or_insert_default();
                batches.waiting.unlink(&mut self.messages, slot);
            }
            State::Delayed { due: at }
            | State::Locked { until: at, .. }
            | State::Done { until: at } => {
                self.wheel.remove(&mut self.messages, slot, at);
            }
        }
        *self.count_of(slot, state) -= 1;
        state
    }

    #[inline]
    fn count_of(&mut self, slot: u32, state: State) -> &mut usize {
        match state {
            State::Ready { .. } => &mut self.counts.ready,
            State::Delayed { .. } => &mut self.counts.delayed,
            State::Locked { .. } if self.has_copy(slot) => &mut self.counts.locked_with_copy,
            State::Locked { .. } => &mut self.counts.locked,
            State::Done { .. } if self.has_copy(slot) => &mut self.counts.done_with_copy,
            State::Done { .. } => &mut self.counts.done,
            State::Dead { .. } => &mut self.counts.dead,
            State::Waiting => &mut self.counts.waiting,
        }
    }

    #[inline]
    pub(crate) fn is_locked(&self, slot: u32) -> bool {
        matches!(self.messages.get(slot).state(), State::Locked { .. })
    }

    /// Removes an unlinked live message; its id is free.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        self.note_end(slot, false);
        self.live.remove(&self.messages, slot, self.frame.next_id);
        self.free(slot);
    }

    #[inline]
    pub(crate) fn free(&mut self, slot: u32) {
        self.drop_rare(slot);
        if self.batches.is_some() {
            self.leave_batch_for_good(slot);
        }
        if self.groups.is_some() {
            self.leave_group_for_good(slot);
        }
        self.forget_place(slot);
        self.drop_timer(slot);
        let message = self.messages.remove(slot);
        self.body_bytes -= allocated(message.body_len());
    }

    /// Runs `change`, which may replace the message's allocation.
    pub(crate) fn change_body(&mut self, slot: u32, change: impl FnOnce(&mut Message)) {
        let message = self.messages.get_mut(slot);
        self.body_bytes -= allocated(message.body_len());
        change(message);
        self.body_bytes += allocated(message.body_len());
    }

    /// Makes an unlinked message run with the content of its waiting copy. A delay of the copy
    /// counts from `ended`, the end of the run or window it waited for. It may be over already:
    /// then the message still takes its turn among all that are due.
    pub(crate) fn promote(&mut self, slot: u32, copy: &WaitingCopy, ended: Timestamp) {
        self.set_reason(slot, None);
        self.forget_result_of(slot);
        self.leave_batch(slot, false, ended);
        self.follow_no_more(slot);
        self.let_group_go_on(slot);
        self.give_content(slot, &Content::of(copy));
        self.messages.get_mut(slot).attempts = 0;
        self.link(slot, State::waiting(copy.start.due(ended), ended));
        self.start_timer(slot);
    }

    /// Bytes in memory: slots, indexes, schedule, and what the messages hold.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.messages.bytes()
            + self.rares.bytes()
            + self.live.bytes()
            + self.letters.bytes()
            + self.wheel.bytes()
            + self.groups.as_ref().map_or(0, |groups| groups.memory())
            + self.bounds.as_ref().map_or(0, |_| size_of::<Bounds>())
            + self.places.as_ref().map_or(0, |places| places.bytes())
            + self.timers.as_ref().map_or(0, |timers| timers.bytes())
            + self.latency.as_ref().map_or(0, |latency| latency.bytes())
            + self.results.as_ref().map_or(0, |results| results.bytes())
            + self.batches.as_ref().map_or(0, |batches| batches.bytes())
            + (self.schedules.as_ref()).map_or(0, |schedules| schedules.bytes())
            + self.body_bytes
            + self.rare_bytes
    }
}

impl Start {
    /// When a message that starts so is due, its time counted from `from`; zero if at once.
    #[inline]
    pub(crate) fn due(self, from: Timestamp) -> Timestamp {
        match self {
            Self::Default => Timestamp::ZERO,
            Self::After(span) => from.after(span),
            Self::At(instant) => instant,
        }
    }
}

/// Adds one to a counter, which may have any value in a loaded queue.
#[inline]
pub(crate) fn count(total: &mut u64) {
    *total = total.saturating_add(1);
}

/// Bytes an allocator takes for `length`: jemalloc's classes of 16 bytes up to 128, then four to
/// each doubling.
#[inline]
pub(crate) fn allocated(length: usize) -> usize {
    let step = if length <= 128 {
        16
    } else {
        length.next_power_of_two() / 8
    };
    length.next_multiple_of(step)
}
