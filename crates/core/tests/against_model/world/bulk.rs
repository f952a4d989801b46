//! MQ.MENQUEUE and MQ.MDONE.

use redis_mq_core::{BatchRefused, Ended, FollowUp, Stale, Token};

use super::replica::Command;
use super::step::{self, Id, Target};
use super::World;

impl World {
    pub fn enqueue_many(
        &mut self,
        enqueue: &step::Enqueue,
        ids: &[Option<Id>],
        batch: &step::Batch,
    ) {
        let (now, max_dead) = (self.now(), self.settings.max_dead as usize);
        let ids = ids.iter().map(|id| id.as_ref().and_then(|id| self.id(id)));
        let ids: Vec<Option<Vec<u8>>> = ids.collect();
        let (then_id, join) = match batch {
            step::Batch::None => (None, None),
            step::Batch::Then(id) => (Some(id.as_ref().and_then(|id| self.id(id))), None),
            step::Batch::Join(id) => (None, self.id(id)),
        };
        let mut enqueue = self.with_its_own_expiry(enqueue);
        // Those of a batch expire at the same instant, in no order that is promised.
        enqueue.ttl = enqueue.ttl.filter(|_| ids.len() == 1);
        let mut made = Vec::new();
        self.turn(
            Command::Other,
            |queue, turn| {
                let payload = &enqueue.payload[..];
                let messages = ids.iter().map(|id| (id.as_deref(), payload));
                let follow_up = then_id.as_ref().map(|id| FollowUp {
                    id: id.as_deref(),
                    payload: b"then",
                    headers: &enqueue.headers,
                });
                let mut request = enqueue.request(None);
                request.join = join.as_deref();
                let mut reply = Vec::new();
                let refused =
                    queue.enqueue_many(turn, &request, messages, follow_up.as_ref(), |one| {
                        reply.push((one.outcome, one.id.bytes().to_vec()));
                    });
                refused.map(|()| reply)
            },
            |model, reply| {
                model.act(now, max_dead);
                let joined = join.as_ref().map(|id| model.batch_of(id));
                if joined == Some(None) {
                    assert_eq!(reply, Err(BatchRefused::NothingWaits));
                    return;
                }
                let mut reply = reply.expect("there are no limits");
                let mut number = joined.flatten();
                if let Some(id) = &then_id {
                    let (outcome, reply_id) = reply.pop().expect("what became of the follow-up");
                    match id {
                        Some(id) => assert_eq!(&reply_id, id),
                        None => made.push(reply_id.clone()),
                    }
                    let item = enqueue.model_follow_up(now);
                    let expected = model.follow_up(now, &reply_id, item);
                    assert_eq!(outcome, expected.0);
                    number = expected.1;
                }
                assert_eq!(reply.len(), ids.len());
                for (id, (outcome, reply_id)) in ids.iter().zip(reply) {
                    model.act(now, max_dead);
                    match id {
                        Some(id) => assert_eq!(&reply_id, id),
                        None => made.push(reply_id.clone()),
                    }
                    let request = enqueue.model_request(now);
                    assert_eq!(outcome, model.enqueue(now, &reply_id, request, number));
                }
                if let Some(number) = number.filter(|_| then_id.is_some()) {
                    model.close(now, number);
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
