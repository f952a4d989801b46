//! MQ.MDONE.

use redis_mq_core::{Ended, Stale, Token};

use super::replica::Command;
use super::step::{self, Target};
use super::World;

impl World {
    pub fn done_many(&mut self, targets: &[Target], verdict: &step::Verdict) {
        let (now, settings) = (self.now(), self.settings);
        let max_dead = settings.max_dead as usize;
        let mut random = self.next_random_peek();
        let targets: Vec<_> = targets.iter().map(|target| self.target(target)).collect();
        self.turn(
            Command::Other,
            |queue, turn| {
                let pairs = targets
                    .iter()
                    .map(|(id, token)| (&id[..], Token::new(*token)));
                let mut reply: Vec<Result<Option<Ended>, Stale>> = Vec::new();
                queue.done_many(turn, pairs, verdict.for_queue(), |ended| reply.push(ended));
                reply
            },
            |model, reply| {
                assert_eq!(reply.len(), targets.len());
                for ((id, token), ended) in targets.iter().zip(reply) {
                    // What an earlier one has left may have expired already.
                    model.act(now, max_dead);
                    let verdict = verdict.for_model(model.attempt(id), random, &settings);
                    let expected = model.done(now, id, *token, verdict);
                    model.forget(max_dead);
                    let expected = expected.map_err(|_| ());
                    assert_eq!(ended.map_err(|_| ()), expected, "{id:?} {token}");
                    random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
                }
            },
        );
    }
}
