//! MQ.DONE and MQ.EXTEND of the model.

use redis_mq_core::Ended;

use super::{Kept, Letter, Live, Model, Ms, Place, Start};

#[derive(Clone, Debug)]
pub enum Verdict {
    /// Pauses are 0 for none.
    Success {
        pause: Ms,
        result: Option<Vec<u8>>,
        retain: Option<Ms>,
        default_retain: Ms,
    },
    Retry {
        pause: Ms,
        reason: Option<Vec<u8>>,
    },
    Error {
        reason: Option<Vec<u8>>,
    },
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stale;

impl Model {
    /// The delivery that `token` names. A message that died because its last lock ran out lives
    /// on if the consumer comes back before anybody took the id.
    fn delivery(&mut self, now: Ms, id: &[u8], token: u64) -> Result<Option<usize>, Stale> {
        if let Some(at) = self.find(id) {
            return if self.live[at].token == Some(token) {
                Ok(Some(at))
            } else {
                Err(Stale)
            };
        }
        let Some(at) = self.letter(id) else {
            return Ok(None);
        };
        if self.letters[at].token != Some(token) {
            return Err(Stale);
        }
        let Letter {
            id,
            item,
            attempts,
            token,
            follows,
            ..
        } = self.letters.remove(at);
        self.totals.dead -= 1;
        self.forget_result(&id);
        let (place, order, copy) = (Place::Locked(now), self.next_turn(), None);
        let released_from = None;
        self.live.push(Live {
            id,
            born: order,
            item,
            attempts,
            place,
            order,
            released_from,
            token,
            copy,
            member_of: None,
            follows,
            since: now,
            reason: None,
        });
        Ok(Some(self.live.len() - 1))
    }

    /// What attempt a pause would be for.
    pub fn attempt(&self, id: &[u8]) -> u32 {
        let live = self.find(id).map(|at| self.live[at].attempts);
        live.or(self.letter(id).map(|at| self.letters[at].attempts))
            .unwrap_or(0)
    }

    /// Time has acted.
    pub fn done(
        &mut self,
        now: Ms,
        id: &[u8],
        token: u64,
        verdict: Verdict,
    ) -> Result<Option<Ended>, Stale> {
        let Some(at) = self.delivery(now, id, token)? else {
            return Ok(None);
        };
        let kept = self.kept(now, at, &verdict);
        self.live[at].token = None;
        self.works += u64::from(!matches!(verdict, Verdict::Release));
        let after = |pause| {
            if pause == 0 {
                Start::NotGiven
            } else {
                Start::After(pause)
            }
        };
        let ended = match verdict {
            Verdict::Success { pause: 0, .. } => {
                self.totals.done += 1;
                match self.live[at].copy.take() {
                    Some(copy) => {
                        self.restart(at, copy, now);
                        self.queued(at)
                    }
                    None => {
                        self.leave(at, false, now);
                        self.live.remove(at);
                        Ended::Done
                    }
                }
            }
            Verdict::Success { pause, .. } => {
                self.totals.done += 1;
                self.leave(at, false, now);
                self.live[at].item.expires = None;
                self.live[at].reason = None;
                self.put(at, Place::Done(now + pause), now);
                match self.live[at].copy {
                    Some(_) => Ended::DoneWithRequeue,
                    None => Ended::DoneWithBackoff,
                }
            }
            Verdict::Retry { reason, .. } if self.live[at].is_out_of_attempts() => {
                let mut text = b"no attempts left".to_vec();
                text.extend(
                    reason
                        .iter()
                        .flat_map(|reason| [b": ", &reason[..]].concat()),
                );
                self.die(at, Some(text), None, now);
                Ended::Dead
            }
            Verdict::Retry { .. } | Verdict::Release if self.live[at].has_expired(now) => {
                let (_, bury) = self.live[at].item.expires.expect("it has expired");
                let has_copy = self.live[at].copy.is_some();
                self.expire(at, now);
                match (bury, has_copy) {
                    (true, _) => Ended::Dead,
                    (false, true) => self.queued(at),
                    (false, false) => Ended::Expired,
                }
            }
            Verdict::Retry { pause, reason } => {
                self.totals.retried += 1;
                self.live[at].reason = reason;
                self.put(at, after(pause).place(now), now);
                self.queued(at)
            }
            Verdict::Error { reason } => {
                self.die(at, reason, None, now);
                Ended::Dead
            }
            Verdict::Release => {
                let message = &mut self.live[at];
                message.attempts -= 1;
                let from = *message.released_from.get_or_insert(token);
                // Before all other places, which begin at 1.
                (message.place, message.order) = (Place::Ready, i64::MIN + from as i64);
                message.since = now;
                Ended::Queued
            }
        };
        let is_live = |live: &Live| live.id == id && !matches!(live.place, Place::Done(_));
        if let Some(kept) = kept.filter(|_| !self.live.iter().any(is_live)) {
            self.forget_result(id);
            self.results.push(kept);
        }
        Ok(Some(ended))
    }

    /// What is to be kept of a delivery that ends so.
    fn kept(&self, now: Ms, at: usize, verdict: &Verdict) -> Option<Kept> {
        let Verdict::Success {
            result,
            retain,
            default_retain,
            ..
        } = verdict
        else {
            return None;
        };
        let live = &self.live[at];
        let retain = retain.or(live.item.retain);
        let span = match result {
            Some(_) => retain.unwrap_or(*default_retain),
            None => retain?,
        };
        let value = result.clone().unwrap_or_default();
        let (id, at, until) = (live.id.clone(), now, now + span);
        (span != 0).then_some(Kept {
            id,
            value,
            at,
            until,
        })
    }

    fn queued(&self, at: usize) -> Ended {
        match self.live[at].place {
            Place::Ready => Ended::Queued,
            _ => Ended::QueuedWithBackoff,
        }
    }

    /// Time has acted.
    pub fn extend(
        &mut self,
        now: Ms,
        id: &[u8],
        token: u64,
        span: Ms,
    ) -> Result<Option<Ms>, Stale> {
        let Some(at) = self.delivery(now, id, token)? else {
            return Ok(None);
        };
        self.put(at, Place::Locked(now + span), now);
        Ok(Some(now + span))
    }
}
