//! MQ.REDRIVE and MQ.PURGE.

use redis_mq_core::{Now, Peek, Queue, Status};

use super::replica::Command;
use super::step::Id;
use super::World;

impl World {
    pub fn redrive(&mut self, ids: &[Id]) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        let ids: Vec<Vec<u8>> = ids.iter().filter_map(|id| self.id(id)).collect();
        if ids.is_empty() {
            return;
        }
        self.turn(
            Command::Other,
            |queue, turn| {
                let redriven = ids.iter().map(|id| queue.redrive(turn, id));
                redriven.collect::<Vec<bool>>()
            },
            |model, reply| {
                model.act(now, max_dead);
                let expected: Vec<bool> = ids.iter().map(|id| model.redrive(now, id)).collect();
                assert_eq!(reply, expected);
            },
        );
    }

    pub fn redrive_oldest(&mut self, count: usize) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        self.turn(
            Command::Other,
            |queue, turn| queue.redrive_oldest(turn, count),
            |model, reply| {
                model.act(now, max_dead);
                assert_eq!(reply, model.redrive_oldest(now, count));
            },
        );
    }

    /// Of what is in the schedule the queue says who went: its order there is not promised.
    pub fn purge(&mut self, status: Option<Status>, count: usize) {
        let (now, clock) = (self.now(), self.clock());
        let max_dead = self.settings.max_dead as usize;
        self.turn(
            Command::Other,
            |queue, turn| {
                queue.let_time_act(turn);
                let there = Status::ALL.map(|status| ids_of(queue, clock, status));
                let removed = queue.purge(turn, status, count);
                let left = Status::ALL.map(|status| ids_of(queue, clock, status));
                (removed, there, left)
            },
            |model, (removed, in_queue, left)| {
                model.act(now, max_dead);
                let mut expected = 0;
                // Follow-ups go first.
                for of in [Status::Waiting].into_iter().chain(Status::ALL) {
                    let is_locked = matches!(of, Status::Locked | Status::LockedWithRequeue);
                    if status != Some(of) && (status.is_some() || is_locked) {
                        continue;
                    }
                    let there = model.at(now).of(of).into_iter().map(|message| message.id);
                    let there: Vec<_> = there.collect();
                    let goes = there.len().min(count - expected);
                    let in_order = matches!(of, Status::Queued | Status::Dead | Status::Waiting);
                    let gone: Vec<_> = if in_order {
                        there[..goes].to_vec()
                    } else {
                        let left = &left[of as usize];
                        let is_gone = |id: &&Vec<u8>| there.contains(id) && !left.contains(id);
                        let in_queue = in_queue[of as usize].iter();
                        in_queue.filter(is_gone).cloned().collect()
                    };
                    assert_eq!(gone.len(), goes, "{of:?}");
                    expected += goes;
                    gone.iter()
                        .for_each(|id| model.remove(now, id, of == Status::Dead));
                }
                assert_eq!(removed, expected);
            },
        );
    }
}

fn ids_of(queue: &Queue, now: Now, status: Status) -> Vec<Vec<u8>> {
    let peek = Peek {
        status: Some(status),
        count: usize::MAX,
        after: None,
        reverse: false,
    };
    let page = queue.peek(now, &peek).expect("a small schedule");
    page.iter()
        .map(|message| message.id.bytes().to_vec())
        .collect()
}
