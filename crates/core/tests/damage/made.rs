//! A queue of messages of every status and shape, made by every kind of effect.

use redis_mq_core::{
    Backoff, Calendar, Enqueue, FollowUp, Keep, Log, Now, Overlap, Priority, Queue, Replication,
    Schedule, Settings, Span, Start, Times, Timestamp, Token, Ttl, Turn, Verdict, LEAST_EVERY,
};

use super::snapshot;

pub const NOW_US: u64 = 1_700_000_000_000_000;

/// Every expression matches at each tenth of a second.
#[derive(Debug)]
struct Tenths;

impl Calendar for Tenths {
    fn next(&self, _: &[u8], _: &[u8], after: Timestamp) -> Option<Timestamp> {
        Some(Timestamp::from_millis((after.millis() / 100 + 1) * 100))
    }
}

/// A queue, and the effects of each turn that made it.
#[derive(Default)]
pub struct Made {
    queue: Option<Queue>,
    pub logs: Vec<Vec<u8>>,
    pub before: Vec<Vec<Vec<u8>>>,
    log: Log,
    settings: Settings,
}

impl Made {
    fn turn<T>(&mut self, ms: u64, step: impl FnOnce(&mut Queue, &mut Turn<'_>) -> T) -> T {
        let mut queue = self.queue.take().unwrap_or_else(|| Queue::new(1));
        let before = snapshot(&queue);
        let now = Now::from_micros(NOW_US + ms * 1000);
        let mut turn = Turn::new(now, 77, &self.settings, &mut self.log);
        turn.spell_out();
        turn.set_clock(now.instant(), &Tenths);
        let reply = step(&mut queue, &mut turn);
        match self.log.replication() {
            Replication::Effects(bytes) => {
                self.logs.push(bytes.to_vec());
                self.before.push(before);
            }
            other => assert_eq!(other, Replication::Nothing),
        }
        self.queue = Some(queue);
        reply
    }

    fn enqueue(&mut self, ms: u64, request: &Enqueue<'_>) {
        self.turn(ms, |queue, turn| queue.enqueue(turn, request).outcome);
    }

    fn dequeue(&mut self, ms: u64, count: usize, lock: u64) -> Vec<(Vec<u8>, Token)> {
        let mut got = Vec::new();
        self.turn(ms, |queue, turn| {
            queue.dequeue(turn, count, Some(Span::from_millis(lock)), |delivery| {
                got.push((delivery.id.bytes().to_vec(), delivery.token));
            })
        });
        got
    }

    fn done(&mut self, ms: u64, delivery: &(Vec<u8>, Token), verdict: Verdict<'_>) {
        let (id, token) = delivery;
        let ended = self.turn(ms, |queue, turn| queue.done(turn, id, *token, verdict));
        assert!(matches!(ended, Ok(Some(_))), "{ended:?}");
    }

    /// Messages of every status and shape, by every kind of effect.
    pub fn all_kinds() -> Self {
        let mut made = Self::default();
        let (first, last) = (Priority::new(0).unwrap(), Priority::new(9).unwrap());
        for id in [
            b"requeued" as &[u8],
            b"window",
            b"failed",
            b"retried",
            b"dying",
        ] {
            let mut request = Enqueue::new(b"payload").id(id);
            request.priority = first;
            request.attempts = if id == b"dying" { 1 } else { 0 };
            made.enqueue(0, &request);
        }
        let got = made.dequeue(1, 5, 50);
        for (delivery, pause) in [(&got[0], 0), (&got[1], 60_000)] {
            let mut copy = Enqueue::new(b"copy").id(&delivery.0);
            copy.requeue = true;
            copy.start = Start::After(Span::from_millis(pause));
            made.enqueue(2, &copy);
            copy.update = true;
            made.enqueue(2, &copy);
        }
        let backoff = Backoff::For(Span::from_millis(3_600_000));
        made.done(3, &got[1], Verdict::success(backoff));
        made.done(
            3,
            &got[2],
            Verdict::Error {
                reason: Some(b"why"),
            },
        );
        made.done(
            3,
            &got[3],
            Verdict::Retry {
                backoff,
                reason: None,
            },
        );
        // Lets the other locks run out; the last attempt's message dies, and is dead but answered.
        made.turn(60, |queue, turn| queue.let_time_act(turn));
        let again = made.turn(61, |queue, turn| {
            queue.extend(turn, b"dying", got[4].1, Span::from_millis(20))
        });
        assert!(matches!(again, Ok(Some(_))));
        made.turn(90, |queue, turn| queue.let_time_act(turn));

        for _ in 0..3 {
            made.enqueue(91, &Enqueue::new(b"made"));
        }
        let mut own = Enqueue::new(b"").id(b"0190163d-8694-739b-aea5-966c26f8ad91");
        own.lock = Some(Span::MAX);
        own.attempts = u32::MAX;
        own.priority = last;
        made.enqueue(92, &own);
        own.update = true;
        own.start = Start::After(Span::MAX);
        made.enqueue(92, &own);
        let got = made.dequeue(93, 2, 1_000_000);
        made.done(94, &got[1], Verdict::Release);
        let mut brief = Enqueue::new(b"payload").id(b"brief");
        (brief.priority, brief.retain) = (first, Some(Span::from_millis(1)));
        made.enqueue(95, &brief);
        let got = made.dequeue(95, 1, 1_000);
        made.done(95, &got[0], Verdict::SUCCESS);
        made.turn(96, |queue, turn| queue.let_time_act(turn));
        made.enqueue(96, &Enqueue::new(b"gone").id(b"gone"));
        made.turn(96, |queue, turn| queue.cancel(turn, b"gone"));
        let done = Verdict::Success {
            backoff: Backoff::For(Span::from_millis(500)),
            keep: Keep {
                result: Some(b"result"),
                retain: Some(Span::from_millis(60_000)),
            },
        };
        let mut headers = Enqueue::new(b"payload").id(b"headers");
        headers.headers = b"traceparent: 00";
        headers.start = Start::After(Span::from_millis(5_000));
        headers.ttl = Some(Ttl {
            span: Span::from_millis(60_000),
            bury: true,
        });
        made.enqueue(97, &headers);
        headers.update = true;
        made.enqueue(97, &headers);
        let got = made.dequeue(97, 1, 1_000);
        let later = made.turn(97, |queue, turn| {
            queue.extend(turn, &got[0].0, got[0].1, Span::from_millis(2_000))
        });
        assert!(matches!(later, Ok(Some(_))));
        let mut copy = Enqueue::new(b"copy").id(&got[0].0);
        (copy.requeue, copy.headers) = (true, b"copied");
        copy.ttl = headers.ttl;
        made.enqueue(97, &copy);
        made.done(97, &got[0], done);
        for (id, bury) in [(b"buried" as &[u8], true), (b"expired", false)] {
            let mut expiring = Enqueue::new(b"payload").id(id);
            let span = Span::from_millis(1);
            expiring.ttl = Some(Ttl { span, bury });
            made.enqueue(97, &expiring);
        }
        made.turn(98, |queue, turn| queue.let_time_act(turn));
        let mut held = Enqueue::new(b"payload").id(b"held");
        (held.priority, held.ttl) = (first, headers.ttl);
        made.enqueue(98, &held);
        let got = made.dequeue(98, 1, 1_000);
        let verdict = Verdict::Retry {
            backoff: Backoff::None,
            reason: Some(b"not yet"),
        };
        made.done(98, &got[0], verdict);
        made.dequeue(98, 1, 1_000);
        made.batches(&held);
        made.settings.max_dead = 1;
        made.turn(98, |queue, turn| queue.let_time_act(turn));
        made.schedules();
        made
    }

    fn batches(&mut self, held: &Enqueue<'_>) {
        let mut joins = Enqueue::new(b"payload").id(b"joins");
        joins.join = Some(b"follows");
        self.turn(98, |queue, turn| {
            let follow_up = FollowUp {
                id: Some(b"follows"),
                payload: b"payload",
                headers: b"h",
            };
            let messages = [(Some(&b"member"[..]), &b"p"[..]), (Some(b"ends"), b"p")];
            let (messages, follow_up) = (messages.into_iter(), Some(&follow_up));
            let added = queue.enqueue_many(turn, held, messages, follow_up, |_| {});
            assert_eq!(added, Ok(()));
            let nothing = [(Some(&b"member"[..]), &b"p"[..])].into_iter();
            let follow_up = FollowUp {
                id: None,
                payload: b"",
                headers: b"",
            };
            let added = queue.enqueue_many(turn, held, nothing, Some(&follow_up), |_| {});
            assert_eq!(added, Ok(()));
            assert!(queue.cancel(turn, b"ends"));
        });
        self.enqueue(98, &joins);
    }

    fn schedules(&mut self) {
        let cron = Times::Cron {
            expression: b"* * * * *",
            zone: b"UTC",
        };
        for (name, times, overlap) in [
            (&b"skips"[..], Times::Every(LEAST_EVERY), Overlap::Skip),
            (b"waits", cron, Overlap::After),
            (b"goes", cron, Overlap::Allow),
        ] {
            let mut schedule = Schedule::new(name, times, b"payload");
            (schedule.overlap, schedule.most) = (overlap, Some(3));
            schedule.from = Some(Timestamp::from_millis(NOW_US / 1000 + 100));
            schedule.message.headers = b"run";
            let set = self.turn(99, |queue, turn| queue.schedule(turn, &schedule, 3));
            assert!(set.is_ok(), "{set:?}");
        }
        for ms in [100, 110] {
            self.turn(ms, |queue, turn| queue.let_time_act(turn));
        }
        self.turn(110, |queue, turn| queue.unschedule(turn, b"goes"));
    }

    pub fn queue(&self) -> &Queue {
        self.queue.as_ref().expect("there was a turn")
    }
}
