//! Puts a queue under load and says what came of it.
//!
//! One process does one job, given as a JSON object in the only argument, and prints one JSON line.
//! `make bench` runs it; the fields of a job are those of [`job`].

use std::process::ExitCode;

mod blocked;
mod due;
mod histogram;
mod idle;
mod job;
mod latency;
mod link;
mod ping;
mod sharded;
mod systems;
mod throughput;
mod worker;

fn main() -> ExitCode {
    let Some(text) = std::env::args().nth(1) else {
        eprintln!("usage: mq-load JOB, a JSON object");
        return ExitCode::FAILURE;
    };
    let request: job::Request = match serde_json::from_str(&text) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("mq-load: not a job: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", request.run());
    ExitCode::SUCCESS
}
