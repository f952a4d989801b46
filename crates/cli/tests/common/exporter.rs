//! A running `redis-mq exporter`, and promtool.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use redis_mq_testkit::{promtool_bin, PATIENCE};

use super::{program, Ended};

/// It is killed when this value is dropped.
pub struct Exporter {
    pub child: Child,
    pub address: String,
}

impl Exporter {
    /// `redis-mq exporter` for that server, on a free port.
    pub fn start(url: &str, args: &[&str]) -> Self {
        let mut child = program()
            .args(["exporter", "--listen", "127.0.0.1:0", "--discover", "1ms"])
            .args(args)
            .env("REDIS_MQ_URL", url)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stderr = child.stderr.as_mut().unwrap();
        BufReader::new(stderr).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("metrics at http://").unwrap();
        let address = address.strip_suffix("/metrics").unwrap().to_owned();
        Self { child, address }
    }

    /// The head and the body of an answer.
    pub fn get(&self, path: &str, headers: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// The metrics as all that reads metrics gets them.
    pub fn metrics(&self) -> String {
        let (head, body) = self.get("/metrics", "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        body
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of that sample.
pub fn value(metrics: &str, sample: &str) -> Option<f64> {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

/// Runs promtool in that folder, which holds what its input is written to.
pub fn promtool(folder: &Path, args: &[&str], input: &str) -> Ended {
    let file = folder.join("promtool-input");
    fs::write(&file, input).unwrap();
    let output = Command::new(promtool_bin())
        .args(args)
        .current_dir(folder)
        .stdin(fs::File::open(&file).unwrap())
        .output()
        .expect("it can be run");
    output.into()
}
