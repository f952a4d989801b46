//! The index from an id to its slot, in many small hash tables.
//!
//! One large table doubles at once, which at ten million entries stalls for a second. Here the
//! tables grow by linear hashing (Litwin 1980): each time the average passes a bound, one table is
//! split in two, so no insertion moves more than a table's worth. The tables hold hashes and slot
//! numbers; the ids stay with the messages.

use hashbrown::HashTable;

/// Entries a table holds on average before the next split.
const FULL: usize = 1024;
/// Entries a table holds on average before two are merged.
const SPARSE: usize = 256;

/// A message's slot with the hash of its id, so that neither growing nor a search that finds nothing
/// has to look at messages.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

impl Entry {
    /// The low bits of a hash pick the table; within a table other bits must decide.
    #[inline]
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[inline]
    fn add_to(self, table: &mut HashTable<Self>) {
        table.insert_unique(Self::spread(self.hash), self, |entry| {
            Self::spread(entry.hash)
        });
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    tables: Vec<HashTable<Entry>>,
    len: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            tables: vec![HashTable::new()],
            len: 0,
        }
    }
}

/// The number of the table for `hash` among `count`.
#[inline]
fn table_of(hash: u32, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let number = hash as usize & mask;
    if number < count {
        number
    } else {
        number & (mask >> 1)
    }
}

impl Index {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot with this hash that `is` says yes to.
    #[inline]
    pub fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let table = &self.tables[table_of(hash, self.tables.len())];
        let entry = table.find(Entry::spread(hash), |entry| {
            entry.hash == hash && is(entry.slot)
        });
        entry.map(|entry| entry.slot)
    }

    /// Adds a slot whose id is not in the index.
    #[inline]
    pub fn insert(&mut self, hash: u32, slot: u32) {
        let number = table_of(hash, self.tables.len());
        Entry { hash, slot }.add_to(&mut self.tables[number]);
        self.len += 1;
        if self.len > self.tables.len() * FULL {
            self.split();
        }
    }

    /// Takes a slot out that is in the index.
    #[inline]
    pub fn remove(&mut self, hash: u32, slot: u32) {
        let number = table_of(hash, self.tables.len());
        let table = &mut self.tables[number];
        if let Ok(entry) = table.find_entry(Entry::spread(hash), |entry| entry.slot == slot) {
            entry.remove();
            self.len -= 1;
            if self.tables.len() > 1 && self.len < self.tables.len() * SPARSE {
                self.merge();
            }
        }
    }

    /// Bytes the tables hold.
    pub fn bytes(&self) -> usize {
        let held: usize = self.tables.iter().map(HashTable::allocation_size).sum();
        held + self.tables.capacity() * size_of::<HashTable<Entry>>()
    }

    /// The slots, each in the table that its hash leads to.
    pub fn check(&self, hash_of: impl Fn(u32) -> u32) -> Result<Vec<u32>, String> {
        let mut slots = Vec::new();
        for (number, table) in self.tables.iter().enumerate() {
            for Entry { hash, slot } in table {
                if *hash != hash_of(*slot) || table_of(*hash, self.tables.len()) != number {
                    return Err(format!("slot {slot} is in table {number} of the index"));
                }
                slots.push(*slot);
            }
        }
        if slots.len() != self.len {
            return Err(format!(
                "an index of {} does not hold {}",
                slots.len(),
                self.len
            ));
        }
        Ok(slots)
    }

    #[cold]
    fn split(&mut self) {
        let new = self.tables.len();
        // The table whose entries divide between its own number and `new`.
        let old = new - (1 << new.ilog2());
        let entries = std::mem::take(&mut self.tables[old]);
        let half = entries.len() / 2;
        let mut halves = [
            HashTable::with_capacity(half),
            HashTable::with_capacity(half),
        ];
        for entry in entries {
            entry.add_to(&mut halves[usize::from(table_of(entry.hash, new + 1) == new)]);
        }
        let [stay, moved] = halves;
        self.tables[old] = stay;
        self.tables.push(moved);
    }

    #[cold]
    fn merge(&mut self) {
        if let Some(last) = self.tables.pop() {
            let count = self.tables.len();
            let target = &mut self.tables[count - (1 << count.ilog2())];
            last.into_iter().for_each(|entry| entry.add_to(target));
            target.shrink_to(FULL, |entry| Entry::spread(entry.hash));
            if count == 1 {
                self.tables.shrink_to_fit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(slot: u32) -> u32 {
        slot.wrapping_mul(0x85EB_CA6B) ^ slot >> 7
    }

    #[test]
    fn finds_every_entry_while_growing_and_shrinking() {
        let mut index = Index::default();
        let empty = index.bytes();
        for slot in 0..50_000 {
            index.insert(hash_of(slot), slot);
            if slot % 997 == 0 {
                assert!((0..=slot).all(|slot| index.find(hash_of(slot), |at| at == slot).is_some()));
            }
        }
        assert_eq!(index.len, 50_000);
        assert_eq!(index.find(hash_of(50_000), |at| at == 50_000), None);
        for slot in 0..50_000 {
            index.remove(hash_of(slot), slot);
            if slot % 997 == 0 {
                let found = |slot: &u32| index.find(hash_of(*slot), |at| at == *slot).is_some();
                assert!(!(0..=slot).any(|slot| found(&slot)));
                assert!((slot + 1..50_000).all(|slot| found(&slot)));
            }
        }
        assert!(index.is_empty());
        assert!(
            index.bytes() < empty + 32 * FULL,
            "{} bytes kept",
            index.bytes()
        );
    }

    #[test]
    fn no_table_grows_far_beyond_the_average() {
        let mut index = Index::default();
        for slot in 0..300_000 {
            index.insert(hash_of(slot), slot);
        }
        let largest = index.tables.iter().map(HashTable::len).max();
        assert!(largest < Some(4 * FULL), "{largest:?}");
        let per_entry = index.bytes() as f64 / 300_000.0;
        assert!(per_entry < 20.0, "{per_entry} bytes an entry");
    }
}
