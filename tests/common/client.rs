//! A client that speaks one of the protocols and knows the commands.

use std::ops::{Deref, DerefMut};
use std::thread;
use std::time::{Duration, Instant};

use redis_mq_testkit::{Reply, ReplyExt, Server, Value, Wire, PATIENCE};

use super::values::{words, Delivery, Fields};
use super::{Protocol, HOUR};

/// One connection. Also a [`Wire`], for what needs the bytes or separate steps.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    /// What `CLIENT ID` says.
    pub id: i64,
}

impl Deref for Client {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Client {
    /// Connects to database 0.
    #[track_caller]
    pub fn connect(server: &Server, protocol: Protocol) -> Self {
        let mut wire = match protocol {
            Protocol::Resp2 => server.wire(),
            Protocol::Resp3 => server.wire().resp3(),
        };
        let id = wire
            .call(&["CLIENT", "ID"])
            .expect("the server has ids")
            .int();
        Self { wire, id }
    }

    /// Sends a command line split at blanks and gives the reply.
    #[track_caller]
    pub fn line(&mut self, line: &str) -> Reply {
        self.call(&words(line))
    }

    /// A command line that must succeed.
    #[track_caller]
    pub fn ok(&mut self, line: &str) -> Value {
        match self.line(line) {
            Ok(value) => value,
            Err(error) => panic!("{line}: {error}"),
        }
    }

    /// MQ.ENQUEUE; gives the outcome.
    #[track_caller]
    pub fn enqueue(&mut self, queue: &str, payload: impl AsRef<[u8]>, options: &str) -> String {
        self.enqueued(queue, payload, options).0
    }

    /// MQ.ENQUEUE; gives outcome and id.
    #[track_caller]
    pub fn enqueued(
        &mut self,
        queue: &str,
        payload: impl AsRef<[u8]>,
        options: &str,
    ) -> (String, String) {
        let mut command = vec![b"MQ.ENQUEUE".to_vec(), queue.into()];
        command.push(payload.as_ref().to_vec());
        command.extend(words(options));
        let reply = match self.call(&command) {
            Ok(reply) => reply,
            Err(error) => panic!("MQ.ENQUEUE {queue} … {options}: {error}"),
        };
        let fields = reply.items();
        assert_eq!(fields.len(), 2, "{reply:?}");
        (fields[0].text(), fields[1].text())
    }

    /// MQ.DEQUEUE of one message.
    #[track_caller]
    pub fn dequeue(&mut self, queue: &str, options: &str) -> Option<Delivery> {
        let reply = self.ok(&format!("MQ.DEQUEUE {queue} {options}"));
        (!reply.is_nil()).then(|| Delivery::read(&reply))
    }

    /// MQ.DEQUEUE with COUNT.
    #[track_caller]
    pub fn dequeue_many(&mut self, queue: &str, count: u32, options: &str) -> Vec<Delivery> {
        let reply = self.ok(&format!("MQ.DEQUEUE {queue} COUNT {count} {options}"));
        if reply.is_nil() {
            return Vec::new();
        }
        reply.items().iter().map(Delivery::read).collect()
    }

    /// MQ.DEQUEUE of a message that must be there, locked for an hour.
    #[track_caller]
    pub fn take(&mut self, queue: &str) -> Delivery {
        match self.dequeue(queue, &format!("LOCK {HOUR}")) {
            Some(delivery) => delivery,
            None => panic!("nothing is ready in {queue}"),
        }
    }

    /// MQ.DEQUEUE … EOQ of a queue in which nothing must be ready; gives the wait.
    #[track_caller]
    pub fn poll(&mut self, queue: &str, options: &str) -> i64 {
        self.ok(&format!("MQ.DEQUEUE {queue} {options}")).int()
    }

    /// MQ.DONE of this delivery; gives what the message became.
    #[track_caller]
    pub fn done(&mut self, queue: &str, delivery: &Delivery, verdict: &str) -> String {
        match self.try_done(queue, delivery, verdict) {
            Ok(reply) => reply.text(),
            Err(error) => panic!("MQ.DONE {queue} {} {verdict}: {error}", delivery.id()),
        }
    }

    /// MQ.DONE of this delivery.
    #[track_caller]
    pub fn try_done(&mut self, queue: &str, delivery: &Delivery, verdict: &str) -> Reply {
        let mut command = vec![b"MQ.DONE".to_vec(), queue.into(), delivery.id.clone()];
        command.push(delivery.token.to_string().into_bytes());
        command.extend(words(verdict));
        self.call(&command)
    }

    /// MQ.EXTEND of this delivery.
    #[track_caller]
    pub fn extend(&mut self, queue: &str, delivery: &Delivery, ms: i64) -> Reply {
        let (id, token) = (delivery.id.clone(), delivery.token.to_string());
        let ms = ms.to_string();
        self.call(&[
            &b"MQ.EXTEND"[..],
            queue.as_bytes(),
            &id,
            token.as_bytes(),
            ms.as_bytes(),
        ])
    }

    /// MQ.STATUS.
    #[track_caller]
    pub fn status(&mut self, queue: &str, id: impl AsRef<[u8]>) -> Option<String> {
        let reply = self
            .call(&[b"MQ.STATUS", queue.as_bytes(), id.as_ref()])
            .unwrap_or_else(|error| panic!("MQ.STATUS {queue}: {error}"));
        (!reply.is_nil()).then(|| reply.text())
    }

    /// MQ.GET.
    #[track_caller]
    pub fn get(&mut self, queue: &str, id: impl AsRef<[u8]>) -> Option<Fields> {
        let reply = self
            .call(&[b"MQ.GET", queue.as_bytes(), id.as_ref()])
            .unwrap_or_else(|error| panic!("MQ.GET {queue}: {error}"));
        (!reply.is_nil()).then(|| Fields(reply.fields()))
    }

    /// MQ.GET of a message that must be there.
    #[track_caller]
    pub fn message(&mut self, queue: &str, id: impl AsRef<[u8]>) -> Fields {
        match self.get(queue, &id) {
            Some(fields) => fields,
            None => panic!("{queue} has no such message"),
        }
    }

    /// MQ.INFO of a queue that must be there.
    #[track_caller]
    pub fn info(&mut self, queue: &str) -> Fields {
        Fields(self.ok(&format!("MQ.INFO {queue}")).fields())
    }

    /// MQ.SCHEDULE with the words that come behind the name; gives the change and the next run.
    #[track_caller]
    pub fn schedule(&mut self, queue: &str, words: &str) -> (String, i64) {
        let reply = self.ok(&format!("MQ.SCHEDULE {queue} {words}"));
        let fields = reply.items();
        assert_eq!(fields.len(), 2, "{reply:?}");
        (fields[0].text(), fields[1].int())
    }

    /// MQ.SCHEDULES, all pages, by name.
    #[track_caller]
    pub fn schedules(&mut self, queue: &str) -> Vec<Fields> {
        let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let page = self.ok(&format!("MQ.SCHEDULES {queue} {cursor} COUNT 2"));
            if page.is_nil() {
                return all;
            }
            let schedules = page.items()[1].items().iter();
            all.extend(schedules.map(|one| Fields(one.fields())));
            cursor = page.items()[0].text();
            if cursor == "0" {
                all.sort_by_key(|one| one.text("name"));
                return all;
            }
        }
    }

    /// MQ.CANCEL.
    #[track_caller]
    pub fn cancel(&mut self, queue: &str, ids: &str) -> i64 {
        self.ok(&format!("MQ.CANCEL {queue} {ids}")).int()
    }

    /// When the lock of this delivery began, in Unix milliseconds on the server's clock.
    #[track_caller]
    pub fn delivered_at(&mut self, queue: &str, delivery: &Delivery) -> i64 {
        let message = self.message(queue, &delivery.id);
        assert_eq!(message.text("status").as_deref(), Some("locked"));
        message.int("due-at") - delivery.lock_ms
    }

    /// The server's digest of a key: equal digests mean equal content.
    #[track_caller]
    pub fn digest(&mut self, key: &str) -> String {
        self.ok(&format!("DEBUG DIGEST-VALUE {key}")).items()[0].text()
    }

    /// The server's clock in Unix milliseconds.
    #[track_caller]
    pub fn now(&mut self) -> i64 {
        let reply = self.ok("TIME");
        let part = |at: usize| -> i64 { reply.items()[at].text().parse().expect("a number") };
        part(0) * 1000 + part(1) / 1000
    }

    /// Waits until the server's clock shows this instant or a later one.
    #[track_caller]
    pub fn wait_for_time(&mut self, instant: i64) {
        let started = Instant::now();
        loop {
            let left = instant - self.now();
            if left <= 0 {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{left} ms are still left");
            thread::sleep(Duration::from_millis(left.unsigned_abs().min(100)));
        }
    }

    /// Waits until time alone has moved this message on.
    #[track_caller]
    pub fn wait_until_due(&mut self, queue: &str, id: &str) {
        // Once moved on, a message has no due time or is not there any more.
        if let Some(message) = self.get(queue, id) {
            self.wait_for_time(message.int("due-at"));
        }
    }

    /// Makes a message with this id and status, one of [`super::STATUSES`], in a queue with nothing
    /// else ready. Its payload is `old`, that of its waiting copy `copy`.
    #[track_caller]
    pub fn put(&mut self, queue: &str, id: &str, status: &str) {
        let delay = if status == "queued-with-backoff" {
            format!("DELAY {HOUR}")
        } else {
            String::new()
        };
        let outcome = self.enqueue(queue, "old", &format!("ID {id} {delay}"));
        assert_eq!(outcome, "added");
        if !status.starts_with("queued") {
            let delivery = self.take(queue);
            assert_eq!(delivery.id(), id);
            match status {
                "dead" => self.done(queue, &delivery, "ERROR REASON why"),
                "done-with-backoff" | "done-with-requeue" => {
                    self.done(queue, &delivery, &format!("BACKOFF {HOUR}"))
                }
                _ => String::new(),
            };
        }
        if status.ends_with("-requeue") {
            let outcome = self.enqueue(queue, "copy", &format!("ID {id} REQUEUE"));
            assert_eq!(outcome, "requeued");
        }
        assert_eq!(self.status(queue, id).as_deref(), Some(status));
    }

    /// The next reply, which must be a delivery.
    #[track_caller]
    pub fn delivery(&mut self) -> Delivery {
        match self.reply() {
            Ok(Value::Nil) => panic!("null instead of a delivery"),
            Ok(value) => Delivery::read(&value),
            Err(error) => panic!("{error}"),
        }
    }

    /// The next reply, which must be null.
    #[track_caller]
    pub fn null(&mut self) {
        match self.reply() {
            Ok(Value::Nil) => {}
            other => panic!("not null: {other:?}"),
        }
    }
}
