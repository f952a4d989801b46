//! How much of a queue fits a page.

use redis_mq_client::redis;

use super::Link;
use crate::reply;

/// A page has fewer messages where so many would have more bytes than that.
const BYTES: u64 = 4 << 20;

/// How many messages may be asked for at once, as large as those of this queue are on average; at
/// most `most`, and one at least.
pub async fn page_of(link: &Link, queue: &[u8], messages: u64, most: u64) -> u64 {
    let mut command = redis::cmd("MEMORY");
    command.arg("USAGE").arg(queue);
    // Who may not ask for it gets whole pages.
    let usage = link.ask(&command).await.ok();
    let usage = usage.as_ref().and_then(reply::unsigned).unwrap_or(0);
    let each = usage / messages.max(1);
    (BYTES / each.max(1)).clamp(1, most)
}
