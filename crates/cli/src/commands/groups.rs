//! `redis-mq groups`.

use std::collections::BTreeMap;

use redis_mq_client::redis::{self, Value};
use serde_json::{Map, Value as Json};

use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, table::Table, Out},
    reply,
};

/// List the groups of a queue and what they do, those with most waiting messages first.
///
/// A group is idle (nothing waits), ready, busy (as many in flight as may be), limited (by its rate)
/// or paused. With --json all groups come as the server tells them. Exit code 1 if there is no such
/// queue.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The queue
    queue: String,
    /// Show at most that many; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 50)]
    most: usize,
}

/// A group as the server tells it.
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// How many messages are ready.
    pub waiting: u64,
    /// How many are with consumers.
    pub in_flight: u64,
    /// How long the first of those that wait is ready, in milliseconds.
    pub oldest: u64,
    /// What it does, as in `ready` or `paused`.
    pub state: String,
    /// When that ends, Unix milliseconds; 0 if no instant is known.
    pub until: u64,
}

/// Lists them.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let mut out = Out::new();
    // While groups come and go one may be told twice; the later word counts.
    let mut found = BTreeMap::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut command = redis::cmd("MQ.GROUPS");
        command
            .arg(&args.queue)
            .arg(&cursor)
            .arg("COUNT")
            .arg(1_000);
        let page = server.call(&command).await?;
        if page == Value::Nil {
            let queue = output::name(args.queue.as_bytes());
            return Err(Failure::no(format!("no such queue: {queue}")));
        }
        let (next, groups) = read(&page).ok_or_else(|| Failure::unexpected("MQ.GROUPS"))?;
        for group in groups {
            if json {
                out.line(group.as_json())?;
            } else {
                found.insert(group.name.clone(), group);
            }
        }
        if next == "0" {
            break;
        }
        cursor = next;
    }
    if json {
        return Ok(Exit::OK);
    }
    let mut groups: Vec<Group> = found.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.waiting));
    let most = match args.most {
        0 => groups.len(),
        most => most,
    };
    let mut table = Table::new(&["GROUP", "WAITING", "IN FLIGHT", "OLDEST", "STATE"]);
    for group in groups.iter().take(most) {
        table.row(group.row());
    }
    table.print(&mut out)?;
    if groups.len() > most {
        out.line(format_args!("… {} groups in all", groups.len()))?;
    }
    Ok(Exit::OK)
}

impl Group {
    fn as_json(&self) -> Json {
        let mut object = Map::new();
        output::put_bytes(&mut object, "group", &self.name);
        object.insert("waiting".into(), self.waiting.into());
        object.insert("in-flight".into(), self.in_flight.into());
        object.insert("oldest-ms".into(), self.oldest.into());
        object.insert("state".into(), self.state.clone().into());
        object.insert("until-ms".into(), self.until.into());
        Json::Object(object)
    }

    /// A line of a table: name, waiting, in flight, age of the oldest, state.
    pub fn row(&self) -> Vec<String> {
        let oldest = match self.waiting {
            0 => "-".into(),
            _ => duration::show(self.oldest),
        };
        vec![
            output::name(&self.name),
            self.waiting.to_string(),
            self.in_flight.to_string(),
            oldest,
            self.state.clone(),
        ]
    }
}

/// The next cursor and the groups of a reply to MQ.GROUPS.
pub fn read(page: &Value) -> Option<(String, Vec<Group>)> {
    let [cursor, groups] = reply::items(page)? else {
        return None;
    };
    let group = |group: &Value| {
        let fields = reply::items(group)?;
        let number = |at: usize| reply::unsigned(fields.get(at)?);
        Some(Group {
            name: reply::bytes(fields.first()?)?.to_vec(),
            waiting: number(1)?,
            in_flight: number(2)?,
            oldest: number(3)?,
            state: reply::text(fields.get(4)?)?,
            until: number(5)?,
        })
    };
    let groups = reply::items(groups)?
        .iter()
        .map(group)
        .collect::<Option<_>>();
    let cursor = match reply::int(cursor) {
        Some(number) => number.to_string(),
        None => reply::text(cursor)?,
    };
    Some((cursor, groups?))
}
