//! MQ.GET

use super::record::{Access, Argument, Group, Kind, Record};
use super::status::parse_id;
use crate::error::Error;
use crate::redis::{Args, Command, Ctx};

/// The command.
pub struct MqGet;

impl Command for MqGet {
    const RECORD: &'static Record = &Record {
        name: "mq.get",
        syntax: "MQ.GET queue id",
        summary: "Shows a message with its payload.",
        complexity: "O(1)",
        since: "0.1.0",
        group: Group::Inspection,
        arity: 3,
        flags: "readonly fast",
        newer_flags: &[],
        key: Some(Access::Read),
        tips: "nondeterministic_output",
        arguments: &[Argument::QUEUE, Argument::new("id", Kind::Text)],
        details: "\
Reply: null, or a map (in RESP2 a flat array) of

| field | meaning |
|---|---|
| `id` | the id, as text if the server made it |
| `status` | as `MQ.STATUS` |
| `payload` | any bytes |
| `attempts` | how often it was handed over |
| `max-attempts` | how many deliveries it gets before it is dead, 0 = no limit |
| `priority` | 0 (first) to 9 (last) |
| `enqueued-at` | when it was accepted, Unix milliseconds |
| `due-at` | when time alone moves it on, Unix milliseconds, 0 = never |
| `lock-ms` | its own lock time, 0 = the consumer's |
| `requeue` | the payload of the waiting copy, or null |
| `reason` | why it is dead, or null |

More fields may be appended in time.",
    };

    fn run(_ctx: &Ctx, args: Args<'_>) -> Result<(), Error> {
        parse_id(args)?;
        Err(Error::Internal)
    }
}
