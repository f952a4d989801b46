//! Answers on their way. Redis before 7.4 loses the reply of a client that `CLIENT UNBLOCK` lets go
//! between its answer and the end of that turn of the event loop, where it passes answers on. There they
//! are kept for all of the turn in which clients are served, so that whoever goes in it finds its own.
//! Only a server that serves clients after its timers, with threads that read or in the rest of what
//! TLS has read, still loses one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Answer, ForResult};
use crate::redis::{keeps_answers, Ctx, Parked, Tick};

/// Clients with what they will be told, in the order in which that became known.
#[derive(Debug)]
struct Outbox {
    letters: Vec<(Parked<ForResult>, Answer)>,
    /// Whether a timer runs that empties it.
    is_timed: bool,
}

static OUTBOX: Mutex<Outbox> = Mutex::new(Outbox {
    letters: Vec::new(),
    is_timed: false,
});

fn outbox() -> MutexGuard<'static, Outbox> {
    OUTBOX.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a client its answer. Called where nothing is known of the server, and on any thread; the step
/// calls [`soon`].
pub(super) fn send(client: Parked<ForResult>, answer: Answer) {
    if keeps_answers() {
        client.answer(answer);
    } else {
        outbox().letters.push((client, answer));
    }
}

/// Sees to it that what was sent goes out in this turn of the event loop, with its timers. What is sent
/// where there is no context waits for the server's next tick.
pub(super) fn soon(ctx: &Ctx) {
    if keeps_answers() {
        return;
    }
    let mut outbox = outbox();
    if !outbox.is_timed && !outbox.letters.is_empty() {
        outbox.is_timed = true;
        ctx.start_timer::<Turn>(0);
    }
}

/// Passes everything on to the server, which tells it before it reads from any client.
pub(super) fn pass_on() {
    let letters = std::mem::take(&mut outbox().letters);
    for (client, answer) in letters {
        client.answer(answer);
    }
}

/// What a client that goes would have been told.
pub(super) fn take(number: usize) -> Option<(Parked<ForResult>, Answer)> {
    let mut outbox = outbox();
    let mut letters = outbox.letters.iter();
    let at = letters.position(|(client, _)| client.number() == number)?;
    Some(outbox.letters.remove(at))
}

struct Turn;

impl Tick for Turn {
    fn tick(_ctx: &Ctx) {
        outbox().is_timed = false;
        pass_on();
    }
}
