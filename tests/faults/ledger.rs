//! What producers and consumers were told, and whether it all holds together in the end.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Delivery;

/// Whole milliseconds are cut off twice on the way from the server's clock to a deadline.
const ROUNDING: Duration = Duration::from_millis(2);

/// What the servers' settings promise to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Every step that was acknowledged.
    Everything,
    /// What was confirmed by a replica: a failover may forget other steps.
    Confirmed,
}

/// Collects from many threads. Ids must be used once only.
#[derive(Debug, Default)]
pub struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    attempted: HashMap<String, Instant>,
    /// The messages of each group, in the order in which they were sent.
    groups: HashMap<String, Vec<String>>,
    accepted: HashSet<String>,
    deliveries: HashMap<String, Vec<Handed>>,
    finished: HashMap<String, i64>,
    given_back: HashSet<i64>,
    latencies: Vec<Duration>,
    stale: usize,
}

#[derive(Clone, Copy, Debug)]
struct Handed {
    attempt: i64,
    token: i64,
    lock: Duration,
    asked: Instant,
    got: Instant,
}

/// How much happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Enqueues that were sent.
    pub attempted: usize,
    /// Enqueues that were acknowledged.
    pub accepted: usize,
    /// Deliveries that arrived.
    pub delivered: usize,
    /// Messages whose DONE was acknowledged.
    pub finished: usize,
    /// Verdicts that came too late.
    pub stale: usize,
}

impl Ledger {
    /// An enqueue is about to be sent, behind all of its group that were sent before.
    pub fn enqueuing(&self, id: &str, group: Option<&str>) {
        let mut state = self.lock();
        if let Some(group) = group {
            let sent = state.groups.entry(group.to_string()).or_default();
            sent.push(id.to_string());
        }
        let new = state
            .attempted
            .insert(id.to_string(), Instant::now())
            .is_none();
        assert!(new, "the id {id} is used twice by the test");
    }

    /// An enqueue was acknowledged, and confirmed if that counts.
    pub fn accepted(&self, id: &str) {
        self.lock().accepted.insert(id.to_string());
    }

    /// A delivery arrived that was asked for at `asked`.
    pub fn handed(&self, delivery: &Delivery, asked: Instant) {
        let mut state = self.lock();
        let name = delivery.name();
        if delivery.attempt == 1 {
            if let Some(sent) = state.attempted.get(&name).copied() {
                state.latencies.push(sent.elapsed());
            }
        }
        let lock =
            Duration::from_millis(u64::try_from(delivery.lock_ms).expect("no lock is negative"));
        state.deliveries.entry(name).or_default().push(Handed {
            attempt: delivery.attempt,
            token: delivery.token,
            lock,
            asked,
            got: Instant::now(),
        });
    }

    /// A verdict is about to be sent that lets others have the message before its lock ends.
    pub fn giving_back(&self, delivery: &Delivery) {
        self.lock().given_back.insert(delivery.token);
    }

    /// A success was acknowledged, and confirmed if that counts.
    pub fn finished(&self, delivery: &Delivery) {
        self.lock().finished.insert(delivery.name(), delivery.token);
    }

    /// A verdict was refused because its token is not the newest.
    pub fn stale(&self) {
        self.lock().stale += 1;
    }

    /// How much happened so far.
    pub fn totals(&self) -> Totals {
        let state = self.lock();
        Totals {
            attempted: state.attempted.len(),
            accepted: state.accepted.len(),
            delivered: state.deliveries.values().map(Vec::len).sum(),
            finished: state.finished.len(),
            stale: state.stale,
        }
    }

    /// How many messages were sent and not yet ended.
    pub fn unfinished(&self) -> usize {
        let state = self.lock();
        state.attempted.len().saturating_sub(state.finished.len())
    }

    /// The time from a producer's sending to the first delivery, by rank: 0.5 is the median.
    pub fn latency(&self, rank: f64) -> Option<Duration> {
        let mut all = self.lock().latencies.clone();
        all.sort_unstable();
        let last = all.len().checked_sub(1)?;
        Some(all[(last as f64 * rank) as usize])
    }

    /// Checks, once the queue has run empty, that nothing was lost, made up, held by two, delivered after
    /// its end, or out of its group's order.
    ///
    /// # Panics
    ///
    /// With what does not hold together.
    #[track_caller]
    pub fn check(&self, kept: Kept) {
        let state = self.lock();
        let mut faults = Vec::new();
        for id in &state.accepted {
            if !state.deliveries.contains_key(id) && !state.finished.contains_key(id) {
                faults.push(format!("{id} was accepted and never delivered"));
            }
        }
        let mut tokens = HashMap::new();
        for (id, handed) in &state.deliveries {
            if !state.attempted.contains_key(id) {
                faults.push(format!("{id} was delivered and never enqueued"));
            }
            for one in handed {
                if let Some(other) = tokens.insert(one.token, id) {
                    faults.push(format!("token {} of {id} and of {other}", one.token));
                }
            }
            let mut handed = handed.clone();
            handed.sort_by_key(|one| one.token);
            if let Some(&last) = state.finished.get(id) {
                for one in handed.iter().filter(|one| one.token > last) {
                    faults.push(format!("{id}: {one:?} after it was finished with {last}"));
                }
            }
            if kept == Kept::Everything {
                let pairs = handed.windows(2).map(|pair| (pair[0], pair[1]));
                faults.extend(pairs.filter_map(|(one, next)| state.conflict(id, one, next)));
            }
        }
        if kept == Kept::Everything {
            faults.extend(
                state
                    .groups
                    .values()
                    .filter_map(|sent| state.disorder(sent)),
            );
        }
        assert!(
            faults.is_empty(),
            "{} faults, the first of them:\n{}",
            faults.len(),
            faults[..faults.len().min(20)].join("\n")
        );
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no holder of this lock panics, except in a test that failed")
    }
}

impl State {
    /// The first of a group's messages that was delivered after one behind it.
    fn disorder(&self, sent: &[String]) -> Option<String> {
        let handed = sent.iter().enumerate().flat_map(|(at, id)| {
            let deliveries = self.deliveries.get(id).into_iter().flatten();
            deliveries.map(move |one| (one.token, at, id))
        });
        let mut handed: Vec<_> = handed.collect();
        handed.sort_unstable();
        let pairs = handed.windows(2).map(|pair| (pair[0], pair[1]));
        let mut wrong = pairs.filter(|(one, next)| next.1 < one.1);
        wrong.next().map(|(one, next)| {
            format!(
                "{}, with {}, was delivered before {}, with {}",
                one.2, one.0, next.2, next.0
            )
        })
    }

    /// What is wrong between two deliveries of one message, in the order of their tokens.
    fn conflict(&self, id: &str, one: Handed, next: Handed) -> Option<String> {
        // The attempt of a delivery that was given back may not have counted.
        let given_back = self.given_back.contains(&one.token);
        if next.attempt < one.attempt + i64::from(!given_back) {
            return Some(format!(
                "{id}: the attempt of {one:?} is forgotten in {next:?}"
            ));
        }
        // The server locked the first after it was asked for it, and delivered the second before that
        // was received: so far apart they must be at least.
        let early = next.got + ROUNDING < one.asked + one.lock;
        (early && !given_back)
            .then(|| format!("{id}: {next:?} was handed over before the lock of {one:?} ended"))
    }
}
