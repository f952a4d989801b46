//! `redis-mq get`.

use redis_mq_client::redis::{self, Cmd, Value};
use serde_json::{Map, Value as Json};

use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, payload, Out, DIM},
    reply::Fields,
};

/// Show messages with their payload, dead letters too.
///
/// Payloads are shown as text, JSON, MessagePack or hex, as they look. With --json a payload that is
/// no text stands under `payload-base64`. Exit code 1 if there is no such message.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// The messages' ids
    #[arg(required = true)]
    ids: Vec<String>,
}

/// Shows the messages.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let ask = |id: &String| -> Cmd {
        let mut command = redis::cmd("MQ.GET");
        command.arg(&args.queue).arg(id);
        command
    };
    let asked: Vec<Cmd> = args.ids.iter().map(ask).collect();
    let answers = server.call_all(&asked).await?;
    let mut out = Out::new();
    let mut missing = Vec::new();
    for (id, answer) in args.ids.iter().zip(answers) {
        let value = answer?;
        if value == Value::Nil {
            missing.push(output::name(id.as_bytes()));
            continue;
        }
        let message = Fields::read(&value).ok_or_else(|| Failure::unexpected("MQ.GET"))?;
        if json {
            out.line(as_json(&message))?;
        } else {
            print(&message, &mut out)?;
        }
    }
    if missing.is_empty() {
        return Ok(Exit::OK);
    }
    let missing = missing.join(", ");
    Err(Failure::no(format!("no such message: {missing}")))
}

/// All that the server tells of a message.
pub fn as_json(message: &Fields) -> Json {
    let mut object = Map::new();
    for (name, value) in message.iter() {
        output::put_value(&mut object, name, value);
    }
    Json::Object(object)
}

/// Shows a message: its fields, then its payload.
pub fn print(message: &Fields, out: &mut Out) -> Result<(), Failure> {
    out.line(output::name(message.bytes("id").unwrap_or_default()))?;
    for (name, value) in message.iter() {
        let shown = match (name, value) {
            ("id" | "payload" | "requeue", _) | (_, Value::Nil) => continue,
            ("due-at" | "lock-ms" | "expires-at", Value::Int(0)) => continue,
            ("enqueued-at" | "due-at" | "expires-at", Value::Int(ms)) => {
                duration::show_instant(ms.unsigned_abs())
            }
            ("max-attempts", Value::Int(0)) => "no limit".into(),
            (_, other) => output::one_line(other),
        };
        out.line(format_args!("  {DIM}{name:12}{DIM:#}  {shown}"))?;
    }
    for name in ["payload", "requeue"] {
        let Some(bytes) = message.bytes(name) else {
            continue;
        };
        let (form, shown) = payload::show(bytes);
        let length = bytes.len();
        out.line(format_args!(
            "  {DIM}{name:12}{DIM:#}  {length} bytes, {form}"
        ))?;
        for line in shown.lines() {
            out.line(format_args!("    {line}"))?;
        }
    }
    Ok(())
}
