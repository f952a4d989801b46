//! Messages by id or by a pattern.

use maud::html;
use redis_mq_client::redis::{self, Value};

use super::{name, queue, queue_head, spelled, Page};
use crate::{
    commands::{
        find,
        web::{params::Params, site::Answer, site::Site},
    },
    failure::Failure,
    output,
};

/// How many places of the queue one step looks at, and how many steps a page makes.
const STEP: u64 = 2_000;
const STEPS: u64 = 4;

/// The message of that id, or a page of those that match.
pub async fn page(site: &Site, params: &Params) -> Result<Answer, Failure> {
    let queue = params.needed("name")?;
    let find = params.text("find").unwrap_or("*");
    if !find.contains(['*', '?', '[']) {
        let mut command = redis::cmd("MQ.STATUS");
        command.arg(&queue).arg(find);
        if site.link.ask(&command).await? != Value::Nil {
            let id = spelled(find.as_bytes());
            let address = site.queue_href("/message", &queue, &[("id", &id)]);
            return Ok(Answer::Elsewhere(address));
        }
    }
    let status = params.text("status");
    let (found, cursor, looked) = walk(site, params, &queue, find, status).await?;
    let body = html! {
        (queue_head(site, &queue, "/search"))
        (queue::search(site, &queue, find, status))
        p.quiet role="status" {
            (found.len()) " found"
            @if let Some(status) = status { " that are " (status) }
            @if cursor.is_some() { " among " (looked) " looked at here" }
        }
        @if !found.is_empty() {
            div.scroll { table {
                thead { tr { th scope="col" { "Id" } th scope="col" { "Status" } } }
                tbody { @for (id, status) in &found {
                    tr {
                        th scope="row" {
                            a href=(site.queue_href("/message", &queue, &[("id", &spelled(id))])) {
                                (name(id))
                            }
                        }
                        td { (output::name(status.as_bytes())) }
                    }
                } }
            } }
        }
        @if let Some(cursor) = cursor {
            nav.pages aria-label="Pages" {
                a rel="next" href=(site.queue_href("/search", &queue, &[
                    ("find", find), ("status", status.unwrap_or_default()), ("cursor", &cursor),
                ])) { "look further →" }
            }
        }
    };
    Ok(Answer::Page(Page {
        title: output::name(&queue),
        renews: false,
        body,
    }))
}

type Found = (find::Page, Option<String>, u64);

/// Looks at a part of the queue: what was found, where to go on, how many places were looked at.
async fn walk(
    site: &Site,
    params: &Params,
    queue: &[u8],
    find: &str,
    status: Option<&str>,
) -> Result<Found, Failure> {
    let mut cursor = params.text("cursor").unwrap_or("0").to_owned();
    let mut found = Vec::new();
    for step in 1..=STEPS {
        let mut command = redis::cmd("MQ.SCAN");
        command.arg(queue).arg(&cursor);
        if let Some(status) = status {
            command.arg("STATUS").arg(status);
        }
        // Where all match, a step is a page.
        let count = if find == "*" { queue::MOST } else { STEP };
        command.arg("MATCH").arg(find).arg("COUNT").arg(count);
        let answer = site.link.ask(&command).await?;
        if answer == Value::Nil {
            let queue = output::name(queue);
            return Err(Failure::no(format!("no such queue: {queue}")));
        }
        let (next, some) = find::read(&answer).ok_or_else(|| Failure::unexpected("MQ.SCAN"))?;
        found.extend(some);
        if next == "0" {
            return Ok((found, None, step * count));
        }
        cursor = next;
        if found.len() as u64 >= queue::MOST || step == STEPS {
            return Ok((found, Some(cursor), step * count));
        }
    }
    Ok((found, None, 0))
}
