//! The metrics of a worker, told to the `metrics` facade.

use std::{
    sync::{PoisonError, RwLock},
    time::Duration,
};

use metrics::{Counter, Histogram, Key, Label, Level, Metadata, Recorder, Unit};

use super::counts::NAMES;

/// The histograms, and what they are of: how long messages wait, and how long handlers work.
const DURATIONS: [(&str, &str); 2] = [
    (
        "redis_mq_worker_wait_seconds",
        "From a message's enqueue to its first delivery, by the server's clock",
    ),
    (
        "redis_mq_worker_work_seconds",
        "From the begin of a handler to its end",
    ),
];

/// The metrics of the `metrics` facade, registered with the recorder of the moment: a program
/// may install its recorder after its workers have begun to count.
#[derive(Debug)]
pub(super) struct Recorded {
    queue: String,
    registered: RwLock<Registered>,
}

#[derive(Debug, Default)]
struct Registered {
    /// Which recorder they are registered with.
    with: Option<Identity>,
    counters: Vec<Counter>,
    durations: Vec<Histogram>,
}

/// The address and the size of a recorder tell it from the one that does nothing, and from
/// another one.
type Identity = (usize, usize);

fn identity(recorder: &dyn Recorder) -> Identity {
    let address = std::ptr::from_ref(recorder).cast::<()>().addr();
    (address, std::mem::size_of_val(recorder))
}

/// Whether the program has a recorder.
pub(super) fn is_installed() -> bool {
    metrics::with_recorder(is_real)
}

/// The recorder that stands in for none has no size. One of the program's that has none either is
/// in a box, and therefore without a place in memory: its address is its alignment.
fn is_real(recorder: &dyn Recorder) -> bool {
    let (address, size) = identity(recorder);
    size > 0 || address == std::mem::align_of_val(recorder)
}

impl Recorded {
    pub(super) fn new(queue: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            registered: RwLock::default(),
        }
    }

    pub(super) fn add(&self, count: usize, n: u64) {
        self.with(|registered| registered.counters[count].increment(n));
    }

    pub(super) fn waited(&self, time: Duration) {
        self.with(|registered| registered.durations[0].record(time));
    }

    pub(super) fn worked(&self, time: Duration) {
        self.with(|registered| registered.durations[1].record(time));
    }

    /// Does that with what is registered with the recorder of the moment.
    fn with(&self, act: impl Fn(&Registered)) {
        metrics::with_recorder(|recorder| {
            let identity = identity(recorder);
            {
                let registered = self.registered.read();
                let registered = registered.unwrap_or_else(PoisonError::into_inner);
                if registered.with == Some(identity) {
                    return act(&registered);
                }
            }
            let registered = self.register(recorder, identity);
            act(&registered);
            *self
                .registered
                .write()
                .unwrap_or_else(PoisonError::into_inner) = registered;
        });
    }

    fn register(&self, recorder: &dyn Recorder, identity: Identity) -> Registered {
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        let key = |name: &'static str| {
            let labels = vec![Label::new("queue", self.queue.clone())];
            Key::from_parts(name, labels)
        };
        let counter = |(name, help): &(&'static str, &'static str)| {
            recorder.describe_counter((*name).into(), None, (*help).into());
            recorder.register_counter(&key(name), &metadata)
        };
        let duration = |(name, help): &(&'static str, &'static str)| {
            recorder.describe_histogram((*name).into(), Some(Unit::Seconds), (*help).into());
            recorder.register_histogram(&key(name), &metadata)
        };
        Registered {
            with: Some(identity),
            counters: NAMES.iter().map(counter).collect(),
            durations: DURATIONS.iter().map(duration).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_recorder_is_told_from_one_without_size() {
        assert!(!is_installed());
        let boxed: Box<dyn Recorder> = Box::new(metrics::NoopRecorder);
        assert!(is_real(&*boxed));
        let sized: Box<dyn Recorder> = Box::new(Box::new(metrics::NoopRecorder));
        assert!(is_real(&*sized));
    }
}
