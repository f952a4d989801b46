//! A primary and its replica, which agree with each other and with a reloaded queue after every step.

use redis_mq_core::{
    Backoff, Enqueue, LimitChanges, Loader, Log, Now, Outcome, Peek, Queue, Replication, Scope,
    Settings, Span, Status, Token, Turn, Verdict,
};

pub const START_US: u64 = 1_700_000_000_000_000;

pub struct Pair {
    pub queue: Queue,
    pub replica: Queue,
    pub log: Log,
    pub settings: Settings,
    pub now_us: u64,
    /// Every delivery that has no verdict yet: id, group, token.
    pub running: Vec<(Vec<u8>, Vec<u8>, Token)>,
}

impl Pair {
    pub fn new() -> Self {
        Self {
            queue: Queue::new(1),
            replica: Queue::new(2),
            log: Log::default(),
            settings: Settings {
                lock: ms(10_000),
                ..Settings::default()
            },
            now_us: START_US,
            running: Vec::new(),
        }
    }

    pub fn turn<T>(&mut self, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> T {
        let now = Now::from_micros(self.now_us);
        let mut turn = Turn::new(now, 7, &self.settings, &mut self.log);
        turn.spell_out();
        let result = step(&mut self.queue, &mut turn);
        match self.log.replication() {
            Replication::Nothing => {}
            Replication::Effects(bytes) => self.replica.apply(bytes).expect("effects fit"),
            Replication::Verbatim => panic!("everything was to be spelled out"),
        }
        self.check();
        result
    }

    pub fn check(&self) {
        self.queue.check().expect("the queue is sound");
        self.replica.check().expect("the replica is sound");
        assert_eq!(digest(&self.queue), digest(&self.replica));
        let loaded = reloaded(&self.queue);
        loaded.check().expect("a loaded queue is sound");
        assert_eq!(digest(&loaded), digest(&self.queue));
    }

    pub fn pass(&mut self, ms: u64) {
        self.now_us += ms * 1000;
        self.turn(|queue, turn| queue.let_time_act(turn));
    }

    pub fn add(&mut self, id: &str, group: &str) -> Outcome {
        self.enqueue(id, group, |_| {})
    }

    pub fn enqueue(
        &mut self,
        id: &str,
        group: &str,
        change: impl FnOnce(&mut Enqueue<'_>),
    ) -> Outcome {
        let mut request = Enqueue::new(b"payload").id(id.as_bytes());
        request.group = (!group.is_empty()).then_some(group.as_bytes());
        change(&mut request);
        self.turn(|queue, turn| queue.enqueue(turn, &request).outcome)
    }

    pub fn take(&mut self, count: usize) -> String {
        let mut ids = String::new();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        let handed_over = self.turn(|queue, turn| {
            queue.dequeue(turn, count, None, |delivery| {
                ids.push_str(std::str::from_utf8(delivery.id.bytes()).expect("made here"));
                let id = delivery.id.bytes().to_vec();
                taken.push((id, delivery.group.to_vec(), delivery.token));
                left.push(delivery.left);
            })
        });
        assert_eq!(handed_over, taken.len());
        assert!(left.into_iter().rev().eq(0..handed_over));
        self.running.extend(taken);
        ids
    }

    pub fn done(&mut self, id: &str, verdict: Verdict<'_>) {
        let at = self
            .running
            .iter()
            .rposition(|running| running.0 == id.as_bytes());
        let (id, _, token) = self.running.remove(at.expect("it was delivered"));
        let ended = self.turn(|queue, turn| queue.done(turn, &id, token, verdict));
        ended.expect("the newest delivery").expect("it is there");
    }

    pub fn cancel(&mut self, id: &str) -> bool {
        self.turn(|queue, turn| queue.cancel(turn, id.as_bytes()))
    }

    pub fn limit(&mut self, scope: Scope<'_>, changes: LimitChanges) {
        let set = self.turn(|queue, turn| queue.set_limits(turn, scope, &changes));
        set.expect("limits that can be");
    }

    /// Milliseconds until a consumer gets something, if time alone brings that about.
    pub fn time_to_ready(&mut self) -> Option<u64> {
        let start = self.now_us;
        while self.queue.ready_len() == 0 {
            let due = self.queue.next_due()?.millis();
            let wait = due.saturating_sub(self.now_us / 1000);
            self.pass(wait.max(1));
        }
        Some((self.now_us - start) / 1000)
    }

    pub fn groups(&self) -> usize {
        self.queue.info(Now::from_micros(self.now_us)).groups
    }

    pub fn peek(&self, status: Option<Status>, reverse: bool) -> String {
        let peek = Peek {
            status,
            count: 1000,
            after: None,
            reverse,
        };
        let page = self.queue.peek(Now::from_micros(self.now_us), &peek);
        let page = page.expect("nothing is asked for that turns forbid");
        let ids = page.iter().map(|message| message.id.bytes().to_vec());
        String::from_utf8(ids.flatten().collect()).expect("made here")
    }
}

pub fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

pub fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

pub fn digest(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.digest(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

pub fn reloaded(queue: &Queue) -> Queue {
    let mut loader = Loader::new(3);
    queue.snapshot(|chunk| loader.feed(chunk).expect("a snapshot can be loaded"));
    loader.finish().expect("a snapshot is whole")
}

pub fn inflight(most: Option<u32>) -> LimitChanges {
    LimitChanges {
        inflight: Some(most),
        ..LimitChanges::default()
    }
}

pub fn rate(deliveries: u32, span: u64, burst: u32) -> LimitChanges {
    LimitChanges {
        rate: Some(Some((deliveries, ms(span)))),
        burst: Some(Some(burst)),
        ..LimitChanges::default()
    }
}

pub const RETRY: Verdict<'_> = Verdict::Retry {
    backoff: Backoff::None,
    reason: None,
};
