//! One file per command: its arguments, then what it does.

pub mod bench;
pub mod cancel;
pub mod check;
pub mod completions;
pub mod contexts;
pub mod dead;
pub mod enqueue;
pub mod exporter;
pub mod find;
pub mod get;
pub mod groups;
pub mod import;
pub mod info;
pub mod limit;
pub mod ls;
pub mod man;
pub mod r#move;
pub mod pause;
pub mod peek;
pub mod purge;
pub mod resume;
pub mod schedules;
pub mod top;
pub mod web;
pub mod work;

use crate::{
    args::{Cli, Command},
    connect::{Server, Source},
    failure::{Exit, Failure},
};

/// Does what the command line says.
pub async fn run(cli: Cli) -> Result<Exit, Failure> {
    let common = cli.common;
    let json = common.json;
    let server = Server::connect(&common);
    match cli.command {
        Command::Ls(args) => ls::run(args, server.await?, json).await,
        Command::Info(args) => info::run(args, server.await?, json).await,
        Command::Get(args) => get::run(args, server.await?, json).await,
        Command::Enqueue(args) => enqueue::run(args, server, json).await,
        Command::Peek(args) => peek::run(args, server.await?, json).await,
        Command::Find(args) => find::run(args, server.await?, json).await,
        Command::Dead(args) => dead::run(args, server.await?, json).await,
        Command::Purge(args) => purge::run(args, server.await?, json).await,
        Command::Move(args) => r#move::run(args, server.await?, json).await,
        Command::Import(args) => import::run(args, server.await?, json).await,
        Command::Bench(args) => bench::run(args, Source::new(&common)?, json).await,
        Command::Exporter(args) => exporter::run(args, Source::new(&common)?).await,
        Command::Top(args) => top::run(args, Source::new(&common)?).await,
        Command::Web(args) => web::run(args, Source::new(&common)?).await,
        Command::Work(args) => work::run(args, Source::new(&common)?, json).await,
        Command::Cancel(args) => cancel::run(args, server, json).await,
        Command::Pause(args) => pause::run(args, server.await?, json).await,
        Command::Resume(args) => resume::run(args, server.await?, json).await,
        Command::Limit(args) => limit::run(args, server.await?, json).await,
        Command::Groups(args) => groups::run(args, server.await?, json).await,
        Command::Schedules(args) => schedules::run(args, server.await?, json).await,
        Command::Contexts(args) => contexts::run(args, json),
        Command::Check(args) => check::run(args, server.await?, json).await,
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
