//! Clients that wait for the end of a message: `MQ.RESULT … BLOCK`.
//!
//! They are not blocked on the key, since a server asks all of those at each signal. They stand in a
//! table by place and id, and the step that ends a message answers those who wait for its id, and nobody
//! else. A queue at which somebody waits is marked: its steps note what ends, and when it leaves its
//! place, by whatever way, all who wait there are told to ask again.

mod deadline;
mod outbox;
mod table;
mod told;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use redis_mq_core::{Known, Queue};

use crate::clock::{self, Moment, QueueTime};
use crate::datatype::QUEUE_TYPE;
use crate::error::Error;
use crate::redis::{park, Args, Ctx, KeyName, Parked, Parking, WriteKey};
use crate::wake;
pub use deadline::set_timer as watch_deadlines;
use table::{Table, Wait};
pub use told::{ask, Asked};

/// The kind of wait.
#[derive(Debug)]
pub struct ForResult;

/// What is known of an id, in memory of its own; clients that wait for the same share it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// `done`, `dead` or a status.
    pub word: &'static str,
    /// The result or the reason.
    pub value: Option<Arc<[u8]>>,
    /// Since when, Unix milliseconds; 0 if that is not known.
    pub at: u64,
}

/// What a client is told at the end of its wait.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The message has ended.
    Ended(Option<Shown>),
    /// The time is over.
    Deadline,
    /// The queue has left its place.
    Gone,
}

/// How many places a tick looks at.
const PLACES: usize = 50;

static TABLE: LazyLock<Mutex<Table<Parked<ForResult>>>> =
    LazyLock::new(|| Mutex::new(Table::new()));

/// How many wait.
static WAITING: AtomicU64 = AtomicU64::new(0);

/// The place that a tick looked at last.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);

/// Queues may be freed on another thread, so each use is short, and nothing is freed meanwhile.
fn with_table<R>(step: impl FnOnce(&mut Table<Parked<ForResult>>) -> R) -> R {
    // A panic elsewhere leaves at worst a wait that ends by its deadline.
    let mut table: MutexGuard<'_, _> = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let result = step(&mut table);
    WAITING.store(table.len() as u64, Ordering::Relaxed);
    result
}

/// How many clients wait for results.
pub fn count() -> u64 {
    WAITING.load(Ordering::Relaxed)
}

/// What a queue knows of those who wait at its place; dropped with it, possibly on another thread.
#[derive(Debug, Default)]
pub struct Mark(AtomicU64);

impl Mark {
    /// Whether somebody waits, or has waited.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The queue has left its place.
    pub fn left(&self) {
        let place = self.0.swap(0, Ordering::Relaxed);
        if place != 0 {
            tell_gone(|table| table.take_place(place));
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.left();
    }
}

fn tell_gone(take: impl FnOnce(&mut Table<Parked<ForResult>>) -> Vec<Parked<ForResult>>) {
    for client in with_table(take) {
        outbox::send(client, Answer::Gone);
    }
}

/// Lets the calling client wait for the end of a message that is there, for `timeout_ms` milliseconds.
pub fn begin(
    ctx: &Ctx,
    name: KeyName<'_>,
    id: &[u8],
    timeout_ms: u64,
    now: Moment,
) -> Result<(), Error> {
    let mut key = WriteKey::open(ctx, &QUEUE_TYPE, name)?;
    let stored = key.value_mut().ok_or(Error::Internal)?;
    let client = park::<ForResult>(ctx)?;
    let wait = Wait {
        db: ctx.selected_db(),
        name: name.bytes(),
        what: id,
        number: client.number(),
        deadline: (timeout_ms != 0).then(|| clock::read(ctx).steady_ms() + timeout_ms),
    };
    let place = with_table(|table| table.enter(wait, client));
    stored.waits.0.store(place, Ordering::Relaxed);
    deadline::set_timer(ctx);
    wake::after(ctx, name, now, stored);
    Ok(())
}

/// After a step at a marked queue: tells those who wait for messages that have ended in it.
#[cold]
pub fn answer(ctx: &Ctx, mark: &Mark, time: QueueTime, queue: &mut Queue) {
    let place = mark.0.load(Ordering::Relaxed);
    let ends = queue.take_ends();
    // The last end of an id is the one that counts.
    for end in ends.iter().rev() {
        if !with_table(|table| table.any_for(place, &end.id)) {
            continue;
        }
        let known = queue.result_of_end(time.now(), end);
        if let Some(Known::Live(_)) = known {
            continue; // a copy, or a message that was enqueued since
        }
        let shown = known.map(|known| Shown::of(time, known));
        for client in with_table(|table| table.take(place, &end.id)) {
            outbox::send(client, Answer::Ended(shown.clone()));
        }
    }
    outbox::soon(ctx);
    if !with_table(|table| table.any_at(place)) {
        mark.0.store(0, Ordering::Relaxed);
    }
}

/// Two databases have changed places.
pub fn swapped(first: i32, second: i32) {
    for db in [first, second] {
        tell_gone(|table| table.take_database(db));
    }
}

/// The server's regular tick. In a cluster a slot may be given away while its keys are still here, so
/// some places are looked at each time.
pub fn tick(ctx: &Ctx) {
    outbox::pass_on();
    deadline::check_timer(ctx);
    if count() == 0 || !ctx.is_cluster() {
        return;
    }
    for _ in 0..PLACES {
        let after = LOOKED_AT.load(Ordering::Relaxed);
        let next = with_table(|table| {
            let (place, db, name) = table.next_place(after)?;
            Some((place, db, name.to_vec()))
        });
        let Some((place, db, name)) = next else {
            LOOKED_AT.store(0, Ordering::Relaxed);
            return;
        };
        LOOKED_AT.store(place, Ordering::Relaxed);
        let is_here = ctx.select_db(db) && ctx.with_key_name(&name, |name| ctx.serves(name));
        if !is_here {
            tell_gone(|table| table.take_place(place));
        }
    }
}

impl Parking for ForResult {
    type Answer = Answer;

    fn leave(number: usize) -> Option<(Parked<Self>, Option<Answer>)> {
        if let Some(client) = with_table(|table| table.leave(number)) {
            return Some((client, None));
        }
        outbox::take(number).map(|(client, answer)| (client, Some(answer)))
    }

    fn reply(ctx: &Ctx, args: Args<'_>, answer: &Answer) {
        told::answer(ctx, args, answer);
    }

    fn timed_out(ctx: &Ctx, args: Args<'_>) {
        told::at_deadline(ctx, args);
    }
}
