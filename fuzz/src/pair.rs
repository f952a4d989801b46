//! A queue and its replica, and a life for them that comes by every rule.

use redis_mq_core::{
    Backoff, Delivery, Enqueue, FollowUp, Loader, Log, Now, Overlap, Peek, Priority, Queue,
    Replication, Schedule, Settings, Span, Start, Status, Times, Token, Ttl, Turn, Verdict,
    LEAST_EVERY,
};

/// A queue, and one that gets its effects.
pub struct Pair {
    /// The primary's.
    pub queue: Queue,
    /// The replica's.
    pub replica: Queue,
    /// The effects that the queue gave, if they are wanted. Nothing is then left to the replica to
    /// work out.
    pub keep_effects: Option<Vec<Vec<u8>>>,
    log: Log,
    settings: Settings,
    now_us: u64,
    random: u64,
}

/// What a replica can be left to work out.
type Replay<'a> = &'a dyn Fn(&mut Queue) -> Result<(), redis_mq_core::ApplyError>;

const START_US: u64 = 1_700_000_000_000_000;
const SECOND_US: u64 = 1_000_000;
const IDS: [&[u8]; 5] = [
    b"a",
    b"b",
    b"c",
    b"0190163d-8694-739b-aea5-966c26f8ad91",
    b"d",
];

impl Pair {
    /// A queue with a replica that loads it.
    pub fn of(queue: Queue) -> Self {
        let settings = Settings {
            lock: Span::from_millis(1000),
            max_dead: 3,
            ..Settings::default()
        };
        Self {
            replica: reload(&queue, 2),
            queue,
            keep_effects: None,
            log: Log::default(),
            settings,
            now_us: START_US,
            random: 1,
        }
    }

    /// A queue with messages in every state a message can have.
    pub fn with_every_state() -> Self {
        let mut pair = Self::of(Queue::new(1));
        let window = Verdict::success(Backoff::For(Span::from_millis(500)));
        let failed = Verdict::Error {
            reason: Some(b"why"),
        };
        for (id, verdict) in [
            (&b"dead"[..], Some(failed)),
            (b"finished", Some(window)),
            (b"finished, copy", Some(window)),
            (b"locked", None),
            (b"locked, copy", None),
            (
                b"retried",
                Some(Verdict::Retry {
                    backoff: Backoff::None,
                    reason: Some(b"why"),
                }),
            ),
        ] {
            let mut request = Enqueue::new(b"payload").id(id);
            request.attempts = 2;
            pair.enqueue(&request);
            let token = pair.dequeue(1).pop().map(|(_, token)| token);
            if let (Some(token), Some(verdict)) = (token, verdict) {
                pair.done(id, token, verdict);
            }
            if id.ends_with(b"copy") {
                let mut copy = Enqueue::new(b"newer").id(id);
                copy.requeue = true;
                copy.start = Start::After(Span::from_millis(300));
                pair.enqueue(&copy);
            }
        }
        pair.enqueue(&Enqueue::new(b"made"));
        pair.enqueue(&Enqueue::new(b"ready").id(b"ready"));
        let mut delayed = Enqueue::new(b"delayed").id(b"delayed");
        delayed.start = Start::After(Span::from_millis(700));
        pair.enqueue(&delayed);
        let mut expired = Enqueue::new(b"expired").id(b"expired");
        expired.lock = Some(Span::from_millis(1));
        expired.priority = Priority::new(0).expect("0 to 9");
        pair.enqueue(&expired);
        pair.dequeue(1);
        let follow_up = FollowUp {
            id: Some(b"follows"),
            payload: b"",
            headers: b"",
        };
        pair.enqueue_many(&[b"joined", b"ready"], Some(&follow_up), None);
        pair.schedules();
        pair.now_us += 2000;
        pair.let_time_act();
        pair
    }

    /// Both queues are sound and the same.
    pub fn compare(&self) {
        self.queue.check().expect("the queue is sound");
        self.replica.check().expect("the replica is sound");
        assert_eq!(
            digest(&self.queue),
            digest(&self.replica),
            "queue and replica"
        );
    }

    /// Commands of all kinds, at times from the beginning to the end of all that can be written, also
    /// with the clock set back. Whatever the queue was made from, it must bear that.
    pub fn live_on(&mut self) {
        let times = [
            self.now_us,
            self.now_us + SECOND_US / 2,
            0,
            self.now_us + 3600 * SECOND_US,
            u64::MAX,
            self.now_us + 1,
        ];
        for now_us in times {
            self.now_us = now_us;
            self.round();
        }
    }

    fn round(&mut self) {
        self.look();
        let mut taken = self.dequeue(4);
        taken.extend(IDS.iter().map(|id| (id.to_vec(), Token::new(self.random))));
        let verdicts = [
            Verdict::SUCCESS,
            Verdict::Retry {
                backoff: Backoff::Exponential,
                reason: None,
            },
            Verdict::Release,
            Verdict::Error { reason: None },
        ];
        for ((id, token), verdict) in taken.iter().zip(verdicts.iter().cycle()) {
            let mut copy = Enqueue::new(b"copy").id(id);
            (copy.requeue, copy.update) = (true, token.value() % 2 == 0);
            copy.start = Start::After(Span::from_millis(20));
            if token.value() % 3 == 0 {
                copy.headers = b"name: value";
                copy.ttl = Some(Ttl {
                    span: Span::from_millis(700),
                    bury: token.value() % 2 == 1,
                });
            }
            self.enqueue(&copy);
            self.extend(id, *token, Span::from_millis(10));
            self.done(id, *token, *verdict);
            self.look_at(id);
        }
        for id in IDS {
            let mut request = Enqueue::new(b"again").id(id);
            request.attempts = 1;
            self.enqueue(&request);
        }
        self.enqueue(&Enqueue::new(b""));
        let follow_up = FollowUp {
            id: Some(IDS[4]),
            payload: b"then",
            headers: b"h",
        };
        self.enqueue_many(&[IDS[2], b"member"], Some(&follow_up), None);
        self.enqueue_many(&[IDS[0], b"joins"], None, Some(IDS[4]));
        self.turn(
            |queue, turn| {
                queue.redrive(turn, IDS[0]);
                queue.redrive_oldest(turn, 2);
                let purged = queue.purge(turn, Some(Status::Locked), 1);
                assert!(purged <= 1);
                queue.purge(turn, None, 1);
            },
            None,
        );
        self.cancel(IDS[1]);
        self.let_time_act();
        self.schedules();
        self.compare();
    }

    /// Schedules that are said again, one under the id of a message, and one that comes and goes.
    fn schedules(&mut self) {
        let every = Times::Every(LEAST_EVERY);
        for (name, overlap) in [
            (IDS[3], Overlap::Skip),
            (b"after", Overlap::After),
            (b"allow", Overlap::Allow),
        ] {
            let mut schedule = Schedule::new(name, every, b"run");
            (schedule.overlap, schedule.most) = (overlap, Some(self.random as u32 | 1));
            schedule.message.headers = b"h";
            self.turn(
                |queue, turn| {
                    let _ = queue.schedule(turn, &schedule, 4);
                    queue.fire(turn, name, |_| ());
                },
                None,
            );
        }
        let gone = [&b"allow"[..], IDS[3]][self.random as usize % 2];
        self.turn(
            |queue, turn| {
                queue.unschedule(turn, gone);
            },
            None,
        );
        let mut seen = 0;
        let end = self.queue.schedule_views(0, u32::MAX, |_| seen += 1);
        assert_eq!((end, seen), (0, self.queue.schedules_len()));
    }

    /// What the server's clock shows.
    fn server(&self) -> Now {
        Now::from_micros(self.now_us)
    }

    /// The queue's own time.
    fn now(&self) -> Now {
        self.queue.own_time(self.server())
    }

    /// Everything that only looks. Counts are exact.
    fn look(&self) {
        for queue in [&self.queue, &self.replica] {
            let info = queue.info(self.now());
            let counts = queue.counts();
            assert!(info.counts.iter().sum::<u64>() <= 2 * counts.iter().sum::<usize>() as u64);
            assert!(queue.next_due().is_none() || !queue.is_empty());
            self.page(queue);
        }
        for id in IDS {
            self.look_at(id);
        }
    }

    /// Every page of every status, and every place, are the same messages.
    fn page(&self, queue: &Queue) {
        let mut paged = 0;
        for status in Status::ALL {
            let peek = Peek {
                status: Some(status),
                count: usize::MAX,
                after: None,
                reverse: false,
            };
            let page = queue.peek(self.now(), &peek).expect("a small schedule");
            assert!(page.iter().all(|message| message.status == status));
            paged += page.len();
            if let Some(last) = page.last().filter(|_| status != Status::Queued) {
                let after = Peek {
                    after: Some(last.id.bytes()),
                    ..peek
                };
                let behind = queue.peek(self.now(), &after).expect("it is there");
                assert!(behind.is_empty());
            }
        }
        let mut scanned = 0;
        let end = queue.scan(self.now(), 0, usize::MAX, |_| scanned += 1);
        assert_eq!((end, scanned), (Ok(0), paged));
    }

    fn look_at(&self, id: &[u8]) {
        let status = self.queue.status(self.now(), id);
        assert_eq!(status, self.replica.status(self.now(), id));
        let view = self.queue.get(self.now(), id);
        assert_eq!(status, view.map(|view| view.status));
        if let Some(view) = view {
            assert_eq!(view.id.bytes(), id);
        }
    }

    fn enqueue(&mut self, request: &Enqueue<'_>) {
        self.turn(
            |queue, turn| {
                queue.enqueue(turn, request);
            },
            Some(&|replica| replica.replay_enqueue(request)),
        );
    }

    fn enqueue_many(
        &mut self,
        ids: &[&[u8]],
        follow_up: Option<&FollowUp<'_>>,
        join: Option<&[u8]>,
    ) {
        let mut request = Enqueue::new(b"");
        (request.attempts, request.join) = (1, join);
        self.turn(
            |queue, turn| {
                let messages = ids.iter().map(|id| (Some(*id), &b"member"[..]));
                let _ = queue.enqueue_many(turn, &request, messages, follow_up, |_| {});
            },
            None,
        );
    }

    fn dequeue(&mut self, count: usize) -> Vec<(Vec<u8>, Token)> {
        let mut taken: Vec<(Vec<u8>, Token)> = Vec::new();
        self.turn(
            |queue, turn| {
                queue.dequeue(turn, count, None, |delivery: &Delivery<'_>| {
                    taken.push((delivery.id.bytes().to_vec(), delivery.token));
                });
            },
            Some(&|replica| replica.replay_dequeue(count, None)),
        );
        taken
    }

    fn done(&mut self, id: &[u8], token: Token, verdict: Verdict<'_>) {
        self.turn(
            |queue, turn| {
                let _ = queue.done(turn, id, token, verdict);
            },
            Some(&|replica| replica.replay_done(id, token)),
        );
    }

    fn extend(&mut self, id: &[u8], token: Token, span: Span) {
        self.turn(
            |queue, turn| {
                let _ = queue.extend(turn, id, token, span);
            },
            None,
        );
    }

    fn cancel(&mut self, id: &[u8]) {
        self.turn(
            |queue, turn| {
                queue.cancel(turn, id);
            },
            None,
        );
    }

    fn let_time_act(&mut self) {
        self.turn(|queue, turn| queue.let_time_act(turn), None);
    }

    /// One turn at the queue, and what it says to replicate at the replica.
    fn turn(&mut self, step: impl FnOnce(&mut Queue, &mut Turn<'_>), replay: Option<Replay<'_>>) {
        self.random = self
            .random
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(1);
        let (server, now) = (self.server(), self.now());
        let mut turn = Turn::new(now, self.random, &self.settings, &mut self.log);
        if self.keep_effects.is_some() {
            turn.spell_out();
        }
        self.queue.settle_time(&mut turn, server);
        step(&mut self.queue, &mut turn);
        match self.log.replication() {
            Replication::Nothing => {}
            Replication::Effects(bytes) => {
                self.replica.apply(bytes).expect("effects fit the replica");
                if let Some(kept) = &mut self.keep_effects {
                    kept.push(bytes.to_vec());
                }
            }
            Replication::Verbatim => {
                let replay = replay.expect("a command that a replica can run");
                replay(&mut self.replica).expect("the command fits the replica");
            }
        }
    }
}

/// The chunks of a queue's snapshot.
pub fn snapshot(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.snapshot(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

fn digest(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.digest(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

fn reload(queue: &Queue, seed: u64) -> Queue {
    let mut loader = Loader::new(seed);
    for chunk in snapshot(queue) {
        loader.feed(&chunk).expect("a snapshot can be loaded");
    }
    let loaded = loader.finish().expect("a snapshot is complete");
    loaded.check().expect("a loaded queue is sound");
    loaded
}
