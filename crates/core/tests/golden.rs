//! The binary forms are frozen: what a released version wrote must stay readable, byte for byte.

#[path = "golden/schedules.rs"]
mod schedules;

use redis_mq_core::{
    Backoff, Enqueue, FollowUp, Keep, Loader, Log, Now, Priority, Queue, Replication, Settings,
    Span, Start, Status, Timestamp, Token, Ttl, Turn, Verdict,
};

/// The chunks of [`every_state`] as version 1 wrote them, each as a line of hexadecimal digits. It did
/// not know since when a message was ready.
const SNAPSHOT_1: &str = include_str!("golden/snapshot-1.hex");
/// The same queue as it is written now: its dead letters died no later than its last step.
const SNAPSHOT_1_NOW: &str = include_str!("golden/snapshot-1-now.hex");
/// The effects that made it, a turn a line.
const EFFECTS_1: &str = include_str!("golden/effects-1.hex");
/// The chunks of [`every_state`] as they are written now.
const EVERY_STATE_2: &str = include_str!("golden/every-state-2.hex");
/// The chunks of [`every_addition`], and the effects that made it.
const SNAPSHOT_2: &str = include_str!("golden/snapshot-2.hex");
const EFFECTS_2: &str = include_str!("golden/effects-2.hex");

const NOW_US: u64 = 1_700_000_000_123_456;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(line: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal digits");
    (0..line.len()).step_by(2).map(digits).collect()
}

/// A queue that is led through a life, and the effects of each turn.
struct Life {
    queue: Queue,
    effects: Vec<String>,
    settings: Settings,
    log: Log,
    turns: u64,
}

impl Life {
    fn new() -> Self {
        let settings = Settings {
            max_dead: 4,
            ..Settings::default()
        };
        let (queue, log, effects) = (Queue::new(7), Log::default(), Vec::new());
        Self {
            queue,
            effects,
            settings,
            log,
            turns: 0,
        }
    }

    /// A turn so many milliseconds after the beginning.
    fn step<T>(&mut self, ms: u64, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> T {
        self.turns += 1;
        let now = Now::from_micros(NOW_US + ms * 1000);
        let random = 0x1234_5678_9ABC_DEF0 ^ self.turns;
        let mut turn = Turn::new(now, random, &self.settings, &mut self.log);
        turn.spell_out();
        let result = step(&mut self.queue, &mut turn);
        if let Replication::Effects(bytes) = self.log.replication() {
            self.effects.push(hex(bytes));
        }
        result
    }

    /// A turn on a server that is an hour behind those before it.
    fn step_behind(&mut self, ms: u64, step: impl FnOnce(&mut Queue, &mut Turn<'_>)) {
        let now = Now::from_micros(NOW_US + ms * 1000 - 3_600_000_000);
        let own_ms = (self.queue.own_time(now).micros() - NOW_US) / 1000;
        self.step(own_ms, |queue, turn| {
            queue.settle_time(turn, now);
            step(queue, turn);
        });
    }

    fn enqueue(&mut self, ms: u64, id: &[u8], change: impl FnOnce(&mut Enqueue<'_>)) {
        let mut request = Enqueue::new(b"payload").id(id);
        change(&mut request);
        self.step(ms, |queue, turn| {
            queue.enqueue(turn, &request);
        });
    }
}

fn take(queue: &mut Queue, turn: &mut Turn<'_>, ms: u64) -> Token {
    let mut token = None;
    queue.dequeue(turn, 1, Some(Span::from_millis(ms)), |delivery| {
        token = Some(delivery.token)
    });
    token.expect("something is ready")
}

/// A life with a step for every effect of version 1, that ends with a message in every state.
fn every_state() -> Life {
    let mut life = Life::new();
    life.step(0, |queue, turn| {
        queue.continue_tokens(turn, Token::new(NOW_US + 5_000_000))
    });
    life.step(0, |queue, turn| {
        queue.enqueue(turn, &Enqueue::new(b"made by the queue"));
    });
    for id in [
        &b"retried"[..],
        b"failed",
        b"finished",
        b"expired",
        b"worn out",
        b"released",
    ] {
        life.enqueue(1, id, |request| {
            request.priority = Priority::new(0).expect("a priority")
        });
    }
    life.enqueue(1, b"\0\r\n\xff", |request| request.attempts = 3);
    life.enqueue(2, b"delayed", |request| {
        request.start = Start::After(Span::from_millis(60_000))
    });
    life.enqueue(2, b"delayed", |request| {
        request.update = true;
        request.payload = b"updated";
    });
    life.enqueue(2, b"worn out", |request| {
        request.update = true;
        request.attempts = 1;
        request.priority = Priority::new(1).expect("a priority");
    });
    life.step(3, |queue, turn| {
        let token = take(queue, turn, 1000);
        let backoff = Backoff::For(Span::from_millis(90_000));
        queue
            .done(
                turn,
                b"retried",
                token,
                Verdict::Retry {
                    backoff,
                    reason: None,
                },
            )
            .expect("held");
    });
    life.step(3, |queue, turn| {
        let token = take(queue, turn, 1000);
        let reason = Some(&b"why"[..]);
        queue
            .done(turn, b"failed", token, Verdict::Error { reason })
            .expect("held");
    });
    life.step(4, |queue, turn| {
        let token = take(queue, turn, 1000);
        let mut again = Enqueue::new(b"copy").id(b"finished");
        again.requeue = true;
        again.start = Start::At(Timestamp::from_millis(NOW_US / 1000 + 999_999));
        queue.enqueue(turn, &again);
        let backoff = Backoff::For(Span::from_millis(80_000));
        queue
            .done(turn, b"finished", token, Verdict::success(backoff))
            .expect("held");
    });
    life.step(5, |queue, turn| {
        take(queue, turn, 10);
    });
    life.step(6, |queue, turn| {
        let token = take(queue, turn, 1000);
        queue
            .done(turn, b"released", token, Verdict::Release)
            .expect("held");
    });
    life.step(6, |queue, turn| {
        let token = take(queue, turn, 1000);
        queue
            .extend(turn, b"released", token, Span::from_millis(70_000))
            .expect("held");
    });
    life.step(7, |queue, turn| {
        take(queue, turn, 10);
    });
    life.step(100, |queue, turn| queue.let_time_act(turn));
    life.step(101, |queue, turn| {
        queue.enqueue(
            turn,
            &Enqueue::new(b"").id(b"0190163d-8694-739b-aea5-966c26f8ad91"),
        );
        queue.enqueue(turn, &Enqueue::new(b"").id(b"cancelled"));
        queue.cancel(turn, b"cancelled");
    });
    life
}

/// A life with all that version 2 adds.
fn every_addition() -> Life {
    let mut life = Life::new();
    let headers = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    life.enqueue(0, b"with headers", |request| request.headers = headers);
    life.enqueue(1, b"copied", |request| {
        request.priority = Priority::new(0).expect("a priority");
        request.attempts = 2;
    });
    life.enqueue(1, b"delayed", |request| {
        request.start = Start::After(Span::from_millis(5));
        request.lock = Some(Span::from_millis(1234));
    });
    life.enqueue(2, b"delayed", |request| {
        request.update = true;
        request.headers = b"name: value";
    });
    life.step(3, |queue, turn| {
        take(queue, turn, 60_000);
    });
    life.enqueue(4, b"copied", |request| {
        request.requeue = true;
        request.headers = headers;
    });
    let ttl = |ms, bury| {
        let span = Span::from_millis(ms);
        Some(Ttl { span, bury })
    };
    life.enqueue(5, b"goes", |request| request.ttl = ttl(4, false));
    life.enqueue(5, b"is buried", |request| request.ttl = ttl(4, true));
    life.enqueue(5, b"waits", |request| request.ttl = ttl(70_000, true));
    life.enqueue(5, b"worked on", |request| {
        request.priority = Priority::new(0).expect("a priority");
        request.ttl = ttl(80_000, false);
    });
    life.step(6, |queue, turn| {
        let token = take(queue, turn, 60_000);
        let reason = Some(&b"not yet"[..]);
        let backoff = Backoff::None;
        let verdict = Verdict::Retry { backoff, reason };
        queue
            .done(turn, b"worked on", token, verdict)
            .expect("held");
        take(queue, turn, 60_000);
    });
    life.step(10, |queue, turn| queue.let_time_act(turn));
    life.enqueue(11, b"comes again", |request| request.ttl = ttl(4, true));
    life.step(20, |queue, turn| {
        assert!(queue.redrive(turn, b"comes again"));
    });
    life.enqueue(21, b"is buried", |request| {
        request.priority = Priority::new(0).expect("a priority");
    });
    life.step(22, |queue, turn| {
        assert_eq!(queue.purge(turn, Some(Status::Queued), 1), 1);
        assert_eq!(
            queue.status(Now::from_micros(NOW_US + 22_000), b"is buried"),
            Some(Status::Dead)
        );
    });
    let ms = Span::from_millis;
    for (id, retain) in [(&b"answers"[..], None), (b"is asked for", Some(ms(1)))] {
        life.enqueue(22, id, |request| {
            request.priority = Priority::new(0).expect("a priority");
            request.retain = retain;
        });
        life.step(22, |queue, turn| {
            let token = take(queue, turn, 1000);
            let keep = Keep {
                result: retain.is_none().then_some(b"the answer"),
                retain: retain.is_none().then_some(ms(90_000)),
            };
            let backoff = Backoff::None;
            queue
                .done(turn, id, token, Verdict::Success { backoff, keep })
                .expect("held");
        });
    }
    life.enqueue(22, b"will answer", |request| request.retain = Some(ms(7)));
    life.step(23, |queue, turn| queue.let_time_act(turn));
    let batch = [
        (Some(&b"ends"[..]), &b"p"[..]),
        (Some(b"is open"), b"q"),
        (None, b"r"),
    ];
    life.step(22, |queue, turn| {
        let mut request = Enqueue::new(b"");
        request.attempts = 1;
        let follow_up = FollowUp {
            id: Some(b"follows"),
            payload: b"s",
            headers: b"name: value",
        };
        let (messages, follow_up) = (batch.into_iter(), Some(&follow_up));
        let added = queue.enqueue_many(turn, &request, messages, follow_up, |_| {});
        assert_eq!(added, Ok(()));
    });
    life.step(22, |queue, turn| {
        assert!(queue.cancel(turn, b"ends"));
        let follow_up = FollowUp {
            id: Some(b"follows at once"),
            payload: b"t",
            headers: b"",
        };
        let taken = [(Some(&b"is open"[..]), &b"p"[..])].into_iter();
        let added = queue.enqueue_many(turn, &Enqueue::new(b""), taken, Some(&follow_up), |_| {});
        assert_eq!(added, Ok(()));
    });
    life.enqueue(22, b"joins", |request| request.join = Some(b"follows"));
    life.step_behind(23, |queue, turn| {
        queue.enqueue(
            turn,
            &Enqueue::new(b"on a server that is behind").id(b"later"),
        );
    });
    life
}

fn chunks(queue: &Queue) -> Vec<String> {
    let mut chunks = Vec::new();
    queue.snapshot(|chunk| chunks.push(hex(chunk)));
    chunks
}

#[track_caller]
fn compare(name: &str, golden: &str, lines: &[String]) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        std::fs::write(&path, lines.join("\n") + "\n").expect("the sample can be written");
    } else {
        let golden: Vec<&str> = golden.lines().collect();
        assert_eq!(golden, lines, "{path} is what released versions wrote");
    }
}

#[test]
fn a_snapshot_is_written_as_ever() {
    compare(
        "every-state-2.hex",
        EVERY_STATE_2,
        &chunks(&every_state().queue),
    );
    compare(
        "snapshot-2.hex",
        SNAPSHOT_2,
        &chunks(&every_addition().queue),
    );
}

#[test]
fn effects_are_written_as_ever() {
    compare("effects-1.hex", EFFECTS_1, &every_state().effects);
    compare("effects-2.hex", EFFECTS_2, &every_addition().effects);
}

#[test]
fn an_old_snapshot_is_the_queue_that_it_was() {
    for (golden, now) in [
        (SNAPSHOT_1, SNAPSHOT_1_NOW),
        (EVERY_STATE_2, EVERY_STATE_2),
        (SNAPSHOT_2, SNAPSHOT_2),
    ] {
        let mut loader = Loader::new(1);
        for line in golden.lines() {
            loader.feed(&bytes(line)).expect("a chunk");
        }
        let queue = loader.finish().expect("a whole queue");
        queue.check().expect("a sound queue");
        assert_eq!(chunks(&queue), now.lines().collect::<Vec<_>>());
    }
}

#[test]
fn old_effects_make_the_queue_that_they_made() {
    for (effects, snapshot) in [(EFFECTS_1, EVERY_STATE_2), (EFFECTS_2, SNAPSHOT_2)] {
        let mut queue = Queue::new(2);
        for line in effects.lines() {
            queue.apply(&bytes(line)).expect("effects");
        }
        queue.check().expect("a sound queue");
        assert_eq!(chunks(&queue), snapshot.lines().collect::<Vec<_>>());
    }
}

#[test]
fn only_a_turn_with_something_new_is_written_as_version_2() {
    let version = |line: &&str| bytes(line)[0];
    assert!(EFFECTS_1.lines().all(|line| version(&line) == 1));
    let (old, new): (Vec<&str>, Vec<&str>) = EFFECTS_2.lines().partition(|line| version(line) == 1);
    assert!(!old.is_empty() && !new.is_empty());
}

#[test]
fn the_sample_holds_every_state() {
    let counts = every_state().queue.counts();
    let [ready, delayed, locked, _, _, done_with_copy, dead, _] = counts;
    assert!(
        [ready, delayed, locked, done_with_copy, dead]
            .iter()
            .all(|n| *n > 0),
        "{counts:?}"
    );
}
