//! A life with all that there is of schedules.

use redis_mq_core::{Calendar, Overlap, Schedule, Times};

use super::*;

/// The chunks of [`every_schedule`], and the effects that made it.
const SNAPSHOT: &str = include_str!("schedules-2.hex");
const EFFECTS: &str = include_str!("schedules-effects-2.hex");

/// Every expression matches at whole minutes.
#[derive(Debug)]
struct Minutes;

impl Calendar for Minutes {
    fn next(&self, _: &[u8], _: &[u8], after: Timestamp) -> Option<Timestamp> {
        Some(Timestamp::from_millis(
            (after.millis() / 60_000 + 1) * 60_000,
        ))
    }
}

impl Life {
    fn with_calendar<T>(
        &mut self,
        ms: u64,
        step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T,
    ) -> T {
        // The server's clock is not the queue's time.
        let clock = Timestamp::from_millis(NOW_US / 1000 + ms + 7);
        self.step(ms, |queue, turn| {
            turn.set_clock(clock, &Minutes);
            step(queue, turn)
        })
    }

    fn schedule(&mut self, ms: u64, schedule: &Schedule<'_>) {
        let set = self.with_calendar(ms, |queue, turn| queue.schedule(turn, schedule, 100));
        set.expect("it can be set");
    }
}

fn every_schedule() -> Life {
    let mut life = Life::new();
    let every = Times::Every(Span::from_millis(1000));
    for (name, overlap) in [
        (&b"skips"[..], Overlap::Skip),
        (b"waits", Overlap::After),
        (b"allows", Overlap::Allow),
        (b"goes", Overlap::Skip),
    ] {
        let mut schedule = Schedule::new(name, every, b"payload");
        schedule.overlap = overlap;
        life.schedule(0, &schedule);
    }
    let times = Times::Cron {
        expression: b"* * * * *",
        zone: b"Europe/Zurich",
    };
    let mut full = Schedule::new(b"with everything", times, b"");
    full.from = Some(Timestamp::from_millis(NOW_US / 1000 - 5));
    full.until = Some(Timestamp::from_millis(NOW_US / 1000 + 100_000_000));
    full.most = Some(1);
    full.message.headers = b"name: value";
    full.message.group = Some(b"group");
    full.message.attempts = 3;
    full.message.lock = Some(Span::from_millis(1234));
    full.message.priority = Priority::new(9).expect("a priority");
    full.message.retain = Some(Span::from_millis(60_000));
    full.message.ttl = Some(Ttl {
        span: Span::from_millis(70_000),
        bury: true,
    });
    life.schedule(1, &full);
    life.with_calendar(1000, |queue, turn| queue.let_time_act(turn));
    life.with_calendar(1001, |queue, turn| {
        for _ in 0..3 {
            take(queue, turn, 50_000);
        }
    });
    // The second time one run is left out, one waits, and the first schedule's is new again.
    life.with_calendar(1002, |queue, turn| queue.cancel(turn, b"skips"));
    life.with_calendar(2000, |queue, turn| queue.let_time_act(turn));
    life.with_calendar(2001, |queue, turn| queue.unschedule(turn, b"goes"));
    full.message.payload = b"new";
    life.with_calendar(60_000, |queue, turn| queue.let_time_act(turn));
    life.schedule(60_001, &full);
    life.with_calendar(60_002, |queue, turn| {
        queue.fire(turn, b"allows", |_| ()).expect("a schedule")
    });
    life
}

#[test]
fn schedules_are_written_as_ever() {
    let life = every_schedule();
    compare("schedules-2.hex", SNAPSHOT, &chunks(&life.queue));
    compare("schedules-effects-2.hex", EFFECTS, &life.effects);
}

#[test]
fn old_schedules_are_those_that_they_were() {
    let mut loader = Loader::new(1);
    for line in SNAPSHOT.lines() {
        loader.feed(&bytes(line)).expect("a chunk");
    }
    let loaded = loader.finish().expect("a whole queue");
    let mut made = Queue::new(2);
    for line in EFFECTS.lines() {
        made.apply(&bytes(line)).expect("effects");
    }
    for queue in [loaded, made] {
        queue.check().expect("a sound queue");
        assert_eq!(chunks(&queue), SNAPSHOT.lines().collect::<Vec<_>>());
        assert_eq!(queue.schedules_len(), 4);
    }
}
