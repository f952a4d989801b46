//! When runs are, whatever the clock does, and what they are.

use super::*;
use crate::calendar::Calendar;
use crate::enqueue::Ttl;
use crate::limits::{LimitChanges, Scope};
use crate::queue::Queue;
use crate::turn::{Log, Replication, Turn};
use crate::types::{Now, Settings, Timestamp};

/// The first moment, in milliseconds.
const BEGIN: u64 = 1_700_000_000_000;
const DAY: u64 = 86_400_000;

/// Expressions match at each multiple of that many milliseconds.
#[derive(Debug)]
struct Multiples;

impl Calendar for Multiples {
    fn next(&self, expression: &[u8], _: &[u8], after: Timestamp) -> Option<Timestamp> {
        let every: u64 = std::str::from_utf8(expression).ok()?.parse().ok()?;
        let next = (after.millis() / every + 1) * every;
        Some(Timestamp::from_millis(next))
    }
}

struct Server {
    queue: Queue,
    replica: Queue,
    log: Log,
    now: u64,
    /// What the server's clock shows beyond the queue's time.
    ahead: i64,
    has_memory: bool,
}

impl Server {
    fn new() -> Self {
        Self {
            queue: Queue::new(1),
            replica: Queue::new(2),
            log: Log::default(),
            now: BEGIN,
            ahead: 0,
            has_memory: true,
        }
    }

    fn turn<T>(&mut self, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> T {
        let settings = Settings::default();
        let now = Now::from_micros(self.now * 1000);
        let mut turn = Turn::new(now, 7, &settings, &mut self.log);
        let clock = self.now.saturating_add_signed(self.ahead);
        turn.set_clock(Timestamp::from_millis(clock), &Multiples);
        if !self.has_memory {
            turn.let_runs_wait();
        }
        turn.spell_out();
        let result = step(&mut self.queue, &mut turn);
        if let Replication::Effects(effects) = self.log.replication() {
            self.replica.apply(effects).expect("it fits");
        }
        self.queue.check().expect("a sound queue");
        let written = |queue: &Queue| {
            let mut chunks = Vec::new();
            queue.snapshot(|chunk| chunks.push(chunk.to_vec()));
            chunks
        };
        assert_eq!(written(&self.queue), written(&self.replica));
        result
    }

    fn set(&mut self, schedule: &Schedule<'_>) -> (&'static str, Option<u64>) {
        let set = self.turn(|queue, turn| queue.schedule(turn, schedule, 10_000));
        let set = set.expect("it can be set");
        (
            set.change.name(),
            set.next.map(|next| next.millis() - BEGIN),
        )
    }

    /// The server looks at the queue at that time; how many messages it has then.
    fn at(&mut self, ms: u64) -> usize {
        self.now = BEGIN + ms;
        self.turn(|queue, turn| queue.let_time_act(turn));
        self.queue.len()
    }

    fn take(&mut self) -> Option<u64> {
        let mut got = None;
        self.turn(|queue, turn| {
            queue.dequeue(turn, 1, None, |delivery| {
                got = Some(delivery.scheduled_at.millis() - BEGIN);
            })
        });
        got
    }

    fn view<T>(&self, look: impl Fn(&ScheduleView<'_>) -> T) -> T {
        let mut seen = None;
        self.queue
            .schedule_views(0, 100, |view| seen = Some(look(view)));
        seen.expect("a schedule")
    }

    fn next(&self) -> Option<u64> {
        self.view(|view| view.next.map(|next| next.millis() - BEGIN))
    }
}

fn every(ms: u64) -> Schedule<'static> {
    Schedule::new(b"s", Times::Every(Span::from_millis(ms)), b"payload")
}

fn allowing(ms: u64) -> Schedule<'static> {
    Schedule {
        overlap: Overlap::Allow,
        ..every(ms)
    }
}

fn at(ms: u64) -> Option<Timestamp> {
    Some(Timestamp::from_millis(BEGIN + ms))
}

#[test]
fn a_day_without_a_server_is_one_run() {
    let mut server = Server::new();
    assert_eq!(server.set(&allowing(1000)), ("created", Some(1000)));
    assert_eq!(server.at(999), 0);
    assert_eq!(server.at(1000), 1);
    assert_eq!(server.at(1000 + DAY + 7), 2);
    assert_eq!(server.next(), Some(DAY + 2000), "the others go on in step");
    assert_eq!(server.at(1000 + DAY + 999), 2);
    assert_eq!(server.at(DAY + 2000), 3);
    assert_eq!((server.take(), server.take()), (Some(1000), Some(2000)));
    assert_eq!(server.take(), Some(DAY + 2000));
    assert_eq!(server.view(|view| (view.runs, view.skipped)), (3, 0));
}

#[test]
fn said_again_a_hundred_times_the_next_run_stays() {
    let mut server = Server::new();
    assert_eq!(server.set(&every(1000)), ("created", Some(1000)));
    for ms in 1..100 {
        server.now = BEGIN + ms * 9;
        assert_eq!(server.set(&every(1000)), ("same", Some(1000)));
    }
    let mut changed = every(1000);
    changed.message.payload = b"new";
    assert_eq!(server.set(&changed), ("updated", Some(1000)));
    server.now += 50;
    changed.until = at(5_000);
    assert_eq!(server.set(&changed), ("updated", Some(1000)));
    assert_eq!(server.at(1000), 1);
    let faster = Schedule {
        times: Times::Every(Span::from_millis(2000)),
        ..changed
    };
    assert_eq!(
        server.set(&faster),
        ("updated", Some(3000)),
        "other times begin anew"
    );
    let from = Schedule {
        from: at(2500),
        ..faster
    };
    assert_eq!(server.set(&from), ("updated", Some(2500)));
    assert_eq!(server.queue.schedules_len(), 1);
}

#[test]
fn the_first_run_is_from_or_in_step_with_it() {
    let mut server = Server::new();
    let from = |from| Schedule {
        from: Some(Timestamp::from_millis(BEGIN.saturating_add_signed(from))),
        ..every(1000)
    };
    assert_eq!(server.set(&from(300)).1, Some(300));
    assert_eq!(server.set(&from(0)).1, Some(0));
    assert_eq!(server.set(&from(-300)).1, Some(700));
    assert_eq!(server.set(&from(-9_000)).1, Some(1000));
    let times = Times::Cron {
        expression: b"1000",
        zone: b"UTC",
    };
    let cron = |from| Schedule { times, ..from };
    assert_eq!(server.set(&cron(every(1))).1, Some(1000), "now is over");
    assert_eq!(
        server.set(&cron(from(2000))).1,
        Some(2000),
        "FROM is a match"
    );
    assert_eq!(server.set(&cron(from(2001))).1, Some(3000));
}

#[test]
fn it_ends_after_so_many_runs_or_at_an_instant_and_stays() {
    let mut server = Server::new();
    let mut twice = allowing(1000);
    twice.most = Some(2);
    server.set(&twice);
    assert_eq!(
        [1000, 2000, 3000, 4000].map(|ms| server.at(ms)),
        [1, 2, 2, 2]
    );
    assert_eq!(server.next(), None);
    assert_eq!(
        server.set(&twice),
        ("same", None),
        "said again it stays ended"
    );
    twice.most = Some(3);
    assert_eq!(
        server.set(&twice),
        ("updated", Some(5000)),
        "unless it goes on"
    );
    assert_eq!(server.at(5000), 3);
    let mut until = allowing(2000);
    until.until = at(9000);
    assert_eq!(server.set(&until), ("updated", Some(7000)));
    assert_eq!([7000, 9000, 11_000].map(|ms| server.at(ms)), [4, 5, 5]);
    let mut over = every(1000);
    over.until = at(9000);
    assert_eq!(
        server.set(&over).1,
        None,
        "a year's schedule may be said in the next"
    );
    assert_eq!(server.queue.next_run(), None);
}

#[test]
fn runs_that_were_left_out_do_not_count_as_times() {
    let mut server = Server::new();
    let mut twice = every(1000);
    twice.most = Some(2);
    server.set(&twice);
    assert_eq!([1000, 2000, 3000].map(|ms| server.at(ms)), [1, 1, 1]);
    assert_eq!(server.view(|view| (view.runs, view.skipped)), (1, 2));
    let last = server.view(|view| {
        view.last
            .map(|(at, outcome)| (at.millis() - BEGIN, outcome))
    });
    assert_eq!(last, Some((3000, RunOutcome::Skipped)));
    server.turn(|queue, turn| queue.cancel(turn, b"s"));
    assert_eq!(server.at(4000), 1);
    assert_eq!(server.next(), None);
}

#[test]
fn the_clock_of_the_server_counts_and_no_instant_runs_twice() {
    let mut server = Server::new();
    server.set(&allowing(1000));
    assert_eq!(server.at(1000), 1);
    // Set back by an hour at the due instant.
    server.ahead = -3_600_000;
    assert_eq!(server.at(2000), 1);
    assert_eq!(server.at(3_601_999), 1);
    assert_eq!(server.at(3_602_000), 2);
    assert_eq!((server.take(), server.take()), (Some(1000), Some(2000)));
    // Set forward by a day.
    server.ahead = DAY as i64;
    assert_eq!(server.at(3_602_001), 3);
    assert_eq!(server.at(3_602_998), 3);
    // Back again: nothing until the clock has come there once more.
    server.ahead = -3_600_000;
    assert_eq!(server.at(3_700_000), 3);
    assert_eq!(server.at(3_601_000 + DAY), 3);
}

#[test]
fn runs_stay_due_while_there_is_no_memory() {
    let mut server = Server::new();
    server.set(&allowing(1000));
    server.has_memory = false;
    assert_eq!(server.at(1000), 0);
    assert_eq!(server.at(5500), 0);
    assert_eq!(server.next(), Some(1000));
    server.has_memory = true;
    assert_eq!(server.at(5501), 1);
    assert_eq!(server.next(), Some(6000));
    assert_eq!(server.take(), Some(1000), "it is the one that was due");
}

#[test]
fn a_run_that_a_limit_refuses_is_left_out_and_counted() {
    let mut server = Server::new();
    server.set(&allowing(1000));
    let changes = LimitChanges {
        length: Some(Some(1)),
        ..LimitChanges::default()
    };
    let set = server.turn(|queue, turn| queue.set_limits(turn, Scope::Queue, &changes));
    assert_eq!(set, Ok(()));
    assert_eq!([1000, 2000].map(|ms| server.at(ms)), [1, 1]);
    let (skipped, last) = server.view(|view| (view.skipped, view.last.map(|last| last.1)));
    assert_eq!((skipped, last), (1, Some(RunOutcome::Full)));
    let fired = server.turn(|queue, turn| queue.fire(turn, b"s", |fired| fired.outcome.name()));
    assert_eq!(fired, Some("full"));
}

#[test]
fn a_run_has_the_options_of_its_schedule_and_lives_from_its_own_instant_on() {
    let mut server = Server::new();
    let mut schedule = allowing(1000);
    let span = Span::from_millis(300);
    schedule.message.ttl = Some(Ttl { span, bury: false });
    schedule.message.group = Some(b"g");
    schedule.message.headers = b"h";
    server.set(&schedule);
    assert_eq!(server.at(1100), 1);
    let now = Now::from_micros(server.now * 1000);
    let id = format!("s@{}", BEGIN + 1000);
    let view = server.queue.get(now, id.as_bytes()).expect("a run");
    assert_eq!(view.scheduled_at.millis(), BEGIN + 1000);
    assert_eq!(view.enqueued_at.millis(), BEGIN + 1100);
    assert_eq!(view.expires_at.millis(), BEGIN + 1400);
    assert_eq!((view.group, view.headers), (&b"g"[..], &b"h"[..]));
    assert_eq!(server.at(1399), 1);
    assert_eq!(server.at(1400), 0);
}

#[test]
fn very_many_that_are_due_at_once_run_in_bounded_turns() {
    const MANY: usize = 3000;
    let mut server = Server::new();
    let names: Vec<String> = (0..MANY).map(|n| format!("schedule {n}")).collect();
    let settings = Settings::default();
    let mut log = Log::default();
    for name in &names {
        let now = Now::from_micros(BEGIN * 1000);
        let mut turn = Turn::new(now, 7, &settings, &mut log);
        let schedule = Schedule::new(name.as_bytes(), Times::Every(LEAST_EVERY), b"p");
        let set = server.queue.schedule(&mut turn, &schedule, MANY);
        assert!(set.is_ok());
    }
    let mut turns = 0;
    while server.queue.len() < MANY {
        let now = Now::from_micros((BEGIN + 1000) * 1000);
        let mut turn = Turn::new(now, 7, &settings, &mut log);
        let before = server.queue.len();
        server.queue.let_time_act(&mut turn);
        assert!(
            server.queue.len() - before <= 64,
            "a bounded number in a turn"
        );
        assert!(server.queue.len() > before);
        turns += 1;
    }
    assert!(turns < 200);
    server.queue.check().expect("a sound queue");
    let next = Timestamp::from_millis(BEGIN + 2000);
    assert_eq!(server.queue.next_run(), Some(next));
    let mut turn = Turn::new(Now::from_micros(BEGIN * 1000), 7, &settings, &mut log);
    let one_more = Schedule::new(b"one more", Times::Every(LEAST_EVERY), b"p");
    let refused = server.queue.schedule(&mut turn, &one_more, MANY);
    assert_eq!(refused, Err(ScheduleError::TooMany));
}

#[test]
fn what_is_no_schedule_is_refused() {
    let mut server = Server::new();
    let times = Times::Cron {
        expression: b"never",
        zone: b"UTC",
    };
    let never = Schedule::new(b"s", times, b"");
    for (wrong, error) in [
        (never, ScheduleError::NoMatch),
        (every(999), ScheduleError::OutOfRange),
        (
            Schedule {
                name: b"",
                ..every(1000)
            },
            ScheduleError::OutOfRange,
        ),
        (
            Schedule {
                name: &[b'x'; 497],
                ..allowing(1000)
            },
            ScheduleError::OutOfRange,
        ),
    ] {
        let refused = server.turn(|queue, turn| queue.schedule(turn, &wrong, 10));
        assert_eq!(refused, Err(error));
        assert_eq!(server.queue.schedules_len(), 0);
    }
}

#[test]
fn a_queue_with_schedules_does_not_rest() {
    let mut server = Server::new();
    server.set(&every(1000));
    assert!(server.queue.rest().is_none());
    assert!(server.turn(|queue, turn| queue.unschedule(turn, b"s")));
    assert!(!server.turn(|queue, turn| queue.unschedule(turn, b"s")));
    assert!(server.queue.rest().is_some());
}
