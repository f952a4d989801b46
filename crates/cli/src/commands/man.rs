//! `redis-mq man`.

use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::{
    args::Cli,
    failure::{Exit, Failure},
};

/// Write the manual pages, one for each command, into a folder.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder, which has to be there
    folder: PathBuf,
}

/// Writes them.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    clap_mangen::generate_to(Cli::command(), &args.folder)
        .map_err(|error| Failure::local(args.folder.display(), &error))?;
    Ok(Exit::OK)
}
