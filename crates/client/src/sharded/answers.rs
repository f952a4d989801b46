//! What the shards of a queue have answered.

use crate::{error::Error, producer::info::QueueInfo};

/// The answer of each shard, in their order. All have been asked, whatever became of one: what a
/// shard that cannot be reached would have said is missing, and nothing else.
#[derive(Debug)]
#[must_use = "a shard may have failed"]
pub struct PerShard<R>(pub(super) Vec<Result<R, Error>>);

impl<R> PerShard<R> {
    /// All answers, or the first failure. The others have done what was asked all the same.
    pub fn all(self) -> Result<Vec<R>, Error> {
        self.0.into_iter().collect()
    }

    /// What each shard has answered, or how it failed.
    pub fn into_vec(self) -> Vec<Result<R, Error>> {
        self.0
    }

    /// The answers, each with the number of its shard.
    pub fn answered(&self) -> impl Iterator<Item = (usize, &R)> {
        let numbered = self.0.iter().enumerate();
        numbered.filter_map(|(shard, answer)| Some((shard, answer.as_ref().ok()?)))
    }

    /// The failures, each with the number of its shard.
    pub fn failed(&self) -> impl Iterator<Item = (usize, &Error)> {
        let numbered = self.0.iter().enumerate();
        numbered.filter_map(|(shard, answer)| Some((shard, answer.as_ref().err()?)))
    }
}

impl PerShard<u64> {
    /// The sum over the shards that have answered.
    pub fn sum(&self) -> u64 {
        self.answered().map(|(_, count)| count).sum()
    }
}

impl PerShard<Option<QueueInfo>> {
    /// The queue as a whole, over the shards that have answered: counts and totals are sums, times
    /// the most pressing ones, and it is paused if all of it is. What only a single key can tell
    /// (who is next, which limit holds, the shared wait) is left empty.
    pub fn total(&self) -> QueueInfo {
        let mut total = QueueInfo::default();
        let (mut shards, mut paused) = (0, 0);
        for info in self.answered().filter_map(|(_, info)| info.as_ref()) {
            shards += 1;
            paused += usize::from(info.paused);
            add(&mut total, info);
        }
        total.paused = shards > 0 && paused == shards;
        if !total.paused {
            total.paused_until = None;
        }
        total
    }
}

fn add(total: &mut QueueInfo, info: &QueueInfo) {
    let dues = total.next_due.into_iter().chain(info.next_due);
    total.next_due = dues.min();
    total.oldest_queued = total.oldest_queued.max(info.oldest_queued);
    total.paused_until = total.paused_until.max(info.paused_until);
    for (sum, count) in [
        (&mut total.messages, info.messages),
        (&mut total.queued, info.queued),
        (&mut total.queued_with_backoff, info.queued_with_backoff),
        (&mut total.locked, info.locked),
        (&mut total.locked_with_requeue, info.locked_with_requeue),
        (&mut total.done_with_backoff, info.done_with_backoff),
        (&mut total.done_with_requeue, info.done_with_requeue),
        (&mut total.done_awaiting_gc, info.done_awaiting_gc),
        (&mut total.dead, info.dead),
        (&mut total.held, info.held),
        (&mut total.groups, info.groups),
        (&mut total.total_enqueued, info.total_enqueued),
        (&mut total.total_delivered, info.total_delivered),
        (&mut total.total_done, info.total_done),
        (&mut total.total_retried, info.total_retried),
        (&mut total.total_dead, info.total_dead),
        (&mut total.total_expired_locks, info.total_expired_locks),
        (&mut total.total_expired, info.total_expired),
        (&mut total.total_full, info.total_full),
    ] {
        *sum += count;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::unexpected;

    #[test]
    fn a_whole_is_the_sum_of_the_shards_that_answered() {
        let (mut first, mut second) = (QueueInfo::default(), QueueInfo::default());
        first.queued = 3;
        first.next_due = Some(Duration::from_secs(9));
        first.paused = true;
        second.queued = 4;
        second.next_due = Some(Duration::from_secs(2));
        second.oldest_queued = Some(Duration::from_secs(1));
        let shards = PerShard(vec![
            Ok(Some(first)),
            Err(unexpected("MQ.INFO")),
            Ok(None),
            Ok(Some(second)),
        ]);
        let total = shards.total();
        assert_eq!((total.queued, total.paused), (7, false));
        assert_eq!(total.next_due, Some(Duration::from_secs(2)));
        assert_eq!(total.oldest_queued, Some(Duration::from_secs(1)));
        let failed: Vec<_> = shards.failed().map(|(shard, _)| shard).collect();
        assert_eq!(failed, [1]);
        assert!(shards.all().is_err());
        assert_eq!(PerShard(vec![Ok(2), Ok(5)]).sum(), 7);
    }
}
