//! The keys of the old queue, and the scripts that read and move them.

use std::time::Duration;

use redis_mq_client::redis::{self, Cmd, Value};

use super::kind::Kind;
use crate::{
    connect::Server,
    failure::Failure,
    output,
    reply::{self, Fields},
};

/// How much the server does in one step: messages, those with attempts counting for more.
pub const STEP: usize = 25;
/// How many the server looks at in one step.
const LOOK: usize = 100;

/// The keys in the order in which the scripts have them, with their types. The first nine are those of
/// Carmine 2, the others came with Carmine 3.3.
const KEYS: [(&str, &str); 14] = [
    ("messages", "hash"),
    ("locks", "hash"),
    ("backoffs", "hash"),
    ("nattempts", "hash"),
    ("done", "set"),
    ("requeue", "set"),
    ("mid-circle", "list"),
    ("mids-ready", "list"),
    ("messages-rq", "hash"),
    ("lock-times", "hash"),
    ("lock-times-rq", "hash"),
    ("udts", "hash"),
    ("eoq-backoff?", "string"),
    ("ndry-runs", "string"),
];

/// The lists, by what the script calls them.
#[derive(Debug, Clone, Copy)]
pub enum List {
    /// What is to be handed over at once; Carmine 3.3 and later.
    Ready,
    /// What the workers go round in.
    Circle,
}

impl List {
    fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Circle => "circle",
        }
    }

    fn key(self) -> usize {
        match self {
            Self::Ready => 7,
            Self::Circle => 6,
        }
    }
}

/// An old queue with the new one.
pub struct Old {
    new: String,
    keys: Vec<String>,
    slack: u128,
}

/// Which of the two queues there are.
pub struct There {
    pub old: bool,
    pub new: bool,
}

/// A part of the old queue.
pub struct Page {
    /// None at the end.
    pub next: Option<String>,
    pub counts: Vec<(Kind, u64)>,
    pub ids: Vec<Vec<u8>>,
}

/// What a step of the import did.
pub struct Step {
    /// How many entries of the list it has looked at.
    pub looked: u64,
    /// What they were, and whether they were taken.
    pub told: Vec<(Vec<u8>, Kind, bool)>,
    /// What ended it before its time.
    pub error: Option<String>,
}

impl Old {
    /// By the names that the user knows.
    pub fn new(prefix: &str, old: &str, new: &str, slack: Duration) -> Self {
        Self {
            new: new.to_owned(),
            keys: KEYS
                .iter()
                .map(|(name, _)| format!("{prefix}:{old}:{name}"))
                .collect(),
            slack: slack.as_millis(),
        }
    }

    /// Finds out what there is, and that it is what it should be.
    pub async fn check(&self, server: &mut Server) -> Result<There, Failure> {
        let new = server.call(redis::cmd("MQ.INFO").arg(&self.new)).await?;
        let asked: Vec<Cmd> = self
            .keys
            .iter()
            .map(|key| {
                let mut command = redis::cmd("TYPE");
                command.arg(key);
                command
            })
            .collect();
        let mut old = false;
        let answers = server.call_all(&asked).await?;
        for ((key, (_, wanted)), answer) in self.keys.iter().zip(KEYS).zip(answers) {
            let found = reply::text(&answer?).unwrap_or_default();
            if found != "none" && found != wanted {
                let key = output::name(key.as_bytes());
                let line =
                    format!("{key} is a {found} and not a {wanted}: this is no queue of Carmine");
                return Err(Failure::refused(line));
            }
            old |= found != "none";
        }
        Ok(There {
            old,
            new: Fields::read(&new).is_some(),
        })
    }

    /// How long the list is.
    pub async fn length(&self, server: &mut Server, list: List) -> Result<u64, Failure> {
        let key = &self.keys[list.key()];
        let length = server.call(redis::cmd("LLEN").arg(key)).await?;
        reply::unsigned(&length).ok_or_else(|| Failure::unexpected("LLEN"))
    }

    /// Looks at some messages.
    pub async fn look(&self, server: &mut Server, cursor: &str) -> Result<Page, Failure> {
        let mut command = self.script(include_str!("look.lua"));
        command.arg(cursor).arg(LOOK);
        let answer = server.call(&command).await?;
        read_page(&answer).ok_or_else(not_understood)
    }

    /// Takes some messages from the front of a list, or leaves them in it behind the others.
    pub async fn walk(&self, server: &mut Server, list: List, rest: u64) -> Result<Step, Failure> {
        let mut command = self.script(include_str!("take.lua"));
        command.arg(list.word()).arg(rest.min(STEP as u64));
        step(&server.call(&command).await?)
    }

    /// Takes these, if they are in no list.
    pub async fn strays(&self, server: &mut Server, ids: &[Vec<u8>]) -> Result<Step, Failure> {
        let mut command = self.script(include_str!("take.lua"));
        command.arg("strays").arg(ids);
        step(&server.call(&command).await?)
    }

    /// Removes what is left if no message is, and tells how many there are.
    pub async fn end(&self, server: &mut Server) -> Result<u64, Failure> {
        let mut command = self.script(include_str!("take.lua"));
        command.arg("end");
        Ok(step(&server.call(&command).await?)?.looked)
    }

    fn script(&self, text: &str) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command
            .arg(format!("{}{text}", include_str!("old.lua")))
            .arg(1 + self.keys.len())
            .arg(&self.new)
            .arg(&self.keys)
            .arg(self.slack.to_string());
        command
    }
}

fn not_understood() -> Failure {
    Failure::unexpected("the script")
}

fn read_page(answer: &Value) -> Option<Page> {
    let [next, counts, ids] = reply::items(answer)? else {
        return None;
    };
    let next = reply::text(next)?;
    let count = |two: &[Value]| match two {
        [kind, count] => Some((Kind::named(&reply::text(kind)?)?, reply::unsigned(count)?)),
        _ => None,
    };
    let id = |id: &Value| reply::bytes(id).map(<[u8]>::to_vec);
    Some(Page {
        next: (next != "0").then_some(next),
        counts: reply::items(counts)?
            .chunks(2)
            .map(count)
            .collect::<Option<_>>()?,
        ids: reply::items(ids)?.iter().map(id).collect::<Option<_>>()?,
    })
}

fn step(answer: &Value) -> Result<Step, Failure> {
    read_step(answer).ok_or_else(not_understood)
}

fn read_step(answer: &Value) -> Option<Step> {
    let items = reply::items(answer)?;
    let one = |three: &[Value]| {
        let [id, kind, taken] = three else {
            return None;
        };
        let kind = Kind::named(&reply::text(kind)?)?;
        Some((reply::bytes(id)?.to_vec(), kind, reply::int(taken)? == 1))
    };
    Some(Step {
        looked: reply::unsigned(items.first()?)?,
        told: reply::items(items.get(1)?)?
            .chunks(3)
            .map(one)
            .collect::<Option<_>>()?,
        error: items.get(2).and_then(reply::text),
    })
}
