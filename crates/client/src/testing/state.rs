//! What a server in memory has.

use std::collections::BTreeMap;

use super::schedules::Never;
use redis_mq_core::{Limited, Log, Now, Queue, Replication, Settings, Timestamp, Turn};

/// The queues and the moment.
pub(super) struct State {
    pub(super) now_us: u64,
    random: fastrand::Rng,
    settings: Settings,
    log: Log,
    pub(super) queues: BTreeMap<Vec<u8>, Queue>,
}

impl State {
    /// No queues, at that reading of the clock in microseconds.
    pub(super) fn at(now_us: u64) -> Self {
        Self {
            now_us,
            random: fastrand::Rng::with_seed(now_us),
            settings: Settings::default(),
            log: Log::default(),
            queues: BTreeMap::new(),
        }
    }

    pub(super) fn now(&self) -> Now {
        Now::from_micros(self.now_us)
    }

    /// Runs a step on a queue that is there.
    pub(super) fn change<R>(
        &mut self,
        name: &[u8],
        step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> R,
    ) -> Option<R> {
        let now = self.now();
        let queue = self.queues.get_mut(name)?;
        let mut turn = Turn::new(now, self.random.u64(..), &self.settings, &mut self.log);
        turn.set_clock(now.instant(), &Never);
        Some(step(queue, &mut turn))
    }

    /// Runs a step on a queue, which is made for it if it changes anything.
    pub(super) fn change_or_create<R>(
        &mut self,
        name: &[u8],
        step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> R,
    ) -> R {
        let now = self.now();
        let mut queue = self.queues.remove(name);
        let was_missing = queue.is_none();
        let mut queue = queue.take().unwrap_or_else(|| Queue::new(1));
        let mut turn = Turn::new(now, self.random.u64(..), &self.settings, &mut self.log);
        turn.set_clock(now.instant(), &Never);
        turn.spell_out();
        let result = step(&mut queue, &mut turn);
        if !(was_missing && self.log.replication() == Replication::Nothing) {
            self.queues.insert(name.to_vec(), queue);
        }
        result
    }

    pub(super) fn look<R>(&self, name: &[u8], step: impl FnOnce(&Queue) -> R) -> Option<R> {
        self.queues.get(name).map(step)
    }

    /// When time next moves anything on: a message, or a queue or group that is held back.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let now = self.now();
        let of_queue = |queue: &Queue| {
            let info = queue.info(now);
            let message = info.next_due.map(|span| now.instant().after(span));
            let rate = match info.limited {
                Some(Limited::Rate(free_at)) => Some(free_at),
                _ => None,
            };
            let mut all = vec![Some(info.paused_until), message, rate, queue.next_run()];
            queue.group_views(now, 0, u32::MAX, |group| all.push(Some(group.until)));
            let later = all.into_iter().flatten().filter(|at| *at > now.instant());
            later.min()
        };
        self.queues.values().filter_map(of_queue).min()
    }
}
