//! `redis-mq schedules`.

mod set;

use clap::Subcommand;
use redis_mq_client::redis::{self, Value};
use serde_json::{json, Map, Value as Json};

use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, ask, table::Table, Out},
    reply::{self, Fields},
};

/// List what queues enqueue by themselves, set it, run it now, or remove it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the schedules of a queue, by name; with --json all that the server tells
    Ls {
        /// The queue
        queue: String,
    },
    /// Make a schedule, or change the one of that name
    Set(Box<set::Args>),
    /// Remove schedules; what they have enqueued stays
    Rm {
        /// The queue
        queue: String,
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Enqueue what a schedule enqueues, now; its times stay
    Fire {
        /// The queue
        queue: String,
        /// Its name
        name: String,
    },
}

/// Does it.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    match args.what {
        What::Ls { queue } => list(&mut server, &queue, json).await,
        What::Set(args) => set::run(*args, &mut server, json).await,
        What::Rm { queue, names, yes } => remove(&mut server, &queue, &names, yes, json).await,
        What::Fire { queue, name } => fire(&mut server, &queue, &name, json).await,
    }
}

async fn list(server: &mut Server, queue: &str, json: bool) -> Result<Exit, Failure> {
    let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let mut command = redis::cmd("MQ.SCHEDULES");
        command.arg(queue).arg(&cursor).arg("COUNT").arg(1_000);
        let page = server.call(&command).await?;
        if page == Value::Nil {
            let queue = output::name(queue.as_bytes());
            return Err(Failure::no(format!("no such queue: {queue}")));
        }
        let (next, schedules) = read(&page).ok_or_else(|| Failure::unexpected("MQ.SCHEDULES"))?;
        all.extend(schedules);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    all.sort_by(|a, b| a.bytes("name").cmp(&b.bytes("name")));
    let mut out = Out::new();
    if json {
        for schedule in &all {
            out.line(as_json(schedule))?;
        }
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["SCHEDULE", "WHEN", "NEXT", "LAST", "RUNS", "SKIPPED"]);
    for schedule in &all {
        table.row(row(schedule));
    }
    table.print(&mut out)?;
    Ok(Exit::OK)
}

/// The next cursor and the schedules of a reply to MQ.SCHEDULES.
fn read(page: &Value) -> Option<(String, Vec<Fields>)> {
    let [cursor, schedules] = reply::items(page)? else {
        return None;
    };
    let schedules = reply::items(schedules)?.iter().map(Fields::read);
    let cursor = match reply::int(cursor) {
        Some(number) => number.to_string(),
        None => reply::text(cursor)?,
    };
    Some((cursor, schedules.collect::<Option<_>>()?))
}

fn as_json(schedule: &Fields) -> Json {
    let mut object = Map::new();
    for (name, value) in schedule.iter() {
        output::put_value(&mut object, name, value);
    }
    Json::Object(object)
}

fn row(schedule: &Fields) -> Vec<String> {
    let text = |field: &str| {
        schedule
            .value(field)
            .map(output::one_line)
            .unwrap_or_default()
    };
    let when = match schedule.value("tz") {
        None | Some(Value::Nil) => match text("spec").strip_prefix("EVERY ") {
            Some(ms) => format!("every {}", duration::show(ms.parse().unwrap_or(0))),
            None => text("spec"),
        },
        Some(zone) => format!("{} {}", text("spec"), output::one_line(zone)),
    };
    let last = match schedule.count("last-at") {
        0 => "-".to_owned(),
        at => format!("{} ago, {}", duration::age(at), text("last-outcome")),
    };
    vec![
        output::name(schedule.bytes("name").unwrap_or_default()),
        when.trim_start_matches("CRON ").to_owned(),
        match schedule.count("next-at") {
            0 => "-".to_owned(),
            at => duration::show_instant(at),
        },
        last,
        schedule.count("runs").to_string(),
        schedule.count("skipped").to_string(),
    ]
}

async fn remove(
    server: &mut Server,
    queue: &str,
    names: &[String],
    yes: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let shown = output::name(queue.as_bytes());
    let schedules = ask::count(names.len() as u64, "schedule");
    if !ask::confirm(&format!("remove {schedules} of {shown}?"), yes)? {
        return Ok(Exit::NO);
    }
    let mut command = redis::cmd("MQ.UNSCHEDULE");
    command.arg(queue).arg(names);
    let removed = server.call(&command).await?;
    let removed = reply::unsigned(&removed).ok_or_else(|| Failure::unexpected("MQ.UNSCHEDULE"))?;
    let (asked, mut out) = (names.len(), Out::new());
    match json {
        true => out.line(json!({"queue": queue, "names": asked, "removed": removed}))?,
        false => out.line(format_args!("{removed} of {asked} removed"))?,
    }
    Ok(if removed == 0 { Exit::NO } else { Exit::OK })
}

async fn fire(server: &mut Server, queue: &str, name: &str, json: bool) -> Result<Exit, Failure> {
    let mut command = redis::cmd("MQ.FIRE");
    command.arg(queue).arg(name);
    let answer = server.call(&command).await?;
    if answer == Value::Nil {
        let name = output::name(name.as_bytes());
        return Err(Failure::no(format!("no such schedule: {name}")));
    }
    let read = |answer: &Value| {
        let [outcome, id] = reply::items(answer)? else {
            return None;
        };
        Some((reply::text(outcome)?, reply::bytes(id)?.to_vec()))
    };
    let (outcome, id) = read(&answer).ok_or_else(|| Failure::unexpected("MQ.FIRE"))?;
    let mut out = Out::new();
    if json {
        let mut object = Map::new();
        object.insert("outcome".into(), outcome.into());
        output::put_bytes(&mut object, "id", &id);
        out.line(Json::Object(object))?;
    } else {
        out.line(format_args!("{outcome} {}", output::name(&id)))?;
    }
    Ok(Exit::OK)
}
