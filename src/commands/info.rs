//! MQ.INFO

use super::record::{Access, Argument, Group, Record};
use crate::error::Error;
use crate::redis::{Args, Command, Ctx};

/// The command.
pub struct MqInfo;

impl Command for MqInfo {
    const RECORD: &'static Record = &Record {
        name: "mq.info",
        syntax: "MQ.INFO queue",
        summary: "Counts a queue's messages by status and tells what it has done.",
        complexity: "O(1), and O(n) with n the number of messages that time has moved on since the last write",
        since: "0.1.0",
        group: Group::Inspection,
        arity: 2,
        flags: "readonly",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE],
        details: "\
Reply: null, or a map (in RESP2 a flat array) of

| field | meaning |
|---|---|
| `queued`, `queued-with-backoff`, `locked`, `locked-with-requeue`, `done-with-backoff`, `done-with-requeue`, `done-awaiting-gc`, `dead` | how many messages have that status at this moment |
| `messages` | the sum of these |
| `next-mid` | the id that is delivered next, or null |
| `last-mid` | the id that is newest in the ready order, or null |
| `next-due-ms` | milliseconds until time alone next moves a message on, -1 = never |
| `oldest-queued-ms` | how long the oldest ready message waits |
| `eoq-backoff-ms` | what is left of the pollers' shared wait |
| `ndry-runs` | how often in a row nothing was ready for a poller |
| `paused` | 1 while no deliveries are made, else 0 |
| `total-enqueued`, `total-delivered`, `total-done`, `total-retried`, `total-dead`, `total-expired-locks` | since the queue was created |

More fields may be appended in time.",
    };

    fn run(_ctx: &Ctx, _args: Args<'_>) -> Result<(), Error> {
        Err(Error::Internal)
    }
}
