//! The schedules of a queue.

use maud::html;
use redis_mq_client::redis::{self, Value};

use super::{button, instant, name, note, number, preview, queue_head, spelled, Page};
use crate::{
    commands::web::{params::Params, site::Site},
    failure::Failure,
    output,
    reply::{self, Fields},
};

/// How many schedules a page has.
const MOST: u64 = 50;

/// The page.
pub async fn page(site: &Site, params: &Params) -> Result<Page, Failure> {
    let queue = params.needed("name")?;
    let mut command = redis::cmd("MQ.SCHEDULES");
    command
        .arg(&queue)
        .arg(params.text("cursor").unwrap_or("0"));
    command.arg("COUNT").arg(MOST);
    let answer = match site.link.ask(&command).await {
        Ok(answer) => answer,
        Err(failure) if failure.begins_with("this server does not know") => {
            return Ok(Page {
                title: output::name(&queue),
                renews: false,
                body: html! {
                    (queue_head(site, &queue, "/schedules"))
                    p.quiet { "The module of this server has no schedules." }
                },
            });
        }
        Err(failure) => return Err(failure),
    };
    if answer == Value::Nil {
        let queue = output::name(&queue);
        return Err(Failure::no(format!("no such queue: {queue}")));
    }
    let (next, found) = read(&answer).ok_or_else(|| Failure::unexpected("MQ.SCHEDULES"))?;
    let key = spelled(&queue);
    let body = html! {
        (queue_head(site, &queue, "/schedules"))
        (note(params))
        @if found.is_empty() {
            p.quiet { "No schedules here." }
        } @else {
            div.scroll { table {
                thead { tr {
                    th scope="col" { "Schedule" }
                    th scope="col" { "When" }
                    th scope="col" { "Next" }
                    th scope="col" { "Last" }
                    th.number.wide scope="col" { "Runs" }
                    th.number.wide scope="col" { "Skipped" }
                    th.wide scope="col" { "Payload" }
                    th scope="col" { span.hidden { "Actions" } }
                } }
                tbody { @for one in &found {
                    @let text = |field: &str| one.value(field).map(output::one_line).unwrap_or_default();
                    @let spelling = spelled(one.bytes("name").unwrap_or_default());
                    tr {
                        th scope="row" { (name(one.bytes("name").unwrap_or_default())) }
                        td { bdi { (text("spec")) } " " bdi.quiet { (text("tz")) } }
                        td { (instant(one.count("next-at"))) }
                        td {
                            (instant(one.count("last-at"))) " "
                            @if one.count("last-at") > 0 { bdi.quiet { (text("last-outcome")) } }
                        }
                        td.number.wide { (number(one.count("runs"))) }
                        td.number.wide { (number(one.count("skipped"))) }
                        td.cut.wide { bdi { (preview(one.bytes("payload").unwrap_or_default())) } }
                        td {
                            (button(site, "Run now",
                                &[("do", "fire"), ("name", &key), ("schedule", &spelling)]))
                            (button(site, "Remove",
                                &[("do", "unschedule"), ("name", &key), ("schedule", &spelling)]))
                        }
                    }
                } }
            } }
        }
        @if next != "0" {
            nav.pages aria-label="Pages" {
                a rel="next" href=(site.queue_href("/schedules", &queue, &[("cursor", &next)])) {
                    "next →"
                }
            }
        }
    };
    Ok(Page {
        title: output::name(&queue),
        renews: false,
        body,
    })
}

fn read(answer: &Value) -> Option<(String, Vec<Fields>)> {
    let [cursor, found] = reply::items(answer)? else {
        return None;
    };
    let cursor = match reply::int(cursor) {
        Some(number) => number.to_string(),
        None => reply::text(cursor)?,
    };
    let found = reply::items(found)?.iter().map(Fields::read);
    Some((cursor, found.collect::<Option<_>>()?))
}
