//! Clients of other languages go through the main circle: enqueue, take, extend, retry, fail, wait.

use std::path::PathBuf;
use std::process::Command;

use redis_mq_testkit::{workspace_root, Server};

/// Whether there is such a program; if not, says that the test is left out.
fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("left out: this machine has no {program}");
    }
    there
}

/// Installs the clients of a language and gives the folder they are in.
fn clients(language: &str) -> PathBuf {
    let script = workspace_root().join("scripts/clients.sh");
    run(Command::new(script).arg(language));
    workspace_root().join(".deps/clients").join(language)
}

/// Runs a program that must succeed; gives what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program can be run");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    out.into_owned()
}

#[test]
fn redis_py_goes_through_the_circle_in_both_protocols() {
    if !is_there("python3") {
        return;
    }
    let python = clients("python").join("bin/python");
    let server = Server::start();
    for protocol in ["2", "3"] {
        let said = run(Command::new(&python)
            .arg(workspace_root().join("tests/languages/circle.py"))
            .args([&server.port().to_string(), protocol]));
        assert_eq!(said.trim(), "done");
    }
}

#[test]
fn node_redis_and_ioredis_go_through_the_circle() {
    if !is_there("node") {
        return;
    }
    // Node looks for packages beside the script.
    let folder = clients("node");
    let script = folder.join("circle.mjs");
    std::fs::copy(workspace_root().join("tests/languages/circle.mjs"), &script)
        .expect("the script can be copied");
    let server = Server::start();
    for (client, protocol) in [("redis", "2"), ("redis", "3"), ("ioredis", "2")] {
        let said = run(Command::new("node").arg(&script).args([
            client,
            &server.port().to_string(),
            protocol,
        ]));
        assert_eq!(said.trim(), "done");
    }
}

#[test]
fn the_command_line_client_goes_through_the_circle_in_both_protocols() {
    let server = Server::start();
    for protocol in ["-2", "-3"] {
        let ask = |line: &str| {
            // Clients before version 7 know only the protocol that is not the default.
            let version = (protocol == "-3").then_some(protocol);
            let words = line.split(' ');
            let output = server.cli(version.into_iter().chain(words))?;
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).expect("text");
            Some(text.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let Some(added) = ask("MQ.ENQUEUE q payload ID a") else {
            eprintln!("left out: this machine has no redis-cli");
            return;
        };
        let said = |line: &str| ask(line).unwrap_or_default();
        assert_eq!(added, ["added", "a"]);
        let delivery = said("MQ.DEQUEUE q BLOCK 0 LOCK 60000");
        assert_eq!(delivery[..3], ["a", "payload", "1"]);
        let token = &delivery[3];
        assert_eq!(said("MQ.STATUS q a"), ["locked"]);
        let stale = said("MQ.DONE q a 1");
        assert!(stale[0].starts_with("STALE "), "{stale:?}");
        assert_eq!(said(&format!("MQ.DONE q a {token} RETRY")), ["queued"]);
        let again = said("MQ.DEQUEUE q BLOCK 0");
        assert_eq!(said(&format!("MQ.DONE q a {}", again[3])), ["done"]);
        assert_eq!(said("MQ.DEQUEUE q BLOCK 1"), [""]);
        assert!(said("MQ.HELP")[0].starts_with("MQ."));
        assert_eq!(said("DEL q"), ["1"]);
    }
}
