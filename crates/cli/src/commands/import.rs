//! `redis-mq import`.

mod kind;
mod old;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use indicatif::ProgressBar;
use serde_json::json;

use self::{
    kind::Kind,
    old::{List, Old, Step, STEP},
};
use crate::{
    connect::Server,
    duration,
    failure::{Exit, Failure},
    output::{self, ask, Out},
};

/// Bring a queue of Carmine, the Clojure library, over into one of this module.
///
/// Statuses, attempts, backoffs, dedupe windows and requeue flags go along, and payloads stay the bytes
/// they are. Old workers may go on meanwhile: each message is moved in one step of the server, and what
/// a worker has stays with it. To repeat it is harmless, whatever ended it before. Exit code 1 as long
/// as something is left there.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The old queue's name
    old: String,
    /// The new queue; without it, of the same name
    new: Option<String>,
    /// What its keys begin with
    #[arg(long, value_name = "PREFIX", default_value = "carmine:mq")]
    prefix: String,
    /// Only tell what would become what
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// How far the clocks of the old workers may be from the server's: a lock that ended no longer ago
    /// is still its worker's
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s")]
    clock_slack: Duration,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Moves them.
pub async fn run(args: Args, mut server: Server, json: bool) -> Result<Exit, Failure> {
    let new = args.new.as_deref().unwrap_or(&args.old);
    let old = Old::new(&args.prefix, &args.old, new, args.clock_slack);
    let name = |text: &str| output::name(text.as_bytes());
    let is_there = old.check(&mut server).await?;
    if !is_there.old && (args.dry_run || !is_there.new) {
        let key = format!("{}:{}:messages", args.prefix, args.old);
        return Err(Failure::no(format!("no such queue: {}", name(&key))));
    }
    let counts = match is_there.old {
        true => look(&old, &mut server).await?,
        // It went with its last message: this is the run after the last one.
        false => Counts::new(),
    };
    let mut out = Out::new();
    if args.dry_run {
        print(&counts, &mut out, json)?;
        return Ok(Exit::OK);
    }
    let coming = counts.iter().filter(|(kind, _)| kind.becomes().is_some());
    let coming: u64 = coming.map(|(_, count)| count).sum();
    let messages = ask::count(coming, "message");
    let question = format!(
        "import {messages} of {} into {}?",
        name(&args.old),
        name(new)
    );
    if coming > 0 && !ask::confirm(&question, args.yes)? {
        return Ok(Exit::NO);
    }
    let mut import = Import::new(counts.values().sum());
    let ended = import.run(&old, &mut server).await;
    import.bar.finish_and_clear();
    let imported = import.imported;
    if let Err(failure) = ended {
        let line = failure.line().unwrap_or_default();
        let line = format!("{line} ({imported} were imported)");
        return Err(failure.with_line(&line));
    }
    let left = old.end(&mut server).await?;
    match json {
        true => out.line(json!({
            "old": args.old, "new": new, "imported": imported, "left": left,
        }))?,
        false => out.line(format_args!("{imported} imported, {left} left"))?,
    }
    if left > 0 && !json {
        print(&import.stays(), &mut out, json)?;
    }
    Ok(if left == 0 { Exit::OK } else { Exit::NO })
}

/// How many messages of each kind.
type Counts = BTreeMap<Kind, u64>;

fn print(counts: &Counts, out: &mut Out, json: bool) -> Result<(), Failure> {
    for (kind, count) in counts {
        match json {
            true => out.line(json!({
                "kind": kind.name(), "messages": count, "becomes": kind.becomes(),
            }))?,
            false => out.line(format_args!(
                "{count:>10}  {:<28}  {}",
                kind.name(),
                kind.meaning()
            ))?,
        }
    }
    Ok(())
}

async fn look(old: &Old, server: &mut Server) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    let mut cursor = Some("0".to_owned());
    while let Some(at) = cursor {
        let page = old.look(server, &at).await?;
        for (kind, count) in page.counts {
            *counts.entry(kind).or_default() += count;
        }
        cursor = page.next;
    }
    Ok(counts)
}

/// One run.
struct Import {
    imported: u64,
    /// What the walk came by and left there, with the reason.
    seen: HashMap<Vec<u8>, Kind>,
    bar: ProgressBar,
}

impl Import {
    fn new(messages: u64) -> Self {
        Self {
            imported: 0,
            seen: HashMap::new(),
            bar: ProgressBar::new(messages),
        }
    }

    /// Once through both lists as they are now, in the order in which the old workers would go, and
    /// then through what is in neither of them.
    async fn run(&mut self, old: &Old, server: &mut Server) -> Result<(), Failure> {
        for list in [List::Ready, List::Circle] {
            let mut rest = old.length(server, list).await?;
            while rest > 0 {
                let step = old.walk(server, list, rest).await?;
                let looked = step.looked;
                self.note(step)?;
                if looked == 0 {
                    break;
                }
                rest = rest.saturating_sub(looked);
            }
        }
        let mut cursor = Some("0".to_owned());
        while let Some(at) = cursor {
            let page = old.look(server, &at).await?;
            let strays = page.ids.iter().filter(|id| !self.seen.contains_key(*id));
            let strays: Vec<_> = strays.cloned().collect();
            for some in strays.chunks(STEP) {
                self.note(old.strays(server, some).await?)?;
            }
            cursor = page.next;
        }
        Ok(())
    }

    fn note(&mut self, step: Step) -> Result<(), Failure> {
        for (id, kind, taken) in step.told {
            match taken {
                true => self.imported += u64::from(kind.becomes().is_some()),
                false => drop(self.seen.insert(id, kind)),
            }
            self.bar.inc(1);
        }
        step.error
            .map_or(Ok(()), |error| Err(Failure::refused(error)))
    }

    fn stays(&self) -> Counts {
        let mut counts = Counts::new();
        for kind in self.seen.values() {
            *counts.entry(*kind).or_default() += 1;
        }
        counts
    }
}
