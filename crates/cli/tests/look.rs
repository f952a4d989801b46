//! `make look`: queues that live, and pages to look at them.

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use common::{site::ask, worker::signal};
use redis_mq_testkit::{module_path, server_bin, wait_until, workspace_root, PATIENCE};

struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        signal("TERM", self.0.id());
        let _ = self.0.wait();
    }
}

#[test]
fn queues_are_there_to_look_at_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(workspace_root().join("scripts/look.sh"))
        .env("MQ_MODULE", module_path())
        .env("MQ_PROGRAM", env!("CARGO_BIN_EXE_redis-mq"))
        .env("MQ_SERVER_BIN", server_bin())
        .env("LOOK_LISTEN", "127.0.0.1:0")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut script = Script(child.unwrap());
    let mut told = Vec::new();
    for line in BufReader::new(script.0.stderr.take().unwrap()).lines() {
        told.push(line.unwrap());
        if told.iter().any(|line| line.starts_with("queues at ")) {
            break;
        }
    }
    assert!(told.iter().any(|line| line.contains(" top")), "{told:?}");
    let place = told
        .last()
        .and_then(|line| line.strip_prefix("queues at http://"));
    let address = place
        .unwrap_or_else(|| panic!("{told:?}"))
        .trim_end_matches('/');
    // Work goes on, and some of it fails.
    wait_until(PATIENCE, || {
        let host = [("Host", address)];
        let page = ask(address, "GET", "/queue?name=mails&status=dead", &host, "");
        page.body.contains("no such mailbox")
    });
    signal("TERM", script.0.id());
    let mut ended = None;
    wait_until(PATIENCE, || {
        ended = script.0.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
