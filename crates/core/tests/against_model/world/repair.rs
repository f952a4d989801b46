//! MQ.REDRIVE.

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
}
