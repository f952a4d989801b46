//! Consumers that wait for messages: `MQ.DEQUEUE … BLOCK` and `MQ.MDEQUEUE … BLOCK`.
//!
//! The server blocks them on the keys of their queues, and sends them away when they must go: when the
//! slot moves, or the server's role changes. But it asks each of them at every signal, so it gets none:
//! they stand in a line, and a step that leaves something ready notes the place. A timer, which fires
//! in the same turn of the event loop and never inside of a transaction or a script, serves the first in
//! the line: a message wakes one consumer, however many wait. What the server itself signals, for a queue
//! that comes to a place, notes the place too.

mod line;
mod serve;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use redis_mq_core::Span;

use crate::authority;
use crate::clock;
use crate::delivery::{reply, Owned};
use crate::error::Error;
use crate::redis::{wait_on_keys, Args, Blocked, Ctx, KeyName, Rights, Waiting};
use crate::turn;
use crate::waiting;
use crate::wake;
use line::{Line, PlaceName};
pub use serve::tick;

/// What a consumer asks of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// At most so many deliveries, as an array of them; `None` for a single one.
    pub count: Option<u32>,
    /// The lock time for messages without their own, or `None` for the configured one.
    pub lock: Option<Span>,
}

/// A consumer that waits. Nothing is locked for it before the moment it is served.
#[derive(Debug)]
struct Consumer {
    request: Request,
    /// Whether deliveries name their queue.
    named: bool,
    rights: Rights,
    /// Its turn in the line; 0 before it has one.
    turn: AtomicU64,
    answer: Mutex<Answer>,
}

/// What a consumer is told at the end of its wait.
#[derive(Debug)]
enum Answer {
    /// Nothing came.
    Nothing,
    /// Messages that are locked for it.
    Deliveries(Handed),
    /// It may not have what came.
    Refused(Error),
}

/// Messages that were handed over.
#[derive(Debug)]
struct Handed {
    place: PlaceName,
    deliveries: Vec<Owned>,
    /// Whether the reply was made.
    told: bool,
}

static LINE: LazyLock<Mutex<Line<Blocked<Consumer>>>> = LazyLock::new(|| Mutex::new(Line::new()));

/// How many wait.
static WAITING: AtomicU64 = AtomicU64::new(0);

/// Whether any place is noted.
static HAS_NOTED: AtomicBool = AtomicBool::new(false);

/// Each use is short; no wait is ended meanwhile, since that may lead here again.
fn with_line<R>(step: impl FnOnce(&mut Line<Blocked<Consumer>>) -> R) -> R {
    // A panic elsewhere leaves at worst a wait that ends by its deadline.
    let mut line: MutexGuard<'_, _> = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    let result = step(&mut line);
    WAITING.store(line.len() as u64, Ordering::Relaxed);
    HAS_NOTED.store(line.has_noted(), Ordering::Relaxed);
    result
}

/// How many consumers wait.
#[inline]
pub fn count() -> u64 {
    WAITING.load(Ordering::Relaxed)
}

/// Whether anyone waits there.
pub fn any(db: i32, name: &[u8]) -> bool {
    count() != 0 && with_line(|line| line.any(db, name))
}

/// Lets the client wait at these queues, there or not, for a message of any of them. Deliveries get the
/// name of their queue if `named`.
pub fn wait<'a>(
    ctx: &Ctx,
    args: Args<'_>,
    names: impl Iterator<Item = KeyName<'a>> + Clone,
    timeout_ms: u64,
    request: Request,
    named: bool,
) -> Result<(), Error> {
    let consumer = Consumer {
        request,
        named,
        rights: Rights::of(ctx, args),
        turn: AtomicU64::new(0),
        answer: Mutex::new(Answer::Nothing),
    };
    let blocked = wait_on_keys(ctx, names.clone(), consumer)?;
    let deadline = (timeout_ms != 0).then(|| clock::read(ctx).steady_ms() + timeout_ms);
    with_line(|line| {
        let (db, state) = (ctx.selected_db(), blocked.state().clone());
        let bytes = names.clone().map(|name| name.bytes());
        let turn = line.enter(db, bytes, deadline, blocked);
        state.turn.store(turn, Ordering::Relaxed);
    });
    if deadline.is_some() {
        waiting::watch_deadlines(ctx);
    }
    for name in names {
        wake::wait_begins(ctx, name);
    }
    Ok(())
}

/// There may be messages at a place: whoever waits there is served soon.
pub fn ready(ctx: &Ctx, name: KeyName<'_>) {
    if with_line(|line| line.note(ctx.selected_db(), name.bytes())) {
        serve::set_timer(ctx, 0);
    }
}

/// Whether others wait at the place who are about to be served: then whoever can wait gets in line behind
/// them, although something may be ready.
#[inline]
pub fn come_first(ctx: &Ctx, name: KeyName<'_>) -> Result<bool, Error> {
    if !HAS_NOTED.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let do_they = with_line(|line| line.is_noted(ctx.selected_db(), name.bytes()));
    if do_they {
        // What a dequeue would be refused does not wait either.
        if let Some(why) = authority::refusal(ctx) {
            return Err(why);
        }
        turn::peek(ctx, name, |_| ())?;
    }
    Ok(do_they)
}

/// When the first wait ends by itself.
pub fn deadline() -> Option<u64> {
    with_line(|line| line.deadline())
}

/// Ends the waits whose time is over.
pub fn end_due(ctx: &Ctx, now_ms: u64) {
    while let Some(client) = with_line(|line| line.take_due(now_ms)) {
        client.end(ctx);
    }
}

impl Consumer {
    fn answer(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting for Consumer {
    fn ready(&self, ctx: &Ctx, key: KeyName<'_>) {
        ready(ctx, key);
    }

    fn leave(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        drop(with_line(|line| line.leave(turn)));
    }

    fn reply(&self, ctx: &Ctx) {
        match &mut *self.answer() {
            Answer::Nothing => ctx.reply_null_array(),
            Answer::Refused(why) => ctx.reply_error(why),
            Answer::Deliveries(handed) => {
                handed.told = true;
                if self.request.count.is_some() {
                    ctx.reply_array(handed.deliveries.len());
                }
                for delivery in &handed.deliveries {
                    let queue = self.named.then_some(&*handed.place.1);
                    reply(ctx, queue, &delivery.show());
                }
            }
        }
    }

    fn ended(&self, lost: bool) {
        let answer = std::mem::replace(&mut *self.answer(), Answer::Nothing);
        if let Answer::Deliveries(handed) = answer {
            if lost || !handed.told {
                serve::take_back(handed);
            }
        }
    }
}
