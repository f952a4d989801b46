//! Starting, stopping and crashing a server, and noticing that it crashed by itself.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{info, Server};
use crate::builder::StartError;
use crate::call;
use crate::spawn::{mortal, spawn};
use crate::wait::{wait_until, PATIENCE};

const LOG_LINES: usize = 80;
/// What the log of a healthy server never has: a crash report, a panic of the module (even one that
/// it caught), a sanitizer's finding.
const FATAL: [&str; 3] = ["BUG REPORT START", "panicked at", "Sanitizer"];

/// How a server is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// `SHUTDOWN SAVE`: with a snapshot.
    Save,
    /// `SHUTDOWN NOSAVE`: without one; an append-only file is flushed all the same.
    NoSave,
}

impl Server {
    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => false,
        }
    }

    /// Ends the server by SHUTDOWN; its folder and port stay for [`Self::start_again`].
    #[track_caller]
    pub fn shutdown(&mut self, how: Shutdown) {
        let mode = match how {
            Shutdown::Save => "SAVE",
            Shutdown::NoSave => "NOSAVE",
        };
        if let Err(error) = call!(self.conn(), "SHUTDOWN", mode) {
            // A server that obeys closes the connection; that is the good case.
            assert!(!error.starts_with("ERR"), "SHUTDOWN {mode}: {error}");
        }
        self.wait_for_exit();
    }

    /// Kills the server as a crash would; its folder and port stay for [`Self::start_again`].
    #[track_caller]
    pub fn kill9(&mut self) {
        let child = self.child.as_mut().expect("the server runs");
        child.kill().expect("a child can be killed");
        self.wait_for_exit();
    }

    /// Waits until the process ends by itself and gives its status; for tests that make it end.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server runs");
        let mut status = None;
        wait_until(PATIENCE, || {
            status = child.try_wait().expect("a child can be asked");
            status.is_some()
        });
        status.expect("the process has ended")
    }

    /// Starts a stopped server on the same port, folder and configuration.
    ///
    /// # Panics
    ///
    /// If it does not come up; the message has its log.
    #[track_caller]
    pub fn start_again(&mut self) {
        if let Err(error) = self.try_start_again() {
            panic!("{error}");
        }
    }

    /// [`Self::start_again`] for tests of servers that must refuse to start.
    ///
    /// # Errors
    ///
    /// If it ends, or does not answer in time.
    pub fn try_start_again(&mut self) -> Result<(), StartError> {
        assert!(self.child.is_none(), "the server still runs");
        let mut command = mortal(&self.builder.bin);
        command
            .arg(self.dir.join("server.conf"))
            .args(self.builder.sentinel.then_some("--sentinel"))
            .current_dir(&self.dir)
            .envs(self.builder.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // What the server cannot log (a failed line of the configuration, a sanitizer's report) goes
        // to the same file.
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("server.log"))
            .expect("the log can be opened");
        command.stderr(log);
        self.log_start = self.log_bytes().len();
        let child = spawn(command).map_err(|error| StartError {
            reason: format!("{}: {error}", self.builder.bin.display()),
            log: String::new(),
        })?;
        self.child = Some(child);
        self.wait_until_ready().map_err(|reason| {
            self.end();
            StartError {
                reason,
                log: self.log(),
            }
        })
    }

    /// [`Self::shutdown`], then [`Self::start_again`].
    #[track_caller]
    pub fn restart(&mut self, how: Shutdown) {
        self.shutdown(how);
        self.start_again();
    }

    /// [`Self::kill9`], then [`Self::start_again`].
    #[track_caller]
    pub fn crash_and_restart(&mut self) {
        self.kill9();
        self.start_again();
    }

    /// Adds a line to the configuration that counts from the next start on.
    pub fn configure_next_start(&self, name: &str, value: &str) {
        let mut file = fs::File::options()
            .append(true)
            .open(self.dir.join("server.conf"))
            .expect("the configuration exists");
        writeln!(file, "{name} {value}").expect("the configuration can be written");
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.as_mut().expect("just started").try_wait() {
                return Err(format!("the server ended at once: {status}"));
            }
            if TcpStream::connect_timeout(&self.addr(), Duration::from_secs(1)).is_ok() {
                // The replica's refusals (MASTERDOWN) and LOADING do not apply to the same commands
                // on every version, so ask in the plainest way.
                let sentinel = self.builder.sentinel;
                let ready = self.try_conn().is_ok_and(|mut conn| {
                    sentinel || info(&mut conn, "persistence", "loading").as_deref() == Some("0")
                });
                if ready {
                    return Ok(());
                }
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("the server does not answer within {PATIENCE:?}"));
            }
            thread::sleep(Duration::from_millis(3));
        }
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let running = self.child.is_some();
        let died = running && !self.is_running();
        self.end();
        let log = self.log_bytes();
        let this_run = String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default());
        let lines: Vec<_> = this_run.lines().collect();
        let fatal = |line: &&str| FATAL.iter().any(|mark| line.contains(mark));
        let crash = lines.iter().position(fatal);
        let failed = died || running && crash.is_some();
        if failed || thread::panicking() {
            let end = crash.map_or(lines.len(), |crash| {
                (crash + LOG_LINES / 2).min(lines.len())
            });
            let shown = &lines[end.saturating_sub(LOG_LINES)..end];
            eprintln!(
                "--- from the log of the server on port {} ---\n{}\n---",
                self.port(),
                shown.join("\n")
            );
        }
        assert!(
            !failed || thread::panicking(),
            "the server on port {} died by itself, or its log shows a crash",
            self.port()
        );
    }
}
