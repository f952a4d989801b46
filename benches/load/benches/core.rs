//! The queue alone, without a server: `cargo bench -p redis-mq-bench`.
//!
//! Each step is measured in queues of different lengths; it should cost the same in all of them.

use divan::{black_box, counter::ItemsCount, Bencher};
use redis_mq_core::{Enqueue, Log, Now, Queue, Settings, Span, Token, Turn, Verdict};

fn main() {
    divan::main();
}

const LENGTHS: [usize; 3] = [1_000, 100_000, 1_000_000];
const PAYLOAD: &[u8] = &[b'x'; 40];
const START_US: u64 = 1_700_000_000_000_000;

/// A queue with what its commands need from outside.
struct Bed {
    queue: Queue,
    settings: Settings,
    log: Log,
    now_us: u64,
}

impl Bed {
    fn of(length: usize) -> Self {
        let mut bed = Self {
            queue: Queue::new(7),
            settings: Settings::default(),
            log: Log::default(),
            now_us: START_US,
        };
        (0..length).for_each(|_| bed.enqueue());
        bed
    }

    /// A turn one microsecond after the one before.
    fn turn(&mut self) -> (&mut Queue, Turn<'_>) {
        self.now_us += 1;
        let now = Now::from_micros(self.now_us);
        let turn = Turn::new(now, self.now_us, &self.settings, &mut self.log);
        (&mut self.queue, turn)
    }

    fn enqueue(&mut self) {
        let (queue, mut turn) = self.turn();
        black_box(queue.enqueue(&mut turn, &Enqueue::new(black_box(PAYLOAD))));
    }

    fn take(&mut self, count: usize, lock: Option<Span>) -> Vec<(Vec<u8>, Token)> {
        let (queue, mut turn) = self.turn();
        let mut taken = Vec::with_capacity(count);
        queue.dequeue(&mut turn, count, lock, |delivery| {
            taken.push((delivery.id.bytes().to_vec(), delivery.token));
        });
        taken
    }

    fn done(&mut self, id: &[u8], token: Token) {
        let (queue, mut turn) = self.turn();
        let ended = queue.done(&mut turn, id, token, Verdict::SUCCESS);
        black_box(ended).expect("the newest token");
    }
}

/// Enqueue, dequeue and done of one message; the length stays.
#[divan::bench(args = LENGTHS)]
fn life(bencher: Bencher<'_, '_>, length: usize) {
    let mut bed = Bed::of(length);
    bencher.counter(ItemsCount::new(1_u32)).bench_local(|| {
        bed.enqueue();
        for (id, token) in bed.take(1, None) {
            bed.done(&id, token);
        }
    });
}

/// A hundred messages handed over by one command and given back.
#[divan::bench(args = LENGTHS)]
fn take_a_hundred_and_finish_them(bencher: Bencher<'_, '_>, length: usize) {
    let mut bed = Bed::of(length);
    bencher.counter(ItemsCount::new(100_u32)).bench_local(|| {
        for (id, token) in bed.take(100, None) {
            bed.done(&id, token);
            bed.enqueue();
        }
    });
}

/// The turns in which time gives back the messages of that many locks that end together.
#[divan::bench(args = [1_000, 50_000])]
fn locks_end(bencher: Bencher<'_, '_>, locks: usize) {
    let lock = Span::from_millis(1_000);
    bencher
        .counter(ItemsCount::new(locks))
        .with_inputs(|| {
            let mut bed = Bed::of(locks);
            bed.take(locks, Some(lock));
            bed.now_us += 1_001_000;
            bed
        })
        .bench_local_refs(|bed| {
            while bed.queue.ready_len() < locks {
                let (queue, mut turn) = bed.turn();
                queue.let_time_act(&mut turn);
            }
        });
}
