//! What must not happen in a hot step, counted instead of timed: allocations, and work that grows with
//! the queue.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use redis_mq_core::{
    Enqueue, Log, Now, Peek, PeekError, Queue, Replication, Settings, Span, Start, Status,
    Timestamp, Token, Turn, Verdict,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator as they come; counting touches a plain cell of the
// running thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const START_US: u64 = 1_700_000_000_000_000;

/// A queue and what a server keeps beside it.
struct Bench {
    queue: Queue,
    log: Log,
    settings: Settings,
    now_us: u64,
}

impl Bench {
    fn new() -> Self {
        Self {
            queue: Queue::new(1),
            log: Log::default(),
            settings: Settings::default(),
            now_us: START_US,
        }
    }

    /// One turn; gives its result and how often it allocated.
    fn turn<T>(&mut self, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> (T, usize) {
        self.now_us += 10;
        let before = ALLOCATIONS.with(Cell::get);
        let now = Now::from_micros(self.now_us);
        let mut turn = Turn::new(now, 7, &self.settings, &mut self.log);
        let result = step(&mut self.queue, &mut turn);
        (result, ALLOCATIONS.with(Cell::get) - before)
    }

    fn enqueue(&mut self, id: Option<&[u8]>) -> usize {
        let mut request = Enqueue::new(&[b'x'; 40]);
        request.id = id;
        self.turn(|queue, turn| {
            queue.enqueue(turn, &request);
        })
        .1
    }

    fn dequeue(&mut self, lock: Option<Span>) -> ((Vec<u8>, Token), usize) {
        // Room for the longest id, so that only the queue's own allocations count.
        let mut id = Vec::with_capacity(512);
        let (token, allocations) = self.turn(|queue, turn| {
            let mut token = None;
            queue.dequeue(turn, 1, lock, |delivery| {
                id.extend_from_slice(delivery.id.bytes());
                token = Some(delivery.token);
            });
            token
        });
        ((id, token.expect("one is ready")), allocations)
    }

    fn done(&mut self, (id, token): &(Vec<u8>, Token)) -> usize {
        let (ended, allocations) =
            self.turn(|queue, turn| queue.done(turn, id, *token, Verdict::SUCCESS));
        assert!(matches!(ended, Ok(Some(_))));
        allocations
    }

    /// A queue that has held `many` messages at once, as one does after its first busy hour, and
    /// holds some still.
    fn warm(many: usize) -> Self {
        let mut bench = Self::new();
        // The histograms have room for such times from then on.
        const HOUR_US: u64 = 3_600_000_000;
        bench.enqueue(Some(b"slow"));
        bench.now_us += HOUR_US;
        let (slow, _) = bench.dequeue(Some(Span::from_millis(HOUR_US)));
        bench.now_us += HOUR_US;
        bench.done(&slow);
        for number in 0..many {
            bench.enqueue(Some(number.to_string().as_bytes()));
        }
        while bench.queue.len() > many / 2 {
            let (delivery, _) = bench.dequeue(None);
            bench.done(&delivery);
        }
        bench
    }
}

#[test]
fn a_messages_life_takes_one_allocation() {
    let mut bench = Bench::warm(4096);
    for number in 0..2000 {
        let id = format!("another:{number}");
        assert_eq!(bench.enqueue(Some(id.as_bytes())), 1, "message {number}");
        let (delivery, allocations) = bench.dequeue(None);
        assert_eq!(allocations, 0, "delivery {number}");
        assert_eq!(bench.done(&delivery), 0, "verdict {number}");
    }
}

#[test]
fn an_id_of_the_queue_takes_no_allocation_beyond_a_page_for_many() {
    let mut bench = Bench::warm(4096);
    let mut allocations = 0;
    for _ in 0..4000 {
        allocations += bench.enqueue(None);
        let (delivery, more) = bench.dequeue(None);
        allocations += more + bench.done(&delivery);
    }
    assert!((4000..4100).contains(&allocations), "{allocations}");
}

#[test]
fn looking_takes_no_allocation() {
    let bench = Bench::warm(512);
    let now = Now::from_micros(bench.now_us);
    let before = ALLOCATIONS.with(Cell::get);
    assert!(bench.queue.status(now, b"500").is_some());
    assert!(bench.queue.get(now, b"500").is_some());
    assert_eq!(bench.queue.info(now).counts.iter().sum::<u64>(), 256);
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
}

/// Turns are played on as much as is shown, however many groups take them.
#[test]
fn a_page_of_next_deliveries_takes_no_more_memory_with_more_groups() {
    let with_groups = |groups: usize| {
        let mut bench = Bench::new();
        for number in 0..20_000 {
            let group = (number % groups).to_string();
            let mut request = Enqueue::new(b"p");
            request.group = Some(group.as_bytes());
            bench.turn(|queue, turn| {
                queue.enqueue(turn, &request);
            });
        }
        let now = Now::from_micros(bench.now_us);
        let peek = Peek {
            status: None,
            count: 10,
            after: None,
            reverse: false,
        };
        let before = ALLOCATIONS.with(Cell::get);
        let page = bench.queue.peek(now, &peek).expect("there is such a page");
        assert_eq!(page.len(), 10);
        ALLOCATIONS.with(Cell::get) - before
    };
    let (few, many) = (with_groups(20), with_groups(10_000));
    assert!(many <= few, "{few} with 20 groups, {many} with 10,000");
}

/// A page of the schedule is found behind some messages of another status, not behind any number.
#[test]
fn a_page_passes_over_a_bounded_number_of_messages_of_another_status() {
    let mut bench = Bench::new();
    let lock = |bench: &mut Bench, span: u64| {
        bench.enqueue(None);
        bench.dequeue(Some(Span::from_millis(span))).0
    };
    let first = lock(&mut bench, 1000).0;
    for number in 0..20_000 {
        let mut request = Enqueue::new(b"p");
        request.start = Start::After(Span::from_millis(3_600_000 + number));
        bench.turn(|queue, turn| {
            queue.enqueue(turn, &request);
        });
    }
    let far = lock(&mut bench, 180_000);
    let behind = lock(&mut bench, 100_000_000).0;
    let now = Now::from_micros(bench.now_us);
    let peek = |after, reverse| {
        let peek = Peek {
            status: Some(Status::Locked),
            count: 10,
            after,
            reverse,
        };
        let page = bench.queue.peek(now, &peek)?;
        Ok(page
            .iter()
            .map(|message| message.id.bytes().to_vec())
            .collect())
    };
    let all = vec![first.clone(), far.0.clone()];
    assert_eq!(peek(None, false), Ok(all), "what comes before is shown");
    assert_eq!(peek(Some(&far.0), false), Err(PeekError::TooFar));
    assert_eq!(
        peek(None, true).map(|page: Vec<Vec<u8>>| page[0].clone()),
        Ok(behind.clone())
    );
    let mut seen = Vec::new();
    let end = bench.queue.scan(now, 0, usize::MAX, |message| {
        if message.status == Status::Locked {
            seen.push(message.id.bytes().to_vec());
        }
    });
    assert_eq!((end, seen.len()), (Ok(0), 3), "a scan finds all");
    let later = Now::from_micros(bench.now_us + 1_000_000_000_000);
    let none = Peek {
        status: Some(Status::Locked),
        count: 10,
        after: None,
        reverse: false,
    };
    let page = bench.queue.peek(later, &none).map(|page| page.len());
    assert_eq!(
        page,
        Ok(0),
        "all have ended, though nobody has let time act"
    );
    let (purged, _) = bench.turn(|queue, turn| queue.purge(turn, Some(Status::Locked), 10));
    assert_eq!(purged, 3, "none is left behind");
}

/// However many locks end in one millisecond, a command moves on no more than its share of them. What
/// it moves on is what it tells its replicas.
#[test]
fn a_turn_does_no_more_than_its_share_of_what_time_does() {
    const MANY: usize = 50_000;
    const SHARE: u64 = 1024;
    let mut bench = Bench::new();
    let mut replica = Queue::new(2);
    for number in 0..MANY {
        bench.enqueue(Some(number.to_string().as_bytes()));
    }
    let lock = Some(Span::from_millis(1000));
    bench.turn(|queue, turn| queue.dequeue(turn, MANY, lock, |_| {}));
    let mut chunks = Vec::new();
    bench.queue.snapshot(|chunk| chunks.push(chunk.to_vec()));
    for chunk in &chunks {
        replica.apply(chunk).expect("a chunk of a snapshot");
    }
    bench.now_us += 2_000_000;
    let mut turns = 0;
    while replica.totals().expired_locks < MANY as u64 {
        let before = replica.totals().expired_locks;
        bench.turn(|queue, turn| queue.let_time_act(turn));
        if let Replication::Effects(bytes) = bench.log.replication() {
            replica.apply(bytes).expect("effects fit the replica");
        }
        let moved = replica.totals().expired_locks - before;
        assert!(moved <= SHARE, "{moved} in one turn");
        turns += 1;
        assert!(turns < 1000, "it never ends");
    }
}

/// A slot of the schedule with very many messages is dealt out before its time, a share a turn, so that
/// at the instant the first of them is handed over at once; where nobody let time act before, a dequeue
/// deals out some shares at most.
#[test]
fn a_dequeue_deals_out_no_more_than_some_shares_of_a_slot() {
    const MANY: u64 = 200_000;
    let due_us = START_US + 3_600_000_000;
    let filled = || {
        let mut bench = Bench::new();
        for number in 0..MANY {
            let due = Timestamp::from_millis(due_us / 1000 + number % 500);
            let mut request = Enqueue::new(b"");
            request.start = Start::At(due);
            bench.turn(|queue, turn| queue.enqueue(turn, &request));
            bench.now_us = START_US;
        }
        bench
    };
    let got = |bench: &mut Bench| {
        bench
            .turn(|queue, turn| queue.dequeue(turn, 1, None, |_| {}))
            .0
    };

    let mut bench = filled();
    let mut looks = 0;
    while bench
        .queue
        .next_due()
        .is_some_and(|due| due.millis() < due_us / 1000)
    {
        let next = bench.queue.next_due().map_or(0, Timestamp::millis) * 1000;
        bench.now_us = next.max(bench.now_us + 1000);
        assert!(bench.now_us < due_us, "it is not dealt out in time");
        bench.turn(|queue, turn| queue.let_time_act(turn));
        looks += 1;
    }
    assert!(looks > 100, "{looks} looks");
    bench.now_us = due_us;
    assert_eq!(got(&mut bench), 1);

    let mut late = filled();
    late.now_us = due_us;
    let mut misses = 0;
    while got(&mut late) == 0 {
        misses += 1;
        assert!(misses < 500, "nothing is ever handed over");
    }
    assert!(
        misses > 10,
        "one step dealt out {MANY} messages in {misses} steps"
    );
}
