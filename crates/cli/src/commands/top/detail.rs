//! The lists of an open queue.

use redis_mq_client::redis::{self, Cmd};

use crate::{
    commands::groups,
    duration,
    failure::Failure,
    output::{self, payload},
    reply::{self, Fields},
    sample::{self, Link},
};

/// At most how many lines a list has.
const MOST: u64 = 100;
/// How many bytes of a payload a line is made from.
const PREVIEW: usize = 400;

/// Which list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// The next deliveries.
    Next,
    /// The groups, those with most waiting messages first.
    Groups,
    /// The dead letters, the newest first.
    Letters,
}

impl Tab {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Next, "next"),
        (Self::Groups, "groups"),
        (Self::Letters, "dead letters"),
    ];

    /// The one behind it.
    pub fn next(self) -> Self {
        match self {
            Self::Next => Self::Groups,
            Self::Groups => Self::Letters,
            Self::Letters => Self::Next,
        }
    }

    /// The names of its columns; the last one takes the rest of the line.
    pub fn head(self) -> &'static [&'static str] {
        match self {
            Self::Next => &["ID", "TRIES", "AGE", "PAYLOAD"],
            Self::Groups => &["GROUP", "WAITING", "IN FLIGHT", "OLDEST", "STATE"],
            Self::Letters => &["ID", "TRIES", "AGE", "REASON"],
        }
    }
}

/// A list to ask for.
#[derive(Debug)]
pub struct Wanted {
    /// Of this queue.
    pub queue: Vec<u8>,
    /// Which.
    pub tab: Tab,
    /// How many messages the queue has, about.
    pub messages: u64,
}

/// A list, or why there is none.
#[derive(Debug)]
pub struct Detail {
    /// Of this queue.
    pub queue: Vec<u8>,
    /// Which.
    pub tab: Tab,
    /// Lines with a cell for each column.
    pub lines: Result<Vec<Vec<String>>, String>,
}

impl Detail {
    /// How many lines it has.
    pub fn len(&self) -> usize {
        self.lines.as_ref().map_or(0, Vec::len)
    }
}

/// Asks for it.
pub async fn ask(link: &Link, wanted: Wanted) -> Detail {
    let lines = match wanted.tab {
        Tab::Groups => groups(link, &wanted).await,
        Tab::Next | Tab::Letters => messages(link, &wanted).await,
    };
    Detail {
        lines: lines.map_err(|failure| failure.line().unwrap_or_default().to_owned()),
        queue: wanted.queue,
        tab: wanted.tab,
    }
}

async fn groups(link: &Link, wanted: &Wanted) -> Result<Vec<Vec<String>>, Failure> {
    let mut command = redis::cmd("MQ.GROUPS");
    command.arg(&wanted.queue).arg(0).arg("COUNT").arg(1_000);
    let answer = link.ask(&command).await?;
    // A queue that is gone has none.
    let (_, mut found) = groups::read(&answer).unwrap_or_default();
    found.sort_by_key(|group| std::cmp::Reverse(group.waiting));
    found.truncate(MOST as usize);
    Ok(found.iter().map(groups::Group::row).collect())
}

async fn messages(link: &Link, wanted: &Wanted) -> Result<Vec<Vec<String>>, Failure> {
    let letters = wanted.tab == Tab::Letters;
    let count = sample::page_of(link, &wanted.queue, wanted.messages, MOST).await;
    let answer = link.ask(&peek(&wanted.queue, letters, count)).await?;
    let found = reply::items(&answer).unwrap_or_default();
    let line = |message: Fields| {
        let text = |field: &str| output::name(message.bytes(field).unwrap_or_default());
        vec![
            text("id"),
            message.count("attempts").to_string(),
            duration::age(message.count("enqueued-at")),
            match letters {
                true => text("reason"),
                false => payload::preview(message.bytes("payload").unwrap_or_default(), PREVIEW),
            },
        ]
    };
    Ok(found.iter().filter_map(Fields::read).map(line).collect())
}

fn peek(queue: &[u8], letters: bool, count: u64) -> Cmd {
    let mut command = redis::cmd("MQ.PEEK");
    command.arg(queue);
    if letters {
        command.arg("STATUS").arg("dead").arg("REV");
    }
    command.arg("COUNT").arg(count);
    command
}
