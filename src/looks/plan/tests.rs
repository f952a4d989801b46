use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::looks::Databases;

fn look(name: &str) -> Arc<Look> {
    let db = Databases::new().slot(0);
    let name = name.as_bytes().into();
    Look::new(Place { db, name })
}

fn taken(plan: &mut Plan, now: u64) -> Vec<String> {
    std::iter::from_fn(|| plan.take_due(now))
        .map(|look| String::from_utf8_lossy(&look.place.name).into_owned())
        .collect()
}

#[test]
fn the_earliest_look_at_a_queue_is_the_one_that_counts() {
    let (mut plan, a, b) = (Plan::new(), look("a"), look("b"));
    plan.note(&a, Class::Plain, 50, 50);
    plan.note(&a, Class::Plain, 70, 70);
    plan.note(&b, Class::Plain, 40, 40);
    plan.note(&b, Class::Plain, 30, 30);
    assert_eq!((plan.len(), plan.first()), (2, Some(30)));
    assert_eq!((a.covers(), b.covers()), (50, 30));
    assert_eq!(taken(&mut plan, 29), [""; 0]);
    assert_eq!(taken(&mut plan, 49), ["b"]);
    assert_eq!(taken(&mut plan, 50), ["a"]);
    assert_eq!((a.covers(), a.is_noted()), (u64::MAX, false));
    assert!(plan.is_empty());
}

#[test]
fn a_queue_with_waiters_comes_before_all_that_is_due_longer() {
    let mut plan = Plan::new();
    let looks = ["p", "b", "w"].map(look);
    plan.note(&looks[0], Class::Plain, 1, 1);
    plan.note(&looks[1], Class::Backlog, 1, 0);
    plan.note(&looks[2], Class::Waited, 9, 9);
    assert_eq!(taken(&mut plan, 9)[0], "w");
}

#[test]
fn backlogs_go_round_and_take_turns_with_what_falls_due() {
    let mut plan = Plan::new();
    let backlogs = ["b1", "b2"].map(look);
    let plain = ["p1", "p2", "p3"].map(look);
    for (at, look) in (1..).zip(&backlogs) {
        plan.note(look, Class::Backlog, at, 0);
    }
    for look in &plain {
        plan.note(look, Class::Plain, 5, 5);
    }
    let mut order = Vec::new();
    for now in 10..17 {
        let next = plan.take_due(now).unwrap();
        if next.place.name[0] == b'b' {
            plan.note(&next, Class::Backlog, now, 0);
        }
        order.push(String::from_utf8_lossy(&next.place.name).into_owned());
    }
    assert_eq!(order, ["p1", "b1", "p2", "b2", "p3", "b1", "b2"]);
}

#[test]
fn a_look_whose_queue_gets_a_waiter_moves_up_and_none_moves_down() {
    let (mut plan, a) = (Plan::new(), look("a"));
    plan.note(&a, Class::Plain, 100, 0);
    plan.note(&a, Class::Waited, 20, 20);
    assert_eq!(a.class(), Some(Class::Waited));
    plan.note(&a, Class::Backlog, 10, 5);
    assert_eq!((a.class(), plan.first()), (Some(Class::Waited), Some(10)));
    assert_eq!((plan.len(), a.covers()), (1, 0));
}

#[test]
fn clearing_goes_in_portions_and_tells_the_queues() {
    let mut plan = Plan::new();
    let looks = ["a", "b", "c"].map(look);
    for (class, look) in Class::ALL.into_iter().zip(&looks) {
        plan.note(look, class, 1, 1);
    }
    assert!(!plan.clear(2));
    assert!(plan.clear(2));
    assert!(looks.iter().all(|look| look.covers() == u64::MAX));
    assert_eq!(plan.first(), None);
}

/// What the plan should hold of one look.
#[derive(Clone, Copy, Debug)]
struct Expected {
    class: Class,
    at: u64,
    covers: u64,
}

#[test]
fn random_steps_agree_with_a_list() {
    const LOOKS: usize = 12;
    let mut random = SmallRng::seed_from_u64(8);
    let (mut plan, looks) = (Plan::new(), [(); LOOKS].map(|()| look("x")));
    let mut list: [Option<Expected>; LOOKS] = [None; LOOKS];
    for step in 0..200_000u64 {
        let now = 1_000 + step / 10;
        let one = random.random_range(0..LOOKS);
        match random.random_range(0..10) {
            0..=4 => {
                let class = Class::ALL[random.random_range(0..3)];
                let covers = now + random.random_range(0..50);
                let at = covers + random.random_range(0..2) * 10;
                plan.note(&looks[one], class, at, covers);
                let new = Expected { class, at, covers };
                list[one] = Some(list[one].map_or(new, |old| Expected {
                    class: old.class.min(class),
                    at: old.at.min(at),
                    covers: old.covers.min(covers),
                }));
            }
            5..=7 => {
                let got = plan.take_due(now);
                let due = |one: &Option<Expected>| one.filter(|one| one.at <= now);
                match got {
                    None => assert!(list.iter().all(|one| due(one).is_none())),
                    Some(got) => {
                        let at = looks.iter().position(|one| Arc::ptr_eq(one, &got)).unwrap();
                        let got = due(&list[at]).expect("it is due");
                        let waited = list.iter().filter_map(due).any(|other| {
                            other.class == Class::Waited
                                && (got.class != Class::Waited || other.at < got.at)
                        });
                        assert!(!waited, "waiters come first, in their order");
                        let sooner = list
                            .iter()
                            .filter_map(due)
                            .any(|other| other.class == got.class && other.at < got.at);
                        assert!(!sooner, "within a class the earliest comes first");
                        list[at] = None;
                    }
                }
            }
            _ => {
                plan.remove(&looks[one]);
                list[one] = None;
            }
        }
        let noted = list.iter().flatten();
        assert_eq!(plan.len(), noted.clone().count());
        assert_eq!(plan.first(), noted.map(|one| one.at).min());
        for (look, expected) in looks.iter().zip(&list) {
            let covers = expected.map_or(u64::MAX, |expected| expected.covers);
            assert_eq!(
                (look.covers(), look.is_noted()),
                (covers, expected.is_some())
            );
        }
    }
}
