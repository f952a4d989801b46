//! The index from an id to its slot, in many small hash tables.
//!
//! One large table doubles at once, which at ten million entries stalls for a second. Here the
//! tables grow by linear hashing (Litwin 1980): each time the average passes a bound, one table is
//! split in two, so no insertion moves more than a table's worth. The tables hold slot numbers
//! only; hashes and ids stay with the messages.

use hashbrown::HashTable;

/// Entries a table holds on average before the next split.
const FULL: usize = 1024;
/// Entries a table holds on average before two are merged.
const SPARSE: usize = 256;

#[derive(Debug)]
pub(crate) struct Index {
    tables: Vec<HashTable<u32>>,
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

/// The tables pick by the low bits of a hash; within a table other bits must decide.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
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
        table.find(spread(hash), |slot| is(*slot)).copied()
    }

    /// Adds a slot whose id is not in the index; `hash_of` tells the hash of any slot in it.
    #[inline]
    pub fn insert(&mut self, hash: u32, slot: u32, hash_of: impl Fn(u32) -> u32) {
        let number = table_of(hash, self.tables.len());
        self.tables[number].insert_unique(spread(hash), slot, |slot| spread(hash_of(*slot)));
        self.len += 1;
        if self.len > self.tables.len() * FULL {
            self.split(hash_of);
        }
    }

    /// Takes a slot out that is in the index.
    #[inline]
    pub fn remove(&mut self, hash: u32, slot: u32, hash_of: impl Fn(u32) -> u32) {
        let number = table_of(hash, self.tables.len());
        if let Ok(entry) = self.tables[number].find_entry(spread(hash), |other| *other == slot) {
            entry.remove();
            self.len -= 1;
            if self.tables.len() > 1 && self.len < self.tables.len() * SPARSE {
                self.merge(hash_of);
            }
        }
    }

    /// Bytes the tables hold.
    pub fn bytes(&self) -> usize {
        let held: usize = self.tables.iter().map(HashTable::allocation_size).sum();
        held + self.tables.capacity() * size_of::<HashTable<u32>>()
    }

    /// The slots, each in the table that its hash leads to.
    pub fn check(&self, hash_of: impl Fn(u32) -> u32) -> Result<Vec<u32>, String> {
        let mut slots = Vec::new();
        for (number, table) in self.tables.iter().enumerate() {
            for slot in table {
                if table_of(hash_of(*slot), self.tables.len()) != number {
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
    fn split(&mut self, hash_of: impl Fn(u32) -> u32) {
        let new = self.tables.len();
        // The table whose entries divide between its own number and `new`.
        let old = new - (1 << new.ilog2());
        let entries = std::mem::take(&mut self.tables[old]);
        // All hashes first: each is a cache miss, and a loop that does nothing else overlaps them.
        let entries: Vec<_> = entries
            .into_iter()
            .map(|slot| (slot, hash_of(slot)))
            .collect();
        let mut halves = [
            HashTable::with_capacity(entries.len() / 2),
            HashTable::with_capacity(entries.len() / 2),
        ];
        for (slot, hash) in entries {
            let half = &mut halves[usize::from(table_of(hash, new + 1) == new)];
            half.insert_unique(spread(hash), slot, |slot| spread(hash_of(*slot)));
        }
        let [stay, moved] = halves;
        self.tables[old] = stay;
        self.tables.push(moved);
    }

    #[cold]
    fn merge(&mut self, hash_of: impl Fn(u32) -> u32) {
        if let Some(last) = self.tables.pop() {
            let count = self.tables.len();
            let target = &mut self.tables[count - (1 << count.ilog2())];
            for slot in last {
                target.insert_unique(spread(hash_of(slot)), slot, |slot| spread(hash_of(*slot)));
            }
            target.shrink_to(FULL, |slot| spread(hash_of(*slot)));
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
            index.insert(hash_of(slot), slot, hash_of);
            if slot % 997 == 0 {
                assert!((0..=slot).all(|slot| index.find(hash_of(slot), |at| at == slot).is_some()));
            }
        }
        assert_eq!(index.len, 50_000);
        assert_eq!(index.find(hash_of(50_000), |at| at == 50_000), None);
        for slot in 0..50_000 {
            index.remove(hash_of(slot), slot, hash_of);
            if slot % 997 == 0 {
                let found = |slot: &u32| index.find(hash_of(*slot), |at| at == *slot).is_some();
                assert!(!(0..=slot).any(|slot| found(&slot)));
                assert!((slot + 1..50_000).all(|slot| found(&slot)));
            }
        }
        assert!(index.is_empty());
        assert!(
            index.bytes() < empty + 16 * FULL,
            "{} bytes kept",
            index.bytes()
        );
    }

    #[test]
    fn no_table_grows_far_beyond_the_average() {
        let mut index = Index::default();
        for slot in 0..300_000 {
            index.insert(hash_of(slot), slot, hash_of);
        }
        let largest = index.tables.iter().map(HashTable::len).max();
        assert!(largest < Some(4 * FULL), "{largest:?}");
        let per_entry = index.bytes() as f64 / 300_000.0;
        assert!(per_entry < 12.0, "{per_entry} bytes an entry");
    }
}
