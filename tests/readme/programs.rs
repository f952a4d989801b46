//! The workers of the front page as processes.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use redis_mq_testkit::{wait_until, workspace_root, Server, PATIENCE};

/// A process that ends with this value at the latest.
pub struct Process(Child);

impl Process {
    /// Starts a program that finds the server in `REDIS_URL`.
    pub fn start(program: impl AsRef<OsStr>, args: &[&OsStr], server: &Server) -> Self {
        let child = Command::new(program.as_ref())
            .args(args)
            .env("REDIS_URL", server.url())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{:?}: {error}", program.as_ref())))
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = self.0.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(asked.is_ok_and(|status| status.success()));
        wait_until(PATIENCE, || !self.runs());
        self.0.wait().expect("it has ended")
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

/// The client's example of that name, built of the sources as they are.
pub fn example(name: &str) -> PathBuf {
    let exe = env::current_exe().expect("the running program has a path");
    // Tests run in <target>/<profile>/deps.
    let folder = exe.ancestors().nth(2).expect("cargo's folders");
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    // With the features of the whole workspace, which is how its tests are built.
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--workspace", "--example", name])
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent().expect("cargo's folders"))
        .current_dir(workspace_root())
        .status();
    assert!(built.is_ok_and(|status| status.success()), "cargo build");
    folder.join("examples").join(name)
}
