//! Everything that can be asked of a queue, asked of the queue, its replica and the model.

use std::collections::BTreeSet;

use redis_mq_core::{EndOf, Known, Queue, Span, Totals, View};

use super::{digest, twin, World, POOL};
use crate::model::{self, Fields, Model, Place, Seen};

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
        self.compare_schedules(&self.queue);
        self.compare_schedules(&self.replica.queue);
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
        let runs = (self.model.live.iter()).filter(|live| live.item.scheduled != 0);
        let runs = runs.map(|run| run.id.clone()).take(ASKED);
        for id in pool.chain(made).chain(runs) {
            let expected = seen.get(&id);
            for queue in [&self.queue, &self.replica.queue] {
                assert_eq!(queue.get(self.clock(), &id).map(fields), expected);
                let status = queue.status(self.clock(), &id);
                assert_eq!(status, expected.as_ref().map(|fields| fields.status));
                self.compare_result(seen, queue, &id);
            }
        }
    }

    fn compare_result(&self, seen: &Seen, queue: &Queue, id: &[u8]) {
        let (mut is, expected) = (queue.result(self.clock(), id).map(known), seen.result(id));
        // A letter dies no earlier than those before it, of which the queue does not know before it lets
        // time act.
        if let (Some(("dead", _, at)), Some(("dead", _, died))) = (&mut is, &expected) {
            let has_acted = self.model.letter(id).is_some() && self.model.find(id).is_none();
            if !has_acted && *at < *died {
                *at = *died;
            }
        }
        assert_eq!(is, expected, "{id:?}");
    }

    /// Whoever waits for the end of a message is told of it, and of what it has left.
    pub fn compare_ends(&self, before: &Model, ends: &[EndOf]) {
        let unfinished = |model: &Model| {
            let live = model.live.iter();
            let open = live.filter(|live| !matches!(live.place, Place::Done(_) | Place::Over));
            open.map(|live| live.id.clone()).collect::<BTreeSet<_>>()
        };
        let after = unfinished(&self.model);
        for id in unfinished(before).difference(&after) {
            let end = ends.iter().rfind(|end| *end.id == **id);
            let end = end.unwrap_or_else(|| panic!("nobody is told of the end of {id:?}"));
            let known = self.queue.result_of_end(self.clock(), end).map(known);
            let letter = self.model.letter(id).map(|at| &self.model.letters[at]);
            let was_there = letter.is_some_and(|letter| before.letters.contains(letter));
            // A copy may have come behind one that died, and one like the other in its place.
            let died = ends.iter().any(|end| *end.id == **id && end.died);
            let is_old = (was_there || died) && !end.died;
            let expected = self.seen().result(id);
            let expected = expected.filter(|(word, ..)| *word != "dead" || !is_old);
            assert_eq!(known, expected, "{end:?}");
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
        assert_eq!(info.results, seen.model.results.len());
        let waits = queue
            .latency()
            .map(|all| (all.wait.count(), all.wait.sum_ms()));
        let works = queue.latency().map(|all| all.work.count());
        assert_eq!(waits.unwrap_or_default(), seen.model.waits);
        assert_eq!(works.unwrap_or_default(), seen.model.works);
    }
}

fn known(known: Known<'_>) -> model::Known {
    let bytes = |bytes: Option<&[u8]>| bytes.map(Vec::from);
    match known {
        Known::Done { result: None } => ("done", None, 0),
        Known::Done {
            result: Some((value, at)),
        } => ("done", bytes(Some(value)), at.millis()),
        Known::Dead { reason, at } => ("dead", bytes(reason), at.millis()),
        Known::Live(status) => (status.name(), None, 0),
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
        retain: view.retain.map(Span::millis),
        batch: view.batch.map(|batch| (batch.ended, batch.dead)),
        scheduled_at: view.scheduled_at.millis(),
    }
}
