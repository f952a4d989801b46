//! Child processes that end with the test process, however it ends.

use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::sync::OnceLock;
use std::thread;

type Job = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts the command so that the kernel kills it when this process dies, even by SIGKILL.
///
/// The kernel ties the child to the *thread* that started it, and a test's thread ends before a
/// server that several tests share; so one thread that never ends starts them all.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, inbox) = mpsc::channel::<Job>();
        thread::spawn(move || {
            for (mut command, reply) in inbox {
                // A caller that panicked meanwhile has dropped its end; its child dies with us.
                let _ = reply.send(command.spawn());
            }
        });
        jobs
    });
    let (reply, answer) = mpsc::channel();
    spawner
        .send((command, reply))
        .expect("the spawner lives as long as the process");
    answer.recv().expect("the spawner answers every job")
}

/// A command for `program` that dies with the thread that starts it, where the system can do that.
pub(crate) fn mortal(program: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.is_file() {
        return Command::new(program);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}
