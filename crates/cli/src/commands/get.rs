//! `redis-mq get`.

use redis_mq_client::redis::{self, Cmd, Value};
use serde_json::{Map, Value as Json};

use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, payload, Out, DIM},
    reply::{self, Fields},
};

/// Show messages with their payload, dead letters too, and results that are kept.
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
        let message = read(&answer?)?;
        let message = match asks_for_result(message.as_ref()) {
            // A module without results, or a user who may not see them: then there is none.
            true => match server
                .call(&ask_result(args.queue.as_bytes(), id.as_bytes()))
                .await
            {
                Ok(known) => with_result(message, id.as_bytes(), &known),
                Err(failure) if failure.exit() == Exit::REFUSED => message,
                Err(failure) => return Err(failure),
            },
            false => message,
        };
        let Some(message) = message else {
            missing.push(output::name(id.as_bytes()));
            continue;
        };
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

/// The message of a reply to MQ.GET.
pub fn read(answer: &Value) -> Result<Option<Fields>, Failure> {
    match answer {
        Value::Nil => Ok(None),
        some => match Fields::read(some) {
            Some(message) => Ok(Some(message)),
            None => Err(Failure::unexpected("MQ.GET")),
        },
    }
}

/// Whether a result may be kept: of a message that is gone, or finished.
pub fn asks_for_result(message: Option<&Fields>) -> bool {
    let status = message.and_then(|message| message.bytes("status"));
    status.is_none_or(|status| status.starts_with(b"done"))
}

/// The command that asks for it.
pub fn ask_result(queue: &[u8], id: &[u8]) -> Cmd {
    let mut command = redis::cmd("MQ.RESULT");
    command.arg(queue).arg(id);
    command
}

/// The message with the result that is kept of it, if one is; a message that is gone is what its
/// result tells.
pub fn with_result(message: Option<Fields>, id: &[u8], known: &Value) -> Option<Fields> {
    let Some([what, result, at]) = reply::items(known) else {
        return message;
    };
    if reply::bytes(what) != Some(b"done") || *result == Value::Nil {
        return message;
    }
    let mut message = message.unwrap_or_else(|| {
        let mut gone = Fields::default();
        gone.push("id", Value::BulkString(id.to_vec()));
        gone.push("status", what.clone());
        gone
    });
    message.push("done-at", at.clone());
    message.push("result", result.clone());
    Some(message)
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
            ("id" | "payload" | "requeue" | "result", _) | (_, Value::Nil) => continue,
            ("due-at" | "lock-ms" | "expires-at" | "scheduled-at", Value::Int(0)) => continue,
            (
                "enqueued-at" | "due-at" | "expires-at" | "done-at" | "scheduled-at",
                Value::Int(ms),
            ) => duration::show_instant(ms.unsigned_abs()),
            ("max-attempts", Value::Int(0)) => "no limit".into(),
            (_, other) => output::one_line(other),
        };
        out.line(format_args!("  {DIM}{name:12}{DIM:#}  {shown}"))?;
    }
    for name in ["payload", "requeue", "result"] {
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
