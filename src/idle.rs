//! Letting go of queues that nobody uses.

use redis_mq_core::Queue;

use crate::clock::Moment;
use crate::datatype::QUEUE_TYPE;
use crate::info::IDLED_QUEUES;
use crate::redis::{Ctx, KeyName, WriteKey};
use crate::stored::StoredQueue;
use crate::turn;

/// Whether the queue has been of no use for as long as such queues stay.
pub fn is_over(stored: &StoredQueue, now: Moment) -> bool {
    let at = stored.idle_at();
    at.is_some_and(|at| at.millis() <= now.steady_ms())
}

/// Deletes the queue at this place if it is over, as `DEL` would. Only where time may act.
///
/// Whoever waits on the key waits on, as on one that was never there.
pub fn let_go(ctx: &Ctx, name: KeyName<'_>, now: Moment) {
    let Ok(key) = WriteKey::open(ctx, &QUEUE_TYPE, name) else {
        return; // a key of another type
    };
    let Some(stored) = key.value().filter(|stored| is_over(stored, now)) else {
        return;
    };
    let Ok(last) = stored.show(Queue::last_token) else {
        return;
    };
    // A queue that replicas would keep stays here too.
    if !ctx.replicate_deletion(name) {
        return;
    }
    turn::account_for(last);
    key.delete();
    IDLED_QUEUES.add(1);
    ctx.signal_modified(name);
    ctx.notify_deletion(name);
}
