//! docs/tools.md is right: its sessions go as shown, and no command is missing.

mod common;

use std::{fs, process::Command};

use common::program;
use redis_mq_testkit::{workspace_root, Server};

fn page() -> String {
    fs::read_to_string(workspace_root().join("docs/tools.md")).unwrap()
}

/// The blocks of the page in that language, each with the line that it begins in.
fn blocks(language: &str) -> Vec<(usize, String)> {
    let (text, fence) = (page(), format!("```{language}"));
    let mut lines = text.lines().enumerate();
    let mut blocks = Vec::new();
    while let Some((at, line)) = lines.next() {
        if line == fence {
            let body = lines.by_ref().map(|(_, line)| line);
            let body: Vec<_> = body.take_while(|line| *line != "```").collect();
            blocks.push((at + 2, body.join("\n")));
        }
    }
    assert!(!blocks.is_empty(), "no block of {language}");
    blocks
}

/// Commands with the output that is shown for each. A command goes on after a backslash, and up to
/// the end of its document.
fn steps(session: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in session.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.into(), String::new())),
            (None, Some((command, _))) if goes_on(command) => {
                *command += "\n";
                *command += line;
            }
            (None, Some((_, output))) => {
                *output += line;
                *output += "\n";
            }
            (None, None) => panic!("an output without a command: {line}"),
        }
    }
    steps
}

fn goes_on(command: &str) -> bool {
    command.ends_with('\\') || (command.contains("<<'END'") && !command.ends_with("\nEND"))
}

/// Whether the line is the one shown, in which `…` stands for anything.
fn is_shown(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = true;
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        open &= part.is_empty();
    }
    open || rest.is_empty()
}

#[test]
fn the_sessions_go_as_shown() {
    let server = Server::builder().shipped_conf().start();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_redis-mq"));
    let folder = program.parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let work = server.dir().join("page");
    fs::create_dir_all(&work).unwrap();
    for (line, session) in blocks("console") {
        for (command, shown) in steps(&session) {
            let output = Command::new("bash")
                .args(["-c", &command])
                .current_dir(&work)
                .env("PATH", &path)
                .env("HOME", &work)
                .env_remove("XDG_CONFIG_HOME")
                .env_remove("REDIS_MQ_CONTEXTS")
                .env("REDIS_MQ_URL", server.url())
                .output()
                .unwrap();
            let mut got = String::from_utf8_lossy(&output.stdout).into_owned();
            got += &String::from_utf8_lossy(&output.stderr);
            let same = shown.lines().count() == got.lines().count()
                && shown
                    .lines()
                    .zip(got.lines())
                    .all(|(shown, got)| is_shown(shown, got));
            assert!(
                same,
                "line {line}: $ {command}\n--- shown:\n{shown}\n--- got:\n{got}"
            );
        }
    }
}

#[test]
fn every_command_and_every_option_of_its_own_is_described() {
    let help = |args: &[&str]| -> String {
        let ended: common::Ended = program().args(args).output().unwrap().into();
        ended.ok()
    };
    let text = page();
    let all = help(&["--help"]);
    let (_, rest) = all.split_once("Commands:\n").unwrap();
    let commands = rest
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help");
    let mut seen = 0;
    for command in commands {
        seen += 1;
        let heading = format!("\n### {command}\n");
        let (_, section) = text
            .split_once(&heading)
            .unwrap_or_else(|| panic!("{heading}"));
        let section = section.split("\n## ").next().unwrap_or_default();
        let section = section.split("\n### ").next().unwrap_or_default();
        assert!(
            section.contains(&format!("$ redis-mq {command}")) || section.contains("```"),
            "{command} has no example"
        );
    }
    assert!(seen > 10, "{all}");
}

#[test]
fn dots_stand_for_anything_in_their_line() {
    for (shown, line, same) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a …", "a bc", true),
        ("a … c", "a b c", true),
        ("a … c", "a b d", false),
        ("… ago", "1s ago", true),
        ("… ago", "1s ago!", false),
    ] {
        assert_eq!(is_shown(shown, line), same, "{shown} / {line}");
    }
}
