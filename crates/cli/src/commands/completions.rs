//! `redis-mq completions`.

use clap::CommandFactory as _;

use crate::{
    args::Cli,
    failure::{Exit, Failure},
    output::Out,
};

/// Print the completions of a shell.
///
/// For bash: redis-mq completions bash >/etc/bash_completion.d/redis-mq
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints them.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "redis-mq", &mut script);
    Out::new().line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::OK)
}
