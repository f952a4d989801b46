//! Who waits for messages where, first come first served, and at which places there may be some. It
//! knows no server.
//!
//! A wait is at one place or at several and leaves all of them at once. Each step takes time that does
//! not depend on how many others wait.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// A database and the name of a key.
pub type PlaceName = (i32, Box<[u8]>);

/// The waits, each with a handle `H`.
#[derive(Debug)]
pub struct Line<H> {
    waits: HashMap<u64, Wait<H>>,
    places: HashMap<i32, HashMap<Box<[u8]>, Place>>,
    /// Deadlines with the turns of their waits.
    deadlines: BTreeSet<(u64, u64)>,
    /// Places where messages may be ready; some may have been left by all.
    noted: VecDeque<PlaceName>,
    /// The last turn that was given: none is given twice.
    last: u64,
}

#[derive(Debug)]
struct Wait<H> {
    db: i32,
    names: Box<[Box<[u8]>]>,
    deadline: Option<u64>,
    handle: H,
}

#[derive(Debug, Default)]
struct Place {
    turns: BTreeSet<u64>,
    is_noted: bool,
}

impl<H> Line<H> {
    /// Nobody waits.
    pub fn new() -> Line<H> {
        Line {
            waits: HashMap::new(),
            places: HashMap::new(),
            deadlines: BTreeSet::new(),
            noted: VecDeque::new(),
            last: 0,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// One more waits at these places, behind all who are there. Returns its turn, which names it.
    pub fn enter<'a>(
        &mut self,
        db: i32,
        names: impl Iterator<Item = &'a [u8]>,
        deadline: Option<u64>,
        handle: H,
    ) -> u64 {
        self.last += 1;
        let turn = self.last;
        let names: Box<[Box<[u8]>]> = names.map(Box::from).collect();
        let places = self.places.entry(db).or_default();
        for name in &names {
            match places.get_mut(name) {
                Some(place) => place,
                None => places.entry(name.clone()).or_default(),
            }
            .turns
            .insert(turn);
        }
        self.deadlines.extend(deadline.map(|at| (at, turn)));
        let wait = Wait {
            db,
            names,
            deadline,
            handle,
        };
        self.waits.insert(turn, wait);
        turn
    }

    /// Ends a wait; none if it has ended.
    pub fn leave(&mut self, turn: u64) -> Option<H> {
        let wait = self.waits.remove(&turn)?;
        if let Some(at) = wait.deadline {
            self.deadlines.remove(&(at, turn));
        }
        if let Some(places) = self.places.get_mut(&wait.db) {
            for name in &wait.names {
                if let Some(place) = places.get_mut(name) {
                    place.turns.remove(&turn);
                    if place.turns.is_empty() {
                        places.remove(name);
                    }
                }
            }
            if places.is_empty() {
                self.places.remove(&wait.db);
            }
        }
        if self.waits.is_empty() {
            self.noted.clear();
        }
        Some(wait.handle)
    }

    fn place(&self, db: i32, name: &[u8]) -> Option<&Place> {
        self.places.get(&db)?.get(name)
    }

    /// Whether anybody waits there.
    pub fn any(&self, db: i32, name: &[u8]) -> bool {
        self.place(db, name).is_some()
    }

    /// Who is first there.
    pub fn first(&self, db: i32, name: &[u8]) -> Option<(u64, &H)> {
        let turn = *self.place(db, name)?.turns.first()?;
        Some((turn, &self.waits.get(&turn)?.handle))
    }

    /// There may be messages at a place: notes that, if anybody waits there. True if that is news.
    pub fn note(&mut self, db: i32, name: &[u8]) -> bool {
        let place = self
            .places
            .get_mut(&db)
            .and_then(|places| places.get_mut(name));
        let is_news = place.is_some_and(|place| !std::mem::replace(&mut place.is_noted, true));
        if is_news {
            self.noted.push_back((db, name.into()));
        }
        is_news
    }

    /// Whether the place is noted.
    pub fn is_noted(&self, db: i32, name: &[u8]) -> bool {
        self.place(db, name).is_some_and(|place| place.is_noted)
    }

    /// Whether any place is noted.
    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// The place that was noted first; it is noted no more.
    pub fn take_noted(&mut self) -> Option<PlaceName> {
        while let Some((db, name)) = self.noted.pop_front() {
            let place = self
                .places
                .get_mut(&db)
                .and_then(|places| places.get_mut(&name));
            if place.is_some_and(|place| std::mem::take(&mut place.is_noted)) {
                return Some((db, name));
            }
        }
        None
    }

    /// The first deadline.
    pub fn deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends a wait whose deadline has come.
    pub fn take_due(&mut self, now: u64) -> Option<H> {
        let (at, turn) = *self.deadlines.first()?;
        (at <= now).then(|| self.leave(turn)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(line: &mut Line<u64>, db: i32, names: &[&str], deadline: Option<u64>) -> u64 {
        let turn = line.last + 1;
        let names = names.iter().map(|name| name.as_bytes());
        assert_eq!(line.enter(db, names, deadline, turn), turn);
        turn
    }

    #[test]
    fn who_came_first_is_first_at_each_place() {
        let mut line = Line::new();
        let both = enter(&mut line, 0, &["a", "b", "a"], None);
        let a = enter(&mut line, 0, &["a"], None);
        let b = enter(&mut line, 0, &["b"], None);
        let first = |line: &Line<u64>, name: &str| line.first(0, name.as_bytes()).map(|one| one.0);
        assert_eq!(
            (first(&line, "a"), first(&line, "b")),
            (Some(both), Some(both))
        );
        assert_eq!(line.first(1, b"a"), None);
        assert_eq!(line.leave(both), Some(both));
        assert_eq!(line.leave(both), None);
        assert_eq!((first(&line, "a"), first(&line, "b")), (Some(a), Some(b)));
        line.leave(a);
        line.leave(b);
        assert!(line.len() == 0 && line.places.is_empty());
    }

    #[test]
    fn a_place_is_noted_once_and_only_while_somebody_waits() {
        let mut line = Line::new();
        assert!(!line.note(0, b"a"));
        let first = enter(&mut line, 0, &["a"], None);
        let second = enter(&mut line, 0, &["b"], None);
        assert!(line.note(0, b"a") && !line.note(0, b"a") && line.is_noted(0, b"a"));
        assert!(line.note(0, b"b") && !line.note(1, b"b"));
        line.leave(first);
        // Whoever comes now has not been told of anything.
        enter(&mut line, 0, &["a"], None);
        assert!(!line.is_noted(0, b"a") && line.has_noted());
        assert_eq!(line.take_noted(), Some((0, Box::from(*b"b"))));
        assert_eq!(line.take_noted(), None);
        assert!(line.note(0, b"b"));
        line.leave(second);
        assert_eq!(line.take_noted(), None);
    }

    #[test]
    fn deadlines_end_waits_in_their_order() {
        let mut line = Line::new();
        let late = enter(&mut line, 0, &["a"], Some(9));
        let early = enter(&mut line, 0, &["a", "b"], Some(5));
        let gone = enter(&mut line, 0, &["a"], Some(4));
        enter(&mut line, 0, &["a"], None);
        line.leave(gone);
        assert_eq!(line.deadline(), Some(5));
        assert_eq!(line.take_due(4), None);
        assert_eq!(line.take_due(5), Some(early));
        assert_eq!(line.take_due(5), None);
        assert_eq!(line.take_due(10), Some(late));
        assert_eq!((line.deadline(), line.len()), (None, 1));
    }
}
