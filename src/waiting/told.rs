//! What a client is told of a message, at once or at the end of its wait.

use std::sync::Arc;

use redis_mq_core::Known;

use super::{Answer, Shown};
use crate::authority;
use crate::clock::QueueTime;
use crate::error::Error;
use crate::parse::Cursor;
use crate::redis::{Args, Ctx, KeyName};
use crate::turn;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It was answered.
    Answered,
    /// It has no answer yet, since the message is not finished.
    MayWait,
}

/// Where the id stands in the arguments.
const ID: usize = 2;

/// Replies what is known of an id now, unless its message is not finished and the client waits.
pub fn ask(ctx: &Ctx, name: KeyName<'_>, id: &[u8], waits: bool) -> Result<Asked, Error> {
    let now = authority::moment(ctx);
    let asked = turn::look(ctx, name, |queue| {
        let time = now.of(queue);
        match queue.result(time.now(), id)? {
            Known::Live(_) if waits => Some(Asked::MayWait),
            known => {
                let (word, value, at) = told(time, known);
                reply(ctx, word, value, at);
                Some(Asked::Answered)
            }
        }
    })?;
    Ok(asked.flatten().unwrap_or_else(|| {
        ctx.reply_null_array();
        Asked::Answered
    }))
}

/// A word, the result or the reason, and since when; `time` is that of the queue.
fn told<'a>(time: QueueTime, known: Known<'a>) -> (&'static str, Option<&'a [u8]>, u64) {
    match known {
        Known::Done { result } => {
            let at = result.map_or(0, |(_, at)| time.shown(at));
            ("done", result.map(|(value, _)| value), at)
        }
        Known::Dead { reason, at } => ("dead", reason, time.shown(at)),
        Known::Live(status) => (status.name(), None, 0),
    }
}

fn reply(ctx: &Ctx, word: &str, value: Option<&[u8]>, at: u64) {
    ctx.reply_array(3);
    ctx.reply_bulk(word.as_bytes());
    match value {
        Some(value) => ctx.reply_bulk(value),
        None => ctx.reply_null(),
    }
    ctx.reply_integer(at);
}

impl Shown {
    /// What is known, by the time of its queue.
    pub(super) fn of(time: QueueTime, known: Known<'_>) -> Shown {
        let (word, value, at) = told(time, known);
        let value = value.map(Arc::from);
        Shown { word, value, at }
    }
}

/// Replies to a client that has waited. Its user may have lost the right to know meanwhile.
pub(super) fn answer(ctx: &Ctx, args: Args<'_>, answer: &Answer) {
    if !ctx.user_may(args) {
        ctx.reply_error(&Error::NoPermission);
        return;
    }
    match answer {
        Answer::Deadline => at_deadline(ctx, args),
        Answer::Ended(Some(Shown { word, value, at })) => reply(ctx, word, value.as_deref(), *at),
        Answer::Ended(None) => ctx.reply_null_array(),
        Answer::Gone => ctx.reply_error(&Error::Unblocked),
    }
}

/// Replies to a client whose time is over what holds then.
pub(super) fn at_deadline(ctx: &Ctx, args: Args<'_>) {
    let asked = match (args.key(1), Cursor::new(args, ID).id()) {
        _ if !ctx.user_may(args) => Err(Error::NoPermission),
        (Some(name), Ok(id)) => ask(ctx, name, id, false),
        _ => Err(Error::Internal),
    };
    if let Err(error) = asked {
        ctx.reply_error(&error);
    }
}
