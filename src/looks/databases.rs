//! Databases that change places without their queues being touched.

/// What a database was when it was first heard of. A look names its database by slot, so that a swap
/// changes no look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// Which slot is to be found under which number now. Numbers never swapped are their own slots.
#[derive(Debug)]
pub struct Databases {
    slots: Vec<u32>,
    numbers: Vec<u32>,
}

impl Databases {
    /// No database has moved.
    pub const fn new() -> Databases {
        Databases {
            slots: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// The slot that is the database `number` now.
    pub fn slot(&self, number: i32) -> Slot {
        let number = number.unsigned_abs();
        Slot(self.slots.get(number as usize).copied().unwrap_or(number))
    }

    /// The database that the slot is now.
    pub fn number(&self, slot: Slot) -> i32 {
        let number = self.numbers.get(slot.0 as usize).copied();
        number.unwrap_or(slot.0) as i32
    }

    /// Two databases have changed places.
    pub fn swap(&mut self, first: i32, second: i32) {
        let (first, second) = (
            first.unsigned_abs() as usize,
            second.unsigned_abs() as usize,
        );
        for next in self.slots.len()..=first.max(second) {
            self.slots.push(next as u32);
            self.numbers.push(next as u32);
        }
        self.slots.swap(first, second);
        for number in [first, second] {
            self.numbers[self.slots[number] as usize] = number as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_add_up() {
        let mut databases = Databases::new();
        let slots = [0, 1, 2, 3].map(|number| databases.slot(number));
        databases.swap(0, 2);
        databases.swap(2, 3);
        databases.swap(1, 1);
        let numbers = slots.map(|slot| databases.number(slot));
        assert_eq!(numbers, [3, 1, 0, 2]);
        assert_eq!([3, 1, 0, 2].map(|number| databases.slot(number)), slots);
        assert_eq!(databases.number(databases.slot(15)), 15);
    }
}
