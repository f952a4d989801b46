//! The groups of a queue, as `MQ.GROUPS` lists them.

use std::time::{Duration, SystemTime};

use redis::Value;

use super::info::instant;
use crate::reply::{bytes, text, unsigned};

/// Some of the groups of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupsPage {
    /// These groups.
    pub groups: Vec<GroupInfo>,
    /// Where to go on; `None` if these were the last.
    pub next: Option<u64>,
}

/// A group and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Its name.
    pub name: Vec<u8>,
    /// Its messages that are ready.
    pub waiting: u64,
    /// Its messages that are with consumers.
    pub in_flight: u64,
    /// How long the first of those that wait is ready; `None` if none waits.
    pub oldest: Option<Duration>,
    /// What it does; `None` is a state that this version does not know.
    pub state: Option<GroupState>,
    /// When its rate or its pause lets it go on, on the server's clock, as far as that is known.
    pub until: Option<SystemTime>,
    /// Its messages that are not finished; `None` where the server does not tell.
    pub open: Option<u64>,
}

/// What a group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupState {
    /// Nothing waits.
    Idle,
    /// Something waits for a consumer.
    Ready,
    /// As many of its messages are with consumers as may be.
    Busy,
    /// Its rate lets nothing go now.
    Limited,
    /// It is paused.
    Paused,
}

impl GroupsPage {
    /// Fields that this version does not know are left alone.
    pub(crate) fn from_reply(reply: Value) -> Option<Self> {
        let Value::Array(parts) = reply else {
            return None;
        };
        let mut parts = parts.into_iter();
        let next = unsigned(&parts.next()?)?;
        let Value::Array(groups) = parts.next()? else {
            return None;
        };
        Some(Self {
            groups: groups.into_iter().map(group).collect::<Option<_>>()?,
            next: (next > 0).then_some(next),
        })
    }
}

fn group(value: Value) -> Option<GroupInfo> {
    let Value::Array(fields) = value else {
        return None;
    };
    let mut fields = fields.into_iter();
    let name = bytes(fields.next()?)?;
    let waiting = unsigned(&fields.next()?)?;
    let in_flight = unsigned(&fields.next()?)?;
    let oldest = unsigned(&fields.next()?)?;
    Some(GroupInfo {
        name,
        waiting,
        in_flight,
        oldest: (waiting > 0).then(|| Duration::from_millis(oldest)),
        state: match &*text(&fields.next()?)? {
            "idle" => Some(GroupState::Idle),
            "ready" => Some(GroupState::Ready),
            "busy" => Some(GroupState::Busy),
            "limited" => Some(GroupState::Limited),
            "paused" => Some(GroupState::Paused),
            _ => None,
        },
        until: instant(&fields.next()?),
        open: fields.next().as_ref().and_then(unsigned),
    })
}
