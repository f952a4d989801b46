//! `redis-mq info`.

use redis_mq_client::redis::Cmd;

use super::ls;
use crate::{
    connect::Server,
    failure::{Exit, Failure},
    output::{self, Out, DIM},
    reply::Fields,
};

/// Show all that the server tells of queues.
///
/// The fields are those of MQ.INFO, see docs/commands.md. Exit code 1 if a queue does not exist.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queues
    #[arg(required = true)]
    queues: Vec<String>,
}

/// Shows the queues.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let ask = |name: &String| ls::ask(name.as_bytes());
    let asked: Vec<Cmd> = args.queues.iter().map(ask).collect();
    let answers = server.call_all(&asked).await?;
    let mut out = Out::new();
    let mut missing = Vec::new();
    for (queue, answer) in args.queues.iter().zip(answers) {
        let shown = output::name(queue.as_bytes());
        let Some(info) = Fields::read(&answer?) else {
            missing.push(shown);
            continue;
        };
        if json {
            out.line(ls::as_json(queue.as_bytes(), &info))?;
            continue;
        }
        out.line(shown)?;
        for (name, value) in info.iter() {
            let shown = output::one_line(value);
            out.line(format_args!("  {DIM}{name:22}{DIM:#}  {shown}"))?;
        }
    }
    if missing.is_empty() {
        return Ok(Exit::OK);
    }
    let missing = missing.join(", ");
    Err(Failure::no(format!("no such queue: {missing}")))
}
