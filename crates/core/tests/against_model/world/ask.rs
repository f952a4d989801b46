//! Everything that can be asked of a queue, asked of the queue, its replica and the model.

use redis_mq_core::{Queue, Span, Totals, View};

use super::{digest, twin, World, POOL};
use crate::model::{Fields, Seen};

/// How many of the ids made last are asked for.
const ASKED: usize = 6;

impl World {
    pub fn compare(&self) {
        self.queue.check().expect("the queue is sound");
        self.replica.queue.check().expect("the replica is sound");
        assert_eq!(
            digest(&self.queue),
            digest(&self.replica.queue),
            "queue and replica"
        );
        let seen = self.seen();
        self.compare_info(&seen, &self.queue, (self.wait_left(), self.dry_runs));
        self.compare_info(&seen, &self.replica.queue, (0, 0));
        self.compare_messages(&seen);
        // Of all that is asked for this takes longest.
        match self.random >> 61 {
            0 => self.compare_pages(&seen, &self.queue),
            1 => self.compare_pages(&seen, &self.replica.queue),
            _ => {}
        }
    }

    fn compare_messages(&self, seen: &Seen) {
        let pool = POOL.iter().map(|id| id.to_vec());
        let made = self.made.iter().rev().take(ASKED);
        let made = made.flat_map(|id| [id.clone(), twin(id)]);
        for id in pool.chain(made) {
            let expected = seen.get(&id);
            for queue in [&self.queue, &self.replica.queue] {
                assert_eq!(queue.get(self.clock(), &id).map(fields), expected);
                let status = queue.status(self.clock(), &id);
                assert_eq!(status, expected.as_ref().map(|fields| fields.status));
            }
        }
    }

    fn compare_info(&self, seen: &Seen, queue: &Queue, wait: (u64, u32)) {
        let info = queue.info(self.clock());
        assert_eq!(info.counts, seen.counts());
        assert_eq!(info.counts.iter().sum::<u64>(), seen.total());
        let ends = info.next.as_ref().zip(info.last.as_ref());
        assert_eq!(
            ends.map(|(next, last)| (next.bytes(), last.bytes())),
            seen.ends()
        );
        assert_eq!(info.next_due.map(Span::millis), seen.next_due_in());
        let oldest = info.oldest_queued.map(Span::millis);
        match (oldest, seen.ages()) {
            (None, None) => {}
            (Some(oldest), Some((of_next, of_oldest))) => {
                // Messages between the ends of a ready list are not looked at.
                assert!((of_next..=of_oldest).contains(&oldest), "{oldest}");
            }
            (oldest, ages) => panic!("the oldest is {oldest:?}, expected {ages:?}"),
        }
        assert_eq!((info.eoq_backoff.millis(), info.dry_runs), wait);
        // The model lets all die first that do in one step, and then drops what is too much. The queue drops
        // one by one, so that it may drop a letter that another death of its id would have replaced.
        let dropped = seen.model.totals.dropped;
        assert!(info.totals.dropped >= dropped, "{:?}", info.totals);
        assert_eq!(
            Totals {
                dropped,
                ..info.totals
            },
            seen.model.totals
        );
        assert!(!info.paused);
        let waits = queue
            .latency()
            .map(|all| (all.wait.count(), all.wait.sum_ms()));
        let works = queue.latency().map(|all| all.work.count());
        assert_eq!(waits.unwrap_or_default(), seen.model.waits);
        assert_eq!(works.unwrap_or_default(), seen.model.works);
    }
}

pub fn fields(view: View<'_>) -> Fields {
    Fields {
        id: view.id.bytes().to_vec(),
        status: view.status,
        payload: view.payload.to_vec(),
        attempts: view.attempts,
        max_attempts: view.max_attempts,
        priority: view.priority.level(),
        enqueued_at: view.enqueued_at.millis(),
        due_at: view.due_at.millis(),
        lock: view.lock.millis(),
        requeue: view.requeue.map(Vec::from),
        reason: view.reason.map(Vec::from),
        headers: view.headers.to_vec(),
        expires_at: view.expires_at.millis(),
    }
}
