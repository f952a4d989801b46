//! `redis-mq __start PARENT COMMAND…`: what a worker starts in place of its command.
//!
//! It binds itself to the worker, waits for a byte on its standard input, and becomes the command. So
//! nothing runs that the worker's watcher does not know, the command is killed when the worker ends in
//! whatever way, and one that cannot be run has the exit code that a shell gives it.

use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

/// The first word of such a call.
pub const WORD: &str = "__start";

/// The byte before the payload.
pub const GO: u8 = b'.';

/// The command is there, and cannot be run.
pub const NOT_RUNNABLE: u8 = 126;
/// The command is not there.
pub const NOT_FOUND: u8 = 127;

/// Becomes the command.
pub fn run(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words
        .next()
        .and_then(|word| word.into_string().ok()?.parse().ok());
    let (Some(parent), Some(program)) = (parent, words.next()) else {
        eprintln!("{WORD} is for redis-mq itself");
        return ExitCode::from(NOT_RUNNABLE);
    };
    if let Err(error) = bind_to(parent) {
        eprintln!("cannot follow the worker: {error}");
        return ExitCode::from(NOT_RUNNABLE);
    }
    // Not one byte more: the rest is the command's.
    let mut byte = [0];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut byte));
    if read != Ok(1) || byte != [GO] {
        return ExitCode::from(NOT_RUNNABLE);
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("{}: {error}", program.display());
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUNNABLE,
    })
}

#[cfg(target_os = "linux")]
fn bind_to(parent: i32) -> io::Result<()> {
    use rustix::process::{getppid, set_parent_process_death_signal, Signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before it was listened to.
    if getppid().map(rustix::process::Pid::as_raw_pid) == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("it has ended"))
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
fn bind_to(_parent: i32) -> io::Result<()> {
    Ok(())
}
