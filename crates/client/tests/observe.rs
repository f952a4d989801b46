//! What a worker tells its log and its metrics. One test, since both are global to the process.

mod common;

use std::{
    io,
    sync::{Arc, Mutex},
};

use common::{eventually, queue, quick, slow_down_the_next_load, MS, S};
use redis_mq_client::{EnqueueOptions, Message, Outcome};
use redis_mq_testkit::{Persistence, Server, Shutdown};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self, words: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let all = |line: &&str| words.iter().all(|word| line.contains(word));
        text.lines().filter(all).map(str::to_owned).collect()
    }

    fn count(&self, words: &[&str]) -> usize {
        self.lines(words).len()
    }
}

/// The sums of the counters, and the values of the histograms, by name and queue.
#[derive(Default)]
struct Counters(
    Mutex<std::collections::HashMap<String, Arc<metrics::atomics::AtomicU64>>>,
    Mutex<std::collections::HashMap<String, Arc<Values>>>,
);

#[derive(Default)]
struct Values(Mutex<Vec<f64>>);

impl metrics::HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

fn name_of(key: &metrics::Key) -> String {
    let labels: Vec<_> = key
        .labels()
        .map(|label| format!("{}={}", label.key(), label.value()))
        .collect();
    format!("{} {}", key.name(), labels.join(" "))
}

impl metrics::Recorder for &'static Counters {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        let name = name_of(key);
        metrics::Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }

    fn register_histogram(
        &self,
        key: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        let mut all = self.1.lock().unwrap();
        metrics::Histogram::from_arc(Arc::clone(all.entry(name_of(key)).or_default()))
    }
}

impl Counters {
    fn durations(&self, name: &str) -> Vec<f64> {
        let all = self.1.lock().unwrap();
        let name = format!("redis_mq_worker_{name}_seconds queue=q");
        let values = all.get(&name);
        values.map_or(Vec::new(), |values| values.0.lock().unwrap().clone())
    }

    fn value(&self, name: &str) -> u64 {
        let name = format!("redis_mq_worker_{name}_total queue=q");
        let counters = self.0.lock().unwrap();
        counters.get(&name).map_or(0, |counter| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_state_is_one_line_and_messages_are_counted() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let mut server = Server::builder()
        .persistence(Persistence::Rdb)
        .config("rdbcompression", "no")
        .start();
    let worker = quick(server.url(), "q")
        .size_warning(2, S(3_600))
        .sample_queue(MS(20))
        .handlers(2)
        .build(|message: Message<String>| async move {
            tracing::info!("inside");
            match message.value.as_str() {
                "late" => Outcome::RetryAfter(S(3_600)),
                "bad" => panic!("on purpose"),
                _ => Outcome::Success,
            }
        })
        .unwrap();
    // A recorder that comes after the first counts gets all later ones.
    eventually("it polls", async || worker.stats().polls > 0).await;
    let counters: &'static Counters = Box::leak(Box::default());
    metrics::set_global_recorder(counters).unwrap();
    let texts = queue::<String>(server.url(), "q").await;
    let enqueue = async |texts: &redis_mq_client::Queue<String>, id: &str| {
        let options = EnqueueOptions::new().id(id);
        assert!(texts
            .enqueue_with(&id.into(), options)
            .await
            .unwrap()
            .is_accepted());
    };
    for id in ["fine", "bad", "late", "li\nne"] {
        enqueue(&texts, id).await;
    }
    eventually("all are answered", async || {
        let stats = worker.stats();
        (stats.finished, stats.dead, stats.retried) == (2, 1, 1)
    })
    .await;
    for (name, value) in [
        ("taken", 4),
        ("finished", 2),
        ("dead", 1),
        ("retried", 1),
        ("panicked", 1),
        ("outages", 0),
    ] {
        assert_eq!(counters.value(name), value, "{name}");
    }
    assert_eq!(counters.durations("wait").len(), 4);
    assert_eq!(counters.durations("work").len(), 4);
    assert!(worker.is_connected());
    assert_eq!(
        log.count(&["message{queue=q id=fine attempt=1}", "inside"]),
        1
    );
    assert_eq!(
        log.count(&["id=li\\nne", "inside"]),
        1,
        "an id cannot forge a line"
    );
    assert_eq!(
        log.count(&["ERROR", "message{queue=q id=bad attempt=1}", "on purpose"]),
        1
    );
    assert_eq!(log.count(&["connection failed"]), 0);

    // Down for many tries, then loading for many, then back.
    slow_down_the_next_load(&server);
    server.shutdown(Shutdown::Save);
    eventually("it has noticed", async || worker.stats().outages >= 1).await;
    assert!(!worker.is_connected());
    assert!(worker.is_running());
    tokio::time::sleep(S(1)).await;
    server.start_again();
    eventually("it is back", async || {
        log.count(&["connected again", "dequeue"]) == 1
    })
    .await;
    eventually("it says so", async || worker.is_connected()).await;
    let down = log.lines(&["WARN", "connection failed, retrying", "queue=q", "dequeue"]);
    assert_eq!(down.len(), 1, "{down:?}");
    let loading = log.lines(&["WARN", "still not connected", "dequeue", "BusyLoading"]);
    assert_eq!(loading.len(), 1, "{loading:?}");
    assert!(
        log.count(&["still not connected", "dequeue"]) <= 3,
        "{:?}",
        log.lines(&["still"])
    );

    // Four wait at once: the size is warned of, once.
    let texts = queue::<String>(server.url(), "q").await;
    for n in 0..4 {
        let options = EnqueueOptions::new().id(format!("later-{n}")).delay(S(2));
        assert!(texts
            .enqueue_with(&"fine".into(), options)
            .await
            .unwrap()
            .is_accepted());
    }
    eventually("the size is warned of", async || {
        log.count(&["the queue is long"]) == 1
    })
    .await;
    let warning = log.lines(&["WARN", "the queue is long", "queue=q", "above=2"]);
    assert_eq!(warning.len(), 1, "{warning:?}");
    eventually("they are handled", async || worker.stats().finished == 6).await;
    let waits = counters.durations("wait");
    assert_eq!(waits.len(), 8);
    assert!(waits[4..].iter().all(|wait| *wait >= 2.0), "{waits:?}");
    assert_eq!(counters.durations("work").len(), 8);
    assert!(worker.stop(S(10)).await.is_clean());
    assert!(!worker.is_connected());
    assert_eq!(log.count(&["the queue is long"]), 1);
    assert_eq!(log.count(&["INFO", "worker stopped", "queue=q"]), 1);
}
