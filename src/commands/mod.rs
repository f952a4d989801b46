//! The commands: one file each, with its record, its request and what it does; beside it, in a file
//! of the same name, the description that `docs/commands.md` shows.

pub mod apply;
pub mod cancel;
#[cfg(test)]
mod corpus;
pub mod dequeue;
pub mod done;
pub mod enqueue;
pub mod extend;
pub mod fire;
pub mod get;
pub mod groups;
pub mod help;
pub mod info;
pub mod latency;
pub mod limit;
pub mod limits;
pub mod mdequeue;
pub mod mdone;
pub mod menqueue;
#[cfg(test)]
mod page;
mod paging;
pub mod pause;
pub mod peek;
pub mod purge;
pub mod redrive;
pub mod result;
pub mod scan;
pub mod schedule;
pub mod schedules;
pub mod status;
pub mod unschedule;

use crate::record;
use crate::redis::Registered;

/// All commands, in the order of the documentation.
pub const COMMANDS: &[Registered] = &[
    Registered::of::<enqueue::MqEnqueue>(),
    Registered::of::<menqueue::MqMenqueue>(),
    Registered::of::<cancel::MqCancel>(),
    Registered::of::<result::MqResult>(),
    Registered::of::<dequeue::MqDequeue>(),
    Registered::of::<mdequeue::MqMdequeue>(),
    Registered::of::<done::MqDone>(),
    Registered::of::<mdone::MqMdone>(),
    Registered::of::<extend::MqExtend>(),
    Registered::of::<limit::MqLimit>(),
    Registered::of::<pause::MqPause>(),
    Registered::of::<pause::MqResume>(),
    Registered::of::<schedule::MqSchedule>(),
    Registered::of::<unschedule::MqUnschedule>(),
    Registered::of::<fire::MqFire>(),
    Registered::of::<redrive::MqRedrive>(),
    Registered::of::<purge::MqPurge>(),
    Registered::of::<status::MqStatus>(),
    Registered::of::<get::MqGet>(),
    Registered::of::<peek::MqPeek>(),
    Registered::of::<scan::MqScan>(),
    Registered::of::<info::MqInfo>(),
    Registered::of::<latency::MqLatency>(),
    Registered::of::<groups::MqGroups>(),
    Registered::of::<limits::MqLimits>(),
    Registered::of::<schedules::MqSchedules>(),
    Registered::of::<help::MqHelp>(),
    Registered::of::<apply::MqApply>(),
];

#[cfg(test)]
mod tests {
    use super::record::{Access, Argument, Kind};
    use super::*;

    #[test]
    fn every_record_is_complete_and_says_the_same_twice() {
        for command in COMMANDS {
            let record = command.record;
            let name = record.name;
            assert!(
                name.starts_with("mq.") && !name.contains(char::is_uppercase),
                "{name}"
            );
            let syntax_name = record.syntax.split(' ').next().unwrap();
            assert_eq!(syntax_name.to_lowercase(), name);
            let texts = [
                record.summary,
                record.complexity,
                record.since,
                record.details,
            ];
            assert!(texts.iter().all(|text| !text.is_empty()), "{name}");
            assert!(
                record.summary.ends_with('.') && !record.summary.contains('\n'),
                "{name}"
            );
            assert!(
                record.details.ends_with("\n") && !record.details.ends_with("\n\n"),
                "{name}"
            );
            let has_key = record
                .arguments
                .iter()
                .any(|arg| matches!(arg.kind, Kind::Key));
            assert_eq!(record.key.is_some(), has_key, "{name}");
            let writes = record.key.is_some_and(|access| access != Access::Read);
            assert_eq!(
                record.flags.split(' ').any(|flag| flag == "write"),
                writes,
                "{name}"
            );
        }
    }

    fn is_open(argument: &Argument) -> bool {
        let alternatives = match argument.kind {
            Kind::OneOf(alternatives) => alternatives,
            _ => &[],
        };
        argument.optional || argument.multiple || alternatives.iter().any(is_open)
    }

    /// How many words the argument has at least.
    fn fewest(argument: &Argument) -> usize {
        let word = usize::from(!argument.token.is_empty());
        match argument.kind {
            _ if argument.optional => 0,
            Kind::Token => 1,
            Kind::Block(parts) => word + parts.iter().map(fewest).sum::<usize>(),
            Kind::OneOf(parts) => word + parts.iter().map(fewest).min().unwrap_or(0),
            _ => word + 1,
        }
    }

    #[test]
    fn the_arity_fits_the_arguments() {
        for command in COMMANDS {
            let record = command.record;
            let needed = 1 + record.arguments.iter().map(fewest).sum::<usize>();
            let open = record.arguments.iter().any(is_open);
            let arity = if open {
                -(needed as i32)
            } else {
                needed as i32
            };
            assert_eq!(record.arity, arity, "{}", record.name);
            assert!(
                record.accepts(needed) && !record.accepts(needed - 1),
                "{}",
                record.name
            );
            assert_eq!(record.accepts(needed + 1), open, "{}", record.name);
        }
    }
}
