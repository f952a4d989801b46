//! The warning that the server may throw away a whole queue.
//!
//! A queue is one key: a server that makes room by evicting any key loses all messages of the queue
//! at once. The policies that evict keys with an expiry only are no danger to a queue without one.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::authority;
use crate::redis::{log, subscribe, Ctx, Event, EventHandler, EventKind, ServerInfo};

/// Whether the log says so already.
static WARNED: AtomicBool = AtomicBool::new(false);

/// Looks at the settings of the server, and warns once for as long as they are dangerous.
fn check(ctx: &Ctx) {
    let Some(memory) = ServerInfo::read(ctx, c"memory") else {
        return;
    };
    let policy = memory.text(c"maxmemory_policy").unwrap_or_default();
    let limited = ctx.flags().may_evict() && memory.number(c"maxmemory") != Some(0);
    let dangerous = limited && policy.starts_with("allkeys-");
    if dangerous && !WARNED.swap(dangerous, Ordering::Relaxed) {
        log::warning(format_args!(
            "maxmemory-policy {policy} may evict whole queues with all their messages: \
             use noeviction, or a volatile-* policy and no expiry on queues"
        ));
    }
    WARNED.store(dangerous, Ordering::Relaxed);
}

struct ConfigWatch;

impl EventHandler for ConfigWatch {
    fn on_event(ctx: &Ctx, event: Event) {
        if event == Event::ConfigChanged {
            authority::forget();
            check(ctx);
        }
    }
}

/// Warns now if there is reason to, and whenever the settings change so.
pub fn register(ctx: &Ctx) {
    check(ctx);
    subscribe::<ConfigWatch>(ctx, &[EventKind::ConfigChanged]);
}
