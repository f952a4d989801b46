//! One queue: its counts, and its messages by status.

use maud::{html, Markup};
use redis_mq_client::redis::{self, Value};

use super::{button, instant, name, note, number, preview, queue_head, queues, spelled, Page};
use crate::{
    commands::{
        ls,
        web::{params::Params, site::Site},
    },
    duration,
    failure::Failure,
    output,
    reply::{self, Fields},
    sample::{self, Progress, Row},
};

/// How many messages a page has.
pub const MOST: u64 = 50;

/// The statuses with what they are called; the first four are always shown.
const STATUSES: [(&str, &str); 9] = [
    ("queued", "ready"),
    ("queued-with-backoff", "delayed"),
    ("locked", "locked"),
    ("dead", "dead"),
    ("locked-with-requeue", "locked, to run again"),
    ("done-with-backoff", "done, in its window"),
    ("done-with-requeue", "done, to run again"),
    ("done-awaiting-gc", "done"),
    ("waiting", "waiting"),
];

/// The page.
pub async fn page(site: &Site, params: &Params) -> Result<Page, Failure> {
    let queue = params.needed("name")?;
    let answer = site.link.ask(&ls::ask(&queue)).await?;
    let Some(info) = Fields::read(&answer) else {
        let queue = output::name(&queue);
        return Err(Failure::no(format!("no such queue: {queue}")));
    };
    let status = params.text("status");
    let list = List::ask(site, params, &queue, &info, status).await;
    let job = site.jobs.of(&queue);
    site.jobs.forget(&queue);
    let body = html! {
        (queue_head(site, &queue, "/queue"))
        (note(params))
        div data-live=(site.queue_href("/live/queue", &queue, &[])) {
            (facts(site, &queue, &info, site.board.watch(&queue).as_ref(), job.as_ref()))
        }
        (search(site, &queue, "", status))
        nav.tabs aria-label="Messages by status" {
            a href=(site.queue_href("/queue", &queue, &[]))
                aria-current=[status.is_none().then_some("page")] { "next" }
            @for (at, (word, label)) in STATUSES.iter().enumerate() {
                @let count = info.count(word);
                @if at < 4 || count > 0 || status == Some(word) {
                    a href=(site.queue_href("/queue", &queue, &[("status", word)]))
                        aria-current=[(status == Some(word)).then_some("page")] {
                        (label) " " span.count { (number(count)) }
                    }
                }
            }
        }
        @match list {
            Ok(list) => (list.show(site, &queue, &info, status)),
            Err(failure) => (not_listed(site, &queue, status, &failure)),
        }
    };
    Ok(Page {
        title: output::name(&queue),
        renews: false,
        body,
    })
}

/// The counts alone.
pub fn part(site: &Site, params: &Params) -> Result<Markup, Failure> {
    let queue = params.needed("name")?;
    let row = site.board.watch(&queue);
    let info = row.as_ref().and_then(|row| row.info.clone());
    let info = info.ok_or_else(|| Failure::no("not known yet"))?;
    let job = site.jobs.of(&queue);
    Ok(facts(site, &queue, &info, row.as_ref(), job.as_ref()))
}

/// The field to look for messages in.
pub fn search(site: &Site, queue: &[u8], find: &str, status: Option<&str>) -> Markup {
    html! {
        form.search role="search" action=(site.href("/search", &[])) {
            input type="hidden" name="name" value=(spelled(queue));
            @if let Some(status) = status {
                input type="hidden" name="status" value=(status);
            }
            label for="find" { "Find" }
            input id="find" type="search" name="find" value=(find) required
                placeholder="an id, or a pattern with * and ?";
            button { "Find" }
        }
    }
}

fn facts(
    site: &Site,
    queue: &[u8],
    info: &Fields,
    row: Option<&Row>,
    job: Option<&Progress>,
) -> Markup {
    let count = |field: &str| number(info.count(field));
    let locked = info.count("locked") + info.count("locked-with-requeue");
    let oldest = match info.count("queued") {
        0 => "–".into(),
        _ => duration::show(info.count("oldest-queued-ms")),
    };
    let rate = |rate: Option<f64>| rate.map_or("…".into(), queues::show_rate);
    let times = |what: &str| {
        let part = |share: &str| duration::show(info.count(&format!("{what}-{share}-ms")));
        format!("{} / {} / {}", part("p50"), part("p95"), part("p99"))
    };
    let all: [(&str, String); 12] = [
        ("ready", count("queued")),
        ("delayed", count("queued-with-backoff")),
        ("locked", number(locked)),
        ("dead", count("dead")),
        ("oldest", oldest),
        ("in /s", rate(row.and_then(|row| row.rate_in))),
        ("out /s", rate(row.and_then(|row| row.rate_out))),
        ("held by groups", count("held")),
        ("wait 50 / 95 / 99 %", times("wait")),
        ("work 50 / 95 / 99 %", times("work")),
        ("enqueued ever", count("total-enqueued")),
        ("done ever", count("total-done")),
    ];
    let limited = info.bytes("limited").unwrap_or_default();
    html! {
        div.state data-cell="state" {
            @if info.count("paused") == 1 {
                span.badge { "paused" }
                @let until = info.count("paused-until");
                @if until > 0 { span { "goes on " (instant(until)) } }
                (button(site, "Resume", &[("do", "resume"), ("name", &spelled(queue))]))
            } @else {
                (pause_form(site, queue))
            }
            @if !limited.is_empty() {
                span.badge { "limited: " (output::name(limited)) }
            }
        }
        @if let Some(job) = job {
            p.note role="status" data-cell="job" {
                (job.to_string())
            }
        }
        dl.facts {
            @for (label, value) in all {
                div { dt { (label) } dd data-cell=(label) { (value) } }
            }
        }
    }
}

fn pause_form(site: &Site, queue: &[u8]) -> Markup {
    html! {
        @if !site.access.read_only() {
            form.inline method="post" action=(site.href("/act", &[])) {
                input type="hidden" name="name" value=(spelled(queue));
                input type="hidden" name="do" value="pause";
                label { "for " input.short name="for" placeholder="ever, or 30m"; }
                button { "Pause" }
            }
        }
    }
}

/// Messages of a status, a page of them.
struct List {
    messages: Vec<Fields>,
    /// There may be more behind the last one.
    more: bool,
    /// Some of them are left out, since turns have no order to go on in.
    only_next: bool,
}

impl List {
    async fn ask(
        site: &Site,
        params: &Params,
        queue: &[u8],
        info: &Fields,
        status: Option<&str>,
    ) -> Result<Self, Failure> {
        let messages = info.count("messages");
        let count = sample::page_of(&site.link, queue, messages, MOST).await;
        let mut command = redis::cmd("MQ.PEEK");
        command.arg(queue);
        if let Some(status) = status {
            command.arg("STATUS").arg(status);
        }
        command.arg("COUNT").arg(count);
        if let Some(id) = params.bytes("after") {
            command.arg("AFTER").arg(id);
        }
        // Who opens the letters wants the newest ones.
        if (status == Some("dead")) != params.text("reverse").is_some() {
            command.arg("REV");
        }
        let answer = site.link.ask(&command).await?;
        let messages: Option<Vec<_>> = match &answer {
            Value::Nil => Some(Vec::new()),
            answer => reply::items(answer).and_then(|all| all.iter().map(Fields::read).collect()),
        };
        let messages = messages.ok_or_else(|| Failure::unexpected("MQ.PEEK"))?;
        let more = messages.len() as u64 == count;
        let turns = info.count("groups") > 0 && matches!(status, None | Some("queued"));
        Ok(Self {
            more: more && !turns,
            only_next: more && turns,
            messages,
        })
    }

    fn show(&self, site: &Site, queue: &[u8], info: &Fields, status: Option<&str>) -> Markup {
        let dead = status == Some("dead");
        let word = status.unwrap_or_default();
        html! {
            @if self.messages.is_empty() {
                p.quiet { "Nothing here." }
            } @else if dead && !site.access.read_only() {
                form method="post" action=(site.href("/act", &[])) {
                    input type="hidden" name="name" value=(spelled(queue));
                    (self.table(site, queue, true))
                    p.actions {
                        button name="do" value="redrive" { "Send the selected again" }
                        button name="do" value="drop" { "Remove the selected" }
                    }
                }
            } @else {
                (self.table(site, queue, false))
            }
            @if let Some(last) = self.messages.last().filter(|_| self.more) {
                @let after = spelled(last.bytes("id").unwrap_or_default());
                nav.pages aria-label="Pages" {
                    a href=(site.queue_href("/queue", queue, &[("status", word)])) { "← first" }
                    a rel="next" href=(site.queue_href("/queue", queue,
                        &[("status", word), ("after", &after)])) { "next →" }
                }
            }
            @if self.only_next {
                p.quiet {
                    "With groups the next deliveries are known, not an order of all. "
                    a href=(all_href(site, queue, "queued")) { "All that are ready" }
                }
            }
            (whole_status(site, queue, info, status))
        }
    }

    fn table(&self, site: &Site, queue: &[u8], select: bool) -> Markup {
        let text =
            |message: &Fields, field: &str| output::name(message.bytes(field).unwrap_or_default());
        let reasons = self
            .messages
            .iter()
            .any(|one| one.bytes("reason").is_some());
        html! {
            div.scroll { table {
                thead { tr {
                    @if select { th scope="col" { span.hidden { "Select" } } }
                    th scope="col" { "Id" }
                    th scope="col" { "Status" }
                    th.number scope="col" { "Tries" }
                    th scope="col" { "Enqueued" }
                    @if reasons { th scope="col" { "Reason" } }
                    th.wide scope="col" { "Payload" }
                } }
                tbody { @for message in &self.messages {
                    @let id = message.bytes("id").unwrap_or_default();
                    @let status = text(message, "status");
                    tr {
                        @if select { td {
                            input type="checkbox" name="id" value=(spelled(id))
                                aria-label={ "select " (output::name(id)) };
                        } }
                        th scope="row" {
                            a href=(site.queue_href("/message", queue, &[("id", &spelled(id))])) {
                                (name(id))
                            }
                        }
                        td { (status) }
                        td.number { (message.count("attempts")) }
                        td { (instant(message.count("enqueued-at"))) }
                        @if reasons { td.cut { bdi { (text(message, "reason")) } } }
                        td.cut.wide { bdi { (preview(message.bytes("payload").unwrap_or_default())) } }
                    }
                } }
            } }
        }
    }
}

/// What can be done to all messages of a status.
fn whole_status(site: &Site, queue: &[u8], info: &Fields, status: Option<&str>) -> Markup {
    let name = spelled(queue);
    let (word, count) = match status {
        Some(word) => (word, info.count(word)),
        None => ("ALL", info.count("messages")),
    };
    html! {
        @if count > 0 {
            div.actions {
                @if word == "dead" {
                    (button(site, &format!("Send all {} again", number(count)),
                        &[("do", "redrive-all"), ("name", &name)]))
                }
                @if word == "ALL" {
                    (button(site, "Remove all but what is worked on",
                        &[("do", "purge"), ("name", &name), ("status", word)]))
                } @else {
                    (button(site, &format!("Remove all {}", number(count)),
                        &[("do", "purge"), ("name", &name), ("status", word)]))
                }
            }
        }
    }
}

/// Why there is no list, and the way that goes nevertheless.
fn not_listed(site: &Site, queue: &[u8], status: Option<&str>, failure: &Failure) -> Markup {
    html! {
        p.note.bad { (failure.line().unwrap_or_default()) }
        p { a href=(all_href(site, queue, status.unwrap_or_default())) { "All of them, without an order" } }
    }
}

fn all_href(site: &Site, queue: &[u8], status: &str) -> String {
    site.queue_href("/search", queue, &[("find", "*"), ("status", status)])
}
