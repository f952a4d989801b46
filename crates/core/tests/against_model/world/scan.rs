//! MQ.SCAN: what there is at a moment, and a walk that goes on while everything changes.

use std::collections::BTreeSet;

use redis_mq_core::{ForeignCursor, Queue, Status};

use super::World;
use crate::model::Seen;

/// Places that the walk looks at after each step.
const PLACES: usize = 3;

/// A walk that has begun.
#[derive(Default)]
pub struct Scan {
    cursor: u64,
    /// Messages that were there all the time. Between two looks one may go and another get its id.
    stayed: BTreeSet<(Vec<u8>, i64)>,
    seen: BTreeSet<Vec<u8>>,
}

impl World {
    pub fn go_on_scanning(&mut self) {
        let model_seen = self.seen();
        for queue in [&self.queue, &self.replica.queue] {
            assert_eq!(self.scanned(queue), expected(&model_seen));
        }
        let mut there = lasting(&model_seen);
        // A copy that nobody has put in the place of a dead message yet is to get a place of its own.
        let copies = self.model.live.iter().filter(|live| live.copy.is_some());
        copies.for_each(|live| {
            there.retain(|(id, _)| *id != live.id);
        });
        if self.scan.cursor == 0 {
            self.scan.stayed = there;
            self.scan.seen.clear();
        } else {
            self.scan.stayed.retain(|message| there.contains(message));
        }
        let (clock, cursor) = (self.clock(), self.scan.cursor);
        let mut seen = Vec::new();
        let next = self.queue.scan(clock, cursor, PLACES, |message| {
            seen.push(message.id.bytes().to_vec());
        });
        self.scan.seen.extend(seen);
        self.scan.cursor = next.expect("the queue has given the cursor");
        if self.scan.cursor == 0 {
            let mut missed = self.scan.stayed.clone();
            missed.retain(|(id, _)| !self.scan.seen.contains(id));
            assert!(missed.is_empty(), "{missed:?}");
        }
    }

    /// Another queue has come into the place of the one that gave the cursor.
    pub fn begin_scan_anew(&mut self) {
        let cursor = std::mem::take(&mut self.scan.cursor);
        if cursor != 0 {
            let refused = self.queue.scan(self.clock(), cursor, PLACES, |_| {});
            assert_eq!(refused, Err(ForeignCursor));
        }
    }

    fn scanned(&self, queue: &Queue) -> Vec<(Vec<u8>, Status)> {
        let (mut all, mut cursor) = (Vec::new(), 0);
        loop {
            let next = queue.scan(self.clock(), cursor, 7, |message| {
                all.push((message.id.bytes().to_vec(), message.status));
            });
            cursor = next.expect("the queue has given the cursor");
            if cursor == 0 {
                all.sort_by_key(|(id, status)| (id.clone(), *status as usize));
                return all;
            }
        }
    }
}

fn expected(seen: &Seen) -> Vec<(Vec<u8>, Status)> {
    let all = Status::ALL.into_iter().flat_map(|status| seen.of(status));
    let mut all: Vec<_> = all.map(|fields| (fields.id, fields.status)).collect();
    all.sort_by_key(|(id, status)| (id.clone(), *status as usize));
    all
}

/// Messages that are alone with their id, so that who sees the id sees them.
fn lasting(seen: &Seen) -> BTreeSet<(Vec<u8>, i64)> {
    let live = seen.model.live.iter();
    let alone = live.filter(|live| live.copy.is_none() && seen.model.letter(&live.id).is_none());
    alone.map(|live| (live.id.clone(), live.born)).collect()
}
