//! A running `redis-mq web`, and plain HTTP to ask it.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
};

use redis_mq_testkit::{call, wait_until, ReplyExt as _, Server, PATIENCE};

use super::program;

/// It is killed when this value is dropped.
pub struct Site {
    child: Child,
    /// Where it listens, as in `127.0.0.1:9822`.
    pub address: String,
    /// What all paths begin with.
    pub base: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// The header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body, after it was found well.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.body
    }
}

impl Site {
    /// `redis-mq web` for that server on a free port.
    pub fn start(server: &Server, args: &[&str]) -> Self {
        Self::at(&server.url(), args)
    }

    /// The same for an address.
    pub fn at(url: &str, args: &[&str]) -> Self {
        let mut child = program()
            .args(["web", "--listen", "127.0.0.1:0"])
            .args(args)
            .env("REDIS_MQ_URL", url)
            .env_remove("REDIS_MQ_WEB_TOKEN")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stderr = child.stderr.as_mut().unwrap();
        BufReader::new(stderr).read_line(&mut line).unwrap();
        let place = line.trim().strip_prefix("queues at http://").unwrap();
        let (address, base) = place.split_at(place.find('/').unwrap());
        Self {
            child,
            address: address.into(),
            base: base.trim_end_matches('/').into(),
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; its exit code if it ended by itself.
    pub fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until(PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Sends what is given and reads the answer.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(&self.address, method, path, headers, body)
    }

    /// Asks for a page as a browser does.
    pub fn get(&self, path: &str) -> Answer {
        let path = format!("{}{path}", self.base);
        self.send("GET", &path, &[("Host", &self.address)], "")
    }

    /// Sends a form as one of its pages does.
    pub fn post(&self, fields: &[(&str, &str)]) -> Answer {
        let origin = format!("http://{}", self.address);
        let headers = [
            ("Host", &*self.address),
            ("Origin", &*origin),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let path = format!("{}/act", self.base);
        self.send("POST", &path, &headers, &query(fields))
    }

    /// Sends a form, and once more with the number that it was asked about.
    #[track_caller]
    pub fn post_surely(&self, fields: &[(&str, &str)], question: &str) -> Answer {
        let asked = self.post(fields).ok();
        assert!(asked.contains(question), "{asked}");
        let (_, rest) = asked.split_once("name=\"sure\" value=\"").unwrap();
        let (sure, _) = rest.split_once('"').unwrap();
        self.post(&[fields, &[("sure", sure)]].concat())
    }
}

/// Sends that to an address and reads the answer.
pub fn ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    Answer {
        status: status.parse().unwrap(),
        headers: lines.map(header).collect(),
        body: body.to_owned(),
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fields of a form or an address.
pub fn query(fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields);
    query.finish()
}

/// Makes one dead letter of that id.
pub fn bury(conn: &mut redis_mq_testkit::redis::Connection, queue: &str, id: &str, reason: &str) {
    call!(*conn, "MQ.ENQUEUE", queue, "x", "ID", id, "PRIORITY", 0).unwrap();
    let delivery = call!(*conn, "MQ.DEQUEUE", queue).unwrap();
    let token = delivery.items()[3].int();
    call!(*conn, "MQ.DONE", queue, id, token, "ERROR", "REASON", reason).unwrap();
}
