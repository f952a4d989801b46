//! Very many messages whose time comes at once: every turn does a bounded part, every reply tells
//! what holds, and the replica follows.

use redis_mq_core::{
    Ended, Enqueue, Info, Log, Now, Outcome, Queue, Replication, Settings, Span, Start, Status,
    Token, Turn, Verdict,
};

const MANY: usize = 30_000;
/// What one turn may do, at most.
const PER_TURN: usize = 1024;
const START: u64 = 1_700_000_000_000;
const LOCK: u64 = 3_600_000;

struct Pair {
    queue: Queue,
    replica: Queue,
    log: Log,
    settings: Settings,
    now: u64,
}

impl Pair {
    fn new() -> Self {
        Self {
            queue: Queue::new(1),
            replica: Queue::new(2),
            log: Log::default(),
            settings: Settings::default(),
            now: START,
        }
    }

    fn clock(&self) -> Now {
        Now::from_micros(self.now * 1000)
    }

    /// Returns the reply, and the bytes that were replicated.
    fn turn<T>(&mut self, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> (T, usize) {
        let clock = self.clock();
        let mut turn = Turn::new(clock, 9, &self.settings, &mut self.log);
        turn.spell_out();
        let reply = step(&mut self.queue, &mut turn);
        match self.log.replication() {
            Replication::Effects(bytes) => {
                self.replica.apply(bytes).expect("fits the replica");
                (reply, bytes.len())
            }
            other => {
                assert_eq!(other, Replication::Nothing);
                (reply, 0)
            }
        }
    }

    fn enqueue(&mut self, request: &Enqueue<'_>) -> Outcome {
        self.turn(|queue, turn| queue.enqueue(turn, request).outcome)
            .0
    }

    fn dequeue(&mut self, count: usize, lock: u64) -> Vec<(Vec<u8>, Token)> {
        let mut got = Vec::new();
        self.turn(|queue, turn| {
            queue.dequeue(turn, count, Some(Span::from_millis(lock)), |delivery| {
                got.push((delivery.id.bytes().to_vec(), delivery.token));
            })
        });
        got
    }

    fn let_time_act(&mut self) -> usize {
        self.turn(|queue, turn| queue.let_time_act(turn)).1
    }

    /// As it is at this moment, and the same on the replica.
    fn info(&self) -> Info<'_> {
        let (info, other) = (
            self.queue.info(self.clock()),
            self.replica.info(self.clock()),
        );
        assert_eq!((info.counts, info.totals), (other.counts, other.totals));
        let id =
            |info: &Info<'_>| [&info.next, &info.last].map(|end| end.map(|id| id.bytes().to_vec()));
        assert_eq!(id(&info), id(&other));
        info
    }

    /// The next instant is told, or one before it: there are too many to look at each.
    fn assert_next_due_by(&self, exact: u64) {
        for queue in [&self.queue, &self.replica] {
            let told = queue.info(self.clock()).next_due;
            assert!(told.is_some_and(|span| span.millis() <= exact), "{told:?}");
        }
    }

    fn count(&self, status: Status) -> u64 {
        self.info().counts[status as usize]
    }

    fn assert_same(&self) {
        self.queue.check().expect("the queue is sound");
        self.replica.check().expect("the replica is sound");
        assert!(
            digest(&self.queue) == digest(&self.replica),
            "queue and replica differ"
        );
    }

    /// Messages with a consumer whose locks all end in one millisecond, which has just come.
    fn with_expired_locks(attempts: u32) -> (Self, Vec<(Vec<u8>, Token)>) {
        let mut pair = Self::new();
        for n in 0..MANY as u32 {
            let id = n.to_be_bytes();
            let mut request = Enqueue::new(b"").id(&id);
            request.attempts = attempts;
            pair.enqueue(&request);
        }
        let got = pair.dequeue(MANY, LOCK);
        assert_eq!(got.len(), MANY);
        pair.now += LOCK - 1;
        assert_eq!(pair.count(Status::Locked), MANY as u64);
        pair.assert_next_due_by(1);
        pair.now += 1;
        (pair, got)
    }
}

fn digest(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.digest(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

#[test]
fn locks_that_end_in_one_millisecond_are_moved_on_in_bounded_turns() {
    let (mut pair, _) = Pair::with_expired_locks(0);
    let mut turns = 0;
    while pair
        .queue
        .next_due()
        .is_some_and(|due| due.millis() <= pair.now)
    {
        let before = pair.queue.ready_len();
        let bytes = pair.let_time_act();
        turns += 1;
        assert!(pair.queue.ready_len() - before <= PER_TURN);
        assert!(bytes <= 29 + 6 * PER_TURN, "{bytes} bytes in one turn");
        if turns % 10 == 0 {
            // Whatever has been done so far, all of them are queued, and none is locked.
            let info = pair.info();
            assert_eq!(info.counts, [MANY as u64, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(info.totals.expired_locks, MANY as u64);
            assert_eq!(
                info.next.map(|id| id.bytes().to_vec()),
                Some(0u32.to_be_bytes().to_vec())
            );
            let last = MANY as u32 - 1;
            assert_eq!(
                info.last.map(|id| id.bytes().to_vec()),
                Some(last.to_be_bytes().to_vec())
            );
        }
        if turns % 50 == 0 {
            pair.assert_same();
        }
    }
    // Dealt to each lower level of the schedule once, and moved on once.
    assert!(turns <= 6 * MANY / PER_TURN, "{turns} turns");
    assert_eq!(pair.queue.ready_len(), MANY);
    pair.assert_same();
    let order: Vec<Vec<u8>> = pair
        .dequeue(MANY, 1)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert!(order.is_sorted(), "in the order in which they became ready");
}

#[test]
fn last_attempts_that_end_in_one_millisecond_leave_the_newest_dead_letters() {
    let (mut pair, _) = Pair::with_expired_locks(1);
    pair.settings.max_dead = 100;
    assert_eq!(pair.count(Status::Dead), MANY as u64);
    while pair.queue.next_due().is_some() {
        pair.let_time_act();
        assert!(
            pair.queue.counts()[6] <= 100,
            "each death pushes one letter out"
        );
    }
    assert_eq!(pair.info().counts, [0, 0, 0, 0, 0, 0, 0, 100, 0]);
    assert_eq!(pair.info().totals.dead, MANY as u64);
    let oldest_kept = (MANY as u32 - 100).to_be_bytes();
    assert_eq!(
        pair.queue.status(pair.clock(), &oldest_kept),
        Some(Status::Dead)
    );
    pair.assert_same();
}

#[test]
fn a_verdict_amid_a_flood_meets_the_message_as_it_is_by_now() {
    // Their last attempts have ended, and copies wait for most of them.
    let (mut pair, got) = Pair::with_expired_locks(1);
    pair.now -= 1;
    for (id, _) in &got[..MANY - 2] {
        let mut copy = Enqueue::new(b"copy").id(id);
        copy.requeue = true;
        assert_eq!(pair.enqueue(&copy), Outcome::Requeued);
    }
    pair.now += 1;
    let before = pair.info().totals;
    let (id, token) = &got[MANY - 3];
    assert_eq!(pair.queue.status(pair.clock(), id), Some(Status::Queued));
    let (reply, _) = pair.turn(|queue, turn| queue.done(turn, id, *token, Verdict::SUCCESS));
    assert!(
        reply.is_err(),
        "the id is that of the copy by now: {reply:?}"
    );
    let (id, token) = &got[MANY - 2];
    assert_eq!(pair.queue.status(pair.clock(), id), Some(Status::Dead));
    let (reply, _) = pair.turn(|queue, turn| queue.done(turn, id, *token, Verdict::SUCCESS));
    assert_eq!(reply, Ok(Some(Ended::Done)), "nobody else took it");
    let (id, _) = &got[MANY - 1];
    assert_eq!(pair.enqueue(&Enqueue::new(b"").id(id)), Outcome::Added);
    let after = pair.info().totals;
    assert_eq!(after.expired_locks, before.expired_locks);
    assert_eq!(
        after.dead,
        before.dead - 1,
        "the verdict takes its death back"
    );
    pair.assert_same();
}

#[test]
fn windows_and_delays_that_end_in_one_millisecond_are_told_exactly() {
    let mut pair = Pair::new();
    for n in 0..MANY as u32 {
        let id = n.to_be_bytes();
        let mut request = Enqueue::new(b"").id(&id);
        request.start = Start::After(Span::from_millis(LOCK + u64::from(n % 3)));
        pair.enqueue(&request);
    }
    let third = MANY as u64 / 3;
    for (passed, ready) in [(LOCK - 1, 0), (LOCK, third), (LOCK + 1, 2 * third)] {
        pair.now = START + passed;
        for _ in 0..5 {
            pair.let_time_act();
            assert_eq!(pair.count(Status::Queued), ready);
            assert_eq!(pair.count(Status::QueuedWithBackoff), MANY as u64 - ready);
            pair.assert_next_due_by(1);
        }
        pair.assert_same();
    }
}

#[test]
fn a_clock_set_back_amid_many_deals_them_out_anew_in_bounded_turns() {
    let mut pair = Pair::new();
    for n in 0..MANY as u32 {
        let id = n.to_be_bytes();
        let mut request = Enqueue::new(b"").id(&id);
        request.start = Start::After(Span::from_millis(1000 + u64::from(n)));
        pair.enqueue(&request);
    }
    pair.now -= 60_000;
    // Nothing is due, so nothing is replicated, however long dealing takes.
    for _ in 0..MANY / PER_TURN + 2 {
        assert_eq!(pair.let_time_act(), 0);
        assert_eq!(pair.count(Status::QueuedWithBackoff), MANY as u64);
        pair.assert_next_due_by(61_000);
    }
    assert_eq!(
        pair.queue.next_due().map(|due| due.millis() > pair.now),
        Some(true)
    );
    pair.now += 61_000 + 4999;
    while pair
        .queue
        .next_due()
        .is_some_and(|due| due.millis() <= pair.now)
    {
        pair.let_time_act();
        assert_eq!(pair.count(Status::Queued), 5000);
    }
    pair.assert_same();
    let order: Vec<Vec<u8>> = pair
        .dequeue(MANY, 1)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert!(order.len() == 5000 && order.is_sorted());
}

#[test]
fn what_falls_due_soon_is_told_to_the_millisecond_however_much_it_is() {
    let mut pair = Pair::new();
    for n in 0..MANY as u32 {
        let id = n.to_be_bytes();
        let mut request = Enqueue::new(b"").id(&id);
        request.start = Start::After(Span::from_millis(LOCK + u64::from(n) % 300));
        pair.enqueue(&request);
    }
    for left in [600_000, 3000, 1000, 1] {
        pair.now = START + LOCK - left;
        while pair
            .queue
            .next_due()
            .is_some_and(|due| due.millis() <= pair.now)
        {
            pair.let_time_act();
        }
        if left > 3000 {
            pair.assert_next_due_by(left);
        } else {
            let told = pair.queue.info(pair.clock()).next_due;
            assert_eq!(told, Some(Span::from_millis(left)));
        }
    }
    pair.now = START + LOCK;
    assert_eq!(pair.dequeue(MANY, 1000).len(), MANY / 300);
    pair.assert_same();
}
