//! The wheel against a list that is sorted whenever it is asked.

use proptest::prelude::*;

use super::grid::LEVELS;
use super::*;
use crate::slab::NIL;

/// Entries by number: links and due time.
#[derive(Default)]
struct Entries(Vec<(u32, u32, Timestamp)>);

impl Links for Entries {
    fn previous(&self, entry: u32) -> u32 {
        self.0[entry as usize].0
    }
    fn next(&self, entry: u32) -> u32 {
        self.0[entry as usize].1
    }
    fn set_previous(&mut self, entry: u32, to: u32) {
        self.0[entry as usize].0 = to;
    }
    fn set_next(&mut self, entry: u32, to: u32) {
        self.0[entry as usize].1 = to;
    }
    fn due(&self, entry: u32) -> Timestamp {
        self.0[entry as usize].2
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The wheel, and the same entries in the order they were put in.
#[derive(Default)]
struct Pair {
    wheel: Wheel,
    entries: Entries,
    plain: Vec<u32>,
    now: u64,
}

impl Pair {
    fn at(now: u64) -> Self {
        let mut pair = Self {
            now,
            ..Self::default()
        };
        assert!(pair.wheel.is_quiet_at(Timestamp::from_millis(now)));
        pair
    }

    fn put(&mut self, due: u64) -> u32 {
        let entry = self.entries.0.len() as u32;
        self.entries.0.push((NIL, NIL, Timestamp::from_millis(due)));
        self.put_again(entry, due);
        entry
    }

    fn put_again(&mut self, entry: u32, due: u64) {
        let due = Timestamp::from_millis(due);
        self.entries.0[entry as usize].2 = due;
        self.wheel.insert(&mut self.entries, entry, due);
        self.plain.push(entry);
        if self.entries.len() > FEW && !self.wheel.deals_ahead() {
            self.wheel.deal_ahead_from_now_on();
        }
    }

    fn take(&mut self, entry: u32) {
        let due = self.entries.due(entry);
        self.wheel.remove(&mut self.entries, entry, due);
        self.plain.retain(|other| *other != entry);
    }

    /// Lets time pass to `now` with `budget` steps at a time, taking out what is due.
    fn pass(&mut self, now: u64, budget: usize) -> Vec<u32> {
        self.now = now;
        let mut taken = Vec::new();
        let now = Timestamp::from_millis(now);
        while !self.wheel.is_quiet_at(now) {
            let left = self.wheel.advance(&mut self.entries, now, budget);
            assert!(left <= budget);
            self.check();
            if let Some(entry) = self.wheel.overdue().head() {
                self.take(entry);
                taken.push(entry);
            }
        }
        taken
    }

    fn due_by(&self, now: u64) -> Vec<u32> {
        let now = Timestamp::from_millis(now);
        let due = |entry: &u32| self.entries.due(*entry);
        let mut due_by: Vec<u32> = self
            .plain
            .iter()
            .copied()
            .filter(|at| due(at) <= now)
            .collect();
        due_by.sort_by_key(due);
        due_by
    }

    fn check(&self) {
        let mut held = self
            .wheel
            .check(&self.entries, self.plain.len())
            .expect("sound");
        let mut plain = self.plain.clone();
        held.sort_unstable();
        plain.sort_unstable();
        assert_eq!(held, plain);
        let first = self
            .plain
            .iter()
            .map(|entry| self.entries.due(*entry))
            .min();
        assert!(
            self.wheel.next() <= first || first.is_none(),
            "{:?} {first:?}",
            self.wheel.next()
        );

        // Over all lists, entries of one due time come in the order they were put in.
        let lists = self
            .wheel
            .lists()
            .flat_map(|(_, list)| list.iter(&self.entries));
        let mut listed: Vec<u32> = lists.collect();
        listed.sort_by_key(|entry| self.entries.due(*entry));
        let mut sorted = self.plain.clone();
        sorted.sort_by_key(|entry| self.entries.due(*entry));
        assert_eq!(listed, sorted);
        for (start, list) in self.wheel.lists() {
            assert!(list
                .iter(&self.entries)
                .all(|entry| self.entries.due(entry) >= start));
        }
    }
}

const NOW: u64 = 1_700_000_000_000;

#[test]
fn entries_come_out_when_they_are_due_first_put_in_first() {
    let mut pair = Pair::at(NOW);
    let spans = [
        1,
        63,
        64,
        65,
        4095,
        4096,
        262_144,
        1 << 30,
        1 << 40,
        1,
        64,
        4096,
    ];
    for span in spans {
        pair.put(NOW + span);
    }
    for span in [0, 1, 63, 64, 65, 5000, 1 << 20, 1 << 35, 1 << 41] {
        let expected = pair.due_by(NOW + span);
        assert_eq!(pair.pass(NOW + span, 5), expected, "after {span} ms");
    }
    assert_eq!(pair.wheel.next(), None);
}

#[test]
fn the_last_instant_there_is_can_be_waited_for() {
    let mut pair = Pair::at(NOW);
    let last = pair.put(Timestamp::MAX.millis());
    assert_eq!(pair.pass(Timestamp::MAX.millis() - 1, 9), []);
    assert_eq!(pair.pass(Timestamp::MAX.millis(), 9), [last]);
}

#[test]
fn many_entries_of_one_instant_are_dealt_out_within_the_budget() {
    let mut pair = Pair::at(NOW);
    let due = NOW + 3_600_000;
    let entries: Vec<u32> = (0..5000).map(|_| pair.put(due)).collect();
    let mut taken = Vec::new();
    let at_due = Timestamp::from_millis(due);
    let mut turns = 0;
    while !pair.wheel.is_quiet_at(at_due) {
        let mut budget = pair.wheel.advance(&mut pair.entries, at_due, 100);
        turns += 1;
        while let Some(entry) = pair.wheel.overdue().head().filter(|_| budget > 0) {
            budget -= 1;
            pair.take(entry);
            taken.push(entry);
        }
        if turns % 10 == 0 {
            pair.check();
        }
    }
    assert_eq!(taken, entries);
    // Each entry is dealt once to each lower level, and taken once.
    assert!(turns <= 5000 * (LEVELS + 1) / 100, "{turns} turns");
}

#[test]
fn entries_put_in_while_their_slot_is_dealt_out_stay_behind_the_others() {
    let mut pair = Pair::at(NOW);
    let due = NOW + 100_000;
    let mut expected: Vec<u32> = (0..10).map(|_| pair.put(due)).collect();
    pair.wheel
        .advance(&mut pair.entries, Timestamp::from_millis(due - 1), 3);
    assert!(pair.wheel.is_draining());
    expected.push(pair.put(due));
    pair.check();
    assert_eq!(pair.pass(due, 3), expected);
}

#[test]
fn a_clock_set_back_starts_anew() {
    let mut pair = Pair::at(NOW);
    let [late, early] = [NOW + 5000, NOW + 1000].map(|due| pair.put(due));
    assert_eq!(pair.pass(NOW + 1000, 9), [early]);
    let soon = pair.put(NOW + 1001);
    assert_eq!(pair.pass(NOW - 50_000, 1), []);
    let sooner = pair.put(NOW - 40_000);
    assert_eq!(pair.pass(NOW - 40_001, 1), []);
    assert_eq!(pair.pass(NOW + 4999, 1), [sooner, soon]);
    assert_eq!(pair.pass(NOW + 5000, 1), [late]);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64),
    /// Takes out the entry of this number, if it is in.
    Take(usize),
    /// The same, and in again later.
    Move(usize, u64),
    Pass {
        span: u64,
        budget: usize,
    },
    /// Some steps only, as when a turn's budget is used up.
    Begin {
        span: u64,
        budget: usize,
    },
    Back {
        span: u64,
        budget: usize,
    },
}

fn span() -> impl Strategy<Value = u64> {
    let shift = prop_oneof![4 => 0..4u32, 4 => 4..14u32, 1 => 14..38u32];
    (shift, 0..1u64 << 38).prop_map(|(shift, bits)| bits & ((1 << shift) - 1) | 1 << shift >> 1)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let budget = || prop_oneof![3 => 1..6usize, 1 => Just(1000usize)];
    let step = prop_oneof![
        8 => span().prop_map(Step::Put),
        2 => any::<usize>().prop_map(Step::Take),
        1 => (any::<usize>(), span()).prop_map(|(entry, span)| Step::Move(entry, span)),
        3 => (span(), budget()).prop_map(|(span, budget)| Step::Pass { span, budget }),
        3 => (span(), budget()).prop_map(|(span, budget)| Step::Begin { span, budget }),
        1 => (span(), budget()).prop_map(|(span, budget)| Step::Back { span, budget }),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_steps_give_what_a_sorted_list_gives(steps in steps()) {
        let mut pair = Pair::at(NOW);
        for step in steps {
            let entry = |at: usize| pair.plain.get(at % pair.plain.len().max(1)).copied();
            match step {
                Step::Put(span) => {
                    pair.put(pair.now + span);
                }
                Step::Take(at) => {
                    if let Some(entry) = entry(at) {
                        pair.take(entry);
                    }
                }
                Step::Move(at, span) => {
                    if let Some(entry) = entry(at) {
                        pair.take(entry);
                        pair.put_again(entry, pair.now + span);
                    }
                }
                Step::Pass { span, budget } => {
                    let now = pair.now + span;
                    let expected = pair.due_by(now);
                    assert_eq!(pair.pass(now, budget), expected);
                }
                Step::Begin { span, budget } => {
                    pair.now += span;
                    let now = Timestamp::from_millis(pair.now);
                    if !pair.wheel.is_quiet_at(now) {
                        pair.wheel.advance(&mut pair.entries, now, budget);
                    }
                }
                Step::Back { span, budget } => {
                    pair.now -= span;
                    let now = Timestamp::from_millis(pair.now);
                    if !pair.wheel.is_quiet_at(now) {
                        pair.wheel.advance(&mut pair.entries, now, budget);
                    }
                }
            }
            pair.check();
        }
    }
}
