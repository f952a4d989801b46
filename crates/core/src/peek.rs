//! MQ.PEEK: messages in their order, a page at a time, and none of them taken.
//!
//! A page is read off the lists that the messages are in, from the message on that the page before
//! ended with. What time has moved on by now, though nobody has let it act, is in the wrong list: it
//! is found in the schedule and comes where it will be.

use crate::id::Key;
use crate::inspect::View;
use crate::link::{Links, List};
use crate::message::{Message, State};
use crate::queue::Queue;
use crate::slab::NIL;
use crate::stand::Rank;
use crate::types::{Now, Status, Timestamp};

/// Which messages somebody wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek<'a> {
    /// Those of one status, in its own order; the next deliveries if none is given.
    pub status: Option<Status>,
    /// At most so many.
    pub count: usize,
    /// Those behind the message of this id, which must have the status.
    pub after: Option<&'a [u8]>,
    /// From the other end.
    pub reverse: bool,
}

/// Why there is no such page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeekError {
    /// No message of the status has the id that the page should come behind.
    NoSuchMessage,
    /// Groups take turns: nothing can be said to come behind a message that is ready.
    Turns,
    /// The schedule holds too many messages of another status before the next of this one.
    TooFar,
}

/// Entries of the schedule that a page may pass over because they have another status: about a
/// millisecond's work.
const LOOK: usize = 16_384;

/// A part of an order.
enum Row<'a> {
    /// Messages of which some may be elsewhere by now.
    List(&'a List),
    /// What time has put there by now.
    Moved(Vec<u32>),
}

impl Row<'_> {
    /// The same from the other end; a list has both.
    fn reversed(self) -> Self {
        match self {
            Self::List(list) => Self::List(list),
            Self::Moved(mut slots) => {
                slots.reverse();
                Self::Moved(slots)
            }
        }
    }
}

impl Queue {
    /// A page of messages as they stand at `now`. It may be shorter than asked for and not the last;
    /// an empty one is.
    ///
    /// # Errors
    /// If there is no such page.
    pub fn peek(&self, now: Now, peek: &Peek<'_>) -> Result<Vec<View<'_>>, PeekError> {
        let now = now.instant();
        let status = peek.status.unwrap_or(Status::Queued);
        let slots = if status == Status::Queued && self.has_groups() {
            if peek.after.is_some() {
                return Err(PeekError::Turns);
            }
            self.ready_in_turns(now, peek)
        } else {
            let after = match peek.after {
                None => None,
                Some(id) => {
                    let slot = self.find_standing(&Key::of(id), status, now);
                    Some(slot.ok_or(PeekError::NoSuchMessage)?)
                }
            };
            let moved = self.moved_to(status, now);
            let wanted = Wanted {
                status,
                now,
                after,
                reverse: peek.reverse,
                most: self.most_of(status, now, moved.len(), peek.count),
                look: LOOK,
            };
            self.page(self.rows(status, moved, peek.reverse), &wanted)?
        };
        let view = |slot: u32| self.view_as(slot, now, self.stands(slot, now).of(status)?);
        Ok(slots.into_iter().filter_map(view).collect())
    }

    /// The slots of up to `most` messages of a status at `now`; those that come first, unless too many
    /// of another status lie between them.
    pub(crate) fn slots_of(&self, status: Status, now: Timestamp, most: usize) -> Vec<u32> {
        let moved = self.moved_to(status, now);
        let is_scheduled = !matches!(status, Status::Queued | Status::Dead | Status::Waiting);
        let wanted = Wanted {
            status,
            now,
            after: None,
            reverse: false,
            most: self.most_of(status, now, moved.len(), most),
            look: if is_scheduled { LOOK } else { usize::MAX },
        };
        let page = self.page(self.rows(status, moved, false), &wanted);
        let page = page.unwrap_or_default();
        if page.len() == wanted.most || !is_scheduled {
            return page;
        }
        // Place by place is many times faster than along the links.
        let all = 0..self.messages.end();
        let may_be = |message: &Message| {
            message.is_held()
                && match status {
                    Status::Locked | Status::LockedWithRequeue => {
                        matches!(message.state(), State::Locked { .. })
                    }
                    Status::DoneWithBackoff | Status::DoneWithRequeue => {
                        matches!(message.state(), State::Done { .. })
                    }
                    _ => true,
                }
        };
        let all = all.filter(|slot| self.messages.find(*slot).is_some_and(may_be));
        let all = all.filter(|slot| self.stands_as(*slot, status, now));
        all.take(most).collect()
    }

    /// How many messages to look for: a walk through the schedule can end with the last of its status.
    fn most_of(&self, status: Status, now: Timestamp, moved: usize, most: usize) -> usize {
        if matches!(
            status,
            Status::Dead | Status::DoneAwaitingGc | Status::Waiting
        ) {
            return most;
        }
        let left = self.moved_on(now);
        let left = left.filter(|slot| self.counted_as(*slot) == status).count();
        most.min(self.counts()[status as usize] - left + moved)
    }

    /// The slot where a message of that id and status is at `now`.
    fn find_standing(&self, key: &Key<'_>, status: Status, now: Timestamp) -> Option<u32> {
        let slots = [self.find_live(key), self.find_letter(key)];
        slots
            .into_iter()
            .flatten()
            .find(|slot| self.stands_as(*slot, status, now))
    }

    fn stands_as(&self, slot: u32, status: Status, now: Timestamp) -> bool {
        let stand = self.stands(slot, now).of(status);
        stand.and_then(|stand| stand.status(now)) == Some(status)
    }

    /// Whether messages may have groups that take turns; limits of none do not count.
    fn has_groups(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.len() > 0)
    }

    /// The order of a status, or of what is ready lane by lane, which has no other end.
    fn rows(
        &self,
        status: Status,
        moved: Vec<(Rank, u32)>,
        reverse: bool,
    ) -> Box<dyn Iterator<Item = Row<'_>> + '_> {
        let groups = self.groups.as_ref().filter(|_| self.has_groups());
        let rows: Vec<Row<'_>> = match (status, groups) {
            (Status::Queued, None) => {
                let mut moved = moved.into_iter().peekable();
                let mut rows = Vec::new();
                for (level, list) in self.ready.iter().enumerate() {
                    rows.push(Row::List(list));
                    let is_here = |(rank, _): &(Rank, u32)| usize::from(rank.0.level()) == level;
                    let here = std::iter::from_fn(|| moved.next_if(is_here));
                    rows.push(Row::Moved(here.map(|(_, slot)| slot).collect()));
                }
                rows
            }
            (Status::Queued, Some(groups)) => {
                let lists = self.ready.iter().enumerate();
                let in_turn = lists.flat_map(|(level, plain)| groups.lists(level, plain));
                let lists = in_turn.chain(groups.lists_out_of_turn());
                let moved = Row::Moved(moved.into_iter().map(|(_, slot)| slot).collect());
                return Box::new(lists.map(Row::List).chain([moved]));
            }
            (Status::Waiting, _) => self.waiting_list().map(Row::List).into_iter().collect(),
            (Status::Dead, _) => vec![
                Row::List(&self.dead),
                Row::Moved(moved.into_iter().map(|(_, slot)| slot).collect()),
            ],
            _ => {
                let lists = self.wheel.lists().map(|(_, list)| list);
                let lists = lists.filter(|list| !list.is_empty()).map(Row::List);
                let moved = Row::Moved(moved.into_iter().map(|(_, slot)| slot).collect());
                lists.chain([moved]).collect()
            }
        };
        if reverse {
            Box::new(rows.into_iter().rev().map(Row::reversed))
        } else {
            Box::new(rows.into_iter())
        }
    }

    /// The first of these rows that are wanted.
    fn page<'a>(
        &'a self,
        mut rows: impl Iterator<Item = Row<'a>>,
        wanted: &Wanted,
    ) -> Result<Vec<u32>, PeekError> {
        let mut page = Page {
            slots: Vec::new(),
            most: wanted.most,
            look: wanted.look,
        };
        match wanted.after {
            None => {}
            Some(after) if self.is_moved_on(after, wanted.now) => {
                for row in rows.by_ref() {
                    if let Row::Moved(mut slots) = row {
                        if let Some(at) = slots.iter().position(|slot| *slot == after) {
                            page.take_all(slots.split_off(at + 1));
                            break;
                        }
                    }
                }
            }
            Some(after) => {
                let last = self.walk(wanted, &mut page, self.beside(after, wanted.reverse));
                let last = last.unwrap_or(after);
                let ends = |list: &List| {
                    if wanted.reverse {
                        list.head()
                    } else {
                        list.tail()
                    }
                };
                if !page.is_over() {
                    rows.find(|row| matches!(row, Row::List(list) if ends(list) == Some(last)));
                }
            }
        }
        while !page.is_over() {
            match rows.next() {
                None => break,
                Some(Row::Moved(slots)) => page.take_all(slots),
                Some(Row::List(list)) => {
                    let first = if wanted.reverse {
                        list.tail()
                    } else {
                        list.head()
                    };
                    self.walk(wanted, &mut page, first);
                }
            }
        }
        if page.slots.is_empty() && page.look == 0 {
            return Err(PeekError::TooFar);
        }
        Ok(page.slots)
    }

    /// Takes what is wanted from a list, `first` and what comes behind it. Returns the last that was
    /// looked at.
    fn walk(&self, wanted: &Wanted, page: &mut Page, first: Option<u32>) -> Option<u32> {
        let (mut next, mut last) = (first, None);
        while let Some(slot) = next.filter(|_| !page.is_over()) {
            // Those that are elsewhere by now have all been looked at anyway.
            if !self.is_moved_on(slot, wanted.now) {
                if self.stands_as(slot, wanted.status, wanted.now) {
                    page.slots.push(slot);
                } else {
                    page.look -= 1;
                }
            }
            last = next;
            next = self.beside(slot, wanted.reverse);
        }
        last
    }

    /// The message that comes next in the list of `slot`.
    fn beside(&self, slot: u32, reverse: bool) -> Option<u32> {
        let next = if reverse {
            self.messages.previous(slot)
        } else {
            self.messages.next(slot)
        };
        (next != NIL).then_some(next)
    }

    /// The next deliveries if each ends before the next begins; behind them, where all that are ready
    /// are asked for, those of groups that may not be served.
    fn ready_in_turns(&self, now: Timestamp, peek: &Peek<'_>) -> Vec<u32> {
        let Some(groups) = &self.groups else {
            return Vec::new();
        };
        let is_there = |slot: u32| !self.is_moved_on(slot, now);
        let mut slots = groups.ahead(
            &self.messages,
            &self.ready,
            peek.reverse,
            peek.count,
            is_there,
        );
        let moved = self.moved_to(Status::Queued, now);
        slots.extend(moved.into_iter().map(|(_, slot)| slot));
        if peek.status.is_some() && slots.len() < peek.count && groups.held() > 0 {
            let held = groups.parked_lists();
            let held = held.flat_map(|list| list.iter(&self.messages));
            let missing = peek.count - slots.len();
            slots.extend(held.filter(|slot| is_there(*slot)).take(missing));
        }
        slots.truncate(peek.count);
        slots
    }
}

/// Of which messages a page is made.
struct Wanted {
    status: Status,
    now: Timestamp,
    after: Option<u32>,
    reverse: bool,
    most: usize,
    /// How many others may be passed over.
    look: usize,
}

struct Page {
    slots: Vec<u32>,
    most: usize,
    look: usize,
}

impl Page {
    fn is_over(&self) -> bool {
        self.slots.len() >= self.most || self.look == 0
    }

    fn take_all(&mut self, slots: Vec<u32>) {
        let left = self.most - self.slots.len();
        self.slots.extend(slots.into_iter().take(left));
    }
}
