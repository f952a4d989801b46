//! A process that outlives the worker for a moment, to kill what its commands have left.
//!
//! The worker tells it over a pipe which process groups there are. The end of the pipe is the end of
//! the worker, also by SIGKILL; then it kills those groups and ends.

use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{kill_process_group, Pid, Signal};

use super::process::own_program;

/// The first word of its call.
pub const WORD: &str = "__watch";

/// Watches until the worker ends.
pub fn run() -> ExitCode {
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let group = line.get(1..).and_then(|number| number.parse::<i32>().ok());
        match (line.as_bytes().first(), group) {
            (Some(b'+'), Some(group)) => groups.insert(group),
            (Some(b'-'), Some(group)) => groups.remove(&group),
            _ => return ExitCode::FAILURE,
        };
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // It may be gone, which is as good.
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

/// The worker's end of the pipe.
pub struct Watcher(Mutex<Option<State>>);

struct State {
    process: Child,
    pipe: ChildStdin,
    groups: BTreeSet<i32>,
}

impl Watcher {
    /// Starts the process.
    pub fn start() -> io::Result<Self> {
        let (process, pipe) = spawn()?;
        let groups = BTreeSet::new();
        Ok(Self(Mutex::new(Some(State {
            process,
            pipe,
            groups,
        }))))
    }

    /// This process group has begun.
    pub fn add(&self, group: Pid) -> io::Result<()> {
        self.tell(group, '+')
    }

    /// Nothing of this process group is left.
    pub fn remove(&self, group: Pid) -> io::Result<()> {
        self.tell(group, '-')
    }

    /// Whether it is the watcher itself, or the first of a process group that is there.
    pub fn knows(&self, process: Pid) -> bool {
        let process = process.as_raw_pid();
        self.state().as_ref().is_some_and(|state| {
            state.groups.contains(&process) || i64::from(state.process.id()) == i64::from(process)
        })
    }

    fn tell(&self, group: Pid, sign: char) -> io::Result<()> {
        let mut state = self.state();
        let Some(state) = state.as_mut() else {
            return Ok(());
        };
        let group = group.as_raw_pid();
        match sign {
            '+' => state.groups.insert(group),
            _ => state.groups.remove(&group),
        };
        if state
            .pipe
            .write_all(format!("{sign}{group}\n").as_bytes())
            .is_ok()
        {
            return Ok(());
        }
        // Somebody has killed it.
        let _ = state.process.wait();
        (state.process, state.pipe) = spawn()?;
        let all: String = state
            .groups
            .iter()
            .map(|group| format!("+{group}\n"))
            .collect();
        state.pipe.write_all(all.as_bytes())
    }

    /// Lets it end, and waits for it.
    pub fn end(&self) {
        if let Some(State {
            mut process, pipe, ..
        }) = self.state().take()
        {
            drop(pipe);
            let _ = process.wait();
        }
    }

    /// No code that may panic runs under the lock, so that a poisoned one is a good one.
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn() -> io::Result<(Child, ChildStdin)> {
    let mut process = Command::new(own_program()?)
        .arg(WORD)
        // A Ctrl-C at the terminal is the worker's business.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pipe = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((process, pipe))
}
