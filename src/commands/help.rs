//! MQ.HELP

use std::ffi::CString;

use super::record::{Group, Record};
use super::COMMANDS;
use crate::error::Error;
use crate::redis::{Args, Command, Ctx};

/// The command.
pub struct MqHelp;

impl Command for MqHelp {
    const RECORD: &'static Record = &Record {
        name: "mq.help",
        syntax: "MQ.HELP",
        summary: "Lists the commands with their arguments.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Inspection,
        arity: 1,
        flags: "readonly fast allow-stale allow-loading",
        newer_flags: &[],
        key: None,
        tips: "",
        arguments: &[],
        details: include_str!("help.md"),
    };

    fn run(ctx: &Ctx, _args: Args<'_>) -> Result<(), Error> {
        ctx.begin_array();
        let mut lines = 0;
        for line in lines_of_help() {
            let line = CString::new(line).map_err(|_| Error::Internal)?;
            ctx.reply_status(&line);
            lines += 1;
        }
        ctx.end_array(lines);
        Ok(())
    }
}

fn lines_of_help() -> impl Iterator<Item = String> {
    COMMANDS
        .iter()
        .map(|command| command.record)
        .filter(|record| record.group != Group::Internal)
        .flat_map(|record| [record.syntax.to_owned(), format!("    {}", record.summary)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_shows_each_public_command_and_nothing_internal() {
        let lines: Vec<String> = lines_of_help().collect();
        assert!(lines
            .iter()
            .any(|line| line.starts_with("MQ.ENQUEUE queue payload [ID id]")));
        assert!(!lines.iter().any(|line| line.contains("MQ.APPLY")));
        assert!(lines.iter().all(|line| !line.contains(['\r', '\n', '\0'])));
    }
}
