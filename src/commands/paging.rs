//! What the commands that walk by a cursor have in common.

use std::fmt::Display;

use crate::redis::Ctx;

/// Places that are looked at where the reader does not say how many.
pub const DEFAULT_COUNT: u64 = 100;
/// Places that are looked at at most.
pub const MAX_COUNT: u64 = 10_000;

/// Begins the reply of a page: the cursor of the next, as text, and how many elements follow.
pub fn begin_page(ctx: &Ctx, next: impl Display, len: usize) {
    ctx.reply_array(2);
    ctx.reply_bulk(next.to_string().as_bytes());
    ctx.reply_array(len);
}
