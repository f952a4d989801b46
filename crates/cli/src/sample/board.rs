//! What is known of the queues.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Order, Row};
use crate::{failure::Failure, output, reply::Fields};

/// How many queues are kept track of.
const MOST: usize = 10_000;
/// How many of the last samples of a queue are kept.
const POINTS: usize = 60;
/// How long a queue is asked more often after somebody has looked at it.
const ATTENTION: Duration = Duration::from_secs(15);
/// A queue that somebody looks at is asked no more often than that.
const WATCHED_EVERY: Duration = Duration::from_secs(1);
/// Another one is asked no more often than that.
const OTHERS_EVERY: Duration = Duration::from_secs(5);
/// How much sooner the turn of a queue comes that somebody looks at.
const PREFERENCE: u32 = 10;
/// Rates are of about that long.
const RATE_OVER: Duration = Duration::from_secs(10);

/// Shared between the sampler and those who show what it has found.
#[derive(Debug, Default)]
pub struct Board(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    queues: BTreeMap<Vec<u8>, Entry>,
    /// All queues were looked for once.
    complete: bool,
    /// There are more than are kept track of.
    more: bool,
    /// Why the server does not answer.
    error: Option<String>,
}

#[derive(Debug)]
struct Entry {
    /// When it was asked last, else when it was found.
    asked: Instant,
    watched: Option<Instant>,
    info: Option<Arc<Fields>>,
    refused: Option<String>,
    points: VecDeque<Point>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    at: Instant,
    ready: u64,
    enqueued: u64,
    done: u64,
}

/// A part of the queues, and how much is known of all.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The rows asked for.
    pub rows: Vec<Row>,
    /// How many queues match.
    pub matching: usize,
    /// How many queues there are.
    pub total: usize,
    /// How many of them have been asked once.
    pub known: usize,
    /// All queues were looked for once.
    pub complete: bool,
    /// There are more than are kept track of.
    pub more: bool,
}

impl Board {
    /// Rows `from` on, at most `most`, of the queues whose names contain that text. These are the
    /// ones that are asked more often for a while.
    pub fn show(&self, text: &str, order: Order, reverse: bool, from: usize, most: usize) -> Shown {
        let mut shown = self.all(text, order, reverse);
        shown.rows = shown.rows.into_iter().skip(from).take(most).collect();
        for row in &shown.rows {
            self.watch(&row.name);
        }
        shown
    }

    /// The rows of all queues whose names contain that text.
    pub fn all(&self, text: &str, order: Order, reverse: bool) -> Shown {
        let inner = self.inner();
        let now = Instant::now();
        let text = text.to_lowercase();
        let mut rows: Vec<Row> = inner
            .queues
            .iter()
            .filter(|(name, _)| output::name(name).to_lowercase().contains(&text))
            .map(|(name, entry)| entry.row(name, now))
            .collect();
        rows.sort_by(|one, other| order.compare(one, other));
        if reverse {
            rows.reverse();
        }
        Shown {
            matching: rows.len(),
            rows,
            total: inner.queues.len(),
            known: inner.queues.values().filter(|one| one.is_known()).count(),
            complete: inner.complete,
            more: inner.more,
        }
    }

    /// One queue, which is asked more often for a while.
    pub fn watch(&self, name: &[u8]) -> Option<Row> {
        let mut inner = self.inner();
        let now = Instant::now();
        let entry = inner.queues.get_mut(name)?;
        entry.watched = Some(now);
        Some(entry.row(name, now))
    }

    /// Why the server does not answer.
    pub fn error(&self) -> Option<String> {
        self.inner().error.clone()
    }

    /// These queues are there.
    pub fn found(&self, names: Vec<Vec<u8>>, now: Instant) {
        let mut inner = self.inner();
        inner.error = None;
        for name in names {
            if inner.queues.contains_key(&name) {
                continue;
            }
            if inner.queues.len() >= MOST {
                inner.more = true;
                break;
            }
            let entry = Entry {
                asked: now,
                watched: None,
                info: None,
                refused: None,
                points: VecDeque::new(),
            };
            inner.queues.insert(name, entry);
        }
    }

    /// All queues were looked for.
    pub fn search_is_over(&self) {
        self.inner().complete = true;
    }

    /// The queue whose turn it is, if it is any's.
    pub fn next(&self, now: Instant) -> Option<Vec<u8>> {
        let inner = self.inner();
        let urgency = |entry: &Entry| {
            let age = now.saturating_duration_since(entry.asked);
            let watched = entry.watched.is_some_and(|at| now - at < ATTENTION);
            let (every, weight) = match watched {
                true => (WATCHED_EVERY, PREFERENCE),
                false => (OTHERS_EVERY, 1),
            };
            if !entry.is_known() {
                // One that was just found has no age yet.
                return Some((age + OTHERS_EVERY) * weight);
            }
            (age >= every).then(|| age * weight)
        };
        let waiting = inner.queues.iter();
        let waiting = waiting.filter_map(|(name, entry)| Some((urgency(entry)?, name)));
        waiting.max().map(|(_, name)| name.clone())
    }

    /// What the server told of a queue.
    pub fn sampled(&self, name: &[u8], info: Fields, now: Instant) {
        let mut inner = self.inner();
        inner.error = None;
        let Some(entry) = inner.queues.get_mut(name) else {
            return;
        };
        let point = Point {
            at: now,
            ready: info.count("queued"),
            enqueued: info.count("total-enqueued"),
            done: info.count("total-done"),
        };
        // A queue of the same name may have begun anew.
        let last = entry.points.back();
        if last.is_some_and(|last| last.enqueued > point.enqueued || last.done > point.done) {
            entry.points.clear();
        }
        if entry.points.len() == POINTS {
            entry.points.pop_front();
        }
        entry.points.push_back(point);
        entry.asked = now;
        entry.refused = None;
        entry.info = Some(Arc::new(info));
    }

    /// A queue that is there no more.
    pub fn gone(&self, name: &[u8]) {
        let mut inner = self.inner();
        inner.error = None;
        inner.queues.remove(name);
    }

    /// The server does not tell of this queue.
    pub fn refused(&self, name: &[u8], failure: &Failure, now: Instant) {
        let mut inner = self.inner();
        inner.error = None;
        if let Some(entry) = inner.queues.get_mut(name) {
            entry.asked = now;
            entry.info = None;
            entry.refused = Some(failure.line().unwrap_or_default().to_owned());
            entry.points.clear();
        }
    }

    /// The server does not answer.
    pub fn failed(&self, failure: &Failure) {
        self.inner().error = Some(failure.line().unwrap_or_default().to_owned());
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing that holds it leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_known(&self) -> bool {
        self.info.is_some() || self.refused.is_some()
    }

    fn row(&self, name: &[u8], now: Instant) -> Row {
        let (rate_in, rate_out) = self.rates().unzip();
        Row {
            name: name.to_vec(),
            info: self.info.clone(),
            age: now.saturating_duration_since(self.asked),
            refused: self.refused.clone(),
            rate_in,
            rate_out,
            ready_before: self.points.iter().map(|point| point.ready).collect(),
        }
    }

    fn rates(&self) -> Option<(f64, f64)> {
        let last = self.points.back()?;
        // The one before, or the oldest that is not too old.
        let before = self.points.iter().rev().skip(1);
        let earlier = before
            .clone()
            .take_while(|point| last.at - point.at <= RATE_OVER)
            .last()
            .or_else(|| before.clone().next())?;
        let seconds = (last.at - earlier.at).as_secs_f64().max(0.001);
        let rate = |from: u64, to: u64| (to - from) as f64 / seconds;
        Some((
            rate(earlier.enqueued, last.enqueued),
            rate(earlier.done, last.done),
        ))
    }
}

#[cfg(test)]
mod tests {
    use redis_mq_client::redis::Value;

    use super::*;

    fn info(ready: i64, enqueued: i64, done: i64) -> Fields {
        let field = |name: &str, number| (Value::SimpleString(name.into()), Value::Int(number));
        let fields = Value::Map(vec![
            field("queued", ready),
            field("total-enqueued", enqueued),
            field("total-done", done),
        ]);
        Fields::read(&fields).unwrap()
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn names(board: &Board, text: &str, order: Order) -> Vec<String> {
        let shown = board.show(text, order, false, 0, 10);
        shown
            .rows
            .iter()
            .map(|row| output::name(&row.name))
            .collect()
    }

    #[test]
    fn rates_are_of_the_last_samples_and_begin_anew_with_the_queue() {
        let board = Board::default();
        let start = Instant::now();
        board.found(vec![b"q".to_vec()], start);
        let rates = || {
            let row = board.watch(b"q").unwrap();
            (row.rate_in, row.rate_out)
        };
        board.sampled(b"q", info(0, 100, 50), start);
        assert_eq!(rates(), (None, None));
        board.sampled(b"q", info(10, 120, 60), start + seconds(2));
        assert_eq!(rates(), (Some(10.0), Some(5.0)));
        board.sampled(b"q", info(10, 120, 60), start + seconds(12));
        assert_eq!(rates(), (Some(0.0), Some(0.0)));
        board.sampled(b"q", info(1, 1, 0), start + seconds(13));
        assert_eq!(rates(), (None, None));
        assert_eq!(board.watch(b"q").unwrap().ready_before, [1]);
    }

    #[test]
    fn queues_take_turns_and_those_that_are_looked_at_come_sooner() {
        let board = Board::default();
        let start = Instant::now();
        board.found(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()], start);
        let ask = |at: Instant| {
            let queue = board.next(at)?;
            board.sampled(&queue, info(0, 0, 0), at);
            Some(String::from_utf8(queue).unwrap())
        };
        let all: std::collections::BTreeSet<_> = (0..3).map(|_| ask(start).unwrap()).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(ask(start), None);
        board.watch(b"b").unwrap();
        for second in 1..5 {
            assert_eq!(ask(start + seconds(second)).as_deref(), Some("b"));
            assert_eq!(ask(start + seconds(second)), None);
        }
        // Everybody's turn comes, however long somebody looks at one.
        let at = start + seconds(12);
        let all: std::collections::BTreeSet<_> = (0..3).map(|_| ask(at).unwrap()).collect();
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn rows_are_filtered_ordered_and_counted() {
        let board = Board::default();
        let now = Instant::now();
        let found = ["mail-a", "mail-b", "other"].map(|name| name.as_bytes().to_vec());
        board.found(found.to_vec(), now);
        board.sampled(b"mail-a", info(1, 1, 0), now);
        board.sampled(b"mail-b", info(2, 2, 0), now);
        assert_eq!(
            names(&board, "", Order::Name),
            ["mail-a", "mail-b", "other"]
        );
        assert_eq!(names(&board, "MAIL", Order::Ready), ["mail-b", "mail-a"]);
        let shown = board.show("mail", Order::Name, true, 1, 1);
        assert_eq!(shown.rows[0].name, b"mail-a");
        assert_eq!((shown.matching, shown.total, shown.known), (2, 3, 2));
        board.gone(b"mail-a");
        assert_eq!(names(&board, "", Order::Dead), ["mail-b", "other"]);
    }

    #[test]
    fn the_number_of_queues_that_are_kept_is_bounded() {
        let board = Board::default();
        let names = (0..=MOST).map(|number| number.to_string().into_bytes());
        board.found(names.collect(), Instant::now());
        let shown = board.show("", Order::Name, false, 0, 1);
        assert!(shown.more && shown.total == MOST);
    }
}
