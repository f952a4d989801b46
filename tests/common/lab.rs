//! Where a test takes place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use redis_mq_testkit::{wait_until, ReplyExt, Server, ServerBuilder, PATIENCE};

use super::Client;

/// The protocol that the clients of a test speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The old one.
    Resp2,
    /// The one with maps and a null of its own.
    Resp3,
}

/// Runs a test on the server that all tests of this program share, in each protocol. The tests keep
/// apart by the names of their queues.
pub fn contract(test: impl Fn(&Lab<'_>)) {
    let server = shared();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        test(&Lab::new(&server, protocol));
    }
}

/// The same for what concerns consumers that wait: also with consumers of several queues.
pub fn contract_of_waiting(test: impl Fn(&Lab<'_>)) {
    let server = shared();
    for (protocol, several) in WAYS_TO_WAIT {
        test(&Lab {
            server: &server,
            protocol,
            several,
        });
    }
}

const WAYS_TO_WAIT: [(Protocol, bool); 3] = [
    (Protocol::Resp2, false),
    (Protocol::Resp3, false),
    (Protocol::Resp3, true),
];

/// The server that the tests which run at this moment share; it ends with the last of them.
fn shared() -> Arc<Server> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    // A test that panics while it starts the server leaves the lock usable.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(Server::start());
        *shared = Arc::downgrade(&server);
        server
    })
}

/// Runs a test on a server of its own, in each protocol, for what concerns the whole server. It
/// starts empty each time.
pub fn contract_on(builder: ServerBuilder, test: impl Fn(&Lab<'_>)) {
    run_on(builder, &WAYS_TO_WAIT[..2], test);
}

/// The same for what concerns consumers that wait.
pub fn contract_of_waiting_on(builder: ServerBuilder, test: impl Fn(&Lab<'_>)) {
    run_on(builder, &WAYS_TO_WAIT, test);
}

fn run_on(builder: ServerBuilder, ways: &[(Protocol, bool)], test: impl Fn(&Lab<'_>)) {
    let server = builder.start();
    for &(protocol, several) in ways {
        let lab = Lab {
            server: &server,
            protocol,
            several,
        };
        lab.client().ok("FLUSHALL");
        test(&lab);
    }
}

/// A server and the protocol in which to talk to it.
#[derive(Debug)]
pub struct Lab<'a> {
    /// The server.
    pub server: &'a Server,
    /// What the clients speak.
    pub protocol: Protocol,
    /// Whether those who wait do so at several queues.
    several: bool,
}

impl<'a> Lab<'a> {
    /// A server whose clients speak that protocol.
    pub fn new(server: &'a Server, protocol: Protocol) -> Self {
        Self {
            server,
            protocol,
            several: false,
        }
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.server, self.protocol)
    }

    /// A name that no key has had so far.
    pub fn queue(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("queue:{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the server offers what Redis got in that version. Valkey counts as 7.2.
    pub fn has(&self, major: u16, minor: u16) -> bool {
        self.server.version().offers_redis(major, minor)
    }

    /// The command line of a consumer that waits for a queue, alone or between two that are not there.
    pub fn wait(&self, queue: &str, options: &str) -> String {
        if self.several {
            format!("MQ.MDEQUEUE 3 {queue}:before {queue} {queue}:behind {options}")
        } else {
            format!("MQ.DEQUEUE {queue} {options}")
        }
    }

    /// A new client that waits in MQ.DEQUEUE with these options.
    #[track_caller]
    pub fn waiter(&self, queue: &str, options: &str) -> Client {
        self.waiter_in(0, queue, options)
    }

    /// A new client that waits in another database.
    #[track_caller]
    pub fn waiter_in(&self, db: u32, queue: &str, options: &str) -> Client {
        let mut client = self.client();
        client.ok(&format!("SELECT {db}"));
        self.block(&mut client, &self.wait(queue, options));
        client
    }

    /// Sends this command line from `client` and waits until the server has blocked it, or has
    /// answered already because the machine is slow.
    #[track_caller]
    pub fn block(&self, client: &mut Client, line: &str) {
        client.send(&super::words(line));
        let mut watcher = self.client();
        wait_until(PATIENCE, || {
            is_blocked(&mut watcher, client.id) || client.has_reply_within(Duration::from_millis(1))
        });
    }

    /// Whether the server has blocked this client.
    #[track_caller]
    pub fn is_blocked(&self, client: &Client) -> bool {
        is_blocked(&mut self.client(), client.id)
    }

    /// Waits until the server knows that the client of this id has gone.
    #[track_caller]
    pub fn wait_until_gone(&self, id: i64) {
        let mut watcher = self.client();
        wait_until(PATIENCE, || entry(&mut watcher, id).is_empty());
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.server.log();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!(
                "--- it failed in {:?}; the server's log:\n{tail}",
                self.protocol
            );
        }
    }
}

fn is_blocked(watcher: &mut Client, id: i64) -> bool {
    entry(watcher, id).split(' ').any(|field| {
        field
            .strip_prefix("flags=")
            .is_some_and(|flags| flags.contains('b'))
    })
}

/// A client's line in CLIENT LIST; empty if it has gone.
#[track_caller]
fn entry(watcher: &mut Client, id: i64) -> String {
    watcher.ok(&format!("CLIENT LIST ID {id}")).text()
}
