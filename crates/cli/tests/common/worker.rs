//! A running `redis-mq work`.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use redis_mq_testkit::{wait_until, Server, PATIENCE};

use super::{program, Ended};

/// It is killed, with all that it has started, when this value is dropped.
pub struct Worker {
    child: Child,
    folder: PathBuf,
}

impl Worker {
    /// `redis-mq work` with these options and arguments; its output goes into files of that folder.
    pub fn start(url: &str, folder: &Path, args: &[&str]) -> Self {
        let file = |name: &str| File::create(folder.join(name)).unwrap();
        let child = program()
            .arg("work")
            .args(args)
            .env("REDIS_MQ_URL", url)
            .env("FOLDER", folder)
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Self {
            child,
            folder: folder.to_owned(),
        }
    }

    /// [`Self::start`] on this server, in its folder.
    pub fn on(server: &Server, args: &[&str]) -> Self {
        Self::start(&server.url(), server.dir(), args)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> Ended {
        let mut code = None;
        wait_until(PATIENCE, || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        Ended {
            code: code.and_then(|status| status.code()).unwrap_or(-1),
            out: self.printed("stdout"),
            err: self.printed("stderr"),
        }
    }

    /// Tells it to end, and waits.
    pub fn stop(&mut self) -> Ended {
        self.signal("TERM");
        self.ended()
    }

    /// What it has printed there so far.
    pub fn printed(&self, name: &str) -> String {
        let bytes = fs::read(self.folder.join(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a worker until nothing is ready, with a script of bash as its command.
pub fn work(server: &Server, options: &[&str], script: &str) -> Ended {
    let args = [
        &["q", "--until-empty"],
        options,
        &["--", "bash", "-c", script],
    ]
    .concat();
    Worker::on(server, &args).ended()
}

/// Sends a process a signal.
pub fn signal(name: &str, process: u32) {
    let kill = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .stderr(Stdio::null())
        .status();
    kill.expect("there is a `kill`");
}

/// Whether a process of that id runs. One that nobody has waited for runs no more.
pub fn runs(process: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        return false;
    };
    // The state stands behind the name, which may hold anything.
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.starts_with('Z')
}

/// The numbers that commands have written into a file of the folder.
pub fn numbers(folder: &Path, name: &str) -> Vec<u32> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Waits until none of the processes in that file runs.
#[track_caller]
pub fn all_gone(folder: &Path, name: &str) {
    let processes = numbers(folder, name);
    assert!(!processes.is_empty(), "nothing was started");
    wait_until(PATIENCE, || !processes.iter().any(|process| runs(*process)));
}
