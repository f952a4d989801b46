//! The groups of a queue.

use maud::html;
use redis_mq_client::redis::{self, Value};

use super::{button, instant, name, note, number, queue_head, spelled, Page};
use crate::{
    commands::{
        groups,
        web::{params::Params, site::Site},
    },
    duration,
    failure::Failure,
    output,
};

/// How many groups are looked at for a page.
const MOST: u64 = 500;

/// A page of groups, those with most waiting messages first.
pub async fn page(site: &Site, params: &Params) -> Result<Page, Failure> {
    let queue = params.needed("name")?;
    let mut command = redis::cmd("MQ.GROUPS");
    command
        .arg(&queue)
        .arg(params.text("cursor").unwrap_or("0"));
    command.arg("COUNT").arg(MOST);
    let answer = site.link.ask(&command).await?;
    if answer == Value::Nil {
        let queue = output::name(&queue);
        return Err(Failure::no(format!("no such queue: {queue}")));
    }
    let page = groups::read(&answer).ok_or_else(|| Failure::unexpected("MQ.GROUPS"))?;
    let (next, mut found) = page;
    found.sort_by_key(|group| std::cmp::Reverse(group.waiting));
    let key = spelled(&queue);
    let act = |what, group: &str, label| {
        button(
            site,
            label,
            &[
                ("do", what),
                ("name", &key),
                ("group", group),
                ("back", "groups"),
            ],
        )
    };
    let body = html! {
        (queue_head(site, &queue, "/groups"))
        (note(params))
        @if found.is_empty() {
            p.quiet { "No groups here." }
        } @else {
            div.scroll { table {
                thead { tr {
                    th scope="col" { "Group" }
                    th.number scope="col" { "Waiting" }
                    th.number scope="col" { "In flight" }
                    th.number scope="col" { "Oldest" }
                    th scope="col" { "State" }
                    th scope="col" { span.hidden { "Actions" } }
                } }
                tbody { @for group in &found {
                    @let spelling = spelled(&group.name);
                    tr {
                        th scope="row" { (name(&group.name)) }
                        td.number { (number(group.waiting)) }
                        td.number { (number(group.in_flight)) }
                        td.number {
                            @if group.waiting > 0 { (duration::show(group.oldest)) } @else { "–" }
                        }
                        td {
                            (output::name(group.state.as_bytes()))
                            @if group.until > 0 { ", ends " (instant(group.until)) }
                        }
                        td {
                            @if group.state == "paused" { (act("resume", &spelling, "Resume")) }
                            @else { (act("pause", &spelling, "Pause")) }
                            " "
                            a href=(site.queue_href("/limits", &queue,
                                &[("of", "group"), ("group", &spelling)])) { "Limits" }
                        }
                    }
                } }
            } }
        }
        @if next != "0" {
            nav.pages aria-label="Pages" {
                span { "sorted within this page" }
                a rel="next" href=(site.queue_href("/groups", &queue, &[("cursor", &next)])) { "next →" }
            }
        }
    };
    Ok(Page {
        title: output::name(&queue),
        renews: false,
        body,
    })
}
