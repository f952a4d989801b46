//! Bytes that were cut or changed on their way: an error or a sound queue, never a panic, never
//! more memory than the bytes are worth, and never a queue that could not be stored and loaded.

mod made;

use proptest::collection::vec;
use proptest::prelude::*;

use redis_mq_core::{
    ApplyError, Damaged, Enqueue, Loader, Log, Now, Queue, Replication, Settings, Turn, Verdict,
    SNAPSHOT_VERSION,
};

use made::{Made, NOW_US};

/// Version and frame in front of effects.
const EFFECTS_HEADER: usize = 29;

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
    assert_eq!(
        chunks.len(),
        5,
        "header, schedules, batches, messages, results"
    );
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
        "with schedules twice"
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
    let expected: Vec<u8> = (1..=13)
        .chain([16, 21, 40, 41, 42])
        .chain(with_fields)
        .collect();
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
