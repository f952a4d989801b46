//! How many consumers wait where.

use std::collections::BTreeMap;

/// Counts by database and name of the key. A consumer waits at a place, whatever queue comes there.
#[derive(Debug)]
pub struct Waiters(BTreeMap<i32, BTreeMap<Box<[u8]>, u32>>);

impl Waiters {
    /// Nobody waits.
    pub const fn new() -> Waiters {
        Waiters(BTreeMap::new())
    }

    /// One more waits there.
    pub fn add(&mut self, db: i32, name: &[u8]) {
        let names = self.0.entry(db).or_default();
        match names.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                names.insert(name.into(), 1);
            }
        }
    }

    /// One less; each goes with an addition before.
    pub fn remove(&mut self, db: i32, name: &[u8]) {
        let Some(names) = self.0.get_mut(&db) else {
            return;
        };
        if let Some(count) = names.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                names.remove(name);
            }
        }
        if names.is_empty() {
            self.0.remove(&db);
        }
    }

    /// Whether anyone waits there.
    pub fn any(&self, db: i32, name: &[u8]) -> bool {
        self.0
            .get(&db)
            .is_some_and(|names| names.contains_key(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_go_leaves_nothing() {
        let mut waiters = Waiters::new();
        waiters.add(0, b"a");
        waiters.add(0, b"a");
        waiters.add(1, b"a");
        waiters.remove(0, b"a");
        assert!(waiters.any(0, b"a") && waiters.any(1, b"a") && !waiters.any(0, b"b"));
        waiters.remove(0, b"a");
        assert!(!waiters.any(0, b"a"));
        waiters.remove(1, b"a");
        assert!(waiters.0.is_empty());
    }
}
