//! MQ.STATUS, MQ.GET and MQ.INFO of the model: time passes on a copy, and that is read.

use redis_mq_core::Status;

use super::{Live, Model, Ms};

/// What is known of an id: `done` with a result, `dead` with a reason, or a status; and since when.
pub type Known = (&'static str, Option<Vec<u8>>, Ms);

/// The model as it stands at one moment.
pub struct Seen {
    pub model: Model,
    now: Ms,
}

/// The fields of MQ.GET.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    pub id: Vec<u8>,
    pub status: Status,
    pub payload: Vec<u8>,
    pub attempts: u32,
    pub max_attempts: u32,
    pub priority: u8,
    pub enqueued_at: Ms,
    pub due_at: Ms,
    pub lock: Ms,
    pub requeue: Option<Vec<u8>>,
    pub reason: Option<Vec<u8>>,
    pub headers: Vec<u8>,
    pub expires_at: Ms,
    pub retain: Option<Ms>,
    /// Ended and dead, of the batch that it follows.
    pub batch: Option<(u64, u64)>,
    pub scheduled_at: Ms,
}

impl Model {
    pub fn at(&self, now: Ms) -> Seen {
        let mut model = self.clone();
        model.is_looked_at = true;
        model.pass(now);
        model.let_results_go(now);
        Seen { model, now }
    }

    /// When time next moves a message on.
    pub fn next_due(&self) -> Option<Ms> {
        let letters = self.letters.iter();
        let ends = letters.filter_map(|letter| Some(letter.died + self.dead_age?));
        let moves = self.live.iter().filter_map(Live::next_move);
        moves.chain(ends).min()
    }

    /// When the next message becomes ready if nobody does anything.
    pub fn next_ready_at(&self) -> Option<Ms> {
        let mut future = self.clone();
        while let Some(due) = future.next_due() {
            future.pass(due);
            if future.next_ready().is_some() || future.waited_for != self.waited_for {
                return Some(due);
            }
        }
        None
    }
}

impl Seen {
    pub fn get(&self, id: &[u8]) -> Option<Fields> {
        let live = self.model.find(id).map(|at| self.live(at));
        live.or_else(|| Some(self.letter(self.model.letter(id)?)))
    }

    /// MQ.RESULT.
    pub fn result(&self, id: &[u8]) -> Option<Known> {
        let model = &self.model;
        let kept = model.results.iter().find(|kept| kept.id == id);
        let kept = kept.map(|kept| ("done", Some(kept.value.clone()), kept.at));
        match model.find(id).map(|at| model.live[at].status()) {
            None | Some(Status::DoneAwaitingGc) => kept.or_else(|| {
                let letter = &model.letters[model.letter(id)?];
                Some(("dead", letter.reason.clone(), letter.died))
            }),
            Some(Status::DoneWithBackoff | Status::DoneWithRequeue) => {
                Some(kept.unwrap_or(("done", None, 0)))
            }
            Some(status) => Some((status.name(), None, 0)),
        }
    }

    /// All of one status: those that are ready and dead letters in their order, others in none.
    pub fn of(&self, status: Status) -> Vec<Fields> {
        if status == Status::Dead {
            return (0..self.model.letters.len())
                .map(|at| self.letter(at))
                .collect();
        }
        let all = 0..self.model.live.len();
        let mut all: Vec<usize> = all
            .filter(|at| self.model.live[*at].status() == status)
            .collect();
        all.sort_by_key(|at| {
            let message = &self.model.live[*at];
            let priority = message.item.priority;
            // Follow-ups have no turn before they are ready.
            let turn = Some(priority).filter(|_| status != Status::Waiting);
            (turn, message.order)
        });
        all.into_iter().map(|at| self.live(at)).collect()
    }

    fn live(&self, at: usize) -> Fields {
        let message = &self.model.live[at];
        Fields {
            id: message.id.clone(),
            status: message.status(),
            payload: message.item.payload.clone(),
            attempts: message.attempts,
            max_attempts: message.item.max_attempts,
            priority: message.item.priority,
            enqueued_at: message.item.enqueued,
            due_at: message.due().unwrap_or(0),
            lock: message.item.lock,
            requeue: message.copy.as_ref().map(|copy| copy.item.payload.clone()),
            reason: message.reason.clone(),
            headers: message.item.headers.clone(),
            expires_at: message.item.expires.map_or(0, |(at, _)| at),
            retain: message.item.retain,
            batch: self.batch(message.follows),
            scheduled_at: message.item.scheduled,
        }
    }

    fn letter(&self, at: usize) -> Fields {
        let letter = &self.model.letters[at];
        Fields {
            id: letter.id.clone(),
            status: Status::Dead,
            payload: letter.item.payload.clone(),
            attempts: letter.attempts,
            max_attempts: letter.item.max_attempts,
            priority: letter.item.priority,
            enqueued_at: letter.item.enqueued,
            due_at: 0,
            lock: letter.item.lock,
            requeue: None,
            reason: letter.reason.clone(),
            headers: letter.item.headers.clone(),
            expires_at: 0,
            retain: letter.item.retain,
            batch: self.batch(letter.follows),
            scheduled_at: letter.item.scheduled,
        }
    }

    fn batch(&self, of: Option<u64>) -> Option<(u64, u64)> {
        let batch = self.model.batches.get(&of?)?;
        Some((batch.ended, batch.dead))
    }

    pub fn counts(&self) -> [u64; 9] {
        Status::ALL.map(|status| {
            let live = self
                .model
                .live
                .iter()
                .filter(|message| message.status() == status);
            let dead = if status == Status::Dead {
                self.model.letters.len()
            } else {
                0
            };
            (live.count() + dead) as u64
        })
    }

    pub fn total(&self) -> u64 {
        (self.model.live.len() + self.model.letters.len()) as u64
    }

    /// First and last of the ready order.
    pub fn ends(&self) -> Option<(&[u8], &[u8])> {
        let place = |message: &&Live| (message.item.priority, message.order);
        let ready = || {
            self.model
                .live
                .iter()
                .filter(|at| at.status() == Status::Queued)
        };
        Some((
            &ready().min_by_key(place)?.id,
            &ready().max_by_key(place)?.id,
        ))
    }

    pub fn next_due_in(&self) -> Option<Ms> {
        self.model.next_due().map(|due| due - self.now)
    }

    /// How long the message that is delivered next has been ready, and the one that has been so longest.
    pub fn ages(&self) -> Option<(Ms, Ms)> {
        let age = |message: &Live| self.now.saturating_sub(message.since);
        let next = &self.model.live[self.model.next_ready()?];
        let ready = self
            .model
            .live
            .iter()
            .filter(|at| at.status() == Status::Queued);
        Some((age(next), ready.map(age).max()?))
    }
}
