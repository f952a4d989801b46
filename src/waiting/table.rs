//! Who waits where, and for what. A wait is found by its place and what it waits for, to be ended when
//! that comes; by its place alone, to be ended when what was there goes; and by its own number, when it
//! ends by itself. Each takes time that does not depend on how many others wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// The waits, each with a handle `H`.
#[derive(Debug)]
pub struct Table<H> {
    places: BTreeMap<u64, Place<H>>,
    /// Numbers of places by database and name of the key.
    numbers: HashMap<i32, HashMap<Box<[u8]>, u64>>,
    tickets: HashMap<usize, Ticket>,
    /// Deadlines with the numbers of their waits.
    deadlines: BTreeSet<(u64, usize)>,
    /// The last number that was given, to a place or to a wait's turn: none is given twice.
    last: u64,
}

/// Waits for the same, in the order of their turns, each with its own number.
type Turns<H> = BTreeMap<u64, (usize, H)>;

/// One database and key at which somebody waits.
#[derive(Debug)]
struct Place<H> {
    db: i32,
    name: Box<[u8]>,
    /// The waits by what they are for, in the order in which they began.
    waits: HashMap<Arc<[u8]>, Turns<H>>,
}

/// Where a wait is.
#[derive(Debug)]
struct Ticket {
    place: u64,
    what: Arc<[u8]>,
    turn: u64,
    deadline: Option<u64>,
}

/// One wait that begins.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The database.
    pub db: i32,
    /// The name of the key.
    pub name: &'a [u8],
    /// What is waited for.
    pub what: &'a [u8],
    /// Its own number, which no other wait has now.
    pub number: usize,
    /// When it ends by itself, if it does.
    pub deadline: Option<u64>,
}

impl<H> Table<H> {
    /// Nobody waits.
    pub fn new() -> Table<H> {
        Table {
            places: BTreeMap::new(),
            numbers: HashMap::new(),
            tickets: HashMap::new(),
            deadlines: BTreeSet::new(),
            last: 0,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// One more waits, behind those who wait for the same. Returns the number of its place, which names it
    /// for as long as anybody waits there.
    pub fn enter(&mut self, wait: Wait<'_>, handle: H) -> u64 {
        let Wait {
            db,
            name,
            what,
            number,
            deadline,
        } = wait;
        let known = self.numbers.get(&db).and_then(|names| names.get(name));
        let place = match known {
            Some(place) => *place,
            None => {
                let place = self.next_number();
                let names = self.numbers.entry(db).or_default();
                names.insert(name.into(), place);
                let waits = HashMap::new();
                let name = name.into();
                self.places.insert(place, Place { db, name, waits });
                place
            }
        };
        let turn = self.next_number();
        if let Some(Place { waits, .. }) = self.places.get_mut(&place) {
            let known = waits.get_key_value(what).map(|(what, _)| Arc::clone(what));
            let what = known.unwrap_or_else(|| what.into());
            let others = waits.entry(Arc::clone(&what)).or_default();
            others.insert(turn, (number, handle));
            self.deadlines.extend(deadline.map(|at| (at, number)));
            let ticket = Ticket {
                place,
                what,
                turn,
                deadline,
            };
            self.tickets.insert(number, ticket);
        }
        place
    }

    /// Ends the wait of that number; none if there is no such wait.
    pub fn leave(&mut self, number: usize) -> Option<H> {
        let Ticket {
            place, what, turn, ..
        } = self.forget_ticket(number)?;
        let waits = &mut self.places.get_mut(&place)?.waits;
        let others = waits.get_mut(&what)?;
        let (_, handle) = others.remove(&turn)?;
        if others.is_empty() {
            waits.remove(&what);
        }
        if waits.is_empty() {
            self.forget(place);
        }
        Some(handle)
    }

    /// Whether anybody waits at the place.
    pub fn any_at(&self, place: u64) -> bool {
        self.places.contains_key(&place)
    }

    /// Whether anybody waits at the place for `what`.
    pub fn any_for(&self, place: u64, what: &[u8]) -> bool {
        self.places
            .get(&place)
            .is_some_and(|place| place.waits.contains_key(what))
    }

    /// Ends all waits for `what` at the place; their handles, first come first.
    pub fn take(&mut self, place: u64, what: &[u8]) -> Vec<H> {
        let Some(Place { waits, .. }) = self.places.get_mut(&place) else {
            return Vec::new();
        };
        let taken = waits.remove(what).unwrap_or_default();
        if waits.is_empty() {
            self.forget(place);
        }
        self.handles(taken)
    }

    /// Ends all waits at the place.
    pub fn take_place(&mut self, place: u64) -> Vec<H> {
        let Some(place) = self.forget(place) else {
            return Vec::new();
        };
        let waits = place.waits.into_values();
        waits.flat_map(|waits| self.handles(waits)).collect()
    }

    /// Ends all waits at places of a database.
    pub fn take_database(&mut self, db: i32) -> Vec<H> {
        let names = self.numbers.get(&db).into_iter().flatten();
        let places: Vec<u64> = names.map(|(_, place)| *place).collect();
        let taken = places.into_iter().map(|place| self.take_place(place));
        taken.flatten().collect()
    }

    /// The first deadline.
    pub fn deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends a wait whose deadline has come.
    pub fn take_due(&mut self, now: u64) -> Option<H> {
        let (at, number) = *self.deadlines.first()?;
        (at <= now).then(|| self.leave(number)).flatten()
    }

    /// The place whose number is next behind `after`, with its database and name.
    pub fn next_place(&self, after: u64) -> Option<(u64, i32, &[u8])> {
        let mut behind = self
            .places
            .range((Bound::Excluded(after), Bound::Unbounded));
        let (number, place) = behind.next()?;
        Some((*number, place.db, &place.name))
    }

    fn handles(&mut self, waits: Turns<H>) -> Vec<H> {
        let taken = waits.into_values().map(|(number, handle)| {
            self.forget_ticket(number);
            handle
        });
        taken.collect()
    }

    fn forget_ticket(&mut self, number: usize) -> Option<Ticket> {
        let ticket = self.tickets.remove(&number)?;
        if let Some(at) = ticket.deadline {
            self.deadlines.remove(&(at, number));
        }
        Some(ticket)
    }

    fn forget(&mut self, place: u64) -> Option<Place<H>> {
        let gone = self.places.remove(&place)?;
        if let Some(names) = self.numbers.get_mut(&gone.db) {
            names.remove(&gone.name);
            if names.is_empty() {
                self.numbers.remove(&gone.db);
            }
        }
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait of the model: where, for what, its number.
    type Row = (i32, u8, u8, usize);

    /// The table beside a list of all waits in their order.
    struct Both {
        table: Table<usize>,
        model: Vec<Row>,
        places: HashMap<(i32, u8), u64>,
        random: u64,
    }

    impl Both {
        fn draw(&mut self, below: u64) -> u64 {
            // Knuth's generator; its high bits are the good ones.
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % below
        }

        fn place(&mut self) -> (i32, u8) {
            (self.draw(3) as i32, self.draw(3) as u8)
        }

        /// Takes those waits out of the model, which `taken` must be.
        fn gone(&mut self, taken: Vec<usize>, in_order: bool, is: impl Fn(&Row) -> bool) {
            let (gone, kept) = self.model.drain(..).partition(is);
            self.model = kept;
            let gone: Vec<Row> = gone;
            let mut expected: Vec<usize> = gone.iter().map(|wait| wait.3).collect();
            let mut taken = taken;
            if !in_order {
                expected.sort_unstable();
                taken.sort_unstable();
            }
            assert_eq!(taken, expected);
        }

        fn check(&self) {
            let table = &self.table;
            assert_eq!(table.len(), self.model.len());
            for (at, number) in &self.places {
                let here = self.model.iter().filter(|wait| (wait.0, wait.1) == *at);
                let whats: Vec<u8> = here.map(|wait| wait.2).collect();
                assert_eq!(table.any_at(*number), !whats.is_empty());
                for what in 0..4 {
                    assert_eq!(table.any_for(*number, &[what]), whats.contains(&what));
                }
            }
            let (mut after, mut walked) = (0, Vec::new());
            while let Some((number, db, name)) = table.next_place(after) {
                walked.push((db, name[0]));
                after = number;
            }
            walked.sort_unstable();
            let timed = self.model.iter().filter(|wait| wait.2.is_multiple_of(2));
            assert_eq!(table.deadline(), timed.map(|wait| wait.3 as u64).min());
            let mut expected: Vec<_> = self.model.iter().map(|wait| (wait.0, wait.1)).collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(walked, expected);
        }
    }

    #[test]
    fn waits_end_as_in_a_list_that_is_searched() {
        for seed in 0..200 {
            let mut both = Both {
                table: Table::new(),
                model: Vec::new(),
                places: HashMap::new(),
                random: seed,
            };
            for number in 1..100 {
                let (db, name) = both.place();
                let place = both.places.get(&(db, name)).copied().unwrap_or(u64::MAX);
                let what = both.draw(4) as u8;
                match both.draw(10) {
                    0..5 => {
                        // A wait's number is its deadline as well, or it has none.
                        let deadline = (what.is_multiple_of(2)).then_some(number as u64);
                        let (name_of, what_of) = ([name], [what]);
                        let wait = Wait {
                            db,
                            name: &name_of,
                            what: &what_of,
                            number,
                            deadline,
                        };
                        let place = both.table.enter(wait, number);
                        both.places.insert((db, name), place);
                        both.model.push((db, name, what, number));
                    }
                    5..7 => {
                        let left = both.draw(number as u64) as usize;
                        let taken = both.table.leave(left).into_iter().collect();
                        both.gone(taken, true, |wait| wait.3 == left);
                    }
                    7..8 => {
                        let taken = both.table.take(place, &[what]);
                        both.gone(taken, true, |wait| {
                            (wait.0, wait.1, wait.2) == (db, name, what)
                        });
                    }
                    8..9 if what == 0 => {
                        let now = both.draw(number as u64);
                        let due = std::iter::from_fn(|| both.table.take_due(now)).collect();
                        both.gone(due, false, |wait| {
                            wait.2.is_multiple_of(2) && wait.3 as u64 <= now
                        });
                    }
                    8..9 => {
                        let taken = both.table.take_place(place);
                        both.gone(taken, false, |wait| (wait.0, wait.1) == (db, name));
                    }
                    _ => {
                        let taken = both.table.take_database(db);
                        both.gone(taken, false, |wait| wait.0 == db);
                    }
                }
                both.check();
            }
        }
    }

    #[test]
    fn the_last_to_go_leaves_nothing() {
        let mut table = Table::new();
        let wait = |what, number| Wait {
            db: 0,
            name: b"a",
            what,
            number,
            deadline: Some(5),
        };
        let place = table.enter(wait(b"x", 1), ());
        assert_eq!(table.enter(wait(b"y", 2), ()), place);
        table.leave(1);
        assert_eq!(table.take(place, b"y").len(), 1);
        assert!(table.places.is_empty() && table.numbers.is_empty() && table.tickets.is_empty());
        assert!(table.deadlines.is_empty());
        let again = table.enter(wait(b"x", 1), ());
        assert_ne!(again, place, "a number is given once");
    }
}
