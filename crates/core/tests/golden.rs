//! The binary forms are frozen: what a released version wrote must stay readable, byte for byte.

use redis_mq_core::{
    Backoff, Enqueue, Loader, Log, Now, Priority, Queue, Replication, Settings, Span, Start,
    Timestamp, Token, Turn, Verdict,
};

/// The chunks of [`every_state`] in version 1, each as a line of hexadecimal digits.
const SNAPSHOT_1: &str = include_str!("golden/snapshot-1.hex");
/// The effects that made it, a turn a line.
const EFFECTS_1: &str = include_str!("golden/effects-1.hex");

const NOW_US: u64 = 1_700_000_000_123_456;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(line: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal digits");
    (0..line.len()).step_by(2).map(digits).collect()
}

/// A life with a step for every effect, that ends with a message in every state. Also the effects.
fn every_state() -> (Queue, Vec<String>) {
    let settings = Settings {
        max_dead: 4,
        ..Settings::default()
    };
    let (mut queue, mut log, mut effects) = (Queue::new(7), Log::default(), Vec::new());
    let mut turns = 0;
    let mut step = |ms: u64, step: &mut dyn FnMut(&mut Queue, &mut Turn<'_>)| {
        turns += 1;
        let now = Now::from_micros(NOW_US + ms * 1000);
        let mut turn = Turn::new(now, 0x1234_5678_9ABC_DEF0 ^ turns, &settings, &mut log);
        turn.spell_out();
        step(&mut queue, &mut turn);
        if let Replication::Effects(bytes) = log.replication() {
            effects.push(hex(bytes));
        }
    };
    let take = |queue: &mut Queue, turn: &mut Turn<'_>, ms: u64| -> Token {
        let mut token = None;
        queue.dequeue(turn, 1, Some(Span::from_millis(ms)), |delivery| {
            token = Some(delivery.token)
        });
        token.expect("something is ready")
    };
    step(0, &mut |queue, turn| {
        queue.continue_tokens(turn, Token::new(NOW_US + 5_000_000))
    });
    step(0, &mut |queue, turn| {
        queue.enqueue(turn, &Enqueue::new(b"made by the queue"));
    });
    let mut enqueue = |ms: u64, id: &[u8], change: &dyn Fn(&mut Enqueue<'_>)| {
        step(ms, &mut |queue, turn| {
            let mut request = Enqueue::new(b"payload").id(id);
            change(&mut request);
            queue.enqueue(turn, &request);
        });
    };
    for id in [
        &b"retried"[..],
        b"failed",
        b"finished",
        b"expired",
        b"worn out",
        b"released",
    ] {
        enqueue(1, id, &|request| {
            request.priority = Priority::new(0).expect("a priority")
        });
    }
    enqueue(1, b"\0\r\n\xff", &|request| request.attempts = 3);
    enqueue(2, b"delayed", &|request| {
        request.start = Start::After(Span::from_millis(60_000))
    });
    enqueue(2, b"delayed", &|request| {
        request.update = true;
        request.payload = b"updated";
    });
    enqueue(2, b"worn out", &|request| {
        request.update = true;
        request.attempts = 1;
        request.priority = Priority::new(1).expect("a priority");
    });
    step(3, &mut |queue, turn| {
        let token = take(queue, turn, 1000);
        let backoff = Backoff::For(Span::from_millis(90_000));
        queue
            .done(turn, b"retried", token, Verdict::Retry { backoff })
            .expect("held");
    });
    step(3, &mut |queue, turn| {
        let token = take(queue, turn, 1000);
        let reason = Some(&b"why"[..]);
        queue
            .done(turn, b"failed", token, Verdict::Error { reason })
            .expect("held");
    });
    step(4, &mut |queue, turn| {
        let token = take(queue, turn, 1000);
        let mut again = Enqueue::new(b"copy").id(b"finished");
        again.requeue = true;
        again.start = Start::At(Timestamp::from_millis(NOW_US / 1000 + 999_999));
        queue.enqueue(turn, &again);
        let backoff = Backoff::For(Span::from_millis(80_000));
        queue
            .done(turn, b"finished", token, Verdict::Success { backoff })
            .expect("held");
    });
    step(5, &mut |queue, turn| {
        take(queue, turn, 10);
    });
    step(6, &mut |queue, turn| {
        let token = take(queue, turn, 1000);
        queue
            .done(turn, b"released", token, Verdict::Release)
            .expect("held");
    });
    step(6, &mut |queue, turn| {
        let token = take(queue, turn, 1000);
        queue
            .extend(turn, b"released", token, Span::from_millis(70_000))
            .expect("held");
    });
    step(7, &mut |queue, turn| {
        take(queue, turn, 10);
    });
    step(100, &mut |queue, turn| queue.let_time_act(turn));
    step(101, &mut |queue, turn| {
        queue.enqueue(
            turn,
            &Enqueue::new(b"").id(b"0190163d-8694-739b-aea5-966c26f8ad91"),
        );
        queue.enqueue(turn, &Enqueue::new(b"").id(b"cancelled"));
        queue.cancel(turn, b"cancelled");
    });
    (queue, effects)
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
    compare("snapshot-1.hex", SNAPSHOT_1, &chunks(&every_state().0));
}

#[test]
fn effects_are_written_as_ever() {
    compare("effects-1.hex", EFFECTS_1, &every_state().1);
}

#[test]
fn an_old_snapshot_is_the_queue_that_it_was() {
    let mut loader = Loader::new(1);
    for line in SNAPSHOT_1.lines() {
        loader.feed(&bytes(line)).expect("a chunk");
    }
    let queue = loader.finish().expect("a whole queue");
    queue.check().expect("a sound queue");
    assert_eq!(chunks(&queue), SNAPSHOT_1.lines().collect::<Vec<_>>());
}

#[test]
fn old_effects_make_the_queue_that_they_made() {
    let mut queue = Queue::new(2);
    for line in EFFECTS_1.lines() {
        queue.apply(&bytes(line)).expect("effects");
    }
    queue.check().expect("a sound queue");
    assert_eq!(chunks(&queue), SNAPSHOT_1.lines().collect::<Vec<_>>());
}

#[test]
fn the_sample_holds_every_state() {
    let counts = every_state().0.counts();
    let [ready, delayed, locked, _, _, done_with_copy, dead] = counts;
    assert!(
        [ready, delayed, locked, done_with_copy, dead]
            .iter()
            .all(|n| *n > 0),
        "{counts:?}"
    );
}
