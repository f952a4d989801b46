//! A bad network between a client and a server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::port::FreePort;

/// How long a blocked thread of the proxy goes without looking at what is asked of it.
const TICK: Duration = Duration::from_millis(5);

/// One way through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: commands.
    ToServer,
    /// From the server to the client: replies.
    ToClient,
}

/// Forwards connections on a port of its own to a server, and misbehaves on demand. It runs on its
/// own threads, so that synchronous and asynchronous clients can use it alike.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: FreePort,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    listening: bool,
    ended: bool,
    silent: bool,
    delay: Duration,
    /// Bytes that still pass before the connection that carries the next one is cut.
    budget: [Option<usize>; 2],
    passed: [usize; 2],
    cuts: usize,
    open: Vec<TcpStream>,
}

impl Proxy {
    /// A proxy in front of `target` that forwards everything.
    pub fn start(target: SocketAddr) -> Self {
        let proxy = Self {
            shared: Arc::new(Shared {
                target,
                state: Mutex::new(State::default()),
                changed: Condvar::new(),
            }),
            port: FreePort::claim(),
        };
        proxy.resume();
        proxy
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    /// Where clients of the redis crate connect, in RESP2.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr())
    }

    /// Cuts every open connection.
    pub fn cut(&self) {
        let mut state = self.shared.lock();
        for stream in state.open.drain(..) {
            // It fails only if the peer was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
        state.cuts += 1;
    }

    /// Lets exactly `bytes` more bytes pass in that direction, over all connections, and then cuts the
    /// connection that carries the next one. Once.
    pub fn cut_after(&self, direction: Direction, bytes: usize) {
        self.shared.lock().budget[direction as usize] = Some(bytes);
    }

    /// How many times [`Self::cut`] was called or [`Self::cut_after`] came true.
    pub fn cuts(&self) -> usize {
        self.shared.lock().cuts
    }

    /// How many bytes have passed in that direction since the start.
    pub fn passed(&self, direction: Direction) -> usize {
        self.shared.lock().passed[direction as usize]
    }

    /// Holds every piece of data that long, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.shared.lock().delay = delay;
    }

    /// Accepts and keeps connections, but forwards nothing until [`Self::resume`].
    pub fn silence(&self) {
        self.shared.lock().silent = true;
    }

    /// Cuts every connection and refuses new ones until [`Self::resume`].
    pub fn refuse(&self) {
        self.shared.lock().listening = false;
        self.shared.changed.notify_all();
        self.cut();
        // The port must be closed when this returns, or a test would race with the listener.
        while TcpStream::connect(self.addr()).is_ok() {
            thread::sleep(TICK);
        }
    }

    /// Ends [`Self::silence`], [`Self::refuse`], [`Self::delay`] and a [`Self::cut_after`] that has not
    /// come true. Data that was held meanwhile is forwarded.
    pub fn resume(&self) {
        let mut state = self.shared.lock();
        state.silent = false;
        state.delay = Duration::ZERO;
        state.budget = [None; 2];
        if !state.listening {
            state.listening = true;
            let listener = TcpListener::bind(self.addr()).expect("the claimed port is free");
            listener
                .set_nonblocking(true)
                .expect("a listening socket takes options");
            let shared = Arc::clone(&self.shared);
            thread::spawn(move || shared.accept(&listener));
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.ended = true;
        state.listening = false;
        drop(state);
        self.cut();
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        while self.lock().listening {
            match listener.accept() {
                Ok((client, _)) => self.connect(client),
                Err(_) => thread::sleep(TICK),
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        // A server that refuses looks to the client like a connection that ends at once.
        let Ok(server) = TcpStream::connect(self.target) else {
            return;
        };
        let pair = [
            (&client, &server, Direction::ToServer),
            (&server, &client, Direction::ToClient),
        ];
        for (from, to, direction) in pair {
            let (Ok(from), Ok(to), Ok(open)) = (from.try_clone(), to.try_clone(), from.try_clone())
            else {
                return;
            };
            // Accepted sockets may inherit the listener's mode.
            let usable = from.set_nonblocking(false).is_ok()
                && from.set_read_timeout(Some(TICK)).is_ok()
                && from.set_nodelay(true).is_ok();
            if !usable {
                return;
            }
            self.lock().open.push(open);
            let shared = Arc::clone(self);
            thread::spawn(move || shared.pump(from, to, direction));
        }
    }

    /// Forwards one direction of one connection until either side ends it.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if is_timeout(&error) => continue,
                Err(_) => break,
            };
            let (pass, cut) = self.admit(direction, read);
            if to.write_all(&buffer[..pass]).is_err() || cut {
                break;
            }
        }
        for stream in [&from, &to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits as long as the data must be held; then how much of it passes, and whether that is all.
    fn admit(&self, direction: Direction, read: usize) -> (usize, bool) {
        let delay = self.lock().delay;
        thread::sleep(delay);
        let held = self
            .changed
            .wait_while(self.lock(), |state| state.silent && !state.ended);
        let mut state = held.expect("no holder of this lock panics");
        let way = direction as usize;
        let left = state.budget[way];
        let pass = left.map_or(read, |left| left.min(read));
        let cut = left.is_some_and(|left| left < read);
        state.budget[way] = if cut {
            None
        } else {
            left.map(|left| left - pass)
        };
        state.passed[way] += pass;
        state.cuts += usize::from(cut);
        (pass, cut)
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
