//! A running command with all the processes that it starts.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{
    kill_process_group, test_kill_process_group, waitpgid, Pid, Signal, WaitOptions,
};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::{sleep, timeout, Instant},
};

use super::start;

/// How long to wait for killed processes to be gone. One that cannot even be killed (it waits for a
/// dead disk) must not hold up everything.
const KILLED: Duration = Duration::from_secs(2);

/// This very program, also after its file was replaced.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
}

/// Makes this process the parent of what its commands leave behind. Only a parent learns when a
/// process is gone, and who else it would be, in a container, often does not look.
#[cfg(target_os = "linux")]
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

/// Buries adopted processes that had left their command's group; `is_known` tells the others.
#[cfg(target_os = "linux")]
pub fn bury_strangers(is_known: impl Fn(Pid) -> bool) {
    // They go to the first thread. Where the file is missing they stay until the worker ends.
    let id = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/self/task/{id}/children"));
    let children = children.unwrap_or_default();
    for child in children.split_ascii_whitespace() {
        let child = child.parse().ok().and_then(Pid::from_raw);
        if let Some(child) = child.filter(|child| !is_known(*child)) {
            // One that runs is left alone.
            let _ = rustix::process::waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
}

/// Elsewhere orphans have other parents.
#[cfg(not(target_os = "linux"))]
pub fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Elsewhere there are none.
#[cfg(not(target_os = "linux"))]
pub fn bury_strangers(_is_known: impl Fn(Pid) -> bool) {}

/// A command in a process group of its own.
pub struct Process {
    child: Child,
    group: Pid,
    /// Its end, once it has been waited for.
    ended: Option<ExitStatus>,
    /// Feeds its standard input.
    feeder: Option<JoinHandle<()>>,
}

/// Where its output is read.
pub struct Outputs {
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

impl Process {
    /// Starts it with these variables and with `input` on its standard input. A variable without a
    /// value is taken away. Nothing of it runs before `known` was told its process group.
    pub fn start(
        command: &[OsString],
        variables: Vec<(&'static str, Option<OsString>)>,
        input: &[u8],
        known: impl FnOnce(Pid) -> io::Result<()>,
    ) -> io::Result<(Self, Outputs)> {
        let mut start = Command::new(own_program()?);
        start
            .arg(start::WORD)
            .arg(std::process::id().to_string())
            .args(command)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in variables {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        let mut child = start.spawn()?;
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .ok_or(io::ErrorKind::NotFound)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut process = Self {
            child,
            group,
            ended: None,
            feeder: None,
        };
        known(group)?;
        let mut all = vec![start::GO];
        all.extend_from_slice(input);
        process.feeder = Some(tokio::spawn(feed(stdin, all)));
        Ok((process, Outputs { stdout, stderr }))
    }

    /// The process group, which has the id of the command.
    pub fn group(&self) -> Pid {
        self.group
    }

    /// Waits until the command itself has ended.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let status = self.child.wait().await?;
        self.ended = Some(status);
        Ok(status)
    }

    /// Ends the whole group: by SIGTERM, and after the grace time by SIGKILL. Does nothing if all of
    /// it has ended.
    pub async fn end(&mut self, grace: Duration) {
        if self.is_gone() {
            return;
        }
        self.signal(Signal::TERM);
        if timeout(grace, self.gone()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = timeout(KILLED, self.gone()).await;
        }
    }

    /// Waits until nothing of the group is left.
    async fn gone(&mut self) {
        let _ = self.ended().await;
        let started = Instant::now();
        while !self.is_gone() {
            // What others have started is not told when it ends.
            sleep(
                (started.elapsed() / 4).clamp(Duration::from_millis(1), Duration::from_millis(50)),
            )
            .await;
        }
    }

    fn is_gone(&self) -> bool {
        if self.ended.is_none() {
            return false;
        }
        // Those whose parents have ended are this process's to wait for.
        while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
        test_kill_process_group(self.group).is_err()
    }

    fn signal(&self, signal: Signal) {
        // It may just have ended, which is as good.
        let _ = kill_process_group(self.group, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        if !self.is_gone() {
            self.signal(Signal::KILL);
        }
    }
}

/// A command need not read its input: that it has closed it is no fault.
async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    let _ = stdin.write_all(&input).await;
}
