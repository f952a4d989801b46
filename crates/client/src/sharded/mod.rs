//! One logical queue over several keys.

mod answers;
mod grow;
mod place;
mod produce;
mod queue;
mod whole;
mod worker;

pub(crate) use self::whole::share;
pub use self::{answers::PerShard, queue::ShardedQueue, worker::ShardedWorker};

/// More shards than this are a mistake.
pub(crate) const MOST_SHARDS: usize = 1_024;

/// The key of a shard.
pub(crate) fn shard_key(name: &[u8], index: usize) -> Vec<u8> {
    let mut key = name.to_vec();
    key.extend_from_slice(format!(":{{{index}}}").as_bytes());
    key
}

/// What is wrong with so many shards of that name, if something is.
pub(crate) fn problem(name: &[u8], shards: usize) -> Option<(&'static str, &'static str)> {
    if !(1..=MOST_SHARDS).contains(&shards) {
        return Some(("shards", "have to be 1 to 1024"));
    }
    if name.is_empty() {
        return Some(("queue", "needs a name"));
    }
    // A cluster would go by that brace alone, and keep all shards in one slot.
    if name.contains(&b'{') {
        return Some(("queue", "a sharded one's name has no opening brace"));
    }
    None
}
