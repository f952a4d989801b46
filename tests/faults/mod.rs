//! What the tests of faults share: queues as a client sees them, random operations, a ledger of what
//! was promised, and a clock that can be stepped.

#![allow(dead_code)] // each test program uses its own part of this

pub mod aof;
pub mod clock;
pub mod ledger;
pub mod mix;
pub mod roles;
pub mod scene;
pub mod workers;

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use redis_mq_testkit::redis::Connection;
use redis_mq_testkit::{call, wait_until, Reply, ReplyExt, Server, ServerBuilder, Value, PATIENCE};

/// A lock or delay that no test lives to see the end of, in milliseconds.
pub const LONG_MS: u64 = 36_000_000;

/// A server whose exponential backoffs are over in a moment.
pub fn builder() -> ServerBuilder {
    Server::builder().module_args(["backoff-factor-ms", "1", "backoff-max-ms", "20"])
}

/// One hand-over of a message, as MQ.DEQUEUE replies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: Vec<u8>,
    pub payload: Vec<u8>,
    pub attempt: i64,
    pub token: i64,
    pub lock_ms: i64,
    pub enqueued_at: i64,
}

impl Delivery {
    /// Reads one delivery. Panics with the value if it is none.
    #[track_caller]
    pub fn of(value: &Value) -> Self {
        let fields = value.items();
        assert!(fields.len() >= 6, "not a delivery: {value:?}");
        Self {
            id: fields[0].bytes().to_vec(),
            payload: fields[1].bytes().to_vec(),
            attempt: fields[2].int(),
            token: fields[3].int(),
            lock_ms: fields[4].int(),
            enqueued_at: fields[5].int(),
        }
    }

    /// The id as text.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }
}

/// Enqueues under an id and gives the outcome's word.
#[track_caller]
pub fn enqueue(conn: &mut Connection, queue: &str, id: &str, options: &[&str]) -> String {
    let payload = format!("payload of {id}");
    let reply = call!(*conn, "MQ.ENQUEUE", queue, payload, "ID", id, options);
    let reply = reply.unwrap_or_else(|error| panic!("MQ.ENQUEUE {queue} {id}: {error}"));
    reply.items()[0].text()
}

/// Enqueues `count` messages, named `<prefix>0` and so on, in pipelines.
#[track_caller]
pub fn enqueue_many(
    conn: &mut Connection,
    queue: &str,
    prefix: &str,
    count: usize,
    options: &[&str],
) {
    for start in (0..count).step_by(5_000) {
        let mut pipeline = redis_mq_testkit::redis::pipe();
        for number in start..count.min(start + 5_000) {
            pipeline
                .cmd("MQ.ENQUEUE")
                .arg(queue)
                .arg("payload of forty bytes, more or less, yes");
            pipeline
                .arg("ID")
                .arg(format!("{prefix}{number}"))
                .arg(options)
                .ignore();
        }
        pipeline.exec(conn).expect("the server takes messages");
    }
}

/// Takes one message if one is ready.
#[track_caller]
pub fn dequeue(conn: &mut Connection, queue: &str, options: &[&str]) -> Option<Delivery> {
    let reply = call!(*conn, "MQ.DEQUEUE", queue, options);
    let reply = reply.unwrap_or_else(|error| panic!("MQ.DEQUEUE {queue}: {error}"));
    (!reply.is_nil()).then(|| Delivery::of(&reply))
}

/// Takes up to `count` messages.
#[track_caller]
pub fn dequeue_many(
    conn: &mut Connection,
    queue: &str,
    count: usize,
    options: &[&str],
) -> Vec<Delivery> {
    let reply = call!(*conn, "MQ.DEQUEUE", queue, "COUNT", count, options);
    let reply = reply.unwrap_or_else(|error| panic!("MQ.DEQUEUE {queue}: {error}"));
    if reply.is_nil() {
        return Vec::new();
    }
    reply.items().iter().map(Delivery::of).collect()
}

/// Ends a delivery.
pub fn done(conn: &mut Connection, queue: &str, delivery: &Delivery, verdict: &[&str]) -> Reply {
    call!(
        *conn,
        "MQ.DONE",
        queue,
        &delivery.id,
        delivery.token,
        verdict
    )
}

/// The status of an id; none if there is no such message.
#[track_caller]
pub fn status(conn: &mut Connection, queue: &str, id: impl AsRef<[u8]>) -> Option<String> {
    let reply = call!(*conn, "MQ.STATUS", queue, id.as_ref()).expect("MQ.STATUS answers");
    (!reply.is_nil()).then(|| reply.text())
}

/// The numbers of MQ.INFO; empty if there is no such queue.
#[track_caller]
pub fn counters(conn: &mut Connection, queue: &str) -> BTreeMap<String, i64> {
    let reply = call!(*conn, "MQ.INFO", queue).expect("MQ.INFO answers");
    if reply.is_nil() {
        return BTreeMap::new();
    }
    let numbers = reply
        .fields()
        .into_iter()
        .filter_map(|(name, value)| match value {
            Value::Int(number) => Some((name, number)),
            Value::Boolean(flag) => Some((name, i64::from(flag))),
            _ => None,
        });
    numbers.collect()
}

/// One number of MQ.INFO.
#[track_caller]
pub fn counter(conn: &mut Connection, queue: &str, name: &str) -> i64 {
    let all = counters(conn, queue);
    *all.get(name)
        .unwrap_or_else(|| panic!("no {name} in MQ.INFO {queue}: {all:?}"))
}

/// What MQ.INFO says, without what differs from moment to moment and the shared wait, which is not kept.
#[track_caller]
pub fn stable_counters(conn: &mut Connection, queue: &str) -> BTreeMap<String, String> {
    let volatile = [
        "next-due-ms",
        "oldest-queued-ms",
        "eoq-backoff-ms",
        "ndry-runs",
        "total-full",
    ];
    let mut fields = call!(*conn, "MQ.INFO", queue)
        .expect("MQ.INFO answers")
        .fields();
    fields.retain(|name, _| !volatile.contains(&&name[..]));
    fields
        .into_iter()
        .map(|(name, value)| (name, format!("{value:?}")))
        .collect()
}

/// The server's digest of everything it holds.
#[track_caller]
pub fn dataset_digest(conn: &mut Connection) -> String {
    call!(*conn, "DEBUG", "DIGEST")
        .expect("the kit's servers allow DEBUG")
        .text()
}

/// Lets time do what is due in a small queue, rather than wait until it does so by itself. It has to
/// before a message is enqueued, which comes behind all that have become ready by then.
#[track_caller]
pub fn let_time_act(conn: &mut Connection, queue: &str) {
    assert_eq!(enqueue(conn, queue, "for a moment", &[]), "added");
    call!(*conn, "MQ.CANCEL", queue, "for a moment").expect("MQ.CANCEL answers");
}

/// Waits until a status is this one.
#[track_caller]
pub fn wait_for_status(conn: &mut Connection, queue: &str, id: &str, expected: Option<&str>) {
    wait_until(PATIENCE, || status(conn, queue, id).as_deref() == expected);
}

/// One field of INFO as a number.
#[track_caller]
pub fn server_number(server: &Server, section: &str, field: &str) -> i64 {
    let text = server.info(section, field);
    text.as_ref()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("INFO {section} has {field}: {text:?}"))
}

/// Random numbers of this test, from `MQ_SEED` if that is set. The seed is printed, which the test
/// runner shows if the test fails.
pub fn random() -> SmallRng {
    let seed = env::var("MQ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| SmallRng::from_os_rng().random());
    println!("MQ_SEED={seed}");
    SmallRng::seed_from_u64(seed)
}

/// How often to repeat: `usual` times, or fifty times that with `MQ_SOAK=1`.
pub fn rounds(usual: usize) -> usize {
    if soaking() {
        usual * 50
    } else {
        usual
    }
}

/// Whether the long versions are wanted.
pub fn soaking() -> bool {
    env::var_os("MQ_SOAK").is_some_and(|value| value == "1")
}

/// A number of milliseconds as a duration.
pub fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}
