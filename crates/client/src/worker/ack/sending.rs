//! Answers and extends locks: the worker's other connection, which never waits.

use std::sync::Arc;

use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::time::{sleep, Duration, Instant};

use super::{
    outbox::{Outgoing, Unsent},
    refusal::{is_final, is_refused, is_too_old},
    spent::all_spent,
};
use crate::{
    connect::any::pipeline,
    handler::{answer::Answer, retry::out_of_attempts},
    message::{
        delivery::{Delivery, LostLock},
        status::Status,
    },
    millis::millis,
    reply::{self, AnswerReply, Extended},
    telemetry::Settling,
    worker::{
        connection::LastingConnection,
        observe::{
            counts::Count,
            events::{Event, Side},
            sampling::Sampler,
        },
        run::core::{Core, Identity, Phase},
    },
};

/// How many answers go out before replies are read.
const BATCH: usize = 1_000;

/// How long to wait after an extension was refused.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How often the log is told that extensions are refused.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// How often to ask the server to end the wait of the other connection, when the worker stops.
const UNBLOCK_EVERY: Duration = Duration::from_millis(20);

/// Sends what there is to be sent until the worker has stopped and everything has arrived.
pub(crate) async fn run(core: Arc<Core>) {
    let mut phase = core.phase();
    let mut ended = phase.clone();
    let mut sending = Sending::new(Arc::clone(&core));
    loop {
        let now = *phase.borrow_and_update();
        let stopping = now >= Phase::Draining && !core.taking_has_ended();
        if sending.has_work(stopping) {
            tokio::select! {
                biased;
                _ = ended.wait_for(|phase| *phase == Phase::Ended) => break,
                () = sending.exchange(stopping) => {}
            }
            if stopping {
                // Not faster than this, while the other connection's reply is on its way.
                sleep(UNBLOCK_EVERY / 4).await;
            }
            continue;
        }
        if now == Phase::Ended
            || (now == Phase::Flushing && !stopping && core.deliveries.is_clear())
        {
            break;
        }
        tokio::select! {
            () = core.deliveries.to_send.notified() => {}
            _ = phase.changed() => {}
            () = sending.sampler.due() => {}
            () = sleep(UNBLOCK_EVERY), if stopping => {}
        }
    }
}

/// How many answers to send in one command, if it is worth it.
fn together(answers: &[Unsent], takes: bool) -> Option<usize> {
    let count = answers.iter().filter(|one| is_plain_success(one)).count();
    (takes && count > 1).then_some(count)
}

/// A success of which nothing more is said: the answer that most have alike.
fn is_plain_success(unsent: &Unsent) -> bool {
    matches!(unsent.answer, Answer::Success(None))
}

struct Sending {
    core: Arc<Core>,
    connection: LastingConnection,
    sampler: Sampler,
    /// When the log was last told that an extension was refused.
    warned: Option<Instant>,
    /// When it was last told that limits of attempts are not told.
    warned_of_limits: Option<Instant>,
    /// Retries go with their reasons; not so once this connection's server has refused them.
    reasons: bool,
    /// Many successes go in one command; not so once this connection's server has refused that.
    together: bool,
}

impl Sending {
    fn new(core: Arc<Core>) -> Self {
        Self {
            connection: LastingConnection::new(&core, Side::Answer, Duration::ZERO),
            sampler: Sampler::new(&core.spec.settings),
            warned: None,
            warned_of_limits: None,
            reasons: true,
            together: true,
            core,
        }
    }

    fn has_work(&self, stopping: bool) -> bool {
        self.core.deliveries.has_outgoing()
            || self.sampler.is_due()
            || (stopping && self.core.blocked().is_some())
    }

    /// One pipeline: extensions, answers, and the rest. What fails stays for the next time.
    async fn exchange(&mut self, stopping: bool) {
        if !self.connection.is_open() {
            self.core.deliveries.set_cut_off(true);
            self.reasons = true;
            self.together = true;
        }
        self.connection.opened().await;
        let outgoing = self.core.deliveries.collect(BATCH);
        let queue = Arc::clone(&self.core.spec.queue);
        let spent = match all_spent(self.connection.opened().await, &queue, &outgoing.answers).await
        {
            Ok(spent) => spent,
            Err(error) => return self.failed(&error),
        };
        if let Some(error) = &spent.untold {
            self.limit_untold(error);
        }
        let (batch, sampled) = self.batch(&outgoing, &spent.answers, stopping);
        if batch.is_empty() {
            return;
        }
        let sent = Instant::now();
        let settling = Settling::begin(&queue, outgoing.answers.len());
        let replies = self.connection.opened().await.query_all(&batch).await;
        if let Some(settling) = settling {
            settling.end(replies.as_ref().err());
        }
        let replies = match replies {
            Ok(replies) => replies,
            Err(error) => return self.failed(&error),
        };
        match self.read(&outgoing, replies, sent, sampled) {
            Some(error) => self.failed(&error),
            None => {
                self.connection.succeeded();
                self.core.deliveries.set_cut_off(false);
            }
        }
    }

    fn failed(&mut self, error: &RedisError) {
        self.core.deliveries.set_cut_off(true);
        self.core.deliveries.leave();
        self.connection.failed(error);
    }

    fn batch(&self, outgoing: &Outgoing, spent: &[usize], stopping: bool) -> (Pipeline, bool) {
        let queue = &self.core.spec.queue.key[..];
        let mut batch = pipeline(outgoing.extensions.len() + outgoing.answers.len() + 2);
        for delivery in &outgoing.extensions {
            let command = batch
                .cmd("MQ.EXTEND")
                .arg(queue)
                .arg(delivery.id.as_bytes());
            command.arg(delivery.token).arg(millis(delivery.lock));
        }
        let together = together(&outgoing.answers, self.together);
        for (n, unsent) in outgoing.answers.iter().enumerate() {
            if together.is_some() && is_plain_success(unsent) {
                continue;
            }
            let Unsent {
                delivery, answer, ..
            } = unsent;
            let id = delivery.id.as_bytes();
            let mut command = redis::Cmd::with_capacity(7, queue.len() + id.len() + 40);
            command
                .arg("MQ.DONE")
                .arg(queue)
                .arg(id)
                .arg(delivery.token);
            match answer {
                Answer::Retry(retry) if spent.binary_search(&n).is_ok() => {
                    out_of_attempts(retry).write(&mut command, self.reasons);
                }
                answer => answer.write(&mut command, self.reasons),
            }
            batch.add_command(command);
        }
        if let Some(count) = together {
            let bytes = count * 48;
            let mut command = redis::Cmd::with_capacity(2 * count + 3, queue.len() + bytes);
            command.arg("MQ.MDONE").arg(queue).arg(count);
            for unsent in outgoing.answers.iter().filter(|one| is_plain_success(one)) {
                command.arg(unsent.delivery.id.as_bytes());
                command.arg(unsent.delivery.token);
            }
            batch.add_command(command);
        }
        let sampled = self.sampler.is_due();
        if sampled {
            batch.cmd("MQ.INFO").arg(queue);
        }
        let blocked = if stopping { self.core.blocked() } else { None };
        // A client's number means something on its own server only.
        let same = |there: &Identity| {
            self.connection
                .identity()
                .is_some_and(|here| here.server == there.server)
        };
        if let Some(identity) = blocked.filter(same) {
            batch.cmd("CLIENT").arg("UNBLOCK").arg(identity.client);
        }
        (batch, sampled)
    }

    /// Reads the replies; returns an error that calls for a new connection, if there is one.
    fn read(
        &mut self,
        outgoing: &Outgoing,
        replies: Vec<RedisResult<Value>>,
        sent: Instant,
        sampled: bool,
    ) -> Option<RedisError> {
        let mut replies = replies.into_iter();
        let mut failure = None;
        let mut unsure = Outgoing::default();
        let every = self.core.deliveries.ask_every();
        for delivery in &outgoing.extensions {
            match replies.next().map(reply::extended) {
                Some(Ok(Extended::Held)) => {
                    delivery.extended(sent, every);
                    self.core.deliveries.beat_by(delivery.extend_at());
                }
                Some(Ok(Extended::Taken)) => self.core.lose(delivery, LostLock::Taken),
                Some(Ok(Extended::Gone)) => self.core.lose(delivery, LostLock::Gone),
                Some(Err(error)) if is_final(&error) || error.code() == Some("NOPERM") => {
                    self.extension_refused(delivery, &error);
                }
                unknown => {
                    failure = unknown.and_then(Result::err).or(failure);
                    unsure.extensions.push(Arc::clone(delivery));
                }
            }
        }
        let mut settled = Vec::with_capacity(outgoing.answers.len());
        let reasons = self.reasons;
        let together = together(&outgoing.answers, self.together);
        let (plain, single): (Vec<_>, Vec<_>) = outgoing
            .answers
            .iter()
            .partition(|unsent| together.is_some() && is_plain_success(unsent));
        for unsent in single {
            match replies.next().map(reply::answered) {
                Some(Ok(answered)) => settled.push((unsent, Ok(answered))),
                Some(Err(error)) if reasons && is_too_old(&error, &unsent.answer) => {
                    self.reasons = false;
                    unsure.answers.push(unsent.clone());
                }
                Some(Err(error)) if is_final(&error) => settled.push((unsent, Err(error))),
                unknown => {
                    failure = unknown.and_then(Result::err).or(failure);
                    unsure.answers.push(unsent.clone());
                }
            }
        }
        if !plain.is_empty() {
            match replies.next() {
                Some(Ok(Value::Array(became))) if became.len() == plain.len() => {
                    settled.extend(
                        plain
                            .into_iter()
                            .zip(became.into_iter().map(reply::answered_in_its_place).map(Ok)),
                    );
                }
                Some(Err(error)) if error.code() == Some("WRONGTYPE") => {
                    let refused = plain.into_iter().map(|unsent| (unsent, Err(error.clone())));
                    settled.extend(refused);
                }
                other => {
                    unsure.answers.extend(plain.into_iter().cloned());
                    match other {
                        // Nothing of it counted; one by one an older server, or a user without the
                        // right to it, may take them.
                        Some(Err(error)) if is_refused(&error) => self.together = false,
                        other => failure = other.and_then(Result::err).or(failure),
                    }
                }
            }
        }
        // First of all: a listener or a recorder that panics must not make them be sent again.
        self.core.deliveries.settle(unsure);
        for (unsent, answered) in settled {
            match answered {
                Ok(answered) => self.arrived(unsent, answered),
                Err(error) => self.refused(unsent, &error),
            }
        }
        if sampled {
            let info = replies.next().and_then(Result::ok);
            self.sampler.sampled(&self.core, info);
        }
        failure
    }

    /// The server answers, but does not extend locks: no new connection helps, and answers go on.
    fn extension_refused(&mut self, delivery: &Delivery, error: &RedisError) {
        let now = Instant::now();
        if self.warned.is_none_or(|at| now >= at + WARN_EVERY) {
            let queue = &self.core.spec.queue.shown;
            tracing::warn!(%queue, id = %delivery.id, %error, "the server does not extend locks");
            self.warned = Some(now);
        }
        delivery.ask_again(now + (delivery.lock / 8).min(ASK_AGAIN));
        self.core.deliveries.beat_by(delivery.extend_at());
    }

    /// Messages have reached the worker's limit of attempts, but may have others.
    fn limit_untold(&mut self, error: &RedisError) {
        let now = Instant::now();
        if self
            .warned_of_limits
            .is_none_or(|at| now >= at + WARN_EVERY)
        {
            let queue = &self.core.spec.queue.shown;
            tracing::warn!(
                %queue, %error,
                "messages are tried again and again: the server does not tell their limits"
            );
            self.warned_of_limits = Some(now);
        }
    }

    fn arrived(&self, unsent: &Unsent, answered: AnswerReply) {
        let spec = &self.core.spec;
        let (id, attempt) = (&unsent.delivery.id, unsent.delivery.attempt);
        if answered == AnswerReply::Expired {
            spec.counters.add(Count::Expired, 1);
            return spec.events.send(|| Event::Expired {
                id: id.clone(),
                attempt,
            });
        }
        let AnswerReply::Became(became) = answered else {
            tracing::debug!(queue = %spec.queue.shown, %id, attempt, ?answered, "answer refused");
            spec.counters.add(Count::AnswersRefused, 1);
            return spec.events.send(|| Event::AnswerRefused {
                id: id.clone(),
                attempt,
            });
        };
        let id = || id.clone();
        match unsent.answer {
            Answer::Success(_) => {
                spec.counters.add(Count::Finished, 1);
                spec.events.send(|| Event::Finished {
                    id: id(),
                    attempt,
                    became,
                });
            }
            Answer::Release if became != Some(Status::Dead) => {
                spec.counters.add(Count::Released, 1);
                spec.events.send(|| Event::Released { id: id() });
            }
            Answer::Retry(_) if became != Some(Status::Dead) => {
                spec.counters.add(Count::Retried, 1);
                spec.events.send(|| Event::Retried { id: id(), attempt });
            }
            Answer::Retry(_) | Answer::Error(_) | Answer::Release => {
                spec.counters.add(Count::Dead, 1);
                spec.events.send(|| Event::Dead { id: id(), attempt });
            }
        }
    }

    fn refused(&self, unsent: &Unsent, error: &RedisError) {
        let spec = &self.core.spec;
        let (id, attempt) = (&unsent.delivery.id, unsent.delivery.attempt);
        tracing::error!(queue = %spec.queue.shown, %id, attempt, %error, "answer refused");
        spec.counters.add(Count::AnswersRefused, 1);
        spec.events.send(|| Event::AnswerRefused {
            id: id.clone(),
            attempt,
        });
    }
}
