//! Whether this server decides, or repeats what another one decided.
//!
//! Asking the server costs as much as a hash look-up, too much for the hot commands. It says when
//! it changes, so the answer is kept.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::redis::{Ctx, Role};

/// Whether the server is a primary that has its data.
static DECIDES: AtomicBool = AtomicBool::new(false);
/// Whether commands may come that have been decided elsewhere: to a replica, while loading, and in a
/// cluster, where slots move in.
static MAY_OBEY: AtomicBool = AtomicBool::new(true);

/// Asks the server, at load and whenever it says that something changed. The event of a new role may
/// come before the flags tell it.
pub fn changed(ctx: &Ctx, new: Option<Role>) {
    let flags = ctx.flags();
    let decides = new.unwrap_or(flags.role()) == Role::Primary && !flags.is_loading();
    DECIDES.store(decides, Ordering::Relaxed);
    MAY_OBEY.store(!decides || flags.is_cluster(), Ordering::Relaxed);
}

/// Whether the server is a primary that has its data: only there time acts.
pub fn decides() -> bool {
    DECIDES.load(Ordering::Relaxed)
}

/// Whether a client's command may not change anything here. A replica that the server lets clients
/// write to is no exception: what it would decide its primary knows nothing of.
#[inline]
pub fn is_read_only(ctx: &Ctx) -> bool {
    !decides() && ctx.flags().role() == Role::Replica
}

/// Whether the running command was decided elsewhere and must be repeated to the letter.
#[inline]
pub fn must_obey(ctx: &Ctx) -> bool {
    MAY_OBEY.load(Ordering::Relaxed) && ctx.must_obey()
}
