//! What can happen to a queue, and how often a test lets it.

use std::ops::Range;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use redis_mq_core::{Backoff, Overlap, Priority, Settings, Span, Timestamp, Ttl};

use crate::model::{self, Item, Ms};

#[derive(Clone, Debug)]
pub enum Step {
    Enqueue(Enqueue),
    /// The same with each of these ids.
    EnqueueMany(Enqueue, Vec<Option<Id>>, Batch),
    Dequeue {
        count: usize,
        lock: Option<Ms>,
        from_server: bool,
    },
    Done {
        target: Target,
        verdict: Verdict,
    },
    DoneMany(Vec<Target>, Verdict),
    Extend {
        target: Target,
        span: Ms,
    },
    Cancel(Vec<Id>),
    Redrive(Vec<Id>),
    RedriveOldest(usize),
    /// Of one of [`Status::ALL`], or of all but the locked ones.
    Purge(Option<usize>, usize),
    /// Listed waits, or none for the exponential ones.
    Poll(Vec<Ms>),
    LetTimeAct,
    Clock(Clock),
    /// The server's clock is set by so much; the queue's time goes on.
    SetClock(i64),
    Schedule(Schedule),
    Unschedule(usize),
    Fire(usize),
    Settings {
        max_dead: u32,
        lock: Ms,
    },
    /// How old letters become, or that it is not limited.
    DeadAge(Option<Ms>),
    Reload,
    FailOver,
}

/// What follows several messages.
#[derive(Clone, Debug)]
pub enum Batch {
    None,
    /// A message, perhaps of that id.
    Then(Option<Id>),
    /// What a message of that id waits for.
    Join(Id),
}

#[derive(Clone, Debug)]
pub enum Id {
    Pool(usize),
    /// One that the queue made, so many before the last.
    Made(usize),
    /// Another UUID with the number of that one.
    Twin(usize),
}

#[derive(Clone, Debug)]
pub struct Enqueue {
    pub id: Option<Id>,
    pub payload: Vec<u8>,
    pub start: Start,
    pub lock: Option<Ms>,
    pub attempts: u32,
    pub priority: u8,
    pub requeue: bool,
    pub update: bool,
    pub headers: Vec<u8>,
    /// And whether it is a dead letter then.
    pub ttl: Option<(Ms, bool)>,
    pub retain: Option<Ms>,
}

/// What is to be enqueued again and again.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub name: usize,
    pub times: model::Times,
    pub from: Option<Ms>,
    pub until: Option<Ms>,
    pub most: Option<u32>,
    pub overlap: Overlap,
    pub message: Enqueue,
}

/// Instants are given relative to a fixed moment, so that several messages are due at once.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    NotGiven,
    After(Ms),
    At(Ms),
}

/// A delivery: how many there were since, and what is wrong with the token.
#[derive(Clone, Debug)]
pub struct Target {
    pub back: usize,
    pub which: Which,
}

#[derive(Clone, Debug)]
pub enum Which {
    Right,
    WrongToken(u64),
    TokenOfAnother,
    WrongId,
}

#[derive(Clone, Debug)]
pub enum Verdict {
    Success(Pause, Keep),
    Retry(Pause, Option<Vec<u8>>),
    Error(Option<Vec<u8>>),
    Release,
}

/// What is kept of a success, and how long.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    pub result: Option<Vec<u8>>,
    pub retain: Option<Ms>,
}

#[derive(Clone, Copy, Debug)]
pub enum Pause {
    None,
    For(Ms),
    Exponential,
}

#[derive(Clone, Debug)]
pub enum Clock {
    /// Within the millisecond, mostly.
    Micros(u64),
    Millis(u64),
    /// To the next deadline, or one millisecond before or after it.
    Deadline(i64),
    Back(u64),
}

/// The moment that AT is relative to: a little after the first.
const MOMENT: Ms = 1_700_000_000_050;

impl Enqueue {
    /// A message without options.
    fn plain() -> Self {
        Self {
            id: None,
            payload: b"run".to_vec(),
            start: Start::NotGiven,
            lock: None,
            attempts: 0,
            priority: 5,
            requeue: false,
            update: false,
            headers: Vec::new(),
            ttl: None,
            retain: None,
        }
    }

    pub fn request<'a>(&'a self, id: Option<&'a [u8]>) -> redis_mq_core::Enqueue<'a> {
        let mut request = redis_mq_core::Enqueue::new(&self.payload);
        request.id = id;
        request.start = match self.start {
            Start::NotGiven => redis_mq_core::Start::Default,
            Start::After(ms) => redis_mq_core::Start::After(Span::from_millis(ms)),
            Start::At(ms) => redis_mq_core::Start::At(Timestamp::from_millis(MOMENT + ms)),
        };
        request.lock = self.lock.map(Span::from_millis);
        request.attempts = self.attempts;
        request.priority = Priority::new(self.priority).expect("0 to 9");
        (request.requeue, request.update) = (self.requeue, self.update);
        request.headers = &self.headers;
        request.ttl = self.ttl.map(|(ms, bury)| Ttl {
            span: Span::from_millis(ms),
            bury,
        });
        request.retain = self.retain.map(Span::from_millis);
        request
    }

    pub fn model_request(&self, now: Ms) -> model::Request {
        let item = Item {
            payload: self.payload.clone(),
            max_attempts: self.attempts,
            lock: self.lock.unwrap_or(0),
            priority: self.priority,
            enqueued: now,
            headers: self.headers.clone(),
            expires: self.ttl.map(|(ms, bury)| (now + ms, bury)),
            retain: self.retain,
            scheduled: 0,
        };
        let start = match self.start {
            Start::NotGiven => model::Start::NotGiven,
            Start::After(ms) => model::Start::After(ms),
            Start::At(ms) => model::Start::At(MOMENT + ms),
        };
        model::Request {
            item,
            start,
            requeue: self.requeue,
            update: self.update,
        }
    }
}

impl Enqueue {
    /// What a follow-up of such messages is.
    pub fn model_follow_up(&self, now: Ms) -> Item {
        let request = self.model_request(now);
        Item {
            payload: b"then".to_vec(),
            expires: None,
            retain: None,
            ..request.item
        }
    }
}

impl Verdict {
    pub fn for_queue(&self) -> redis_mq_core::Verdict<'_> {
        match self {
            Self::Success(pause, keep) => redis_mq_core::Verdict::Success {
                backoff: pause.backoff(),
                keep: redis_mq_core::Keep {
                    result: keep.result.as_deref(),
                    retain: keep.retain.map(Span::from_millis),
                },
            },
            Self::Retry(pause, reason) => redis_mq_core::Verdict::Retry {
                backoff: pause.backoff(),
                reason: reason.as_deref(),
            },
            Self::Error(reason) => redis_mq_core::Verdict::Error {
                reason: reason.as_deref(),
            },
            Self::Release => redis_mq_core::Verdict::Release,
        }
    }

    pub fn for_model(&self, attempt: u32, random: u64, settings: &Settings) -> model::Verdict {
        let ms = |pause: &Pause| match pause {
            Pause::None => 0,
            Pause::For(ms) => *ms,
            Pause::Exponential => exp_backoff(attempt as i32, random, settings),
        };
        match self {
            Self::Success(pause, keep) => model::Verdict::Success {
                pause: ms(pause),
                result: keep.result.clone(),
                retain: keep.retain,
                default_retain: settings.retain.millis(),
            },
            Self::Retry(pause, reason) => model::Verdict::Retry {
                pause: ms(pause),
                reason: reason.clone(),
            },
            Self::Error(reason) => model::Verdict::Error {
                reason: reason.clone(),
            },
            Self::Release => model::Verdict::Release,
        }
    }
}

impl Pause {
    fn backoff(self) -> Backoff {
        match self {
            Self::None => Backoff::None,
            Self::For(ms) => Backoff::For(Span::from_millis(ms)),
            Self::Exponential => Backoff::Exponential,
        }
    }
}

/// The contract's formula.
pub fn exp_backoff(n: i32, random: u64, settings: &Settings) -> Ms {
    let random = (random >> 11) as f64 / 2f64.powi(53);
    let step = 2f64.powi(n - 1);
    let ms = (step + random * step) * 0.5 * settings.backoff_factor.millis() as f64;
    (ms as Ms).min(settings.backoff_max.millis())
}

impl Clock {
    /// `deadline` is the next one, in milliseconds.
    pub fn after(&self, now_us: u64, deadline: Option<Ms>) -> u64 {
        match self {
            Self::Micros(us) => now_us + us,
            Self::Millis(ms) => now_us + ms * 1000,
            Self::Deadline(off) => match deadline {
                Some(at) => at.saturating_add_signed(*off) * 1000 + now_us % 1000,
                None => now_us,
            },
            Self::Back(ms) => now_us - ms * 1000,
        }
    }
}

fn chosen_id() -> impl Strategy<Value = Id> {
    prop_oneof![8 => (0..8usize).prop_map(Id::Pool), 1 => (0..3usize).prop_map(Id::Made)]
}

/// A few short times, so that things coincide, and a few long ones.
fn ms() -> impl Strategy<Value = Ms> {
    prop_oneof![
        2 => Just(0), 6 => 1..5u64, 6 => 5..100u64, 2 => 100..10_000u64,
        1 => 10_000..100_000_000u64, 1 => Just(315_360_000_000),
    ]
}

fn enqueue(id: impl Strategy<Value = Option<Id>>) -> impl Strategy<Value = Enqueue> {
    let start = prop_oneof![
        6 => Just(Start::NotGiven), 3 => ms().prop_map(Start::After),
        2 => (0..60u64).prop_map(Start::At), 1 => ms().prop_map(Start::At),
    ];
    let options = (
        0..3u32,
        prop_oneof![4 => Just(5u8), 1 => 0..10u8],
        any::<[bool; 2]>(),
        prop_oneof![4 => Just(Vec::new()), 1 => vec(any::<u8>(), 1..300)],
        option::weighted(0.3, (ms().prop_map(|ms| ms.max(1)), any::<bool>())),
        option::weighted(0.2, ms()),
    );
    let lock = option::weighted(0.2, ms().prop_map(|ms| ms.max(1)));
    (id, vec(any::<u8>(), 0..4), start, lock, options).prop_map(
        |(
            id,
            payload,
            start,
            lock,
            (attempts, priority, [requeue, update], headers, ttl, retain),
        )| {
            Enqueue {
                id,
                payload,
                start,
                lock,
                attempts,
                priority,
                requeue,
                update,
                headers,
                ttl,
                retain,
            }
        },
    )
}

fn batch(id: impl Strategy<Value = Id> + 'static) -> impl Strategy<Value = Batch> {
    let id = id.boxed();
    prop_oneof![
        2 => Just(Batch::None),
        4 => option::weighted(0.8, id.clone()).prop_map(Batch::Then),
        2 => id.prop_map(Batch::Join),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let offset = prop_oneof![Just(0), 1..9u64];
    let times = prop_oneof![
        2 => prop_oneof![Just(1000), 1000..5000u64].prop_map(model::Times::Every),
        4 => (prop_oneof![1..60u64, 1000..5000u64], offset)
            .prop_map(|(every, offset)| model::Times::Matches(every, offset)),
        1 => Just(model::Times::Matches(0, 0)),
    ];
    // Some again and again.
    let times = prop_oneof![1 => Just(model::Times::Every(1000)), 1 => times];
    let instant = || option::weighted(0.2, (0..5000u64).prop_map(|ms| MOMENT - 1000 + ms));
    let most = option::weighted(0.2, 1..4u32);
    let overlap = prop_oneof![
        Just(Overlap::Skip),
        Just(Overlap::After),
        Just(Overlap::Allow)
    ];
    let message = enqueue(Just(None)).prop_map(|message| Enqueue {
        // They would expire at one instant, in no order that is promised.
        ttl: None,
        ..message
    });
    let message = prop_oneof![1 => message, 1 => Just(Enqueue::plain())];
    (
        0..3usize,
        times,
        instant(),
        instant(),
        most,
        overlap,
        message,
    )
        .prop_map(
            |(name, times, from, until, most, overlap, message)| Schedule {
                name,
                times,
                from,
                until,
                most,
                overlap,
                message,
            },
        )
}

fn target(old: Range<usize>) -> impl Strategy<Value = Target> {
    let back = prop_oneof![6 => 0..2usize, 3 => 0..6usize, 1 => old];
    let which = prop_oneof![
        12 => Just(Which::Right), 1 => (1..3u64).prop_map(Which::WrongToken),
        1 => Just(Which::TokenOfAnother), 1 => Just(Which::WrongId),
    ];
    (back, which).prop_map(|(back, which)| Target { back, which })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let pause = || {
        prop_oneof![
            4 => Just(Pause::None), 4 => ms().prop_map(Pause::For), 1 => Just(Pause::Exponential)
        ]
    };
    prop_oneof![
        6 => (pause(), keep()).prop_map(|(pause, keep)| Verdict::Success(pause, keep)),
        5 => (pause(), option::weighted(0.3, vec(any::<u8>(), 1..4)))
            .prop_map(|(pause, reason)| Verdict::Retry(pause, reason)),
        2 => option::of(vec(any::<u8>(), 0..4)).prop_map(Verdict::Error),
        2 => Just(Verdict::Release),
    ]
}

fn keep() -> impl Strategy<Value = Keep> {
    let result = option::weighted(0.4, vec(any::<u8>(), 0..4));
    let retain = option::weighted(0.3, ms());
    (result, retain).prop_map(|(result, retain)| Keep { result, retain })
}

fn clock() -> impl Strategy<Value = Clock> {
    prop_oneof![
        3 => (0..400u64).prop_map(Clock::Micros),
        3 => ms().prop_map(|ms| Clock::Millis(ms.min(100_000_000))),
        6 => (-1..2i64).prop_map(Clock::Deadline),
        1 => (1..200u64).prop_map(Clock::Back),
    ]
}

pub fn settings() -> impl Strategy<Value = Settings> {
    (0..4u32, 1..50u64).prop_map(|(max_dead, lock)| Settings {
        max_dead,
        lock: Span::from_millis(lock),
        backoff_factor: Span::from_millis(20),
        backoff_max: Span::from_millis(100),
        retain: Span::from_millis(30),
    })
}

fn step() -> impl Strategy<Value = Step> {
    step_on(chosen_id, 0..30)
}

/// Steps on ids as `id` chooses them, and on as many of the newest deliveries as `old` says.
fn step_on<I: Strategy<Value = Id> + 'static>(
    id: impl Fn() -> I,
    old: Range<usize>,
) -> impl Strategy<Value = Step> {
    let lock = option::weighted(0.3, ms().prop_map(|ms| ms.max(1)));
    let count = prop_oneof![3 => Just(1usize), 1 => 1..5usize];
    prop_oneof![
        10 => enqueue(option::weighted(0.8, id())).prop_map(Step::Enqueue),
        4 => (enqueue(Just(None)), vec(option::weighted(0.8, id()), 1..5), batch(id()))
            .prop_map(|(enqueue, ids, batch)| Step::EnqueueMany(enqueue, ids, batch)),
        8 => (count, lock, prop::bool::weighted(0.1)).prop_map(|(count, lock, from_server)| {
            Step::Dequeue { count, lock, from_server }
        }),
        8 => (target(old.clone()), verdict())
            .prop_map(|(target, verdict)| Step::Done { target, verdict }),
        3 => (vec(target(old.clone()), 1..5), verdict())
            .prop_map(|(targets, verdict)| Step::DoneMany(targets, verdict)),
        2 => (target(old), ms()).prop_map(|(target, span)| Step::Extend { target, span }),
        1 => vec(id(), 1..3).prop_map(Step::Cancel),
        2 => vec(id(), 1..3).prop_map(Step::Redrive),
        1 => (1..4usize).prop_map(Step::RedriveOldest),
        1 => (option::weighted(0.8, 0..9usize), 1..4usize)
            .prop_map(|(status, count)| Step::Purge(status, count)),
        2 => vec(ms(), 0..3).prop_map(Step::Poll),
        1 => Just(Step::LetTimeAct),
        10 => clock().prop_map(Step::Clock),
        1 => (0..4u32, 1..50u64).prop_map(|(max_dead, lock)| Step::Settings { max_dead, lock }),
        1 => option::weighted(0.7, 1..60u64).prop_map(Step::DeadAge),
        3 => schedule().prop_map(Step::Schedule),
        1 => (0..3usize).prop_map(Step::Unschedule),
        1 => (0..3usize).prop_map(Step::Fire),
        1 => prop_oneof![-100..100i64, -20_000..20_000i64].prop_map(Step::SetClock),
        1 => Just(Step::Reload),
        1 => Just(Step::FailOver),
    ]
}

pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..most)
}

/// A queue of enough messages for pages of numbered ids, most with ids that it made, and then steps on those.
pub fn steps_on_many(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let id = || {
        prop_oneof![
            1 => (0..8usize).prop_map(Id::Pool),
            6 => (0..90usize).prop_map(Id::Made),
            2 => (0..90usize).prop_map(Id::Twin),
        ]
    };
    let some_id = option::weighted(0.2, id());
    let fill = vec(enqueue(some_id).prop_map(Step::Enqueue), 66..85);
    let take = (0..90usize).prop_map(|count| Step::Dequeue {
        count,
        lock: None,
        from_server: false,
    });
    (fill, take, vec(step_on(id, 0..90), 1..most)).prop_map(|(mut steps, take, mut more)| {
        steps.push(take);
        steps.append(&mut more);
        steps
    })
}
