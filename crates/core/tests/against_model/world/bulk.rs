//! MQ.MENQUEUE and MQ.MDONE.

use redis_mq_core::{Ended, Stale, Token};

use super::replica::Command;
use super::step::{self, Id, Target};
use super::World;

impl World {
    pub fn enqueue_many(&mut self, enqueue: &step::Enqueue, ids: &[Option<Id>]) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        let ids = ids.iter().map(|id| id.as_ref().and_then(|id| self.id(id)));
        let ids: Vec<Option<Vec<u8>>> = ids.collect();
        let mut enqueue = self.with_its_own_expiry(enqueue);
        // Those of a batch expire at the same instant, in no order that is promised.
        enqueue.ttl = enqueue.ttl.filter(|_| ids.len() == 1);
        let mut made = Vec::new();
        self.turn(
            Command::Other,
            |queue, turn| {
                let payload = &enqueue.payload[..];
                let messages = ids.iter().map(|id| (id.as_deref(), payload));
                let mut reply = Vec::new();
                let full = queue.enqueue_many(turn, &enqueue.request(None), messages, |one| {
                    reply.push((one.outcome, one.id.bytes().to_vec()));
                });
                assert_eq!(full, Ok(()), "there are no limits");
                reply
            },
            |model, reply| {
                assert_eq!(reply.len(), ids.len());
                for (id, (outcome, reply_id)) in ids.iter().zip(reply) {
                    model.act(now, max_dead);
                    match id {
                        Some(id) => assert_eq!(&reply_id, id),
                        None => made.push(reply_id.clone()),
                    }
                    let request = enqueue.model_request(now);
                    assert_eq!(outcome, model.enqueue(now, &reply_id, request));
                }
            },
        );
        for made in made {
            self.was_made(made);
        }
    }

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
