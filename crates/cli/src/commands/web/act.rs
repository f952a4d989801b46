//! Whatever changes something. What cannot be taken back is asked for twice: the first answer tells
//! how many messages it is about, and the second request says that number.

use maud::html;
use redis_mq_client::redis::{self, Cmd, Value};

use super::{
    names,
    pages::{
        limits::{self, Of},
        number, Page,
    },
    params::Params,
    site::{Answer, Site},
};
use crate::{
    commands::ls,
    duration,
    failure::Failure,
    output::{self, ask},
    reply::{self, Fields},
};

const DROP_LETTERS: &str = include_str!("drop_letters.lua");

/// Does what the form says.
pub async fn act(site: &Site, form: &Params) -> Result<Answer, Failure> {
    let queue = form.needed("name")?;
    let act = Act { site, form, queue };
    match form.text("do") {
        Some("pause") => act.pause().await,
        Some("resume") => act.resume().await,
        Some("redrive") => act.redrive().await,
        Some("redrive-all") => act.redrive_all().await,
        Some("drop") => act.drop_letters().await,
        Some("cancel") => act.cancel().await,
        Some("purge") => act.purge().await,
        Some("limit") => act.limit().await,
        Some("fire") => act.fire().await,
        Some("unschedule") => act.unschedule().await,
        _ => Err(Failure::usage("the form does not say what to do")),
    }
}

struct Act<'a> {
    site: &'a Site,
    form: &'a Params,
    queue: Vec<u8>,
}

impl Act<'_> {
    fn command(&self, name: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&self.queue);
        command
    }

    async fn change(&self, command: &Cmd) -> Result<Value, Failure> {
        let answer = self.site.link.change(command).await?;
        // What is shown next tells what holds now.
        if let Ok(info) = self.site.link.ask(&ls::ask(&self.queue)).await {
            if let Some(info) = Fields::read(&info) {
                let now = std::time::Instant::now();
                self.site.board.sampled(&self.queue, info, now);
            }
        }
        Ok(answer)
    }

    /// The page of the queue, or where the form came from.
    fn back(&self, path: &str, params: &[(&str, &str)]) -> Answer {
        Answer::Elsewhere(match self.form.text("back") {
            Some("queues") => self.site.href("/", &[]),
            Some("groups") => self.site.queue_href("/groups", &self.queue, params),
            _ => self.site.queue_href(path, &self.queue, params),
        })
    }

    async fn pause(&self) -> Result<Answer, Failure> {
        let mut command = self.command("MQ.PAUSE");
        self.put_group(&mut command);
        if let Some(time) = self.form.text("for") {
            let time = duration::parse_above_zero(time.trim()).map_err(Failure::usage)?;
            command.arg("FOR").arg(duration::millis(time));
        }
        self.change(&command).await?;
        Ok(self.back("/queue", &[]))
    }

    async fn resume(&self) -> Result<Answer, Failure> {
        let mut command = self.command("MQ.RESUME");
        self.put_group(&mut command);
        self.change(&command).await?;
        Ok(self.back("/queue", &[]))
    }

    fn put_group(&self, command: &mut Cmd) {
        if let Some(group) = self.form.bytes("group") {
            command.arg("GROUP").arg(group);
        }
    }

    fn ids(&self) -> Result<Vec<Vec<u8>>, Failure> {
        let ids: Vec<_> = self.form.all("id").map(names::read).collect();
        match ids.is_empty() {
            true => Err(Failure::usage("nothing is selected")),
            false => Ok(ids),
        }
    }

    async fn redrive(&self) -> Result<Answer, Failure> {
        let ids = self.ids()?;
        if self.sure().is_none() {
            let letters = ask::count(ids.len() as u64, "dead letter");
            return Ok(self.ask(&format!("Send {letters} again?"), ids.len() as u64));
        }
        let mut command = self.command("MQ.REDRIVE");
        command.arg(ids);
        let sent = self.change(&command).await?;
        Ok(self.told("redriven", &sent))
    }

    async fn drop_letters(&self) -> Result<Answer, Failure> {
        let ids = self.ids()?;
        if self.sure().is_none() {
            let letters = ask::count(ids.len() as u64, "dead letter");
            return Ok(self.ask(&format!("Remove {letters}?"), ids.len() as u64));
        }
        let mut command = redis::cmd("EVAL");
        command.arg(DROP_LETTERS).arg(1).arg(&self.queue).arg(ids);
        let gone = self.change(&command).await?;
        Ok(self.told("removed", &gone))
    }

    async fn cancel(&self) -> Result<Answer, Failure> {
        let ids = self.ids()?;
        if self.sure().is_none() {
            let messages = ask::count(ids.len() as u64, "message");
            return Ok(self.ask(&format!("Remove {messages}?"), ids.len() as u64));
        }
        let mut command = self.command("MQ.CANCEL");
        command.arg(ids);
        let gone = self.change(&command).await?;
        let count = reply::unsigned(&gone).unwrap_or(0).to_string();
        Ok(self.back("/queue", &[("note", "removed"), ("count", &count)]))
    }

    async fn redrive_all(&self) -> Result<Answer, Failure> {
        let Some(count) = self.sure() else {
            let count = self.info().await?.count("dead");
            let letters = ask::count(count, "dead letter");
            return Ok(self.ask(&format!("Send {letters} again?"), count));
        };
        self.job("sent again", count, "MQ.REDRIVE", None).await?;
        Ok(self.back("/queue", &[("status", "dead")]))
    }

    async fn purge(&self) -> Result<Answer, Failure> {
        let status = self.form.text("status").unwrap_or_default().to_owned();
        let Some(count) = self.sure() else {
            let info = self.info().await?;
            let (count, what) = match &*status {
                "ALL" => {
                    let locked = info.count("locked") + info.count("locked-with-requeue");
                    let count = info.count("messages").saturating_sub(locked);
                    (count, "message".to_owned())
                }
                "dead" => (info.count("dead"), "dead letter".into()),
                other => (info.count(other), format!("{other} message")),
            };
            let messages = ask::count(count, &what);
            return Ok(self.ask(&format!("Remove {messages}?"), count));
        };
        let back = match &*status {
            "ALL" => String::new(),
            other => other.to_owned(),
        };
        self.job("removed", count, "MQ.PURGE", Some(status)).await?;
        Ok(self.back("/queue", &[("status", &back)]))
    }

    /// Does it in steps, to as many as there were when it was asked for.
    async fn job(
        &self,
        what: &'static str,
        count: u64,
        name: &'static str,
        status: Option<String>,
    ) -> Result<(), Failure> {
        let queue = self.queue.clone();
        let command = move |step: u64| {
            let mut command = redis::cmd(name);
            command.arg(&queue).arg(&status).arg("COUNT").arg(step);
            command
        };
        let link = self.site.link.clone();
        let jobs = &self.site.jobs;
        jobs.start(&self.queue, what, count, link, command).await
    }

    async fn limit(&self) -> Result<Answer, Failure> {
        let of = Of::read(self.form)?;
        let mut command = self.command("MQ.LIMIT");
        of.put(&mut command);
        let mut changes = false;
        for (limit, _) in of.limits() {
            let value = |name: &str| self.form.text(name).unwrap_or_default().to_owned();
            let given = value(limit);
            // What was not touched stays as it is, even if somebody else has changed it.
            if given != value(&format!("was-{limit}")) {
                changes = true;
                command.arg(limit.to_ascii_uppercase());
                command.arg(limits::arguments(limit, &given)?);
            }
        }
        if changes {
            self.change(&command).await?;
        }
        let group = self.form.text("group").unwrap_or_default();
        let note = if changes { "limits" } else { "same" };
        let params = [("of", of.word()), ("group", group), ("note", note)];
        Ok(self.back("/limits", &params))
    }

    async fn fire(&self) -> Result<Answer, Failure> {
        let mut command = self.command("MQ.FIRE");
        command.arg(self.form.needed("schedule")?);
        let answer = self.change(&command).await?;
        let outcome = reply::items(&answer).and_then(|all| reply::bytes(all.first()?));
        let note = match outcome {
            Some(b"added") => "fired",
            _ => "waits",
        };
        Ok(self.back("/schedules", &[("note", note)]))
    }

    async fn unschedule(&self) -> Result<Answer, Failure> {
        let name = self.form.needed("schedule")?;
        if self.sure().is_none() {
            let question = format!("Remove the schedule {}?", output::name(&name));
            return Ok(self.ask(&question, 1));
        }
        let mut command = self.command("MQ.UNSCHEDULE");
        command.arg(name);
        let gone = self.change(&command).await?;
        let count = reply::unsigned(&gone).unwrap_or(0).to_string();
        Ok(self.back("/schedules", &[("note", "removed"), ("count", &count)]))
    }

    async fn info(&self) -> Result<Fields, Failure> {
        let answer = self.site.link.ask(&ls::ask(&self.queue)).await?;
        let missing = || Failure::no(format!("no such queue: {}", output::name(&self.queue)));
        Fields::read(&answer).ok_or_else(missing)
    }

    fn told(&self, note: &str, count: &Value) -> Answer {
        let count = reply::unsigned(count).unwrap_or(0).to_string();
        let params = [("status", "dead"), ("note", note), ("count", &count)];
        self.back("/queue", &params)
    }

    /// The number that was told before.
    fn sure(&self) -> Option<u64> {
        self.form.number("sure")
    }

    /// A page that asks.
    fn ask(&self, question: &str, count: u64) -> Answer {
        let carried = ["do", "name", "id", "status", "schedule", "back"];
        let queue = output::name(&self.queue);
        let body = html! {
            h1 { bdi { (queue) } }
            p.question { bdi { (question) } }
            form.actions method="post" action=(self.site.href("/act", &[])) {
                @for field in carried {
                    @for value in self.form.all(field) {
                        input type="hidden" name=(field) value=(value);
                    }
                }
                input type="hidden" name="sure" value=(count);
                @if count > 0 { button autofocus { "Yes, " (number(count)) } }
                a href=(self.site.queue_href("/queue", &self.queue, &[])) { "No, go back" }
            }
        };
        Answer::Page(Page {
            title: queue,
            renews: false,
            body,
        })
    }
}
