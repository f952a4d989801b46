//! What the queue once got wrong, or what is easy to get wrong, each in as few steps as it takes.
//! The model follows along.

use redis_mq_core::{Settings, Span, Status};

use crate::world::step::{Clock, Enqueue, Id, Keep, Pause, Start, Step, Target, Verdict, Which};
use crate::world::World;

/// Ids of the pool.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];

/// Locks of 100 ms, two dead letters.
fn world() -> World {
    World::new(Settings {
        lock: Span::from_millis(100),
        max_dead: 2,
        ..Settings::default()
    })
}

fn message(id: usize) -> Enqueue {
    Enqueue {
        id: Some(Id::Pool(id)),
        payload: b"payload".to_vec(),
        start: Start::NotGiven,
        lock: None,
        attempts: 0,
        priority: 5,
        requeue: false,
        update: false,
        headers: Vec::new(),
        ttl: None,
        retain: None,
    }
}

fn add(id: usize) -> Step {
    Step::Enqueue(message(id))
}

fn add_after(id: usize, ms: u64) -> Step {
    Step::Enqueue(Enqueue {
        start: Start::After(ms),
        ..message(id)
    })
}

fn with_one_attempt(id: usize) -> Step {
    Step::Enqueue(Enqueue {
        attempts: 1,
        ..message(id)
    })
}

fn copy_after(id: usize, ms: u64) -> Step {
    Step::Enqueue(Enqueue {
        start: Start::After(ms),
        requeue: true,
        ..message(id)
    })
}

fn update(id: usize, payload: &[u8], start: Start) -> Step {
    Step::Enqueue(Enqueue {
        payload: payload.to_vec(),
        start,
        update: true,
        ..message(id)
    })
}

fn dequeue(count: usize) -> Step {
    Step::Dequeue {
        count,
        lock: None,
        from_server: false,
    }
}

/// The delivery that had so many after it.
fn delivery(back: usize) -> Target {
    Target {
        back,
        which: Which::Right,
    }
}

fn done(back: usize, verdict: Verdict) -> Step {
    Step::Done {
        target: delivery(back),
        verdict,
    }
}

fn extend(back: usize, span: u64) -> Step {
    Step::Extend {
        target: delivery(back),
        span,
    }
}

fn window(ms: u64) -> Verdict {
    Verdict::Success(Pause::For(ms), Keep::default())
}

fn pass(ms: u64) -> Step {
    Step::Clock(Clock::Millis(ms))
}

impl World {
    fn told(&mut self, steps: &[Step]) -> &mut Self {
        for step in steps {
            self.step(step);
            self.compare();
        }
        self
    }

    fn status(&self, id: usize) -> Option<Status> {
        self.queue.status(self.clock(), NAMES[id])
    }

    /// Ids in the order in which they would be delivered.
    fn order(&mut self) -> Vec<Vec<u8>> {
        let before = self.deliveries().len();
        self.told(&[dequeue(100)]);
        let delivered = &self.deliveries()[before..];
        delivered.iter().map(|(id, _)| id.clone()).collect()
    }
}

#[test]
fn a_copy_takes_its_turn_by_the_end_of_its_delay_however_late_time_acts() {
    let mut world = world();
    world.told(&[add(A), dequeue(1), copy_after(A, 50), done(0, window(100))]);
    world.told(&[add_after(B, 120), add_after(C, 160), pass(1000)]);
    assert_eq!(world.order(), [NAMES[B], NAMES[A], NAMES[C]]);
}

#[test]
fn a_copy_of_a_message_that_died_takes_its_turn_too() {
    let mut world = world();
    world.told(&[with_one_attempt(A), dequeue(1), copy_after(A, 50)]);
    world.told(&[add_after(B, 120), add_after(C, 160), pass(1000)]);
    assert_eq!(world.order(), [NAMES[B], NAMES[A], NAMES[C]]);
    assert_eq!(world.queue.counts()[6], 1);
}

#[test]
fn a_window_that_ends_where_the_schedule_turns_over_is_acted_on_first() {
    let mut world = world();
    // The window ends at the first millisecond of 64, the delay two milliseconds after it.
    let to_turn = 64 - (world.now() + 40) % 64;
    world.told(&[pass(to_turn), add(A), dequeue(1), done(0, window(40))]);
    world.told(&[copy_after(A, 1), add_after(B, 42), pass(100)]);
    assert_eq!((world.now() - 60) % 64, 0);
    assert_eq!(world.order(), [NAMES[A], NAMES[B]]);
}

#[test]
fn info_names_the_next_and_the_last_though_nobody_has_let_time_act() {
    let mut world = world();
    world.told(&[add(A), dequeue(1), copy_after(A, 50), done(0, window(100))]);
    world.told(&[add_after(B, 120), pass(1000)]);
    let info = world.queue.info(world.clock());
    let ends = [info.next, info.last].map(|end| end.map(|id| id.bytes().to_vec()));
    assert_eq!(ends, [Some(b"b".to_vec()), Some(b"a".to_vec())]);
}

#[test]
fn info_tells_when_a_copy_is_due_whose_window_ended_unnoticed() {
    let mut world = world();
    world.told(&[
        add(A),
        dequeue(1),
        copy_after(A, 50),
        done(0, window(100)),
        pass(120),
    ]);
    assert_eq!(world.status(A), Some(Status::QueuedWithBackoff));
    let info = world.queue.info(world.clock());
    assert_eq!(info.next_due, Some(Span::from_millis(30)));
}

#[test]
fn an_update_is_delivered_though_a_late_verdict_ends_what_it_replaced() {
    let mut world = world();
    world.told(&[
        add(A),
        dequeue(1),
        pass(100),
        update(A, b"new", Start::NotGiven),
    ]);
    world.told(&[
        done(0, Verdict::Success(Pause::None, Keep::default())),
        extend(0, 1000),
    ]);
    assert_eq!(
        world.status(A),
        Some(Status::Queued),
        "the verdict is stale"
    );
    world.told(&[dequeue(1)]);
    let view = world
        .queue
        .get(world.clock(), b"a")
        .expect("with its consumer");
    assert_eq!((view.payload, view.attempts), (b"new" as &[u8], 2));
}

#[test]
fn an_update_to_the_time_there_is_keeps_the_place_in_the_order() {
    let mut world = world();
    world.told(&[add_after(A, 60), add_after(B, 60)]);
    world.told(&[update(A, b"new", Start::After(60)), pass(60)]);
    assert_eq!(world.order(), [NAMES[A], NAMES[B]]);
}

#[test]
fn an_update_to_another_time_or_priority_goes_behind_the_others() {
    let mut world = world();
    world.told(&[
        add_after(A, 60),
        add_after(B, 70),
        update(A, b"new", Start::After(70)),
    ]);
    world.told(&[pass(70)]);
    assert_eq!(world.order(), [NAMES[B], NAMES[A]]);
}

#[test]
fn an_update_keeps_attempts_and_replaces_every_option() {
    let mut world = world();
    let options = Enqueue {
        lock: Some(7),
        attempts: 3,
        priority: 1,
        ..message(A)
    };
    world.told(&[Step::Enqueue(options), dequeue(1), pass(7)]);
    world.told(&[update(A, b"new", Start::NotGiven)]);
    let view = world.queue.get(world.clock(), b"a").expect("queued");
    assert_eq!(view.payload, b"new");
    assert_eq!((view.attempts, view.max_attempts), (1, 0));
    assert_eq!((view.lock, view.priority.level()), (Span::ZERO, 5));
    assert_eq!(world.now() - view.enqueued_at.millis(), 7);
}

#[test]
fn fewer_dead_letters_are_kept_from_the_next_command_on() {
    let mut world = world();
    let fail = || done(0, Verdict::Error(None));
    world.told(&[add(A), dequeue(1), fail(), add(B), dequeue(1), fail()]);
    assert_eq!(world.status(A), Some(Status::Dead));
    world.told(&[
        Step::Settings {
            max_dead: 1,
            lock: 100,
        },
        add(C),
    ]);
    assert_eq!(
        (world.status(A), world.status(B)),
        (None, Some(Status::Dead))
    );
}

#[test]
fn a_lock_that_ran_out_stays_counted_when_its_message_is_cancelled() {
    let mut world = world();
    world.told(&[with_one_attempt(A), dequeue(1), pass(100)]);
    let before = world.queue.info(world.clock()).totals;
    assert_eq!((before.expired_locks, before.dead), (1, 1));
    world.told(&[Step::Cancel(vec![Id::Pool(A)])]);
    assert_eq!(world.queue.info(world.clock()).totals, before);
}

#[test]
fn a_late_verdict_counts_though_the_message_died_meanwhile() {
    let mut world = world();
    let last_attempt = || [with_one_attempt(A), dequeue(1), pass(100), Step::LetTimeAct];
    world.told(&last_attempt());
    assert_eq!(world.status(A), Some(Status::Dead));
    world.told(&[done(0, Verdict::Success(Pause::None, Keep::default()))]);
    assert_eq!(world.status(A), None);

    world
        .told(&last_attempt())
        .told(&[done(0, Verdict::Release)]);
    assert_eq!(world.status(A), Some(Status::Queued));
    world.told(&[dequeue(1), pass(100), Step::LetTimeAct, extend(0, 50)]);
    assert_eq!(world.status(A), Some(Status::Locked));
}

#[test]
fn a_late_verdict_is_stale_when_the_id_of_the_dead_message_is_taken() {
    let mut world = world();
    world.told(&[with_one_attempt(A), dequeue(1), pass(100), add(A)]);
    world.told(&[done(0, Verdict::Success(Pause::None, Keep::default()))]);
    assert_eq!(world.status(A), Some(Status::Queued));
    assert_eq!(world.queue.counts()[6], 1, "the dead letter stays");
}

#[test]
fn a_waiting_copy_survives_a_retry_a_release_and_the_end_of_a_lock() {
    for end in [
        done(0, Verdict::Retry(Pause::None, None)),
        done(0, Verdict::Release),
        pass(100),
    ] {
        let mut world = world();
        world.told(&[
            add(A),
            dequeue(1),
            copy_after(A, 0),
            end,
            update(A, b"new", Start::NotGiven),
        ]);
        let view = world.queue.get(world.clock(), b"a").expect("queued");
        assert_eq!(
            view.payload, b"new",
            "an update changes the message, not its copy"
        );
        assert_eq!(view.requeue, Some(b"payload" as &[u8]));
        world.told(&[
            dequeue(1),
            done(0, Verdict::Success(Pause::None, Keep::default())),
        ]);
        let view = world.queue.get(world.clock(), b"a").expect("the copy");
        assert_eq!((view.payload, view.attempts), (b"payload" as &[u8], 0));
    }
}

#[test]
fn a_zero_extension_ends_the_lock_at_once() {
    let mut world = world();
    world.told(&[add(A), dequeue(1), extend(0, 0)]);
    assert_eq!(world.status(A), Some(Status::Queued));
    assert_eq!(world.order(), [NAMES[A]]);
}

#[test]
fn a_clock_set_back_moves_nothing_on_early_and_loses_nothing() {
    let mut world = world();
    world.told(&[add(A), add_after(B, 500), dequeue(1), pass(50)]);
    world.told(&[Step::Clock(Clock::Back(10_000)), Step::LetTimeAct, add(C)]);
    assert_eq!(world.status(A), Some(Status::Locked));
    assert_eq!(world.status(B), Some(Status::QueuedWithBackoff));
    assert_eq!(world.order(), [NAMES[C]], "and tokens still rise");
    world.told(&[pass(11_000)]);
    // The lock of 100 ms was given while the clock was set back.
    assert_eq!(world.order(), [NAMES[C], NAMES[A], NAMES[B]]);
}
