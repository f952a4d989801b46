//! A connection to the server: commands go out in batches, replies come back as values.

use std::time::Duration;

use redis::{Client, Connection, ConnectionLike, Value};

/// Encoded commands that wait to be sent together.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    commands: usize,
}

impl Batch {
    /// Adds one command, given as its words.
    pub fn push(&mut self, words: &[&[u8]]) {
        self.begin(words.len());
        for word in words {
            self.word(word);
        }
    }

    /// Begins a command of that many words, each to be added with [`word`](Self::word).
    pub fn begin(&mut self, words: usize) {
        self.commands += 1;
        self.header(b'*', words);
    }

    /// Adds the next word of the command that was begun.
    pub fn word(&mut self, word: &[u8]) {
        self.header(b'$', word.len());
        self.bytes.extend_from_slice(word);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, kind: u8, number: usize) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(number.to_string().as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// One connection.
pub struct Link {
    connection: Connection,
    /// What [`flush`](Self::flush) sends.
    pub batch: Batch,
}

impl Link {
    /// Connects to the server on that port of this machine.
    pub fn open(port: u16) -> Self {
        let client = Client::open(format!("redis://127.0.0.1:{port}/")).expect("a valid address");
        let connection = client.get_connection().expect("the server to be up");
        let patience = Some(Duration::from_secs(60));
        connection.set_read_timeout(patience).expect("a socket");
        Self {
            connection,
            batch: Batch::default(),
        }
    }

    /// Sends the batch and waits for all its replies.
    ///
    /// # Panics
    /// If the server reports an error: a benchmark of failing commands would measure nothing.
    pub fn flush(&mut self) -> Vec<Value> {
        let replies = self
            .connection
            .req_packed_commands(&self.batch.bytes, 0, self.batch.commands)
            .expect("a connection that holds");
        self.batch.bytes.clear();
        self.batch.commands = 0;
        replies.into_iter().map(checked).collect()
    }

    /// Sends one command and waits for its reply.
    pub fn call(&mut self, words: &[&[u8]]) -> Value {
        self.batch.push(words);
        self.flush().pop().expect("one reply to one command")
    }

    /// Sends the batch without waiting; [`receive`](Self::receive) takes the replies one by one.
    pub fn send(&mut self) {
        self.connection
            .send_packed_command(&self.batch.bytes)
            .expect("a connection that holds");
        self.batch.bytes.clear();
        self.batch.commands = 0;
    }

    /// Waits for the next reply to what [`send`](Self::send) sent.
    pub fn receive(&mut self) -> Value {
        checked(self.connection.recv_response().expect("a reply in time"))
    }

    /// One number of the server's INFO.
    pub fn info(&mut self, section: &str, field: &str) -> f64 {
        let reply = self.call(&[b"INFO", section.as_bytes()]);
        let text = String::from_utf8_lossy(&bytes(reply)).into_owned();
        text.lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("no {field} in INFO {section}"))
    }
}

fn checked(value: Value) -> Value {
    match value {
        Value::ServerError(error) => panic!("the server answered: {error:?}"),
        value => value,
    }
}

/// The bytes of a string reply.
pub fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.into_bytes(),
        Value::VerbatimString { text, .. } => text.into_bytes(),
        other => panic!("not a string: {other:?}"),
    }
}

/// The elements of an array reply; none if it is null.
pub fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Nil => Vec::new(),
        other => panic!("not an array: {other:?}"),
    }
}

/// The number of an integer reply.
pub fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => panic!("not an integer: {other:?}"),
    }
}
