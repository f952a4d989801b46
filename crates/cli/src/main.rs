//! `redis-mq`: the command line of the message queue.
//!
//! docs/tools.md describes every command; [`args`] has them as one tree.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod connect;
mod duration;
mod failure;
mod output;
mod reply;
mod sample;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;

use crate::{
    args::Cli,
    commands::work::{start, watch},
    failure::Exit,
    output::BAD,
};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    match words.get(1).and_then(|word| word.to_str()) {
        Some(start::WORD) => return start::run(words.into_iter().skip(2)),
        Some(watch::WORD) => return watch::run(),
        _ => {}
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors to clap, with the code 0.
            let wrong = error.exit_code() != 0;
            let _ = error.print();
            return match wrong {
                true if asks_for_check(&words) => Exit::UNKNOWN.into(),
                true => Exit::USAGE.into(),
                false => ExitCode::SUCCESS,
            };
        }
    };
    let is_check = asks_for_check(&words);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(commands::run(cli));
            // A blocked read of standard input must not hold up the end.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(failure::Failure::local("no threads", &error)),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(line) = failure.line() {
                if is_check {
                    println!("MQ UNKNOWN - {line}");
                } else {
                    anstream::eprintln!("{BAD}error:{BAD:#} {line}");
                }
            }
            match failure.exit() {
                exit if is_check && exit != Exit::OK => Exit::UNKNOWN.into(),
                exit => exit.into(),
            }
        }
    }
}

/// Whether this is `redis-mq check`, whose exit codes are those of monitoring plugins.
fn asks_for_check(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == "check")
}
