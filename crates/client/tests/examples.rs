//! The examples run, and say what they should.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use redis_mq_testkit::{
    module_path, server_bin, wait_until, workspace_root, Cluster, Server, PATIENCE,
};

/// The folder with the examples, built from the sources as they are: where only this test is run,
/// cargo has not built them. All of the workspace is named, so that what the run of all tests has built
/// serves here too: another choice of packages has other features.
fn examples() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let name = match profile.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let output = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--examples"])
            .args(["--profile", name, "--target-dir"])
            .arg(profile.parent().unwrap())
            .current_dir(workspace_root())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        profile.join("examples")
    })
}

/// A running example.
struct Example {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    said: String,
}

impl Example {
    fn start(name: &str, variable: &str, value: &str) -> Self {
        let mut command = Command::new(examples().join(name));
        command.env(variable, value).env("LISTEN", "127.0.0.1:0");
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            output,
            said: String::new(),
        }
    }

    /// Reads until a line has these words; gives that line.
    fn line_with(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(
                read > 0,
                "it ended without saying \"{words}\":\n{}",
                self.said
            );
            self.said.push_str(&line);
            if line.contains(words) {
                return line.trim_end().to_owned();
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill")
            .args([name, &pid])
            .status()
            .unwrap()
            .success());
    }

    /// All that it said, once it has ended with success.
    fn end(mut self) -> String {
        self.output.read_to_string(&mut self.said).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}:\n{}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // Both fail for one that has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_smallest_worker_handles_its_message_and_stops_at_sigterm() {
    let server = Server::start();
    let mut worker = Example::start("worker", "REDIS_URL", &server.url());
    assert_eq!(
        worker.line_with("mail:2, attempt"),
        "mail:2, attempt 1: to bob"
    );
    worker.signal("-TERM");
    assert!(worker.end().contains("left unfinished: []"));
}

#[test]
fn retries_follow_their_policy() {
    let server = Server::start();
    let said = Example::start("retries", "REDIS_URL", &server.url()).end();
    for line in [
        "fine was sent at attempt 1",
        "flaky was sent at attempt 2",
        "hopeless is dead after 1: forty-four is no number",
        "down is dead after 4: gave up after 4 attempts: the mail server is down",
        "left: 0",
    ] {
        assert!(said.contains(line), "{line} is missing in:\n{said}");
    }
}

#[test]
fn a_debounce_handles_the_newest_content_once() {
    let server = Server::start();
    let said = Example::start("debounce", "REDIS_URL", &server.url()).end();
    assert!(said.contains("revision 1: Added"), "{said}");
    assert!(said.contains("revision 2: Updated"), "{said}");
    assert!(said.contains("indexed: revision "), "{said}");
    assert!(said.contains("left: 0"), "{said}");
}

#[test]
fn a_graceful_stop_leaves_nothing() {
    let server = Server::start();
    let mut stopping = Example::start("graceful_stop", "REDIS_URL", &server.url());
    stopping.line_with("converting video");
    stopping.signal("-INT");
    let said = stopping.end();
    assert!(
        said.contains("left unfinished: []\nleft unanswered: []"),
        "{said}"
    );
}

#[test]
fn a_cluster_serves_each_queue_on_its_node() {
    let cluster = Cluster::start(3, 0);
    let nodes: Vec<_> = cluster.primaries().iter().map(Server::url).collect();
    let said = Example::start("cluster", "REDIS_CLUSTER", &nodes.join(",")).end();
    for name in ["mails", "invoices", "images"] {
        assert!(said.contains(&format!("{name}: Added")), "{said}");
        assert!(said.contains(&format!("{name}: left 0")), "{said}");
    }
}

#[test]
fn a_web_service_enqueues_each_order_once() {
    let server = Server::start();
    let mut service = Example::start("axum_service", "REDIS_URL", &server.url());
    let line = service.line_with("listening on ");
    let address = line.strip_prefix("listening on ").unwrap().to_owned();
    let order = || {
        let body = r#"{"number": 42, "article": "tea"}"#;
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "POST /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let first = order();
    assert!(first.starts_with("HTTP/1.1 202"), "{first}");
    assert_eq!(service.line_with("shipping"), "shipping tea of order:42");
    service.signal("-TERM");
    assert!(service.end().contains("left: 0"));
}

#[test]
fn the_demonstration_hashes_every_file_of_a_folder_and_leaves_nothing_running() {
    let folder = tempfile_folder();
    for n in 0..40 {
        std::fs::write(folder.join(format!("file {n}")), "line\n".repeat(n)).unwrap();
    }
    let mut command = Command::new(examples().join("hash_files"));
    command
        .arg("--dir")
        .arg(&folder)
        .arg("--server")
        .arg(server_bin());
    command.arg("--module").arg(module_path());
    command
        .arg("--conf")
        .arg(workspace_root().join("redis.conf"));
    let mut demonstration = Example::spawn(command);
    let line = demonstration.line_with("Server on port ");
    let port: u16 = line.split(' ').nth(3).unwrap().parse().unwrap();
    let said = demonstration.end();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(said.contains("Check: every file was handled"), "{said}");
    assert!(said.contains("(780 lines, 3900 bytes)"), "{said}");
    let mut refused = said
        .lines()
        .filter(|line| line.contains("refused duplicates"));
    assert!(refused.next().unwrap().contains(" 40 "), "{said}");
    wait_until(PATIENCE, || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
    let server_folder = line.rsplit(' ').next().unwrap();
    assert!(
        !std::path::Path::new(server_folder).exists(),
        "{server_folder}"
    );
}

#[test]
fn a_demonstration_without_files_or_module_says_so_and_fails() {
    let run = |dir: &std::path::Path, module: &str| {
        let mut command = Command::new(examples().join("hash_files"));
        command
            .arg("--dir")
            .arg(dir)
            .arg("--server")
            .arg(server_bin())
            .args(["--module", module]);
        command
            .arg("--conf")
            .arg(workspace_root().join("redis.conf"));
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = tempfile_folder();
    assert!(run(&folder, "/dev/null").contains("there are no files in"));
    std::fs::write(folder.join("a"), "a").unwrap();
    let error = run(&folder, "/nowhere/module.so");
    assert!(error.contains("/nowhere/module.so"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn tempfile_folder() -> PathBuf {
    let name = std::thread::current().name().unwrap().to_owned();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
