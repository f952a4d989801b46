//! Programs that the pages show, as processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use redis_mq_testkit::{workspace_root, Server};

/// A process that ends with this value at the latest.
pub struct Process(Child);

impl Process {
    /// Starts a script that finds the server in `REDIS_URL`.
    pub fn start(python: PathBuf, script: &Path, server: &Server) -> Self {
        let child = Command::new(python)
            .arg(script)
            .env("REDIS_URL", server.url())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{}: {error}", script.display())))
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Python with redis-py, made where it is missing; none if this machine has no Python.
pub fn python() -> Option<PathBuf> {
    let runs = |program: &OsStr, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !runs("python3".as_ref(), &["-m", "pip", "--version"]) {
        eprintln!("skipped: this machine has no python3 with pip");
        return None;
    }
    if runs("python3".as_ref(), &["-c", "import redis"]) {
        return Some("python3".into());
    }
    let folder = workspace_root().join(".deps/readme-python");
    let python = folder.join("bin/python");
    if !runs(python.as_os_str(), &["-c", "import redis"]) {
        if !runs("python3".as_ref(), &["-c", "import venv, ensurepip"]) {
            eprintln!("skipped: this machine's python3 cannot make a virtual environment");
            return None;
        }
        let make = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&folder)
            .status();
        assert!(make.is_ok_and(|status| status.success()), "venv");
        let install = Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "redis"])
            .status();
        assert!(install.is_ok_and(|status| status.success()), "pip");
    }
    Some(python)
}
