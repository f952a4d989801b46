//! Whether this server decides, or repeats what another one decided.
//!
//! Asking the server costs as much as a hash look-up, too much for the hot commands. It says when
//! it changes, so the answer is kept.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::redis::{Ctx, Role};

/// Whether commands may come that have been decided elsewhere.
static MAY_OBEY: AtomicBool = AtomicBool::new(true);

/// Asks the server, at load and whenever it says that something changed.
pub fn refresh(ctx: &Ctx) {
    let flags = ctx.flags();
    let decides = flags.role() == Role::Primary && !flags.is_loading();
    MAY_OBEY.store(!decides, Ordering::Relaxed);
}

/// Whether the running command was decided elsewhere and must be repeated to the letter.
#[inline]
pub fn must_obey(ctx: &Ctx) -> bool {
    MAY_OBEY.load(Ordering::Relaxed) && ctx.must_obey()
}
