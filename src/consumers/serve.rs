//! Serving those who wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis_mq_core::Verdict;

use super::line::PlaceName;
use super::{with_line, Answer, Consumer, Handed};
use crate::authority::{self, Right};
use crate::clock;
use crate::delivery::{Owned, Shown};
use crate::error::Error;
use crate::redis::{Alarm, Ctx, KeyName, Tick};
use crate::turn::{self, Missing, ReplicateAs};
use crate::wake::{self, PAUSED_RETRY_MS};

/// How long one tick serves before other clients get their turn.
const SLICE: Duration = Duration::from_millis(1);
/// From one tick to the next while there is more to do.
const PAUSE_MS: u64 = 1;

static TIMER: Mutex<Alarm> = Mutex::new(Alarm::new());

/// What was handed over to clients that did not get it.
static LOST: Mutex<Vec<Handed>> = Mutex::new(Vec::new());

fn timer() -> MutexGuard<'static, Alarm> {
    TIMER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost() -> MutexGuard<'static, Vec<Handed>> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the noted places be served in `delay_ms` milliseconds, unless a timer for that runs.
pub(super) fn set_timer(ctx: &Ctx, delay_ms: u64) {
    let mut timer = timer();
    if !timer.is_set() {
        let now_ms = clock::read(ctx).steady_ms();
        timer.fire_at::<Serve>(ctx, now_ms, now_ms + delay_ms);
    }
}

/// These messages go back to where they were.
pub(super) fn take_back(handed: Handed) {
    lost().push(handed);
}

/// The server's regular tick.
pub fn tick(ctx: &Ctx) {
    give_back(ctx);
    let is_missed = timer().give_up_missed(ctx, clock::read(ctx).steady_ms());
    if is_missed {
        set_timer(ctx, 0);
    }
}

struct Serve;

impl Tick for Serve {
    fn tick(ctx: &Ctx) {
        let begin = Instant::now();
        // The timer counts as set until the end, so nothing that is noted meanwhile sets another one.
        while let Some((db, name)) = with_line(|line| line.take_noted()) {
            if ctx.select_db(db) {
                ctx.with_key_name(&name, |name| serve(ctx, db, name));
            }
            if begin.elapsed() >= SLICE {
                break;
            }
        }
        timer().fired();
        if with_line(|line| line.has_noted()) {
            set_timer(ctx, PAUSE_MS);
        }
    }
}

/// Serves the first who waits at a place, if there is anything. Whatever is left then notes the place again.
fn serve(ctx: &Ctx, db: i32, name: KeyName<'_>) {
    // Whoever gets nothing changes nothing: time is let act only if there is something to hand over.
    let now = clock::read(ctx);
    let queue = turn::peek(ctx, name, |queue| {
        let settled = !queue.is_unsettled(now.steady());
        let due = queue.next_due_by_server(now.steady());
        let run = queue.next_run().map(|run| now.when_clock_shows(run));
        let due = [due, run].into_iter().flatten().min();
        // The timer's look settles the time.
        let due = if settled {
            due
        } else {
            Some(due.unwrap_or_default())
        };
        (settled && queue.ready_len() != 0, due)
    });
    match queue {
        // In a slot that is still moving in the old owner decides.
        Ok(Some((true, _))) if ctx.serves(name) => {}
        Ok(Some((false, Some(due)))) => return wake::look_again(ctx, name, due.millis()),
        // A key of another type is no reason to stop waiting: the queue may come back.
        _ => return,
    }
    match authority::of_time(ctx) {
        Right::Decide => {}
        Right::Later => return wake::look_again(ctx, name, now.steady_ms() + PAUSED_RETRY_MS),
        // Nobody waits where another server decides.
        Right::Refuse(_) | Right::Obey => return,
    }
    let first = || {
        with_line(|line| {
            let (turn, client) = line.first(db, name.bytes())?;
            Some((turn, Arc::clone(client.state())))
        })
    };
    while let Some((turn, consumer)) = first() {
        let answer = if consumer.rights.suffice(ctx) {
            let Ok(Some(deliveries)) = hand_over(ctx, name, &consumer) else {
                return;
            };
            let place: PlaceName = (db, name.bytes().into());
            Answer::Deliveries(Handed {
                place,
                deliveries,
                told: false,
            })
        } else {
            Answer::Refused(Error::NoPermission)
        };
        let refused = matches!(answer, Answer::Refused(_));
        *consumer.answer() = answer;
        if let Some(client) = with_line(|line| line.leave(turn)) {
            client.end(ctx);
        }
        if !refused {
            return;
        }
    }
}

/// Takes what the consumer asks for out of the queue; none where nothing is ready after all.
fn hand_over(
    ctx: &Ctx,
    name: KeyName<'_>,
    consumer: &Consumer,
) -> Result<Option<Vec<Owned>>, Error> {
    let request = consumer.request;
    let (now, form) = (clock::read(ctx), ReplicateAs::Effects);
    let taken = turn::take(ctx, name, Missing::Leave, now, form, |queue, turn| {
        let time = now.of(queue);
        let mut deliveries = Vec::new();
        let count = request.count.unwrap_or(1) as usize;
        queue.dequeue(turn, count, request.lock, |delivery| {
            deliveries.push(Shown::of(time, delivery).to_owned());
        });
        deliveries
    })?;
    Ok(taken.filter(|deliveries| !deliveries.is_empty()))
}

/// Gives messages back as if they had not been handed over: to the front, and without an attempt.
fn give_back(ctx: &Ctx) {
    if lost().is_empty() {
        return;
    }
    match authority::of_time(ctx) {
        Right::Decide => {}
        Right::Later => return,
        // Another server decides: the locks end there.
        Right::Refuse(_) | Right::Obey => return lost().clear(),
    }
    let all = std::mem::take(&mut *lost());
    for Handed {
        place: (db, name),
        deliveries,
        ..
    } in all
    {
        if !ctx.select_db(db) {
            continue;
        }
        ctx.with_key_name(&name, |name| {
            if !ctx.serves(name) {
                return;
            }
            let (now, form) = (clock::read(ctx), ReplicateAs::Effects);
            // Those that are gone or were taken over meanwhile are nobody's concern. The last goes first,
            // so that the first is in front.
            let _ = turn::take(ctx, name, Missing::Leave, now, form, |queue, turn| {
                for delivery in deliveries.iter().rev() {
                    let Shown { id, token, .. } = delivery.show();
                    let _ = queue.done(turn, id, token, Verdict::Release);
                }
            });
        });
    }
}
