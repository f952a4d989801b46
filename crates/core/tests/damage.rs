//! Bytes that were cut or changed on their way: an error or a sound queue, never a panic, never
//! more memory than the bytes are worth, and never a queue that could not be stored and loaded.

use proptest::collection::vec;
use proptest::prelude::*;

use redis_mq_core::{
    ApplyError, Backoff, Damaged, Enqueue, FollowUp, Keep, Loader, Log, Now, Priority, Queue,
    Replication, Settings, Span, Start, Token, Ttl, Turn, Verdict, SNAPSHOT_VERSION,
};

/// Version and frame in front of effects.
const EFFECTS_HEADER: usize = 29;

const NOW_US: u64 = 1_700_000_000_000_000;

/// A queue, and the effects of each turn that made it.
#[derive(Default)]
struct Made {
    queue: Option<Queue>,
    logs: Vec<Vec<u8>>,
    before: Vec<Vec<Vec<u8>>>,
    log: Log,
    settings: Settings,
}

impl Made {
    fn turn<T>(&mut self, ms: u64, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> T {
        let mut queue = self.queue.take().unwrap_or_else(|| Queue::new(1));
        let before = snapshot(&queue);
        let now = Now::from_micros(NOW_US + ms * 1000);
        let mut turn = Turn::new(now, 77, &self.settings, &mut self.log);
        turn.spell_out();
        let reply = step(&mut queue, &mut turn);
        match self.log.replication() {
            Replication::Effects(bytes) => {
                self.logs.push(bytes.to_vec());
                self.before.push(before);
            }
            other => assert_eq!(other, Replication::Nothing),
        }
        self.queue = Some(queue);
        reply
    }

    fn enqueue(&mut self, ms: u64, request: &Enqueue<'_>) {
        self.turn(ms, |queue, turn| queue.enqueue(turn, request).outcome);
    }

    fn dequeue(&mut self, ms: u64, count: usize, lock: u64) -> Vec<(Vec<u8>, Token)> {
        let mut got = Vec::new();
        self.turn(ms, |queue, turn| {
            queue.dequeue(turn, count, Some(Span::from_millis(lock)), |delivery| {
                got.push((delivery.id.bytes().to_vec(), delivery.token));
            })
        });
        got
    }

    fn done(&mut self, ms: u64, delivery: &(Vec<u8>, Token), verdict: Verdict<'_>) {
        let (id, token) = delivery;
        let ended = self.turn(ms, |queue, turn| queue.done(turn, id, *token, verdict));
        assert!(matches!(ended, Ok(Some(_))), "{ended:?}");
    }

    /// Messages of every status and shape, by every kind of effect.
    fn all_kinds() -> Self {
        let mut made = Self::default();
        let (first, last) = (Priority::new(0).unwrap(), Priority::new(9).unwrap());
        for id in [
            b"requeued" as &[u8],
            b"window",
            b"failed",
            b"retried",
            b"dying",
        ] {
            let mut request = Enqueue::new(b"payload").id(id);
            request.priority = first;
            request.attempts = if id == b"dying" { 1 } else { 0 };
            made.enqueue(0, &request);
        }
        let got = made.dequeue(1, 5, 50);
        for (delivery, pause) in [(&got[0], 0), (&got[1], 60_000)] {
            let mut copy = Enqueue::new(b"copy").id(&delivery.0);
            copy.requeue = true;
            copy.start = Start::After(Span::from_millis(pause));
            made.enqueue(2, &copy);
            copy.update = true;
            made.enqueue(2, &copy);
        }
        let backoff = Backoff::For(Span::from_millis(3_600_000));
        made.done(3, &got[1], Verdict::success(backoff));
        made.done(
            3,
            &got[2],
            Verdict::Error {
                reason: Some(b"why"),
            },
        );
        made.done(
            3,
            &got[3],
            Verdict::Retry {
                backoff,
                reason: None,
            },
        );
        // Lets the other locks run out; the last attempt's message dies, and is dead but answered.
        made.turn(60, |queue, turn| queue.let_time_act(turn));
        let again = made.turn(61, |queue, turn| {
            queue.extend(turn, b"dying", got[4].1, Span::from_millis(20))
        });
        assert!(matches!(again, Ok(Some(_))));
        made.turn(90, |queue, turn| queue.let_time_act(turn));

        for _ in 0..3 {
            made.enqueue(91, &Enqueue::new(b"made"));
        }
        let mut own = Enqueue::new(b"").id(b"0190163d-8694-739b-aea5-966c26f8ad91");
        own.lock = Some(Span::MAX);
        own.attempts = u32::MAX;
        own.priority = last;
        made.enqueue(92, &own);
        own.update = true;
        own.start = Start::After(Span::MAX);
        made.enqueue(92, &own);
        let got = made.dequeue(93, 2, 1_000_000);
        made.done(94, &got[1], Verdict::Release);
        let mut brief = Enqueue::new(b"payload").id(b"brief");
        (brief.priority, brief.retain) = (first, Some(Span::from_millis(1)));
        made.enqueue(95, &brief);
        let got = made.dequeue(95, 1, 1_000);
        made.done(95, &got[0], Verdict::SUCCESS);
        made.turn(96, |queue, turn| queue.let_time_act(turn));
        made.enqueue(96, &Enqueue::new(b"gone").id(b"gone"));
        made.turn(96, |queue, turn| queue.cancel(turn, b"gone"));
        let done = Verdict::Success {
            backoff: Backoff::For(Span::from_millis(500)),
            keep: Keep {
                result: Some(b"result"),
                retain: Some(Span::from_millis(60_000)),
            },
        };
        let mut headers = Enqueue::new(b"payload").id(b"headers");
        headers.headers = b"traceparent: 00";
        headers.start = Start::After(Span::from_millis(5_000));
        headers.ttl = Some(Ttl {
            span: Span::from_millis(60_000),
            bury: true,
        });
        made.enqueue(97, &headers);
        headers.update = true;
        made.enqueue(97, &headers);
        let got = made.dequeue(97, 1, 1_000);
        let later = made.turn(97, |queue, turn| {
            queue.extend(turn, &got[0].0, got[0].1, Span::from_millis(2_000))
        });
        assert!(matches!(later, Ok(Some(_))));
        let mut copy = Enqueue::new(b"copy").id(&got[0].0);
        (copy.requeue, copy.headers) = (true, b"copied");
        copy.ttl = headers.ttl;
        made.enqueue(97, &copy);
        made.done(97, &got[0], done);
        for (id, bury) in [(b"buried" as &[u8], true), (b"expired", false)] {
            let mut expiring = Enqueue::new(b"payload").id(id);
            let span = Span::from_millis(1);
            expiring.ttl = Some(Ttl { span, bury });
            made.enqueue(97, &expiring);
        }
        made.turn(98, |queue, turn| queue.let_time_act(turn));
        let mut held = Enqueue::new(b"payload").id(b"held");
        (held.priority, held.ttl) = (first, headers.ttl);
        made.enqueue(98, &held);
        let got = made.dequeue(98, 1, 1_000);
        let verdict = Verdict::Retry {
            backoff: Backoff::None,
            reason: Some(b"not yet"),
        };
        made.done(98, &got[0], verdict);
        made.dequeue(98, 1, 1_000);
        let mut joins = Enqueue::new(b"payload").id(b"joins");
        joins.join = Some(b"follows");
        made.turn(98, |queue, turn| {
            let follow_up = FollowUp {
                id: Some(b"follows"),
                payload: b"payload",
                headers: b"h",
            };
            let messages = [(Some(&b"member"[..]), &b"p"[..]), (Some(b"ends"), b"p")];
            let (messages, follow_up) = (messages.into_iter(), Some(&follow_up));
            let added = queue.enqueue_many(turn, &held, messages, follow_up, |_| {});
            assert_eq!(added, Ok(()));
            let nothing = [(Some(&b"member"[..]), &b"p"[..])].into_iter();
            let follow_up = FollowUp {
                id: None,
                payload: b"",
                headers: b"",
            };
            let added = queue.enqueue_many(turn, &held, nothing, Some(&follow_up), |_| {});
            assert_eq!(added, Ok(()));
            assert!(queue.cancel(turn, b"ends"));
        });
        made.enqueue(98, &joins);
        made.settings.max_dead = 1;
        made.turn(98, |queue, turn| queue.let_time_act(turn));
        made
    }

    fn queue(&self) -> &Queue {
        self.queue.as_ref().expect("there was a turn")
    }
}

fn snapshot(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.snapshot(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

fn load<'a>(chunks: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<Queue, Damaged> {
    let mut loader = Loader::new(5);
    for chunk in chunks {
        loader.feed(chunk)?;
    }
    loader.finish()
}

/// A queue from doubtful bytes must be as good as any other.
fn assert_sound(mut queue: Queue, bytes: usize) {
    queue.check().expect("sound");
    let memory = queue.bytes();
    assert!(memory < 100_000 + 100 * bytes, "{memory} bytes of {bytes}");
    let settings = Settings::default();
    let mut log = Log::default();
    let mut got = Vec::new();
    for ms in [0, 1, 100_000, 400_000_000_000] {
        let server = Now::from_micros(NOW_US + ms * 1000);
        let now = queue.own_time(server);
        queue.info(now);
        let mut turn = Turn::new(now, 7, &settings, &mut log);
        queue.settle_time(&mut turn, server);
        queue.dequeue(&mut turn, 3, None, |delivery| {
            got.push((delivery.id.bytes().to_vec(), delivery.token));
        });
        let mut turn = Turn::new(now, 8, &settings, &mut log);
        queue.enqueue(&mut turn, &Enqueue::new(b"more"));
        if let Some((id, token)) = got.pop() {
            let mut turn = Turn::new(now, 9, &settings, &mut log);
            let _ = queue.done(&mut turn, &id, token, Verdict::SUCCESS);
        }
        queue.check().expect("sound after a step");
    }
    let chunks = snapshot(&queue);
    let again = load(&chunks).expect("what was loaded can be stored and loaded again");
    assert_eq!(snapshot(&again), chunks);
}

/// Every way to cut `bytes`, and to change one bit.
fn for_each_damage(bytes: &[u8], mut test: impl FnMut(Vec<u8>)) {
    for length in 0..bytes.len() {
        test(bytes[..length].to_vec());
    }
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.to_vec();
        changed[at / 8] ^= 1 << (at % 8);
        test(changed);
    }
}

#[test]
fn a_damaged_snapshot_is_an_error_or_a_sound_queue() {
    let made = Made::all_kinds();
    let chunks = snapshot(made.queue());
    assert_eq!(chunks.len(), 4, "header, batches, messages, results");
    assert_sound(
        load(&chunks).expect("whole"),
        chunks.iter().map(Vec::len).sum(),
    );
    let (mut refused, mut taken) = (0, 0);
    for damaged in 0..chunks.len() {
        for_each_damage(&chunks[damaged], |bytes| {
            let mut chunks = chunks.clone();
            chunks[damaged] = bytes;
            match load(&chunks) {
                Ok(queue) => {
                    taken += 1;
                    assert_sound(queue, chunks.iter().map(Vec::len).sum());
                }
                Err(_) => refused += 1,
            }
        });
    }
    assert!(
        refused > 1000 && taken > 1000,
        "{refused} refused, {taken} taken"
    );
}

#[test]
fn a_cut_snapshot_is_an_error() {
    let made = Made::all_kinds();
    let chunks = snapshot(made.queue());
    for cut in 0..chunks.len() {
        for length in 0..chunks[cut].len() {
            let mut chunks = chunks.clone();
            chunks[cut].truncate(length);
            assert!(load(&chunks).is_err(), "cut at {length} of chunk {cut}");
        }
    }
    assert!(load(&chunks[..1]).is_err(), "without messages");
    assert!(load(&chunks[1..]).is_err(), "without a header");
    assert!(load([&chunks[0], &chunks[0]]).is_err(), "with two headers");
    assert!(
        load([&chunks[0], &chunks[1], &chunks[1]]).is_err(),
        "with messages twice"
    );
    assert!(load([]).is_err(), "without anything");
}

#[test]
fn a_snapshot_of_another_version_is_an_error() {
    let made = Made::all_kinds();
    let chunks = snapshot(made.queue());
    for chunk in 0..chunks.len() {
        for version in (0..=u8::MAX).filter(|version| !(1..=SNAPSHOT_VERSION).contains(version)) {
            let mut chunks = chunks.clone();
            chunks[chunk][1] = version;
            assert!(load(&chunks).is_err());
        }
    }
}

#[test]
fn damaged_effects_are_an_error_or_leave_a_sound_queue() {
    let made = Made::all_kinds();
    let mut kinds: Vec<u8> = made.logs.iter().map(|log| log[EFFECTS_HEADER]).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let with_fields = [1, 2, 3, 7, 24].map(|kind| 0x80 | kind);
    let expected: Vec<u8> = (1..=13).chain([16, 21]).chain(with_fields).collect();
    assert_eq!(kinds, expected, "every kind is tried");
    for (log, before) in made.logs.iter().zip(&made.before) {
        for_each_damage(log, |bytes| {
            let mut queue = load(before).expect("whole");
            let _ = queue.apply(&bytes);
            assert_sound(
                queue,
                bytes.len() + before.iter().map(Vec::len).sum::<usize>(),
            );
        });
    }
}

#[test]
fn an_effect_that_ends_a_delivery_which_nobody_made_is_an_error() {
    const RELEASE: u8 = 9;
    let (settings, mut log) = (Settings::default(), Log::default());
    let mut queue = Queue::new(1);
    let mut turn = Turn::new(Now::from_micros(NOW_US), 1, &settings, &mut log);
    queue.enqueue(&mut turn, &Enqueue::new(b"p").id(b"a"));
    let Replication::Effects(effects) = log.replication() else {
        panic!("the first step is spelled out");
    };
    let frame = &effects[..EFFECTS_HEADER];
    let release = [frame, &[RELEASE, 2, b'a']].concat();
    assert!(matches!(
        queue.apply(&release),
        Err(ApplyError::Diverged(_))
    ));
    let again = load(&snapshot(&queue)).expect("it is as sound as before");
    assert_eq!(snapshot(&again), snapshot(&queue));
}

#[test]
fn effects_of_another_version_are_an_error() {
    let made = Made::all_kinds();
    let mut log = made.logs[0].clone();
    for version in [0, 3, b'S', u8::MAX] {
        log[0] = version;
        assert!(Queue::new(1).apply(&log).is_err());
    }
    assert!(Queue::new(1).apply(&[]).is_err());
}

/// The same changes in the bytes of a chunk, or of effects, many at a time.
fn changes() -> impl Strategy<Value = Vec<(usize, Vec<u8>, usize)>> {
    let value = prop_oneof![
        vec(any::<u8>(), 0..4),
        Just(vec![0xFF; 8]),
        Just(vec![
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01
        ]),
        Just(vec![0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]),
    ];
    vec((any::<usize>(), value, 0..6usize), 1..5)
}

fn changed(bytes: &[u8], changes: &[(usize, Vec<u8>, usize)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, value, removed) in changes {
        let at = at % (bytes.len() + 1);
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, value.iter().copied());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn bytes_changed_at_will_do_no_harm(which in any::<usize>(), changes in changes()) {
        thread_local! {
            static MADE: Made = Made::all_kinds();
        }
        MADE.with(|made| {
            let mut chunks = snapshot(made.queue());
            let damaged = which % chunks.len();
            chunks[damaged] = changed(&chunks[damaged], &changes);
            let size = chunks.iter().map(Vec::len).sum();
            if let Ok(queue) = load(&chunks) {
                assert_sound(queue, size);
            }
            let log = changed(&made.logs[which % made.logs.len()], &changes);
            let before = &made.before[which % made.logs.len()];
            let mut queue = load(before).expect("whole");
            let _ = queue.apply(&log);
            assert_sound(queue, log.len() + before.iter().map(Vec::len).sum::<usize>());
        });
    }
}
