//! The command line as one tree.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    bench, cancel, check, completions, contexts, dead, enqueue, exporter, find, get, groups,
    import, info, limit, ls, man, pause, peek, purge, r#move, resume, schedules, top, web, work,
};

/// Look into the queues of redis-mq, and repair them.
///
/// Times are milliseconds, or have a unit: 90s, 5m, 2h, 1d. Exit codes: 0 done, 1 no such thing,
/// 2 wrong arguments or input, 3 server not reached, 4 refused by the server, 5 trouble on this
/// machine; `check` has those of monitoring plugins.
#[derive(Debug, Parser)]
#[command(name = "redis-mq", version, max_term_width = 100)]
pub struct Cli {
    /// Where and how, for all commands.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of all commands.
#[derive(Debug, Args)]
pub struct Common {
    /// The server: redis://user:password@host:port/db, rediss:// for TLS, unix:///path,
    /// redis+cluster://host:port,host:port, redis+sentinel://host:port,host:port/master
    ///
    /// Without --url and --context it is REDIS_MQ_URL of the environment, else the context that
    /// `contexts use` chose, else redis://127.0.0.1:6379/
    #[arg(long, global = true)]
    pub url: Option<String>,
    /// The server that this name stands for, see `contexts`
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "url")]
    pub context: Option<String>,
    /// Certificates that vouch for the server, in place of the system's (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// The client's own certificate (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the client's certificate (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,
}

/// One variant a command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the queues with what is in them
    Ls(ls::Args),
    /// Show all that the server tells of queues
    Info(info::Args),
    /// Show messages with their payload
    Get(get::Args),
    /// Add messages: from arguments, from lines, from JSON lines
    Enqueue(enqueue::Args),
    /// Show the next deliveries, or the messages of a status
    Peek(peek::Args),
    /// Find messages by id, or by what is in their payloads
    Find(find::Args),
    /// Look at dead letters, send them again, or remove them
    Dead(dead::Args),
    /// Work on queues with a command, run once for each message
    Work(work::Args),
    /// Remove messages by id, whatever their status
    Cancel(cancel::Args),
    /// Remove all messages of a status
    Purge(purge::Args),
    /// Move messages to another queue
    Move(r#move::Args),
    /// Bring a queue of Carmine, the Clojure library, over into one of this module
    Import(import::Args),
    /// Stop the deliveries of queues, or of one group
    Pause(pause::Args),
    /// Let deliveries go on
    Resume(resume::Args),
    /// Show or set the limits of a queue or of its groups
    Limit(limit::Args),
    /// List the groups of a queue
    Groups(groups::Args),
    /// List what queues enqueue by themselves, set it, run it now, or remove it
    Schedules(schedules::Args),
    /// Tell a monitoring system whether queues are well: exit code 0, 1, 2 or 3
    Check(check::Args),
    /// Watch the queues live, in a terminal
    Top(top::Args),
    /// Serve pages for looking into queues and repairing them
    Web(web::Args),
    /// Serve the metrics of queues to Prometheus
    Exporter(exporter::Args),
    /// Measure how fast it is here
    Bench(bench::Args),
    /// Give servers names, so that --context NAME is enough
    Contexts(contexts::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
    /// Write the manual pages into a folder
    Man(man::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
