//! Laying empty queues to rest: what a queue holds for its next messages goes back once there have been
//! none for a while.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis_mq_core::Queue;

use crate::authority;
use crate::datatype::QUEUE_TYPE;
use crate::redis::{Ctx, KeyName, WriteKey};
use crate::stored::StoredQueue;

/// How long a queue must have been empty, at least.
const QUIET: Duration = Duration::from_secs(1);
/// Places that are remembered. A queue that finds no room here is laid to rest another time.
const PLACES: usize = 100_000;
/// How long one tick, a tenth of a second with the server's defaults, may take.
const SLICE: Duration = Duration::from_micros(500);

/// Room for places that is kept while there are none.
const KEPT: usize = 1_000;
/// A note so old is of a place where the queue no longer is.
const FORGOTTEN_TICKS: u32 = 600;

/// What a queue knows of its being noted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The tick at which its place was noted; 0 if it is not.
    at: u32,
    /// There has been a step since.
    stirred: bool,
}

/// A queue was empty here.
struct Place {
    db: i32,
    name: Box<[u8]>,
    since: Instant,
}

/// The places, the oldest first.
static PLACES_NOTED: Mutex<VecDeque<Place>> = Mutex::new(VecDeque::new());
/// The number of the next tick.
static TICK: AtomicU32 = AtomicU32::new(1);

/// No key may be opened or closed meanwhile.
fn places() -> MutexGuard<'static, VecDeque<Place>> {
    PLACES_NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After a step at the queue of this place.
#[inline]
pub fn after(ctx: &Ctx, name: KeyName<'_>, stored: &mut StoredQueue) {
    if stored.working().is_some_and(Queue::is_empty) {
        note(ctx, name, stored);
    }
}

fn note(ctx: &Ctx, name: KeyName<'_>, stored: &mut StoredQueue) {
    let (note, tick) = (&mut stored.rest, TICK.load(Ordering::Relaxed));
    if note.at != 0 && tick.wrapping_sub(note.at) < FORGOTTEN_TICKS {
        note.stirred = true;
        return;
    }
    let mut places = places();
    if places.len() < PLACES {
        *note = Note {
            at: tick,
            stirred: false,
        };
        places.push_back(Place {
            db: ctx.selected_db(),
            name: name.bytes().into(),
            since: Instant::now(),
        });
    }
}

/// Looks at the places where queues have been empty for long enough, for the time that a tick has.
pub fn tick(ctx: &Ctx) {
    TICK.store(
        TICK.load(Ordering::Relaxed).wrapping_add(1).max(1),
        Ordering::Relaxed,
    );
    if authority::is_loading() {
        return;
    }
    let begin = Instant::now();
    while begin.elapsed() < SLICE {
        let Some(place) = quiet_place(begin) else {
            return;
        };
        if ctx.select_db(place.db) {
            ctx.with_key_name(&place.name, |name| look_at(ctx, name));
        }
    }
}

/// The first place, if the queue there has been empty for long enough.
fn quiet_place(now: Instant) -> Option<Place> {
    let mut places = places();
    if now.duration_since(places.front()?.since) < QUIET {
        return None;
    }
    let place = places.pop_front();
    if places.is_empty() && places.capacity() > KEPT {
        *places = VecDeque::new();
    }
    place
}

fn look_at(ctx: &Ctx, name: KeyName<'_>) {
    let Ok(mut key) = WriteKey::open(ctx, &QUEUE_TYPE, name) else {
        return; // a key of another type
    };
    let Some(stored) = key.value_mut() else {
        return;
    };
    let stirred = std::mem::take(&mut stored.rest).stirred;
    if stirred {
        after(ctx, name, stored);
    } else {
        stored.lay_to_rest();
    }
}

/// Two databases have changed places.
pub fn swap(first: i32, second: i32) {
    for place in places().iter_mut() {
        if place.db == first {
            place.db = second;
        } else if place.db == second {
            place.db = first;
        }
    }
}
