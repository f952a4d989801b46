//! What the tests of the command line share.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub mod carmine;
pub mod exporter;
pub mod site;
pub mod worker;

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use redis_mq_testkit::Server;

/// The program under test, away from the contexts and the server of whoever runs the tests.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redis-mq"));
    command
        .env("REDIS_MQ_CONTEXTS", "/nonexistent/contexts.json")
        .env_remove("REDIS_MQ_URL")
        .stdin(Stdio::null());
    command
}

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Its standard output, after it has succeeded without a word of error.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, &*self.err), (0, ""), "{self:?}");
        self.out
    }

    /// Its one line of error, after it has failed with that code.
    #[track_caller]
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        self.err
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it ended by itself"),
            out: String::from_utf8(output.stdout).expect("it writes UTF-8"),
            err: String::from_utf8(output.stderr).expect("it writes UTF-8"),
        }
    }
}

/// Calls the program on this address.
pub fn call_at(url: &str, args: &[&str], input: &str) -> Ended {
    let mut child = program()
        .args(args)
        .env("REDIS_MQ_URL", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // A program that does not read its input may be gone already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends").into()
}

/// Calls the program on this server.
pub fn call_with(server: &Server, args: &[&str], input: &str) -> Ended {
    call_at(&server.url(), args, input)
}

/// Calls the program on this server with nothing to read.
pub fn run(server: &Server, args: &[&str]) -> Ended {
    call_with(server, args, "")
}

/// The lines of `--json` as values.
pub fn objects(text: &str) -> Vec<serde_json::Value> {
    let parse = |line| serde_json::from_str(line).expect("every line is an object");
    text.lines().map(parse).collect()
}
