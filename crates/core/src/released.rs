//! The order among what consumers gave back unworked.
//!
//! A released message stands in front of all that were not delivered yet, and among the released
//! ones where it stood before: its *place* is the token of its first delivery since it last stood
//! behind others. It keeps the place when it is delivered and released again, and loses it with
//! anything else that ends its delivery. Only messages that have a place cost anything here.

use std::collections::BTreeMap;

use crate::message::State;
use crate::queue::Queue;
use crate::types::{Priority, Token};

/// The places that are taken. A message that has one is marked, so that all others need no look.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// By slot, of ready and of locked messages.
    of: BTreeMap<u32, Token>,
    /// Ready messages by priority and place, which is their order in the ready list.
    ready: BTreeMap<(Priority, Token), u32>,
}

/// About what an entry of a tree takes, with its share of the nodes.
const ENTRY_BYTES: usize = 32;

impl Places {
    fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>() + (self.of.len() + self.ready.len()) * ENTRY_BYTES
    }
}

/// Where a released message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// In front of all of its priority.
    InFront,
    /// Behind those released that stood before it.
    ToItsPlace,
}

impl Queue {
    /// The message's place among what was released, if it has one.
    #[inline]
    pub(crate) fn place(&self, slot: u32) -> Option<Token> {
        if !self.messages.get(slot).is_placed() {
            return None;
        }
        self.places.as_ref()?.of.get(&slot).copied()
    }

    /// Where the message goes if its delivery `token` is released now.
    ///
    /// A message of a group has no place: it goes in front of its group.
    pub(crate) fn way_back(&self, slot: u32, token: Token) -> Return {
        if self.messages.get(slot).group().is_some() {
            return Return::InFront;
        }
        let place = self.place(slot).unwrap_or(token);
        match self.stands_behind(slot, place) {
            Some(_) => Return::ToItsPlace,
            None => Return::InFront,
        }
    }

    /// The released message of the same priority that comes directly before `place`.
    fn stands_behind(&self, slot: u32, place: Token) -> Option<u32> {
        let priority = self.messages.get(slot).priority();
        let before = (priority, Token::new(0))..(priority, place);
        let ready = &self.places.as_ref()?.ready;
        ready.range(before).next_back().map(|(_, slot)| *slot)
    }

    /// Makes an unlinked message ready again where it stood before its delivery `token`.
    pub(crate) fn link_released(&mut self, slot: u32, token: Token, way: Return) {
        let place = self.place(slot).unwrap_or(token);
        let before = self.stands_behind(slot, place);
        let state = State::Ready {
            since: self.frame.instant(),
            token: None,
        };
        // An older primary knows no places: it says in front, and that is the order.
        let must_be_first = way == Return::InFront && before.is_some();
        let has_group = self.messages.get(slot).group().is_some();
        if has_group || must_be_first || self.is_taken(slot, place) {
            self.forget_place(slot);
            self.link_behind(slot, None, state);
        } else {
            self.link_behind(slot, before, state);
            self.take_place(slot, place);
        }
    }

    /// Whether another ready message has the place, which is so only in a queue of forged bytes.
    fn is_taken(&self, slot: u32, place: Token) -> bool {
        let at = (self.messages.get(slot).priority(), place);
        let places = self.places.as_ref();
        places.is_some_and(|places| places.ready.contains_key(&at))
    }

    /// Gives a message `place`. One that is ready must stand there in the list.
    pub(crate) fn take_place(&mut self, slot: u32, place: Token) {
        let message = self.messages.get_mut(slot);
        message.set_placed(true);
        let (priority, state) = (message.priority(), message.state());
        let places = self.places.get_or_insert_default();
        places.of.insert(slot, place);
        if matches!(state, State::Ready { .. }) {
            places.ready.insert((priority, place), slot);
        }
    }

    /// Whether a ready message with `place` may stand behind all that are ready by now.
    pub(crate) fn may_follow(&self, priority: Priority, place: Token) -> bool {
        let Some(places) = &self.places else {
            return true;
        };
        let behind = (priority, place)..=(priority, Token::MAX);
        places.ready.range(behind).next().is_none()
    }

    /// A message that has a place leaves the ready list; it keeps the place.
    #[cold]
    pub(crate) fn leave_ready_place(&mut self, slot: u32) {
        let priority = self.messages.get(slot).priority();
        if let (Some(place), Some(places)) = (self.place(slot), &mut self.places) {
            places.ready.remove(&(priority, place));
        }
    }

    /// The message, which is in no list, has no place any more.
    #[inline]
    pub(crate) fn forget_place(&mut self, slot: u32) {
        if self.messages.get(slot).is_placed() {
            self.forget_taken_place(slot);
        }
    }

    #[cold]
    fn forget_taken_place(&mut self, slot: u32) {
        self.messages.get_mut(slot).set_placed(false);
        if let Some(places) = &mut self.places {
            places.of.remove(&slot);
            if places.is_empty() {
                self.places = None;
            }
        }
    }

    /// Whether the places are those of marked messages, and their order that of the ready lists.
    pub(crate) fn check_released(&self, held: &[u32]) -> Result<(), String> {
        let marked = held
            .iter()
            .filter(|slot| self.messages.get(**slot).is_placed());
        let mut marked: Vec<u32> = marked.copied().collect();
        marked.sort_unstable();
        let empty = Places::default();
        let places = self.places.as_deref().unwrap_or(&empty);
        if self.places.is_some() && places.is_empty() {
            return Err("places that nobody has".into());
        }
        if !marked.iter().eq(places.of.keys()) {
            return Err(format!("{marked:?} are marked, not {:?}", places.of.keys()));
        }
        let mut in_order = Vec::new();
        for (level, list) in self.ready.iter().enumerate() {
            let priority = Priority::new(level as u8).unwrap_or_default();
            for slot in list.iter(&self.messages) {
                in_order.extend(self.place(slot).map(|place| ((priority, place), slot)));
            }
        }
        if !in_order
            .iter()
            .copied()
            .eq(places.ready.iter().map(|(at, slot)| (*at, *slot)))
        {
            return Err(format!("{in_order:?} are ready, not {:?}", places.ready));
        }
        Ok(())
    }
}
