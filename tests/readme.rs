//! What the pages say is so: their examples run, their links lead somewhere, and the tests that they
//! name exist.

#[path = "readme/blocks.rs"]
mod blocks;
#[path = "readme/programs.rs"]
mod programs;
#[path = "readme/session.rs"]
mod session;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use blocks::{Block, Page};
use programs::{python, Process};
use redis_mq_testkit::{
    call, module_path, server_bin, wait_until, workspace_root, FreePort, ReplyExt, Server, PATIENCE,
};
use session::Shell;

/// The pages written by hand.
const PAGES: [&str; 12] = [
    "README.md",
    "CHANGELOG.md",
    "docs/clojure.md",
    "docs/design.md",
    "docs/format.md",
    "docs/guarantees.md",
    "docs/migrating.md",
    "docs/operations.md",
    "docs/performance.md",
    "docs/recipes.md",
    "docs/security.md",
    "docs/tools.md",
];

/// Plays all sessions of a page, one after the other, on a server with the shipped configuration.
fn play(path: &'static str) {
    let page = Page::read(path);
    let server = Server::builder().shipped_conf().start();
    let Some(mut shell) = Shell::new(&server) else {
        return;
    };
    for block in page.blocks_in("console") {
        if block.is_for(server.version()) {
            shell.play(&block.text, &format!("{path}:{}", block.line));
        }
    }
}

#[test]
fn the_sessions_of_the_front_page_go_as_shown() {
    play("README.md");
}

#[test]
fn the_sessions_for_operators_go_as_shown() {
    play("docs/operations.md");
}

#[test]
fn the_sessions_of_the_recipes_go_as_shown() {
    play("docs/recipes.md");
}

#[test]
fn the_sessions_about_security_go_as_shown() {
    play("docs/security.md");
}

/// The only block of the front page in that language.
fn block_of_front_page(language: &str) -> Block {
    let mut blocks = Page::read("README.md").blocks_in(language);
    assert_eq!(blocks.len(), 1, "{language}");
    blocks.remove(0)
}

/// Waits until the queue `mails` has finished so many messages, `process` being at work on it.
fn wait_until_finished(server: &Server, process: &mut Process, messages: i64) {
    let mut conn = server.conn();
    wait_until(PATIENCE, || {
        assert!(process.runs(), "the worker has ended");
        let info = call!(conn, "MQ.INFO", "mails").unwrap();
        !info.is_nil() && info.fields()["total-done"].int() == messages
    });
}

#[test]
fn the_worker_in_python_works() {
    let Some(python) = python() else {
        return;
    };
    let server = Server::start();
    let script = server.dir().join("worker.py");
    fs::write(&script, block_of_front_page("python").text).unwrap();
    let mut process = Process::start(python, &script, &server);
    wait_until_finished(&server, &mut process, 1);
    call!(server.conn(), "MQ.ENQUEUE", "mails", "to eve").unwrap();
    wait_until_finished(&server, &mut process, 2);
}

/// The client's own tests run that example.
#[test]
fn the_worker_in_rust_is_the_example_of_the_client() {
    let example = workspace_root().join("crates/client/examples/worker.rs");
    let example = fs::read_to_string(example).unwrap();
    let code = example
        .split_once("\n\n")
        .expect("a description, then code");
    assert!(code.0.starts_with("//! "), "{}", code.0);
    assert_eq!(block_of_front_page("rust").text, code.1);
}

#[test]
fn the_shell_commands_of_the_front_page_are_right() {
    for block in Page::read("README.md").blocks_in("sh") {
        for line in block.text.lines() {
            let command = line.split(" #").next().unwrap_or_default().trim_end();
            let (program, args) = command.split_once(' ').unwrap_or((command, ""));
            match program {
                "make" => has_target(args),
                "redis-server" => starts_a_server(args),
                _ => panic!("nobody checks {command:?}"),
            }
        }
    }
}

/// The Makefile knows what to do for this; nothing is done.
fn has_target(args: &str) {
    let output = Command::new("make")
        .arg("--dry-run")
        .args(args.split_whitespace())
        .current_dir(workspace_root())
        .output()
        .expect("make can be run");
    assert!(output.status.success(), "make {args}: {output:?}");
}

/// A folder of that name in cargo's own for tests.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A server with these arguments answers. Its module is the one under test.
fn starts_a_server(args: &str) {
    let port = FreePort::claim();
    let folder = folder("started");
    let module = module_path().display().to_string();
    let child = Command::new(server_bin())
        .args(args.split_whitespace().map(|arg| {
            if arg.ends_with("libredis_mq.so") {
                module.as_str()
            } else {
                arg
            }
        }))
        .args(["--bind", "127.0.0.1", "--port", &port.number().to_string()])
        .arg("--dir")
        .arg(&folder)
        .stdout(Stdio::null())
        .spawn()
        .expect("the server can be run");
    let mut process = Process::from(child);
    let client = redis_mq_testkit::redis::Client::open(("127.0.0.1", port.number())).unwrap();
    wait_until(PATIENCE, || {
        assert!(process.runs(), "redis-server {args}: it has ended");
        let Ok(mut conn) = client.get_connection() else {
            return false;
        };
        call!(conn, "MQ.HELP").is_ok()
    });
}

#[test]
fn the_configurations_shown_start_a_server_that_has_queues() {
    for path in ["README.md", "docs/operations.md"] {
        for block in Page::read(path).blocks_in("conf") {
            let file = folder("configured").join("shown.conf");
            fs::write(&file, &block.text).unwrap();
            let server = Server::builder().conf_file(&file).start();
            call!(server.conn(), "MQ.HELP").unwrap();
            for line in block.text.lines().filter(|line| !line.starts_with('#')) {
                let (name, value) = line.split_once(' ').unwrap_or((line, ""));
                if name == "loadmodule" {
                    continue;
                }
                let is = call!(server.conn(), "CONFIG", "GET", name).unwrap();
                assert!(!is.is_nil(), "{path}:{}: {name} {value}", block.line);
            }
        }
    }
}

#[test]
fn every_block_is_of_a_kind_that_is_checked() {
    for path in PAGES {
        for block in Page::read(path).blocks() {
            let checked = match path {
                "README.md" => &["console", "conf", "python", "rust", "sh"][..],
                // The tests of the exporter's alerts let Prometheus check the YAML.
                "docs/operations.md" => &["console", "conf", "text", "yaml"],
                "docs/recipes.md" | "docs/security.md" => &["console"],
                // Its sessions are played by the tests of the command line; the text is a screen.
                "docs/tools.md" => &["console", "sh", "text"],
                // The tests of the command line run its scripts.
                "docs/migrating.md" => &["sh"],
                // No registry at hand has Carmine: its page says that its Clojure is not run.
                "docs/clojure.md" => &["clojure", "sh"],
                _ => &["text"],
            };
            let (line, language) = (block.line, block.language);
            assert!(checked.contains(&&*language), "{path}:{line}: {language}");
        }
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    for path in PAGES {
        let prose = Page::read(path).prose();
        let folder = workspace_root().join(path);
        let folder = folder.parent().unwrap();
        for link in prose
            .split("](")
            .skip(1)
            .filter_map(|s| s.split(')').next())
        {
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                workspace_root().join(path)
            } else {
                folder.join(file)
            };
            assert!(target.exists(), "{path}: {link}");
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let found = text.lines().any(|line| anchor(line) == heading);
                assert!(found, "{path}: {link} has no such heading");
            }
        }
    }
}

/// What a heading is linked by.
fn anchor(line: &str) -> String {
    let Some(heading) = line.trim_start_matches('#').strip_prefix(' ') else {
        return String::new();
    };
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let heading = heading.to_lowercase();
    heading
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn every_test_that_a_page_names_exists() {
    let mut named = 0;
    for path in PAGES {
        let prose = Page::read(path).prose();
        // In code spans, which are the odd ones between backticks: `tests/stale.rs::name`.
        for span in prose.split('`').skip(1).step_by(2) {
            let Some((file, name)) = span.split_once(".rs::") else {
                continue;
            };
            let file = format!("{file}.rs");
            let text = fs::read_to_string(workspace_root().join(&file));
            let text = text.unwrap_or_else(|error| panic!("{path}: {span}: {error}"));
            assert!(text.contains(&format!("fn {name}(")), "{path}: {span}");
            named += 1;
        }
    }
    assert!(named > 0, "the guarantees name their tests");
}

#[test]
fn the_front_page_lists_every_command() {
    let front = Page::read("README.md").text;
    let commands = Page::read("docs/commands.md").text;
    for name in commands
        .lines()
        .filter_map(|line| line.strip_prefix("### MQ."))
    {
        assert!(front.contains(&format!("| `MQ.{name}")), "MQ.{name}");
    }
}
