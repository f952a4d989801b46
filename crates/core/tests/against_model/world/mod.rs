//! A queue, its replica and the model side by side. Every step goes to all three, and whatever
//! can be asked of them must be answered alike.

mod ask;
mod bulk;
mod pages;
mod repair;
mod replica;
mod scan;
mod schedules;
pub mod step;

use redis_mq_core::{
    EoqWaits, LimitChanges, Loader, Log, Now, Queue, Replication, Scope, Settings, Span, Status,
    Timestamp, Token, Turn, MAX_SPAN_MS,
};

use crate::model::{Model, Ms, Seen};
use replica::{Command, Replica};
use scan::Scan;
use schedules::Numbers;
use step::{Id, Step, Target, Which};

/// The ids that producers choose from.
const POOL: [&[u8]; 8] = [
    b"a",
    b"b",
    b"c",
    b"order:42\0\r\n\xFF",
    b"0190163d-8694-739b-aea5-966c26f8ad91",
    b"0190163D-8694-739B-AEA5-966C26F8AD91",
    b"\x01\x90\x16\x3d\x86\x94\x73\x9b\xae\xa5\x96\x6c\x26\xf8\xad\x91",
    &[b'x'; 512],
];

pub struct World {
    pub model: Model,
    pub queue: Queue,
    replica: Replica,
    log: Log,
    pub now_us: u64,
    settings: Settings,
    /// The wait that pollers share: from, until.
    wait: (Ms, Ms),
    dry_runs: u32,
    random: u64,
    seed: u64,
    /// Ids the queue made, oldest first.
    made: Vec<Vec<u8>>,
    /// Every delivery: id and token.
    deliveries: Vec<(Vec<u8>, u64)>,
    /// A walk through the queue that goes on with each step.
    scan: Scan,
}

impl World {
    pub fn new(settings: Settings) -> Self {
        Self {
            model: Model::default(),
            queue: Queue::new(1),
            replica: Replica::new(2),
            log: Log::default(),
            now_us: 1_700_000_000_000_000,
            settings,
            wait: (0, 0),
            dry_runs: 0,
            random: 0,
            seed: 2,
            made: Vec::new(),
            deliveries: Vec::new(),
            scan: Scan::default(),
        }
    }

    pub fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
            self.compare();
            self.go_on_scanning();
        }
        self.reload();
    }

    pub fn now(&self) -> Ms {
        self.now_us / 1000
    }

    pub fn clock(&self) -> Now {
        Now::from_micros(self.now_us)
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random ^ self.random >> 29
    }

    /// A seed that no queue has had.
    fn next_seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    /// Runs a command on the queue, and what it says to replicate on the replica. Where the model
    /// did not change, nothing may be replicated.
    fn turn<T>(
        &mut self,
        command: Command,
        on_queue: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T,
        on_model: impl FnOnce(&mut Model, T),
    ) {
        let random = self.next_random();
        let clock = self.server_clock();
        let mut turn = Turn::new(self.clock(), random, &self.settings, &mut self.log);
        turn.set_clock(clock, &Numbers);
        if command.is_from_server() {
            turn.spell_out();
        }
        self.queue.watch_ends();
        let reply = on_queue(&mut self.queue, &mut turn);
        let ends = self.queue.take_ends();
        let before = self.model.clone();
        on_model(&mut self.model, reply);
        self.compare_ends(&before, &ends);
        let replication = self.log.replication();
        assert_eq!(
            self.model != before,
            replication != Replication::Nothing,
            "{command:?}"
        );
        self.replica.receive(&command, replication);
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Enqueue(enqueue) => self.enqueue(enqueue),
            Step::EnqueueMany(enqueue, ids, batch) => self.enqueue_many(enqueue, ids, batch),
            Step::Dequeue {
                count,
                lock,
                from_server,
            } => {
                self.dequeue(*count, *lock, *from_server);
            }
            Step::Done { target, verdict } => self.done(target, verdict),
            Step::DoneMany(targets, verdict) => self.done_many(targets, verdict),
            Step::Extend { target, span } => self.extend(target, *span),
            Step::Cancel(ids) => self.cancel(ids),
            Step::Redrive(ids) => self.redrive(ids),
            Step::RedriveOldest(count) => self.redrive_oldest(*count),
            Step::Purge(status, count) => self.purge(status.map(|at| Status::ALL[at]), *count),
            Step::Poll(waits) => self.poll(waits),
            Step::LetTimeAct => self.let_time_act(),
            Step::Clock(step) => self.pass_time(step),
            Step::SetClock(by) => self.set_clock(*by),
            Step::Schedule(schedule) => self.schedule(schedule),
            Step::Unschedule(name) => self.unschedule(*name),
            Step::Fire(name) => self.fire(*name),
            Step::Settings { max_dead, lock } => {
                self.settings.max_dead = *max_dead;
                self.settings.lock = Span::from_millis(*lock);
            }
            Step::DeadAge(age) => self.set_dead_age(*age),
            Step::Reload => self.reload(),
            Step::FailOver => self.fail_over(),
        }
    }

    fn id(&self, id: &Id) -> Option<Vec<u8>> {
        match id {
            Id::Made(back) => self.made.iter().rev().nth(*back).cloned(),
            Id::Twin(back) => self.made.iter().rev().nth(*back).map(|made| twin(made)),
            Id::Pool(at) => Some(POOL[*at].to_vec()),
        }
    }

    /// The same with a time to live that ends when no other does: messages that expire at the same
    /// instant do so in no order that is promised.
    fn with_its_own_expiry(&self, enqueue: &step::Enqueue) -> step::Enqueue {
        let live = self.model.live.iter();
        let items =
            live.flat_map(|live| [Some(&live.item), live.copy.as_ref().map(|copy| &copy.item)]);
        let taken: Vec<Ms> = items
            .flatten()
            .filter_map(|item| Some(item.expires?.0))
            .collect();
        let mut enqueue = enqueue.clone();
        if let Some((ms, _)) = &mut enqueue.ttl {
            *ms = (*ms).min(MAX_SPAN_MS / 2);
            while taken.contains(&(self.now_us / 1000 + *ms)) {
                *ms += 1;
            }
        }
        enqueue
    }

    fn enqueue(&mut self, enqueue: &step::Enqueue) {
        let enqueue = &self.with_its_own_expiry(enqueue);
        let now = self.now();
        let max_dead = self.settings.max_dead as usize;
        let id = enqueue.id.as_ref().and_then(|id| self.id(id));
        let command = Command::Enqueue {
            id: id.clone(),
            enqueue: enqueue.clone(),
        };
        let mut made = None;
        self.turn(
            command,
            |queue, turn| {
                let request = enqueue.request(id.as_deref());
                let reply = queue.enqueue(turn, &request);
                (reply.outcome, reply.id.bytes().to_vec())
            },
            |model, (outcome, reply_id)| {
                model.act(now, max_dead);
                match &id {
                    Some(id) => assert_eq!(&reply_id, id),
                    None => made = Some(reply_id.clone()),
                }
                assert_eq!(
                    outcome,
                    model.enqueue(now, &reply_id, enqueue.model_request(now), None)
                );
            },
        );
        if let Some(made) = made {
            self.was_made(made);
        }
    }

    /// Checks an id that the queue made.
    fn was_made(&mut self, made: Vec<u8>) {
        let now = self.now();
        let uuid = uuid::Uuid::try_parse_ascii(&made).expect("made ids are UUIDs");
        assert_eq!(uuid.get_version_num(), 7);
        let mut text = [0; 36];
        assert_eq!(uuid.hyphenated().encode_lower(&mut text).as_bytes(), made);
        let ms = uuid.as_u128() >> 80;
        assert_eq!(ms, u128::from(now), "made ids carry their time");
        if let Some(last) = self.made.last().filter(|last| last[..13] == made[..13]) {
            assert!(
                last < &made,
                "ids of one millisecond sort in the order they were made"
            );
        }
        assert!(!self.made.contains(&made), "an id was made twice");
        self.made.push(made);
    }

    fn dequeue(&mut self, count: usize, lock: Option<Ms>, from_server: bool) -> usize {
        let (now, now_us) = (self.now(), self.now_us);
        let max_dead = self.settings.max_dead as usize;
        let span = lock.map(Span::from_millis);
        let asked = lock.unwrap_or(self.settings.lock.millis());
        let mut delivered = Vec::new();
        self.turn(
            Command::Dequeue {
                count,
                lock: span,
                from_server,
            },
            |queue, turn| {
                let mut got = Vec::new();
                let handed_over = queue.dequeue(turn, count, span, |delivery| {
                    got.push((
                        delivery.id.bytes().to_vec(),
                        delivery.payload.to_vec(),
                        delivery.attempt,
                        delivery.lock.millis(),
                        delivery.enqueued_at.millis(),
                        delivery.token.value(),
                        (
                            delivery.headers.to_vec(),
                            delivery.scheduled_at.millis(),
                            delivery.batch.map(|batch| (batch.ended, batch.dead)),
                        ),
                    ));
                });
                assert_eq!(handed_over, got.len());
                got
            },
            |model, got| {
                model.act(now, max_dead);
                for (id, payload, attempt, got_lock, enqueued, token, more) in &got {
                    let last = model.last_token;
                    assert!(*token > last, "a token was given twice");
                    // One more than the last, or the moment in microseconds: that of the first
                    // command of this millisecond.
                    let moment = now * 1000..(now + 1) * 1000;
                    assert!(*token >= moment.start, "{token} at {now_us}");
                    assert!(
                        *token == last + 1 || moment.contains(token),
                        "{token} at {now_us}"
                    );
                    let (message, lock) = model
                        .deliver(now, asked, *token)
                        .expect("what is delivered was ready");
                    assert_eq!(
                        (id, payload, *attempt, *got_lock, *enqueued, &more.0, more.1),
                        (
                            &message.id,
                            &message.item.payload,
                            message.attempts,
                            lock,
                            message.item.enqueued,
                            &message.item.headers,
                            message.item.scheduled
                        )
                    );
                    let follows = message.follows.and_then(|of| model.batches.get(&of));
                    assert_eq!(more.2, follows.map(|batch| (batch.ended, batch.dead)));
                    delivered.push((message.id, *token));
                }
                assert!(
                    got.len() == count || model.next_ready().is_none(),
                    "one was held back"
                );
            },
        );
        let delivered_any = !delivered.is_empty();
        let count = delivered.len();
        self.deliveries.append(&mut delivered);
        if delivered_any {
            (self.wait, self.dry_runs) = ((0, 0), 0);
        }
        count
    }

    /// The delivery that a step means, or one that there never was.
    fn target(&self, target: &Target) -> (Vec<u8>, u64) {
        let count = self.deliveries.len();
        let (id, token) = match count {
            0 => (POOL[0].to_vec(), 1),
            _ => self.deliveries[count - 1 - target.back.min(count - 1)].clone(),
        };
        match target.which {
            Which::Right => (id, token),
            Which::WrongToken(added) => (id, token + added),
            Which::TokenOfAnother => (id, self.deliveries.first().map_or(0, |first| first.1)),
            Which::WrongId => (b"nobody has this id".to_vec(), token),
        }
    }

    fn done(&mut self, target: &Target, verdict: &step::Verdict) {
        let (now, random) = (self.now(), self.next_random_peek());
        let max_dead = self.settings.max_dead as usize;
        let (id, token) = self.target(target);
        let settings = self.settings;
        self.turn(
            Command::Done {
                id: id.clone(),
                token,
            },
            |queue, turn| queue.done(turn, &id, Token::new(token), verdict.for_queue()),
            |model, reply| {
                model.act(now, max_dead);
                let verdict = verdict.for_model(model.attempt(&id), random, &settings);
                let expected = model.done(now, &id, token, verdict);
                model.forget(max_dead);
                assert_eq!(
                    reply.map_err(|_| ()),
                    expected.map_err(|_| ()),
                    "{id:?} {token}"
                );
            },
        );
    }

    fn next_random_peek(&self) -> u64 {
        let next = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        next ^ next >> 29
    }

    fn extend(&mut self, target: &Target, span: Ms) {
        let now = self.now();
        let max_dead = self.settings.max_dead as usize;
        let (id, token) = self.target(target);
        self.turn(
            Command::Other,
            |queue, turn| queue.extend(turn, &id, Token::new(token), Span::from_millis(span)),
            |model, reply| {
                model.act(now, max_dead);
                let expected = model.extend(now, &id, token, span);
                let reply = reply.map(|until| until.map(Timestamp::millis));
                assert_eq!(reply.map_err(|_| ()), expected.map_err(|_| ()));
            },
        );
    }

    fn cancel(&mut self, ids: &[Id]) {
        let now = self.now();
        let ids: Vec<Vec<u8>> = ids.iter().filter_map(|id| self.id(id)).collect();
        self.turn(
            Command::Other,
            |queue, turn| {
                ids.iter()
                    .map(|id| queue.cancel(turn, id))
                    .collect::<Vec<bool>>()
            },
            |model, reply| {
                let expected: Vec<bool> = ids.iter().map(|id| model.cancel(now, id)).collect();
                assert_eq!(reply, expected);
            },
        );
    }

    /// A dequeue with EOQ.
    fn poll(&mut self, waits: &[Ms]) {
        if self.dequeue(1, None, false) > 0 {
            return;
        }
        let random = self.next_random();
        let spans: Vec<Span> = waits.iter().map(|ms| Span::from_millis(*ms)).collect();
        let eoq = if spans.is_empty() {
            EoqWaits::Exponential
        } else {
            EoqWaits::Listed(&spans)
        };
        let clock = self.server_clock();
        let mut turn = Turn::new(self.clock(), random, &self.settings, &mut self.log);
        turn.set_clock(clock, &Numbers);
        let reply = self.queue.eoq_wait(&mut turn, eoq).millis();
        assert_eq!(self.log.replication(), Replication::Nothing);

        let now = self.now();
        let run = self.model.next_run();
        let run = run.map(|at| at.saturating_sub(self.model.clock(now)));
        let ready = self.model.next_ready_at().map(|at| at - now);
        let longest = [ready, run].into_iter().flatten().min().unwrap_or(Ms::MAX);
        let left = self.wait_left();
        if left > 0 {
            assert_eq!(reply, left.min(longest));
            return;
        }
        let dry_runs = self.dry_runs as usize;
        let drawn = match waits.get(dry_runs).or(waits.last()) {
            Some(listed) => *listed,
            None => step::exp_backoff(dry_runs.min(4) as i32, random, &self.settings),
        };
        assert_eq!(reply, drawn.min(longest));
        self.wait = (now, now + reply);
        self.dry_runs += 1;
    }

    fn wait_left(&self) -> Ms {
        let (from, until) = self.wait;
        if self.now() < from {
            0
        } else {
            until.saturating_sub(self.now())
        }
    }

    pub fn let_time_act(&mut self) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        self.turn(
            Command::Other,
            |queue, turn| queue.let_time_act(turn),
            |model, ()| model.act(now, max_dead),
        );
        if self.model.live.len() < 50 {
            assert!(self.queue.next_due().is_none_or(|due| due.millis() > now));
        }
    }

    fn set_dead_age(&mut self, age: Option<Ms>) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        let changes = LimitChanges {
            dead_age: Some(age.map(Span::from_millis)),
            ..LimitChanges::default()
        };
        self.turn(
            Command::Other,
            |queue, turn| queue.set_limits(turn, Scope::Queue, &changes),
            |model, reply| {
                assert_eq!(reply, Ok(()));
                model.act(now, max_dead);
                model.dead_age = age;
            },
        );
    }

    /// A reload must give the same queue, byte for byte.
    fn reload(&mut self) {
        let seeds = [self.next_seed(), self.next_seed()];
        self.queue = reloaded(&self.queue, seeds[0]);
        self.replica.queue = reloaded(&self.replica.queue, seeds[1]);
        self.begin_scan_anew();
        // The shared wait is not kept.
        (self.wait, self.dry_runs) = ((0, 0), 0);
    }

    /// The replica becomes the primary, and the old primary its replica.
    fn fail_over(&mut self) {
        std::mem::swap(&mut self.queue, &mut self.replica.queue);
        (self.wait, self.dry_runs) = ((0, 0), 0);
        // Whoever was the primary forgets the wait too.
        let seed = self.next_seed();
        self.replica.queue = reloaded(&self.replica.queue, seed);
        self.begin_scan_anew();
    }

    /// Id and token of every delivery, oldest first.
    pub fn deliveries(&self) -> &[(Vec<u8>, u64)] {
        &self.deliveries
    }

    pub fn seen(&self) -> Seen {
        self.model.at(self.now())
    }
}

/// A UUID that differs in the time only.
fn twin(made: &[u8]) -> Vec<u8> {
    let mut twin = made.to_vec();
    twin[0] = b'f';
    twin
}

fn snapshot(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.snapshot(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

pub fn digest(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.digest(|chunk| chunks.push(chunk.to_vec()));
    chunks
}

pub fn reloaded(queue: &Queue, seed: u64) -> Queue {
    let chunks = snapshot(queue);
    let mut loader = Loader::new(seed);
    for chunk in &chunks {
        loader.feed(chunk).expect("a snapshot can be loaded");
    }
    assert_eq!(loader.missing(), Some(0));
    let loaded = loader.finish().expect("a snapshot is complete");
    loaded.check().expect("a loaded queue is sound");
    assert_eq!(snapshot(&loaded), chunks, "a snapshot is canonical");
    loaded
}
