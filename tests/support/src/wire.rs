//! A connection at the level of bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::reply::Reply;
use crate::wait::PATIENCE;

/// A connection that sends and receives in separate steps, and shows replies byte for byte: for
/// blocked clients, for clients that go away, and for what only the wire tells (`*-1` or `$-1`).
#[derive(Debug)]
pub struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// Connects, in RESP2.
    ///
    /// # Panics
    ///
    /// If nothing listens there.
    #[track_caller]
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap_or_else(|error| panic!("{addr}: {error}"));
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .expect("a connected socket takes options");
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Switches to RESP3.
    #[must_use]
    #[track_caller]
    pub fn resp3(mut self) -> Self {
        self.call(&["HELLO", "3"]).expect("the server has RESP3");
        self
    }

    /// Sends one command and does not wait for its reply.
    #[track_caller]
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.send_bytes(&encode(args));
    }

    /// Sends bytes as they are: a command cut in the middle, several at once, nonsense.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream
            .get_mut()
            .write_all(bytes)
            .expect("the connection is open");
    }

    /// The next reply's bytes, nested elements included.
    ///
    /// # Errors
    ///
    /// If the connection ends first, or the reply does not come within the deadline
    /// ([`Self::deadline`]).
    pub fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_frame(&mut bytes)?;
        Ok(bytes)
    }

    /// The next reply. Errors within an array stay in it, as `Value::ServerError`.
    ///
    /// # Panics
    ///
    /// If the connection ends first or the deadline passes.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        let bytes = self
            .frame()
            .unwrap_or_else(|error| panic!("no reply: {error}"));
        if bytes[0] == b'-' {
            return Err(String::from_utf8_lossy(&bytes[1..bytes.len() - 2]).into_owned());
        }
        match redis::parse_redis_value(&bytes) {
            Ok(value) => Ok(value),
            Err(error) => panic!("not a reply: {error}: {}", bytes.escape_ascii()),
        }
    }

    /// Sends one command and gives its reply.
    #[track_caller]
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        self.send(args);
        self.reply()
    }

    /// How long [`Self::frame`] and [`Self::reply`] wait; at first [`PATIENCE`].
    pub fn deadline(&mut self, deadline: Duration) {
        self.stream
            .get_ref()
            .set_read_timeout(Some(deadline))
            .expect("a connected socket takes options");
    }

    /// Whether a reply, or the end of the connection, arrives within this time. Nothing is consumed.
    pub fn has_reply_within(&mut self, time: Duration) -> bool {
        let before = self
            .stream
            .get_ref()
            .read_timeout()
            .expect("a connected socket has options");
        self.deadline(time);
        let seen = self.stream.fill_buf().is_ok();
        self.stream
            .get_ref()
            .set_read_timeout(before)
            .expect("a connected socket takes options");
        seen
    }

    fn read_frame(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let start = bytes.len();
        self.stream.read_until(b'\n', bytes)?;
        if !bytes[start..].ends_with(b"\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = &bytes[start..];
        let kind = line[0];
        let length = || -> Option<usize> {
            let digits = line.get(1..line.len().checked_sub(2)?)?;
            std::str::from_utf8(digits).ok()?.parse().ok()
        };
        match kind {
            b'$' | b'=' | b'!' => {
                // No length is a null of RESP2 (-1): nothing follows.
                if let Some(length) = length() {
                    let from = bytes.len();
                    bytes.resize(from + length + 2, 0);
                    self.stream.read_exact(&mut bytes[from..])?;
                }
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                // Attributes come before the reply that they belong to.
                let more = usize::from(kind == b'|');
                for _ in 0..length().unwrap_or(0) * each + more {
                    self.read_frame(bytes)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// One command in the protocol's form.
fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
